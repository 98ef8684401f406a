"""conform: converts a batch to the exact schema that Spark expects, or fails with the name of the column."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest

from flip27_source.errors import SchemaError
from flip27_source.executor.split_read import conform


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def test_a_batch_that_fits_is_passed_on_unchanged() -> None:
    given = batch(a=pa.array([1]))
    assert conform(given, given.schema) is given


def test_columns_are_reordered_and_extra_columns_are_left_out() -> None:
    given = batch(extra=pa.array([0]), b=pa.array(["x"]), a=pa.array([1]))
    wanted = pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert conform(given, wanted).to_pydict() == {"a": [1], "b": ["x"]}


@pytest.mark.parametrize(
    ("given", "wanted", "value"),
    [
        (pa.array([1], pa.int8()), pa.int64(), 1),
        (pa.array(["x"], pa.large_string()), pa.string(), "x"),
        (pa.array(["x"]).dictionary_encode(), pa.string(), "x"),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("ns"), 1),
        (
            pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("ms")),
            pa.timestamp("us"),
            dt.datetime(2026, 1, 1),
        ),
        (pa.array([decimal.Decimal("1.5")]), pa.decimal128(10, 2), decimal.Decimal("1.50")),
        (pa.array([None]), pa.int32(), None),
        (pa.array([[1]], pa.list_(pa.int8())), pa.list_(pa.int64()), [1]),
        (pa.array([{"x": 1}], pa.struct([("x", pa.int8())])), pa.struct([("x", pa.int64())]), {"x": 1}),
    ],
    ids=["int", "string", "dictionary", "same", "timestamp", "decimal", "null", "list", "struct"],
)
def test_types_are_cast(given: pa.Array, wanted: pa.DataType, value: object) -> None:
    schema = pa.schema([("a", wanted)])
    conformed = conform(batch(a=given), schema)
    assert conformed.schema.equals(schema)
    found = conformed.column(0)[0]
    assert (found.value if pa.types.is_timestamp(wanted) and value == 1 else found.as_py()) == value


def test_not_null_becomes_nullable_and_nullable_without_nulls_becomes_not_null() -> None:
    given = batch(a=pa.array([1]))
    strict = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    assert conform(given, strict).schema.equals(strict)
    assert conform(conform(given, strict), given.schema).schema.equals(given.schema)


def test_a_missing_column_is_an_error_that_names_it_and_the_existing_columns() -> None:
    with pytest.raises(SchemaError, match=r"has no column 'b'; it has \['a'\]"):
        conform(batch(a=pa.array([1])), pa.schema([("b", pa.int64())]))


def test_a_column_that_is_there_twice_is_an_error_that_says_so() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1])] * 3, names=["a", "a", "b"])
    with pytest.raises(SchemaError, match=r"batch has the column 'a' 2 times") as caught:
        conform(twice, pa.schema([("a", pa.int64())]))
    assert "each column of context.schema once" in str(caught.value.remedy)


def test_a_column_name_in_another_case_is_another_column() -> None:
    with pytest.raises(SchemaError, match="has no column 'A'"):
        conform(batch(a=pa.array([1])), pa.schema([("A", pa.int64())]))


def test_nulls_in_a_not_null_column_are_an_error_that_counts_them() -> None:
    strict = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    with pytest.raises(SchemaError, match="column 'a' is NOT NULL in the schema and has 2 nulls"):
        conform(batch(a=pa.array([1, None, None])), strict)
    with pytest.raises(SchemaError, match="column 'a' is NOT NULL in the schema and has 2 nulls"):
        conform(pa.RecordBatch.from_arrays([pa.array([1, None, None])], schema=strict), strict)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.array([300]), pa.int8()),
        (pa.array(["x"]), pa.int64()),
        (pa.array([1.5]), pa.int64()),
        (pa.array([decimal.Decimal("1.55")]), pa.decimal128(10, 1)),
    ],
    ids=["overflow", "text", "fraction", "digits"],
)
def test_a_value_that_would_be_lost_is_an_error_that_names_column_and_types(
    given: pa.Array, wanted: pa.DataType
) -> None:
    with pytest.raises(SchemaError, match=r"column 'a' has type .* and cannot be cast to"):
        conform(batch(a=given), pa.schema([("a", wanted)]))
