"""The postgres enumerator: assigns the chunks of the tables, and the log as one unbounded split.

What lives here: the code that runs on the coordinator's thread. :mod:`.poller` queries the server on another
thread; :mod:`.assigner` decides what is read.
"""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerator import Backlog, BoundedRange, SourceEnd
from flip27_source.enumerator_context import SplitEnumeratorContext
from flip27_source.enumerator_mixins import PerformsActions
from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres import server
from flip27_source.enumerators.postgres.assigner import Assigner, Horizon, TableProgress, chunk_split
from flip27_source.enumerators.postgres.catalog import is_wanted
from flip27_source.enumerators.postgres.connection import (
    START_AGAIN,
    Connection,
    checked,
    connect,
    imported,
    row_of,
)
from flip27_source.enumerators.postgres.log_lag import LogClock, LogLag
from flip27_source.enumerators.postgres.own_slot import own_slot_name
from flip27_source.enumerators.postgres.poller import PollRequest, PollResult, ServerPoller
from flip27_source.enumerators.postgres.schema import change_schema
from flip27_source.enumerators.postgres.set_back import other_log
from flip27_source.enumerators.postgres.split import (
    ChunkRead,
    LogRead,
    LogWindow,
    PostgresSplit,
    TableLeftOut,
    lsn_text,
)
from flip27_source.enumerators.postgres.state import AdvanceSlot, PostgresState
from flip27_source.enumerators.tables_with_log.enumerator import LOG_SPLIT_ID, TablesWithLogEnumerator
from flip27_source.errors import EditError
from flip27_source.event_time import moment_of
from flip27_source.leftovers import LeavesThings, Leftover
from flip27_source.options import Options
from flip27_source.source_checks import Finding
from flip27_source.source_progress import ProgressTable

ADVANCES_COMPARED = 2
"""For how many advances of the slot, after a start of the query or the server, the logs are compared."""


class PostgresEnumerator(
    PerformsActions[AdvanceSlot],
    LeavesThings,
    TablesWithLogEnumerator[PostgresSplit, PostgresState, Assigner],
):
    """Assigns the chunks of the tables, and the log as one unbounded split."""

    options: ClassVar = opts.POSTGRES_OPTIONS
    default_reader: ClassVar[str | None] = "postgres"
    position_names: ClassVar[Mapping[str, str]] = {"log.first": "lsn"}
    state_type: ClassVar[Any] = PostgresState | None
    leaves: ClassVar[Sequence[str]] = ("slot", "publication")
    without_gaps = (
        "the log is read without gaps, from where its slot begins; to read no changes, start a query with "
        "snapshot=only and a new stateLocation, and drop the slot of this one (flip27 postgres drop)"
    )
    to_replay = "replay these chunks, which also delivers such changes (flip27 edit replay)"

    def __init__(
        self,
        context: SplitEnumeratorContext[PostgresSplit],
        options: Options,
        state: PostgresState | None = None,
    ) -> None:
        super().__init__(context, options, state)
        # The last batch that is complete may be repeated until the next checkpoint is durable.
        self._needed_from = 0 if state is None else state.start
        self._has_changes: tuple[int, bool] | None = None
        self._clock = LogClock(None if state is None else state.committed_at)
        self._planned_to: int | None = None
        self._is_held_back = False
        self._advancing = threading.Lock()
        self._advances = 0
        self._server_started: str | None = None
        self._has_other_log = False
        self._poller = ServerPoller(
            options,
            self._run,
            query=(state.query if state is not None else "") or uuid.uuid4().hex,
            report_data_loss=context.report_data_loss,
        )

    @classmethod
    def find_schema(cls, options: Options) -> pa.Schema:
        with connect(options, purpose="schema") as connection:
            return checked(options, "querying the columns", lambda: change_schema(connection, options))

    @classmethod
    def check_before_start(cls, options: Options) -> None:
        """Check that psycopg is installed; the server may be down for a moment."""
        imported()

    @classmethod
    def check_source(cls, options: Options) -> Iterator[Finding]:
        from flip27_source.enumerators.postgres.check import findings

        return findings(options)

    @classmethod
    def leftovers(cls, options: Options, state: Any) -> Iterator[Leftover]:
        from flip27_source.enumerators.postgres.clean_up import leftovers_of

        return leftovers_of(options, state)

    @classmethod
    def kept_at_end(cls, state: PostgresState | None) -> str | None:
        if state is None or state.slot is None:
            return None
        return (
            f"slot {state.slot} makes the server keep its log, unless it was dropped: flip27 postgres drop "
            f"--slot {state.slot} removes it, and no rewind goes back to before that source's end then"
        )

    @classmethod
    def held_chunk(cls, state: PostgresState, progress: TableProgress, number: int) -> PostgresSplit:
        return chunk_split(progress, number, state.assigner.settled or Horizon(lsn=0, xid=0))

    @classmethod
    def check_rewind(
        cls, present: PostgresState | None, older: PostgresState | None, undone: Sequence[PostgresSplit]
    ) -> None:
        """Refuse to go back to a position before that of the slot, or to before chunks were read."""
        if present is None or present.slot is None:
            return
        needed = 0 if older is None else max(older.start, older.planned_to)
        if needed < present.start:
            raise EditError(
                f"slot {present.slot} begins at {lsn_text(present.start)}, and the older state has read up "
                f"to {lsn_text(needed)}: the server has discarded the log in between, because its batches "
                "are complete",
                remedy=f"replay chunks; or {START_AGAIN}",
            )
        super().check_rewind(present, older, undone)

    @classmethod
    def place_in_log(cls, position: int) -> str:
        return lsn_text(position)

    def look(self, live: Sequence[PostgresSplit]) -> Iterator[ProgressTable]:
        """What the server tells of its log and of the slot, which is only asked for, and not read."""
        from flip27_source.enumerators.postgres.look import looked_at

        yield looked_at(self.options_given, self._state, live, self.log_position)

    def _first_of_log(self, position: int) -> PostgresSplit:
        return PostgresSplit(split_id=LOG_SPLIT_ID, log=LogWindow(first=position))

    def _next_chunk(self) -> PostgresSplit | None:
        """The next chunk: in the exported snapshot, if this is a batch read."""
        assigner, state = self._at_work
        split, exported = assigner.next_chunk(), state.exported
        if split is None or split.chunk is None or exported is None:
            return split
        return replace(split, chunk=replace(split.chunk, exported=exported))

    def _planned(self, chunk: PostgresSplit) -> PostgresSplit:
        if self._assigner is None or chunk.chunk is None:
            return chunk
        return replace(chunk, chunk=replace(chunk.chunk, table=self._assigner.named(chunk.chunk.table)))

    def _next_window(self, split: PostgresSplit, most_bytes: int) -> BoundedRange[PostgresSplit] | None:
        assert split.log is not None
        assigner, state = self._at_work
        first = max(split.log.first, state.start)
        assigner.reads_up_to(first)
        window = assigner.window(first, most_bytes)
        if window is None or window.end is None or not self._is_due(window):
            return None
        lag = self._lag(window.end)
        rest = replace(split, log=LogWindow(first=window.end), lag_bytes=lag.bytes, lag_s=lag.seconds)
        self._state = state = replace(state, planned_to=window.end)
        after = state.last_change if first == state.start else None
        window = replace(
            window, slot=state.slot, publication=state.publication, system=state.system, after=after
        )
        return BoundedRange(read=replace(split, log=window, lag_bytes=None, lag_s=None), rest=rest)

    def _log_backlog(self, planned_to: int) -> Backlog:
        self._planned_to = planned_to
        self._publish()
        lag = self._lag(planned_to)
        if lag.seconds == 0:
            return Backlog()
        return Backlog(splits=1, rows=None, bytes=lag.bytes, oldest_event_time=lag.since)

    def handle_source_event(self, subtask_id: int, event: ChunkRead | LogRead | TableLeftOut) -> None:
        """Record that a chunk or a window was read, or left out; its batch is complete."""
        assert self._assigner is not None
        assert self._state is not None
        if isinstance(event, TableLeftOut):
            # The next poll may know it by another option already; its rows are then read again.
            self._assigner.keep(lambda table: table.oid != event.oid)
            return
        if isinstance(event, ChunkRead):
            if self._chunk_was_read(event.split_id, event.snapshot):
                number, chunks_to = str(event.timeline), self._state.chunks_to
                newest = max(event.end, chunks_to.get(number, 0))
                self._state = replace(self._state, chunks_to={**chunks_to, number: newest})
            return
        self._assigner.log_read(event)
        self._clock.read(event.committed_at)
        committed_at = self._state.committed_at if event.committed_at is None else event.committed_at
        self._needed_from = self._state.start
        # A report of an older release has only the time.
        last = event.last if event.committed_at is not None else self._state.last_change
        self._state = replace(self._state, start=event.end, committed_at=committed_at, last_change=last)
        if event.rows:
            # After changes, more changes are likely: reading the log finds them without another peek.
            self._has_changes = (event.end, True)
        self._poll_if_stopped()
        slot = own_slot_name(self.options_given, self._state)
        if slot is not None:
            self.context.perform_after_completion(AdvanceSlot(slot=slot, lsn=event.end, last=last))

    def switch_position(self, end: SourceEnd[PostgresSplit]) -> dt.datetime:
        """When the last change was committed; without changes, when the rows began to be read."""
        committed_at = None if self._state is None else self._state.committed_at
        return end.began if committed_at is None else moment_of(committed_at)

    def perform(self, action: AdvanceSlot) -> None:
        """Let the server remove the log that was read."""
        with connect(self.options_given, purpose="advance") as connection:
            if self._is_other_log(connection, action):
                return  # the poll, or the next window, reports it
            checked(
                self.options_given,
                f"advancing slot {action.slot}",
                lambda: server.advance_slot(
                    connection, action.slot, action.lsn, timeout_s=self.options_given[opts.SLOT_TIMEOUT]
                ),
            )

    def _is_other_log(self, connection: Connection, action: AdvanceSlot) -> bool:
        """Whether the server was set back, and has another log than the one that was read.

        It was shut down for that: the first actions after its start may be those of batches that were read
        before.
        """
        with self._advancing:
            (started,) = row_of(connection, "SELECT pg_postmaster_start_time()::text")
            if started != self._server_started:
                self._server_started, self._advances = started, 0
            publication = None if self._state is None else self._state.publication
            if self._advances < ADVANCES_COMPARED and publication is not None:
                self._advances += 1
                slot = server.slot_of(connection, action.slot)
                self._has_other_log |= slot is not None and bool(
                    other_log(connection, slot, publication, read_to=action.lsn, last=action.last)
                )
            return self._has_other_log

    def _take(self, result: PollResult) -> None:
        assert self._assigner is not None
        self._take_tables(self._assigner, result)
        if self._run.is_bounded:
            self._assigner.end_at(result.seen[-1].end)
        for seen in result.seen:
            self._assigner.observe(seen)
        if result.position is not None and result.has_changes is not None:
            self._has_changes = (result.position, result.has_changes)
        if result.slot is not None:
            self._reads_from(result.slot.name)
            self._clock.seen(result.seen[-1].end, result.slot.asked_at)
            self.context.metrics.gauge("slotKeptBytes", result.slot.kept_bytes)
            self.context.metrics.gauge_parts("slotKeptBytes", {result.slot.name: result.slot.kept_bytes})
        self._take_server(self._assigner, result)
        self._publish()
        self._publish_waits(result)
        self._is_polling = not self._run.is_bounded
        self._poll_if_stopped()

    def _take_server(self, assigner: Assigner, result: PollResult) -> None:
        """Store what the server and its publication were at this poll."""
        state = self._state
        assert state is not None
        if result.timeline is not None:
            chunks_to = state.chunks_to if result.timeline.system == state.system else {}
            state = replace(
                state, system=result.timeline.system, timeline=result.timeline.number, chunks_to=chunks_to
            )
        if result.upgraded_to is not None:
            # The slot has sent everything before; the positions of the former server do not apply.
            state = replace(state, start=max(state.start, result.upgraded_to), last_change=None)
            assigner.reads_up_to(state.start)
        if result.published is not None:
            # If it was altered, a loss that was reported must be recorded; and if the query has created it
            # again, its next start must not take that for a loss.
            self._is_stored &= state.published in (None, result.published)
            state = replace(state, published=result.published)
        self._state = state

    def _poll_if_stopped(self) -> None:
        """Poll for another horizon in a run that ends: after a TRUNCATE, chunks are read again in it."""
        if not self._is_polling and self._assigner is not None and self._assigner.is_stopped:
            self._poll()

    def _publish_waits(self, result: PollResult) -> None:
        """Publish the transaction that holds chunks back, while there is one."""
        if result.waits is None and not self._is_held_back:
            return
        self._is_held_back = result.waits is not None
        pid, waited_s = (0, 0.0) if result.waits is None else (result.waits[0].pid or 0, result.waits[1])
        self.context.metrics.gauge("chunksWaitForPid", pid)
        self.context.metrics.gauge("chunksWaitSeconds", waited_s)

    def _reads_from(self, slot: str) -> None:
        assert self._state is not None
        if self._state.slot != slot:
            self._state = replace(self._state, slot=slot)
            self._is_stored = False

    def _take_tables(self, assigner: Assigner, result: PollResult) -> None:
        """Read these tables of the option from now on, if the poll has listed them."""
        if not result.tables:
            return
        renamed = assigner.renamed
        assigner.name(table.table for table in result.tables)
        self._is_stored &= assigner.renamed == renamed
        assigner.keep(is_wanted(result.tables, self.options_given[opts.TABLES]))
        is_new = False
        for table in result.tables:
            if table.key and table.replica_identity in "fn":
                assigner.add_key(table.table.oid, tuple(column.name for column in table.key))
            is_new |= self._follow_table(TableProgress.of(table.table, table.key))
        if is_new and result.setup is None:
            assigner.renew_horizon()

    def _next_request(self, _live: Sequence[PostgresSplit]) -> PollRequest:
        assigner = self._assigner
        if assigner is None:
            return PollRequest(state=self._state)
        return PollRequest(
            state=self._state,
            needed_from=self._needed_from,
            position=assigner.position,
            makes_horizon=assigner.wants_horizon,
            pending=assigner.pending,
            cut=tuple(
                (assigner.named(progress.table), progress.key, progress.last_bound)
                for progress in assigner.uncut
            ),
            known=(*assigner.known, *assigner.renamed),
        )

    def _lag(self, position: int) -> LogLag:
        """How far a position is behind the end of the log, if that is known."""
        assigner, _ = self._at_work
        return self._clock.lag(position, assigner.end, has_changes=self._has_changes != (position, False))

    def _publish(self) -> None:
        if self._assigner is None or self._state is None:
            return
        self._publish_chunks()
        gauge = self.context.metrics.gauge
        if self._state.slot is not None:
            lag = self._lag(self._assigner.position if self._planned_to is None else self._planned_to)
            gauge("logLagBytes", lag.bytes)
            if lag.seconds is not None:
                gauge("logLagSeconds", lag.seconds)

    def _is_due(self, window: LogWindow) -> bool:
        """Whether the window has changes, or is long enough to advance the slot without any."""
        assert window.end is not None
        assigner, _ = self._at_work
        if assigner.reads_chunks:
            return True  # chunks wait until the log is less far behind
        if window.end - window.first >= self.options_given[opts.HEARTBEAT_BYTES]:
            return True
        if self._has_changes is None or self._has_changes[0] != window.first:
            return self._run.is_bounded
        return self._has_changes[1]

    def _assigner_of(self, state: PostgresState) -> Assigner:
        return Assigner(
            state.assigner, start=state.start, reads_tables=self._run.reads_tables, **self._limits()
        )
