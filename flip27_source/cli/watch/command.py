"""``flip27 watch``: shows a source's work live, from its state location alone: a panel for each lineage."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..commands import DONE, REFUSED, command, option, seconds
from ..rendering import Answer, Hide, printable
from ..state.rows import Place
from .facts import Fact, facts, failed_checkpoints, numbers
from .look import Looking
from .remarks import remarks
from .view import Frame, SubtaskProgress, Watcher

group = typer.Typer()
_MOST_SUBTASKS = 32
_BAR_WIDTH = 24
_UNDELIVERED = ("quarantined", "ignored", "data lost")


@command(
    group,
    example="flip27 watch /ckpt/orders",
    answers="a list with one object for each lineage: lineage, at, driver, condition, unread, error, remedy, "
    "failed_checkpoints, last_failure, checkpoint_id, batch_id, status, created_at, complete_id, "
    "complete_at, lag_s, event_time_lag_s, "
    "checkpoint_bytes, backlog, waiting, backlog_rows, backlog_bytes, backlog_age_s, backlog_per_s, "
    "limited_by (files, rows, bytes), sized (target_ms, reason, files, rows, bytes), event_time (latest_us, "
    "middle_2us, smallest_delay_ms, late), horizon (latest_us, slowest, paused), live, finished, "
    "quarantined, ignored, data_losses, rows_per_s, splits_per_s, batches, report_demand, subtasks (subtask, "
    "splits, done, rows, duration_ms, host), standing (heard_at, discovered_at, edits and savepoints: at, "
    "checkpoint_id, said; started_from, owns, progress: title, said, columns, rows), looked (at, took_s, "
    "tables, error, remedy, first_bytes).",
)
def watch(
    place: Place,
    once: Annotated[bool, option("--once", "Print one frame and exit, as --json does.")] = False,
    interval: Annotated[
        float, option("--interval SECONDS", "Pause between two updates; at least 0.1.", seconds)
    ] = 1.0,
    *,
    looking: Looking,
) -> Answer:
    """Show backlog, rows per second, lag, batches and tasks (subtasks) of a source; Ctrl-C ends it.

    Times of tasks are only known if these report: set taskReports=always to have them for every source. Rows
    are known then, or if the source tells those of each split.
    """
    given = looking.options(place.stored.files.storage)
    watcher = Watcher(place=place)
    if given is not None:
        watcher.look_into_sources(given, _now())
    frames = watcher.frames(_now())

    def draw(console: Console, hide: Hide) -> None:
        if once or not console.is_terminal:
            console.print(drawn(frames, hide))
        else:
            watch_live(lambda: watcher.frames(_now()), console, _ticks(max(0.1, interval)), hide)

    is_damaged = any(frame.unread is not None for frame in frames)
    return Answer(data=frames, shown=[draw], exit_code=REFUSED if is_damaged else DONE)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _ticks(interval_s: float) -> Iterator[None]:
    while True:
        yield
        time.sleep(interval_s)


def drawn(frames: Sequence[Frame], hide: Hide) -> RenderableType:
    return Group(*(_panel(frame, lambda text: printable(hide(text))) for frame in frames))


def watch_live(
    look: Callable[[], Sequence[Frame]], console: Console, ticks: Iterable[None], hide: Hide
) -> None:
    """Update the display at each tick, until the ticks end or the user interrupts."""
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) as live:
        for _ in ticks:
            live.update(drawn(look(), hide), refresh=True)


def _panel(frame: Frame, plain: Hide) -> Panel:
    if frame.checkpoint_id is None:
        said = Group(
            *_driver(frame, plain), "no checkpoint yet" if frame.unread is None else "cannot be read"
        )
        return Panel(said, title=escape(frame.lineage), title_align="left")
    grid = Table.grid(padding=(0, 2))
    cells = [cell for fact in numbers(frame) for cell in (Text(fact.name, style="dim"), _number(fact))]
    for first in range(0, len(cells), 4):
        grid.add_row(*cells[first : first + 4])
    lines = [Text(plain(remark)) for remark in remarks(frame)]
    lines += [Text(plain(f"{fact.name}: {fact.said}")) for fact in facts(frame)]
    return Panel(
        Group(*_driver(frame, plain), grid, *lines, _subtasks(frame.subtasks, plain)),
        title=escape(frame.lineage),
        title_align="left",
    )


def _driver(frame: Frame, plain: Hide) -> list[Text]:
    """Lines on whether the source runs, and on the error that has ended it."""
    lines = [] if frame.driver is None else [Text(plain(frame.driver))]
    lines += [
        Text(plain(error), style="bold red") for error in (frame.unread, frame.error) if error is not None
    ]
    if frame.remedy is not None:
        lines.append(Text(plain(f"What to do: {frame.remedy}")))
    failed = failed_checkpoints(frame)
    if failed is not None:
        lines.append(Text(plain(failed)))
    return lines


def _subtasks(subtasks: Sequence[SubtaskProgress], plain: Hide) -> Table:
    table = Table.grid(padding=(0, 2))
    for item in subtasks[:_MOST_SUBTASKS]:
        bar = ProgressBar(total=item.splits or 1, completed=item.done, width=_BAR_WIDTH)
        reported = "" if item.rows is None else f"{item.rows:,} rows, {item.duration_ms} ms on {item.host}"
        read = f"{item.done}/{item.splits} splits"
        table.add_row(f"subtask {item.subtask}", bar, read, escape(plain(reported)))
    if len(subtasks) > _MOST_SUBTASKS:
        table.add_row(f"and {len(subtasks) - _MOST_SUBTASKS} more")
    return table


def _number(fact: Fact) -> Text:
    is_bad = fact.name in _UNDELIVERED and not fact.said.startswith("0 ")
    return Text(fact.said, style="bold red" if is_bad else "")
