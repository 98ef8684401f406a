"""``unescapedQuoteHandling`` has the same results as in Spark, from which the expected fields were taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from flip27_source.errors import SplitReadError
from flip27_source.options import Options
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from tests.readers.spark_reading import arrow_schema, read_batches, read_table, split_of

HANDLINGS = ("STOP_AT_DELIMITER", "STOP_AT_CLOSING_QUOTE", "BACK_TO_DELIMITER", "SKIP_VALUE")
NAMES = "abcdef"
SCHEMA = ", ".join(f"{name} string" for name in NAMES)

Fields = list[str | None]

LINES: dict[str, tuple[Fields, Fields, Fields, Fields]] = {
    '1,"a"b,c': (["1", '"a"b', "c"], ["1", 'a"b,c'], ["1", "ab,c"], ["1", None, "c"]),
    '1,"a"b",c': (["1", '"a"b"', "c"], ["1", 'a"b', "c"], ["1", "ab", "c"], ["1", None, "c"]),
    '1,"x,a"b,c': (["1", '"x,a"b', "c"], ["1", 'x,a"b,c'], ["1", "x", "ab,c"], ["1", None, "c"]),
    '1,"x,a"b",c,d': (
        ["1", '"x,a"b"', "c", "d"],
        ["1", 'x,a"b', "c", "d"],
        ["1", "x", "ab", "c", "d"],
        ["1", None, "c", "d"],
    ),
    '1,"a" b,c': (["1", '"a" b', "c"], ["1", 'a" b,c'], ["1", '"a" b', "c"], ["1", None, "c"]),
    '1,"x,a" b,c': (["1", '"x,a" b', "c"], ["1", 'x,a" b,c'], ["1", '"x,a" b', "c"], ["1", None, "c"]),
    '1,"a"\\b,c,d': (["1", 'a"\\bc,d'], ["1", 'a"\\bc,d'], ["1", 'a"\\bc,d'], ["1"]),
    '1,"a"b"c",d': (["1", '"a"b"c"', "d"], ["1", 'a"b"c', "d"], ["1", "abc", "d"], ["1", None, "d"]),
    '1,"a""b",c': (["1", '"a""b"', "c"], ["1", 'a""b', "c"], ["1", 'a"b', "c"], ["1", None, "c"]),
    '1,",,a"b",c': (
        ["1", '",,a"b"', "c"],
        ["1", ',,a"b', "c"],
        ["1", None, None, "ab", "c"],
        ["1", None, "c"],
    ),
    '1,"a"b,c"d,e"f",g': (
        ["1", '"a"b', 'c"d', 'e"f"', "g"],
        ["1", 'a"b,c"d,e"f', "g"],
        ["1", "ab", "cd", "ef", "g"],
        ["1", None, 'c"d', 'e"f"', "g"],
    ),
    '1,"a"b': (["1", '"a"b'], ["1", 'a"b'], ["1", "ab"], ["1"]),
    '"a"b': (['"a"b'], ['a"b'], ["ab"], []),
    '"a" "b",c': (['"a" "b"', "c"], ['a" "b', "c"], ['"a" "b"', "c"], [None, "c"]),
}
PROPER = {'a"b,c': ['a"b', "c"], '"a" ,c': ["a", "c"], '"a,b","c\\"d"': ["a,b", 'c"d'], "1,2": ["1", "2"]}
"""Lines without an unescaped quote in a quoted field."""

DOCUMENTS: dict[str, tuple[list[Fields], list[Fields], list[Fields], list[Fields]]] = {
    '1,"a\nb"c,d\n2,e\n': (
        [["1", '"a\nb"c', "d"], ["2", "e"]],
        [["1", 'a\nb"c,d\n2,e\n']],
        [["1", "a"], ["bc,d\n2,e\n"]],
        [["1", None, "d"], ["2", "e"]],
    ),
    '1,"a\nb\nc"d",e\n2,f\n3,g\n': (
        [["1", '"a\nb\nc"d"', "e"], ["2", "f"], ["3", "g"]],
        [["1", 'a\nb\nc"d', "e"], ["2", "f"], ["3", "g"]],
        [["1", "a"], ["b", "cd", "e", "2", "f"], ["3", "g"]],
        [["1", None, "e"], ["2", "f"], ["3", "g"]],
    ),
    '1,"a\nb"c",d\n': (
        [["1", '"a\nb"c"', "d"]],
        [["1", 'a\nb"c', "d"]],
        [["1", "a"], ["bc", "d"]],
        [["1", None, "d"]],
    ),
    '1,"a\nb" c,d\n2,e\n': (
        [["1", '"a\nb" c', "d"], ["2", "e"]],
        [["1", 'a\nb" c,d\n2,e\n']],
        [["1", '"a\nb" c', "d"], ["2", "e"]],
        [["1", None, "d"], ["2", "e"]],
    ),
}


def as_row(fields: Fields) -> dict[str, str | None]:
    """The expected row of a record with these fields."""
    return dict(zip(NAMES, [*fields, *[None] * len(NAMES)], strict=False))


@pytest.mark.parametrize("handling", HANDLINGS)
def test_a_line_with_unescaped_quotes_has_the_fields_that_spark_gives(tmp_path: Path, handling: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{line}\n" for line in (*LINES, *PROPER)))
    expected = [fields[HANDLINGS.index(handling)] for fields in LINES.values()] + list(PROPER.values())
    found = read_table(CsvLinesReader(), [path], SCHEMA, {"unescapedQuoteHandling": handling})
    assert found.to_pylist() == list(map(as_row, expected))


@pytest.mark.parametrize("handling", HANDLINGS)
def test_a_file_has_the_same_rows_wherever_it_is_cut(tmp_path: Path, handling: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{line}\n" for line in LINES))
    options = {"unescapedQuoteHandling": handling}
    whole = read_table(CsvLinesReader(), [path], SCHEMA, options).to_pylist()
    for cut in range(1, path.stat().st_size, 7):
        parts = [split_of(path, 0, cut), split_of(path, cut)]
        batches = read_batches(CsvLinesReader(), parts, arrow_schema(SCHEMA), options)
        assert [row for batch in batches for row in batch.to_pylist()] == whole, cut


@pytest.mark.parametrize("handling", HANDLINGS)
@pytest.mark.parametrize("content", DOCUMENTS)
def test_an_unescaped_quote_ends_a_record_of_several_lines_where_spark_ends_it(
    tmp_path: Path, handling: str, content: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    options = {"unescapedQuoteHandling": handling, "multiLine": "true"}
    found = read_table(CsvLinesReader(), [path], SCHEMA, options)
    assert found.to_pylist() == list(map(as_row, DOCUMENTS[content][HANDLINGS.index(handling)]))


def test_a_record_that_the_end_of_the_file_completes_has_no_corrupt_record(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('"\n,"b')
    options = {"unescapedQuoteHandling": "BACK_TO_DELIMITER", "multiLine": "true"}
    found = read_table(CsvLinesReader(), [path], "a string, _corrupt_record string", options)
    assert found.to_pylist() == [{"a": None, "_corrupt_record": None}] * 2


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
@pytest.mark.parametrize("multi_line", ["false", "true"])
@pytest.mark.parametrize("line", LINES)
def test_an_unescaped_quote_is_refused_with_its_position(
    tmp_path: Path, line: str, multi_line: str, mode: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"é,x\n{line}\n3,y\n")
    options = {"unescapedQuoteHandling": "RAISE_ERROR", "multiLine": multi_line, "mode": mode}
    with pytest.raises(SplitReadError, match="has an unescaped quote") as caught:
        read_table(CsvLinesReader(), [path], SCHEMA, options)
    assert "a.csv, byte 5" in str(caught.value)
    assert repr(line)[1:-1] in str(caught.value)
    assert "unescapedQuoteHandling" in str(caught.value)


def test_an_unescaped_quote_is_also_refused_while_the_schema_is_inferred(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('1,"a"b"\n')
    options = Options.parse({"unescapedQuoteHandling": "RAISE_ERROR"}, CsvLinesReader.options)
    with pytest.raises(SplitReadError, match="has an unescaped quote"):
        CsvLinesReader.schema_of_files([split_of(path)], options)


@pytest.mark.parametrize("multi_line", ["false", "true"])
def test_lines_without_unescaped_quotes_are_not_refused(tmp_path: Path, multi_line: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{line}\n" for line in PROPER))
    options = {"unescapedQuoteHandling": "RAISE_ERROR", "multiLine": multi_line}
    found = read_table(CsvLinesReader(), [path], SCHEMA, options)
    assert found.to_pylist() == list(map(as_row, PROPER.values()))
