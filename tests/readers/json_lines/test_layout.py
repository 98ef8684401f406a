"""Lines of one layout are read without a parser, with the values of the slow path, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from flip27_source.readers.json_lines.arrays import arrays_of_rows
from flip27_source.readers.json_lines.columns import LEAST_LAYOUT_BYTES, JsonColumnsParser
from flip27_source.readers.json_lines.layout import layout_of, types_of_paths
from flip27_source.readers.json_lines.reader import JsonLinesReader
from flip27_source.readers.json_lines.scalars import NotProvedError, scalars_of
from flip27_source.readers.json_lines.values import JsonLineParser
from flip27_source.time_zones import java_zone
from tests.readers.json_lines.json_documents import LINES, TYPES, VALUES
from tests.readers.spark_reading import arrow_schema, assert_same_as_spark, exact_rows, read_table

SCALAR_TYPES = [kind for kind in TYPES if not kind.startswith(("array", "map"))]
USUAL = {
    "boolean": b"true", "string": b'"text"', "binary": b'"YWJj"', "date": b'"2020-01-01"',
    "timestamp": b'"2020-01-01T00:00:00Z"', "timestamp_ntz": b'"2020-01-01T00:00:00"',
    "struct<x:int,y:string>": b'{"x":5,"y":"q"}', "struct<x:struct<y:int>>": b'{"x":{"y":1}}',
    "struct<x:double>": b'{"x":1.5}',
}  # fmt: skip
"""A value that determines the layout, for each type; 12 for other types."""


def check_block(lines: list[bytes], schema: pa.Schema) -> bool:
    """Whether the block is read without a parser; if so, check that the slow path returns the same."""
    parser = JsonColumnsParser(schema, "UTC", least_layout_bytes=0)
    parsed = parser.parse_layout(b"".join(line + b"\n" for line in lines))
    if parsed is None:
        return False
    slow_parser = JsonLineParser(schema, java_zone("UTC"))
    rows: list[Any] = []
    for number, line in enumerate(lines):
        slow = slow_parser.parse(line)
        if number in parsed.doubtful:
            rows.append([None] * len(schema))
            continue
        assert not slow.malformed, line
        assert len(slow.rows) == 1, line
        rows += slow.rows
    expected = exact_rows(pa.table(arrays_of_rows(rows, schema), schema=schema))
    found = exact_rows(pa.table(parsed.columns, schema=schema))
    assert len(found) == len(lines)
    for number, line in enumerate(lines):
        assert number in parsed.doubtful or found[number] == expected[number], line
    return True


def is_read(lines: list[bytes], ddl: str) -> bool:
    return check_block(lines, arrow_schema(ddl))


@pytest.mark.parametrize("kind", SCALAR_TYPES)
def test_every_value_for_every_type_of_column(kind: str) -> None:
    usual = USUAL.get(kind, b"12")
    schema = arrow_schema(f"k int, c {kind}, z string")
    answered = 0
    for value in VALUES:
        line, good = b'{"k":1,"c":%s,"z":"y"}' % value, b'{"k":1,"c":%s,"z":"y"}' % usual
        answered += check_block([good, good, line, good], schema)
        answered += check_block([line, good, good, good], schema)
        answered += check_block([good, good, good, line], schema)
        answered += check_block([line], schema)
        answered += check_block([b'{"c":%s}' % value] * 2, schema)
    assert answered >= 4


@pytest.mark.parametrize("usual", [b"12", b'"x"', b"true", b"null", b'{"x":1}'])
def test_every_value_in_a_field_that_is_not_in_the_schema(usual: bytes) -> None:
    schema = arrow_schema("k int")
    good = b'{"u":%s,"k":1}' % usual
    answered = [check_block([good, good, b'{"u":%s,"k":1}' % value], schema) for value in VALUES]
    assert any(answered)
    assert not all(answered)


@pytest.mark.parametrize("line", LINES)
def test_any_line_among_good_lines(line: bytes) -> None:
    good = b'{"k":1,"s":"x"}'
    for lines in ([good, good, line], [line, good, good], [good, line, good], [line], [line, line]):
        is_read(lines, "k int, s string, d double")


_NAMES = ["k", "s", "d", "c", "u", "", "é", "x y"]
_TEXTS = st.one_of(
    st.text(max_size=6), st.sampled_from(['a"b', "\\", ":", '":', "ul", "null", "\x7f", "naïve"])
)
_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**33), 2**33), "string": _TEXTS, "double": st.floats(), "boolean": st.booleans(),
    "bigint": st.integers(-(2**64), 2**64), "decimal(9,3)": st.decimals(-9999, 9999, places=3).map(float),
    "float": st.floats(width=32), "timestamp": st.datetimes().map(lambda at: at.isoformat() + "Z"),
}  # fmt: skip
_DAMAGE = [bytes([byte]) for byte in b'"{},:\\ 0-.en\x00\t\xffl']


@st.composite
def blocks(draw: st.DrawFn) -> tuple[list[bytes], str]:
    """Draw lines as a program writes them, some of them damaged, and a schema for some of the fields."""
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True))
    kinds = {name: draw(st.sampled_from(sorted(_KINDS))) for name in names}
    nested = draw(st.booleans())
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    ascii_only = draw(st.booleans())
    lines = []
    for _ in range(draw(st.integers(1, 5))):
        row = {name: draw(st.one_of(_KINDS[kind], _KINDS[kind], st.none())) for name, kind in kinds.items()}
        document = {"o": row, "t": 1} if nested else row
        lines.append(
            json.dumps(document, ensure_ascii=ascii_only, separators=separators).encode("utf-8", "replace")
        )
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        at = draw(st.integers(0, len(lines) - 1))
        place = draw(st.integers(0, len(lines[at])))
        lines[at] = (
            lines[at][:place] + draw(st.sampled_from(_DAMAGE)) + lines[at][place + draw(st.integers(0, 1)) :]
        )
    columns = [f"`{name}` {kinds[name]}" for name in names if name and draw(st.booleans())] + ["zz int"]
    return (
        lines,
        f"o struct<{','.join(c.replace('` ', '`:') for c in columns)}>, t int"
        if nested
        else ", ".join(columns),
    )


@settings(max_examples=300)
@given(blocks())
def test_random_programs(block: tuple[list[bytes], str]) -> None:
    lines, ddl = block
    is_read(lines, ddl)


@settings(max_examples=500)
@given(
    st.text("0123456789-+.eEx_nauilf ", min_size=1, max_size=8), st.sampled_from(["int64", "double", "float"])
)
def test_a_number_that_json_does_not_allow_is_refused(text: str, kind: str) -> None:
    try:
        number = scalars_of(pa.array(["0", text]), pa.type_for_alias(kind))[1].as_py()
    except NotProvedError:
        return
    assert text == "null" if number is None else isinstance(json.loads(text), int | float)


@pytest.mark.parametrize(
    ("lines", "ddl"),
    [
        ([b'{"k":1,"s":"a"}', b'{"k":2,"s":"b,\xc3\xa9"}'], "k int, s string"),
        ([b'{"k": 1, "s": "a"}', b'{"k": 22, "s": ""}'], "s string, k bigint"),
        ([b'{"k":1,"s":null}', b'{"k":null,"s":"b"}', b'{"k":null,"s":null}'], "k int, s string"),
        ([b'{"k":1}', b'{"k":2}'], "missing string, k int, gone struct<x:int>"),
        ([b'{"u":1,"k":1,"v":"x"}', b'{"u":-1.5e3,"k":2,"v":"y"}'], "k int"),
        ([b'{"c":{"x":1,"e":{"y":"q"}}}', b'{"c":{"x":2,"e":{"y":""}}}'], "c struct<e:struct<y:string>>"),
        ([rb'{"s":"a\"b","k":1}', rb'{"s":"\\","k":1}', rb'{"s":"\u00e9\n","k":1}'], "k int, s string"),
        ([rb'{"s":"\":","k":1}', rb'{"s":"x","k":1}'], "k int, s string"),
        ([rb'{"u":"\"","k":1}', rb'{"u":"x","k":1}'], "k int"),
        ([b'{"b":true}', b'{"b":null}', b'{"b":false}'], "b boolean"),
        ([b'{"d":0.5}', b'{"d":-0}', b'{"d":1E400}'], "d double"),
        ([b'{"n":1.5}', b'{"n":-12}'], "n decimal(5,2)"),
        ([b'{"k":null}', b'{"k":null}'], "k int, s string"),
    ],
)  # fmt: skip
def test_lines_of_one_layout_are_read_without_a_parser(lines: list[bytes], ddl: str) -> None:
    assert is_read(lines, ddl)


@pytest.mark.parametrize(
    ("lines", "ddl"),
    [
        ([b'{"k":1,"s":"a"}', b'{"s":"a","k":1}'], "k int, s string"),
        ([b'{"k":1}', b'{"k":1}{"k":2}'], "k int"),
        ([b'{"k":1}', b'{"K":1}'], "k int"),
        ([b'{"k":1,"k":2}'] * 2, "k int"),
        ([b'{"k":1}', b""], "k int"),
        ([b'{"s":"a"}', b'{"s":"a"b"}'], "s string"),
        ([b'{"s":"a"}', b'{"s":"a\tb"}'], "s string"),
        ([b'{"s":"a"}', b'{"s":nulL}'], "s string"),
        ([b'{"s":"a"}', b'{"s":nxxl}'], "s string"),
        ([b'{"s":"a"}', b'{"s":1234}'], "s string"),
        ([b'{"s":"a"}', b'{"s":"}'], "s string"),
        ([b'{"s":"a"}', rb'{"s":"a\"}'], "s string"),
        ([rb'{"s":"a","r":"b"}', rb'{"s":"a\","r":"b"c"}'], "s string, r string"),
        ([rb'{"s":"a"}', rb'{"s":"\ud800"}'], "s string"),
        ([rb'{"s":"a"}', rb'{"s":"\q"}'], "s string"),
        ([rb'{"s":"a"}', rb'{"s":"\nb"c"}'], "s string"),
        ([rb'{"\u006b":1}', rb'{"..006b":1}'], "k int"),
        ([b'{"u":"a","k":1}', b'{"u":"\xff","k":1}'], "k int"),
        ([b'{"s":"a","k":1}', b'{"s":"\xff","k":1}'], "k int, s string"),
        ([b'{"d":1}', b'{"d":1.}'], "d double"),
        ([b'{"d":1}', b'{"d":1.e5}'], "d double"),
        ([b'{"d":1}', b'{"d":.5}'], "d double"),
        ([b'{"d":1}', b'{"d":+5}'], "d double"),
        ([b'{"d":1}', b'{"d":-}'], "d double"),
        ([b'{"d":1}', b'{"d":-.5}'], "d double"),
        ([b'{"d":1}', b'{"d":NaN}'], "d double"),
        ([b'{"d":1}', b'{"d":-00.5}'], "d double"),
        ([b'{"k":1}', b'{"k":0x1F}'], "k int"),
        ([b'{"k":1}', b'{"k":007}'], "k int"),
        ([b'{"k":1}', b'{"k":1.0}'], "k int"),
        ([b'{"k":1}', b'{"k":2147483648}'], "k int"),
        ([b'{"k":1}', b'{"k":}'], "k int"),
        ([b'{"d":1}', b'{"d":' + b"1" * 1001 + b"}"], "d double"),
        ([b'{"n":1}', b'{"n":1e-2147483647}'], "n decimal(5,2)"),
        ([b'{"n":1}', b'{"n":1.239}'], "n decimal(5,2)"),
        ([b'{"b":true}', b'{"b":True}'], "b boolean"),
        ([b'{"c":{"x":1}}', b'{"c":{"x":1}}'], "c string"),
        ([b'{"c":null}', b'{"c":null}'], "c struct<x:int>"),
        ([b'{"c":{}}', b'{"c":{}}'], "c struct<x:int>"),
        ([b'{"c":{"x":1,"y":1}}', b'{"c":{"x":1},"y":1}'], "c struct<x:int>, y int"),
        ([b'{"a":{"bb":1},"k":1}', b'{"aa":{"b":1},"k":1}'], "k int"),
        ([b'{"k":[1]}'] * 2, "s string"),
    ],
)
def test_other_lines_are_left_to_a_parser(lines: list[bytes], ddl: str) -> None:
    assert not is_read(lines, ddl)


def test_a_name_with_escapes_has_no_layout() -> None:
    types = types_of_paths(arrow_schema("k int"))
    assert layout_of(rb'{"\u006b":1}', types) is None
    assert layout_of(rb'{"k":"\u006b"}', {}) is not None
    assert layout_of(b'{"k":":"}', types) is None


def test_the_layout_is_tried_less_and_less_often_while_blocks_have_several_layouts() -> None:
    parser = JsonColumnsParser(arrow_schema("k int"), "UTC", least_layout_bytes=0)
    good, bad = b'{"k":1}\n', b'{"k":1}\n{"l":1}\n{"k":1,"l":1}\n'
    assert parser.parse_layout(good) is not None
    assert parser.parse_layout(bad) is None
    tried = [parser.parse_layout(good) is not None for _ in range(4)]
    assert tried == [False, False, True, True]


def plain(n: int) -> str:
    row = {
        "k": n, "s": f"name, {n}", "d": n + 0.5, "t": f"2024-01-{n % 28 + 1:02}T10:00:00Z", "b": True,
        "c": {"x": n},
    }  # fmt: skip
    return json.dumps(row, separators=(",", ":"))


def escapes(n: int) -> str:
    texts = ['é"\\:{}', "\n\t", '\\":', ""]
    row = {"k": n, "s": texts[n // 40 % 4] if n % 40 == 0 else "x", "d": n / 7, "t": "2024-01-01"}
    return json.dumps(row | {"u": texts[n // 90 % 3] if n % 90 == 0 else "x"})


def nulls(n: int) -> str:
    row = {"s": None if n % 2 else "x", "k": None if n % 5 else n, "b": None, "u": None}
    return json.dumps({**row, "c": {"x": 0 if n % 2 else None}})


def a_few_bad_values(n: int) -> str:
    return json.dumps({"k": "x" if n % 1000 == 0 else n, "s": "x", "t": "2024-01-01 00:00:00"})


def doubtful_values(n: int) -> str:
    return (
        json.dumps({"k": n, "d": 1.5, "t": "2024-1-1" if n % 900 == 0 else "2024-01-01"})
        + "\n"
        + ('{"k": 1, "d": -0, "t": "2024-01-01"}' if n % 700 else '{"k": 1, "d": -0.0, "t": "never"}')
    )


def several_layouts(n: int) -> str:
    return json.dumps({"k": n, "s": "x", "t": "2024-01-01"} if n % 3 else {"s": str(n), "d": 1, "u": "x"})


def test_a_large_file_is_read_with_only_the_column_for_malformed_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("".join(plain(n) + "\n" for n in range(5_000)))
    assert exact_rows(read_table(JsonLinesReader(), [path], "_corrupt_record string")) == [(None,)] * 5_000


@pytest.mark.parametrize(
    ("program", "one_layout"),
    [
        (plain, True), (escapes, True), (nulls, True), (a_few_bad_values, False), (doubtful_values, True),
        (several_layouts, False),
    ],
)  # fmt: skip
def test_large_files(
    spark: SparkSession, tmp_path: Path, program: Callable[[int], str], one_layout: bool
) -> None:
    content = "".join(program(n) + "\n" for n in range(12_000)).encode()
    assert len(content) > LEAST_LAYOUT_BYTES
    path = tmp_path / "a.json"
    path.write_bytes(content)
    ddl = "k int, s string, d double, t timestamp, b boolean, c struct<x:int>"
    parsed = JsonColumnsParser(arrow_schema(ddl), "UTC").parse_layout(content)
    assert (parsed is not None) == one_layout
    ddl += ", _corrupt_record string"
    assert_same_as_spark(spark, "json", path, ddl)
