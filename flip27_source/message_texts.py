"""Texts in error messages: quotations of long values, and long lists of names. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def quotation(value: str | bytes, most: int = 200) -> str:
    """The value in quotation marks; only its start and its size if it is longer than ``most``."""
    start = value[:most]
    text = repr(start if isinstance(start, str) else start.decode("utf-8", "replace"))
    if len(value) <= most:
        return text
    return f"{text}... ({len(value)} {'characters' if isinstance(value, str) else 'bytes'})"


def some_of(names: Sequence[str], most: int) -> str:
    """The first ``most`` names, separated by commas, and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
