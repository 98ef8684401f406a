"""Rows of changeFormat=debezium: the fields around the values of columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from flip27_source._version import __version__
from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.enumerators.postgres.options import POSTGRES_OPTIONS
from flip27_source.enumerators.postgres.schema import DEBEZIUM_SCHEMA
from flip27_source.enumerators.postgres.split import TableName
from flip27_source.errors import SchemaError
from flip27_source.options import Options
from flip27_source.readers.postgres.change_rows import change_rows
from flip27_source.readers.postgres.debezium_rows import DebeziumRows
from tests.readers.postgres.changing import COMMITTED_US, LSN, changed, chunk
from tests.readers.postgres.pgoutput_messages import UNCHANGED, insert, relation, truncate, update

TYPES = {"id": PgType(name="int8"), "name": PgType(name="text")}
TABLE = relation()
NOW_NS = 1_700_000_000_123_456_789


def debezium(schema: pa.Schema = DEBEZIUM_SCHEMA, **more: Any) -> DebeziumRows:
    return DebeziumRows(schema, database="shop", topic_prefix="live", now_ns=lambda: NOW_NS, **more)


def rows_of(table: Any, *messages: bytes, key: Sequence[str] = ("id",), **more: PgType) -> pa.RecordBatch:
    return debezium().batch(changed(table, *messages, key=key), {**TYPES, **more}, key=key)


def values(rows: pa.RecordBatch) -> list[Any]:
    return [json.loads(text) for text in rows["value"].to_pylist()]


def test_a_change_has_the_fields_of_debezium_in_its_order() -> None:
    rows = rows_of(TABLE, insert(TABLE, b"1", b'Ada "Countess"'))
    assert rows.schema == DEBEZIUM_SCHEMA
    at_ms = COMMITTED_US // 1000
    (value,) = rows["value"].to_pylist()
    assert value == (
        r'{"before":null,"after":{"id":1,"name":"Ada \"Countess\""},'
        f'"source":{{"version":"flip27-source {__version__}","connector":"postgresql",'
        f'"name":"live","ts_ms":{at_ms},'
        rf'"snapshot":"false","db":"shop","sequence":"[\"{LSN}\",\"1\"]",'
        f'"ts_us":{COMMITTED_US},"ts_ns":{COMMITTED_US}000,"schema":"public","table":"orders",'
        f'"txId":700,"lsn":{LSN},"xmin":null,"origin":null,"origin_lsn":null}},'
        '"transaction":null,"op":"c","ts_ms":1700000000123,"ts_us":1700000000123456,"ts_ns":1700000000123456789}'
    )
    assert rows["key"].to_pylist() == ['{"id":1}']
    assert rows["table"].to_pylist() == ["public.orders"]
    assert (rows["_lsn"].to_pylist(), rows["_seq"].to_pylist()) == ([LSN], [1])
    assert rows["_xid"].to_pylist() == [(1 << 32) + 700]


def test_rows_of_a_chunk_have_the_op_of_a_snapshot_read() -> None:
    rows = debezium().batch(chunk(TYPES, ["1", "Ada"], ["2", None], lsn=9), TYPES, key=["id"])
    assert rows.schema == DEBEZIUM_SCHEMA
    assert rows["value"].to_pylist()[0] == (
        '{"before":null,"after":{"id":1,"name":"Ada"},'
        f'"source":{{"version":"flip27-source {__version__}","connector":"postgresql","name":"live",'
        r'"ts_ms":1700000000123,"snapshot":"true","db":"shop","sequence":"[\"9\",\"0\"]",'
        '"ts_us":1700000000123456,"ts_ns":1700000000123456789,"schema":"public","table":"orders",'
        '"txId":null,"lsn":9,"xmin":null,"origin":null,"origin_lsn":null},'
        '"transaction":null,"op":"r","ts_ms":1700000000123,"ts_us":1700000000123456,"ts_ns":1700000000123456789}'
    )
    assert values(rows)[1]["after"] == {"id": 2, "name": None}
    assert rows["key"].to_pylist() == ['{"id":1}', '{"id":2}']
    assert (rows["_lsn"].to_pylist(), rows["_seq"].to_pylist()) == ([9, 9], [0, 0])


def test_a_value_that_is_missing_from_the_log_becomes_the_placeholder() -> None:
    table = relation(columns=("id", "name", "tags", "numbers"))
    tags, numbers = (PgType(name=name, is_array=True) for name in ("text", "int4"))
    messages = [
        update(table, b"1", UNCHANGED, UNCHANGED, UNCHANGED),
        update(table, b"2", b"a", b"{x}", b"{7}"),
    ]
    first, second = values(rows_of(table, *messages, tags=tags, numbers=numbers))
    assert first["after"] == {
        "id": 1,
        "name": "__debezium_unavailable_value",
        "tags": ["__debezium_unavailable_value"],
        "numbers": list(b"__debezium_unavailable_value"),
    }
    assert second["after"] == {"id": 2, "name": "a", "tags": ["x"], "numbers": [7]}


def test_names_with_quotes_are_escaped() -> None:
    table = TableName(oid=1, schema='a"b', name="c\\d")
    rows = DebeziumRows(DEBEZIUM_SCHEMA, database='s"h', topic_prefix="l\tv").batch(
        chunk(TYPES, ["1", "Ada"], table=table), TYPES, key=[]
    )
    (value,) = values(rows)
    source = value["source"]
    assert (source["db"], source["name"], source["schema"], source["table"]) == ('s"h', "l\tv", 'a"b', "c\\d")
    assert rows["key"].to_pylist() == [None]


def test_the_options_choose_the_name_of_the_source_and_the_forms_of_values() -> None:
    types = {"n": PgType(name="numeric"), "i": PgType(name="interval")}

    def value_with(**given: str) -> Any:
        given = {"database": "shop", "changeFormat": "debezium", **given}
        rows = change_rows(DEBEZIUM_SCHEMA, Options.parse(given, POSTGRES_OPTIONS))
        batch = rows.batch(chunk(types, ["1.50", "1 day"]), types, key=[])
        return values(batch)[0]

    ordinary = value_with()
    assert ordinary["source"]["name"] == "shop"
    assert ordinary["after"] == {"n": "1.50", "i": 86_400_000_000}
    other = value_with(topicPrefix="live", decimalHandlingMode="precise", intervalHandlingMode="string")
    assert other["source"]["name"] == "live"
    assert other["after"] == {"n": {"scale": 1, "value": "Dw=="}, "i": "P0Y0M1DT0H0M0S"}


def test_a_schema_may_have_some_of_the_columns() -> None:
    schema = pa.schema([("value", pa.string())])
    batch = debezium(schema).batch(changed(TABLE, truncate(TABLE)), TYPES, key=["id"])
    assert batch.schema == schema
    with pytest.raises(SchemaError, match="the schema has the column after, which changeFormat=debezium"):
        debezium(pa.schema([("after", pa.string())]))
