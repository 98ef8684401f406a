"""The sequence source: every number is read once, with any splits, limits and restarts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flip27_source.coordination.batch_limits import Limits
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import IncompatibleStateError, OptionError
from flip27_source.executor.subtask import read_subtask
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.sequence import SequenceReader
from flip27_source.snapshots.store import MemoryStore
from flip27_source.source import Source
from tests.toy_sources import INITIAL, holder_of, source_of

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def sequence(**options: Any) -> Source:
    return source_of(None, {"enumerator": "sequence", **{k: str(v) for k, v in options.items()}}, None)


def numbers(
    source: Source, holder: CoordinatorHolder, start: dict[str, Any], end: dict[str, Any]
) -> list[int]:
    context = SourceReaderContext(options=source.options, schema=SCHEMA)
    return sorted(
        number
        for planned in holder.plan(start, end)
        for batch in read_subtask(source, planned, context)
        for number in batch.column(0).to_pylist()  # type: ignore[union-attr]
    )


def read(source: Source, batches: int, limits: Limits | None = None, **changes: Any) -> list[list[int]]:
    """Return the numbers of at most ``batches`` batches, each planned by a new driver."""
    store, start, found = MemoryStore(), INITIAL, []
    for _ in range(batches):
        holder = holder_of(source, store, **changes)
        end = holder.latest_offset(start, limits)
        if end == start:
            break
        found.append(numbers(source, holder, start, end))
        start = end
    return found


@pytest.mark.parametrize("splits", [1, 2, 3, 10])
@pytest.mark.parametrize("rows", [1, 4, 100])
def test_each_number_is_read_once_for_any_number_of_splits_and_rows(splits: int, rows: int) -> None:
    found = read(sequence(start=5, end=25, numSplits=splits, rowsPerSplit=rows), 50)
    assert sorted(number for batch in found for number in batch) == list(range(5, 25))
    assert all(len(batch) <= rows * splits for batch in found)


def test_an_endless_sequence_continues_where_the_last_batch_ended() -> None:
    assert read(sequence(rowsPerSplit=3), 3) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_a_sequence_may_start_at_a_negative_number() -> None:
    assert read(sequence(start=-3, end=1), 2) == [[-3, -2, -1, 0]]


def test_a_sequence_that_starts_at_or_after_its_end_is_empty() -> None:
    assert read(sequence(start=5, end=5), 1) == []
    assert read(sequence(start=9, end=5), 1) == []


def test_a_row_limit_bounds_a_batch_over_all_splits() -> None:
    found = read(sequence(end=20, numSplits=2, rowsPerSplit=100), 50, Limits(rows=6))
    assert all(len(batch) <= 6 for batch in found)
    assert sorted(number for batch in found for number in batch) == list(range(20))


def test_no_split_of_an_endless_sequence_is_starved_by_the_others() -> None:
    found = read(sequence(numSplits=3), 6, Limits(rows=10))
    read_of = [sum(number % 3 == split for batch in found for number in batch) for split in range(3)]
    assert read_of == [20, 20, 20]


def test_a_batch_read_of_an_endless_sequence_is_refused() -> None:
    with pytest.raises(OptionError, match="the numbers never end") as caught:
        read(sequence(), 1, boundedness=Boundedness.BOUNDED)
    assert 'add .option("end", ...)' in str(caught.value)
    assert read(sequence(end=3), 1, boundedness=Boundedness.BOUNDED) == [[0, 1, 2]]


def test_only_options_that_are_not_fixed_at_the_first_start_can_be_changed_later() -> None:
    store = MemoryStore()
    start = holder_of(sequence(end=10, rowsPerSplit=2), store).latest_offset(INITIAL, None)
    with pytest.raises(IncompatibleStateError, match="option end: was '10', is '20'"):
        holder_of(sequence(end=20, rowsPerSplit=2), store).latest_offset(start, None)
    changed = sequence(end=10, rowsPerSplit=5)
    holder = holder_of(changed, store)
    assert numbers(changed, holder, start, holder.latest_offset(start, None)) == [2, 3, 4, 5, 6]


def test_the_schema_is_known_and_large_splits_come_in_several_batches() -> None:
    source = sequence(end=200_000, rowsPerSplit=200_000)
    assert SequenceReader.default_schema(source.options) == SCHEMA
    holder = holder_of(source, MemoryStore())
    (planned,) = holder.plan(INITIAL, holder.latest_offset(INITIAL, None))
    context = SourceReaderContext(options=source.options, schema=SCHEMA)
    sizes = [batch.num_rows for batch in read_subtask(source, planned, context)]  # type: ignore[union-attr]
    assert sum(sizes) == 200_000
    assert max(sizes) <= 65_536
