"""Lines are split into fields exactly as by Spark, however broken their quotes are."""

from __future__ import annotations

import random

import pytest

from flip27_source.readers.csv_lines.arrow_columns import text_columns
from flip27_source.readers.csv_lines.dialect import Dialect
from flip27_source.readers.csv_lines.quoted_fields import split_line
from tests.readers.spark_reading import Compared

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
