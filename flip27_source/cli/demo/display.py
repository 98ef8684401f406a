"""The demo's display: progress bars while it runs, a table at the end. Knows nothing about processes."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..rendering import Hide

if TYPE_CHECKING:
    from .command import DemoResult


class Display:
    """Two bars, one for the writer and one for the query, and lines above them."""

    def __init__(self, console: Console, *, files: int, rows: int) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", justify="right"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._written = self._progress.add_task("files written", total=files)
        self._delivered = self._progress.add_task("rows delivered", total=rows)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, *, files_written: int, rows_delivered: int) -> None:
        self._progress.update(self._written, completed=files_written)
        self._progress.update(self._delivered, completed=rows_delivered)

    def say(self, line: str) -> None:
        self._progress.console.print(line, highlight=False)


def render(console: Console, _hide: Hide, *, result: DemoResult) -> None:
    compared = result.comparison
    table = Table(title="flip27 demo", show_header=False, min_width=46)
    table.add_column(justify="left")
    table.add_column(justify="right")
    for name, number in (
        ("files", result.files),
        ("rows in", compared.rows_in),
        ("rows out", compared.rows_out),
        ("batches", result.batches),
        ("restarts after SIGKILL in a batch", len(result.kills)),
        ("files of killed batches, not counted", result.files_left_behind),
    ):
        table.add_row(name, f"{number:,}")
    table.add_section()
    for name, number in (("lost", compared.lost), ("duplicated", compared.duplicated)):
        table.add_row(f"[bold]{name}", f"[bold {'red' if number else 'green'}]{number:,}")
    console.print(table)
    for name, path in (
        ("output", result.folder.output),
        ("state", result.folder.state),
        ("log", result.folder.log),
    ):
        console.print(f"{name:>7}  {escape(str(path))}", highlight=False, soft_wrap=True)
    if result.has_page:
        again = shlex.join(["flip27", "ui", "--checkpoint-location", str(result.folder.checkpoint)])
        console.print(f"   page  {escape(again)}", highlight=False, soft_wrap=True)
    if compared.exactly_once:
        console.print(f"Every row exactly once, in {result.seconds:.0f} s.", style="bold green")
    else:
        console.print("Rows were lost or duplicated: this is a bug, please report it.", style="bold red")
