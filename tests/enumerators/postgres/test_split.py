"""Positions of the log as text, and the sizes of splits."""

from __future__ import annotations

import pytest

from flip27_source.enumerators.postgres.split import (
    LogWindow,
    PostgresSplit,
    TableChunk,
    TableName,
    lsn_text,
    parse_lsn,
)

ORDERS = TableName(oid=16_400, schema="public", name="orders")


@pytest.mark.parametrize(
    ("text", "lsn"),
    [("0/0", 0), ("0/16B3748", 23_803_720), ("16/B374D848", (0x16 << 32) + 0xB374D848),
     ("FFFFFFFF/FFFFFFFF", (1 << 64) - 1)],
)  # fmt: skip
def test_a_position_is_parsed_and_formatted_as_postgresql_does(text: str, lsn: int) -> None:
    assert parse_lsn(text) == lsn
    assert lsn_text(lsn) == text


def test_a_position_may_have_small_letters_and_spaces_around_it() -> None:
    assert parse_lsn(" 16/b374d848\n") == parse_lsn("16/B374D848")


@pytest.mark.parametrize(
    "text", ["", "16", "/", "16/", "/16", "x/1", "1/x", "-1/1", "100000000/0", "0/100000000"]
)
def test_invalid_positions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an LSN such as 16/B374D848 is expected"):
        parse_lsn(text)


def test_the_size_of_a_chunk_is_in_rows_and_that_of_a_window_in_bytes() -> None:
    chunk = TableChunk(table=ORDERS, key=(), lower=None, upper=None, lsn=100, horizon=7)
    assert PostgresSplit(split_id="public.orders/16400/0", chunk=chunk, rows=5).size.rows == 5
    window = PostgresSplit(split_id="log", log=LogWindow(first=100, end=350))
    assert window.size.bytes == 250
    assert window.size.rows is None


def test_the_size_of_a_window_without_an_end_is_unknown() -> None:
    assert PostgresSplit(split_id="log", log=LogWindow(first=100)).size.bytes is None


def test_a_table_is_shown_with_its_schema() -> None:
    assert str(ORDERS) == "public.orders"
