"""Polls the server periodically for the enumerator, on a thread, and creates there what is missing.

What must not live here: decisions, which belong to the assigner, and values that the coordinator's thread
uses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres import server
from flip27_source.enumerators.postgres.assigner import AssignerState, Horizon, Observation
from flip27_source.enumerators.postgres.catalog import CatalogTable, find_tables, is_wanted
from flip27_source.enumerators.postgres.chunks import CTID, Uncut, cuts
from flip27_source.enumerators.postgres.connection import START_AGAIN, Connection, checked, connect
from flip27_source.enumerators.postgres.exported_snapshot import export_snapshot
from flip27_source.enumerators.postgres.open_transactions import HeldBack, OpenTransaction, oldest_open
from flip27_source.enumerators.postgres.own_slot import (
    claim_slot,
    make_own_slot,
    own_slot_name,
    query_of,
    reading_purpose,
    slot_name_of,
)
from flip27_source.enumerators.postgres.publication import (
    PublicationMarks,
    alterations,
    check_scope,
    ensure_publication,
    publication_marks,
    recreated,
)
from flip27_source.enumerators.postgres.set_back import other_log
from flip27_source.enumerators.postgres.slot_keeper import SlotKeeper
from flip27_source.enumerators.postgres.split import Committed, TableName, lsn_text
from flip27_source.enumerators.postgres.state import PostgresState
from flip27_source.enumerators.postgres.timelines import Timeline, check_timeline, is_upgraded, timeline_of
from flip27_source.enumerators.tables_with_log.enumerator import RunMode
from flip27_source.enumerators.tables_with_log.poller import ConnectedPoller, TablesRequest, check_start
from flip27_source.errors import DiscoveryError
from flip27_source.log import LOG
from flip27_source.options import Options
from flip27_source.snapshot_then_log.tables import Cut

PAUSE_PER_PEEK = 4.0
"""Pause between two peeks for changes, as a multiple of the time of the first one."""

_SETTLE_POLL_S = 0.02
_COMPARISONS = 2
"""A server is set back while no connection is open: the report of the batch before may come after a poll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollRequest(TablesRequest[PostgresState, Uncut, TableName]):
    """A request; the first poll has created what is missing.

    Attributes:
        needed_from: the position from which batches may still need the log.
        position: the position up to which the log is planned.
        pending: the horizon that is to settle.
    """

    needed_from: int = 0
    position: int | None = None
    makes_horizon: bool = False
    pending: Horizon | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollResult:
    """The result of a poll of the server.

    Attributes:
        setup: at the first poll of the first start, the state with what was created.
        tables: the tables of the option, if this poll has listed them; otherwise empty.
        has_changes: whether the log has changes after the requested position; None if that is not known.
        slot: the slot of the query; None if no log is read.
        timeline: the server's timeline, which has everything that was read; None if no log is read.
        published: see PostgresState; None without a publication.
        upgraded_to: where the log begins if the server was upgraded since the last run; None if it was not.
        waits: the oldest open transaction for which chunks wait, and for how many seconds; None if they do
            not wait.
    """

    seen: tuple[Observation, ...]
    setup: PostgresState | None = None
    tables: tuple[CatalogTable, ...] = ()
    cuts: tuple[Cut, ...] = ()
    has_changes: bool | None = None
    position: int | None = None
    slot: server.Slot | None = None
    timeline: Timeline | None = None
    published: PublicationMarks | None = None
    upgraded_to: int | None = None
    waits: tuple[OpenTransaction, float] | None = None


class ServerPoller(ConnectedPoller[Connection, PollRequest, PollResult]):
    """Polls the server, and keeps the slot of the query.

    Args:
        query: the id of this query, by which it owns its slot.
        report_data_loss: the method of the enumerator's context.
    """

    def __init__(
        self, options: Options, run: RunMode, *, query: str, report_data_loss: Callable[..., None]
    ) -> None:
        super().__init__(options, run, report_data_loss=report_data_loss)
        self._query = query
        self._is_first_poll = True
        self._peek_after = 0.0
        self._held_back = HeldBack()
        self._published: PublicationMarks | None = None
        self._checked_to: int | None = None
        self._upgraded_to: int | None = None
        self._in_history: set[tuple[int, int, int]] = set()
        self._listed: tuple[TableName, ...] = ()
        self._keeper = SlotKeeper(options)
        self._compared: list[Committed | None] = [None]

    def close(self) -> None:
        self._keeper.close()
        super().close()

    def _opened(self, request: PollRequest) -> Connection:
        slot = own_slot_name(self._options, request.state) or slot_name_of(self._options)
        return connect(self._options, purpose=reading_purpose(slot))

    def _greet(self, connection: Connection, request: PollRequest) -> None:
        self._compared = [None]
        self._is_first_poll = True  # of a server that may be another one by now
        checked(self._options, "locking the slot", lambda: self._claim(connection, request.state))

    def _polled(self, connection: Connection, request: PollRequest) -> PollResult:
        return checked(self._options, "polling the server", lambda: self._found(connection, request))

    def _claim(self, connection: Connection, state: PostgresState | None) -> None:
        slot = own_slot_name(self._options, state)
        if slot is not None and self._run.reads_log:
            claim_slot(connection, slot, query_of(self._options, made=self._query))
            self._keeper.keep(connection, slot)

    def _found(self, connection: Connection, request: PollRequest) -> PollResult:
        known_state, setup = request.state, None
        tables: tuple[CatalogTable, ...] = ()
        if self._is_first_poll:
            tables = self._tables(connection)
            if known_state is None:
                setup = self._set_up(connection, tables)
            else:
                self._check(connection, known_state, tables, request.known)
        elif known_state is not None and self._is_listing_due:
            tables = self._tables(connection)
            self._publish_tables(connection, known_state, tables, request.known)
        if tables:
            self._has_listed()
        known = {table.oid for table in request.known}
        new = [table for table in tables if self._run.reads_tables and table.table.oid not in known]
        seen = self._observed(connection, request, has_new=bool(new))
        state = known_state or setup
        if state is not None and seen[-1].end != self._checked_to:
            # After the end of the log was observed: what is read up to there was published as before.
            self._check_publication(connection, state.publication, (*request.known, *self._listed))
            self._checked_to = seen[-1].end
        cuts = self._cuts(connection, request, tables, new)
        position, changes = request.position, None
        slot: server.Slot | None = None
        timeline: Timeline | None = None
        if state is not None and state.slot is not None and state.publication is not None:
            slot = self._slot(connection, state)
            timeline = timeline_of(connection)
            self._check_timelines(state, timeline, position or 0)
            chunks_to = state.chunks_to.get(str(timeline.number), 0)
            server.check_end(seen[-1].end, position=max(state.start, chunks_to, position or 0))
            self._move_forward(connection, slot, state, request.needed_from)
            if position is not None and slot.confirmed > position:
                changes = True  # reading the window shows whether changes are lost
            elif position is not None and (self._run.is_bounded or time.monotonic() >= self._peek_after):
                began = time.monotonic()  # pauses are needed, because each peek decodes the log again
                changes = server.has_changes(
                    connection, slot, state.publication, position=position, end=seen[-1].end
                )
                self._peek_after = time.monotonic() + PAUSE_PER_PEEK * (time.monotonic() - began)
        waits = self._waits(connection, seen[-1], seen[0].horizon or request.pending)
        self._is_first_poll = False
        return PollResult(
            seen=seen,
            setup=setup,
            tables=tables,
            cuts=cuts,
            has_changes=changes,
            position=position,
            slot=slot,
            timeline=timeline,
            published=self._published,
            upgraded_to=self._upgraded_to,
            waits=waits,
        )

    def _tables(self, connection: Connection) -> tuple[CatalogTable, ...]:
        patterns = self._options.require(opts.TABLES, why="the postgres source reads tables")
        tables = find_tables(connection, patterns)
        if self._run.reads_once:
            return tuple(table if table.key else replace(table, key=(CTID,)) for table in tables)
        refused = next((table for table in tables if table.refused and self._run.reads_log), None)
        if refused is not None and refused.refused is not None:
            what, remedy = refused.refused
            raise DiscoveryError(f"table {refused.table} {what}", remedy=remedy)
        return tuple(tables)

    def _set_up(self, connection: Connection, tables: Sequence[CatalogTable]) -> PostgresState:
        """Create what is missing on the server; a repeated call finds what was created."""
        system = server.check_server(connection, reads_log=self._run.reads_log)
        self._check_failover(connection)
        if self._run.reads_once:
            exported, lsn = export_snapshot(self._options, [table.table for table in tables])
            return PostgresState(
                system=system,
                slot=None,
                publication=None,
                start=lsn,
                assigner=AssignerState(settled=Horizon(lsn=lsn, xid=0)),
                exported=exported,
            )
        if not self._run.reads_log:
            return PostgresState(
                system=system, slot=None, publication=None, start=0, assigner=AssignerState()
            )
        slot = slot_name_of(self._options)
        publication = self._options[opts.PUBLICATION] or slot
        check_scope(connection, publication, tables, is_first=True)
        listed = self._listed = tuple(table.table for table in tables)
        ensure_publication(connection, publication, listed)
        # A set-up that failed may have seen another server, and no row of it was read.
        self._published = None
        self._check_publication(connection, publication, listed)
        existing = self._complete_slot(connection, slot)
        if existing is None:
            _tell_of_open(connection, f"creating slot {slot}")
            start = server.create_slot(connection, slot, is_failover=self._options[opts.SLOT_FAILOVER])
        else:
            server.check_own_slot(existing, database=connection.info.dbname)
            start = self._advanced(connection, existing, publication)
        start = self._start(connection, start)
        return PostgresState(
            system=system,
            slot=slot,
            publication=publication,
            start=start,
            assigner=AssignerState(),
            query=self._query,
            published=self._published,
        )

    def _advanced(self, connection: Connection, slot: server.Slot, publication: str) -> int:
        """Where the log of an existing slot begins, after changes that are older than the publication.

        They are needed only without a snapshot. A slot without such changes stays where it is: if this driver
        was suspended, its successor reads the slot.
        """
        if self._options[opts.SNAPSHOT] == "never" and self._options[opts.STARTING_LSN] != "latest":
            return slot.confirmed
        # What open transactions have written before is sent when they commit.
        seen = server.observe(connection, makes_horizon=True)
        end = self._settled(connection, seen, seen.horizon, before=f"reading slot {slot.name}")[-1].end
        timeout_s = self._options[opts.SLOT_TIMEOUT]
        if not server.precedes_publication(connection, slot, publication, end=end, timeout_s=timeout_s):
            return slot.confirmed
        server.advance_slot(connection, slot.name, end, timeout_s=timeout_s)
        return max(slot.confirmed, end)

    def _complete_slot(self, connection: Connection, name: str) -> server.Slot | None:
        """The slot, if there is one; waits while the server still creates it.

        An earlier start may have ended meanwhile: its session goes on, and the slot has no position yet.
        """
        is_first = True
        while (slot := server.slot_of(connection, name)) is not None and slot.is_incomplete:
            if is_first:
                first = oldest_open(connection)
                LOG.info(
                    "the server still creates slot %s%s",
                    name,
                    f", and waits for {first.text}" if first else "",
                )
            is_first = False
            time.sleep(_SETTLE_POLL_S)
        return slot

    def _check_failover(self, connection: Connection) -> None:
        if self._run.reads_log and self._options[opts.SLOT_FAILOVER]:
            server.check_failover(server.major_version(connection))

    def _start(self, connection: Connection, earliest: int) -> int:
        """Where reading the log begins."""
        if self._options[opts.SNAPSHOT] != "never":
            return earliest
        given = self._options[opts.STARTING_LSN]
        if given == "earliest":
            return earliest
        if given == "latest":
            return max(earliest, server.observe(connection, makes_horizon=False).end)
        lsn = int(given)
        end = server.observe(connection, makes_horizon=False).end
        later = "name a slot that begins earlier with slotName"
        check_start(opts.STARTING_LSN, lsn, first=earliest, end=end, text=lsn_text, later=later)
        return lsn

    def _check(
        self,
        connection: Connection,
        state: PostgresState,
        tables: Sequence[CatalogTable],
        known: Sequence[TableName],
    ) -> None:
        """Check that the server still has what the state depends on, and add missing tables."""
        system = server.check_server(connection, reads_log=state.slot is not None)
        self._check_failover(connection)
        if state.slot is None or state.publication is None:
            return
        make_own_slot(connection, self._options, state, report_data_loss=self._report_data_loss)
        slot = self._slot(connection, state, system=system)
        self._published = state.published if system == state.system else None
        begun = state.assigner.settled.xid if state.assigner.settled else 0
        if system != state.system and is_upgraded(connection, [table.oid for table in known], begun):
            LOG.info("the server was upgraded; slot %s begins at %s", slot.name, lsn_text(slot.confirmed))
            self._upgraded_to = slot.confirmed
        check_scope(connection, state.publication, tables, is_first=False)
        self._publish_tables(connection, state, tables, known)

    def _slot(
        self, connection: Connection, state: PostgresState, *, system: str | None = None
    ) -> server.Slot:
        """The slot of the query, after a check that the server still has it.

        Raises:
            DataLossError: it is gone or lost. No option disables this check: the query would wait for ever.
        """
        name = own_slot_name(self._options, state)
        assert name is not None
        is_other = system is not None and system != state.system
        slot = server.existing_slot(connection, name, needed_from=state.start, is_other_server=is_other)
        is_polled = self._is_first_poll and system is None
        if is_polled and self._options[opts.SLOT_FAILOVER] and not slot.is_failover:
            LOG.warning(
                "option slotFailover is true, and slot %s was created without failover: standbys do not "
                "have it; to change that: %s",
                slot.name,
                server.alter_failover(slot.name),
            )
        # Whether it has moved too far is checked when a window is read: its batch may be complete already.
        server.check_own_slot(slot, database=connection.info.dbname)
        return slot

    def _move_forward(
        self, connection: Connection, slot: server.Slot, state: PostgresState, needed_from: int
    ) -> None:
        """Check that the slot has the log that was read; move it forward if batches need no more of it."""
        assert state.publication is not None
        last = state.last_change if self._upgraded_to is None else None
        if last is not None and last != self._compared[-1] and len(self._compared) <= _COMPARISONS:
            self._compared.append(last)
            other = other_log(connection, slot, state.publication, read_to=state.start, last=last)
            if other is not None:
                self._report_data_loss(other, remedy=START_AGAIN)
        if slot.confirmed < needed_from:
            # A server that was killed has the slot where it was at the last checkpoint, which may be before
            # the publication: the server may then refuse to decode the log.
            server.advance_if_unused(connection, slot.name, needed_from)

    def _publish_tables(
        self,
        connection: Connection,
        state: PostgresState,
        tables: Sequence[CatalogTable],
        known: Sequence[TableName],
    ) -> None:
        """Add missing tables to the publication, and report changes that the log does not have."""
        self._listed = tuple(table.table for table in tables)
        if state.publication is None:
            return
        for loss in recreated(known, self._listed):
            self._report_data_loss(loss, remedy=START_AGAIN)
        self._check_publication(connection, state.publication, known)
        added = ensure_publication(connection, state.publication, self._listed)
        if added and self._published is not None:
            unknown = {str(table.oid) for table in added}
            left = {name: mark for name, mark in self._published.marks.items() if name not in unknown}
            self._published = replace(self._published, marks=left)

    def _check_publication(
        self, connection: Connection, publication: str | None, tables: Sequence[TableName]
    ) -> None:
        """Report changes that the log may lack because the publication was altered since the last check."""
        if publication is None:
            return
        now = publication_marks(connection, publication, tables)
        before = self._published or (now and PublicationMarks(oid=now.oid))
        for loss in alterations(before, now, tables, publication=publication) if before else ():
            self._report_data_loss(loss, remedy=START_AGAIN)
        self._published = now

    def _check_timelines(self, state: PostgresState, present: Timeline, position: int) -> None:
        """Check that the server's history has everything that was read."""
        log_to = max(state.start, state.planned_to, position)
        # The report of a chunk may arrive after a poll of the next timeline.
        chunks = ((int(number), end) for number, end in state.chunks_to.items())
        for number, end in ((state.timeline, log_to), *chunks):
            read = (number, end, present.number)
            if number != present.number and read not in self._in_history:
                known = Timeline(system=state.system, number=number)
                check_timeline(self._options, known=known, present=present, position=end)
                self._in_history.add(read)

    def _waits(
        self, connection: Connection, seen: Observation, horizon: Horizon | None
    ) -> tuple[OpenTransaction, float] | None:
        """The transaction for which a horizon waits, and for how many seconds."""
        is_waiting = horizon is not None and seen.xmin <= horizon.xid
        oldest = oldest_open(connection) if is_waiting else None
        waited_s = self._held_back.note(oldest, time.monotonic())
        if oldest is None:
            return None
        if self._held_back.is_worth_a_warning(oldest, waited_s):
            LOG.warning("chunks wait for %s; to end it: %s", oldest.text, oldest.statement)
        return oldest, waited_s

    def _observed(
        self, connection: Connection, request: PollRequest, *, has_new: bool
    ) -> tuple[Observation, ...]:
        """Observe the server: once, or in a bounded run that reads chunks until their horizon has settled."""
        if request.pending is not None:
            server.reach_id(connection, request.pending.xid)
        makes_horizon = request.makes_horizon or (has_new and not self._run.reads_once)
        seen = server.observe(connection, makes_horizon=makes_horizon)
        return (
            self._settled(connection, seen, seen.horizon or request.pending)
            if self._run.is_bounded
            else (seen,)
        )

    def _settled(
        self, connection: Connection, first: Observation, horizon: Horizon | None, *, before: str = ""
    ) -> tuple[Observation, ...]:
        """This observation, and one after every transaction has ended that was open at the horizon.

        Args:
            before: what waits for them, if this is to be logged.
        """
        seen = [first]
        if before and horizon is not None and first.xmin <= horizon.xid:
            _tell_of_open(connection, before)
        while horizon is not None and seen[-1].xmin <= horizon.xid:
            self._waits(connection, seen[-1], horizon)
            time.sleep(_SETTLE_POLL_S)
            seen[1:] = [server.observe(connection, makes_horizon=False)]
        return tuple(seen)

    def _cuts(
        self,
        connection: Connection,
        request: PollRequest,
        tables: Sequence[CatalogTable],
        new: Sequence[CatalogTable],
    ) -> tuple[Cut, ...]:
        """The next bounds of the tables: all in a bounded run, otherwise those that are found quickly."""
        wanted = is_wanted(tables, self._options[opts.TABLES]) if tables else lambda _: True
        old = (uncut for uncut in request.cut if wanted(uncut[0]))
        uncut = (*old, *((table.table, table.key, None) for table in new if table.key))
        return tuple(
            cuts(
                connection,
                uncut,
                rows=self._options[opts.SNAPSHOT_CHUNK_ROWS],
                filter_sql=self._options[opts.SNAPSHOT_WHERE],
                has_time=self._time_to_cut(),
            )
        )


def _tell_of_open(connection: Connection, doing: str) -> None:
    """Log the oldest open transaction, if there is one."""
    first = oldest_open(connection)
    if first is not None:
        LOG.info("%s waits for open transactions; the oldest is %s", doing, first.text)
