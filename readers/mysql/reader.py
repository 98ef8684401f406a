"""The mysql reader: chunks of tables and windows of the log as rows, read on executors.

What lives here: the order of the steps. Modules that only executors need are imported where they are used,
because the driver also imports the reader's class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from flip27_source.enumerators.mysql import errors, server
from flip27_source.enumerators.mysql import options as opts
from flip27_source.enumerators.mysql.connection import Connection, Row, connect, doing, rows_of, variable
from flip27_source.enumerators.mysql.dump import file_began, log_blocks
from flip27_source.enumerators.mysql.failover import check_has, check_sent, gtids_in, skip
from flip27_source.enumerators.mysql.schema import check_types, has_all_columns
from flip27_source.enumerators.mysql.split import ChunkRead, LogRead, LogWindow, MysqlSplit, position_text
from flip27_source.enumerators.mysql.statements import Writing
from flip27_source.errors import DataLossError, SplitReadError
from flip27_source.events import ReturnSplit
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.changes.reader import ChangesReader
from flip27_source.source_options import ON_DATA_LOSS

if TYPE_CHECKING:
    from flip27_source.readers.mysql.change_rows import TypedRows
    from flip27_source.readers.mysql.changes import Changes
    from flip27_source.readers.mysql.log import Emptied, TableRows
    from flip27_source.readers.mysql.table_maps import TableMap


class MysqlReader(ChangesReader[MysqlSplit, "TypedRows"]):
    """Reads chunks and windows, and reports each in an event."""

    options: ClassVar = opts.MYSQL_OPTIONS

    def _rows_of(self, context: SourceReaderContext) -> TypedRows:
        from flip27_source.readers.mysql.change_rows import change_rows

        self._known: dict[TableMap, TableMap] = {}
        return change_rows(context.schema, context.options)

    def read(self, split: MysqlSplit) -> Iterator[pa.RecordBatch]:
        options = self.context.options
        try:
            with doing(options, f"reading {split.split_id}"), connect(options) as connection:
                if split.chunk is not None:
                    yield from self._read_chunk(connection, split)
                elif split.log is not None:
                    yield from self._read_log(connection, split.split_id, split.log)
        except errors.ServerError as error:
            raise SplitReadError(f"{split.split_id}: {error.what}", remedy=error.remedy) from None
        except DataLossError as error:
            if options[ON_DATA_LOSS] != "report" or isinstance(error, errors.GoneTableError):
                raise
            # What may be reported was. This would be counted as a loss, too, and the log be skipped.
            raise SplitReadError(error.what, remedy=error.remedy) from error

    def _read_chunk(self, connection: Connection, split: MysqlSplit) -> Iterator[pa.RecordBatch]:
        from flip27_source.readers.mysql.changes import rows_of_chunk
        from flip27_source.readers.mysql.chunk_rows import begin, blocks

        chunk = split.chunk
        assert chunk is not None
        earlier = None
        if chunk.server not in (None, server.identity(connection)):
            sent = [one for one in self.context.sent_before if isinstance(one, ChunkRead)]
            earlier = next((one for one in sent if one.split_id == split.split_id), None)
            if earlier is None:
                raise ReturnSplit(f"another server than that of the log answers for {split.split_id}")
            # Rows that are newer than those that were reported: the log has the difference.
            check_has(connection, self.context.options, earlier.gtids)
            chunk = replace(chunk, barrier=server.log_written_to(connection, failovers=0))
        # Before the snapshot: a statement that alters the table after it makes the SELECT fail.
        table = server.present_table(connection, chunk.table).renamed(self._rows.own_name)
        self._check_types(table)
        table.check_cut_by(chunk.key)
        position = begin(connection, chunk, timeout_s=self.context.options[opts.CONNECT_TIMEOUT])
        gtids = gtids_in(connection, "gtid_binlog_pos") if chunk.server is not None else ()
        if earlier is not None:
            position, gtids = earlier.position, earlier.gtids
        types = {name: kind.arrow or pa.string() for name, kind in table.columns.items()}
        self._columns.check(str(chunk.table), types, old=types)
        wanted = self._rows.columns_read
        read = {name: kind for name, kind in table.columns.items() if wanted is None or name in wanted}
        for count, columns in blocks(connection, chunk, read):
            yield self._rows.batch(
                rows_of_chunk(chunk.table, table.key, columns, rows=count, position=position)
            )
        self.context.send_event_to_coordinator(
            ChunkRead(split_id=split.split_id, position=position, gtids=gtids)
        )

    def _read_log(self, connection: Connection, split_id: str, window: LogWindow) -> Iterator[pa.RecordBatch]:
        from flip27_source.readers.mysql.charsets import COLLATIONS, Charsets
        from flip27_source.readers.mysql.log import WindowLog

        assert window.end is not None
        assert window.log is not None
        context = self.context
        if not self._may_read(connection, window):
            context.send_event_to_coordinator(LogRead(first=window.first, end=window.first))
            return
        logged = server.check_log(connection, log=window.log, position=window.first)
        self._charsets = Charsets(rows_of(connection, COLLATIONS), self._query)
        own = self._rows.own_name
        self._rules = {one.table: replace(one, key=tuple(map(own, one.key))) for one in window.rules}
        self._emptied: dict[Any, None] = {}
        report_loss = partial(context.report_data_loss, split_id=split_id, remedy=errors.START_AGAIN)
        is_wanted: Callable[[Any], bool] = {*self._rules, *window.known}.__contains__
        if window.named:
            is_wanted = partial(server.is_named, window.named)
        writing = Writing(self._charsets.decode, variable(connection, "lower_case_table_names") != "0")
        log = WindowLog(
            window=window, is_wanted=is_wanted, report_loss=report_loss, rules=self._rules, writing=writing
        )
        passed = list[str]()
        if logged.first > window.first:
            context.report_data_loss(
                f"the server no longer has its log from {position_text(window.first)} on: it begins at "
                f"{position_text(logged.first)}",
                split_id=split_id,
                remedy=f"{errors.START_AGAIN}; and keep the log for longer (binlog_expire_logs_seconds)",
            )
            passed += server.gtids_at(connection, window.log, logged.first) or ()
        first = log.next_begins = max(window.first, logged.first)
        passed += skip(connection, window.skips, log=window.log, position=first)
        if first < window.end:
            events = log_blocks(connection, context.options, log=window.log, first=first, end=window.end)
            try:
                for part in log.changes(events):
                    changes = self._delivered(part)
                    if len(changes):
                        yield self._rows.batch(changes)
            except errors.NotInTheLogError as error:
                raise errors.OtherLogError(log.next_begins) from error
        end = log.next_begins
        if end < window.end:
            # What the server has left out up to the end of its log has no events.
            end, gtids = max(window.end, logged.end), (*window.skips, *log.last.values())
            with connect(context.options) as another:
                check_sent(another, gtids, log=window.log, first=first, end=logged.end)
        began = log.files.get(end >> 32) or file_began(context.options, log=window.log, position=end)
        gtids, prepared = (*passed, *log.last.values()), tuple(log.prepared.items())
        context.send_event_to_coordinator(
            LogRead(window.first, end, tuple(self._emptied), gtids, file_began=began, prepared=prepared)
        )

    def _may_read(self, connection: Connection, window: LogWindow) -> bool:
        """Whether the window is read: not if another server has answered this attempt, or the first one."""
        # If an earlier attempt has reported the window, its report counts.
        were_read = [one.end > one.first for one in self.context.sent_before if isinstance(one, LogRead)]
        is_other = server.identity(connection) != window.server
        if is_other and any(were_read):
            raise SplitReadError(
                "the batch was read on another server before, and its positions mean something else here",
                remedy=f"connect to that server until the batch is complete; or {errors.START_AGAIN}",
            )
        return any(were_read) or not (were_read or is_other)

    def _delivered(self, part: TableRows | Emptied) -> Changes:
        """The changes that no chunk has; tables that were emptied between their chunks are noted."""
        from flip27_source.readers.mysql.changes import changes_of, delivered, emptying, is_emptied_between
        from flip27_source.readers.mysql.log import Emptied
        from flip27_source.readers.mysql.values import types_of

        wanted = self._rows.columns_read
        if isinstance(part, Emptied):
            table, rule = None, self._rules.get(part.table)
            changes = emptying(part, {name: self.context.schema.field(name).type for name in wanted or ()})
        else:
            table = self._known.get(part.table) or self._understood(part.table)
            rule = self._rules.get(table.table)
            changes = changes_of(part._replace(table=table), self._charsets, wanted)
        if rule is not None:
            if is_emptied_between(changes, rule):
                self._emptied[changes.table] = None
            changes = delivered(changes, rule, () if table is None else table.cut_by)
        if len(changes) and table is not None:
            self._compare(table, str(table.table), partial(types_of, table.columns, self._charsets))
        return changes

    def _understood(self, table: TableMap) -> TableMap:
        """A table of the log, with the DataFrame's names of its columns.

        Raises:
            SchemaError: a column that is read has a type that the source does not read.
        """
        from flip27_source.readers.mysql.table_maps import HASH, logged_types

        known = table.renamed(self._rows.own_name)
        logged = logged_types(known, self._charsets.names)
        self._check_types(server.CatalogTable(table=known.table, columns=logged))
        if any(self._is_read(column.name) and column.is_ambiguous for column in known.columns):
            with connect(self.context.options) as connection:
                there = server.catalog_table(connection, known.table).renamed(self._rows.own_name)
            self._check_types(there)
            hidden = {one.name for one in known.columns if one.name.startswith(HASH)} - there.columns.keys()
            known = known.renamed(lambda name: "" if name in hidden else name)
        self._known[table] = known
        return known

    def _check_types(self, table: server.CatalogTable) -> None:
        wanted = [name for name in table.columns if self._is_read(name)]
        check_types(table, wanted, change_format=self.context.options[opts.CHANGE_FORMAT])

    def _is_read(self, column: str) -> bool:
        wanted = self._rows.columns_read
        return wanted is None or column in wanted or has_all_columns(self.context.options)

    def _query(self, sql: str) -> list[Row]:
        """Run a query while another connection sends the log."""
        with connect(self.context.options) as connection:
            return rows_of(connection, sql)
