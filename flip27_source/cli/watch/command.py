"""``flip27 watch``: what a source is doing, live, from its state location alone."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console

from ..answers import Answer
from ..commands import Lineage, Location, StateLocation, Storage, command, storage_options
from ..state.rows import Place
from .display import drawn
from .display import watch as watch_live
from .view import Watcher

group = typer.Typer()


@command(
    group,
    "watch",
    example="flip27 watch /ckpt/orders",
    answers="a list with one object for each lineage: lineage, at, checkpoint_id, batch_id, status, "
    "created_at, lag_s, event_time_lag_s, backlog, "
    "backlog_rows, backlog_bytes, backlog_age_s, live, finished, quarantined, rows_per_s, splits_per_s, "
    "batches, subtasks (subtask, splits, done, rows, duration_ms, host).",
)
def watch(
    location: Location,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end; so does --json.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, metavar="SECONDS", help="Pause between two looks.")
    ] = 1.0,
    lineage: Lineage = None,
    state_location: StateLocation = None,
    storage: Storage = None,
) -> Answer:
    """Backlog, rows per second, lag, batches and subtasks of a source, live; Ctrl-C ends it.

    Rows and times are known where tasks report: set taskReports=always for those of every source.
    """
    place = Place(
        location=location, lineage=lineage, state_location=state_location, storage=storage_options(storage)
    )
    watcher = Watcher(place=place)
    frames = watcher.frames(_now())

    def draw(console: Console) -> None:
        if once or not console.is_terminal:
            console.print(drawn(frames))
        else:
            watch_live(lambda: watcher.frames(_now()), console, _ticks(interval))

    return Answer(data=frames, shown=[draw])


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _ticks(interval_s: float) -> Iterator[None]:
    while True:
        yield
        time.sleep(interval_s)
