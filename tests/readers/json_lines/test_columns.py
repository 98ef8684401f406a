"""The fast path either returns what the slow path returns, or reports that it cannot."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flip27_source.readers.json_lines.arrays import arrays_of_rows
from flip27_source.readers.json_lines.columns import JsonColumnsParser, Parsed, Refused
from flip27_source.readers.json_lines.values import JsonLineParser
from flip27_source.time_zones import java_zone
from tests.readers.json_lines.json_documents import LINES, LINES_SCHEMA, TYPES, VALUES, documents
from tests.readers.spark_reading import arrow_schema, exact_rows

FLAT = "k int, s string, d double, t timestamp, c struct<x:int,y:string,e:date>, b boolean"


def is_shaped_like_an_object(line: bytes) -> bool:
    return line.startswith(b"{") and line.endswith(b"}")


def check_line(line: bytes, schema: pa.Schema, parser: JsonColumnsParser) -> bool:
    """Whether the fast path reads the line; if so, check that the slow path returns the same."""
    parsed = parser.parse(pa.py_buffer(line + b"\n"), 1)
    if not isinstance(parsed, Parsed) or parsed.doubtful:
        return False
    slow = JsonLineParser(schema, java_zone("UTC")).parse(line)
    assert not slow.malformed, line
    expected = pa.table(arrays_of_rows(slow.rows, schema), schema=schema)
    assert exact_rows(pa.table(parsed.columns, schema=schema)) == exact_rows(expected), line
    return True


@pytest.mark.parametrize("kind", [kind for kind in TYPES if "map" not in kind])
def test_every_value_for_every_type_of_column(kind: str) -> None:
    answered = 0
    for ddl in (f"c {kind}", f"u int, c {kind}"):
        schema = arrow_schema(ddl)
        for value in VALUES:
            line = b'{"c":%s}' % value
            answered += check_line(line, schema, JsonColumnsParser(schema, "UTC"))
    assert answered > 5


def test_every_value_in_a_field_that_is_not_in_the_schema() -> None:
    schema = arrow_schema("k int")
    parser = JsonColumnsParser(schema, "UTC")
    answered = [check_line(b'{"k":1,"u":%s}' % value, schema, parser) for value in VALUES]
    answered += [check_line(b'{"k":1,"u":[{"v":%s}]}' % value, schema, parser) for value in VALUES]
    assert sum(answered) > 100


@pytest.mark.parametrize("line", [line for line in LINES if is_shaped_like_an_object(line)])
def test_lines_that_look_like_an_object(line: bytes) -> None:
    schema = arrow_schema(FLAT)
    check_line(line, schema, JsonColumnsParser(schema, "UTC"))


@given(documents().filter(is_shaped_like_an_object))
def test_random_documents(line: bytes) -> None:
    without_map = [one for one in arrow_schema(LINES_SCHEMA) if one.name not in ("m", "_corrupt_record")]
    schema = pa.schema(without_map)
    check_line(line.replace(b"\n", b"").replace(b"\r", b""), schema, JsonColumnsParser(schema, "UTC"))


@given(st.lists(documents().filter(is_shaped_like_an_object), min_size=1, max_size=20))
@example([b'{}"t":"2000-01-01T00:00:00"}'])
@example([b'{"k":1}', b'{}{}"t":1}', b'{"k":2}'])
def test_a_refusal_never_names_a_line_before_the_first_unsuitable_one(lines: list[bytes]) -> None:
    lines = [line.replace(b"\n", b"").replace(b"\r", b"") for line in lines]
    parser = JsonColumnsParser(arrow_schema(FLAT), "UTC")
    result = parser.parse(pa.py_buffer(b"".join(line + b"\n" for line in lines)), len(lines))
    if isinstance(result, Refused) and result.line is not None:
        suitable = [isinstance(parser.parse(pa.py_buffer(line + b"\n"), 1), Parsed) for line in lines]
        assert False in suitable[: result.line + 1]


def test_two_objects_on_a_line_are_not_taken_for_two_lines() -> None:
    data = b'{"k":1}\n{"k":2}{"k":3}\n'
    assert JsonColumnsParser(arrow_schema("k int"), "UTC").parse(pa.py_buffer(data), 2) == Refused(None)


def test_rows_with_an_unusually_spelled_timestamp_are_doubtful_even_within_lists() -> None:
    schema = arrow_schema("t timestamp, l array<struct<t:timestamp>>")
    data = (
        b'{"t":"2020-01-01T00:00:00Z","l":[{"t":"x"}]}\n{"l":[]}\n{"t":"y"}\n{"l":[null,{"t":"2020-1-1"}]}\n'
    )
    parsed = JsonColumnsParser(schema, "UTC").parse(pa.py_buffer(data), 4)
    assert isinstance(parsed, Parsed)
    assert parsed.doubtful == {0, 2}


def test_minus_zero_is_doubtful_only_if_written_as_a_whole_number() -> None:
    parser = JsonColumnsParser(arrow_schema("d double"), "UTC")
    plain = parser.parse(pa.py_buffer(b'{"d":-0.0}\n{"d":0}\n{"d":1}\n'), 3)
    whole = parser.parse(pa.py_buffer(b'{"d":-0.0}\n{"d":-0}\n{"d":1}\n'), 3)
    assert isinstance(plain, Parsed)
    assert isinstance(whole, Parsed)
    assert plain.doubtful == set()
    assert whole.doubtful == {0, 1}
