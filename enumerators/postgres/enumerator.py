"""The postgres enumerator: makes slot and publication, watches the log, and hands out chunks and windows.

What lives here: when the server is asked, on a thread, and what becomes of the answers. Decisions are in
:mod:`.assigner`, statements in :mod:`.server`, :mod:`.catalog` and :mod:`.chunks`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from flip27_source.enumerator import (
    UNKNOWN_BACKLOG,
    Backlog,
    Boundedness,
    BoundedRange,
    Budget,
    PerformsActions,
    RetryPolicy,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres import server
from flip27_source.enumerators.postgres.assigner import (
    Assigner,
    AssignerState,
    Horizon,
    Key,
    Observation,
)
from flip27_source.enumerators.postgres.catalog import CatalogTable, find_tables, table_of
from flip27_source.enumerators.postgres.check import findings
from flip27_source.enumerators.postgres.chunks import next_bound
from flip27_source.enumerators.postgres.connection import checked, connect
from flip27_source.enumerators.postgres.exported_snapshot import export_snapshot
from flip27_source.enumerators.postgres.log_lag import LogClock, LogLag, chunks_left, waiting_rows
from flip27_source.enumerators.postgres.publication_scope import check_scope
from flip27_source.enumerators.postgres.schema import change_schema
from flip27_source.enumerators.postgres.slot_claim import claim_slot, query_of
from flip27_source.enumerators.postgres.slot_name import reading_purpose, slot_name_of
from flip27_source.enumerators.postgres.split import (
    LOG_SPLIT_ID,
    ChunkRead,
    KeyColumn,
    LogRead,
    LogWindow,
    PostgresSplit,
    TableName,
    lsn_text,
)
from flip27_source.enumerators.postgres.table_losses import table_losses
from flip27_source.enumerators.postgres.table_patterns import matched
from flip27_source.errors import DataLossError, DiscoveryError
from flip27_source.options import Options
from flip27_source.schemas.inference import FindsSchema
from flip27_source.source_checks import ChecksSource, Finding
from flip27_source.split import SplitSize

if TYPE_CHECKING:
    import pyarrow as pa

    from flip27_source.enumerators.postgres.connection import Connection

CHUNKS_PER_SUBTASK = 8
"""Chunks of one batch for each subtask: a batch is what a restart repeats."""

MOST_WINDOW_BYTES = 256 * 1024 * 1024
"""Longest window of the log where no limit is set."""

PAUSE_PER_PEEK = 4.0
"""Pause between two peeks for changes, as a multiple of what the first of them took."""

LISTING_S = 10.0
"""Pause between two looks for tables that are new."""

_CUT_S = 2.0
_SETTLE_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresState:
    """The state of the enumerator.

    Attributes:
        system: the system identifier of the server.
        slot: None with ``snapshot=only``, which reads no log.
        start: position up to which the log was read in complete batches.
        log_assigned: whether the log was handed out: its position is in its split.
        returned: chunks that were added back.
        chunks_read: the number of chunks that were read since the first start.
        committed_at: when the last change that was read was committed, in microseconds since 1970 UTC.
        exported: the exported snapshot of a batch read.
        query: an id of this query, made at its first start.
    """

    system: str
    slot: str | None
    publication: str | None
    start: int
    assigner: AssignerState
    log_assigned: bool = False
    returned: tuple[PostgresSplit, ...] = ()
    chunks_read: int = 0
    committed_at: int | None = None
    exported: str | None = None
    query: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceSlot:
    """The action that gives up the log that was read."""

    slot: str
    lsn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What the next look at the server is to find out; a value, because another thread reads it.

    Attributes:
        position: the log is planned up to here.
        cut: tables of which bounds are missing, each with its last bound.
        pending: the horizon that is to settle.
        known: the tables that were read before.
    """

    position: int | None = None
    makes_horizon: bool = False
    pending: Horizon | None = None
    cut: tuple[tuple[TableName, tuple[KeyColumn, ...], Key | None], ...] = ()
    known: tuple[TableName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """Bounds of a table that were found."""

    oid: int
    bounds: tuple[tuple[Key, int], ...]
    is_end: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What a look at the server found out.

    Attributes:
        setup: at the first look of the first start, what was made.
        tables: at the first look of a run, the tables of the option.
        has_changes: whether the log has changes behind the wanted position; None if that is not known.
        slot: the slot, once the enumerator knows of it.
    """

    seen: tuple[Observation, ...]
    setup: PostgresState | None = None
    tables: tuple[CatalogTable, ...] = ()
    cuts: tuple[_Cut, ...] = ()
    has_changes: bool | None = None
    position: int | None = None
    slot: server.Slot | None = None


class PostgresEnumerator(
    PerformsActions[AdvanceSlot], FindsSchema, ChecksSource, SplitEnumerator[PostgresSplit]
):
    """Hands out the chunks of the tables, and the log as one split without an end."""

    options: ClassVar = opts.POSTGRES_OPTIONS
    default_reader: ClassVar[str | None] = "postgres"
    repeatable: ClassVar[bool] = False

    def __init__(
        self,
        context: SplitEnumeratorContext[PostgresSplit],
        options: Options,
        state: PostgresState | None = None,
    ) -> None:
        super().__init__(context, options, state)
        self._state = state
        self._is_stored = state is not None
        self._returned = [] if state is None else list(state.returned)
        self._log_assigned = state is not None and state.log_assigned
        self._assigner = None if state is None else self._assigner_of(state)
        self._has_changes: tuple[int, bool] | None = None
        self._clock = LogClock(None if state is None else state.committed_at)
        self._planned_to: int | None = None
        self._wanted = _Wanted()
        # Used by the thread of ``_look`` alone.
        self._connection: Connection | None = None
        self._first_look = True
        self._query = (state.query if state is not None else "") or uuid.uuid4().hex
        self._peek_after = 0.0
        self._list_after = 0.0

    @classmethod
    def find_schema(cls, options: Options) -> pa.Schema:
        """The columns of the tables, and those of the change."""
        with connect(options, purpose="schema") as connection:
            return checked(options, "asking for the columns", lambda: change_schema(connection, options))

    @classmethod
    def check_source(cls, options: Options) -> Iterator[Finding]:
        """What ``flip27 check`` says about the server."""
        return findings(options)

    def start(self) -> None:
        """Look at the server at once, and then again and again."""
        self._wanted = self._next_wanted()
        self.context.call_async(
            self._look,
            self._looked,
            period_s=None if self._is_bounded else self.options_given[opts.DISCOVERY_INTERVAL],
            retry=RetryPolicy(retries=self.options_given[opts.DISCOVERY_RETRIES], longest_pause_s=15.0),
        )

    def handle_split_request(self, subtask_id: int) -> None:
        """Assign the log once, and chunks as long as there is room."""
        if self._assigner is None or self._state is None:
            return
        if not self._log_assigned and self._state.slot is not None and not self.context.reads_once:
            self._log_assigned = True
            self.context.assign_split(
                PostgresSplit(split_id=LOG_SPLIT_ID, log=LogWindow(first=self._state.start))
            )
            return
        split = self._returned.pop(0) if self._returned else self._assigner.next_chunk()
        if split is not None:
            self.context.assign_split(self._in_snapshot(split))

    def _in_snapshot(self, split: PostgresSplit) -> PostgresSplit:
        """The chunk in the exported snapshot, if this is a batch read."""
        if split.chunk is None or self._state is None or self._state.exported is None:
            return split
        return replace(split, chunk=replace(split.chunk, exported=self._state.exported))

    def add_splits_back(self, splits: Sequence[PostgresSplit], subtask_id: int) -> None:
        """Keep the splits for the next request."""
        for split in splits:
            if split.log is not None and self._state is not None:
                self._log_assigned = False
                self._state = replace(self._state, start=split.log.first)
            else:
                self._returned.append(split)

    def bound_split(self, split: PostgresSplit, budget: Budget) -> BoundedRange[PostgresSplit] | None:
        """A chunk as a whole; the log up to the end of its next window."""
        if split.log is None:
            fits = budget.rows is None or split.rows is None or split.rows <= budget.rows
            return BoundedRange(read=split, rest=None) if fits else None
        first = split.log.first
        if self._assigner is None:
            return None
        self._assigner.reads_up_to(first)
        if first != self._wanted.position:
            self._wanted = self._next_wanted()
        window = self._assigner.window(first, budget.bytes or MOST_WINDOW_BYTES)
        if window is None or window.end is None or not self._is_due(window):
            return None
        lag = self._lag(window.end)
        rest = replace(split, log=LogWindow(first=window.end), lag_bytes=lag.bytes, lag_s=lag.seconds)
        assert self._state is not None
        window = replace(window, slot=self._state.slot or "", publication=self._state.publication or "")
        return BoundedRange(read=replace(split, log=window, lag_bytes=None, lag_s=None), rest=rest)

    def backlog(self, live: Sequence[PostgresSplit]) -> Backlog:
        """The rows of the chunks that wait, and the bytes of the log.

        Rows of the log and bytes of chunks are not known, and not counted; rows are unknown if only the log
        waits.
        """
        if self._assigner is None or self._state is None:
            return UNKNOWN_BACKLOG
        rows = waiting_rows(self._assigner.tables, chunk_rows=self._chunk_rows)
        rows += [
            split.rows or (self._chunk_rows if split.chunk.key else None)
            for split in (*self._returned, *live)
            if split.chunk is not None
        ]
        chunks = Backlog.of(SplitSize(files=0, rows=count) for count in rows)
        if self._state.slot is None:
            return chunks
        logs = [split.log.first for split in live if split.log is not None]
        self._planned_to = logs[0] if logs else self._state.start
        self._publish()
        lag = self._lag(self._planned_to)
        if lag.seconds == 0:
            return chunks if rows else Backlog()
        return replace(
            chunks,
            splits=chunks.splits + 1,
            rows=chunks.rows if rows else None,
            bytes=lag.bytes,
            oldest_event_time=lag.since,
        )

    def handle_source_event(self, subtask_id: int, event: ChunkRead | LogRead) -> None:
        """A chunk or a window was read, and its batch is complete."""
        assert self._assigner is not None
        assert self._state is not None
        if isinstance(event, ChunkRead):
            self._assigner.chunk_read(event)
            self._state = replace(self._state, chunks_read=self._state.chunks_read + 1)
            return
        self._assigner.log_read(event)
        self._clock.read(event.committed_at)
        committed_at = self._state.committed_at if event.committed_at is None else event.committed_at
        self._state = replace(self._state, start=event.end, committed_at=committed_at)
        if event.rows:
            # Where there were changes there are more, most likely: found out by reading, not by another peek.
            self._has_changes = (event.end, True)
        if self._state.slot is not None:
            self.context.perform_after_completion(AdvanceSlot(slot=self._state.slot, lsn=event.end))

    def perform(self, action: AdvanceSlot) -> None:
        """Let the server remove the log that was read."""
        with connect(self.options_given, purpose="advance") as connection:
            checked(
                self.options_given,
                f"advancing slot {action.slot}",
                lambda: server.advance_slot(
                    connection, action.slot, action.lsn, timeout_s=self.options_given[opts.SLOT_TIMEOUT]
                ),
            )

    def wants_checkpoint(self) -> bool:
        """The slot's name and the start of the log must be stored before the log moves on."""
        return self._state is not None and not self._is_stored

    def snapshot_state(self, checkpoint_id: int) -> PostgresState | None:
        """Slot, tables, and the chunks that are not read."""
        if self._state is None or self._assigner is None:
            return None
        self._is_stored = True
        self._wanted = self._next_wanted()
        self._state = replace(
            self._state,
            assigner=self._assigner.state(),
            log_assigned=self._log_assigned,
            returned=tuple(self._returned),
        )
        return self._state

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()

    # On a thread.

    def _look(self) -> _Look:
        """Ask the server; a connection that is lost is made again by the next call."""
        try:
            connection = self._connection
            if connection is None or connection.closed:
                connection = self._connection = connect(
                    self.options_given, purpose=reading_purpose(slot_name_of(self.options_given))
                )
                checked(self.options_given, "locking the slot", lambda: self._claim(connection))
            return checked(self.options_given, "looking at the log", lambda: self._asked(connection))
        except BaseException:
            if self._connection is not None:
                self._connection.close()
            raise

    def _claim(self, connection: Connection) -> None:
        slot = slot_name_of(self.options_given) if self._state is None else self._state.slot
        if slot is not None and self._reads_log:
            claim_slot(connection, slot, query_of(self.options_given, made=self._query))

    def _asked(self, connection: Connection) -> _Look:
        wanted, setup = self._wanted, None
        tables: tuple[CatalogTable, ...] = ()
        if self._first_look:
            tables = self._tables(connection)
            if self._state is None:
                setup = self._set_up(connection, tables)
            else:
                self._check(connection, self._state, tables)
        elif self._state is not None and time.monotonic() >= self._list_after:
            tables = self._tables(connection)
            if self._state.publication is not None:
                self._publish_tables(connection, self._state.publication, tables, wanted.known)
        if tables:
            self._list_after = time.monotonic() + LISTING_S
        known = {table.oid for table in wanted.known}
        new = [found for found in tables if self._reads_tables and found.table.oid not in known]
        seen = self._observed(connection, wanted, has_new=bool(new))
        cuts = self._cuts(connection, wanted, new)
        position, changes = wanted.position, None
        slot: server.Slot | None = None
        state = self._state or setup
        if state is not None and state.slot is not None and state.publication is not None:
            slot = self._slot(connection, state)
            server.check_end(seen[-1].end, position=max(state.start, wanted.position or 0))
            if position is not None and self._may_peek():
                began = time.monotonic()
                changes = server.has_changes(
                    connection, slot, state.publication, position=position, end=seen[-1].end
                )
                self._peek_after = time.monotonic() + PAUSE_PER_PEEK * (time.monotonic() - began)
        self._first_look = False
        return _Look(
            seen=seen,
            setup=setup,
            tables=tables,
            cuts=cuts,
            has_changes=changes,
            position=position,
            slot=slot,
        )

    def _may_peek(self) -> bool:
        """Whether to look for changes now: the server decodes its log anew each time."""
        return self._is_bounded or time.monotonic() >= self._peek_after

    def _tables(self, connection: Connection) -> tuple[CatalogTable, ...]:
        patterns = self.options_given.require(opts.TABLES, why="the postgres source reads tables")
        found = tuple(find_tables(connection, patterns))
        if not found:
            raise DiscoveryError(
                f"option tables has {', '.join(pattern.text for pattern in patterns)}, and the database has "
                "no "
                "such table",
                remedy="correct the pattern, or grant the role USAGE on the schema",
            )
        return found

    def _set_up(self, connection: Connection, tables: Sequence[CatalogTable]) -> PostgresState:
        """Make what is missing on the server; repeated, it finds what it made."""
        system = server.check_server(connection, reads_log=self._reads_log)
        if self.context.reads_once:
            exported = export_snapshot(self.options_given, [found.table for found in tables])
            return PostgresState(
                system=system,
                slot=None,
                publication=None,
                start=exported.lsn,
                assigner=AssignerState(settled=Horizon(lsn=exported.lsn, xid=0)),
                exported=exported.name,
            )
        if not self._reads_log:
            return PostgresState(
                system=system, slot=None, publication=None, start=0, assigner=AssignerState()
            )
        slot = slot_name_of(self.options_given)
        publication = self.options_given[opts.PUBLICATION] or slot
        listed = [found.table for found in tables]
        check_scope(connection, publication, listed)
        server.ensure_publication(connection, publication, listed)
        existing = server.slot_of(connection, slot)
        if existing is None:
            start = server.create_slot(connection, slot)
        else:
            server.check_slot(existing, database=connection.info.dbname, position=None)
            start = existing.confirmed
        start = self._start(connection, start)
        return PostgresState(
            system=system,
            slot=slot,
            publication=publication,
            start=start,
            assigner=AssignerState(),
            query=self._query,
        )

    def _start(self, connection: Connection, earliest: int) -> int:
        """Where the log begins."""
        if self.options_given[opts.SNAPSHOT] != "never":
            return earliest
        wanted = self.options_given[opts.STARTING_LSN]
        if wanted == "earliest":
            return earliest
        if wanted == "latest":
            return max(earliest, server.observe(connection, makes_horizon=False).end)
        lsn = int(wanted)
        if lsn < earliest:
            raise DataLossError(
                f"option startingLsn is {lsn_text(lsn)}, and the slot begins at {lsn_text(earliest)}",
                remedy="set startingLsn=earliest, or name a slot that begins earlier with slotName",
            )
        end = server.observe(connection, makes_horizon=False).end
        if lsn > end:
            raise DiscoveryError(
                f"option startingLsn is {lsn_text(lsn)}, and the log ends at {lsn_text(end)}",
                remedy="set startingLsn=latest, or a position that the log has reached",
            )
        return lsn

    def _check(self, connection: Connection, state: PostgresState, tables: Sequence[CatalogTable]) -> None:
        """Check that the server still has what the state rests on."""
        system = server.check_server(connection, reads_log=state.slot is not None)
        if state.slot is None or state.publication is None:
            return
        self._slot(connection, state, system=system)
        known = (*state.assigner.known, *(progress.table for progress in state.assigner.tables))
        check_scope(connection, state.publication, [found.table for found in tables])
        self._publish_tables(connection, state.publication, tables, known)

    def _slot(
        self, connection: Connection, state: PostgresState, *, system: str | None = None
    ) -> server.Slot:
        """The slot, which the server still has.

        Raises:
            DataLossError: it is gone or lost. No option leaves this out: the query would wait for ever.
        """
        assert state.slot is not None
        slot = server.slot_of(connection, state.slot)
        if slot is None:
            moved = system is not None and system != state.system
            raise DataLossError(
                f"the slot {state.slot} is gone"
                + (": this is another server than the one that was read" if moved else "")
                + f"; changes from {lsn_text(state.start)} on cannot be read",
                remedy="after a failover, make the slot on the new server from a copy of the old one if "
                "there is "
                "one (failover slots of PostgreSQL 17); else start with a new stateLocation, whose snapshot "
                "has "
                "all rows",
            )
        # Whether it has moved too far is asked where a window is read: its batch may be complete already.
        server.check_slot(slot, database=connection.info.dbname, position=None)
        return slot

    def _publish_tables(
        self,
        connection: Connection,
        publication: str,
        tables: Sequence[CatalogTable],
        known: Sequence[TableName],
    ) -> None:
        """Let the publication have all tables, and report what the log does not have."""
        published = server.published_tables(connection, publication)
        listed = [found.table for found in tables]
        # Where the whole publication was missing, the log says so itself.
        losses = [] if published is None else table_losses(known, listed, published, publication=publication)
        for loss in losses:
            self.context.report_data_loss(loss.what, remedy=loss.remedy)
        server.ensure_publication(connection, publication, listed)

    def _observed(self, connection: Connection, wanted: _Wanted, *, has_new: bool) -> tuple[Observation, ...]:
        """One observation; in a bounded run that reads chunks, more until their horizon has settled."""
        makes_horizon = wanted.makes_horizon or (has_new and not self.context.reads_once)
        seen = [server.observe(connection, makes_horizon=makes_horizon)]
        horizon = seen[0].horizon or wanted.pending
        while self._is_bounded and horizon is not None and seen[-1].xmin <= horizon.xid:
            time.sleep(_SETTLE_POLL_S)
            seen[1:] = [server.observe(connection, makes_horizon=False)]
        return tuple(seen)

    def _cuts(self, connection: Connection, wanted: _Wanted, new: Sequence[CatalogTable]) -> tuple[_Cut, ...]:
        """The next bounds of the tables: all of them in a bounded run, else for a moment."""
        uncut = (*wanted.cut, *((found.table, found.key, None) for found in new if found.key))
        deadline = time.monotonic() + _CUT_S
        found = []
        for table, key, lower in uncut:
            bounds: list[tuple[Key, int]] = []
            bound = lower
            present = table_of(connection, table.oid)
            while present is not None and (self._is_bounded or time.monotonic() < deadline):
                bound = next_bound(
                    connection,
                    present,
                    key,
                    bound,
                    rows=self._chunk_rows,
                    filter_sql=self.options_given[opts.SNAPSHOT_WHERE],
                )
                if bound is None:
                    break
                bounds.append((bound, self._chunk_rows))
            found.append(_Cut(oid=table.oid, bounds=tuple(bounds), is_end=present is None or bound is None))
        return tuple(found)

    # On the coordinator.

    def _looked(self, look: _Look | None, error: BaseException | None) -> None:
        if error is not None or look is None:
            assert error is not None
            raise error
        if look.setup is not None:
            self._state = look.setup
            self._assigner = self._assigner_of(look.setup)
        assert self._assigner is not None
        self._take_tables(self._assigner, look)
        if self._is_bounded:
            self._assigner.end_at(look.seen[-1].end)
        for seen in look.seen:
            self._assigner.observe(seen)
        for cut in look.cuts:
            self._assigner.cut(cut.oid, cut.bounds, is_end=cut.is_end, rows_at_end=None)
        if look.position is not None and look.has_changes is not None:
            self._has_changes = (look.position, look.has_changes)
        if look.slot is not None:
            self._clock.seen(look.seen[-1].end, look.slot.asked_at)
            self.context.metrics.gauge("slotKeptBytes", look.slot.kept_bytes)
        self._publish()
        self._wanted = self._next_wanted()

    def _take_tables(self, assigner: Assigner, look: _Look) -> None:
        """The tables of the option from now on, if the look has asked for them."""
        if not look.tables:
            return
        listed = {found.table.oid for found in look.tables}
        patterns = self.options_given[opts.TABLES] or ()
        # By name too: what the log has of a table that was dropped is read.
        assigner.keep(lambda table: table.oid in listed or matched(patterns, table.schema, table.name))
        is_new = False
        for found in look.tables:
            if not self._reads_tables:
                assigner.add_known(found.table)
            else:
                is_new |= assigner.add_table(found.table, found.key)
        if is_new and look.setup is None:
            assigner.renew_horizon()

    def _next_wanted(self) -> _Wanted:
        assigner = self._assigner
        if assigner is None:
            return _Wanted()
        return _Wanted(
            position=assigner.position,
            makes_horizon=assigner.wants_horizon,
            pending=assigner.pending,
            cut=tuple(
                (progress.table, progress.key, progress.bounds[-1] if progress.bounds else None)
                for progress in assigner.uncut
            ),
            known=assigner.known,
        )

    def _lag(self, position: int) -> LogLag:
        """How far a position is behind the log, as far as it is known."""
        assert self._assigner is not None
        has_changes = self._has_changes != (position, False)
        return self._clock.lag(position, self._assigner.end, has_changes=has_changes)

    def _publish(self) -> None:
        """The numbers of progress events."""
        if self._assigner is None or self._state is None:
            return
        gauge = self.context.metrics.gauge
        gauge("chunksRead", self._state.chunks_read)
        gauge("chunksLeft", chunks_left(self._assigner.tables))
        if self._state.slot is not None:
            lag = self._lag(self._assigner.position if self._planned_to is None else self._planned_to)
            gauge("logLagBytes", lag.bytes)
            if lag.seconds is not None:
                gauge("logLagSeconds", lag.seconds)

    def _is_due(self, window: LogWindow) -> bool:
        """Whether the window has changes, or is long enough to let the slot move on without any."""
        assert window.end is not None
        assert self._assigner is not None
        if self._assigner.reads_chunks:
            return True  # chunks wait until the log is less far behind
        if window.end - window.first >= self.options_given[opts.HEARTBEAT_BYTES]:
            return True
        if self._has_changes is None or self._has_changes[0] != window.first:
            return self._is_bounded
        return self._has_changes[1]

    def _assigner_of(self, state: PostgresState) -> Assigner:
        return Assigner(
            state.assigner,
            start=state.start,
            most_chunks=self._most_chunks,
            # Without a slot no log is read, and chunks wait for none.
            most_lag_bytes=self.options_given[opts.MAX_LOG_LAG] if self._reads_log else 1 << 63,
            reads_tables=self._reads_tables,
        )

    @property
    def _reads_tables(self) -> bool:
        """Whether the rows of the tables are read, and not only their changes."""
        return self.context.reads_once or self.options_given[opts.SNAPSHOT] != "never"

    @property
    def _reads_log(self) -> bool:
        return not self.context.reads_once and self.options_given[opts.SNAPSHOT] != "only"

    @property
    def _most_chunks(self) -> int:
        if self.context.reads_once:
            return 1 << 31
        return CHUNKS_PER_SUBTASK * self.context.current_parallelism

    @property
    def _chunk_rows(self) -> int:
        return self.options_given[opts.SNAPSHOT_CHUNK_ROWS]

    @property
    def _is_bounded(self) -> bool:
        return self.context.boundedness is Boundedness.BOUNDED
