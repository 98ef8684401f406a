"""PostgreSQL's texts of arrays are converted exactly to lists."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.errors import SplitReadError
from tests.readers.postgres.converting import array, converted, numeric

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


def test_instants_in_an_array_are_read() -> None:
    values = converted(array("timestamptz"), ['{"2024-01-01 00:00:00+00",NULL}'])
    assert values.flatten().cast(pa.int64()).to_pylist() == [1704067200000000, None]


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
