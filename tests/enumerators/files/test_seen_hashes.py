"""SeenFiles: a set of path hashes, stored in immutable runs that are merged as they grow."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_source.enumerators.files.seen_files.hashes import HASH_BYTES, MERGE_WIDTH, SeenFiles, path_hash
from flip27_source.segment import Segment


def hashes(*numbers: int) -> list[bytes]:
    return [path_hash(f"/landing/{number}.json") for number in numbers]


def stored(runs: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """Return the runs as a restart gets them: names, and a function that fetches the bytes."""
    files = {run.name: run.data for run in runs}
    return tuple(Segment(run.name, load=files.__getitem__, size=run.size) for run in runs)


def test_the_hash_of_a_path_is_the_same_in_every_process() -> None:
    """Hashes are stored in the state: with another hash, every file would be read again."""
    assert path_hash("/landing/a.json").hex() == "c2d4958b55ac8219dc4bf5e5757aebb9"
    assert len(path_hash("/landing/a.json")) == HASH_BYTES
    assert path_hash("bad\udcff") != path_hash("bad\udcfe")


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.integers(1, 40), max_size=80))
def test_restored_runs_hold_the_same_files_S57(sizes: list[int]) -> None:
    seen = SeenFiles()
    count = 0
    for size in sizes:
        seen.add(hashes(*range(count, count + size)))
        count += size
    again = SeenFiles(stored(seen.runs))
    assert len(again) == count
    assert all(item in again for item in hashes(*range(count)))
    assert again.runs == seen.runs


def test_runs_stay_few_and_are_rewritten_few_times_S99() -> None:
    """10,000 single additions make a few dozen runs; each hash is written about once for each tier."""
    seen = SeenFiles()
    names: set[str] = set()
    written = 0
    for number in range(10_000):
        seen.add(hashes(number))
        for run in seen.runs:
            if run.name not in names:
                names.add(run.name)
                written += run.size or 0
    assert len(seen.runs) < 5 * MERGE_WIDTH
    assert sum(run.size or 0 for run in seen.runs) == 10_000 * HASH_BYTES
    assert written <= 6 * 10_000 * HASH_BYTES


def test_a_large_addition_is_one_run_with_16_bytes_per_file() -> None:
    seen = SeenFiles()
    seen.add(hashes(*range(5000)))
    seen.add(hashes(*range(5000, 6000)))
    assert [run.size for run in seen.runs] == [80_000, 16_000]


def test_restored_bytes_are_not_kept_in_memory_twice() -> None:
    asked: list[str] = []

    def load(name: str) -> bytes:
        asked.append(name)
        return path_hash("/landing/1.json")

    run = Segment(Segment.of("seen", path_hash("/landing/1.json")).name, load=load, size=HASH_BYTES)
    SeenFiles((run,))
    assert len(asked) == 1
    _ = run.data
    assert len(asked) == 2


def test_after_a_failed_addition_the_files_are_still_new_R12() -> None:
    """A merge fetches older runs, which can fail; the next round must find the same files as new again."""
    failures = [OSError("connection reset")]
    files = {Segment.of("seen", item).name: item for item in hashes(*range(MERGE_WIDTH - 1))}

    def load(name: str) -> bytes:
        if ready and failures:
            raise failures.pop()
        return files[name]

    ready = False
    seen = SeenFiles(Segment(name, load=load, size=HASH_BYTES) for name in files)
    ready = True
    runs = seen.runs
    with pytest.raises(OSError, match="connection reset"):
        seen.add(hashes(99))
    assert hashes(99)[0] not in seen
    assert seen.runs == runs
    seen.add(hashes(99))
    assert hashes(99)[0] in seen
    assert len(seen) == MERGE_WIDTH
