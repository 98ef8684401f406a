"""``latestOffset`` with very many known files: the coordinator alone, without Spark.

``python -m benchmarks.known_files <spec as JSON> <folder>`` prints one JSON line. The state is real:
it is stored on disk, contains a hash of every known file, and is restored by a new coordinator. Only the
listing is made up, because a million real files would take minutes to create and show nothing more.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from flip27_source import savepoints
from flip27_source.cli.demo.process import obey_parent
from flip27_source.coordination.batch_limits import Limits
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.listing.lister import FileFound, FileInfo, Lister
from flip27_source.snapshots.offsets import INITIAL_OFFSET
from flip27_source.source import Source

from .rounds import KnownFiles, KnownFilesSpec
from .usage import peak_kb, resident_kb

_DEADLINE_S = 300.0
_UNLIMITED = Limits()


_MODIFIED_US = 1_767_225_600_000_000


def _path(number: int) -> str:
    return f"/landing/orders/2026/11/20/part-{number:09d}.json"


def _spark_log_bytes(files: int) -> int:
    """The size of the newest compact file of Spark's FileStreamSourceLog for the same files.

    It is computed from the format, one line of JSON for each file: Spark would take hours to write the log.
    """
    line = {"path": f"file://{_path(0)}", "timestamp": _MODIFIED_US // 1_000, "batchId": 1_000}
    return len("v1") + files * (1 + len(msgspec.json.encode(line)))


class MadeUpListing(Lister):
    """Lists a given number of files that do not exist; each listing waits until it is allowed.

    ``first_at`` is the time at which the first listing began, on the clock of ``time.perf_counter``.

    When a listing begins, discovery has delivered what the previous one found. Waiting for that moment and
    holding the listing there means that no discovery runs while the coordinator is measured.
    """

    def __init__(self, files: int) -> None:
        self.count = files
        self._changed = threading.Condition()
        self._allowed = 0
        self._begun = 0
        self.first_at: float | None = None

    def check_root(self) -> None:
        """Accept any root."""

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        """Every file, once this listing is allowed."""
        with self._changed:
            self._begun += 1
            self.first_at = self.first_at or time.perf_counter()
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._allowed >= self._begun, _DEADLINE_S):
                raise TimeoutError("the listing was not allowed in time")
        for number in range(self.count):
            yield _path(number), lambda: FileInfo(2_048, _MODIFIED_US)

    def allow(self, listings: int = 1) -> None:
        """Let the next listings run."""
        with self._changed:
            self._allowed += listings
            self._changed.notify_all()

    def list_once_more(self) -> None:
        """Let one listing run. On return, discovery has delivered the files of this listing."""
        self.allow()
        with self._changed:
            if not self._changed.wait_for(lambda: self._begun > self._allowed, _DEADLINE_S):
                raise TimeoutError("discovery did not begin another listing")


class MadeUpFiles(FilesEnumerator):
    """The files enumerator with a made-up listing."""

    listing: ClassVar[MadeUpListing]

    def __init__(self, context: Any, options: Any, state: Any = None) -> None:
        super().__init__(context, options, state)
        self.search.listing.lister = self.listing


def coordinator(
    folder: Path, listing: MadeUpListing, boundedness: Boundedness, state: str = "state", **more: str
) -> CoordinatorHolder:
    """A new coordinator, as Spark creates it at the start of a query."""
    enumerator = type("MadeUpFiles", (MadeUpFiles,), {"listing": listing})
    options = {
        "path": str(folder),
        "enumerator": "files",
        "reader": "text",
        "stateLocation": str(folder / state),
        "discoveryInterval": "1 ms",
        "includeExistingFiles": "false",
        **more,
    }
    return CoordinatorHolder(Source.resolve(options, enumerator=enumerator), boundedness)


def make_known(folder: Path, files: int) -> dict[str, Any]:
    """Begin a query that skips this many existing files; return the offset at which they are known."""
    listing = MadeUpListing(files)
    listing.allow()
    holder = coordinator(folder, listing, Boundedness.CONTINUOUS_UNBOUNDED)
    offset = holder.latest_offset(INITIAL_OFFSET.to_json(), None)
    holder.close()
    return offset


def measure(spec: KnownFilesSpec, folder: Path) -> KnownFiles:
    """Measure a coordinator that finds new files among known ones, round after round."""
    # In another process: the memory measured here must not include a plan of all known files at once.
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        offset = pool.apply(make_known, (folder, spec.known_files))
    listing = MadeUpListing(spec.known_files)
    listing.allow()
    holder = coordinator(folder, listing, Boundedness.CONTINUOUS_UNBOUNDED)
    began = time.perf_counter()
    if holder.latest_offset(offset, _UNLIMITED) != offset:
        raise RuntimeError("the restarted coordinator found new files among those that it knows")
    restore_ms = (time.perf_counter() - began) * 1000
    assert listing.first_at is not None
    restored_ms = (listing.first_at - began) * 1000
    times_ms: list[float] = []
    written: list[float] = []
    sizes = [len(msgspec.json.encode(offset))]
    for _ in range(spec.rounds):
        listing.count += spec.new_files
        listing.list_once_more()
        before = _bytes_in(folder / "state")
        began = time.perf_counter()
        offset = holder.latest_offset(offset, _UNLIMITED)
        times_ms.append((time.perf_counter() - began) * 1000)
        written.append((_bytes_in(folder / "state") - before) / spec.new_files)
        sizes.append(len(msgspec.json.encode(offset)))
        if offset["summary"]["files"] != spec.new_files:
            raise RuntimeError(f"{spec.new_files} files are new, the batch has {offset['summary']}")
        holder.commit(offset)
    peak, resident = peak_kb(), resident_kb()
    holder.close()
    began = time.perf_counter()
    made = savepoints.create(state=str(folder / "state"), to=str(folder / "saved"))
    savepoint_ms = (time.perf_counter() - began) * 1000
    fork_ms = _fork_ms(folder, MadeUpListing(listing.count), made.directory)
    return KnownFiles(
        latest_offset_ms=times_ms,
        bytes_per_new_file=written,
        offset_bytes=max(sizes),
        known_files=spec.known_files,
        restored_ms=restored_ms,
        restore_ms=restore_ms,
        savepoint_ms=savepoint_ms,
        fork_ms=fork_ms,
        savepoint_bytes=_bytes_in(Path(made.directory)),
        spark_log_bytes=_spark_log_bytes(listing.count),
        coordinator_mb=None if peak is None else peak // 1024,
        resident_mb=None if resident is None else resident // 1024,
        listing="made up; state and coordinator are real",
    )


def _fork_ms(folder: Path, listing: MadeUpListing, savepoint: str) -> float:
    """The milliseconds of the first call of a new query whose savepoint knows all files."""
    listing.allow()
    fork = coordinator(folder, listing, Boundedness.CONTINUOUS_UNBOUNDED, state="fork", savepoint=savepoint)
    start = INITIAL_OFFSET.to_json()
    began = time.perf_counter()
    # The newest checkpoint may be incomplete, so its batch is not in the savepoint.
    offset = fork.latest_offset(start, _UNLIMITED)
    took_ms = (time.perf_counter() - began) * 1000
    fork.close()
    if offset != start and offset["summary"].get("files", 0) >= listing.count // 2:
        raise RuntimeError(f"the fork reads what was read before its savepoint: {offset['summary']}")
    return took_ms


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    """Measure what the command line specifies."""
    obey_parent(lambda _line: None)
    spec = msgspec.json.decode(sys.argv[1], type=KnownFilesSpec)
    sys.stdout.buffer.write(msgspec.json.encode(measure(spec, Path(sys.argv[2]))) + b"\n")


if __name__ == "__main__":
    main()
