"""Splits: where they begin and end, their sizes, and which transactions the snapshot of a chunk sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from flip27_source.enumerators.postgres.chunk_transactions import TransactionSnapshot, ended_below, widened
from flip27_source.enumerators.postgres.chunks import cuts, next_bound
from flip27_source.enumerators.postgres.split import (
    KeyColumn,
    LogWindow,
    PostgresSplit,
    TableChunk,
    TableName,
    lsn_text,
    parse_lsn,
)
from flip27_source.snapshot_then_log.tables import Cut
from tests.enumerators.postgres.database import TestedDatabase, new_database
from tests.postgres_server import PostgresServer

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


ID = (KeyColumn(name="id", type="integer"),)
TABLE = TableName(oid=0, schema="public", name="t")


def bounds(
    server: PostgresServer, key: tuple[KeyColumn, ...], *statements: str, rows: int
) -> list[tuple[str, ...]]:
    """Return at most 50 bounds of chunks of ``rows`` rows."""
    found: list[tuple[str, ...]] = []
    with new_database(server, *statements) as database:
        bound: Any = None
        while len(found) < 50:
            bound = next_bound(database.control, TABLE, key, bound, rows=rows, filter_sql=None)
            if bound is None:
                break
            found.append(bound)
    return found


def test_numbers_are_ordered_by_value_whatever_their_number_of_digits(postgres: PostgresServer) -> None:
    statements = "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(-5, 109)"
    assert bounds(postgres, ID, *statements, rows=30) == [("25",), ("55",), ("85",)]


def test_a_table_with_exactly_the_rows_of_a_chunk_is_one_chunk(postgres: PostgresServer) -> None:
    statements = "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 30)"
    assert bounds(postgres, ID, *statements, rows=30) == []


def test_a_key_of_two_columns_is_also_cut_between_rows_with_equal_first_columns(
    postgres: PostgresServer,
) -> None:
    key = KeyColumn(name="a", type="integer"), KeyColumn(name="b", type="text")
    statements = (
        "CREATE TABLE t (a int, b text, PRIMARY KEY (a, b))",
        "INSERT INTO t SELECT a, b FROM generate_series(1, 2) a, unnest('{a,b,c}'::text[]) b",
    )
    assert bounds(postgres, key, *statements, rows=2) == [("1", "c"), ("2", "b")]


# What a poll finds when time is short, and when a table is gone.


@pytest.fixture
def shop(postgres: PostgresServer) -> Iterator[TestedDatabase]:
    """A database with 40 orders and 25 items."""
    with new_database(
        postgres,
        "CREATE TABLE orders (id int PRIMARY KEY)",
        "CREATE TABLE items (id int PRIMARY KEY)",
        "INSERT INTO orders SELECT generate_series(1, 40)",
        "INSERT INTO items SELECT generate_series(1, 25)",
    ) as database:
        yield database


def table(shop: TestedDatabase, name: str) -> TableName:
    return TableName(oid=shop.one(f"SELECT '{name}'::regclass::int"), schema="public", name=name)


def polled(shop: TestedDatabase, most: int, *uncut: tuple[TableName, tuple[str, ...] | None]) -> list[Cut]:
    """Return what a poll finds that has time for ``most`` queries."""
    left = [True] * most
    request = [(table, ID, lower) for table, lower in uncut]
    found = cuts(shop.control, request, rows=10, filter_sql=None, has_time=lambda: bool(left and left.pop()))
    return list(found)


def cut(table: TableName, *found: int, lower: int | None = None, is_end: bool) -> Cut:
    return Cut(
        table_id=table.oid,
        lower=None if lower is None else (str(lower),),
        bounds=tuple(((str(bound),), 10) for bound in found),
        is_end=is_end,
    )


def test_a_table_that_no_time_is_left_for_is_cut_by_a_later_poll(shop: TestedDatabase) -> None:
    orders, items = table(shop, "orders"), table(shop, "items")
    assert polled(shop, 2, (orders, None), (items, None)) == [cut(orders, 11, 21, is_end=False)]
    assert polled(shop, 0, (orders, ("21",)), (items, None)) == []
    assert polled(shop, 3, (orders, ("21",)), (items, None)) == [
        cut(orders, 31, lower=21, is_end=True),
        cut(items, 11, is_end=False),
    ]
    assert polled(shop, 9, (items, ("11",))) == [cut(items, 21, lower=11, is_end=True)]


def test_a_table_that_was_dropped_has_no_more_bounds(shop: TestedDatabase) -> None:
    orders = table(shop, "orders")
    shop.execute("DROP TABLE orders")
    assert polled(shop, 0, (orders, ("11",))) == [cut(orders, lower=11, is_end=True)]


EPOCH = 1 << 32


def ids(*numbers: int) -> npt.NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


def test_a_snapshot_sees_exactly_the_transactions_that_had_ended() -> None:
    snapshot = TransactionSnapshot.parse("10:20:10,14")
    assert snapshot.sees(ids(9, 10, 11, 14, 19, 20, 21)).tolist() == [
        True, False, True, False, True, False, False,
    ]  # fmt: skip


def test_the_transactions_of_a_snapshot_may_come_in_any_order() -> None:
    assert TransactionSnapshot.parse("5:9:8,5").in_progress == (5, 8)
    assert not TransactionSnapshot.parse("5:9:8,5").sees(ids(5, 8)).any()


@pytest.mark.parametrize("text", ["700:700:", "700:705:700,703", f"{EPOCH}:{EPOCH + 2}:{EPOCH}"])
def test_a_snapshot_is_written_in_the_form_in_which_it_was_read(text: str) -> None:
    assert str(TransactionSnapshot.parse(text)) == text


@pytest.mark.parametrize("text", ["", "700", "700:701", "700:701::", "a:b:"])
def test_invalid_snapshots_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a snapshot|invalid literal"):
        TransactionSnapshot.parse(text)


@pytest.mark.parametrize(
    ("short", "near", "whole"),
    [
        (700, 702, 700), (702, 700, 702), (3, EPOCH - 2, EPOCH + 3), (EPOCH - 2, EPOCH + 3, EPOCH - 2),
        (5, 7 * EPOCH + 9, 7 * EPOCH + 5), (EPOCH - 1, 7 * EPOCH, 7 * EPOCH - 1),
        (0, 7 * EPOCH - 1, 7 * EPOCH), ((1 << 31) + 6, EPOCH + 5, (1 << 31) + 6),
    ],
)  # fmt: skip
def test_an_id_of_32_bits_gets_the_epoch_that_makes_it_nearest_to_the_reference(
    short: int, near: int, whole: int
) -> None:
    assert widened(ids(short), near).tolist() == [whole]


def test_the_rule_of_an_unread_chunk_does_not_expire() -> None:
    assert not ended_below(["10:20:", None], 1 << 40)
