"""The postgres enumerator: assigns the chunks of the tables, and the log as one unbounded split.

What lives here: the code that runs on the coordinator's thread. :mod:`.poller` queries the server on another
thread; :mod:`.assigner` decides what is read.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerator import UNKNOWN_BACKLOG, Backlog, BoundedRange, Budget, SplitEnumerator
from flip27_source.enumerator_context import Boundedness, RetryPolicy, SplitEnumeratorContext
from flip27_source.enumerator_mixins import CutsSomeSplits, HoldsSplits, LimitsEdits, PerformsActions
from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres import server
from flip27_source.enumerators.postgres.assigner import Assigner
from flip27_source.enumerators.postgres.catalog import is_wanted
from flip27_source.enumerators.postgres.connection import (
    START_AGAIN,
    Connection,
    checked,
    connect,
    imported,
    row_of,
)
from flip27_source.enumerators.postgres.log_lag import LogClock, LogLag, chunks_left, waiting_rows
from flip27_source.enumerators.postgres.own_slot import own_slot_name
from flip27_source.enumerators.postgres.poller import PollRequest, PollResult, RunMode, ServerPoller
from flip27_source.enumerators.postgres.schema import change_schema
from flip27_source.enumerators.postgres.set_back import other_log
from flip27_source.enumerators.postgres.split import (
    LOG_SPLIT_ID,
    ChunkRead,
    LogRead,
    LogWindow,
    PostgresSplit,
    TableLeftOut,
    lsn_text,
)
from flip27_source.enumerators.postgres.state import AdvanceSlot, PostgresState, held_chunks, without_chunks
from flip27_source.errors import EditError, some_of
from flip27_source.leftovers import LeavesThings, Leftover
from flip27_source.options import Options
from flip27_source.schemas.inference import FindsSchema
from flip27_source.source_checks import ChecksBeforeStart, ChecksSource, Finding
from flip27_source.split import SplitSize

CHUNKS_PER_SUBTASK = 8
"""The most chunks of one batch for each subtask: a restart may have to repeat a whole batch."""

ADVANCES_COMPARED = 2
"""For how many advances of the slot, after a start of the query or the server, the logs are compared."""

MOST_WINDOW_BYTES = 256 * 1024 * 1024
"""The longest window of the log if no limit is set."""

_WITHOUT_GAPS = (
    "the log is read without gaps, from where its slot begins; to read no changes, start a query with "
    "snapshot=only and a new stateLocation, and drop the slot of this one (flip27 postgres drop)"
)


class PostgresEnumerator(
    PerformsActions[AdvanceSlot],
    HoldsSplits,
    CutsSomeSplits,
    LimitsEdits,
    FindsSchema,
    ChecksSource,
    LeavesThings,
    ChecksBeforeStart,
    SplitEnumerator[PostgresSplit],
):
    """Assigns the chunks of the tables, and the log as one unbounded split."""

    options: ClassVar = opts.POSTGRES_OPTIONS
    default_reader: ClassVar[str | None] = "postgres"
    position_names: ClassVar[Mapping[str, str]] = {"log.first": "lsn"}
    leaves: ClassVar[Sequence[str]] = ("slot", "publication")

    def __init__(
        self,
        context: SplitEnumeratorContext[PostgresSplit],
        options: Options,
        state: PostgresState | None = None,
    ) -> None:
        super().__init__(context, options, state)
        self._run = RunMode(
            is_bounded=context.boundedness is Boundedness.BOUNDED,
            reads_once=context.reads_once,
            reads_tables=context.reads_once or options[opts.SNAPSHOT] != "never",
            reads_log=not context.reads_once and options[opts.SNAPSHOT] != "only",
        )
        self._state = state
        # The last batch that is complete may be repeated until the next checkpoint is durable.
        self._needed_from = 0 if state is None else state.start
        self._is_stored = state is not None
        self._returned = [] if state is None else list(state.returned)
        self._log_assigned = state is not None and state.log_assigned
        self._assigner = None if state is None else self._assigner_of(state)
        self._has_changes: tuple[int, bool] | None = None
        self._clock = LogClock(None if state is None else state.committed_at)
        self._planned_to: int | None = None
        self._is_held_back = False
        self._is_polling = False
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
    def splits_in(cls, state: PostgresState | None) -> Sequence[PostgresSplit]:
        return () if state is None else held_chunks(state)

    @classmethod
    def without_splits(cls, state: PostgresState | None, split_ids: Collection[str]) -> PostgresState | None:
        return None if state is None else without_chunks(state, split_ids)

    @classmethod
    def is_cut_off(cls, split: PostgresSplit) -> bool:
        """Whether the split is a window of the log; chunks are planned as a whole."""
        return split.log is not None

    @classmethod
    def left_alone(cls, split: PostgresSplit) -> str | None:
        """The log is read without gaps."""
        return None if split.log is None else _WITHOUT_GAPS

    @classmethod
    def check_rewind(
        cls, present: PostgresState | None, older: PostgresState | None, undone: Sequence[PostgresSplit]
    ) -> None:
        """Refuse to go back to a position before that of the slot, or to before chunks were read.

        The older state does not have the first snapshots of these chunks, which tell which changes between
        the two reads must be delivered.
        """
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
        if chunks := [split.split_id for split in undone if split.chunk is not None]:
            raise EditError(
                f"{some_of(chunks, 3)} would be read again as if for the first time: rows that were deleted, "
                "or got another key, since the first read would stay in the sink",
                remedy="replay these chunks, which also delivers such changes (flip27 edit replay)",
            )

    def start(self) -> None:
        self._poll()

    def _poll(self) -> None:
        """Poll the server: once in a run that ends, otherwise again and again."""
        self._is_polling = True
        self.context.call_async(
            self._poller.poll,
            self._polled,
            argument=self._next_request,
            period_s=None if self._run.is_bounded else self.options_given[opts.DISCOVERY_INTERVAL],
            retry=RetryPolicy(retries=self.options_given[opts.DISCOVERY_RETRIES], longest_pause_s=15.0),
        )

    def handle_split_request(self, subtask_id: int) -> None:
        """Assign the log once, and chunks as long as not too many are assigned."""
        if self._assigner is None or self._state is None:
            return
        if not self._log_assigned and self._state.slot is not None and not self._run.reads_once:
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
            if self._assigner is not None and split.chunk is not None:
                table = self._assigner.named(split.chunk.table)
                split = replace(split, chunk=replace(split.chunk, table=table))
            return BoundedRange(read=split, rest=None) if fits else None
        if self._assigner is None or self._state is None:
            return None
        first = max(split.log.first, self._state.start)
        self._assigner.reads_up_to(first)
        window = self._assigner.window(first, budget.bytes or MOST_WINDOW_BYTES)
        if window is None or window.end is None or not self._is_due(window):
            return None
        lag = self._lag(window.end)
        rest = replace(split, log=LogWindow(first=window.end), lag_bytes=lag.bytes, lag_s=lag.seconds)
        self._state = replace(self._state, planned_to=window.end)
        state = self._state
        after = state.last_change if first == state.start else None
        window = replace(
            window, slot=state.slot, publication=state.publication, system=state.system, after=after
        )
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

    def notify_splits_given_up(self, checkpoint_id: int, splits: Sequence[PostgresSplit]) -> None:
        """Follow the rows of these chunks in the log: waiting for them, it would never be read."""
        assert self._assigner is not None
        self._assigner.chunks_given_up([split.split_id for split in splits])

    def handle_source_event(self, subtask_id: int, event: ChunkRead | LogRead | TableLeftOut) -> None:
        """Record that a chunk or a window was read, or left out; its batch is complete."""
        assert self._assigner is not None
        assert self._state is not None
        if isinstance(event, TableLeftOut):
            # The next poll may know it by another option already; its rows are then read again.
            self._assigner.keep(lambda table: table.oid != event.oid)
            return
        if isinstance(event, ChunkRead):
            if self._assigner.chunk_read(event):
                number, chunks_to = str(event.timeline), self._state.chunks_to
                self._state = replace(
                    self._state,
                    chunks_read=self._state.chunks_read + 1,
                    chunks_to={**chunks_to, number: max(event.end, chunks_to.get(number, 0))},
                )
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

    def wants_checkpoint(self) -> bool:
        """Whether the slot's name and the start of the log are known and must still be stored."""
        return self._state is not None and not self._is_stored

    def snapshot_state(self, checkpoint_id: int) -> PostgresState | None:
        if self._state is None or self._assigner is None:
            return None
        self._is_stored = True
        self._state = replace(
            self._state,
            assigner=self._assigner.state(),
            log_assigned=self._log_assigned,
            returned=tuple(self._returned),
        )
        return self._state

    def close(self) -> None:
        self._poller.close()

    def _polled(self, result: PollResult | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        assert result is not None
        if result.setup is not None:
            self._state = result.setup
            self._assigner = self._assigner_of(result.setup)
        assert self._assigner is not None
        self._take_tables(self._assigner, result)
        if self._run.is_bounded:
            self._assigner.end_at(result.seen[-1].end)
        for seen in result.seen:
            self._assigner.observe(seen)
        for cut in result.cuts:
            self._assigner.cut(cut)
        if result.position is not None and result.has_changes is not None:
            self._has_changes = (result.position, result.has_changes)
        if result.slot is not None:
            self._reads_from(result.slot.name)
            self._clock.seen(result.seen[-1].end, result.slot.asked_at)
            self.context.metrics.gauge("slotKeptBytes", result.slot.kept_bytes)
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
            if not self._run.reads_tables:
                assigner.add_known(table.table)
            else:
                is_new |= assigner.add_table(table.table, table.key)
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
        assert self._assigner is not None
        has_changes = self._has_changes != (position, False)
        return self._clock.lag(position, self._assigner.end, has_changes=has_changes)

    def _publish(self) -> None:
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
        """Whether the window has changes, or is long enough to advance the slot without any."""
        assert window.end is not None
        assert self._assigner is not None
        if self._assigner.reads_chunks:
            return True  # chunks wait until the log is less far behind
        if window.end - window.first >= self.options_given[opts.HEARTBEAT_BYTES]:
            return True
        if self._has_changes is None or self._has_changes[0] != window.first:
            return self._run.is_bounded
        return self._has_changes[1]

    def _assigner_of(self, state: PostgresState) -> Assigner:
        most_of_stream = CHUNKS_PER_SUBTASK * self.context.current_parallelism
        return Assigner(
            state.assigner,
            start=state.start,
            most_chunks=1 << 31 if self._run.reads_once else most_of_stream,
            # Without a slot no log is read, so chunks do not wait for it.
            most_lag_bytes=self.options_given[opts.MAX_LOG_LAG] if self._run.reads_log else 1 << 63,
            reads_tables=self._run.reads_tables,
        )

    @property
    def _chunk_rows(self) -> int:
        return self.options_given[opts.SNAPSHOT_CHUNK_ROWS]
