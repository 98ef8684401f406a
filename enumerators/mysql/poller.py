"""Polls the server periodically for the enumerator, on a thread. What must not live here: decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from flip27_source.enumerators.mysql import options as opts
from flip27_source.enumerators.mysql import server
from flip27_source.enumerators.mysql.chunks import Uncut, next_bound
from flip27_source.enumerators.mysql.connection import Connection, connect, doing
from flip27_source.enumerators.mysql.dump import begin_of, file_began
from flip27_source.enumerators.mysql.errors import GoneTableError, OtherLogError
from flip27_source.enumerators.mysql.failover import failover, start_at
from flip27_source.enumerators.mysql.schema import check_types, has_all_columns
from flip27_source.enumerators.mysql.split import TableName, by_domain, failovers_of, position_text
from flip27_source.enumerators.mysql.state import MysqlState
from flip27_source.enumerators.table_patterns import TablePattern
from flip27_source.enumerators.tables_with_log.options import SNAPSHOT_CHUNK_ROWS
from flip27_source.enumerators.tables_with_log.poller import ConnectedPoller, TablesRequest, check_start
from flip27_source.errors import DiscoveryError
from flip27_source.snapshot_then_log.tables import Cut, TablesState


@dataclass(frozen=True, slots=True, kw_only=True)
class PollRequest(TablesRequest[MysqlState, Uncut, TableName]):
    """A request.

    Attributes:
        reconnects: whether a task has reached another server than the one of the state.
    """

    reconnects: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PollResult:
    """The result of a poll.

    Attributes:
        setup: at the first poll of the first start, the state to begin with.
        failover: if another server answers than the one of the state, the state as it was requested, and as
            it goes on there.
        end: None if no log is read.
        tables: the tables of the option, if this poll has listed them; None otherwise.
        named: the option, with names as the server compares them.
    """

    setup: MysqlState | None
    failover: tuple[MysqlState, MysqlState] | None
    end: server.LogEnd | None
    tables: tuple[server.CatalogTable, ...] | None
    cuts: tuple[Cut, ...]
    named: Sequence[TablePattern]


class ServerPoller(ConnectedPoller[Connection, PollRequest, PollResult]):
    """Polls the server, whose identity it asks on each connection."""

    def poll(self, request: PollRequest) -> PollResult:
        with doing(self._options, "polling the server"):
            if request.reconnects:
                self._disconnect()
            return super().poll(request)

    def _opened(self, request: PollRequest) -> Connection:
        return connect(self._options)

    def _greet(self, connection: Connection, request: PollRequest) -> None:
        server.check_server(connection, reads_log=self._run.reads_log)
        self._named = server.named_tables(connection, self._options)
        state = request.state
        self._server = server.identity(connection)
        if state is not None and state.log is not None and state.server == self._server:
            end = server.check_log(connection, log=state.log, position=state.start)
            began = partial(file_began, self._options, log=state.log, position=state.start)
            if end.first <= state.start and began() != state.file_began:
                raise OtherLogError(state.start)

    def _polled(self, connection: Connection, request: PollRequest) -> PollResult:
        tables: tuple[server.CatalogTable, ...] | None = None
        if self._is_listing_due:
            # Again: it may have begun to replicate.
            server.check_server(connection, reads_log=self._run.reads_log)
            tables = tuple(server.find_tables(connection, self._named, known=request.known))
            if self._run.reads_log:
                server.check_logged(connection, [one.table for one in tables])
            for one in tables if has_all_columns(self._options) else ():
                check_types(one, one.columns, change_format=self._options[opts.CHANGE_FORMAT])
            self._has_listed()
        state, moved = request.state, None
        if state is not None and state.log is not None and state.server != self._server:
            after = failover(
                connection, self._options, state, server=self._server, report_data_loss=self._report_data_loss
            )
            moved, state = (state, after), after
        failovers = 0 if state is None else failovers_of(state.start)
        end = server.log_end(connection, failovers=failovers) if self._run.reads_log else None
        setup = self._set_up(connection, end) if state is None else None
        found = tuple(self._cuts(connection, request, tables)) if self._run.reads_tables else ()
        return PollResult(setup=setup, failover=moved, end=end, tables=tables, cuts=found, named=self._named)

    def _set_up(self, connection: Connection, end: server.LogEnd | None) -> MysqlState:
        state = MysqlState(server=self._server, log=None, start=0, assigner=TablesState())
        if end is None:
            return state
        start, skips = (end.end, ()) if self._run.reads_tables else self._start(connection, end)
        before = server.gtids_at(connection, end.log, start) or ()
        gtids = tuple((by_domain(before) | by_domain(skips)).values())
        began = file_began(self._options, log=end.log, position=start)
        return replace(state, log=end.log, start=start, skips=skips, gtids=gtids, file_began=began)

    def _start(self, connection: Connection, end: server.LogEnd) -> tuple[int, tuple[str, ...]]:
        """Where reading the log begins without a snapshot, and what it skips."""
        given = self._options[opts.STARTING_POSITION]
        if given in ("latest", "earliest"):
            return end.end if given == "latest" else end.first, ()
        if isinstance(given, str):
            return start_at(connection, self._options, given, log=end.log, first=end.first)
        later, option = "a later position", opts.STARTING_POSITION
        check_start(option, given, first=end.first, end=end.end, text=position_text, later=later)
        # It is looked for twice: a thread that is killed may send nothing, as if the log ended there.
        begin = min(begin_of(self._options, log=end.log, position=given) for _ in range(2))
        if begin < given:
            raise DiscoveryError(
                f"option startingPosition is {position_text(given)}, within the transaction that begins at "
                f"{position_text(begin)}",
                remedy=f"set startingPosition={position_text(begin)}, or the position of a later transaction",
            )
        return given, ()

    def _cuts(
        self, connection: Connection, request: PollRequest, tables: tuple[server.CatalogTable, ...] | None
    ) -> Iterator[Cut]:
        """The next bounds of the tables: all in a bounded run, otherwise those that are found quickly."""
        old = [one for one in request.cut if server.is_named(self._named, one[0])]
        known = {*request.known}
        new = [one for one in tables or () if one.cut_by and one.table not in known]
        rows, has_time = self._options[SNAPSHOT_CHUNK_ROWS], self._time_to_cut()
        for table, key, lower in (*old, *((one.table, one.cut_by, None) for one in new)):
            try:
                server.present_table(connection, table).check_cut_by(key)
            except GoneTableError as error:
                self._report_data_loss(error.what, remedy=error.remedy)
                yield Cut(table_id=table.table_id, lower=lower, bounds=(), is_end=True)
                continue
            after = partial(next_bound, connection, table, key, rows=rows)
            found = Cut.after(table.table_id, lower, rows=rows, next_bound=after, has_time=has_time)
            if found is not None:
                yield found
