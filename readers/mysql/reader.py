"""The mysql reader: chunks of tables and windows of the log as rows, read on executors.

What lives here: the order of the steps. Modules that only executors need are imported where they are used,
because the driver also imports the reader's class.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from flip27_source.enumerators.mysql import options as opts
from flip27_source.enumerators.mysql.connection import (
    START_AGAIN,
    Connection,
    ServerError,
    checked,
    connect,
    imported,
    rows_of,
    variable,
)
from flip27_source.enumerators.mysql.dump import NOT_IN_THE_LOG, packets
from flip27_source.enumerators.mysql.server import catalog_table, has_transaction, log_end, other_log
from flip27_source.enumerators.mysql.split import (
    FIRST_IN_FILE,
    ChunkRead,
    LogRead,
    LogWindow,
    MysqlSplit,
    TableName,
    TableRules,
    position_of,
    position_text,
)
from flip27_source.enumerators.table_patterns import matched
from flip27_source.errors import DataLossError, SplitReadError
from flip27_source.reader import SourceReaderContext, SplitReader
from flip27_source.readers.schemas.column_changes import ColumnChanges

if TYPE_CHECKING:
    from flip27_source.readers.mysql.changes import Changes
    from flip27_source.readers.mysql.log import Emptied, TableRows
    from flip27_source.readers.mysql.table_maps import TableMap

_COLLATIONS = "SELECT id, character_set_name FROM information_schema.collations"
_UTF8 = ("utf8", "utf8mb3", "utf8mb4", "ascii")
_PYTHONS_NAMES = {"latin1": "cp1252", "binary": "latin-1", "ucs2": "utf-16-be", "utf16": "utf-16-be"}


class MysqlReader(SplitReader[MysqlSplit]):
    """Reads chunks and windows, and reports each in an event."""

    options: ClassVar = opts.MYSQL_OPTIONS
    repeatable: ClassVar[bool] = False

    def open(self, context: SourceReaderContext) -> None:
        """Prepare the rows; connections are made when they are needed."""
        from flip27_source.readers.mysql.change_rows import change_rows

        super().open(context)
        self._rows = change_rows(context.schema, context.options)
        self._columns = ColumnChanges(
            context, self._rows.columns_read, mode=context.options[opts.ON_SCHEMA_CHANGE]
        )
        self._compared: set[TableMap] = set()

    def read(self, split: MysqlSplit) -> Iterator[pa.RecordBatch]:
        options, errors = self.context.options, imported().err
        try:
            with closing(connect(options)) as connection:
                if split.chunk is not None:
                    yield from self._read_chunk(connection, split)
                elif split.log is not None:
                    yield from self._read_log(connection, split.split_id, split.log)
        except errors.MySQLError as error:
            raise SplitReadError(f"reading {split.split_id} failed: {error.args[-1]}") from None
        except ServerError as error:
            raise SplitReadError(f"reading {split.split_id}: {error.what}", remedy=error.remedy) from None

    def must_read(self, split: MysqlSplit) -> bool:
        """Whether it is a window of the log: later changes change the rows of earlier ones."""
        return split.log is not None

    def _read_chunk(self, connection: Connection, split: MysqlSplit) -> Iterator[pa.RecordBatch]:
        from flip27_source.readers.mysql.changes import rows_of_chunk
        from flip27_source.readers.mysql.chunk_rows import begin, blocks

        chunk = split.chunk
        assert chunk is not None
        # Before the snapshot: a statement that alters the table after it makes the SELECT fail.
        table = catalog_table(connection, chunk.table)
        position = begin(connection, chunk, timeout_s=self.context.options[opts.CONNECT_TIMEOUT])
        types = {name: kind.arrow or pa.string() for name, kind in table.columns.items()}
        self._columns.check(str(chunk.table), types, old=types)
        wanted = self._rows.columns_read
        read = {name: kind for name, kind in table.columns.items() if wanted is None or name in wanted}
        rows = 0
        for count, columns in blocks(connection, chunk, read):
            rows += count
            yield self._rows.batch(
                rows_of_chunk(chunk.table, table.key, columns, rows=count, position=position)
            )
        self.context.send_event_to_coordinator(
            ChunkRead(split_id=split.split_id, position=position, rows=rows)
        )

    def _read_log(self, connection: Connection, split_id: str, window: LogWindow) -> Iterator[pa.RecordBatch]:
        from flip27_source.readers.mysql.event_blocks import event_blocks
        from flip27_source.readers.mysql.log import WindowLog

        assert window.end is not None
        assert window.log is not None
        assert window.begins is not None
        self._check_server(connection, window)
        self._charsets = _charsets(connection)
        rules = {one.table: one for one in window.rules}
        log = WindowLog(
            first=window.begins,
            end=window.end,
            is_wanted=self._named if window.by_name else {*rules, *window.known}.__contains__,
            known={*rules, *window.known},
            report_loss=lambda what: self.context.report_data_loss(
                what, split_id=split_id, remedy=START_AGAIN
            ),
        )
        rows, emptied = 0, dict[TableName, None]()
        with ExitStack() as opened:
            while log.next_begins < window.end:
                try:
                    found = packets(
                        connection, self.context.options, log=window.log, position=log.next_begins
                    )
                    for part in log.changes(event_blocks(found, first=log.next_begins, end=window.end)):
                        changes = self._delivered(part, rules, emptied)
                        if len(changes):
                            rows += len(changes)
                            yield self._rows.batch(changes)
                    break
                except ServerError as error:
                    if error.code != NOT_IN_THE_LOG:
                        raise
                    self.context.report_data_loss(
                        f"the server no longer has its log from {position_text(log.next_begins)} on: "
                        f"{error.what}",
                        split_id=split_id,
                        remedy=f"{START_AGAIN}; and keep the log for longer (binlog_expire_logs_seconds)",
                    )
                # The server ends a connection on which it has refused to send its log.
                connection = opened.enter_context(closing(connect(self.context.options)))
                log.next_begins = _first_after(connection, log.next_begins)
        self.context.send_event_to_coordinator(
            LogRead(
                first=window.first,
                end=max(window.end, log.next_begins),
                rows=rows,
                emptied=tuple(emptied),
                gtid=None if log.last is None else log.last.gtid,
            )
        )

    def _check_server(self, connection: Connection, window: LogWindow) -> None:
        """Check that the server has the log that was read before the window."""
        uid = checked(
            self.context.options, "asking for its identity", lambda: variable(connection, "server_uid")
        )
        if uid != window.server:
            raise SplitReadError(
                "this is another server than the one whose log was read: its positions mean something else",
                remedy=f"connect to that server; or {START_AGAIN}",
            )
        assert window.log is not None
        assert window.begins is not None
        end, after = log_end(connection), window.after
        has_after = (
            after is None
            or end.first > window.begins
            or has_transaction(connection, after, log=window.log, position=window.begins)
        )
        if end.end < window.begins or not has_after:
            raise DataLossError(
                other_log(window.begins),
                remedy=f"{START_AGAIN}; onDataLoss=report does not help: there is no log to continue with",
            )

    def _named(self, table: TableName) -> bool:
        patterns, database = self.context.options[opts.TABLES] or (), self.context.options[opts.DATABASE]
        return matched(patterns, table.schema, table.name, own_schema=database)

    def _delivered(
        self, part: TableRows | Emptied, rules: dict[TableName, TableRules], emptied: dict[TableName, None]
    ) -> Changes:
        """The changes that no chunk has; tables that were emptied between their chunks are noted."""
        from flip27_source.readers.mysql.changes import changes_of, delivered, emptying, is_emptied_between
        from flip27_source.readers.mysql.log import Emptied, TableRows

        wanted = self._rows.columns_read
        if isinstance(part, Emptied):
            changes = emptying(part, {name: self.context.schema.field(name).type for name in wanted or ()})
        else:
            changes = changes_of(part, self._charsets, wanted)
        rule = rules.get(changes.table)
        if rule is not None:
            if is_emptied_between(changes, rule):
                emptied[changes.table] = None
            changes = delivered(changes, rule)
        if len(changes) and isinstance(part, TableRows) and part.table not in self._compared:
            self._compare(part.table)
        return changes

    def _compare(self, table: TableMap) -> None:
        """Compare the columns of a table with the DataFrame's, before its first row is delivered."""
        from flip27_source.readers.mysql.values import type_of

        types = {column.name: type_of(column, self._charsets) for column in table.columns}
        self._columns.check(str(table.table), types, old=types)
        self._compared.add(table)


def _first_after(connection: Connection, position: int) -> int:
    """Where the first file begins that the server has after a position that its log lacks."""
    firsts = [position_of(row[0], FIRST_IN_FILE) for row in rows_of(connection, "SHOW BINARY LOGS")]
    return next((first for first in firsts if first > position), log_end(connection).end)


def _charsets(connection: Connection) -> dict[int, str]:
    """Python's name of the encoding of each collation that is not one of UTF-8."""
    return {
        int(number): _PYTHONS_NAMES.get(str(name), str(name))
        for number, name in rows_of(connection, _COLLATIONS)
        if number is not None and name not in _UTF8
    }
