"""Values of columns as Debezium writes them. Many expected values are from Debezium's own tests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.enumerators.postgres.schema import DEBEZIUM_SCHEMA
from flip27_source.errors import SplitReadError
from flip27_source.readers.postgres.debezium_rows import DebeziumRows
from flip27_source.readers.postgres.debezium_values import placeholder
from tests.readers.postgres.changing import chunk
from tests.readers.postgres.converting import array, numeric

PRECISE = {"decimal_handling": "precise"}


def value_of(kind: PgType | str, text: str | None, **more: Any) -> str:
    """The JSON of a value, as text. Checks that it is the same among other rows."""
    types = {"x": PgType(name=kind) if isinstance(kind, str) else kind}
    rows = DebeziumRows(pa.schema([DEBEZIUM_SCHEMA.field("value")]), database="d", topic_prefix="p", **more)

    def written(*column: str | None) -> list[str]:
        batch = rows.batch(chunk(types, *[[value] for value in column]), types, key=[])
        return [
            value.split('"after":{"x":')[1].split('},"source":')[0] for value in batch["value"].to_pylist()
        ]

    (alone,) = written(text)
    assert written(None, text, None, text) == ["null", alone, "null", alone]
    return alone


def precise_of(kind: str, modifier: int) -> PgType:
    return PgType(name=kind, modifier=modifier)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
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
        ("public.vector", "[1,2.5,3]", "[1,2.5,3]"),
        ("point", "(1,1)", '{"x":1,"y":1,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAPA/","srid":null}'),
        ("public.hstore", r'"a"=>"1\"", "b"=>NULL', r'"{\"a\":\"1\\\"\",\"b\":null}"'),
        ("public.hstore", "", '"{}"'),
    ],
)
def test_values_of_ordinary_types_are_converted(kind: str, text: str, expected: str) -> None:
    assert value_of(kind, text) == expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
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
)
def test_dates_and_times_are_adaptive(kind: PgType | str, text: str, expected: str) -> None:
    assert value_of(kind, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 year 2 mons 3 days 04:05:06.78", "P1Y2M3DT4H5M6.78S"),
        ("-1 years +2 mons -00:00:00.50", "P-1Y2M0DT0H0M-0.5S"),
        ("10:00:10", "P0Y0M0DT10H0M10S"),
        ("00:00:00", "P0Y0M0DT0H0M0S"),
    ],
)
def test_intervals_can_be_exact(text: str, expected: str) -> None:
    assert value_of("interval", text, interval_handling="string") == f'"{expected}"'


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("numeric", "22.2222", '"22.2222"'),
        (numeric(6, 4), "22.2200", '"22.2200"'),
        ("numeric", "NaN", '"NAN"'),
        ("numeric", "Infinity", '"POSITIVE_INFINITY"'),
        ("numeric", "-Infinity", '"NEGATIVE_INFINITY"'),
        ("money", "$1,234.11", '"1234.11"'),
        ("money", "-$1,234.11", '"-1234.11"'),
        ("money", "($1,234.11)", '"-1234.11"'),
    ],
)
def test_decimals_are_strings(kind: PgType | str, text: str, expected: str) -> None:
    assert value_of(kind, text) == expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
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
    ],
)
def test_decimals_can_be_bytes(kind: PgType | str, text: str, expected: str) -> None:
    assert value_of(kind, text, **PRECISE) == expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (precise_of("bit", 1), "1", "true"),
        (precise_of("varbit", 1), "0", "false"),
        (precise_of("bit", 2), "11", '"Aw=="'),
        (precise_of("bit", 24), "000000110000001000000001", '"AQID"'),
        (precise_of("bit", 2), "00", '""'),
        ("varbit", "101", '"BQ=="'),
        ("varbit", "111011010001000110000001000000001", '"AQIj2gE="'),
    ],
)
def test_bits_become_bytes_with_the_least_significant_byte_first(
    kind: PgType | str, text: str, expected: str
) -> None:
    assert value_of(kind, text) == expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("int4", "{1,NULL}", "[1,null]"),
        ("text", '{a,"b\\"c"}', r'["a","b\"c"]'),
        ("date", "{2016-11-04,infinity}", "[17109,-2147472692]"),
        ("timetz", "{13:51:02+02}", '["11:51:02Z"]'),
        ("timestamptz", '{"2020-04-01 11:51:02+00"}', '["2020-04-01T11:51:02.000000Z"]'),
        ("numeric", "{1.10,NaN}", '["1.10","NAN"]'),
    ],
)
def test_elements_of_arrays_are_converted_like_values_of_their_type(
    kind: str, text: str, expected: str
) -> None:
    assert value_of(array(kind), text) == expected


def test_unchanged_values_have_the_placeholders_of_debezium() -> None:
    assert placeholder(PgType(name="text")) == '"__debezium_unavailable_value"'
    assert placeholder(PgType(name="jsonb")) == '"__debezium_unavailable_value"'
    assert placeholder(PgType(name="bytea")) == '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="'
    assert placeholder(array("text")) == '["__debezium_unavailable_value"]'
    assert placeholder(array("int8")).startswith("[95,95,100,101,")
    assert placeholder(array("uuid")) == '["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]'


@pytest.mark.parametrize(
    ("kind", "text", "options", "reason", "remedy"),
    [
        (
            "numeric",
            "NaN",
            PRECISE,
            "decimalHandlingMode=precise has no such value",
            "decimalHandlingMode=string",
        ),
        ("money", "12 Kč", {}, "not an amount as lc_monetary=C writes it", "lc_monetary"),
        ("interval", "infinity", {}, "not an interval of years to seconds", "changeFormat=envelope"),
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
