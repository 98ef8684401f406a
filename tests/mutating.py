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
