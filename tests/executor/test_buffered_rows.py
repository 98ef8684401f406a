"""Rows that are held back under quarantine: in bounded memory, and without a trace on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from flip27_source.errors import HeldRowsError
from flip27_source.events import Progress
from flip27_source.executor import buffered_rows
from flip27_source.executor.buffered_rows import BufferedRows, bytes_of
from flip27_source.reader import ReadsTogether, SplitReader, YieldsProgress
from tests.driver.batches import Batches
from tests.toy_sources import Item, Shelf

SCHEMA = pa.schema([pa.field("id", pa.string())])
TEXT = "x" * 1_000
BATCH_ROWS = 1_000
MIB = 1 << 20


def batch(first: int) -> pa.RecordBatch:
    """A batch of about a megabyte."""
    return pa.record_batch([[f"{first + n}{TEXT}" for n in range(BATCH_ROWS)]], schema=SCHEMA)


def numbers(items: Iterator[Any] | list[Any]) -> list[int]:
    """The numbers at the start of the texts."""
    return [int(text.rstrip("x")) for item in items for text in item.column(0).to_pylist()]


@pytest.mark.parametrize("count", [0, 1, 3, 40])
def test_held_rows_are_returned_in_order_and_then_released(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffered_rows, "BATCHES_BYTES", 5 * MIB)
    with closing(BufferedRows("split a")) as held:
        for _ in range(2):
            for number in range(count):
                held.add(batch(number * BATCH_ROWS))
            assert numbers(held.given()) == list(range(count * BATCH_ROWS))
        assert list(held.given()) == []


def test_batches_beyond_the_limit_are_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffered_rows, "BATCHES_BYTES", 5 * MIB)
    before = pa.total_allocated_bytes()
    with closing(BufferedRows("split a")) as held:
        most = 0
        for number in range(200):
            held.add(batch(number))
            most = max(most, pa.total_allocated_bytes() - before)
        given = 0
        for item in held.given():
            given += item.num_rows
            most = max(most, pa.total_allocated_bytes() - before)
    assert given == 200 * BATCH_ROWS
    assert most < 20 * MIB


def test_the_bytes_of_texts_in_tuples_are_counted() -> None:
    assert bytes_of(("x" * 10_000, 1)) > 10_000
    assert bytes_of(([{"k": b"x" * 10_000}],)) > 10_000


class LongPages(YieldsProgress, SplitReader[Item]):
    """Reads one page of 200 MB from each split; the split b fails at its end."""

    def read(self, split: Item) -> Iterator[Any]:
        for number in range(200):
            yield batch(number * BATCH_ROWS)
        if split.split_id == "b":
            raise OSError("disk on fire")
        yield Progress(None)


def most_held(batches: Batches) -> tuple[int, int]:
    """Run a batch; return the number of its rows and the peak of Arrow memory while they were read."""
    assert batches.trigger()
    before = pa.total_allocated_bytes()
    rows = most = 0
    for task in batches.tasks():
        for column in batches.started_attempt(task):
            rows += len(column)
            most = max(most, pa.total_allocated_bytes() - before)
    batches.commit()
    return rows, most


def test_a_page_that_is_held_until_its_progress_does_not_fill_the_memory() -> None:
    batches = Batches(Shelf, LongPages, {"onSplitError": "quarantine", "maxSplitAttempts": "1"})
    batches.shelve("a", "b")
    rows, most = most_held(batches)
    assert rows == 200 * BATCH_ROWS
    assert most < 160 * MIB
    batches.shelve("c")
    batches.trigger()
    assert [item.split.split_id for item in batches.quarantined()] == ["b"]


class SmallFilesOfManyRows(ReadsTogether[Item], SplitReader[Item]):
    """Reads 100 MB of rows from each split, although the splits claim to be small; b fails at its end."""

    tries: ClassVar[list[str]] = []

    def read(self, split: Item) -> Iterator[pa.RecordBatch]:
        return self.read_together([split])

    def read_together(self, splits: Sequence[Item]) -> Iterator[pa.RecordBatch]:
        for split in splits:
            self.tries.append(split.split_id)
            for number in range(100):
                yield batch(number * BATCH_ROWS)
            if split.split_id == "b":
                raise OSError("disk on fire")


def test_splits_that_are_read_together_do_not_fill_the_memory() -> None:
    SmallFilesOfManyRows.tries.clear()
    options = {"onSplitError": "quarantine", "maxSplitAttempts": "1", "parallelism": "1"}
    batches = Batches(Shelf, SmallFilesOfManyRows, options)
    batches.enumerator().shelf.extend(Item(split_id=name, bytes=1_000) for name in "acd")
    rows, most = most_held(batches)
    assert rows == 300 * BATCH_ROWS
    assert most < 160 * MIB
    assert SmallFilesOfManyRows.tries == ["a", "c", "d"]


class TuplesWithoutProgress(YieldsProgress, SplitReader[Item]):
    def read(self, split: Item) -> Iterator[Any]:
        for _ in range(100):
            yield (TEXT,)
        yield Progress(None)


def read_by_the_second_attempt(reader: Any, monkeypatch: pytest.MonkeyPatch, said: str) -> list[Any]:
    """Read a split whose rows cannot be held until the patches are undone; it must not be quarantined."""
    batches = Batches(Shelf, reader, {"onSplitError": "quarantine", "maxSplitAttempts": "1"})
    batches.shelve("a")
    task = batches.next_task()
    with pytest.raises(HeldRowsError, match=said):
        batches.attempt(task)
    monkeypatch.undo()
    rows = batches.attempt(task, number=1)
    batches.commit()
    batches.shelve("b")
    assert batches.trigger()
    assert batches.quarantined() == []
    return rows


def test_a_page_of_more_tuples_than_can_be_held_fails_without_quarantining_its_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(buffered_rows, "TUPLES_BYTES", 50_000)
    said = r"split 'a': more than .* of tuples .*\n.*Arrow batches"
    assert len(read_by_the_second_attempt(TuplesWithoutProgress, monkeypatch, said)) == 100


def test_a_missing_temporary_directory_is_named_and_does_not_quarantine_the_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    said = r"split 'a': .* temporary file in .*/missing: .*\n.*TMPDIR"
    assert sum(map(len, read_by_the_second_attempt(LongPages, monkeypatch, said))) == 200 * BATCH_ROWS


FULL = """
import resource, sys
from flip27_source.executor import buffered_rows
from tests.executor.test_buffered_rows import batch
resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
buffered_rows.BATCHES_BYTES = 1 << 20
held = buffered_rows.BufferedRows("split a")
try:
    for number in range(50):
        held.add(batch(number))
    list(held.given())
except buffered_rows.HeldRowsError as error:
    print(error)
held.close()
"""
KILLED = """
import sys
from flip27_source.executor import buffered_rows
from tests.executor.test_buffered_rows import batch
buffered_rows.BATCHES_BYTES = 1 << 20
held = buffered_rows.BufferedRows("split a")
for number in range(20):
    held.add(batch(number))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_full_disk_is_an_error_that_names_the_directory(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", FULL], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.startswith("split a: rows that have to be buffered"), done.stderr
    assert f"temporary file in {tmp_path}: " in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_leaves_no_temporary_file(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert list(tmp_path.iterdir()) == []
