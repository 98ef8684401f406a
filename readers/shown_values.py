"""Values as they are shown in messages."""

from __future__ import annotations


def shown(value: str | bytes, most: int = 200) -> str:
    """The beginning of a value, in quotes; bytes are shown as UTF-8."""
    start = value[:most]
    text = repr(start.decode("utf-8", "replace") if isinstance(start, bytes) else start)
    unit = "bytes" if isinstance(value, bytes) else "characters"
    return text if len(value) <= most else f"{text}... ({len(value)} {unit})"
