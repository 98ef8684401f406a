"""Which tables' changes in a window are delivered, for literal messages and windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from flip27_source.enumerators.postgres.split import LogWindow, PostgresSplit
from flip27_source.readers.postgres.relations import Relation
from flip27_source.readers.postgres.window_delivery import WindowDelivery
from flip27_source.source import Source
from tests.readers.postgres.changing import in_log
from tests.readers.postgres.pgoutput_messages import insert, relation

if TYPE_CHECKING:
    from flip27_source.enumerators.postgres.connection import Connection

ORDERS = relation("orders", oid=16_400)
SALES = relation("sales", oid=16_500)
SPLIT = b'{"split_id":"log","log":{"first":0,"end":2000,"slot":"s","publication":"p",%s}}'


def is_delivered(window: LogWindow, table: Relation, *, tables: str = "public.orders") -> bool:
    """Return whether an insert into the table is delivered."""
    options = Source.resolve({"enumerator": "postgres", "database": "shop", "tables": tables}).options
    changes = in_log(table, insert(table, b"1", b"a"))
    return WindowDelivery(window, options, near=900, side=unused).delivered(changes, {}) is not None


def unused() -> Connection:
    raise AssertionError("nothing has to be read from the server")


def window(known: tuple[int, ...], *, by_name: bool = False) -> LogWindow:
    return LogWindow(first=0, end=2000, known=known, also_by_name=by_name)


def test_a_table_is_known_by_its_oid() -> None:
    assert is_delivered(window((SALES.oid,)), SALES)
    assert not is_delivered(window((SALES.oid,)), ORDERS)


def test_without_a_snapshot_a_table_is_known_by_its_oid_or_its_name() -> None:
    assert is_delivered(window((SALES.oid,), by_name=True), SALES)
    assert is_delivered(window((), by_name=True), ORDERS)
    assert not is_delivered(window((), by_name=True), SALES)


@pytest.mark.parametrize(
    ("stored", "delivered"),
    [(b'"known":null', [ORDERS]), (b'"known":[16500]', [SALES])],
    ids=["without a snapshot", "with a snapshot"],
)
def test_a_window_that_an_older_version_stored_has_the_same_tables(
    stored: bytes, delivered: list[Relation]
) -> None:
    log = msgspec.json.decode(SPLIT % stored, type=PostgresSplit).log
    assert log is not None
    assert [table for table in (ORDERS, SALES) if is_delivered(log, table)] == delivered
