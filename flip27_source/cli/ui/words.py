"""Words: values as texts of the page. Every text passes here, before it is escaped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.filesize import decimal

from flip27_source.file_systems.secrets_in_texts import in_bytes
from flip27_source.snapshots.driver_condition import Condition

from ..rendering import ago, cell_text, printable, seconds, seconds_since
from ..watch.view import Frame

__all__ = ["ago", "seconds", "seconds_since"]
"""Words of other commands that templates use too."""

SIGNS = {
    Condition.RUNNING: "●",
    Condition.STOPPED: "■",
    Condition.FAILED: "✖",
    Condition.LOST: "▲",
    Condition.UNKNOWN: "?",
}
_MOST_BYTES_SHOWN, _MOST_BYTES_READ = 256, 4096
"""The latter for secrets that the end of the former would cut."""


def finalizer(hide: Callable[[str], str]) -> Callable[[Any], Any]:
    """What templates do with each value before it is escaped; ``hide`` masks secrets.

    Names, ids and words of our own, which browsers send back, pass as they are: templates escape them with
    ``| e``. A secret may be the name of a source, or a part of an id.
    """

    def text(value: Any) -> Any:
        if hasattr(value, "__html__"):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return f"{value:,}"
        return "-" if value is None else printable(hide(cell_text(value)))

    return text


def size(value: int | None) -> str:
    return "-" if value is None else decimal(value)


def catches_up(frame: Frame) -> str:
    """Whether the backlog is read faster than it grows."""
    if frame.condition in (Condition.UNKNOWN, None):
        return "it is not known whether its driver runs"
    if frame.condition != Condition.RUNNING:
        return "does not catch up: nothing reads it" if frame.backlog else "and nothing looks for more"
    if not frame.backlog:
        return "level"
    if frame.backlog_per_s is None:
        return "not known before the second batch"
    if frame.level_in_s is not None:
        return f"catches up: level in about {seconds(frame.level_in_s)}"
    return f"does not catch up: {frame.backlog_per_s:+,.1f} splits/s"


def first_bytes(value: bytes | None, hide: Callable[[str], str]) -> tuple[str, str]:
    """The beginning of a value, in hex and as text; ``hide`` masks the secrets of both."""
    whole = in_bytes((value or b"")[:_MOST_BYTES_READ], hide)
    data = whole[:_MOST_BYTES_SHOWN]
    more = " ..." if len(whole) > len(data) else ""
    return data.hex(" ") + more, data.decode(errors="replace") + more


def sign(condition: str | None) -> str:
    return SIGNS[Condition(condition or Condition.UNKNOWN)]
