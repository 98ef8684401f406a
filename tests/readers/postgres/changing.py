"""Turns literal messages of the log into delivered changes, for tests of rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.enumerators.postgres.split import TableName
from flip27_source.readers.postgres.delivered_changes import (
    DeliveredChanges,
    delivered_changes,
    rows_of_chunk,
)
from flip27_source.readers.postgres.pgoutput import PgOutputDecoder
from flip27_source.readers.postgres.relations import Relation
from tests.readers.postgres.pgoutput_messages import YEAR_2000_US, begin, commit, described
from tests.readers.postgres.pgoutput_rows import decode

ORDERS = TableName(oid=16_400, schema="public", name="orders")
LSN = 0x16B3748
COMMITTED_US = YEAR_2000_US + 1_234_567


def changed(table: Relation, *messages: bytes, key: Sequence[str] = ("id",)) -> DeliveredChanges:
    """The changes of a transaction on one table."""
    decoder = PgOutputDecoder(first=0, end=1 << 62)
    transaction = [
        begin(LSN, at_us=COMMITTED_US),
        described(table),
        *messages,
        commit(LSN, at_us=COMMITTED_US),
    ]
    (changes,) = decode(decoder, transaction)
    names = [column.name for column in table.columns]
    return delivered_changes(changes, key=[names.index(name) for name in key], xid_near=(1 << 32) + 900)


def chunk(
    types: dict[str, PgType], *rows: Sequence[str | None], lsn: int = 0, table: TableName = ORDERS
) -> DeliveredChanges:
    """Rows of a chunk."""
    columns = zip(*rows, strict=True)
    texts = {name: pa.array(column, pa.string()) for name, column in zip(types, columns, strict=True)}
    return rows_of_chunk(table, texts, rows=len(rows), lsn=lsn)


def objects(column: pa.Array) -> list[Any]:
    """Parse JSON values. Numbers with a fraction remain texts, so that nothing is rounded."""
    return [None if text is None else json.loads(text, parse_float=str) for text in column.to_pylist()]
