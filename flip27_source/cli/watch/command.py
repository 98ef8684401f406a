"""``flip27 watch``: shows a source's work live, from its state location alone."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console

from ..commands import command, option, seconds
from ..rendering import Answer
from ..state.rows import Place
from .display import drawn
from .display import watch as watch_live
from .view import Watcher

group = typer.Typer()


@command(
    group,
    example="flip27 watch /ckpt/orders",
    answers="a list with one object for each lineage: lineage, at, checkpoint_id, batch_id, status, "
    "created_at, lag_s, event_time_lag_s, backlog, "
    "backlog_rows, backlog_bytes, backlog_age_s, live, finished, quarantined, rows_per_s, splits_per_s, "
    "batches, subtasks (subtask, splits, done, rows, duration_ms, host).",
)
def watch(
    place: Place,
    once: Annotated[bool, option("--once", "Print one frame and exit, as --json does.")] = False,
    interval: Annotated[
        float, option("--interval SECONDS", "Pause between two updates; at least 0.1.", seconds)
    ] = 1.0,
) -> Answer:
    """Show backlog, rows per second, lag, batches and subtasks of a source live; Ctrl-C ends it.

    Rows and times are only known if tasks report: set taskReports=always to have them for every source.
    """
    watcher = Watcher(place=place)
    frames = watcher.frames(_now())

    def draw(console: Console) -> None:
        if once or not console.is_terminal:
            console.print(drawn(frames))
        else:
            watch_live(lambda: watcher.frames(_now()), console, _ticks(max(0.1, interval)))

    return Answer(data=frames, shown=[draw])


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _ticks(interval_s: float) -> Iterator[None]:
    while True:
        yield
        time.sleep(interval_s)
