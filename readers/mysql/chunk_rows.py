"""Reads the rows of a chunk in one snapshot, as columns of the same types as those of the log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from flip27_source.enumerators.mysql.chunks import key_range
from flip27_source.enumerators.mysql.column_types import ColumnType
from flip27_source.enumerators.mysql.connection import Connection, Row, imported, rows_of
from flip27_source.enumerators.mysql.errors import OtherLogError
from flip27_source.enumerators.mysql.server import begin_snapshot
from flip27_source.enumerators.mysql.split import TableChunk, failovers_of
from flip27_source.enumerators.mysql.table_patterns import quoted

_BLOCK_ROWS, _BLOCK_BYTES = 20_000, 16 << 20
_PAUSE_S = 0.02


def begin(connection: Connection, chunk: TableChunk, *, timeout_s: float) -> int:
    """Begin a snapshot that has everything before the chunk's barrier; return its position.

    Snapshots have a transaction a moment after the log; one that stays older is that of another log.

    Raises:
        OtherLogError: the server has another log.
    """
    deadline = time.monotonic() + timeout_s
    failovers = failovers_of(chunk.barrier)
    while (position := begin_snapshot(connection, failovers=failovers)) < chunk.barrier:
        rows_of(connection, "COMMIT")
        if time.monotonic() > deadline:
            raise OtherLogError(chunk.barrier)
        time.sleep(_PAUSE_S)
    return position


def blocks(
    connection: Connection, chunk: TableChunk, columns: Mapping[str, ColumnType]
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """The number of rows of each block, and these columns of it."""
    selected = [kind.selected(quoted(name)) for name, kind in columns.items()] or ["NULL"]
    where = key_range(chunk.key, chunk.lower, chunk.upper)
    sql = f"SELECT {', '.join(selected)} FROM {quoted(chunk.table.schema, chunk.table.name)}"
    cursor = connection.cursor(imported().cursors.SSCursor)
    cursor.execute(f"{sql} WHERE {where}" if where else sql)
    for rows in _parts(cursor):
        found = zip(columns.items(), zip(*rows, strict=True), strict=False)
        yield len(rows), {name: _column(kind, values) for (name, kind), values in found}


def _parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows in parts that are neither long nor large."""
    part, size = list[Row](), 0
    for row in rows:
        part.append(row)
        size += sum(map(len, filter(None, row)))
        if len(part) == _BLOCK_ROWS or size > _BLOCK_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _column(kind: ColumnType, values: Sequence[Any]) -> pa.Array:
    type = kind.arrow or pa.string()
    if pa.types.is_binary(type):
        return pa.array([one.encode() if isinstance(one, str) else one for one in values], pa.binary())
    texts = [one.decode() if isinstance(one, bytes) else one for one in values]
    found = pa.array(texts, pa.string())
    return (found.cast(pa.timestamp("us")) if pa.types.is_timestamp(type) else found).cast(type)
