"""The files enumerator: it assigns every file of a directory once, oldest first, in any file system."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from flip27_source.coordination.packing import Limits
from flip27_source.driver.holder import identity_of
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.files.enumerator import FilesEnumerator, FilesPosition
from flip27_source.enumerators.files.listing.walk import FileFound, FileInfo, Lister
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.options import Options
from flip27_source.reader import ReadsRanges, SplitReader
from flip27_source.segment import Segment
from flip27_source.snapshots.checkpoint_files import CheckpointStorage
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.offsets import INITIAL_OFFSET
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.snapshots.store import MemoryStore
from flip27_source.source import Source
from tests.s3_server import S3Bucket
from tests.toy_sources import (
    INITIAL,
    KIB,
    MIB,
    CountingStore,
    EchoReader,
    Works,
    coordinator_of,
    frozen,
    holder_of,
    source_of,
)

Json = dict[str, Any]


class WholeFiles(EchoReader):
    """Reads only whole files."""


class Ranges(EchoReader, ReadsRanges):
    """Reads ranges of all files except those whose names end in .gz."""

    @classmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        return not path.endswith(".gz")


def files_source(path: Path | str, reader: type[SplitReader[Any]] = WholeFiles, **options: Any) -> Source:
    texts = {name.replace("__", "."): str(value) for name, value in options.items()}
    return source_of(FilesEnumerator, {"path": str(path), **texts}, reader)


def splits_of(source: Source, planned: list[PlannedSubtask]) -> list[FileSplit]:
    codec = SnapshotCodec(source.enumerator_type)
    return [
        split
        for task in planned
        for split in codec.decode_splits(task.split_version, Segment("splits", data=task.splits))
    ]


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
        return splits_of(self.source, planned)

    def names(self, limits: Limits | None = None) -> list[str]:
        return sorted(split.path.rpartition("/")[2] for split in self.read(limits))


def write(folder: Path, *names: str, data: bytes = b"data", modified_s: float | None = None) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if modified_s is not None:
            os.utime(path, (modified_s, modified_s))


def test_new_files_are_read_once_and_known_files_are_not_read_again(tmp_path: Path) -> None:
    run = Run(files_source(tmp_path))
    assert run.names() == []
    write(tmp_path, "a", "b")
    assert run.names() == ["a", "b"]
    assert run.names() == []
    write(tmp_path, "c")
    assert run.names() == ["c"]


def _s3(request: pytest.FixtureRequest) -> Iterator[tuple[Any, str, dict[str, str]]]:
    bucket: S3Bucket = request.getfixturevalue("s3_bucket")
    yield bucket.file_system, f"s3://{bucket.name}/landing", bucket.options


def _memory(request: pytest.FixtureRequest) -> Iterator[tuple[Any, str, dict[str, str]]]:
    yield fsspec.filesystem("memory"), "memory:///files-enumerator/landing", {}
    fsspec.filesystem("memory").rm("/files-enumerator", recursive=True)


def _local(request: pytest.FixtureRequest) -> Iterator[tuple[Any, str, dict[str, str]]]:
    yield fsspec.filesystem("file"), str(request.getfixturevalue("tmp_path") / "landing"), {}


PLACES = {"local": _local, "memory": _memory, "s3": _s3}


@pytest.fixture(params=list(PLACES))
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Any, str, dict[str, str]]]:
    """A file system, a directory in it, and the options to reach it."""
    yield from PLACES[request.param](request)


def test_each_file_is_found_once_in_any_directory(place: tuple[Any, str, dict[str, str]]) -> None:
    """The state is in memory; the files are on local disk, in fsspec's memory or on an S3 server."""
    file_system, url, options = place
    file_system.makedirs(url, exist_ok=True)
    for name in ("a.json", "b.json", "_SUCCESS", "c.csv"):
        file_system.pipe_file(f"{url}/{name}", name.encode())
    run = Run(source_of(FilesEnumerator, {"path": url, "pathGlobFilter": "*.json", **options}, WholeFiles))
    first = run.read()
    assert sorted((split.path, split.length) for split in first) == [
        (f"{url}/a.json", 6),
        (f"{url}/b.json", 6),
    ]
    assert all(split.modified_us > 0 for split in first)
    file_system.pipe_file(f"{url}/d.json", b"")
    assert run.names() == ["d.json"]
    assert run.names() == []


def test_files_are_assigned_by_time_and_files_of_equal_time_by_name(tmp_path: Path) -> None:
    write(tmp_path, "new", modified_s=3000)
    write(tmp_path, "old", modified_s=1000)
    write(tmp_path, "b", "a", modified_s=2000)
    run = Run(files_source(tmp_path))
    assert [run.names(Limits(files=1)) for _ in range(5)] == [["old"], ["a"], ["b"], ["new"], []]


def test_waiting_files_are_planned_in_the_next_batch_even_if_they_are_gone(tmp_path: Path) -> None:
    """They were found and frozen: it is the reader that reports whether they still exist (R12)."""
    write(tmp_path, "a", "b", "c")
    run = Run(files_source(tmp_path))
    assert run.names(Limits(files=1)) == ["a"]
    (tmp_path / "b").unlink()
    assert run.names() == ["b", "c"]


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.json", ["a.json", "b.json"]),
        ("?.csv", ["c.csv"]),
        ("[ab].*", ["a.json", "b.json"]),
        ("[!a]*", ["b.json", "c.csv", "päckchen.txt"]),
        ("[^a]*", ["b.json", "c.csv", "päckchen.txt"]),
        ("*.{json,csv}", ["a.json", "b.json", "c.csv"]),
        ("{a,c}.{json,csv}", ["a.json", "c.csv"]),
        ("{a,{b,c}}.*", ["a.json", "b.json", "c.csv"]),
        ("päck*", ["päckchen.txt"]),
        ("*.JSON", []),
        ("json", []),
        ("*", ["a.json", "b.json", "c.csv", "päckchen.txt"]),
    ],
)
def test_path_glob_filter_selects_by_name_as_in_spark(tmp_path: Path, glob: str, expected: list[str]) -> None:
    write(tmp_path, "a.json", "b.json", "c.csv", "päckchen.txt")
    assert Run(files_source(tmp_path, pathGlobFilter=glob)).names() == expected


def test_subdirectories_are_read_only_on_request(tmp_path: Path) -> None:
    write(tmp_path, "a", "x/b", "date=1/c")
    assert Run(files_source(tmp_path, recursiveFileLookup=True)).names() == ["a", "b", "c"]


def test_partition_directories_belong_to_the_path_and_other_directories_do_not(tmp_path: Path) -> None:
    write(tmp_path, "date=1/hour=2/a", "date=1/x/b", "x/c", ".tmp=1/d")
    assert Run(files_source(tmp_path)).names() == ["a"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"modifiedAfter": "2026-01-02T00:00:00Z"}, ["day-3"]),
        ({"modifiedBefore": "2026-01-02T00:00:00Z"}, ["day-1"]),
        ({"modifiedAfter": "2026-01-01T12:00:00Z", "modifiedBefore": "2026-01-02T12:00:00Z"}, ["day-2"]),
        ({"modifiedAfter": "2026-01-02T00:30:00", "timeZone": "Europe/Berlin"}, ["day-2", "day-3"]),
        ({"modifiedAfter": "2026-01-02T00:00:00", "timeZone": "UTC"}, ["day-3"]),
    ],
    ids=str,
)
def test_files_are_chosen_by_their_modification_time(
    tmp_path: Path, options: dict[str, str], expected: list[str]
) -> None:
    for day in (1, 2, 3):
        write(tmp_path, f"day-{day}", modified_s=1767225600 + (day - 1) * 86400)  # midnight, UTC
    assert Run(files_source(tmp_path, WholeFiles, **options)).names() == expected


def test_a_file_is_read_once_its_time_is_in_the_range(tmp_path: Path) -> None:
    run = Run(files_source(tmp_path, modifiedAfter="2026-01-02T00:00:00Z"))
    write(tmp_path, "a", modified_s=1000)
    assert run.names() == []
    os.utime(tmp_path / "a", (1800000000, 1800000000))
    assert run.names() == ["a"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"modifiedAfter": "yesterday"}, "a time such as 2026-01-31T00:00:00 is expected"),
        ({"recursiveFileLookup": "yes"}, "true or false is expected"),
        ({"pathGlobFiltr": "*"}, "did you mean pathGlobFilter?"),
        ({"modifiedAfter": "2026-01-01T00:00:00", "timeZone": "Mars/Olympus"}, "Mars/Olympus"),
    ],
    ids=str,
)
def test_the_error_for_a_malformed_option_says_what_is_expected(
    tmp_path: Path, options: dict[str, str], told: str
) -> None:
    with pytest.raises(OptionError) as caught:
        Run(files_source(tmp_path, WholeFiles, **options)).names()
    assert told in str(caught.value)


def test_a_path_is_required_and_must_be_an_existing_directory_or_file(tmp_path: Path) -> None:
    write(tmp_path, "file")
    with pytest.raises(OptionError, match="option path is not set"):
        Run(source_of(FilesEnumerator, {}, WholeFiles)).names()
    with pytest.raises(OptionError, match="nothing does not exist"):
        Run(files_source(tmp_path / "nothing")).names()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OptionError, match="pipe is neither a directory nor a regular file"):
        Run(files_source(tmp_path / "pipe")).names()
    assert Run(files_source(tmp_path / "file")).names() == ["file"]


def test_a_directory_that_vanishes_while_the_query_runs_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "landing"
    write(folder, "a")
    others = set(threading.enumerate())
    source = files_source(folder, discoveryInterval="1ms", discoveryRetries=0, requestInterval="0s")
    holder = holder_of(source, MemoryStore())
    end = holder.latest_offset(INITIAL, None)
    (folder / "a").unlink()
    folder.rmdir()
    for thread in set(threading.enumerate()) - others:
        if thread.name == "flip27-async":
            thread.join(10)
    with pytest.raises(DiscoveryError, match="landing"):
        holder.latest_offset(end, None)


def test_a_file_that_vanishes_while_it_is_listed_is_left_out_and_found_when_it_reappears(
    tmp_path: Path,
) -> None:
    enumerator = discovering(files_source(tmp_path))
    write(tmp_path, "a", "b")
    lister = enumerator.lister

    class Vanishing(Paths):
        def files(self, *, recursive: bool) -> Iterator[FileFound]:
            for path, info in lister.files(recursive=recursive):
                if path.endswith("/a"):
                    os.unlink(path)
                yield path, info

    enumerator.lister = Vanishing()
    found = enumerator.discover(None)
    assert [split.path for split in found.splits] == [f"{tmp_path}/b"]
    enumerator.lister = lister
    write(tmp_path, "a")
    assert [split.path for split in enumerator.discover(found.position).splits] == [f"{tmp_path}/a"]


def discovering(source: Source) -> FilesEnumerator:
    """Return an enumerator whose discovery the test calls."""
    coordinator = coordinator_of(FilesEnumerator, options=source.options, reader_type=source.reader_type)
    assert isinstance(coordinator.enumerator, FilesEnumerator)
    return coordinator.enumerator


def test_large_files_are_cut_into_ranges_that_cover_them_and_all_are_read_S92(tmp_path: Path) -> None:
    length = 5 * MIB + 3
    write(tmp_path, "large", data=b"x" * length)
    write(tmp_path, "small")
    run = Run(files_source(tmp_path, Ranges, maxPartitionBytes="2m"))
    splits = run.read()
    ranges = sorted((split.start, split.end) for split in splits if split.path.endswith("large"))
    assert len(ranges) == 3
    assert ranges[0][0] == 0
    assert [end for _, end in ranges[:-1]] == [start for start, _ in ranges[1:]]
    assert ranges[-1][1] is None
    assert len({split.split_id for split in splits}) == 4
    assert sum(split.size.files for split in splits) == 2
    assert sum(split.size.bytes or 0 for split in splits) == length + 4
    assert run.names() == []


def test_ranges_of_a_file_may_be_in_several_batches_and_each_is_read_once_S92(tmp_path: Path) -> None:
    """Each batch has one file and is preceded by a restart: postponed ranges are not lost."""
    for name in ("a", "b"):
        write(tmp_path, name, data=b"x" * (5 * MIB), modified_s=1000)
    run = Run(files_source(tmp_path, Ranges, maxPartitionBytes="2m"))
    read = [split.split_id for _ in range(6) for split in run.read(Limits(files=1))]
    assert len(read) == len(set(read)) == 6


def test_files_that_cannot_be_cut_are_not_split_into_ranges(tmp_path: Path) -> None:
    write(tmp_path, "a.gz", "a.txt", data=b"x" * (3 * MIB))
    whole = Run(files_source(tmp_path, WholeFiles, maxPartitionBytes="1m")).read()
    assert [(split.start, split.end) for split in whole] == [(0, None)] * 2
    cut = Run(files_source(tmp_path, Ranges, maxPartitionBytes="1m")).names()
    assert cut == ["a.gz", "a.txt", "a.txt", "a.txt"]


@pytest.mark.parametrize("length", [0, 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 7 * MIB + 5])
def test_ranges_are_balanced_and_never_larger_than_the_limit(tmp_path: Path, length: int) -> None:
    with (tmp_path / "a.txt").open("wb") as file:
        file.truncate(length)
    run = Run(files_source(tmp_path, Ranges, maxPartitionBytes="2m"))
    sizes = [split.size.bytes or 0 for split in run.read()]
    assert sum(sizes) == length
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= 2 * MIB


def test_a_range_is_named_after_its_file_and_its_bytes() -> None:
    whole = FileSplit(path="/a", length=10, modified_us=0)
    assert whole.split_id == "/a"
    assert FileSplit(path="/a", length=10, modified_us=0, start=0, end=5).split_id == "/a#0-5"
    assert FileSplit(path="/a", length=10, modified_us=0, start=5).split_id == "/a#5-"


class Paths(Lister):
    """Lists the paths of a list, which do not exist in any file system."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def check_root(self) -> None:
        pass

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        for path in self.paths:
            yield path, lambda: FileInfo(1000, 1_767_225_600_000_000)


class Stream:
    """Runs discovery, checkpoint and completion in turn, on paths in a list, and counts the bytes written."""

    def __init__(self, folder: Path) -> None:
        source = files_source(folder)
        self.works = Works()
        self.coordinator = coordinator_of(FilesEnumerator, options=source.options, runner=self.works)
        self.listing = Paths()
        assert isinstance(self.coordinator.enumerator, FilesEnumerator)
        self.coordinator.enumerator.lister = self.listing
        self.store = CountingStore()
        self.storage = CheckpointStorage(
            SnapshotCodec(FilesEnumerator),
            identity_of(source),
            store=self.store,
            inline_limit_bytes=KIB,
            new_random=lambda: "0" * 16,
        )
        self.offset = INITIAL_OFFSET

    def batch(self, new: int) -> int:
        """Run a batch with ``new`` new files; return the number of bytes that its checkpoint wrote."""
        known = self.coordinator.last_checkpoint_id
        self.listing.paths = [f"/landing/2026/01/part-{known:05}-{number:08}.json" for number in range(new)]
        self.works.run(self.coordinator)
        self.store.created.clear()
        pending = frozen(self.coordinator)
        self.offset = self.storage.write(pending, parent=self.offset)
        self.coordinator.complete(pending.checkpoint_id)
        return sum(size for _, size in self.store.created)


def test_state_written_for_a_batch_is_proportional_to_its_new_files_S99(tmp_path: Path) -> None:
    """With 50,000 known files, each of 1,000 new ones takes under 100 bytes, and the offset stays small."""
    stream = Stream(tmp_path)
    stream.batch(50_000)
    for _ in range(5):
        assert stream.batch(1000) < 100 * 1000
    assert len(json.dumps(stream.offset.to_json())) < 4 * KIB


def test_small_batches_do_not_rewrite_the_state_of_earlier_batches(tmp_path: Path) -> None:
    """60 batches of 200 new files write under 100 bytes for each file on average, merges included."""
    stream = Stream(tmp_path)
    written = [stream.batch(200) for _ in range(60)]
    assert sum(written) < 60 * 200 * 100


def test_a_discovery_that_failed_halfway_is_repeated_in_full(tmp_path: Path) -> None:
    """can_read_ranges fails after all files were listed and noted: the next round finds every one of them."""
    failures = [OSError("footer unreadable")]

    class Flaky(Ranges):
        @classmethod
        def can_read_ranges(cls, path: str, options: Options) -> bool:
            if failures:
                raise failures.pop()
            return True

    write(tmp_path, "a", data=b"x" * (3 * MIB))
    write(tmp_path, "b")
    made = discovering(files_source(tmp_path, Flaky, maxPartitionBytes="1m"))
    with pytest.raises(OSError, match="footer"):
        made.discover(None)
    assert {split.path.rpartition("/")[2] for split in made.discover(None).splits} == {"a", "b"}


def test_a_failed_fetch_of_older_state_loses_no_file_R12(tmp_path: Path) -> None:
    """The sixteenth file causes a merge, the merge fetches restored runs, and the fetch fails once."""
    source = files_source(tmp_path)
    first = discovering(source)
    position: FilesPosition | None = None
    for number in range(15):
        write(tmp_path, f"{number:02}")
        position = first.discover(position).position
    assert position is not None
    stored = {run.name: run.data for run in position.seen}
    failures: list[OSError] = []

    def load(name: str) -> bytes:
        if failures:
            raise failures.pop()
        return stored[name]

    restarted = discovering(source)
    restored = FilesPosition(
        seen=tuple(Segment(run.name, load=load, size=run.size) for run in position.seen), files=15
    )
    assert restarted.discover(restored).splits == []
    write(tmp_path, "15")
    failures.append(OSError("connection reset"))
    with pytest.raises(OSError, match="connection reset"):
        restarted.discover(restored)
    assert [split.path for split in restarted.discover(restored).splits] == [f"{tmp_path}/15"]


def test_fifos_and_dangling_links_are_not_read(tmp_path: Path) -> None:
    """A reader that opens a FIFO would wait forever; a dangling link may still get a target."""
    os.mkfifo(tmp_path / "fifo")
    os.symlink("/nowhere", tmp_path / "dangling")
    write(tmp_path, "a")
    assert Run(files_source(tmp_path)).names() == ["a"]
