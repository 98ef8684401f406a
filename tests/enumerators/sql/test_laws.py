"""The sql source keeps the laws of enumerators, readers and sources, in every database."""

from __future__ import annotations

import pytest

from flip27_source.testing import check_enumerator, check_reader, check_source
from tests.enumerators.sql.shops import KINDS, ORDERS, Shop

# Opening DuckDB or connecting to PostgreSQL takes long; check_source does so some hundred times.
MARKS = {
    "postgresql": pytest.mark.slow,
    "duckdb": pytest.mark.long,
    "postgresql by sqlalchemy": pytest.mark.long,
}
DATABASES = [pytest.param(kind, marks=MARKS.get(kind, ())) for kind in KINDS]


@pytest.mark.parametrize("shop", DATABASES, indirect=True)
def test_the_sql_source_keeps_the_laws(shop: Shop) -> None:
    shop.insert(ORDERS)
    options = shop.with_options(partitionRows="2", discoveryRetries="0")
    check_reader(options)
    check_enumerator(options, grow=shop.add_one)
    check_source(options, grow=shop.add_one, update=shop.change_amounts, fast=True)


@pytest.mark.slow
def test_the_laws_hold_at_every_crash_point(sqlite: Shop) -> None:
    sqlite.insert(ORDERS)
    options = sqlite.with_options(partitionRows="1")
    check_source(options, rows=ORDERS, grow=sqlite.add_one, update=sqlite.change_amounts)


def test_the_laws_hold_when_several_rows_share_a_time(sqlite: Shop) -> None:
    sqlite.insert(ORDERS)
    options = sqlite.with_options(cursorColumns="updated_at", partitionRows="1")
    check_source(options, rows=ORDERS, update=sqlite.change_amounts, fast=True)
