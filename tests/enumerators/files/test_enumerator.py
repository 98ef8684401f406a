"""The files enumerator: it assigns every file of a directory once, oldest first, in any file system."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flip27_source.coordination.batch_limits import Limits
from flip27_source.driver.holder import identity_of
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.listing.lister import FileFound
from flip27_source.enumerators.files.position import FilesPosition
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.options import Options
from flip27_source.segment import Segment
from flip27_source.snapshots.checkpoint_files import CheckpointStorage
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.offsets import INITIAL_OFFSET
from flip27_source.snapshots.store import MemoryStore
from tests.toy_sources import INITIAL, KIB, MIB, CountingStore, Works, coordinator_of, frozen, holder_of

from .file_sources import GivenFiles, Ranges, Run, WholeFiles, discovering, files_source, names_on, write


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
        (r"\a.[j]son", ["a.json"]),
        (r"[\a\]].*", ["a.json"]),
        (r"\*.json", []),
        (r"{a\,b,c}.*", ["c.csv"]),
        ("[]a].*", ["a.json"]),
        ("[a-].*", ["a.json"]),
        ("*.JSON", []),
        ("json", []),
        ("*", ["a.json", "b.json", "c.csv", "päckchen.txt"]),
    ],
)
def test_path_glob_filter_selects_by_name_as_in_spark(tmp_path: Path, glob: str, expected: list[str]) -> None:
    write(tmp_path, "a.json", "b.json", "c.csv", "päckchen.txt")
    assert names_on(tmp_path, pathGlobFilter=glob) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"modifiedAfter": "2026-01-02T00:00:00Z"}, ["day-3"]),
        ({"modifiedBefore": "2026-01-02T00:00:00Z"}, ["day-1"]),
        ({"modifiedAfter": "2026-01-01T12:00:00Z", "modifiedBefore": "2026-01-02T12:00:00Z"}, ["day-2"]),
        ({"modifiedAfter": "2026-01-02T00:30:00", "timeZone": "Europe/Berlin"}, ["day-2", "day-3"]),
        ({"modifiedAfter": "2026-01-02T00:00:00", "timeZone": "UTC"}, ["day-3"]),
        ({"modifiedAfter": "2026-01-02T00:30:00", "timeZone": "+01:00"}, ["day-2", "day-3"]),
    ],
    ids=str,
)
def test_files_are_chosen_by_their_modification_time(
    tmp_path: Path, options: dict[str, str], expected: list[str]
) -> None:
    for day in (1, 2, 3):
        write(tmp_path, f"day-{day}", modified_s=1767225600 + (day - 1) * 86400)  # midnight, UTC
    assert names_on(tmp_path, **options) == expected


def test_a_file_is_read_once_its_time_is_in_the_range(tmp_path: Path) -> None:
    run = Run(files_source(tmp_path, modifiedAfter="2026-01-02T00:00:00Z"))
    write(tmp_path, "a", modified_s=1000)
    assert run.names() == []
    os.utime(tmp_path / "a", (1800000000, 1800000000))
    assert run.names() == ["a"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"modifiedAfter": "2026-01-01T00:00:00"},
            "modifiedAfter is 2026-01-01T00:00:00, without a time zone",
        ),
        ({"modifiedBefore": "2026-01-01"}, "or set timeZone"),
        ({"pathGlobFilter": "a[1"}, "'a[1' has an unclosed ["),
        ({"pathGlobFilter": "a{b,{c}"}, "'a{b,{c}' has an unclosed {"),
        ({"pathGlobFilter": "a\\"}, "ends with a backslash"),
        ({"pathGlobFilter": "[z-a]"}, "bad character range z-a"),
        ({"modifiedAfter": "yesterday"}, "a time is expected, such as 2026-01-31T00:00:00"),
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
        names_on(tmp_path, **options)
    assert told in str(caught.value)


def test_a_path_is_required_and_must_be_an_existing_directory_or_file(tmp_path: Path) -> None:
    write(tmp_path, "file")
    with pytest.raises(OptionError, match="option path is not set"):
        names_on(None)
    with pytest.raises(OptionError, match="nothing does not exist"):
        names_on(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OptionError, match="pipe is neither a directory nor a regular file"):
        names_on(tmp_path / "pipe")
    assert names_on(tmp_path / "file") == ["file"]


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
    lister = enumerator.search.listing.lister

    class Vanishing(GivenFiles):
        def files(self, *, recursive: bool) -> Iterator[FileFound]:
            for path, info in lister.files(recursive=recursive):
                if path.endswith("/a"):
                    os.unlink(path)
                yield path, info

    enumerator.search.listing.lister = Vanishing()
    found = enumerator.discover(None)
    assert [split.path for split in found.splits] == [f"{tmp_path}/b"]
    enumerator.search.listing.lister = lister
    write(tmp_path, "a")
    assert [split.path for split in enumerator.discover(found.position).splits] == [f"{tmp_path}/a"]


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


class Stream:
    """Runs discovery, checkpoint and completion in turn, on paths in a list, and counts the bytes written."""

    def __init__(self, folder: Path) -> None:
        source = files_source(folder)
        self.works = Works()
        self.coordinator = coordinator_of(FilesEnumerator, options=source.options, runner=self.works)
        self.listing = GivenFiles()
        assert isinstance(self.coordinator.enumerator, FilesEnumerator)
        self.coordinator.enumerator.search.listing.lister = self.listing
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
        self.listing.infos.clear()
        self.listing.put(*(f"/landing/2026/01/part-{known:05}-{number:08}.json" for number in range(new)))
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
    assert names_on(tmp_path) == ["a"]
