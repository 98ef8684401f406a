"""Lines are split into fields exactly as by Spark, however broken their quotes are."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from flip27_source.errors import SplitReadError
from flip27_source.options import Options
from flip27_source.readers.csv_lines.arrow_columns import text_columns
from flip27_source.readers.csv_lines.dialect import Dialect
from flip27_source.readers.csv_lines.quoted_fields import split_line
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from tests.readers.spark_reading import Compared, arrow_schema, read_batches, read_table, split_of

COLUMNS = 14
SCHEMA = ", ".join(f"c{number} string" for number in range(COLUMNS)) + ", _corrupt_record string"

DIALECTS = {
    "default": ({}, 'a",\\ '),
    "many quotes": ({}, '"",,\\ab'),
    "doubled quotes": ({"escape": '"'}, 'a",\\ '),
    "many doubled quotes": ({"escape": '"'}, '""",a'),
    "no escape": ({"escape": ""}, 'a",\\ '),
    "no quote": ({"quote": ""}, 'a",\\ '),
    "tab": ({"sep": "\t"}, 'a"\t\\ '),
    "null value": ({"nullValue": "a"}, 'a",\\ '),
    "null and empty value": ({"nullValue": "a", "emptyValue": "E"}, 'a",\\ '),
    "empty value": ({"emptyValue": "E"}, 'a",\\'),
    "other characters": ({"quote": "'", "sep": "|"}, "a'|\\ "),
    "nul characters": ({}, 'a",\\ \0'),
    "no quote and nul characters": ({"quote": ""}, "a,\\\0"),
    "no escape and nul characters": ({"escape": ""}, 'a,"\0'),
    "doubled quotes and nul characters": ({"escape": '"'}, 'a,"\0'),
    "leading white space": ({"ignoreLeadingWhiteSpace": "true"}, 'a",\\ '),
    "trailing white space": ({"ignoreTrailingWhiteSpace": "true"}, 'a",\\ '),
    "no white space": ({"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}, 'a",\\ '),
    "no white space and other values": (
        {
            "ignoreLeadingWhiteSpace": "true",
            "ignoreTrailingWhiteSpace": "true",
            "nullValue": "a",
            "emptyValue": "E",
        },
        'a",\\ ',
    ),
    "no white space and tabs": (
        {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true", "sep": "\t"},
        'a"\t\\ ',
    ),
    "up to the closing quote": ({"unescapedQuoteHandling": "STOP_AT_CLOSING_QUOTE"}, 'a",\\ '),
    "back to the delimiter": ({"unescapedQuoteHandling": "BACK_TO_DELIMITER"}, 'a",\\ '),
    "fields with stray quotes are null": (
        {"unescapedQuoteHandling": "SKIP_VALUE", "emptyValue": "E"},
        'a",\\ ',
    ),
    "escaped escapes": ({"charToEscapeQuoteEscaping": "/"}, 'a",\\/'),
    "escaped doubled quotes": ({"escape": '"', "charToEscapeQuoteEscaping": "/"}, 'a",/'),
    "not ascii": ({}, 'é",\\😀'),
}


@pytest.mark.slow  # a short form of the fuzzer
@pytest.mark.parametrize("name", DIALECTS)
def test_random_lines_give_the_fields_that_spark_finds(csv: Compared, name: str) -> None:
    options, alphabet = DIALECTS[name]
    chance = random.Random(name)
    lines = {"".join(chance.choices(alphabet, k=chance.randrange(1, 13))) for _ in range(4000)}
    if "ignoreTrailingWhiteSpace" in options:
        # Spark fails for blanks at the start of a line, and its rows for lines of only blanks and
        # separators depend on the line before.
        lines = {line for line in lines if not line.startswith(" ") and line.strip(" ,")}
    content = "".join(f"{line}\n" for line in sorted(lines)).encode()
    rows = csv.same_as_spark(content, SCHEMA, options)
    assert rows.num_rows > 400


FIELDS = {
    "clean": ["", "a", "b c", '"x"', '"y, z"', '""', "é", " ", 'm"m'],
    "odd": ['"', 'a"', '"b"c', '"\\""', '"""', '"a\\\\"', '"a\\b"', "\\", '"d" ', '"e""f"'],
}


@pytest.mark.parametrize("options", [{}, {"escape": '"'}, {"nullValue": "a"}], ids=str)
@pytest.mark.parametrize("odd_lines", [0.0, 0.1])
def test_blocks_of_clean_and_of_mixed_lines_give_the_rows_of_spark(
    csv: Compared, options: dict[str, str], odd_lines: float
) -> None:
    chance = random.Random(7)
    lines = [
        ",".join(chance.choices(FIELDS["odd" if chance.random() < odd_lines else "clean"], k=3))
        for _ in range(3000)
    ]
    content = "\n".join(lines).encode()
    csv.same_as_spark(content, "a string, b string, c string", options)


@pytest.mark.parametrize("fields", [1, 2, 299, 300, 301, 1500])
def test_any_number_of_fields_is_read(csv: Compared, fields: int) -> None:
    line = ",".join(f"v{number}" for number in range(fields))
    quoted = ",".join(f'"v{number}"' for number in range(fields))
    content = f"{line}\n\n  \n{quoted}\n{line},more\n{line[:-3]}\n\\{line}\n".encode()
    schema = ", ".join(f"c{number} string" for number in range(fields))
    csv.same_as_spark(content, f"{schema}, _corrupt_record string")


@pytest.mark.parametrize("handling", ["STOP_AT_DELIMITER", "STOP_AT_CLOSING_QUOTE"])
def test_a_few_quotes_in_a_field_are_read_as_spark_reads_them(csv: Compared, handling: str) -> None:
    fields = [part * count for part in ('a"b', 'a"\\', 'a"\\"', '"a\\') for count in (1, 2, 5)]
    content = "".join(f'1,"{field}",2,3,4,5,6,7,8,9\n' for field in fields).encode()
    schema = ", ".join(f"c{number} string" for number in range(10))
    options = {"unescapedQuoteHandling": handling}
    csv.same_as_spark(content, schema, options)


@pytest.mark.parametrize("handling", ["STOP_AT_DELIMITER", "STOP_AT_CLOSING_QUOTE", "BACK_TO_DELIMITER"])
def test_a_field_may_hold_very_many_quotes(handling: str) -> None:
    dialect = Dialect(unescaped_quotes=handling)
    for count in (2, 5_000):
        text = 'a"b' * count
        found = split_line(f'1,"{text}",2', dialect)
        middle = {
            "STOP_AT_DELIMITER": f'"{text}"',
            "STOP_AT_CLOSING_QUOTE": text,
            "BACK_TO_DELIMITER": "ab" * count,
        }
        assert found == ["1", middle[handling], "2"]
        text = 'a"\\' * count
        assert split_line(f'1,"{text}b"', dialect) == ["1", f"{text}b"]


@pytest.mark.parametrize("number", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("escape", ["\\", '"', "\0"])
def test_arrow_and_the_tokenizer_agree_on_every_clean_line(escape: str, number: int) -> None:
    # The fast path relies on this: either of them may read a line that matches the pattern.
    import pyarrow as pa
    import pyarrow.compute as pc

    dialect = Dialect(escape=escape)
    chance = random.Random(escape)
    lines = {"".join(chance.choices('a",\\ ', k=chance.randrange(1, 9))) for _ in range(number)}
    by_fields = [pc.match_substring_regex(pa.array(sorted(lines)), dialect.clean_line(n)) for n in (1, 2, 3)]
    checked = 0
    for fields, clean in enumerate(by_fields, 1):
        for line in pa.array(sorted(lines)).filter(clean).to_pylist():
            if line.strip():
                found = text_columns(f"{line}\n".encode(), dialect, fields)
                expected = [text or None for text in split_line(line, dialect)]
                assert [column[0].as_py() for column in found.columns] == expected
                checked += 1
    assert checked > number / 20


HANDLINGS = ("STOP_AT_DELIMITER", "STOP_AT_CLOSING_QUOTE", "BACK_TO_DELIMITER", "SKIP_VALUE")
NAMES = "abcdef"
SIX_TEXTS = ", ".join(f"{name} string" for name in NAMES)

Fields = list[str | None]

# The fields of each line, as Spark reads it with each of the values of ``unescapedQuoteHandling``.
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


def rows_of(path: Path, content: str, handling: str, schema: str = SIX_TEXTS, **options: str) -> list[Any]:
    """Write a file and read its rows."""
    path.write_text(content)
    options = {"unescapedQuoteHandling": handling, **options}
    return read_table(CsvLinesReader(), [path], schema, options).to_pylist()


@pytest.mark.parametrize("handling", HANDLINGS)
def test_a_line_with_unescaped_quotes_has_the_fields_that_spark_gives(tmp_path: Path, handling: str) -> None:
    content = "".join(f"{line}\n" for line in (*LINES, *PROPER))
    expected = [fields[HANDLINGS.index(handling)] for fields in LINES.values()] + list(PROPER.values())
    assert rows_of(tmp_path / "a.csv", content, handling) == list(map(as_row, expected))


@pytest.mark.parametrize("handling", HANDLINGS)
def test_a_file_has_the_same_rows_wherever_it_is_cut(tmp_path: Path, handling: str) -> None:
    path = tmp_path / "a.csv"
    options = {"unescapedQuoteHandling": handling}
    whole = rows_of(path, "".join(f"{line}\n" for line in LINES), handling)
    for cut in range(1, path.stat().st_size, 7):
        parts = [split_of(path, 0, cut), split_of(path, cut)]
        batches = read_batches(CsvLinesReader(), parts, arrow_schema(SIX_TEXTS), options)
        assert [row for batch in batches for row in batch.to_pylist()] == whole, cut


@pytest.mark.parametrize("handling", HANDLINGS)
@pytest.mark.parametrize("content", DOCUMENTS)
def test_an_unescaped_quote_ends_a_record_of_several_lines_where_spark_ends_it(
    tmp_path: Path, handling: str, content: str
) -> None:
    rows = rows_of(tmp_path / "a.csv", content, handling, multiLine="true")
    assert rows == list(map(as_row, DOCUMENTS[content][HANDLINGS.index(handling)]))


def test_a_record_that_the_end_of_the_file_completes_has_no_corrupt_record(tmp_path: Path) -> None:
    schema = "a string, _corrupt_record string"
    rows = rows_of(tmp_path / "a.csv", '"\n,"b', "BACK_TO_DELIMITER", schema, multiLine="true")
    assert rows == [{"a": None, "_corrupt_record": None}] * 2


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
@pytest.mark.parametrize("multi_line", ["false", "true"])
@pytest.mark.parametrize("line", LINES)
def test_an_unescaped_quote_is_refused_with_its_position(
    tmp_path: Path, line: str, multi_line: str, mode: str
) -> None:
    content = f"é,x\n{line}\n3,y\n"
    with pytest.raises(SplitReadError, match="has an unescaped quote") as caught:
        rows_of(tmp_path / "a.csv", content, "RAISE_ERROR", multiLine=multi_line, mode=mode)
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
    content = "".join(f"{line}\n" for line in PROPER)
    rows = rows_of(tmp_path / "a.csv", content, "RAISE_ERROR", multiLine=multi_line)
    assert rows == list(map(as_row, PROPER.values()))
