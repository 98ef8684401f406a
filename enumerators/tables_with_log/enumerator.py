"""The enumerator of a source that reads chunks of tables, and their log as one unbounded split.

What lives here: what does not depend on the server. A source adds its poller, what its log's windows contain,
and what the end of a window means.
"""

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from flip27_source.enumerator import (
    UNKNOWN_BACKLOG,
    Backlog,
    BoundedRange,
    Budget,
    SourceEnd,
    SplitEnumerator,
)
from flip27_source.enumerator_context import Boundedness, RetryPolicy, SplitEnumeratorContext
from flip27_source.enumerator_mixins import CutsSomeSplits, HoldsSplits, LimitsEdits
from flip27_source.enumerators.tables_with_log import options as opts
from flip27_source.enumerators.tables_with_log.progress import log_told, tables_told
from flip27_source.errors import EditError, some_of
from flip27_source.options import Options
from flip27_source.schemas.inference import FindsSchema
from flip27_source.snapshot_then_log.assigner import SnapshotThenLog
from flip27_source.snapshot_then_log.tables import TableProgress, TablesState
from flip27_source.source_checks import ChecksBeforeStart, ChecksSource
from flip27_source.source_progress import LooksIntoSource, ProgressTable, TellsProgress
from flip27_source.split import SplitSize

LOG_SPLIT_ID = "log"
CHUNKS_PER_SUBTASK = 8
"""The most chunks of one batch for each subtask: a restart may have to repeat a whole batch."""

MOST_WINDOW_BYTES = 256 * 1024 * 1024
"""The longest window of the log if no limit is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMode:
    """What this run of the query reads.

    Attributes:
        is_bounded: the run ends once it has read what is there now.
        reads_once: it is a batch read.
        reads_tables: the rows of the tables are read, and not only their changes.
        reads_log: the changes are read.
    """

    is_bounded: bool
    reads_once: bool
    reads_tables: bool
    reads_log: bool

    @classmethod
    def of(cls, context: SplitEnumeratorContext[Any], options: Options) -> Self:
        return cls(
            is_bounded=context.boundedness is Boundedness.BOUNDED,
            reads_once=context.reads_once,
            reads_tables=context.reads_once or options[opts.SNAPSHOT] != "never",
            reads_log=not context.reads_once and options[opts.SNAPSHOT] != "only",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingState:
    """What the state of every such enumerator has.

    Attributes:
        start: position up to which the log was read in complete batches.
        assigner: the tables whose rows are still read, and those whose changes are all delivered.
        log_assigned: whether the log was assigned: its position is then in its split.
        returned: chunks that were added back.
        chunks_read: the number of chunks that were read since the first start.
    """

    start: int
    assigner: TablesState[Any, Any]
    log_assigned: bool = False
    returned: tuple[Any, ...] = ()
    chunks_read: int = 0


class Poller(Protocol):
    """Polls the server on a thread."""

    def poll(self, request: Any, /) -> Any:
        """The result for a request; its ``setup`` is the state to begin with, at the first start."""

    def close(self) -> None:
        """Close the connection."""


SplitT = TypeVar("SplitT", bound=Any)
StateT = TypeVar("StateT", bound=ReadingState)
AssignerT = TypeVar("AssignerT", bound=SnapshotThenLog[Any, Any])


class TablesWithLogEnumerator(
    HoldsSplits,
    CutsSomeSplits,
    LimitsEdits,
    FindsSchema,
    ChecksSource,
    ChecksBeforeStart,
    TellsProgress,
    LooksIntoSource,
    SplitEnumerator[SplitT],
    Generic[SplitT, StateT, AssignerT],
):
    """Assigns the chunks of the tables, and the log as one unbounded split.

    A split has either a ``chunk`` or a ``log``, and ``rows``; ``log.first`` is where the log begins. A source
    sets ``_poller``.

    Attributes:
        without_gaps: why edits cannot skip or move the log.
        to_replay: the remedy for chunks that a rewind would read as if for the first time.
    """

    without_gaps: ClassVar[str]
    to_replay: ClassVar[str]
    _poller: Poller

    def __init__(
        self, context: SplitEnumeratorContext[SplitT], options: Options, state: StateT | None = None
    ) -> None:
        super().__init__(context, options, state)
        self._run = RunMode.of(context, options)
        self._state = state
        self._is_stored = state is not None
        self._returned: list[SplitT] = [] if state is None else list(state.returned)
        self._log_assigned = state is not None and state.log_assigned
        self._is_polling = False
        self._assigner = None if state is None else self._assigner_of(state)

    # What a source adds.

    @classmethod
    @abstractmethod
    def held_chunk(cls, state: StateT, progress: Any, number: int) -> SplitT:
        """An unread chunk of a table whose bounds are known, assigned or not."""

    @classmethod
    @abstractmethod
    def place_in_log(cls, position: int) -> str:
        """A position in the log, as people write it."""

    @abstractmethod
    def _next_request(self, live: Sequence[SplitT]) -> Any:
        """The request for the next poll."""

    @abstractmethod
    def _take(self, result: Any) -> None:
        """Take the result of a poll."""

    @abstractmethod
    def _assigner_of(self, state: StateT) -> AssignerT:
        """The assigner that continues from a state."""

    @abstractmethod
    def _first_of_log(self, position: int) -> SplitT:
        """The split of the log from a position on."""

    @abstractmethod
    def _next_chunk(self) -> SplitT | None:
        """The next chunk, which counts as assigned from now on; None if there is none now."""

    @abstractmethod
    def _planned(self, chunk: SplitT) -> SplitT:
        """A chunk as it is read in the batch that is planned now."""

    @abstractmethod
    def _next_window(self, split: SplitT, most_bytes: int) -> BoundedRange[SplitT] | None:
        """The next window of the log; None if there is none now."""

    @abstractmethod
    def _log_backlog(self, planned_to: int) -> Backlog:
        """What waits in the log after a position, as one split; nothing if no change waits."""

    # What all of them do.

    @property
    def _at_work(self) -> tuple[AssignerT, StateT]:
        """The assigner and the state, which exist from the first poll on."""
        assert self._assigner is not None
        assert self._state is not None
        return self._assigner, self._state

    @classmethod
    def splits_in(cls, state: StateT | None) -> Sequence[SplitT]:
        if state is None:
            return ()
        tables = state.assigner.tables
        return [cls.held_chunk(state, progress, number) for progress in tables for number in progress.missing]

    @classmethod
    def progress(
        cls, state: StateT | None, live: Sequence[SplitT], numbers: Mapping[str, Any]
    ) -> Iterator[ProgressTable]:
        if state is None:
            return
        yield from tables_told(state.assigner)
        if state.log_assigned:
            place = cls.place_in_log(cls.log_position(state, live))
            yield log_told(place, getattr(state, "slot", None), numbers)

    @classmethod
    def log_position(cls, state: StateT, live: Sequence[SplitT]) -> int:
        """Up to where the log is in batches."""
        position: int = next((split.log.first for split in live if split.log is not None), state.start)
        return position

    @classmethod
    def without_splits(cls, state: StateT | None, split_ids: Collection[str]) -> StateT | None:
        """The state in which these chunks count as read and empty.

        Every change of their rows is delivered from the current position in the log on.
        """
        if state is None:
            return None
        tables = tuple(progress.without(split_ids) for progress in state.assigner.tables)
        returned = tuple(split for split in state.returned if split.split_id not in split_ids)
        return replace(state, assigner=replace(state.assigner, tables=tables), returned=returned)

    @classmethod
    def is_cut_off(cls, split: SplitT) -> bool:
        """Whether the split is a window of the log; chunks are planned as a whole."""
        return split.log is not None

    @classmethod
    def left_alone(cls, split: SplitT) -> str | None:
        """The log is read without gaps."""
        return None if split.log is None else cls.without_gaps

    @classmethod
    def check_rewind(cls, present: StateT | None, older: StateT | None, undone: Sequence[SplitT]) -> None:
        """Refuse to go back to before chunks were read.

        The older state does not have the first marks of these chunks, which tell which changes between the
        two reads must be delivered. Nor without one: the log would be read from where it is then.
        """
        if older is None and (windows := [split.split_id for split in undone if split.log is not None]):
            raise EditError(
                f"{windows[0]} would be read again as if for the first time, from where it is then: changes "
                "since the first start would not come again",
                remedy="go back to a checkpoint after the start of this source",
            )
        if chunks := [split.split_id for split in undone if split.chunk is not None]:
            raise EditError(
                f"{some_of(chunks, 3)} would be read again as if for the first time: rows that were deleted, "
                "or got another key, since the first read would stay in the sink",
                remedy=cls.to_replay,
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

    def _polled(self, result: Any, error: BaseException | None) -> None:
        if error is not None:
            raise error
        if result.setup is not None and self._state is None:
            self._state = result.setup
            self._assigner = self._assigner_of(result.setup)
        self._take(result)
        if self._assigner is not None:
            for cut in result.cuts:
                self._assigner.cut(cut)
        self._publish_chunks()

    def close(self) -> None:
        self._poller.close()

    def handle_split_request(self, subtask_id: int) -> None:
        """Assign the log once, and chunks as long as not too many are assigned."""
        if self._assigner is None or self._state is None:
            return
        if not self._log_assigned and self._run.reads_log:
            self._log_assigned = True
            self.context.assign_split(self._first_of_log(self._state.start))
            return
        split = self._returned.pop(0) if self._returned else self._next_chunk()
        if split is not None:
            self.context.assign_split(split)

    def add_splits_back(self, splits: Sequence[SplitT], subtask_id: int) -> None:
        for split in splits:
            if split.log is not None and self._state is not None:
                self._log_assigned = False
                self._state = replace(self._state, start=min(self._state.start, split.log.first))
            else:
                self._returned.append(split)

    def bound_split(self, split: SplitT, budget: Budget) -> BoundedRange[SplitT] | None:
        """A chunk as a whole; the log up to the end of its next window."""
        if split.log is None:
            fits = budget.rows is None or split.rows is None or split.rows <= budget.rows
            return BoundedRange(read=self._planned(split), rest=None) if fits else None
        if self._assigner is None or self._state is None:
            return None
        return self._next_window(split, budget.bytes or MOST_WINDOW_BYTES)

    def backlog(self, live: Sequence[SplitT]) -> Backlog:
        """The rows of the chunks that wait, and the bytes of the log.

        Rows of the log and bytes of chunks are not known, and not counted; rows are unknown if only the log
        waits.
        """
        if self._assigner is None or self._state is None:
            return UNKNOWN_BACKLOG
        chunk_rows = self.options_given[opts.SNAPSHOT_CHUNK_ROWS]
        rows = waiting_rows(self._assigner.tables, chunk_rows=chunk_rows)
        rows += [
            split.rows or (chunk_rows if split.chunk.key else None)
            for split in (*self._returned, *live)
            if split.chunk is not None
        ]
        chunks = Backlog.of(SplitSize(files=0, rows=count) for count in rows)
        if not self._run.reads_log:
            return chunks
        logs = [split.log.first for split in live if split.log is not None]
        log = self._log_backlog(logs[0] if logs else self._state.start)
        if not log.splits:
            return chunks if rows else log
        return replace(log, splits=chunks.splits + 1, rows=chunks.rows if rows else None)

    def notify_splits_given_up(self, checkpoint_id: int, splits: Sequence[SplitT]) -> None:
        """Follow the rows of these chunks in the log: waiting for them, it would never be read."""
        assigner, _ = self._at_work
        assigner.chunks_given_up([split.split_id for split in splits])

    def switch_position(self, end: SourceEnd[SplitT]) -> dt.datetime | str | None:
        """When the rows began to be read: changes since then may be among them, or not."""
        return end.began

    def wants_checkpoint(self) -> bool:
        """Whether the start of the log is known and must still be stored."""
        return self._state is not None and not self._is_stored

    def snapshot_state(self, checkpoint_id: int) -> Any:
        if self._state is None or self._assigner is None:
            return None
        self._is_stored = True
        self._state = replace(
            self._state,
            assigner=self._assigner.stored(),
            log_assigned=self._log_assigned,
            returned=tuple(self._returned),
        )
        return self._state

    def _chunk_was_read(self, split_id: str, mark: str) -> bool:
        """Record that a chunk was read, and return whether it was assigned."""
        assigner, state = self._at_work
        was_assigned = assigner.mark(split_id, mark)
        if was_assigned:
            self._state = replace(state, chunks_read=state.chunks_read + 1)
        return was_assigned

    def _follow_table(self, progress: TableProgress[Any, Any]) -> bool:
        """Read a table from now on, or only its changes, and return whether it is one whose rows are read."""
        assigner, _ = self._at_work
        if not self._run.reads_tables:
            assigner.add_known(progress.table)
            return False
        return assigner.add(progress)

    def _publish_chunks(self) -> None:
        if self._assigner is not None and self._state is not None:
            self.context.metrics.gauge("chunksRead", self._state.chunks_read)
            self.context.metrics.gauge("chunksLeft", chunks_left(self._assigner.tables))

    def _limits(self) -> dict[str, int]:
        """How many chunks may be in flight, and how far the log may be behind meanwhile."""
        most_of_stream = CHUNKS_PER_SUBTASK * self.context.current_parallelism
        return {
            "most_chunks": 1 << 31 if self._run.reads_once else most_of_stream,
            # Without a log, chunks do not wait for it.
            "most_lag_bytes": self.options_given[opts.MAX_LOG_LAG] if self._run.reads_log else 1 << 63,
        }


def chunks_left(tables: Iterable[TableProgress[Any, Any]]) -> int:
    """The number of known chunks that are not read, assigned or not."""
    return sum(
        progress.is_missing(number) for progress in tables for number in range(len(progress.snapshots))
    )


def waiting_rows(tables: Iterable[TableProgress[Any, Any]], *, chunk_rows: int) -> list[int | None]:
    """For each chunk that is neither read nor assigned, its rows when it was cut; None if they are not known.

    Args:
        chunk_rows: the rows of a chunk; the last chunk of a table has at most as many.
    """
    counts: list[int | None] = []
    for progress in tables:
        for number in range(len(progress.snapshots)):
            if progress.is_missing(number) and progress.split_id(number) not in progress.assigned:
                is_bounded = progress.is_cut and bool(progress.key)
                counts.append(progress.rows[number] or (chunk_rows if is_bounded else None))
    return counts
