"""Rows of COPY: as a server sends them, and PostgreSQL's CSV as Arrow columns of texts."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest

from flip27_source.access_errors import cause_of_failed_access
from flip27_source.errors import SplitReadError
from flip27_source.readers.postgres.chunk_rows import csv_batch
from flip27_source.readers.postgres.copied_rows import copied_rows
from tests.postgres_server import PostgresServer

LIMIT_OF_SELECT = 1024


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """Open more files than ``select`` can wait for."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * LIMIT_OF_SELECT
    if limits[0] != resource.RLIM_INFINITY and limits[0] < wanted:
        if limits[1] != resource.RLIM_INFINITY and limits[1] < wanted:
            pytest.skip(f"the process may open no more than {limits[1]} files (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, limits[1]))
    with ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        while (number := os.dup(0)) <= LIMIT_OF_SELECT:
            opened.callback(os.close, number)
        opened.callback(os.close, number)
        yield


@pytest.mark.usefixtures("many_open_files")
def test_a_process_with_a_thousand_open_files_can_wait_for_late_rows(postgres: PostgresServer) -> None:
    # The server sends rows whenever its buffer is full.
    statement = "COPY (SELECT repeat('x', 9999), pg_sleep(0.05) IS NULL FROM generate_series(1, 3)) TO STDOUT"
    with ExitStack() as opened:
        # What other threads close meanwhile leaves room for a small number.
        while (
            connection := opened.enter_context(psycopg.connect(**postgres.address()))
        ).fileno() <= LIMIT_OF_SELECT:
            pass
        blocks = list(copied_rows(connection, statement, (), most_rows=10))
    assert [bytes(block.data) for block in blocks] == [3 * (b"x" * 9999 + b"\tf\n")]


def test_a_connection_that_was_lost_before_the_copy_is_an_error_of_access(postgres: PostgresServer) -> None:
    with closing(psycopg.connect(**postgres.address())) as connection, postgres.connect() as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.info.backend_pid])
        with pytest.raises(psycopg.OperationalError) as lost:
            list(copied_rows(connection, "COPY (SELECT 1) TO STDOUT", (), most_rows=10))
    assert cause_of_failed_access(lost.value) is not None


NASTY = [
    None, "", " ", "  two  ", "plain", "a,b", 'a "quoted" word', '"', '""', '"""', "'", "a\nb", "\n", "\r",
    "\r\n", "a\r\nb", "\\.", "\\N", "\\", "NULL", "null", "NaN", "#N/A", "\t", "\ufeff", "\ufeffabc",
    "\u2028", "ümläut", "\U0001f600", "\x01\x1f\x7f", ",", ",,", "\n\n",
    '",\n"', '"\n', '\n"', "x" * 100_000, "0", "-",
    "{}", "{NULL}", "# comment", "=1+1",
]  # fmt: skip


def rows(text: bytes, *columns: str) -> list[tuple[Any, ...]]:
    batch = csv_batch(bytearray(text), columns)
    assert batch.schema.names == list(columns)
    return [tuple(row.values()) for row in batch.to_pylist()]


def test_an_empty_value_is_null_and_a_quoted_one_is_the_empty_text() -> None:
    assert rows(b'1,,x\n2,"",\n', "a", "b", "c") == [("1", None, "x"), ("2", "", None)]


def test_quoted_values_contain_delimiters_quotes_and_line_ends() -> None:
    assert rows(b'"a,b","say ""no""","1\n2","\r","\r\n"\n', *"abcde") == [
        ("a,b", 'say "no"', "1\n2", "\r", "\r\n")
    ]


def test_an_empty_line_is_a_row_whose_only_value_is_null() -> None:
    assert rows(b'\n\nx\n\n""\n\n', "a") == [(None,), (None,), ("x",), (None,), ("",), (None,)]


def test_rows_without_columns_are_counted() -> None:
    batch = csv_batch(b"\n" * 5, [])
    assert (batch.num_rows, batch.num_columns) == (5, 0)


def test_texts_that_other_csv_readers_take_for_null_or_the_end_stay_texts() -> None:
    assert rows(b"NULL,NaN\n\\N,\\.\n\\.,#N/A\n", "a", "b") == [
        ("NULL", "NaN"), ("\\N", "\\."), ("\\.", "#N/A"),
    ]  # fmt: skip
    assert rows(b'\\.\n"\\."\nafter\n', "a") == [("\\.",), ("\\.",), ("after",)]


def test_a_byte_order_mark_at_the_beginning_belongs_to_the_value() -> None:
    bom = "\ufeff".encode()
    lines = [bom + b"\n", bom + bom + b"a\n", b'"' + bom + b',"\n']
    expected = [("\ufeff",), ("\ufeff\ufeffa",), ("\ufeff,",)]
    assert rows(b"".join(lines), "a") == expected
    assert [row for line in lines for row in rows(line, "a")] == expected


def test_a_value_of_several_megabytes_is_read_completely() -> None:
    long = "y" * 3_000_000
    assert rows(f"a,b\n{long},1\nc,d\n".encode(), "a", "b") == [("a", "b"), (long, "1"), ("c", "d")]


def test_another_number_of_columns_is_refused() -> None:
    with pytest.raises(SplitReadError, match="cannot be read as the 2 columns a, b"):
        rows(b"1,2\n1,2,3\n", "a", "b")


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(SplitReadError, match="the bytes ff, which are not UTF-8"):
        rows(b"1,a\xff\n", "a", "b")


@pytest.mark.parametrize("columns", [("a",), ("id", "a"), ("a", "id"), ("a", "b"), ()])
def test_every_text_survives_a_round_trip_through_a_server(
    postgres: PostgresServer, columns: tuple[str, ...]
) -> None:
    names = {"id": str, "a": lambda i: NASTY[i], "b": lambda i: NASTY[-1 - i]}
    with postgres.database() as name, postgres.connect(name) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text)")
        cursor.executemany(
            "INSERT INTO t VALUES (%s, %s, %s)", [(i, NASTY[i], NASTY[-1 - i]) for i in range(len(NASTY))]
        )
        selected = ", ".join(columns)
        with cursor.copy(f"COPY (SELECT {selected} FROM t ORDER BY id) TO STDOUT (FORMAT csv)") as copy:
            batch = csv_batch(b"".join(copy), columns)
    assert batch.num_rows == len(NASTY)
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        tuple(names[column](i) for column in columns) for i in range(len(NASTY))
    ]
