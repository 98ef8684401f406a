"""Texts of each PostgreSQL type and of arrays are converted exactly, or are an error that says what to do."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.readers.postgres.values import ValueConverter
from tests.readers.postgres.converting import array, converted, numeric

D = Decimal
TIMESTAMP, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")


def refused(type: PgType | str, text: str | bytes, target: pa.DataType | None = None) -> str:
    """The error of converting a text between nulls."""
    with pytest.raises(SplitReadError) as error:
        converted(type, [None, text, None], target)
    return str(error.value)


@pytest.mark.parametrize("type", ["int4", "text", "bytea", "bool", "date", "timestamptz", "float8"])
def test_columns_may_be_empty_or_null_throughout(type: str) -> None:
    assert converted(type, []).to_pylist() == []
    assert converted(type, [None, None]).to_pylist() == [None, None]


def test_an_instant_is_the_same_in_any_time_zone_of_the_schema() -> None:
    berlin = pa.timestamp("us", "Europe/Berlin")
    values = converted("timestamptz", ["2024-07-01 00:00:00+00"], berlin)
    assert values.cast(pa.int64()).to_pylist() == [1719792000000000]


@pytest.mark.parametrize(
    ("type", "text", "target", "value"),
    [
        ("int8", "127", pa.int8(), 127),
        ("int8", "9007199254740992", pa.float64(), 2.0**53),
        ("int8", "-9223372036854775808", pa.float64(), -(2.0**63)),
        ("int4", "16777216", pa.float32(), 2.0**24),
        ("int8", "9223372036854775807", pa.decimal128(19, 0), D(2**63 - 1)),
        ("int4", "-5", pa.decimal128(10, 2), D("-5.00")),
        ("numeric", "12", pa.int32(), 12),
        ("numeric", "-12.000", pa.int8(), -12),
        ("numeric", "9223372036854775807.00", pa.int64(), 2**63 - 1),
        ("numeric", "0.1", pa.float64(), 0.1),
        ("numeric", "0.12345678901234567890123456789", pa.float64(), 0.12345678901234567890123456789),
        ("numeric", "0.1", pa.float32(), 0.10000000149011612),
        ("numeric", "0." + "0" * 400 + "1", pa.float64(), 0.0),
        ("numeric", "-Infinity", pa.float64(), -math.inf),
        ("numeric", "1.5000", pa.decimal128(5, 2), D("1.50")),
        ("numeric", "0", pa.decimal128(38, 38), D("0E-38")),
        ("numeric", "-1.5", pa.string(), "-1.5"),
        ("float8", "9.007199254740992e+15", pa.int64(), 2**53),
        ("float8", "1e+18", pa.int64(), 10**18),
        ("float4", "1.6777216e+07", pa.int32(), 2**24),
        ("float4", "1.2345679e+08", pa.int64(), 123456792),
        ("float4", "0.1", pa.float64(), 0.10000000149011612),
        ("float8", "0.5", pa.float32(), 0.5),
        ("float8", "Infinity", pa.float32(), math.inf),
        ("float8", "0.1", pa.decimal128(5, 2), D("0.10")),
        ("float8", "1.5e-07", pa.decimal128(10, 8), D("0.00000015")),
        ("float8", "1e+20", pa.decimal128(38, 2), D("100000000000000000000.00")),
        ("float8", "0.1", pa.string(), "0.1"),
        ("date", "2024-02-29", TIMESTAMP, datetime(2024, 2, 29)),
        ("timestamp", "2024-02-29 00:00:00", pa.date32(), date(2024, 2, 29)),
        ("timestamp", "1969-12-31 00:00:00", pa.date32(), date(1969, 12, 31)),
        ("text", "é", pa.binary(), "é".encode()),
        ("json", "{}", pa.binary(), b"{}"),
        ("bytea", "\\x00", pa.string(), "\\x00"),
        ("bool", "t", pa.string(), "t"),
        ("date", "infinity", pa.string(), "infinity"),
        ("timestamptz", "0044-03-15 12:00:00+00 BC", pa.string(), "0044-03-15 12:00:00+00 BC"),
        (PgType(name="int4", is_array=True), "{1,{2", pa.string(), "{1,{2"),
    ],
)
def test_a_schema_may_choose_a_type(type: PgType | str, text: str, target: pa.DataType, value: Any) -> None:
    assert repr(converted(type, [None, text], target).to_pylist()) == repr([None, value])


@pytest.mark.parametrize(
    ("type", "text", "target", "reason"),
    [
        ("int4", "2147483648", pa.int32(), "not between -2147483648 and 2147483647"),
        ("int8", "9223372036854775808", pa.int64(), "not between"),
        ("int8", "128", pa.int8(), "not between -128 and 127"),
        ("numeric", "1" + "0" * 100_000, pa.int64(), "not between"),
        ("numeric", "1.5", pa.int32(), "not a whole number"),
        ("numeric", "NaN", pa.int32(), "integers have no such value"),
        ("int4", "0x10", pa.int32(), "not a number"),
        ("int4", "", pa.int32(), "not a number"),
        ("int4", "1/2", pa.int32(), "not a number"),
        ("int4", "\u0661", pa.int32(), "not a number"),
        ("int8", "9007199254740993", pa.float64(), "no number of this type is equal to it"),
        ("int8", "9223372036854775807", pa.float64(), "no number of this type is equal to it"),
        ("int4", "16777217", pa.float32(), "no number of this type is equal to it"),
        ("float8", "0.1", pa.float32(), "no number of this type is equal to it"),
        ("float8", "1e+39", pa.float32(), "no number of this type is equal to it"),
        ("float8", "0.5", pa.int32(), "not a whole number"),
        ("float8", "9.223372036854776e+18", pa.int64(), "not between"),
        ("float8", "NaN", pa.int64(), "not between"),
        ("float8", "Infinity", pa.int64(), "not between"),
        ("float8", "inf", pa.float64(), "not a number"),
        ("float8", "nan", pa.float64(), "not a number"),
        ("numeric", "1" + "0" * 400, pa.float64(), "beyond the range"),
        ("numeric", "4" + "0" * 38, pa.float32(), "beyond the range"),
        ("numeric", "9" * 39, pa.decimal128(38, 0), "more than 38 digits before the decimal point"),
        ("numeric", "9" * 37 + ".99", pa.decimal128(38, 2), "more than 36 digits before the decimal point"),
        ("numeric", "100000", pa.decimal128(7, 2), "more than 5 digits before the decimal point"),
        ("numeric", "1", pa.decimal128(2, 2), "more than 0 digits before the decimal point"),
        ("numeric", "1.005", pa.decimal128(7, 2), "more than 2 digits after the decimal point"),
        (
            "numeric",
            "0." + "0" * 16_382 + "1",
            pa.decimal128(38, 10),
            "more than 10 digits after the decimal point",
        ),
        ("numeric", "NaN", pa.decimal128(7, 2), "decimals have no such value"),
        ("numeric", "Infinity", pa.decimal128(7, 2), "decimals have no such value"),
        ("float8", "1e-07", pa.decimal128(7, 2), "more than 2 digits after the decimal point"),
        ("date", "infinity", pa.date32(), "no infinity"),
        ("date", "-infinity", TIMESTAMP, "no infinity"),
        ("date", "0044-03-15 BC", pa.date32(), "years 1 to 9999"),
        ("date", "10000-01-01", pa.date32(), "years 1 to 9999"),
        ("date", "5874897-12-31", pa.date32(), "years 1 to 9999"),
        ("date", "0000-12-31", pa.date32(), "years 1 to 9999"),
        ("date", "2023-02-29", pa.date32(), "not a value of the type date"),
        ("date", "20230228", pa.date32(), "not a value of the type date"),
        ("timestamp", "infinity", TIMESTAMP, "no infinity"),
        ("timestamp", "0044-03-15 00:00:00 BC", TIMESTAMP, "years 1 to 9999"),
        ("timestamp", "294276-12-31 23:59:59.999999", TIMESTAMP, "years 1 to 9999"),
        ("timestamp", "2024-01-01 00:00:00+00", TIMESTAMP, "not a value of the type timestamp"),
        ("timestamp", "2024-01-01 00:00:00.000001", pa.date32(), "no time of day"),
        ("timestamptz", "-infinity", INSTANT, "no infinity"),
        ("timestamptz", "10000-01-01 00:00:00+00", INSTANT, "years 1 to 9999"),
        ("timestamptz", "4713-11-24 00:00:00+00 BC", INSTANT, "years 1 to 9999"),
        ("timestamptz", "0001-01-01 00:00:00+05:30", INSTANT, "years 1 to 9999"),
        ("timestamptz", "9999-12-31 23:00:00-07", INSTANT, "years 1 to 9999"),
        ("timestamptz", "2024-01-01 00:00:00", INSTANT, "not a value of the type timestamptz"),
        ("bool", "true", pa.bool_(), "not a value of the type bool"),
        ("bool", "1", pa.bool_(), "not a value of the type bool"),
        ("bytea", "", pa.binary(), "hexadecimal"),
        ("bytea", "00", pa.binary(), "hexadecimal"),
        ("bytea", "\\x0", pa.binary(), "hexadecimal"),
        ("bytea", "\\x0g", pa.binary(), "hexadecimal"),
        ("bytea", "\\x41\\x", pa.binary(), "hexadecimal"),
        ("bytea", "\\000", pa.binary(), "hexadecimal"),
        ("text", b"a\xff", pa.string(), "not valid UTF-8"),
    ],
)
def test_a_misfit_is_refused(type: str, text: str | bytes, target: pa.DataType, reason: str) -> None:
    said = refused(type, text, target)

    assert said.startswith("public.t: the column x has the value ")
    assert reason in said
    assert "What to do: give the column the type " in said
    assert len(said) < 500


ORDINARY = {
    "int4": "7", "int8": "7", "numeric": "7", "float8": "7", "date": "2024-01-01", "bool": "t",
    "timestamp": "2024-01-01 00:00:00", "timestamptz": "2024-01-01 00:00:00+00", "bytea": "\\x00",
}  # fmt: skip


@pytest.mark.parametrize(
    ("type", "odd", "target"),
    [
        ("int4", "2147483648", None), ("numeric", "NaN", pa.decimal128(7, 2)),
        ("numeric", "1" + "0" * 400, pa.float64()), ("float8", "0.1", pa.int32()),
        ("date", "infinity", None), ("timestamp", "0044-03-15 00:00:00 BC", None),
        ("timestamptz", "0001-01-01 00:00:00+05:30", None), ("bool", "x", None), ("bytea", "\\x0\\x", None),
    ],
)  # fmt: skip
def test_an_error_names_one_bad_value_among_many(type: str, odd: str, target: pa.DataType | None) -> None:
    texts = [ORDINARY[type]] * 100
    texts[70] = odd

    with pytest.raises(SplitReadError) as error:
        converted(type, texts, target)

    assert f"the value {odd[:60]!r}" in str(error.value)


def test_an_error_names_table_column_value_type_and_remedy() -> None:
    assert refused(numeric(12, 2), "NaN") == (
        "public.t: the column x has the value 'NaN', which does not fit the type decimal(12,2): decimals "
        "have no such value\n  What to do: give the column the type string or double in the schema"
    )
    assert "'" + "9" * 60 + "'..." in refused("numeric", "9" * 100, pa.decimal128(10, 0))


def test_odd_texts_among_ordinary_texts_keep_their_positions() -> None:
    texts = ["2024-01-01 00:00:00+00", "1890-01-01 00:00:00+05:30:15", None, "2024-01-02 00:00:00+00"]
    days = [value and value.astimezone(UTC).date() for value in converted("timestamptz", texts).to_pylist()]
    assert days == [date(2024, 1, 1), date(1889, 12, 31), None, date(2024, 1, 2)]
    decimals = converted("float8", ["1.5", "1e+02", "2", "2.5e-01"], pa.decimal128(6, 2)).to_pylist()
    assert decimals == [D("1.50"), D("100"), D("2"), D("0.25")]


@pytest.mark.parametrize(
    ("type", "target", "choices"),
    [
        ("bool", pa.int32(), "boolean or string"),
        ("int4", pa.bool_(), "bigint"),
        ("int4", pa.binary(), "bigint"),
        ("text", pa.int32(), "string or binary"),
        ("money", pa.decimal128(10, 2), "the type string in"),
        ("timestamp", INSTANT, "timestamp_ntz"),
        ("timestamptz", TIMESTAMP, "timestamp or string"),
        ("timestamptz", pa.date32(), "timestamp or string"),
        ("date", INSTANT, "timestamp_ntz"),
        ("timestamp", pa.timestamp("ns"), "timestamp_ntz"),
        ("uuid", pa.binary(), "the type string in"),
        ("jsonb", pa.struct([("a", pa.int32())]), "from_json"),
        ("json", pa.map_(pa.string(), pa.string()), "from_json"),
        ("json", pa.list_(pa.string()), "string or binary"),
        (PgType(name="int4", is_array=True), pa.int32(), "an array of tinyint"),
        (PgType(name="bool", is_array=True), pa.list_(pa.int32()), "an array of boolean"),
        (PgType(name="int4", is_array=True), pa.list_(pa.struct([("a", pa.int32())])), "string"),
        ("int4", pa.uint32(), "bigint"),
        ("int4", pa.null(), "bigint"),
    ],
)
def test_the_error_for_an_impossible_type_lists_the_possible_types(
    type: PgType | str, target: pa.DataType, choices: str
) -> None:
    kind = PgType(name=type) if isinstance(type, str) else type
    with pytest.raises(SchemaError, match=f"the column x has the PostgreSQL type {kind.name}") as error:
        ValueConverter(column="x", type=kind, target=target)
    assert choices in str(error.value)


TEXTS = array("text")
NUMBERS = array("int4")
PRICES = array("numeric", modifier=numeric(5, 2).modifier)


@pytest.mark.parametrize(
    ("type", "text", "values"),
    [
        (NUMBERS, "{}", []),
        (NUMBERS, "{7}", [7]),
        (NUMBERS, "{1,NULL,-3}", [1, None, -3]),
        (NUMBERS, "{NULL}", [None]),
        (NUMBERS, "[2:3]={1,2}", [1, 2]),
        (NUMBERS, "[-5:-5]={1}", [1]),
        (TEXTS, "{a,b c}", ["a", "b c"]),
        (TEXTS, '{""}', [""]),
        (TEXTS, '{"",""}', ["", ""]),
        (TEXTS, '{"NULL",NULL,"null"}', ["NULL", None, "null"]),
        (TEXTS, '{"a,b","c d",e}', ["a,b", "c d", "e"]),
        (TEXTS, r'{"a\"b","c\\d"}', ['a"b', "c\\d"]),
        (TEXTS, r'{"\\\"",","}', ['\\"', ","]),
        (TEXTS, '{"{1,2}","}{"}', ["{1,2}", "}{"]),
        (TEXTS, r'{"\\","\\\\","\\\"","\"\\"}', ["\\", "\\\\", '\\"', '"\\']),
        (TEXTS, r"{\"a,b\,c}", ['"a', "b,c"]),
        (TEXTS, '{"a\nb","\t"}', ["a\nb", "\t"]),
        (TEXTS, "{é,\U0001f600,\"ü ö\"}", ["é", "\U0001f600", "ü ö"]),
        (TEXTS, '[0:1]={a,"b"}', ["a", "b"]),
        (TEXTS, "{[1:2]=}", ["[1:2]="]),
        (array("bool"), "{t,f,NULL}", [True, False, None]),
        (array("bytea"), r'{"\\x00ff","\\x",NULL}', [b"\x00\xff", b"", None]),
        (array("float8"), "{1.5,NaN,-Infinity}", [1.5, float("nan"), float("-inf")]),
        (PRICES, "{1.50,-0.01}", [Decimal("1.50"), Decimal("-0.01")]),
        (array("date"), "{2024-02-29,NULL}", [date(2024, 2, 29), None]),
        (array("jsonb"), r'{"{\"a\": [1, 2]}",null1}', ['{"a": [1, 2]}', "null1"]),
        (array("box", delimiter=";"), "{(1,1),(0,0);(3,4),(1,2)}", ["(1,1),(0,0)", "(3,4),(1,2)"]),
        (array("public.pair"), r'{"(1,\"a b\")","(2,)"}', ['(1,"a b")', "(2,)"]),
        (array("_numeric"), '{"{1.0,2.0}","{}"}', ["{1.0,2.0}", "{}"]),
    ],
)  # fmt: skip
def test_an_array_becomes_a_list(type: PgType, text: str, values: list[Any]) -> None:
    assert repr(converted(type, [text]).to_pylist()) == repr([values])
    # In columns in which all arrays take the fast path, and in which some do not.
    assert repr(converted(type, ["{}", text, None, text]).to_pylist()) == repr([[], values, None, values])
    assert repr(converted(type, [text, "[1:1]={NULL}", "{}"]).to_pylist()) == repr([values, [None], []])


def test_an_array_of_several_dimensions_needs_a_type_of_as_many_dimensions() -> None:
    nested = pa.list_(pa.list_(pa.int32()))
    texts = ["{{1,2},{3,NULL}}", "{}", None, "[1:1][5:6]={{7,8}}"]

    assert converted(NUMBERS, texts, nested).to_pylist() == [[[1, 2], [3, None]], [], None, [[7, 8]]]
    with pytest.raises(SplitReadError, match="the array has 2 dimensions, but the type has 1") as error:
        converted(NUMBERS, ["{1}", "{{1,2}}"])
    assert "the type string" in str(error.value)
    with pytest.raises(SplitReadError, match="the array has 1 dimension, but the type has 2"):
        converted(NUMBERS, ["{1}"], nested)
    deep = pa.list_(pa.list_(pa.list_(pa.string())))
    assert converted(TEXTS, ['{{{a,"b"}},{{c,NULL}}}'], deep).to_pylist() == [[[["a", "b"]], [["c", None]]]]


@pytest.mark.parametrize(
    "text",
    ["", "{", "}", "1,2", "{1", "1}", "{1,}", "{,1}", "{,}", "{1}}", "{{1}", "{1}{2}", '{"1}', '{1"}',
     '{"1"2}',
     '{"1""2"}', "{1,{2}}", "{1,{}}", "{{1},2}", "[1:2]", "[1:2]={1}x", "{1}x", "x{1}", "{1,2}\n"],
)  # fmt: skip
def test_a_malformed_array_is_refused(text: str) -> None:
    for texts in ([text], ["{1}", text, "{2}"], [text, text], [text, '{"1",NULL}'], [text, r'{"\\"}']):
        with pytest.raises(SplitReadError, match="it is not an array"):
            converted(TEXTS, texts)


def test_texts_that_are_arrays_only_when_joined_are_refused() -> None:
    for texts in (['{"a}', '{b"}'], ['{a"}', '{"b}'], ['{"a', 'b"}']):
        with pytest.raises(SplitReadError, match="it is not an array"):
            converted(TEXTS, texts)


def test_an_element_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SplitReadError, match="the value '300', which does not fit the type array<tinyint>"):
        converted(NUMBERS, ["{1,2}", "{3,300}"], pa.list_(pa.int8()))
    with pytest.raises(SplitReadError, match="'infinity'"):
        converted(array("date"), ["{2024-01-01,infinity}"])
    with pytest.raises(SplitReadError, match="not valid UTF-8"):
        converted(TEXTS, [b"{a,\xff}"])


def test_a_null_in_an_array_that_allows_none_is_refused() -> None:
    strict = pa.list_(pa.field("element", pa.int32(), nullable=False))

    assert converted(NUMBERS, ["{1,2}", None], strict).to_pylist() == [[1, 2], None]
    with pytest.raises(SplitReadError, match="an element of the array is null"):
        converted(NUMBERS, ["{1,NULL}"], strict)
