"""The display of ``flip27 watch``: one panel for each lineage, with its subtasks as progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from .view import Frame, SubtaskProgress

_MOST_SUBTASKS = 32
_BAR_WIDTH = 24


def drawn(frames: Sequence[Frame]) -> RenderableType:
    return Group(*(_panel(frame) for frame in frames))


def watch(look: Callable[[], Sequence[Frame]], console: Console, ticks: Iterable[None]) -> None:
    """Update the display at each tick, until the ticks end or the user interrupts."""
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) as live:
        for _ in ticks:
            live.update(drawn(look()), refresh=True)


def _panel(frame: Frame) -> Panel:
    if frame.checkpoint_id is None:
        return Panel("no checkpoint yet", title=escape(frame.lineage), title_align="left")
    numbers = Table.grid(padding=(0, 2))
    for left, right in (
        (("checkpoint", _checkpoint(frame)), ("batches retained", str(frame.batches))),
        (("backlog", _backlog(frame)), ("lag", _measured(frame.lag_s, " s"))),
        (("rows/s", _measured(frame.rows_per_s)), ("splits/s", _measured(frame.splits_per_s))),
        (("live", _count(frame.live, "split")), ("finished", _count(frame.finished, "split"))),
        (("quarantined", _quarantined(frame)), ("event time lag", _measured(frame.event_time_lag_s, " s"))),
    ):
        numbers.add_row(f"[dim]{left[0]}[/]", left[1], f"[dim]{right[0]}[/]", right[1])
    return Panel(Group(numbers, _subtasks(frame.subtasks)), title=escape(frame.lineage), title_align="left")


def _subtasks(subtasks: Sequence[SubtaskProgress]) -> Table:
    table = Table.grid(padding=(0, 2))
    for item in subtasks[:_MOST_SUBTASKS]:
        bar = ProgressBar(total=item.splits or 1, completed=item.done, width=_BAR_WIDTH)
        reported = "" if item.rows is None else f"{item.rows:,} rows, {item.duration_ms} ms on {item.host}"
        table.add_row(f"subtask {item.subtask}", bar, f"{item.done}/{item.splits} splits", escape(reported))
    if len(subtasks) > _MOST_SUBTASKS:
        table.add_row(f"and {len(subtasks) - _MOST_SUBTASKS} more")
    return table


def _checkpoint(frame: Frame) -> str:
    batch = "" if frame.batch_id is None else f", batch {frame.batch_id}"
    return f"{frame.checkpoint_id}{batch}, {frame.status}"


def _quarantined(frame: Frame) -> str:
    said = _count(frame.quarantined, "split")
    return f"[bold red]{said}[/]" if frame.quarantined else said


def _backlog(frame: Frame) -> str:
    parts = [_count(frame.backlog, "split")]
    if frame.backlog_rows is not None:
        parts.append(_count(frame.backlog_rows, "row"))
    if frame.backlog_bytes is not None:
        parts.append(decimal(frame.backlog_bytes))
    if frame.backlog_age_s is not None:
        parts.append(f"since {_measured(frame.backlog_age_s, ' s')}")
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _measured(number: float | None, unit: str = "") -> str:
    return "unknown" if number is None else f"{number:,.1f}{unit}"
