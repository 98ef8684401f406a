"""``flip27 demo``: files stream through ``format("flip27")`` while the query is killed repeatedly.

The demo writes files. A process (``query``) streams them to Parquet, is killed with SIGKILL and with its JVM
in the middle of a batch, and is started again. At the end all written rows are compared with all delivered
rows.
"""

from __future__ import annotations

import enum
import shutil
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from flip27_source.errors import Flip27Error
from flip27_source.options import integer

from ..commands import DONE, REFUSED, OptionGroup, command, option
from ..rendering import Answer
from .data import Comparison, compare, delivered_rows, write_file
from .display import Display, render
from .folder import DemoFolder
from .page import opened
from .process import ChildProcess

group = typer.Typer()
_POLL_S = 0.01
_DISPLAY_EVERY_S = 0.2

T = TypeVar("T")


class DemoError(Flip27Error):
    """The demo itself failed; this says nothing about lost rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings(OptionGroup):
    """How large the demo is, and how long it may take."""

    files: Annotated[int, typer.Option("--files", min=1, help="Number of files to write.")] = 120
    rows_per_file: Annotated[int, typer.Option("--rows-per-file", min=1, help="Rows per file.")] = 1_000
    over_s: Annotated[
        float, typer.Option("--over-s", min=0, help="Seconds over which the files are written.")
    ] = 12.0
    files_per_batch: Annotated[
        int, typer.Option("--files-per-batch", min=1, help="Maximum number of files in one batch.")
    ] = 15
    kills: Annotated[
        int, typer.Option("--kills", min=0, help="Number of crashes in the middle of a batch.")
    ] = 2
    parent: Annotated[Path, typer.Option("--parent", help="Folder in which the run gets a new folder.")] = (
        Path("demo-output")
    )
    timeout_s: Annotated[float, typer.Option("--timeout-s", min=1, help="Time limit in seconds.")] = 600.0
    ui: Annotated[
        bool, typer.Option("--ui", help="Show the query on a web page meanwhile; needs the extra ui.")
    ] = False
    port: Annotated[
        int, option("--port N", "The port of the page; 0 for any free one.", integer(minimum=0))
    ] = 0

    @property
    def fewest_batches(self) -> int:
        """Minimum number of batches, however the files arrive."""
        return -(-self.files // self.files_per_batch)


class Reached(enum.Enum):
    """The progress of a batch when its query was killed."""

    PLANNED = "planned, nothing written"
    WRITING = "rows partly written"
    WRITTEN = "all rows written, not committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    batch: int
    reached: Reached


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The result of the demo.

    Attributes:
        restarts: how many times the query was started again: after each kill, and after each
            signal that came too late to hit a batch.
        has_page: whether a page has shown it.
    """

    folder: DemoFolder
    files: int
    batches: int
    kills: tuple[Kill, ...]
    restarts: int
    files_left_behind: int
    comparison: Comparison
    seconds: float
    has_page: bool = False


def run(settings: DemoSettings, console: Console) -> DemoResult:
    """Run the whole demo, without printing the result.

    Raises:
        DemoError: the query failed, or the time limit was exceeded.
        OptionError: the page cannot be served.
    """
    if not 0 <= settings.kills < settings.fewest_batches:
        raise DemoError(
            f"{settings.kills} kills need at least {settings.kills + 1} batches, but {settings.files} files "
            f"with {settings.files_per_batch} in a batch only guarantee {settings.fewest_batches}",
            remedy="set more --files, fewer --files-per-batch or fewer --kills",
        )
    began = time.monotonic()
    with opened(settings.port) if settings.ui else nullcontext() as show:
        folder = DemoFolder.new(settings.parent)
        url = None if show is None else show(folder)
        with Display(console, files=settings.files, rows=settings.files * settings.rows_per_file) as display:
            course = _Course(settings, folder, display, url)
            kills = course.run()
        shutil.rmtree(folder.scratch, ignore_errors=True)
        return DemoResult(
            folder=folder,
            files=settings.files,
            batches=folder.committed_batches(),
            kills=kills,
            restarts=course.starts - 1,
            files_left_behind=len(folder.left_behind()),
            comparison=compare(folder),
            seconds=time.monotonic() - began,
            has_page=url is not None,
        )


class _Course:
    """One run of the demo: writes the files, and starts, kills and watches the query."""

    def __init__(self, settings: DemoSettings, folder: DemoFolder, display: Display, url: str | None) -> None:
        self._settings = settings
        self._folder = folder
        self._display = display
        self._url = url
        self._began = time.monotonic()
        self._written = 0
        self._displayed_at = 0.0
        self._left_behind: set[Path] = set()
        self.starts = 0

    def run(self) -> tuple[Kill, ...]:
        kills: list[Kill] = []
        while len(kills) < self._settings.kills:
            kill = self._start_and_kill(len(kills))
            if kill is not None:
                kills.append(kill)
        with self._query() as query:
            self._until(lambda: self._written == self._settings.files or None, query)
            query.tell("finish")
            self._until(lambda: query.popen.poll() is not None or None, query)
        self._show()
        return tuple(kills)

    def _start_and_kill(self, number: int) -> Kill | None:
        """Start the query and kill it in a batch; None if the signal came too late.

        The kills are spread over the guaranteed batches, so each kill has a batch.
        Every other kill waits until rows are on disk, which the query must write again.
        """
        share = (number + 1) / (self._settings.kills + 1)
        due = max(1, int(self._settings.fewest_batches * share))
        with self._query() as query:
            batch = self._until(lambda: self._batch_in(due, with_rows=number % 2 == 1), query)
        if self._folder.open_batch() != batch:
            return None
        kill = Kill(batch=batch, reached=self._reached(batch))
        self._left_behind = self._folder.left_behind()
        self._display.say(f"[bold red]SIGKILL[/] in the middle of batch {batch}: {kill.reached.value}")
        return kill

    def _batch_in(self, due: int, *, with_rows: bool) -> int | None:
        """The running batch, once ``due`` batches are committed."""
        if self._folder.committed_batches() < due:
            return None
        batch = self._folder.open_batch()
        if with_rows and not self._folder.left_behind() - self._left_behind:
            return None
        return batch

    def _reached(self, batch: int) -> Reached:
        if self._folder.written_batches() > batch:
            return Reached.WRITTEN
        return Reached.WRITING if self._folder.left_behind() - self._left_behind else Reached.PLANNED

    def _until(self, outcome: Callable[[], T | None], query: ChildProcess) -> T:
        """Write files and watch the query until there is an outcome other than None."""
        while True:
            self._write_due_files()
            # The outcome comes first, so the check below also finds a query that has failed since.
            result = outcome()
            if query.popen.poll():
                raise self._error(f"the query failed; the end of {query.log}:\n{query.log_tail()}")
            if result is not None:
                return result
            if time.monotonic() > self._began + self._settings.timeout_s:
                limit = f"the demo has not finished after {self._settings.timeout_s:.0f} s"
                raise self._error(f"{limit}; the end of {query.log}:\n{query.log_tail()}")
            if time.monotonic() > self._displayed_at + _DISPLAY_EVERY_S:
                self._show()
            time.sleep(_POLL_S)

    def _error(self, what: str) -> DemoError:
        return DemoError(what, remedy=f"see {self._folder.log}")

    def _write_due_files(self) -> None:
        settings = self._settings
        passed_s = time.monotonic() - self._began
        while self._written < settings.files and settings.over_s * self._written / settings.files <= passed_s:
            write_file(self._folder.landing, self._written, settings.rows_per_file)
            self._written += 1

    def _show(self) -> None:
        self._displayed_at = time.monotonic()
        if self._url is not None and self._folder.has_batch():  # before, the page has nothing to show
            self._display.say(f"the query's page: [bold]{self._url}[/]")
            self._url = None
        self._display.update(files_written=self._written, rows_delivered=delivered_rows(self._folder))

    def _query(self) -> ChildProcess:
        self.starts += 1
        query = ChildProcess(
            "flip27_source.cli.demo.query",
            [str(self._folder.root), str(self._settings.files_per_batch)],
            log=self._folder.log,
        )
        self._display.say(f"query started{' again' if self.starts > 1 else ''}: process {query.popen.pid}")
        return query


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
    try:
        return answer_of(run(settings, Console(stderr=True)))
    except OSError as error:
        raise DemoError(
            f"the demo cannot use {settings.parent}: {error}",
            remedy="give a folder that can be written and has free space: --parent",
        ) from error


def answer_of(result: DemoResult) -> Answer:
    data = {
        "files": result.files,
        "batches": result.batches,
        "kills": [{"batch": kill.batch, "reached": kill.reached.value} for kill in result.kills],
        "restarts": result.restarts,
        **asdict(result.comparison),
        "exactly_once": result.comparison.exactly_once,
        "output": str(result.folder.output),
        "state": str(result.folder.state),
        "seconds": result.seconds,
    }
    exit_code = DONE if result.comparison.exactly_once else REFUSED
    return Answer(data=data, shown=[partial(render, result=result)], exit_code=exit_code)
