"""``flip27 demo``; ``make demo`` runs it, too."""

from __future__ import annotations

import dataclasses
from functools import partial

import typer
from rich.console import Console

from ..commands import DONE, REFUSED, command
from ..rendering import Answer
from .display import render
from .program import DemoResult, DemoSettings, run

group = typer.Typer()


@command(
    group,
    "demo",
    example="flip27 demo --kills 3",
    answers="an object: files, batches, kills, restarts, rows_in, rows_out, lost, duplicated, exactly_once, "
    "output, state, seconds.",
)
def demo(settings: DemoSettings) -> Answer:
    """Stream files while the query is killed with SIGKILL, and count every row; needs pyspark and Java.

    The exit code is 1 if a row was lost or duplicated.
    """
    return answer_of(run(settings, Console(stderr=True)))


def answer_of(result: DemoResult) -> Answer:
    data = {
        "files": result.files,
        "batches": result.batches,
        "kills": [{"batch": kill.batch, "reached": kill.reached.value} for kill in result.kills],
        "restarts": result.restarts,
        **dataclasses.asdict(result.comparison),
        "exactly_once": result.comparison.exactly_once,
        "output": str(result.folder.output),
        "state": str(result.folder.state),
        "seconds": result.seconds,
    }
    exit_code = DONE if result.comparison.exactly_once else REFUSED
    return Answer(data=data, shown=[partial(render, result=result)], exit_code=exit_code)
