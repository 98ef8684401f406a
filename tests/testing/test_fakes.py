"""Fakes: exactly the literal data is read, and markers take effect at their place in it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flip27_source.errors import ContractError
from flip27_source.testing import (
    BOOM,
    CRASH,
    END,
    FAIL,
    DataError,
    Fail,
    Killed,
    Link,
    Markers,
    MicroBatchEngine,
    linked_source,
    literal_source,
    paged_source,
)
from flip27_source.testing.fakes import FakeSource, Linked


def read(source: FakeSource, **options: Any) -> list[Any]:
    engine = MicroBatchEngine(source, **options)
    engine.process_all_available(through_crashes=True)
    return engine.rows


def test_values_are_rows_of_one_column_of_their_type() -> None:
    source = literal_source({"a": ["x", CRASH, "y"], "b": [FAIL, None]})
    assert source.schema == pa.schema([pa.field("value", pa.string())])
    assert source.rows == read(source) == [("x",), ("y",), (None,)]


def test_rows_of_several_columns_need_a_schema() -> None:
    schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    source = literal_source({"a": [(1, "x")], "b": [(2, "y")]}, schema=schema)
    assert source.rows == read(source) == [(1, "x"), (2, "y")]
    with pytest.raises(ContractError, match="need a schema"):
        literal_source({"a": [(1, "x")]})


def test_two_fakes_are_independent_of_each_other() -> None:
    one, other = literal_source({"a": [1]}), literal_source({"b": [2]})
    assert (read(one), read(other)) == ([(1,)], [(2,)])


def test_a_marker_takes_effect_a_fixed_number_of_times_despite_restarts() -> None:
    source = literal_source({"a": [1, CRASH, FAIL, Fail("twice", times=2), 2]})
    assert read(source, one_process=True) == [(1,), (2,)]
    assert source.markers.effects == 4
    assert read(source) == [(1,), (2,)]
    assert source.markers.effects == 4
    source.markers.reset()
    assert read(source, one_process=True, max_failures=10) == [(1,), (2,)]
    assert source.markers.effects == 4


def test_each_marker_raises_its_own_error() -> None:
    markers = Markers()
    with pytest.raises(Killed):
        markers.come_by(CRASH, "here")
    with pytest.raises(DataError, match=r"the data says fail \(at there\)"):
        markers.come_by(FAIL, "there")
    markers.come_by(CRASH, "here")
    for _ in range(3):
        with pytest.raises(DataError, match="every time"):
            markers.come_by(BOOM, "poison")


def test_pages_are_read_from_where_the_batch_ended() -> None:
    source = paged_source({"orders": [[1, 2], [3, CRASH], [4]]}, maxRowsPerSplit="1")
    engine = MicroBatchEngine(source)
    assert [batch.rows for batch in engine.process_all_available()] == [((1,), (2,)), ((3,),), ((4,),), ()]
    source.add("orders", [5])
    engine.now_ms += 60_000
    assert [batch.rows for batch in engine.process_all_available()] == [((5,),), ()]
    assert source.rows == engine.rows


def test_a_paged_split_that_ends_is_not_read_again() -> None:
    source = paged_source({"orders": [[1], END, [2]]})
    engine = MicroBatchEngine(source)
    engine.process_all_available()
    engine.now_ms += 60_000
    assert engine.process_all_available() == []
    assert engine.rows == [(1,)]


def test_linked_splits_are_found_by_reading_and_assigned_once() -> None:
    source = linked_source(
        {"a": [1, Link("c"), Link("b")], "b": [2, Link("a")], "c": [CRASH, 3, Link("b")], "lost": [4]}
    )
    assert sorted(read(source, one_process=True)) == [(1,), (2,), (3,)]
    assert sorted(event.name for event in source.data.heard) == ["a", "b", "b", "c"]
    assert Linked("c") in source.data.heard
