"""PostgreSQL's CSV as Arrow columns of texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flip27_source.errors import SplitReadError
from flip27_source.readers.postgres.chunk_csv import csv_batches
from tests.postgres_server import PostgresServer

NASTY = [
    None, "", " ", "  two  ", "plain", "a,b", 'a "quoted" word', '"', '""', '"""', "'", "a\nb", "\n", "\r",
    "\r\n", "a\r\nb", "\\.", "\\N", "\\", "NULL", "null", "NaN", "#N/A", "\t", "\ufeff", "\ufeffabc",
    "\u2028", "ümläut", "\U0001f600", "\x01\x1f\x7f", ",", ",,", "\n\n",
    '",\n"', '"\n', '\n"', "x" * 100_000, "0", "-",
    "{}", "{NULL}", "# comment", "=1+1",
]  # fmt: skip


def rows(blocks: list[bytes], *columns: str, block_bytes: int = 8 << 20) -> list[tuple[Any, ...]]:
    batches = list(csv_batches(blocks, columns, block_bytes=block_bytes))
    assert all(batch.schema.names == list(columns) for batch in batches)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_an_empty_value_is_null_and_a_quoted_one_is_the_empty_text() -> None:
    assert rows([b"1,,x\n", b'2,"",\n'], "a", "b", "c") == [("1", None, "x"), ("2", "", None)]


def test_quoted_values_contain_delimiters_quotes_and_line_ends() -> None:
    assert rows([b'"a,b","say ""no""","1\n2","\r","\r\n"\n'], *"abcde") == [
        ("a,b", 'say "no"', "1\n2", "\r", "\r\n")
    ]


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 100])
def test_an_empty_line_is_a_row_whose_only_value_is_null(block_bytes: int) -> None:
    blocks = [b"\n", b"\n", b"x\n", b"\n", b'""\n', b"\n"]
    assert rows(blocks, "a", block_bytes=block_bytes) == [(None,), (None,), ("x",), (None,), ("",), (None,)]


def test_rows_without_columns_are_counted() -> None:
    batches = list(csv_batches([b"\n"] * 5, [], block_bytes=2))
    assert [(batch.num_rows, batch.num_columns) for batch in batches] == [(2, 0), (2, 0), (1, 0)]


def test_a_chunk_without_rows_has_no_batches() -> None:
    assert list(csv_batches([], ["a"])) == []


def test_texts_that_other_csv_readers_take_for_null_or_the_end_stay_texts() -> None:
    assert rows([b"NULL,NaN\n", b"\\N,\\.\n", b"\\.,#N/A\n"], "a", "b") == [
        ("NULL", "NaN"), ("\\N", "\\."), ("\\.", "#N/A"),
    ]  # fmt: skip
    assert rows([b"\\.\n", b'"\\."\n', b"after\n"], "a") == [("\\.",), ("\\.",), ("after",)]


def test_a_byte_order_mark_at_the_beginning_belongs_to_the_value() -> None:
    bom = "\ufeff".encode()
    blocks = [bom + b"\n", bom + bom + b"a\n", b'"' + bom + b',"\n']
    for block_bytes in (1, 100):
        assert rows(blocks, "a", block_bytes=block_bytes) == [("\ufeff",), ("\ufeff\ufeffa",), ("\ufeff,",)]


def test_each_batch_is_yielded_before_more_rows_are_fetched() -> None:
    taken = []

    def blocks() -> Iterator[bytes]:
        for number in range(10):
            taken.append(number)
            yield b"%d,xxxxxxxx\n" % number

    batches = csv_batches(blocks(), ["a", "b"], block_bytes=30)
    assert (next(batches).num_rows, len(taken)) == (3, 3)
    assert (next(batches).num_rows, len(taken)) == (3, 6)


def test_a_row_that_is_larger_than_a_block_is_read_completely() -> None:
    long = "y" * 3_000_000
    assert rows([b"a,b\n", f"{long},1\n".encode(), b"c,d\n"], "a", "b", block_bytes=16) == [
        ("a", "b"), (long, "1"), ("c", "d"),
    ]  # fmt: skip


def test_memoryviews_are_accepted_too() -> None:
    assert next(iter(csv_batches([memoryview(b"1\n")], ["a"]))).to_pylist() == [{"a": "1"}]


def test_another_number_of_columns_is_refused() -> None:
    with pytest.raises(SplitReadError, match="cannot be read as the 2 columns a, b"):
        rows([b"1,2\n", b"1,2,3\n"], "a", "b")


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(SplitReadError, match="the bytes ff, which are not UTF-8"):
        rows([b"1,a\xff\n"], "a", "b")


@pytest.mark.parametrize("block_bytes", [1, 50, 8 << 20])
@pytest.mark.parametrize("columns", [("a",), ("id", "a"), ("a", "id"), ("a", "b"), ()])
def test_every_text_survives_a_round_trip_through_a_server(
    postgres: PostgresServer, columns: tuple[str, ...], block_bytes: int
) -> None:
    names = {"id": str, "a": lambda i: NASTY[i], "b": lambda i: NASTY[-1 - i]}
    with postgres.database() as name, postgres.connect(name) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text)")
        cursor.executemany(
            "INSERT INTO t VALUES (%s, %s, %s)",
            [(i, NASTY[i], NASTY[-1 - i]) for i in range(len(NASTY))],
        )
        selected = ", ".join(columns)
        with cursor.copy(f"COPY (SELECT {selected} FROM t ORDER BY id) TO STDOUT (FORMAT csv)") as copy:
            batches = list(csv_batches(iter(copy), columns, block_bytes=block_bytes))
    assert sum(batch.num_rows for batch in batches) == len(NASTY)
    found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert found == [tuple(names[column](i) for column in columns) for i in range(len(NASTY))]
