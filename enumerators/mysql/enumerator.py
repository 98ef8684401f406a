"""The mysql enumerator: assigns the chunks of the tables, and the log as one unbounded split.

What lives here: the code that runs on the coordinator's thread. :mod:`.poller` queries the server on another
thread; what is read when is decided by :mod:`flip27_source.snapshot_then_log.assigner`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa

from flip27_source.enumerator import UNKNOWN_BACKLOG, Backlog, BoundedRange, Budget, SplitEnumerator
from flip27_source.enumerator_context import Boundedness, RetryPolicy, SplitEnumeratorContext
from flip27_source.enumerator_mixins import CutsSomeSplits, HoldsSplits, LimitsEdits
from flip27_source.enumerators.mysql import options as opts
from flip27_source.enumerators.mysql.connection import START_AGAIN, checked, connect, imported
from flip27_source.enumerators.mysql.poller import PollRequest, PollResult, RunMode, ServerPoller
from flip27_source.enumerators.mysql.schema import change_schema
from flip27_source.enumerators.mysql.split import (
    LOG_SPLIT_ID,
    ChunkRead,
    LogRead,
    LogWindow,
    MysqlSplit,
    TableName,
    TableRules,
)
from flip27_source.enumerators.mysql.state import MysqlState, chunk_split, held_chunks, without_chunks
from flip27_source.enumerators.table_patterns import matched
from flip27_source.errors import EditError, some_of
from flip27_source.options import Options
from flip27_source.schemas.inference import FindsSchema
from flip27_source.snapshot_then_log.assigner import PositionAssigner
from flip27_source.snapshot_then_log.tables import TableProgress
from flip27_source.source_checks import ChecksBeforeStart, ChecksSource, Finding
from flip27_source.split import SplitSize

CHUNKS_PER_SUBTASK = 8
"""The most chunks of one batch for each subtask: a restart may have to repeat a whole batch."""

MOST_WINDOW_BYTES = 256 * 1024 * 1024
"""The longest window of the log if no limit is set."""

_WITHOUT_GAPS = (
    "the log is read without gaps; to read no changes, start a query with snapshot=only and a new "
    "stateLocation"
)


class MysqlEnumerator(
    HoldsSplits,
    CutsSomeSplits,
    LimitsEdits,
    FindsSchema,
    ChecksSource,
    ChecksBeforeStart,
    SplitEnumerator[MysqlSplit],
):
    """Assigns the chunks of the tables, and the log as one unbounded split."""

    options: ClassVar = opts.MYSQL_OPTIONS
    default_reader: ClassVar[str | None] = "mysql"

    def __init__(
        self, context: SplitEnumeratorContext[MysqlSplit], options: Options, state: MysqlState | None = None
    ) -> None:
        super().__init__(context, options, state)
        self._run = RunMode(
            is_bounded=context.boundedness is Boundedness.BOUNDED,
            reads_once=context.reads_once,
            reads_tables=context.reads_once or options[opts.SNAPSHOT] != "never",
            reads_log=not context.reads_once and options[opts.SNAPSHOT] != "only",
        )
        self._state = state
        self._is_stored = state is not None
        self._returned = [] if state is None else list(state.returned)
        self._log_assigned = state is not None and state.log_assigned
        self._assigner = None if state is None else self._assigner_of(state)
        self._is_first_window = True
        self._poller = ServerPoller(options, self._run, report_data_loss=context.report_data_loss)

    @classmethod
    def find_schema(cls, options: Options) -> pa.Schema:
        with closing(connect(options)) as connection:
            return checked(options, "querying the columns", lambda: change_schema(connection, options))

    @classmethod
    def check_before_start(cls, options: Options) -> None:
        """Check that PyMySQL is installed; the server may be down for a moment."""
        imported()

    @classmethod
    def check_source(cls, options: Options) -> Iterator[Finding]:
        from flip27_source.enumerators.mysql.check import findings

        return findings(options)

    @classmethod
    def splits_in(cls, state: MysqlState | None) -> Sequence[MysqlSplit]:
        return () if state is None else held_chunks(state)

    @classmethod
    def without_splits(cls, state: MysqlState | None, split_ids: Collection[str]) -> MysqlState | None:
        return None if state is None else without_chunks(state, split_ids)

    @classmethod
    def is_cut_off(cls, split: MysqlSplit) -> bool:
        """Whether the split is a window of the log; chunks are planned as a whole."""
        return split.log is not None

    @classmethod
    def left_alone(cls, split: MysqlSplit) -> str | None:
        """The log is read without gaps."""
        return None if split.log is None else _WITHOUT_GAPS

    @classmethod
    def check_rewind(
        cls, present: MysqlState | None, older: MysqlState | None, undone: Sequence[MysqlSplit]
    ) -> None:
        """Refuse to go back to before chunks were read, whose first marks the older state does not have."""
        if present is None or present.log is None:
            return
        if chunks := [split.split_id for split in undone if split.chunk is not None]:
            raise EditError(
                f"{some_of(chunks, 3)} would be read again as if for the first time: rows that were deleted, "
                "or got another key, since the first read would stay in the sink",
                remedy="replay these chunks, which also delivers such changes (flip27 edit replay); or "
                f"{START_AGAIN}",
            )

    def start(self) -> None:
        """Poll the server: once in a run that ends, otherwise again and again."""
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
        if not self._log_assigned and self._run.reads_log:
            self._log_assigned = True
            window = LogWindow(first=self._state.start)
            self.context.assign_split(MysqlSplit(split_id=LOG_SPLIT_ID, log=window))
            return
        if self._returned:
            self.context.assign_split(self._returned.pop(0))
            return
        found = self._assigner.assign_next()
        if found is not None:
            self.context.assign_split(chunk_split(*found))

    def add_splits_back(self, splits: Sequence[MysqlSplit], subtask_id: int) -> None:
        for split in splits:
            if split.log is not None and self._state is not None:
                self._log_assigned = False
                self._state = replace(self._state, start=split.log.first)
            else:
                self._returned.append(split)

    def bound_split(self, split: MysqlSplit, budget: Budget) -> BoundedRange[MysqlSplit] | None:
        """A chunk as a whole; the log up to the end of its next window."""
        if split.log is None:
            fits = budget.rows is None or split.rows is None or split.rows <= budget.rows
            return BoundedRange(read=split, rest=None) if fits else None
        if self._assigner is None or self._state is None:
            return None
        state = self._state
        first = max(split.log.first, state.start)
        self._assigner.reads_up_to(first)
        end = self._assigner.window_end(first, budget.bytes or MOST_WINDOW_BYTES)
        if end is None:
            return None
        window = LogWindow(
            first=first,
            end=end,
            begins=first,
            log=state.log,
            server=state.server,
            after=state.gtid if self._is_first_window and first == state.start else None,
            rules=tuple(map(_rules, self._assigner.tables)),
            known=self._assigner.stored().known,
            by_name=not self._run.reads_tables,
        )
        return BoundedRange(read=replace(split, log=window), rest=replace(split, log=LogWindow(first=end)))

    def backlog(self, live: Sequence[MysqlSplit]) -> Backlog:
        """The rows of the chunks that wait, and the bytes of the log; rows of the log are not known."""
        if self._assigner is None or self._state is None:
            return UNKNOWN_BACKLOG
        waiting = [
            progress.rows[number]
            for progress in self._assigner.tables
            for number in range(len(progress.snapshots))
            if progress.is_missing(number) and progress.split_id(number) not in progress.assigned
        ]
        waiting += [split.rows for split in (*self._returned, *live) if split.chunk is not None]
        chunks = Backlog.of(SplitSize(files=0, rows=count) for count in waiting)
        logs = [split.log.first for split in live if split.log is not None]
        first = max([*logs, self._state.start])
        behind = max(0, self._assigner.end - first)
        self._publish(behind)
        if not behind or not self._run.reads_log:
            return chunks if waiting else Backlog()
        return replace(chunks, splits=chunks.splits + 1, rows=None, bytes=behind)

    def notify_splits_given_up(self, checkpoint_id: int, splits: Sequence[MysqlSplit]) -> None:
        """Follow the rows of these chunks in the log: waiting for them, it would never be read."""
        assert self._assigner is not None
        self._assigner.chunks_given_up([split.split_id for split in splits])

    def handle_source_event(self, subtask_id: int, event: ChunkRead | LogRead) -> None:
        """Record that a chunk or a window was read; its batch is complete."""
        assert self._assigner is not None
        assert self._state is not None
        if isinstance(event, ChunkRead):
            if self._assigner.mark(event.split_id, str(event.position)):
                self._state = replace(self._state, chunks_read=self._state.chunks_read + 1)
        else:
            for table in event.emptied:
                self._assigner.read_again(table.table_id)
            self._assigner.reads_up_to(event.end)
            self._is_first_window = False
            self._state = replace(self._state, start=event.end, gtid=event.gtid or self._state.gtid)

    def wants_checkpoint(self) -> bool:
        """Whether the start of the log is known and must still be stored."""
        return self._state is not None and not self._is_stored

    def snapshot_state(self, checkpoint_id: int) -> MysqlState | None:
        if self._state is None or self._assigner is None:
            return None
        self._is_stored = True
        self._state = replace(
            self._state,
            tables=self._assigner.stored(),
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
        if result.setup is not None and self._state is None:
            self._state = result.setup
            self._assigner = self._assigner_of(result.setup)
        assert self._assigner is not None
        self._take_tables(self._assigner, result)
        if result.end is not None:
            self._assigner.log_ends_at(result.end.end)
        for cut in result.cuts:
            self._assigner.cut(cut)

    def _take_tables(self, assigner: PositionAssigner[TableName], result: PollResult) -> None:
        """Read these tables of the option from now on, if the poll has listed them."""
        if result.tables is None:
            return
        patterns, database = self.options_given[opts.TABLES] or (), self.options_given[opts.DATABASE]
        assigner.keep(lambda table: matched(patterns, table.schema, table.name, own_schema=database))
        for found in result.tables:
            if self._run.reads_tables:
                # In a batch read the chunks of a table could not be read in one snapshot.
                key = () if self._run.reads_once else found.cut_by
                assigner.add(TableProgress(table=found.table, key=key, is_cut=not key))
            else:
                assigner.add_known(found.table)

    def _next_request(self, _live: Sequence[MysqlSplit]) -> PollRequest:
        assigner = self._assigner
        if assigner is None:
            return PollRequest(state=self._state)
        return PollRequest(
            state=self._state,
            cut=tuple((progress.table, progress.key, progress.last_bound) for progress in assigner.uncut),
            known=frozenset(table.table_id for table in assigner.known),
        )

    def _publish(self, behind: int) -> None:
        assert self._state is not None
        assert self._assigner is not None
        gauge = self.context.metrics.gauge
        gauge("chunksRead", self._state.chunks_read)
        gauge("chunksLeft", sum(len(progress.missing) for progress in self._assigner.tables))
        if self._run.reads_log:
            gauge("logLagBytes", behind)

    def _assigner_of(self, state: MysqlState) -> PositionAssigner[TableName]:
        most_of_stream = CHUNKS_PER_SUBTASK * self.context.current_parallelism
        return PositionAssigner(
            state.tables,
            start=state.start,
            most_chunks=1 << 31 if self._run.reads_once else most_of_stream,
            # Without a log, chunks do not wait for it.
            most_lag_bytes=self.options_given[opts.MAX_LOG_LAG] if self._run.reads_log else 1 << 63,
        )


def _rules(progress: TableProgress[TableName, str]) -> TableRules:
    bounds, marks = progress.ranges()
    return TableRules(table=progress.table, key=progress.key, bounds=bounds, marks=marks)
