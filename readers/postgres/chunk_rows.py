"""Reads the rows of one chunk in one transaction, and returns the transaction's snapshot.

PostgreSQL's CSV becomes Arrow columns of texts. NULL is an unquoted empty field there, and the empty text is
``""``. A row whose only value is NULL is an empty line.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.csv as pc

from flip27_source.enumerators.postgres.catalog import (
    CatalogColumn,
    columns_of,
    find_tables,
    own_rows,
    present_key,
    table_of,
)
from flip27_source.enumerators.postgres.chunk_transactions import TransactionSnapshot
from flip27_source.enumerators.postgres.chunks import altered_key, key_range, where
from flip27_source.enumerators.postgres.connection import START_AGAIN, Connection, row_of
from flip27_source.enumerators.postgres.server import reach_id
from flip27_source.enumerators.postgres.split import TableChunk, TableName
from flip27_source.enumerators.postgres.table_patterns import (
    TablePattern,
    matched,
    quoted,
    quoted_with_parameters,
)
from flip27_source.errors import AccessError, DataLossError, DiscoveryError, SplitReadError
from flip27_source.readers.postgres.copied_rows import copied_rows

MOST_ROWS = 1 << 17
"""The maximum number of rows in a block: a row with one digit can become five hundred bytes of JSON."""

_POLL_S = 0.01
_ALTERED = (
    f"{START_AGAIN}; or leave the table out with option tables; if an edit replays the chunk, set "
    "onSplitError=quarantine for one start: the chunk is not read again, and the query continues"
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChunk:
    """A chunk whose transaction has begun.

    Attributes:
        snapshot: the value of ``pg_current_snapshot()``.
        table: the table with its current name.
        columns: the columns of the table in this snapshot.
    """

    chunk: TableChunk
    snapshot: str
    table: TableName
    columns: tuple[CatalogColumn, ...]


def is_left_out(connection: Connection, chunk: TableChunk, patterns: Sequence[TablePattern]) -> bool:
    """Whether neither the name that the table had in the last listing, nor its present one, is in ``tables``.

    Raises:
        AccessError: ``tables`` names a table that does not exist. It may be this one, renamed once more.
    """

    def is_named(table: TableName | None) -> bool:
        return table is not None and matched(patterns, table.schema, table.name)

    if is_named(chunk.table) or is_named(table_of(connection, chunk.table.oid)):
        return False
    try:
        find_tables(connection, patterns)
    except DiscoveryError as error:
        raise AccessError(error.what, remedy=error.remedy) from None
    return True


def open_chunk(connection: Connection, chunk: TableChunk, *, timeout_s: float) -> OpenChunk:
    """Begin the transaction of a chunk, which ends with the connection.

    Its snapshot must see every transaction with an id up to the horizon of the chunk. All of them had ended
    when the chunk was assigned; but a server that was killed since then may reuse their ids. In that case,
    wait until the transactions with these ids have ended.

    Raises:
        DataLossError: the table was dropped.
        SplitReadError: a transaction with an id up to the horizon is still open after ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        table = table_of(connection, chunk.table.oid)
        if table is None:
            raise DataLossError(
                f"table {chunk.table} was dropped before its rows were read",
                remedy="leave the table out with option tables",
            )
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        snapshot = _locked(connection, table, chunk.exported)
        if snapshot is not None and TransactionSnapshot.parse(snapshot).xmin > chunk.horizon:
            break
        connection.execute("ROLLBACK")
        if snapshot is not None:
            reach_id(connection, chunk.horizon)
            if time.monotonic() > deadline:
                raise SplitReadError(
                    f"the server was killed and has reused transaction ids: a transaction with an id up to "
                    f"{chunk.horizon} is open, and a chunk of {chunk.table} has waited {timeout_s:.0f} s",
                    remedy="end the transaction with the oldest backend_xmin in pg_stat_activity, and run "
                    "the query again",
                )
            time.sleep(_POLL_S)
    key = present_key(connection, chunk.key)
    altered = altered_key(connection, table, key)
    if altered is not None:
        raise SplitReadError(altered, remedy=_ALTERED)
    columns = tuple(columns_of(connection, table.oid))
    return OpenChunk(chunk=replace(chunk, key=key), snapshot=snapshot, table=table, columns=columns)


def _locked(connection: Connection, table: TableName, exported: str | None) -> str | None:
    """Lock the table and return the snapshot in which to read it; None if it was just dropped or renamed.

    The lock is taken before the snapshot: in a snapshot from before an ALTER TABLE that rewrites the table,
    the table would be empty.
    """
    import psycopg.sql

    name = quoted(table.schema, table.name)
    try:
        connection.execute(f"LOCK TABLE {name} IN ACCESS SHARE MODE")
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None
    if exported is not None:
        try:
            connection.execute(psycopg.sql.SQL("SET TRANSACTION SNAPSHOT {}").format(exported))
        except (psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue) as error:
            raise SplitReadError(
                f"the snapshot {exported} of this read has ended: {error.diag.message_primary}",
                remedy="run the read again; it takes a new snapshot",
            ) from None
    snapshot, oid = row_of(
        connection, "SELECT pg_current_snapshot()::text, to_regclass(%s)::oid::bigint", [name]
    )
    return str(snapshot) if oid == table.oid else None


def chunk_texts(
    connection: Connection, opened: OpenChunk, column_names: Sequence[str] | None, filter_sql: str | None
) -> Iterator[tuple[int, Mapping[str, pa.Array]]]:
    """Yield blocks of rows: their number, and the texts of the wanted columns that the table has.

    Args:
        column_names: the names of the wanted columns; None for all columns.
    """
    chunk = opened.chunk
    names = [column.name for column in opened.columns if column_names is None or column.name in column_names]
    conditions, parameters = key_range(chunk.key, chunk.lower, chunk.upper)
    sql = (
        f"COPY (SELECT {', '.join(map(quoted_with_parameters, names))} "
        f"FROM {own_rows(connection, opened.table)}"
        f"{where(conditions, filter_sql)}) TO STDOUT (FORMAT csv)"
    )
    for block in copied_rows(connection, sql, parameters, most_rows=MOST_ROWS):
        batch = csv_batch(block.data, names)
        yield batch.num_rows, dict(zip(names, batch.columns, strict=True))


def csv_batch(rows: bytes | bytearray, columns: Sequence[str]) -> pa.RecordBatch:
    """Rows of ``COPY (SELECT columns ...) TO STDOUT (FORMAT csv)``; every column is a string.

    Args:
        rows: complete rows, one after the other; at least one.
        columns: names of the selected columns. Without columns, a batch has rows but no columns.
    """
    if not columns:
        # Each row is an empty line.
        array = pa.StructArray.from_buffers(pa.struct([]), len(rows), [None])
        return pa.RecordBatch.from_struct_array(array)
    if rows.startswith(_BYTE_ORDER_MARK):
        # Arrow skips one byte order mark, but here it is part of a value.
        rows = _BYTE_ORDER_MARK + rows
    try:
        table = pc.read_csv(
            pa.BufferReader(rows),
            # With one block for all rows, the result is one batch.
            read_options=pc.ReadOptions(column_names=columns, block_size=len(rows), use_threads=False),
            parse_options=pc.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=pc.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise _unreadable(rows, columns) from error
    (batch,) = table.to_batches()
    return batch


def _unreadable(rows: bytes | bytearray, columns: Sequence[str]) -> SplitReadError:
    try:
        rows.decode()
    except UnicodeDecodeError as undecodable:
        wrong = bytes(rows[undecodable.start : undecodable.end]).hex(" ")
        return SplitReadError(
            f"the server sent the bytes {wrong}, which are not UTF-8",
            remedy="values of a database with the encoding SQL_ASCII have to be converted to UTF-8 first",
        )
    # Arrow's message quotes the row, so it is only in the cause.
    return SplitReadError(
        f"the server's CSV cannot be read as the {len(columns)} columns {', '.join(columns)}",
        remedy="report this with the definition of the table",
    )
