"""``flip27 demo``; ``make demo`` runs it, too."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..commands import command
from ..rendering import Answer
from .display import render
from .program import DemoResult, DemoSettings, run

group = typer.Typer()
_USUAL = DemoSettings()


@command(
    group,
    "demo",
    example="flip27 demo --kills 3",
    answers="an object: files, batches, kills, restarts, rows_in, rows_out, lost, duplicated, exactly_once, "
    "output, state, seconds.",
)
def demo(
    files: Annotated[int, typer.Option("--files", min=1, help="Number of files to write.")] = _USUAL.files,
    rows_per_file: Annotated[
        int, typer.Option("--rows-per-file", min=1, help="Rows per file.")
    ] = _USUAL.rows_per_file,
    over_s: Annotated[
        float, typer.Option("--over-s", min=0, help="Seconds over which the files are written.")
    ] = _USUAL.over_s,
    files_per_batch: Annotated[
        int, typer.Option("--files-per-batch", min=1, help="Maximum number of files in one batch.")
    ] = _USUAL.files_per_batch,
    kills: Annotated[
        int, typer.Option("--kills", min=0, help="Number of crashes in the middle of a batch.")
    ] = _USUAL.kills,
    parent: Annotated[
        Path, typer.Option("--parent", help="Folder in which the run gets a new folder.")
    ] = _USUAL.parent,
    timeout_s: Annotated[
        float, typer.Option("--timeout-s", min=1, help="Time limit in seconds.")
    ] = _USUAL.timeout_s,
) -> Answer:
    """Stream files while the query is killed with SIGKILL, and count every row; needs pyspark and Java.

    The exit code is 1 if a row was lost or duplicated.
    """
    settings = DemoSettings(
        files=files,
        rows_per_file=rows_per_file,
        over_s=over_s,
        files_per_batch=files_per_batch,
        kills=kills,
        parent=parent,
        timeout_s=timeout_s,
    )
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
    return Answer(data=data, shown=[partial(render, result=result)], exit_code=result.exit_code)
