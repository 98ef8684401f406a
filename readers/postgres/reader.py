"""The postgres reader: chunks of tables and windows of the log as rows, read on executors.

What lives here: the order of the steps. :mod:`.chunk_rows` and :mod:`.log` read, :mod:`.pgoutput` parses,
:mod:`.window_delivery` decides which changes are delivered, and :mod:`.change_rows` makes rows. Most of them
are imported where they are used, because the driver also imports the reader's class.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres.catalog import types_of
from flip27_source.enumerators.postgres.chunk_transactions import TransactionSnapshot
from flip27_source.enumerators.postgres.chunks import CTID
from flip27_source.enumerators.postgres.column_types import PgType, arrow_type
from flip27_source.enumerators.postgres.connection import START_AGAIN, connect, failed, imported, row_of
from flip27_source.enumerators.postgres.publication import publication_gaps
from flip27_source.enumerators.postgres.server import (
    Slot,
    advance_if_unused,
    await_durable,
    await_visible,
    check_slot,
    existing_slot,
    log_end,
)
from flip27_source.enumerators.postgres.set_back import other_log
from flip27_source.enumerators.postgres.split import (
    ChunkRead,
    Committed,
    LogRead,
    LogWindow,
    PostgresSplit,
    TableLeftOut,
    lsn_text,
)
from flip27_source.enumerators.postgres.timelines import is_upgraded, timeline_of
from flip27_source.errors import DataLossError, SplitReadError
from flip27_source.log import LOG
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.changes.reader import ChangesReader
from flip27_source.readers.postgres.change_rows import ChangeRows, change_rows

if TYPE_CHECKING:
    from flip27_source.enumerators.postgres.connection import Connection
    from flip27_source.readers.postgres.copied_rows import CopiedBlock
    from flip27_source.readers.postgres.pgoutput import PgOutputDecoder
    from flip27_source.readers.postgres.relations import Relation, RelationColumn
    from flip27_source.readers.postgres.window_delivery import WindowDelivery
    from flip27_source.readers.scalars.text_bytes import Int64s

_TEXT = PgType(name="text")


@dataclass(slots=True, kw_only=True)
class _Totals:
    """The sum of the changes of a window that were read so far.

    Attributes:
        rows: the number of delivered changes.
        truncated: the oids of tables that were truncated between the snapshots of their chunks.
        committed_at: time of the last commit, in microseconds; None if there is none.
        last: the last transaction; None if there is none.
    """

    rows: int = 0
    truncated: dict[int, None] = field(default_factory=dict)
    committed_at: int | None = None
    last: Committed | None = None


class PostgresReader(ChangesReader[PostgresSplit, ChangeRows]):
    """Reads chunks and windows, and reports each in an event."""

    options: ClassVar = opts.POSTGRES_OPTIONS

    def __init__(self) -> None:
        self._side: Connection | None = None
        self._types: dict[tuple[int, int], PgType] = {}

    def _rows_of(self, context: SourceReaderContext) -> ChangeRows:
        return change_rows(context.schema, context.options)

    def read(self, split: PostgresSplit) -> Iterator[pa.RecordBatch]:
        psycopg = imported()
        try:
            if split.chunk is not None:
                yield from self._read_chunk(split)
            elif split.log is not None:
                yield from self._read_log(split.split_id, split.log)
        except psycopg.Error as error:
            said = failed(self.context.options, f"reading {split.split_id}", error)
            raise SplitReadError(said.what, remedy=said.remedy) from None

    def close(self) -> None:
        if self._side is not None:
            self._side.close()

    def _read_chunk(self, split: PostgresSplit) -> Iterator[pa.RecordBatch]:
        from flip27_source.readers.postgres.chunk_rows import chunk_texts, is_left_out, open_chunk
        from flip27_source.readers.postgres.delivered_changes import rows_of_chunk

        chunk = split.chunk
        assert chunk is not None
        rows = 0
        named = split.split_id if chunk.exported is None else f"of snapshot {chunk.exported}"
        with closing(connect(self.context.options, purpose=f"chunk {named}")) as connection:
            patterns = self.context.options[opts.TABLES] or ()
            # If an earlier attempt has reported the chunk, its report counts: the rows are not read later.
            is_reported = split.split_id in self.context.end_positions
            if not is_reported and is_left_out(connection, chunk, patterns):
                self.context.send_event_to_coordinator(TableLeftOut(chunk.table.oid))
                return
            try:
                opened = open_chunk(connection, chunk, timeout_s=self.context.options[opts.SLOT_TIMEOUT])
            except DataLossError as error:
                self.context.report_data_loss(error.what, split_id=split.split_id, remedy=error.remedy)
                # Count the chunk as read, without rows: changes above its horizon are then delivered.
                seen = str(TransactionSnapshot(xmin=chunk.horizon + 1, xmax=chunk.horizon + 1))
                self.context.send_event_to_coordinator(
                    ChunkRead(split_id=split.split_id, snapshot=seen, rows=0)
                )
                return
            is_followed = chunk.exported is None
            written_to, timeline = log_end(connection), timeline_of(connection).number
            types = {column.name: column.type for column in opened.columns}
            self._columns.check(str(opened.table), _arrow_types(types), old=())
            key = [column.name for column in chunk.key if column != CTID]
            filter_sql = self.context.options[opts.SNAPSHOT_WHERE]
            for count, texts in chunk_texts(connection, opened, self._rows.columns_read, filter_sql):
                rows += count
                read = rows_of_chunk(opened.table, texts, rows=count, lsn=chunk.lsn)
                yield self._rows.batch(read, types, key=key)
            if is_followed:
                # Wait until the ids that the snapshot counts as ended are durable: otherwise a server that is
                # killed could reuse them.
                connection.execute("COMMIT")
                await_durable(connection, written_to)
        if not is_followed:
            return
        self.context.send_event_to_coordinator(
            ChunkRead(
                split_id=split.split_id,
                snapshot=opened.snapshot,
                rows=rows,
                end=written_to,
                timeline=timeline,
            )
        )

    def _read_log(self, split_id: str, window: LogWindow) -> Iterator[pa.RecordBatch]:
        assert window.end is not None
        totals = _Totals()
        # Close the connection explicitly: psycopg's own context would wait for the end of COPY.
        with closing(connect(self.context.options, purpose="log window")) as connection:
            slot = self._checked_slot(connection, split_id, window)
            if slot is not None:
                yield from self._rows_of_log(connection, slot, split_id, window, totals)
        self.context.send_event_to_coordinator(
            LogRead(
                first=window.first,
                end=window.end,
                rows=totals.rows,
                truncated=tuple(totals.truncated),
                committed_at=totals.committed_at,
                last=totals.last,
            )
        )

    def _rows_of_log(
        self, connection: Connection, slot: Slot, split_id: str, window: LogWindow, totals: _Totals
    ) -> Iterator[pa.RecordBatch]:
        from flip27_source.readers.postgres.log import log_blocks, produced_ahead
        from flip27_source.readers.postgres.pgoutput import PgOutputDecoder
        from flip27_source.readers.postgres.window_delivery import WindowDelivery

        assert window.end is not None
        assert window.publication is not None
        options, publication = self.context.options, window.publication
        other = other_log(connection, slot, publication, read_to=window.first, last=window.after)
        if other is not None:
            self.context.report_data_loss(other, split_id=split_id, remedy=START_AGAIN)
        if slot.confirmed < window.first:
            # A server that was killed sets a slot back, maybe to changes from before the publication.
            advance_if_unused(connection, slot.name, window.first)
        (xmax,) = row_of(connection, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
        decoder = PgOutputDecoder(first=window.first, end=window.end)
        delivery = WindowDelivery(window, options, near=int(xmax), side=self.side)
        with publication_gaps(connection) as gaps:
            blocks = log_blocks(
                connection, slot.name, publication, end=window.end, timeout_s=options[opts.SLOT_TIMEOUT]
            )
            yield from produced_ahead(
                self._changes(decoder, blocks, delivery, totals), interrupt=connection.cancel
            )
        if gaps:
            self.context.report_data_loss(
                f"publication {publication} was missing when rows were changed, and the log does not "
                f"have these changes (up to {lsn_text(window.end)})",
                split_id=split_id,
                remedy=f"create the publication again, and {START_AGAIN}",
            )
        # Check again: the rows are complete only if the slot has not moved meanwhile.
        self._checked_slot(connection, split_id, window)

    def _changes(
        self,
        decoder: PgOutputDecoder,
        blocks: Iterator[CopiedBlock],
        delivery: WindowDelivery,
        totals: _Totals,
    ) -> Generator[pa.RecordBatch, None, None]:
        """The rows of a window, up to its end."""
        from flip27_source.readers.postgres.log import FIELD_BYTES

        for block in blocks:
            for changes in decoder.decode(block.data, block.lengths, skip=FIELD_BYTES):
                totals.committed_at = max(totals.committed_at or 0, int(changes.committed_at[-1]))
                if totals.last is None or changes.lsn[-1] >= totals.last.lsn:
                    totals.last = Committed(lsn=int(changes.lsn[-1]), at_us=int(changes.committed_at[-1]))
                delivered = delivery.delivered(changes, totals.truncated)
                if delivered is not None and len(delivered):
                    totals.rows += len(delivered)
                    relation = delivered.relation
                    types = self.types(relation, delivered.xid)
                    old = [column.name for column in relation.columns if column.is_key]
                    self._compare(relation, str(relation), partial(_arrow_types, types), old=old)
                    key = delivery.key_names(relation)
                    for part in delivery.filled(delivered):
                        yield self._rows.batch(part, types, key=key)
        decoder.finish()

    def _checked_slot(self, connection: Connection, split_id: str, window: LogWindow) -> Slot | None:
        """The slot, after a check that it still has the window.

        Returns:
            None if the server was upgraded since the window was planned: pg_upgrade moves a slot only if the
            slot has sent all changes, so the window has none.
        """
        assert window.slot is not None
        slot = existing_slot(connection, window.slot, needed_from=window.first)
        try:
            check_slot(slot, database=connection.info.dbname, position=window.first)
        except DataLossError as error:
            if slot.wal_status == "lost":
                raise
            oids = [*(window.known or ()), *(rules.table.oid for rules in window.rules)]
            is_other = window.system not in (None, timeline_of(connection).system)
            if is_other and is_upgraded(connection, oids):
                return None
            self.context.report_data_loss(error.what, split_id=split_id, remedy=error.remedy)
        return slot

    def types(self, relation: Relation, xids: Int64s) -> dict[str, PgType]:
        """The types of a relation's columns; each type is looked up only once.

        Args:
            xids: the transactions that have changed rows of the relation, and may have created the types.
        """
        pairs = [(column.type_oid, column.type_modifier) for column in relation.columns]
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in self._types]
        if missing:
            self._types |= types_of(self.side(), missing)
            if not self._types.keys() >= set(missing):
                await_visible(self.side(), xids, timeout_s=self.context.options[opts.SLOT_TIMEOUT])
                self._types |= types_of(self.side(), missing)
        types = {}
        for column, pair in zip(relation.columns, pairs, strict=True):
            if pair not in self._types:
                self._check_dropped(relation, column)
            types[column.name] = self._types.get(pair, _TEXT)
        return types

    def _check_dropped(self, relation: Relation, column: RelationColumn) -> None:
        """Check that rows can have the column's values as text, because their type no longer exists."""
        columns_read = self._rows.columns_read
        said = f"column {column.name} of {relation} has a type that has since been dropped"
        if columns_read is None:
            self._types[column.type_oid, column.type_modifier] = _TEXT
            LOG.warning("%s (oid %d): its values are strings", said, column.type_oid)
        elif column.name in columns_read and not pa.types.is_string(
            self.context.schema.field(column.name).type
        ):
            raise SplitReadError(
                f"{said} (oid {column.type_oid})",
                remedy="start a query with a new stateLocation, whose snapshot has the current columns",
            )

    def side(self) -> Connection:
        """A second connection, for queries while the first one reads."""
        if self._side is None or self._side.closed:
            self._side = connect(self.context.options, purpose="reader")
        return self._side


def _arrow_types(types: Mapping[str, PgType]) -> dict[str, pa.DataType]:
    return {name: arrow_type(kind) for name, kind in types.items()}
