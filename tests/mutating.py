"""Defects put back: a function of the real code is replaced while a test runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

Patch = Callable[[pytest.MonkeyPatch], None]


def around(owner: Any, name: str) -> Callable[[Callable[..., Any]], Patch]:
    """Make a function the replacement of ``owner.name``; its first argument is the original function."""

    def patch_of(replacement: Callable[..., Any]) -> Patch:
        @functools.wraps(replacement)
        def patch(monkeypatch: pytest.MonkeyPatch) -> None:
            original = getattr(owner, name)

            @functools.wraps(original)
            def replaced(*arguments: Any, **more: Any) -> Any:
                return replacement(original, *arguments, **more)

            monkeypatch.setattr(owner, name, replaced)

        return patch

    return patch_of


def replacing(name: str, owner: Any, attribute: str, value: Any) -> Patch:
    """A defect of this name: an attribute has a wrong value."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(owner, attribute, value)

    patch.__name__ = name
    return patch


def assert_found(simulate: Callable[[int], object], seeds: int) -> None:
    """Fail unless one of the seeds fails."""
    for seed in range(seeds):
        try:
            simulate(seed)
        except Exception:  # noqa: BLE001 - includes errors that the defect itself raises
            return
    pytest.fail(f"none of {seeds} seeds finds the defect")
