"""The mysql enumerator: assigns the chunks of the tables, and the log as one unbounded split.

What lives here: the code that runs on the coordinator's thread. :mod:`.poller` queries the server on another
thread; what is read when is decided by :mod:`flip27_source.snapshot_then_log.assigner`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerator import Backlog, BoundedRange
from flip27_source.enumerator_context import SplitEnumeratorContext
from flip27_source.enumerators.mysql import options as opts
from flip27_source.enumerators.mysql.connection import connect, doing, imported
from flip27_source.enumerators.mysql.errors import START_AGAIN
from flip27_source.enumerators.mysql.poller import PollRequest, PollResult, ServerPoller
from flip27_source.enumerators.mysql.schema import change_schema
from flip27_source.enumerators.mysql.server import identity, is_named, log_end
from flip27_source.enumerators.mysql.split import (
    ChunkRead,
    LogRead,
    LogWindow,
    MysqlSplit,
    TableRules,
    failovers_of,
    position_text,
)
from flip27_source.enumerators.mysql.state import Assigner, MysqlState
from flip27_source.enumerators.tables_with_log.enumerator import LOG_SPLIT_ID, TablesWithLogEnumerator
from flip27_source.options import Options
from flip27_source.snapshot_then_log.tables import TableProgress
from flip27_source.source_checks import Finding
from flip27_source.source_progress import ProgressTable


class MysqlEnumerator(TablesWithLogEnumerator[MysqlSplit, MysqlState, Assigner]):
    """Assigns the chunks of the tables, and the log as one unbounded split."""

    options: ClassVar = opts.MYSQL_OPTIONS
    default_reader: ClassVar[str | None] = "mysql"
    state_type: ClassVar[Any] = MysqlState | None
    without_gaps = (
        "the log is read without gaps; to read no changes, start a query with snapshot=only and a new "
        "stateLocation"
    )
    to_replay = (
        f"replay these chunks, which also delivers such changes (flip27 edit replay); or {START_AGAIN}"
    )

    def __init__(
        self, context: SplitEnumeratorContext[MysqlSplit], options: Options, state: MysqlState | None = None
    ) -> None:
        super().__init__(context, options, state)
        self._reconnects = False
        self._poller = ServerPoller(options, self._run, report_data_loss=context.report_data_loss)

    @classmethod
    def place_in_log(cls, position: int) -> str:
        return position_text(position)

    def look(self, live: Sequence[MysqlSplit]) -> Iterator[ProgressTable]:
        """What the server tells of the end of its log."""
        state = self._state
        if state is None or state.log is None:
            yield ProgressTable(title="in the source", said="no log is read")
            return
        failovers = failovers_of(state.start)
        with doing(self.options_given, "querying the log"), connect(self.options_given) as connection:
            end, answers = log_end(connection, failovers=failovers), identity(connection)
        at = self.log_position(state, live)
        rows = [("read up to", at), ("end", end.end), ("begins at", end.first)]
        waits = "changes wait" if end.end > at else "nothing waits"
        if answers != state.server:
            waits = f"server {answers} answers, and {state.server} was read"
        yield ProgressTable(
            title="in the source",
            said=f"{waits}: the log is read up to {position_text(at)}, and ends at {position_text(end.end)}",
            columns=("log", "position"),
            rows=[(name, position_text(place)) for name, place in rows],
        )

    @classmethod
    def find_schema(cls, options: Options) -> pa.Schema:
        with doing(options, "querying the columns"), connect(options) as connection:
            return change_schema(connection, options)

    @classmethod
    def check_before_start(cls, options: Options) -> None:
        """Check that PyMySQL is installed; the server may be down for a moment."""
        imported()

    @classmethod
    def check_source(cls, options: Options) -> Iterator[Finding]:
        from flip27_source.enumerators.mysql.check import findings

        return findings(options)

    @classmethod
    def held_chunk(cls, state: MysqlState, progress: Any, number: int) -> MysqlSplit:
        barrier = progress.assigned.get(progress.split_id(number), state.start)
        return MysqlSplit.of_chunk(progress, number, barrier)

    @classmethod
    def check_rewind(
        cls, present: MysqlState | None, older: MysqlState | None, undone: Sequence[MysqlSplit]
    ) -> None:
        if present is not None and present.log is not None:
            super().check_rewind(present, older, undone)

    def _first_of_log(self, position: int) -> MysqlSplit:
        return MysqlSplit(split_id=LOG_SPLIT_ID, log=LogWindow(first=position))

    def _next_chunk(self) -> MysqlSplit | None:
        assigner, _ = self._at_work
        found = assigner.assign_next()
        return None if found is None else MysqlSplit.of_chunk(*found)

    def _planned(self, chunk: MysqlSplit) -> MysqlSplit:
        """With the server whose log is read now, which may be another than when the chunk was assigned."""
        state = self._state
        if state is None or state.log is None or chunk.chunk is None:
            return chunk
        barrier = max(chunk.chunk.barrier, state.start)
        return replace(chunk, chunk=replace(chunk.chunk, barrier=barrier, server=state.server))

    def add_splits_back(self, splits: Sequence[MysqlSplit], subtask_id: int) -> None:
        super().add_splits_back(splits, subtask_id)
        self._look_again()

    def _look_again(self) -> None:
        """Look which server answers: a task may have reached another one."""
        self._reconnects = True
        if not self._is_polling:
            self._poll()

    def _next_window(self, split: MysqlSplit, most_bytes: int) -> BoundedRange[MysqlSplit] | None:
        assigner, state = self._at_work
        # A planned window was not read if another server has answered.
        first = state.start
        assigner.reads_up_to(first)
        end = assigner.window_end(first, most_bytes)
        if end is None:
            return None
        window = LogWindow(
            first=first,
            end=end,
            log=state.log,
            server=state.server,
            file_began=state.file_began,
            skips=state.skips,
            prepared=state.prepared,
            rules=tuple(map(TableRules.of, assigner.tables)),
            known=assigner.stored().known,
            named=() if self._run.reads_tables else self._named,
        )
        return BoundedRange(read=replace(split, log=window), rest=replace(split, log=LogWindow(first=end)))

    def _log_backlog(self, planned_to: int) -> Backlog:
        assigner, state = self._at_work
        behind = max(0, assigner.end - max(planned_to, state.start))
        self._publish_chunks()
        self.context.metrics.gauge("logLagBytes", behind)
        return Backlog(splits=1, rows=None, bytes=behind) if behind else Backlog()

    def handle_source_event(self, subtask_id: int, event: ChunkRead | LogRead) -> None:
        """Record that a chunk or a window was read; its batch is complete."""
        assigner, state = self._at_work
        if isinstance(event, ChunkRead):
            if self._chunk_was_read(event.split_id, str(event.position)) and event.position > state.chunks_to:
                _, state = self._at_work
                self._state = replace(state, chunks_to=event.position, chunk_gtids=event.gtids)
        elif event.end == event.first:
            self._look_again()
        else:
            for table in event.emptied:
                assigner.read_again(table.table_id)
            assigner.reads_up_to(event.end)
            self._state = state.after(event)

    def _take(self, result: PollResult) -> None:
        self._is_polling = not self._run.is_bounded
        if result.failover is not None and not self._follow(*result.failover):
            return
        assert self._assigner is not None
        self._named = tuple(result.named)
        self._take_tables(self._assigner, result)
        if result.end is not None:
            self._assigner.log_ends_at(result.end.end)

    def _follow(self, before: MysqlState, after: MysqlState) -> bool:
        """Go on with another server's log; False if more was read of the former one than the poll knew."""
        assigner, state = self._at_work
        if (before.start, before.chunks_to) != (state.start, state.chunks_to):
            self._look_again()
            return False
        self._state = replace(after, assigner=assigner.stored(), chunks_read=state.chunks_read)
        # The marks of chunks that were read are below all positions of this log: their changes are delivered.
        self._assigner = self._assigner_of(self._state)
        self._assigner.reads_up_to(after.start)
        self._is_stored = False
        return True

    def _take_tables(self, assigner: Assigner, result: PollResult) -> None:
        """Read these tables of the option from now on, if the poll has listed them."""
        if result.tables is None:
            return
        assigner.keep(partial(is_named, result.named))
        for found in result.tables:
            # In a batch read the chunks of a table could not be read in one snapshot.
            key = () if self._run.reads_once else found.cut_by
            self._follow_table(TableProgress.of(found.table, key))

    def _next_request(self, _live: Sequence[MysqlSplit]) -> PollRequest:
        assigner = self._assigner
        if assigner is None:
            return PollRequest(state=self._state)
        reconnects, self._reconnects = self._reconnects, False
        return PollRequest(
            state=self._state,
            reconnects=reconnects,
            cut=tuple((progress.table, progress.key, progress.last_bound) for progress in assigner.uncut),
            known=assigner.known,
        )

    def _assigner_of(self, state: MysqlState) -> Assigner:
        return Assigner(state.assigner, start=state.start, **self._limits())
