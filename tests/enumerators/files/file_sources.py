"""Files, sources that read them, and three ways to run such a source: in runs, in rounds, or as a query."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flip27_source.coordination.batch_limits import UNLIMITED, Limits
from flip27_source.coordination.checkpoints import Snapshot
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.listing.lister import FileFound, FileInfo, Lister
from flip27_source.enumerators.files.position import FilesPosition
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.options import Options
from flip27_source.reader import ReadsRanges, SplitReader
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine
from tests.toy_sources import (
    INITIAL,
    CountingStore,
    EchoReader,
    Works,
    coordinator_of,
    freeze,
    holder_of,
    planned_splits,
    source_of,
)


def write(folder: Path, *names: str, data: bytes = b"data", modified_s: float | None = None) -> None:
    """Write files with this content."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if modified_s is not None:
            os.utime(path, (modified_s, modified_s))


class WholeFiles(EchoReader):
    """Reads only whole files."""


class Ranges(EchoReader, ReadsRanges):
    """Reads ranges of all files except those whose names end in .gz."""

    @classmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        return not path.endswith(".gz")


def files_source(
    path: Path | str | None, reader: type[SplitReader[Any]] = WholeFiles, **options: Any
) -> Source:
    """A source of files; two underscores in the name of an option stand for a dot."""
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    if path is not None:
        given["path"] = str(path)
    return source_of(FilesEnumerator, given, reader)


def discovering(source: Source) -> FilesEnumerator:
    """An enumerator whose discovery the test calls."""
    coordinator = coordinator_of(FilesEnumerator, options=source.options, reader_type=source.reader_type)
    assert isinstance(coordinator.enumerator, FilesEnumerator)
    return coordinator.enumerator


class GivenFiles(Lister):
    """Lists paths that do not exist in any file system."""

    def __init__(self) -> None:
        self.infos: dict[str, FileInfo] = {}

    def check_root(self) -> None:
        pass

    def put(self, *paths: str, modified_s: int = 1_767_225_600) -> None:
        self.infos |= {path: FileInfo(1000, modified_s * 1_000_000) for path in paths}

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        for path, info in self.infos.items():
            yield path, lambda info=info: info  # type: ignore[misc]


def names_of(splits: list[FileSplit]) -> list[str]:
    """The names of the files, sorted."""
    return sorted(split.path.rpartition("/")[2] for split in splits)


class Run:
    """Bounded runs of one source with one state: each run is a new driver that lists once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.store = CountingStore()
        self.offset = INITIAL

    def read(self, limits: Limits | None = None) -> list[FileSplit]:
        """Plan the next batch in a new driver; return its splits."""
        holder = holder_of(self.source, self.store, boundedness=Boundedness.BOUNDED)
        try:
            end = json.loads(json.dumps(holder.latest_offset(self.offset, limits)))
            planned = holder.plan(self.offset, end) if end != self.offset else []
        finally:
            holder.close()
        self.offset = end
        return planned_splits(self.source, planned)

    def names(self, limits: Limits | None = None) -> list[str]:
        return names_of(self.read(limits))


def names_on(path: Path | str | None, **options: Any) -> list[str]:
    """The files that the first run of a source reads."""
    return Run(files_source(path, **options)).names()


def one_by_one(run: Run, count: int) -> list[str]:
    """Run ``count`` batches of one file, each in a separate run; return their files."""
    return [name for _ in range(count) for name in run.names(Limits(files=1))]


class Rounds:
    """A query without an end: alternates rounds of discovery with batches, on one thread."""

    def __init__(self, source: Source, restored: Snapshot[Any] | None = None) -> None:
        self.source = source
        self.works = Works()
        self.restored = restored
        self.coordinator = coordinator_of(
            FilesEnumerator,
            restored=restored,
            options=source.options,
            reader_type=source.reader_type,
            runner=self.works,
        )

    @property
    def enumerator(self) -> Any:
        return self.coordinator.enumerator

    @property
    def position(self) -> FilesPosition:
        """The stored position."""
        assert self.restored is not None
        position: FilesPosition = self.restored.enumerator_state.position
        return position

    @property
    def gauges(self) -> dict[str, int | float]:
        return self.coordinator.gauges

    def list_with(self, lister: Lister) -> None:
        """Use another lister from now on."""
        self.enumerator.search.listing.lister = lister

    def names(self, limits: Limits = UNLIMITED) -> list[str]:
        """Run one round of discovery and a batch; return the files of the batch."""
        self.works.run(self.coordinator)
        pending = freeze(self.coordinator, limits)
        if pending is None:
            return []
        self.restored = pending.snapshot
        self.coordinator.complete(pending.checkpoint_id)
        return names_of([split for item in pending.snapshot.plan.assignments for split in item.splits])

    def restarted(self, **options: Any) -> Rounds:
        """The query as restarted in a new process from its last checkpoint, perhaps with other options."""
        source = files_source(self.source.options["path"], **options) if options else self.source
        return Rounds(source, self.restored)


def rounds_on(path: Path | str, **options: Any) -> Rounds:
    return Rounds(files_source(path, **options))


def files_query(path: Path | str, *, available_now: bool = False, **options: str) -> MicroBatchEngine:
    """A query that reads lines of text; two underscores in the name of an option stand for a dot."""
    given = {"enumerator": "files", "reader": "text", "path": str(path), "requestInterval": "0s"}
    given |= {name.replace("__", "."): value for name, value in options.items()}
    return MicroBatchEngine(given, available_now=available_now)


def lines_of(engine: MicroBatchEngine) -> list[str]:
    """The lines in the sink, sorted."""
    return sorted(row[0] for row in engine.rows)


def all_lines(engine: MicroBatchEngine) -> list[str]:
    """Read everything that is there; return the lines in the sink, sorted."""
    engine.process_all_available()
    return lines_of(engine)
