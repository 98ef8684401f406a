"""Blocks that a quick check of their quotes calls regular are read correctly by the fast path."""

from __future__ import annotations

import random
import re

import pyarrow.compute as pc
import pytest

from flip27_source.readers.csv_lines.arrow_columns import (
    SLICE_BYTES,
    TextColumns,
    is_line_count,
    quotes_pair_up,
    text_columns,
)
from flip27_source.readers.csv_lines.dialect import NONE, Dialect
from flip27_source.readers.csv_lines.quoted_fields import split_line
from flip27_source.readers.files.line_blocks import as_array

DIALECTS = {
    "default": Dialect(),
    "doubled quotes": Dialect(escape='"'),
    "no escape": Dialect(escape=NONE),
    "no quote": Dialect(quote=NONE),
    "null value": Dialect(null_value="a"),
    "null value and doubled quotes": Dialect(null_value="a", escape='"'),
    "null and empty value": Dialect(null_value="a", empty_value="a"),
    "other characters": Dialect(quote="'", sep="|", escape="/"),
}


def random_blocks(dialect: Dialect, seed: str, count: int) -> list[bytes]:
    """Blocks of lines, most of them nearly regular."""
    chance = random.Random(seed)
    sep, quote, escape = dialect.sep, dialect.quote, dialect.escape
    fields = ["", "a", "b ", f"{quote}a{quote}", f"{quote}{sep}{quote}", f"{quote}{quote}"]
    odd = [
        quote,
        escape,
        "\n",
        " ",
        NONE,
        f"{quote}{quote}",
        f"{escape}{quote}",
        escape * 2,
        f"{quote}\n",
        "é",
    ]
    blocks = []
    for _ in range(count):
        lines = [sep.join(chance.choices(fields, k=2)) for _ in range(chance.randrange(1, 5))]
        block = "\n".join(lines)
        for _ in range(chance.choice((0, 0, 1, 2))):
            at = chance.randrange(len(block) + 1)
            block = block[:at] + chance.choice(odd) + block[at + chance.randrange(2) :]
        blocks.append(f"{block}\n".encode())
    return blocks


def read_line_by_line(data: bytes, dialect: Dialect, wanted: int) -> list[list[str | None]]:
    rows = []
    for line in data.decode().split("\n")[:-1]:
        if re.search(r"[^\x00-\x20]", line):
            fields = [None if text == dialect.null_value else text for text in split_line(line, dialect)]
            rows.append([*fields, *[None] * wanted][:wanted])
    return rows


def rows_of(found: TextColumns) -> list[list[str | None]]:
    return [list(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)]


@pytest.mark.parametrize("name", DIALECTS)
def test_blocks_whose_quotes_pair_up_on_each_line_have_only_clean_lines(name: str) -> None:
    dialect = DIALECTS[name]
    quote = dialect.quote.encode()
    proved = 0
    for data in random_blocks(dialect, name, 3000):
        if quote in data and quotes_pair_up(data, dialect):
            # Every second stretch between quotes is inside quotes.
            if any(b"\n" in inside for inside in data.split(quote)[1::2]):
                continue
            clean = pc.match_substring_regex(as_array(data), dialect.clean_lines)[0].as_py()
            assert clean, data
            proved += 1
    assert proved > 500 or dialect.quote == NONE


@pytest.mark.parametrize("blocks", [150, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("wanted", [1, 2, 3])
@pytest.mark.parametrize("name", DIALECTS)
def test_nearly_regular_blocks_are_read_as_their_lines_are_one_by_one(
    name: str, wanted: int, blocks: int
) -> None:
    dialect = DIALECTS[name]
    for data in random_blocks(dialect, f"{name} {wanted}", blocks):
        assert rows_of(text_columns(data, dialect, wanted)) == read_line_by_line(data, dialect, wanted), data


REGULAR = [
    (b'1,"a, b",2\n"c",,"d"\n', {}),
    (b'"a"\n', {}),
    (b'"",""\n', {}),
    (b'1,"C:\\dir, \\t"\n', {}),
    (b'"say ""hi"", she said"\n"""",""""""\n', {"escape": '"'}),
    (b'"a\\","b\\\\"\n', {"escape": '"'}),
    (b'"a\\","b\\\\"\n', {"escape": NONE}),
    (b"'a|b'|'c'\n", {"quote": "'", "sep": "|"}),
]

IRREGULAR = [
    (b'1,"a\n', {}),
    (b'1,"a"b"\n', {}),
    (b'1,"a" ,"b"\n', {}),
    (b'1, "a","b"\n', {}),
    (b'1,5" pipe,"6"" pipe\n', {}),
    (b'1,"a\\",b","c"\n', {}),
    (b'1,"a\\\\"\n', {}),
    (b'1,"a\\\\b"\n', {}),
    (b'"say ""hi"""\n', {}),
    (b'"a",""\n', {"null_value": "x"}),
    (b'"a",""\n', {"escape": NONE}),
    (b'"a\0"\n', {"escape": NONE}),
    (b'"a\0"\n', {"escape": '"'}),
    (b'"a""\n', {"escape": '"'}),
    (b'a"",""b\n', {"escape": '"'}),
]


@pytest.mark.parametrize(("data", "characters"), [*REGULAR, *IRREGULAR])
def test_only_regular_quotes_pass_the_quick_check(data: bytes, characters: dict[str, str]) -> None:
    assert quotes_pair_up(data, Dialect(**characters)) == ((data, characters) in REGULAR)


@pytest.mark.parametrize("edge", [SLICE_BYTES, 2 * SLICE_BYTES, 2 * SLICE_BYTES + 8])
def test_a_broken_quote_is_found_wherever_it_is_in_a_large_block(edge: int) -> None:
    line = b'1234,"a, b",cd\n'
    for shift in range(len(line)):
        data = b"x" * (shift + 1) + b"\n" + line * (edge // len(line) + 2)
        assert quotes_pair_up(data, Dialect())
        assert is_line_count(data.count(b"\n"), data)
        for position in range(edge - 1, edge + 2):
            if data[position : position + 1] in b'",':
                broken = data[:position] + b"x" + data[position + 1 :]
                in_quotes = data[position : position + 2] == b", "
                assert quotes_pair_up(broken, Dialect()) == in_quotes


@pytest.mark.parametrize("edge", [SLICE_BYTES - 1, SLICE_BYTES, SLICE_BYTES + 1])
def test_empty_lines_are_not_counted(edge: int) -> None:
    data = b"\n\na\n" + b"b" * (edge - 5) + b"\n\n\nc\n"
    assert is_line_count(3, data)
    assert not any(is_line_count(rows, data) for rows in (0, 2, 4, 6))


def test_a_newline_in_quotes_ends_the_line_even_among_empty_lines() -> None:
    for data in (b'1,"a\nb",2\n', b'\n1,"a\n\nb",2\n\n', b'1,"\n",2\n', b'1,"\n\n\n",2\n3,"x",4\n\n\n\n'):
        assert quotes_pair_up(data, Dialect())
        assert rows_of(text_columns(data, Dialect(), 3)) == read_line_by_line(data, Dialect(), 3)
