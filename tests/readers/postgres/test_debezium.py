"""Rows of changeFormat=debezium. Many expected values of columns are from Debezium's own tests."""

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
from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.options import Options
from flip27_source.readers.postgres.change_rows import change_rows
from flip27_source.readers.postgres.debezium_rows import DebeziumRows
from flip27_source.readers.postgres.debezium_values import placeholder
from tests.readers.postgres.changing import COMMITTED_US, LSN, changed, chunk
from tests.readers.postgres.converting import array, numeric
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
    sent = [update(table, b"1", UNCHANGED, UNCHANGED, UNCHANGED), update(table, b"2", b"a", b"{x}", b"{7}")]
    first, second = values(rows_of(table, *sent, tags=tags, numbers=numbers))
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
        return values(rows.batch(chunk(types, ["1.50", "1 day"]), types, key=[]))[0]

    ordinary = value_with()
    assert ordinary["source"]["name"] == "shop"
    assert ordinary["after"] == {"n": "1.50", "i": 86_400_000_000}
    other = value_with(topicPrefix="live", decimalHandlingMode="precise", intervalHandlingMode="string")
    assert other["source"]["name"] == "live"
    assert other["after"] == {"n": {"scale": 1, "value": "Dw=="}, "i": "P0Y0M1DT0H0M0S"}


def test_a_schema_may_have_some_of_the_columns() -> None:
    schema = pa.schema([("value", pa.string())])
    assert debezium(schema).batch(changed(TABLE, truncate(TABLE)), TYPES, key=["id"]).schema == schema
    with pytest.raises(SchemaError, match="the schema has the column after, which changeFormat=debezium"):
        debezium(pa.schema([("after", pa.string())]))


PRECISE = {"decimal_handling": "precise"}


def value_of(kind: PgType | str, text: str | None, **more: Any) -> str:
    """The JSON of a value, as text. Checks that it is the same among other rows."""
    types = {"x": PgType(name=kind) if isinstance(kind, str) else kind}
    rows = DebeziumRows(pa.schema([DEBEZIUM_SCHEMA.field("value")]), database="d", topic_prefix="p", **more)

    def written(*column: str | None) -> list[str]:
        batch = rows.batch(chunk(types, *[[value] for value in column]), types, key=[])
        return [v.split('"after":{"x":')[1].split('},"source":')[0] for v in batch["value"].to_pylist()]

    (alone,) = written(text)
    assert written(None, text, None, text) == ["null", alone, "null", alone]
    return alone


def precise_of(kind: str, modifier: int) -> PgType:
    return PgType(name=kind, modifier=modifier)


VALUES: dict[str, tuple[dict[str, str], list[tuple[PgType | str, str, str]]]] = {
    "an ordinary type": (
        {},
        [
            ("bool", "t", "true"),
            ("int8", "-9223372036854775808", "-9223372036854775808"),
            ("float4", "3.3", "3.3"),
            ("float8", "NaN", '"NaN"'),
            ("text", 'a"b', r'"a\"b"'),
            ("bpchar", "a  ", '"a  "'),
            ("json", '{"bar": "baz"}', r'"{\"bar\": \"baz\"}"'),
            ("xml", "<foo>bar</foo>", '"<foo>bar</foo>"'),
            ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"'),
            ("bytea", "\\x010203", '"AQID"'),
            ("tstzrange", "[2017-06-05 11:29:12.549426+00,)", '"[2017-06-05 11:29:12.549426+00,)"'),
            ("public.mood", "happy", '"happy"'),
            ("public.citext", "Hi", '"Hi"'),
            ("public.ltree", "Top.Science", '"Top.Science"'),
            ("tsvector", "'a':1 'b':2", "\"'a':1 'b':2\""),
            ("public.vector", "[1,2.5,3]", "[1,2.5,3]"),
            ("public.halfvec", "[1,2.5,3]", "[1,2.5,3]"),
            ("public.sparsevec", "{1:1.5,9:-2e+07}/20", '{"dimensions":20,"vector":[[1,1.5],[9,-2e+07]]}'),
            ("public.sparsevec", "{}/3", '{"dimensions":3,"vector":[]}'),
            ("shop.vector", "(1,2)", '"(1,2)"'),
            ("shop.point", "(1,NW)", '"(1,NW)"'),
            ("shop.money", "(12,EUR)", '"(12,EUR)"'),
            ("shop.sparsevec", "few", '"few"'),
            ("point", "(1,1)", '{"x":1,"y":1,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAPA/","srid":null}'),
            ("public.hstore", r'"a"=>"1\"", "b"=>NULL', r'"{\"a\":\"1\\\"\",\"b\":null}"'),
            ("public.hstore", "", '"{}"'),
        ],
    ),
    "an adaptive date or time": (
        {},
        [
            ("date", "2016-11-04", "17109"),
            ("date", "0044-03-15 BC", "-735160"),
            ("time", "13:51:30", "49890000000"),
            ("time", "24:00:00", "86400000000"),
            (precise_of("time", 3), "13:51:30.123", "49890123"),
            ("timestamp", "2016-11-04 13:51:30.123456", "1478267490123456"),
            (precise_of("timestamp", 6), "2016-11-04 13:51:30.123456", "1478267490123456"),
            (precise_of("timestamp", 3), "2016-11-04 13:51:30.123", "1478267490123"),
            (precise_of("timestamp", 0), "1936-10-25 22:10:12", "-1047174588000"),
            ("timestamp", "21016-11-04 13:51:30.123457", "601060312290123457"),
            ("timestamp", "294247-01-01 23:59:59.999999", "9223371331199999999"),
            ("timestamp", "4713-12-31 23:59:59.999999 BC", "-210831897600000001"),
            ("timestamp", "infinity", "9223372036825200000"),
            ("timestamp", "-infinity", "-9223372036832400000"),
            (precise_of("timestamp", 3), "infinity", "9223372036825200"),
            (precise_of("timestamp", 3), "294276-12-31 23:59:59.999", "9224318015999999"),
            ("timestamptz", "2016-11-04 11:51:30.123456+00", '"2016-11-04T11:51:30.123456Z"'),
            ("timestamptz", "2016-11-04 11:51:30+00", '"2016-11-04T11:51:30.000000Z"'),
            (precise_of("timestamptz", 3), "2016-11-04 11:51:30.12+00", '"2016-11-04T11:51:30.120Z"'),
            (precise_of("timestamptz", 0), "2016-11-04 11:51:30+00", '"2016-11-04T11:51:30Z"'),
            ("timestamptz", "21016-11-04 06:51:30+00", '"+21016-11-04T06:51:30.000000Z"'),
            ("timestamptz", "4714-12-31 23:59:59.999999+00 BC", '"-4713-12-31T23:59:59.999999Z"'),
            ("timestamptz", "-infinity", '"-infinity"'),
            ("timetz", "13:51:30.123789+02", '"11:51:30.123789Z"'),
            ("timetz", "13:51:30.1+02", '"11:51:30.1Z"'),
            ("timetz", "01:00:00+03:30:15", '"21:29:45Z"'),
            ("timetz", "23:00:00-05", '"04:00:00Z"'),
            ("timetz", "24:00:00+00", '"24:00:00Z"'),
            ("interval", "1 year 2 mons 3 days 04:05:06.78", "37091106780000"),
            ("interval", "-1 years +2 mons -00:00:00.5", "-26298000500000"),
            ("interval", "00:00:00", "0"),
        ],
    ),
    "an exact interval": (
        {"interval_handling": "string"},
        [
            ("interval", "1 year 2 mons 3 days 04:05:06.78", '"P1Y2M3DT4H5M6.78S"'),
            ("interval", "-1 years +2 mons -00:00:00.50", '"P-1Y2M0DT0H0M-0.5S"'),
            ("interval", "10:00:10", '"P0Y0M0DT10H0M10S"'),
            ("interval", "00:00:00", '"P0Y0M0DT0H0M0S"'),
        ],
    ),
    "a decimal as string": (
        {},
        [
            ("numeric", "22.2222", '"22.2222"'),
            (numeric(6, 4), "22.2200", '"22.2200"'),
            ("numeric", "NaN", '"NAN"'),
            ("numeric", "Infinity", '"POSITIVE_INFINITY"'),
            ("numeric", "-Infinity", '"NEGATIVE_INFINITY"'),
            ("money", "$1,234.11", '"1234.11"'),
            ("money", "-$1,234.11", '"-1234.11"'),
            ("money", "($1,234.11)", '"-1234.11"'),
            ("money", "$0.00", '"0.00"'),
            ("money", "-$92,233,720,368,547,758.08", '"-92233720368547758.08"'),
        ],
    ),
    "a decimal as bytes": (
        PRECISE,
        [
            (numeric(3, 2), "1.10", '"bg=="'),
            (numeric(6, 4), "-22.2200", '"/JwI"'),
            (numeric(5, 0), "128", '"AIA="'),
            (numeric(5, 0), "-128", '"gA=="'),
            (numeric(5, 0), "0", '"AA=="'),
            (numeric(3, -2), "1200", '"DA=="'),
            ("numeric", "10.1111", '{"scale":4,"value":"AYr3"}'),
            ("numeric", "22.000", '{"scale":0,"value":"Fg=="}'),
            ("numeric", "1200", '{"scale":0,"value":"BLA="}'),
            ("numeric", "0.00", '{"scale":0,"value":"AA=="}'),
            ("money", "$1,234.11", '"AeIT"'),
            ("money", "-$92,233,720,368,547,758.08", '"gAAAAAAAAAA="'),
        ],
    ),
    "bits, the least significant byte first": (
        {},
        [
            (precise_of("bit", 1), "1", "true"),
            (precise_of("varbit", 1), "0", "false"),
            (precise_of("bit", 2), "11", '"Aw=="'),
            (precise_of("bit", 24), "000000110000001000000001", '"AQID"'),
            (precise_of("bit", 2), "00", '""'),
            ("varbit", "101", '"BQ=="'),
            ("varbit", "111011010001000110000001000000001", '"AQIj2gE="'),
        ],
    ),
    "an array": (
        {},
        [
            (array("int4"), "{1,NULL}", "[1,null]"),
            (array("text"), '{a,"b\\"c"}', r'["a","b\"c"]'),
            (array("date"), "{2016-11-04,infinity}", "[17109,-2147472692]"),
            (array("timetz"), "{13:51:02+02}", '["11:51:02Z"]'),
            (array("timestamptz"), '{"2020-04-01 11:51:02+00"}', '["2020-04-01T11:51:02.000000Z"]'),
            (array("numeric"), "{1.10,NaN}", '["1.10","NAN"]'),
        ],
    ),
}
"""Options, and types with texts and the JSON of their values."""


@pytest.mark.parametrize(
    ("kind", "text", "options", "expected"),
    [
        pytest.param(kind, text, options, expected, id=f"{name}: {kind} {text}")
        for name, (options, cases) in VALUES.items()
        for kind, text, expected in cases
    ],
)
def test_a_value_has_the_form_that_debezium_gives_it(
    kind: PgType | str, text: str, options: dict[str, str], expected: str
) -> None:
    assert value_of(kind, text, **options) == expected


def test_unchanged_values_have_the_placeholders_of_debezium() -> None:
    assert placeholder(PgType(name="text")) == '"__debezium_unavailable_value"'
    assert placeholder(PgType(name="jsonb")) == '"__debezium_unavailable_value"'
    assert placeholder(PgType(name="public.hstore")) == (
        r'"{\"__debezium_unavailable_value\":\"__debezium_unavailable_value\"}"'
    )
    assert placeholder(PgType(name="bytea")) == '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="'
    assert placeholder(array("text")) == '["__debezium_unavailable_value"]'
    assert placeholder(array("int8")).startswith("[95,95,100,101,")
    assert placeholder(array("uuid")) == '["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]'


@pytest.mark.parametrize(
    ("kind", "text", "options", "reason", "remedy"),
    [
        ("numeric", "NaN", PRECISE, "decimalHandlingMode=precise has no such value", "Mode=string"),
        ("money", "12 Kč", {}, "not an amount as lc_monetary=C writes it", "lc_monetary"),
        ("interval", "infinity", {}, "not an interval of years to seconds", "changeFormat=envelope"),
        ("interval", "178000000 years", {}, "its microseconds exceed 64 bits", "HandlingMode=string"),
        ("timestamp", "294276-12-31 23:59:59.999999", {}, "microseconds exceed 64 bits", "Format=envelope"),
        ("timestamp", "soon", {}, "not a value of the type timestamp", "changeFormat=typed"),
        ("timestamptz", "12020-04-01 11:51:02+02", {}, "not a value of the type timestamptz in UTC", "typed"),
    ],
)
def test_a_value_without_a_debezium_form_is_refused(
    kind: str, text: str, options: dict[str, str], reason: str, remedy: str
) -> None:
    with pytest.raises(SplitReadError) as raised:
        value_of(kind, text, **options)
    assert raised.value.what.startswith(
        f"public.orders: the column x of the type {kind} has the value {text!r}"
    )
    assert reason in raised.value.what
    assert remedy in (raised.value.remedy or "")
