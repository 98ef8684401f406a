"""Rows of changeFormat=envelope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.enumerators.postgres.schema import ENVELOPE_SCHEMA
from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.readers.postgres.envelope_rows import EnvelopeRows
from tests.readers.postgres.changing import LSN, changed, chunk, objects
from tests.readers.postgres.converting import array
from tests.readers.postgres.pgoutput_messages import UNCHANGED, delete, insert, relation, update

INT, TEXT = PgType(name="int8"), PgType(name="text")
TYPES = {"id": INT, "name": TEXT}
TABLE = relation()


def rows_of(table: Any, *messages: bytes, key: Sequence[str] = ("id",), **more: PgType) -> pa.RecordBatch:
    changes = changed(table, *messages, key=key)
    return EnvelopeRows(ENVELOPE_SCHEMA).batch(changes, {**TYPES, **more}, key=key)


def rows_of_chunk(
    types: dict[str, PgType], *rows: Sequence[str | None], key: Sequence[str] = (), lsn: int = 0
) -> pa.RecordBatch:
    return EnvelopeRows(ENVELOPE_SCHEMA).batch(chunk(types, *rows, lsn=lsn), types, key=key)


def column(rows: pa.RecordBatch, name: str) -> list[Any]:
    found: list[Any] = rows[name].to_pylist()
    return found


def images(rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The operation, key, and row before and after each change."""
    return [tuple(row[name] for name in ("op", "key", "before", "after")) for row in rows.to_pylist()]


def value_of(kind: PgType, text: str | None) -> Any:
    """The JSON of a value, as text."""
    (after,) = column(rows_of_chunk({"x": kind}, [text]), "after")
    return after.removeprefix('{"x":').removesuffix("}")


def test_each_change_has_its_position_in_the_log() -> None:
    rows = rows_of(TABLE, insert(TABLE, b"1", b"Ada"), insert(TABLE, b"2", None))
    assert column(rows, "_lsn") == [LSN, LSN]
    assert column(rows, "_seq") == [1, 2]
    assert column(rows, "_xid") == [(1 << 32) + 700] * 2
    times = [at.isoformat() for at in column(rows, "_committed_at")]
    assert times == ["2000-01-01T00:00:01.234567+00:00"] * 2


def test_a_value_that_is_missing_from_the_log_is_left_out_and_named() -> None:
    table = relation(columns=("id", "name", "note"))
    messages = [
        update(table, b"1", UNCHANGED, b"n"),
        update(table, b"2", b"a", UNCHANGED),
        update(table, b"3", UNCHANGED, UNCHANGED),
        insert(table, b"4", None, b""),
    ]
    rows = rows_of(table, *messages, note=TEXT)
    assert column(rows, "after") == [
        '{"id":1,"note":"n"}',
        '{"id":2,"name":"a"}',
        '{"id":3}',
        '{"id":4,"name":null,"note":""}',
    ]
    assert column(rows, "unchanged") == [["name"], ["note"], ["name", "note"], None]


def test_the_first_column_can_be_left_out() -> None:
    table = relation(columns=("name", "id"))
    assert column(rows_of(table, update(table, UNCHANGED, b"1")), "after") == ['{"id":1}']


def test_an_unchanged_key_is_taken_from_the_old_row() -> None:
    table = relation(keys=("name",))
    rows = rows_of(table, update(table, b"7", UNCHANGED, key=[None, b"long"]), key=("name",))
    ((op, key, _before, after),) = images(rows)
    assert (op, key, after) == ("u", '{"name":"long"}', '{"id":7,"name":"long"}')


def test_old_rows_of_partitions_with_a_key_that_their_table_does_not_have_have_what_the_log_has() -> None:
    table = relation(keys=())
    messages = [
        delete(table, key=[b"7", None]),
        update(table, b"9", b"Bob", key=[b"8", None]),
        delete(table, old=[b"3", b"Ada"]),
        update(table, b"4", b"Eve"),
    ]
    assert images(rows_of(table, *messages, key=())) == [
        ("d", None, '{"id":7}', None),
        ("u", None, '{"id":8}', '{"id":9,"name":"Bob"}'),
        ("d", None, '{"id":3,"name":"Ada"}', None),
        ("u", None, None, '{"id":4,"name":"Eve"}'),
    ]


def test_a_key_of_several_columns_has_the_order_of_the_table() -> None:
    table = relation(keys=("id", "name"))
    rows = rows_of(table, insert(table, b"1", b"a"), key=("name", "id"))
    assert column(rows, "key") == ['{"id":1,"name":"a"}']


def test_rows_of_a_chunk_have_the_op_of_a_snapshot_read() -> None:
    rows = rows_of_chunk(TYPES, ["1", "Ada"], ["2", None], key=["id"], lsn=9)
    assert rows.schema == ENVELOPE_SCHEMA
    assert column(rows, "table") == ["public.orders"] * 2
    assert images(rows) == [
        ("r", '{"id":1}', None, '{"id":1,"name":"Ada"}'),
        ("r", '{"id":2}', None, '{"id":2,"name":null}'),
    ]
    assert (column(rows, "_lsn"), column(rows, "_seq")) == ([9, 9], [0, 0])
    assert (column(rows, "_xid"), column(rows, "_committed_at")) == ([None, None], [None, None])


def test_rows_of_a_table_without_columns_are_empty_objects() -> None:
    assert column(rows_of_chunk({}, [], []), "after") == ["{}", "{}"]


def test_all_columns_of_a_table_are_read() -> None:
    assert EnvelopeRows(ENVELOPE_SCHEMA).columns_read is None


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("bool", "t", "true"),
        ("bool", "f", "false"),
        ("int2", "-32768", "-32768"),
        ("int8", "9223372036854775807", "9223372036854775807"),
        ("oid", "4294967295", "4294967295"),
        ("float8", "1.7976931348623157e+308", "1.7976931348623157e+308"),
        ("float8", "-0", "-0"),
        ("float4", "0.1", "0.1"),
        ("float8", "NaN", '"NaN"'),
        ("float8", "-Infinity", '"-Infinity"'),
        ("numeric", "12345678901234567890.120", '"12345678901234567890.120"'),
        ("numeric", "NaN", '"NaN"'),
        ("bytea", "\\x00ff10", '"AP8Q"'),
        ("bytea", "\\x", '""'),
        ("date", "0044-03-15 BC", '"0044-03-15 BC"'),
        ("timestamp", "infinity", '"infinity"'),
        ("timestamptz", "2024-01-31 12:00:00.5+00", '"2024-01-31 12:00:00.5+00"'),
        ("interval", "1 mon -00:00:01", '"1 mon -00:00:01"'),
        ("jsonb", '{"a": [1]}', r'"{\"a\": [1]}"'),
        ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"'),
        ("public.mood", "happy", '"happy"'),
    ],
)
def test_values_are_exact(kind: str, text: str, expected: str) -> None:
    assert value_of(PgType(name=kind), text) == expected
    assert value_of(PgType(name=kind), None) == "null"


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("int4", "{}", "[]"),
        ("int4", "{1,NULL,3}", "[1,null,3]"),
        ("int4", "{{1,2},{3,NULL}}", "[[1,2],[3,null]]"),
        ("int4", "[2:3]={1,2}", "[1,2]"),
        ("text", '{a,"b,c",NULL,"NULL","\\"\\\\"}', r'["a","b,c",null,"NULL","\"\\"]'),
        ("numeric", "{1.10,NaN}", '["1.10","NaN"]'),
        ("float8", "{0.5,NaN}", '[0.5,"NaN"]'),
        ("bool", "{t,f}", "[true,false]"),
        ("bytea", '{"\\\\x00ff"}', '["AP8="]'),
    ],
)
def test_arrays_are_json_arrays(kind: str, text: str, expected: str) -> None:
    assert value_of(array(kind), text) == expected
    assert value_of(array(kind), None) == "null"


def test_arrays_of_different_dimensions_may_be_in_one_column() -> None:
    rows = rows_of_chunk({"x": array("int4")}, ["{1}"], [None], ["{{2},{3}}"], ["{}"])
    assert objects(rows["after"]) == [{"x": [1]}, {"x": None}, {"x": [[2], [3]]}, {"x": []}]


def test_every_character_of_a_text_survives() -> None:
    every = "".join(map(chr, range(1, 0x3000))) + "\U0001f600"
    rows = rows_of_chunk({every[:40]: TEXT}, [every], ["plain"], [None], [""])
    assert [row[every[:40]] for row in objects(rows["after"])] == [every, "plain", None, ""]


def test_a_schema_may_have_some_of_the_columns_in_another_order_and_type() -> None:
    schema = pa.schema([("_seq", pa.int32()), ("after", pa.string())])
    rows = EnvelopeRows(schema).batch(changed(TABLE, insert(TABLE, b"1", None)), TYPES, key=["id"])
    assert rows.schema == schema
    assert rows.to_pylist() == [{"_seq": 1, "after": '{"id":1,"name":null}'}]


def test_a_column_that_the_format_does_not_have_is_refused() -> None:
    with pytest.raises(SchemaError, match="the schema has the column id, which changeFormat=envelope"):
        EnvelopeRows(pa.schema([("id", pa.int64())]))


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(
        SplitReadError, match=r"public\.orders: the column name has the value.*not valid UTF-8"
    ):
        rows_of(TABLE, insert(TABLE, b"1", b"\xff"))


def test_a_text_that_is_not_an_array_is_refused() -> None:
    with pytest.raises(
        SplitReadError, match=r"public\.orders: the column x of the type int4\[\] has the value '{1'"
    ):
        value_of(array("int4"), "{1")
