"""``make demo``: files stream through ``format("flip27")`` while the query is killed repeatedly.

A writer process writes files; a query process streams them to Parquet, is killed with SIGKILL and with its
JVM in the middle of a batch, and is started again. At the end every written row is compared with every
delivered row. This module controls the two processes, ``writer`` and ``query``.
"""

from __future__ import annotations

import argparse
import enum
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from .display import Display, render
from .folder import DemoFolder
from .processes import FINISH, ChildProcess, termination_raises
from .verdict import Comparison, DeliveredRows, compare

_POLL_S = 0.01
_DISPLAY_EVERY_S = 0.2

T = TypeVar("T")


class DemoError(Exception):
    """The demo itself failed; this says nothing about lost rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """How large the demo is.

    Attributes:
        files: number of files that the writer writes.
        rows_per_file: rows in each file.
        over_s: seconds over which the files are written.
        files_per_batch: maximum number of files in one batch of the query.
        kills: how many times the query is killed in a batch.
        parent: the folder in which the run's folder is created.
        timeout_s: time limit of the whole demo.
    """

    files: int = 120
    rows_per_file: int = 1_000
    over_s: float = 12.0
    files_per_batch: int = 15
    kills: int = 2
    parent: Path = Path("demo-output")
    timeout_s: float = 600.0

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
    """One crash: the batch, and its progress."""

    batch: int
    reached: Reached


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The result of the demo.

    Attributes:
        restarts: how many times the query was started again: after each kill, and after each
            signal that came too late to hit a batch.
    """

    folder: DemoFolder
    files: int
    batches: int
    kills: tuple[Kill, ...]
    restarts: int
    files_left_behind: int
    comparison: Comparison
    seconds: float

    @property
    def exit_code(self) -> int:
        """0 if every row was delivered exactly once."""
        return 0 if self.comparison.exactly_once else 1


def run(settings: DemoSettings, console: Console) -> DemoResult:
    """Run the whole demo, without printing the result.

    Raises:
        DemoError: a process failed, or the time limit was exceeded.
    """
    if not 0 <= settings.kills < settings.fewest_batches:
        raise DemoError(
            f"{settings.kills} kills need at least {settings.kills + 1} batches, but {settings.files} files "
            f"with {settings.files_per_batch} in a batch only guarantee {settings.fewest_batches}"
        )
    began = time.monotonic()
    folder = DemoFolder.new(settings.parent)
    rows = settings.files * settings.rows_per_file
    with (
        termination_raises(),
        # A short path, because paths of sockets in it are limited to about 100 characters.
        tempfile.TemporaryDirectory(prefix="flip27-demo-") as scratch,
        Display(console, files=settings.files, rows=rows) as display,
    ):
        course = _Course(settings, folder, Path(scratch), display)
        kills = course.run()
    return DemoResult(
        folder=folder,
        files=folder.landed(),
        batches=folder.committed_batches(),
        kills=kills,
        restarts=course.starts - 1,
        files_left_behind=len(folder.sink.left_behind()),
        comparison=compare(folder),
        seconds=time.monotonic() - began,
    )


class _Course:
    """One run of the demo: starts, kills and watches the processes."""

    def __init__(self, settings: DemoSettings, folder: DemoFolder, scratch: Path, display: Display) -> None:
        self._settings = settings
        self._scratch = scratch
        self._folder = folder
        self._display = display
        self._deadline = time.monotonic() + settings.timeout_s
        self._delivered = DeliveredRows(folder)
        self._displayed_at = 0.0
        self._left_behind: set[Path] = set()
        self.starts = 0

    def run(self) -> tuple[Kill, ...]:
        """Run the writer and the query with all kills, and then the query to its end."""
        kills: list[Kill] = []
        with self._writer() as writer:
            while len(kills) < self._settings.kills:
                kill = self._start_and_kill(writer, len(kills))
                if kill is not None:
                    kills.append(kill)
            self._start_and_finish(writer)
        return tuple(kills)

    def _start_and_kill(self, writer: ChildProcess, number: int) -> Kill | None:
        """Start the query and kill it in a batch; None if the signal came too late.

        The kills are spread over the guaranteed batches, so each kill has a batch.
        Every other kill waits until rows are on disk, which the query must write again.
        """
        share = (number + 1) / (self._settings.kills + 1)
        due = max(1, int(self._settings.fewest_batches * share))
        with self._query() as query:
            batch = self._until(lambda: self._batch_in(due, with_rows=number % 2 == 1), writer, query)
            query.kill()
        if self._folder.open_batch() != batch:
            return None
        kill = Kill(batch=batch, reached=self._reached(batch))
        self._left_behind = self._folder.sink.left_behind()
        self._display.say(f"[bold red]SIGKILL[/] in the middle of batch {batch}: {kill.reached.value}")
        return kill

    def _start_and_finish(self, writer: ChildProcess) -> None:
        """Start the query and let it read all remaining data."""
        with self._query() as query:
            self._until(lambda: True if writer.popen.poll() is not None else None, writer, query)
            query.tell(FINISH)
            self._until(lambda: True if query.popen.poll() is not None else None, writer, query)
        self._show()

    def _batch_in(self, due: int, *, with_rows: bool) -> int | None:
        """The running batch, once ``due`` batches are committed."""
        if self._folder.committed_batches() < due:
            return None
        batch = self._folder.open_batch()
        if with_rows and not self._folder.sink.left_behind() - self._left_behind:
            return None
        return batch

    def _reached(self, batch: int) -> Reached:
        if self._folder.sink.batches() > batch:
            return Reached.WRITTEN
        if self._folder.sink.left_behind() - self._left_behind:
            return Reached.WRITING
        return Reached.PLANNED

    def _until(self, outcome: Callable[[], T | None], writer: ChildProcess, query: ChildProcess) -> T:
        """Wait for an outcome that is not None, and check both processes while waiting."""
        while True:
            # The outcome comes first, so the check below also finds a process that has failed since.
            found = outcome()
            for name, process in (("writer", writer), ("query", query)):
                if process.popen.poll():
                    raise DemoError(f"the {name} failed; the end of {process.log}:\n{process.log_tail()}")
            if found is not None:
                return found
            if time.monotonic() > self._deadline:
                raise DemoError(
                    f"the demo has not finished after {self._settings.timeout_s:.0f} s; "
                    f"the end of {query.log}:\n{query.log_tail()}"
                )
            if time.monotonic() > self._displayed_at + _DISPLAY_EVERY_S:
                self._show()
            time.sleep(_POLL_S)

    def _show(self) -> None:
        self._displayed_at = time.monotonic()
        self._display.update(files_written=self._folder.landed(), rows_delivered=self._delivered.count())

    def _writer(self) -> ChildProcess:
        settings = self._settings
        sizes = {"--files": settings.files, "--rows": settings.rows_per_file, "--over-s": settings.over_s}
        words = [str(word) for option in sizes.items() for word in option]
        writer = ChildProcess(
            "flip27_source.cli.demo.writer", [str(self._folder.landing), *words], log=self._folder.log
        )
        self._display.say(f"writer started: process {writer.popen.pid}")
        return writer

    def _query(self) -> ChildProcess:
        self.starts += 1
        per_batch = str(self._settings.files_per_batch)
        query = ChildProcess(
            "flip27_source.cli.demo.query",
            [str(self._folder.root), str(self._scratch), "--files-per-batch", per_batch],
            log=self._folder.log,
        )
        self._display.say(f"query started{' again' if self.starts > 1 else ''}: process {query.popen.pid}")
        return query


def parse(words: Sequence[str] | None) -> DemoSettings:
    """The settings on a command line."""
    usual = DemoSettings()
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--files", type=int, default=usual.files, help="files to write")
    parser.add_argument("--rows-per-file", type=int, default=usual.rows_per_file, help="rows per file")
    parser.add_argument(
        "--over-s", type=float, default=usual.over_s, help="seconds over which the files are written"
    )
    parser.add_argument(
        "--files-per-batch",
        type=int,
        default=usual.files_per_batch,
        help="maximum number of files in a batch",
    )
    parser.add_argument("--kills", type=int, default=usual.kills, help="crashes in the middle of a batch")
    parser.add_argument(
        "--parent", type=Path, default=usual.parent, help="folder in which the run gets a new folder"
    )
    parser.add_argument("--timeout-s", type=float, default=usual.timeout_s, help="time limit in seconds")
    return DemoSettings(**vars(parser.parse_args(words)))


def main(words: Sequence[str] | None = None) -> int:
    """The command; returns 0 if every row was delivered exactly once."""
    settings = parse(words)
    console = Console()
    try:
        result = run(settings, console)
    except DemoError as error:
        console.print(f"demo: {error}", style="red", markup=False)
        return 2
    except KeyboardInterrupt:
        console.print("demo: interrupted; all processes were stopped", style="red")
        return 130
    render(console, result)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
