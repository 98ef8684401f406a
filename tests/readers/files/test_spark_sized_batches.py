"""Small batches are joined and large ones are cut; no row is lost, changed or moved."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from flip27_source.readers.files.reader import ENOUGH_BYTES, ENOUGH_ROWS, MOST_ROWS, spark_sized
from tests.readers.formats import READERS, WRITERS
from tests.readers.spark_reading import read_batches, split_of

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def batch(first: int, rows: int, text: str = "x") -> pa.RecordBatch:
    return pa.record_batch([list(range(first, first + rows)), [text] * rows], schema=SCHEMA)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []), ([0], []), ([1], [1]), ([1, 1, 1], [3]), ([0, 0], []), ([1, 0, 2], [3]),
        ([ENOUGH_ROWS], [ENOUGH_ROWS]), ([1, ENOUGH_ROWS, 1], [1, ENOUGH_ROWS, 1]),
        ([ENOUGH_ROWS - 1, 2, 1], [ENOUGH_ROWS + 1, 1]), ([MOST_ROWS, 1], [MOST_ROWS, 1]),
        ([2 * MOST_ROWS + 1, 1], [MOST_ROWS, MOST_ROWS, 2]),
    ],
    ids=str,
)  # fmt: skip
def test_small_adjacent_batches_are_joined_and_large_ones_cut(rows: list[int], expected: list[int]) -> None:
    firsts = [sum(rows[:at]) for at in range(len(rows))]
    given = [batch(first, count) for first, count in zip(firsts, rows, strict=True)]
    made = list(spark_sized(given))
    assert [one.num_rows for one in made] == expected
    assert all(one.schema == SCHEMA for one in made)
    values = [value for one in made for value in one.column("n").to_pylist()]
    assert values == list(range(sum(rows)))


def test_a_batch_may_also_be_large_enough_by_its_bytes() -> None:
    large = batch(2, 2, "x" * ENOUGH_BYTES)
    given = [batch(0, 1), batch(1, 1), large, batch(4, 1), batch(5, 1)]
    assert [one.num_rows for one in spark_sized(given)] == [2, 2, 2]


def test_a_large_batch_is_not_copied() -> None:
    large = batch(0, ENOUGH_ROWS)
    (made,) = spark_sized([large])
    assert made is large


@pytest.mark.parametrize("name", ["text", "csv", "json", "arrow"])
def test_readers_give_batches_of_these_sizes(tmp_path: Path, name: str) -> None:
    WRITERS[name](pa.table({"n": ["1"] * 600_000}), tmp_path / "a")
    batches = read_batches(READERS[name](), [split_of(tmp_path / "a")], pa.schema([("n", pa.string())]))
    assert max(one.num_rows for one in batches) <= MOST_ROWS
    assert [one.num_rows for one in batches if one.num_rows < ENOUGH_ROWS][1:] == []
    assert sum(one.num_rows for one in batches) == 600_000
