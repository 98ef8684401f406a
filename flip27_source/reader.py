"""The reader's half of the contract, which runs on the executors, once per split and batch.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Generic, TypeAlias

from .errors import ContractError, DataLossError, NewColumnsError, SplitReadError
from .event_time import EventTimeRange
from .events import Progress, SourceEvent
from .options import Option, Options
from .split import SplitT
from .values.annotations import handled_events

if TYPE_CHECKING:
    import pyarrow as pa

Output: TypeAlias = "Iterator[pa.RecordBatch | tuple[Any, ...] | Progress[Any]]"
"""A reader's output: Arrow batches (fast), or tuples in schema order (not both)."""


def _nowhere(event: SourceEvent) -> None:
    raise ContractError(
        f"{type(event).__name__} was sent outside a batch, where there is no coordinator",
        remedy="send events while a split is read",
    )


def _no_savepoint(name: str) -> AbstractContextManager[BinaryIO]:
    raise ContractError(
        f"a stream {name!r} was opened, but this checkpoint does not become a savepoint",
        remedy="check context.is_savepoint first",
    )


def _fatal_loss(what: str, split_id: str | None, remedy: str | None) -> None:
    raise DataLossError(what if split_id is None else f"split {split_id!r}: {what}", remedy=remedy)


def _no_quarantine(part: Any, error: str, split_id: str) -> None:
    raise SplitReadError(
        f"{part.split_id!r} of split {split_id!r} cannot be read: {error}",
        remedy="correct the options or the schema that it is read with; a stream would quarantine it in its "
        "state, but a batch read has no state",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReaderContext:
    """The context of a reader (FLIP-27 SourceReaderContext).

    Attributes:
        options: all options of the source.
        schema: the Arrow schema of the DataFrame, exactly as Spark expects it: names, order,
            types, nullability; ``timestamp`` is ``timestamp[us, UTC]``, ``timestamp_ntz`` is
            ``timestamp[us]``.
        time_zone: the session's time zone, an IANA name such as ``Europe/Berlin``.
        subtask_id: number of this subtask within its batch, from 0.
        checkpoint_id: id of the checkpoint whose plan is being read.
        checkpoint_name: lineage and document of the checkpoint, if the tasks of the batch report; otherwise
            None.
        attempt_number: 0 for the first attempt of the task, then 1, 2, ...
        end_positions: the position at which an earlier attempt of this subtask ended each split, by split id;
            None if it finished the split. If the reader yields Progress, this attempt must reach the same
            position and ends there; a reader may use it to request no data after it.
        is_savepoint: whether the checkpoint becomes a savepoint, to which the reader may add files
            (FLINK-5777).
        quarantined_before: ids of the parts that an earlier attempt of this subtask quarantined; this attempt
            must quarantine exactly these, even those that it could read.
        sent_before: the events that an earlier attempt of this subtask has sent, if its report counts: they
            reach the enumerator, and those of this attempt do not.
    """

    options: Options
    schema: pa.Schema
    time_zone: str = "UTC"
    subtask_id: int = 0
    checkpoint_id: int = 0
    checkpoint_name: str | None = None
    attempt_number: int = 0
    end_positions: Mapping[str, Any] = field(default_factory=dict)
    event_sender: Callable[[SourceEvent], None] = field(default=_nowhere, repr=False, compare=False)
    is_savepoint: bool = False
    savepoint_opener: Callable[[str], AbstractContextManager[BinaryIO]] = field(
        default=_no_savepoint, repr=False, compare=False
    )

    loss_reporter: Callable[[str, str | None, str | None], None] = field(
        default=_fatal_loss, repr=False, compare=False
    )
    quarantined_before: frozenset[str] = frozenset()
    sent_before: Sequence[SourceEvent] = ()
    part_taker: Callable[[Any, str, str], None] = field(default=_no_quarantine, repr=False, compare=False)

    def report_data_loss(self, what: str, *, split_id: str | None = None, remedy: str | None = None) -> None:
        """Report that a part of a split was lost before it was read.

        With ``onDataLoss=report`` the loss is recorded in the report of this subtask, and the method returns:
        continue with the remaining data. If the whole split is lost, raise a DataLossError instead; the
        split is then ignored.

        Raises:
            DataLossError: ``onDataLoss`` is ``fail``, the default.
        """
        self.loss_reporter(what, split_id, remedy)

    def quarantine(self, part: Any, *, error: str, split_id: str) -> None:
        """Quarantine a part of a split: its rows are not delivered, and the state keeps it to be read later.

        For a record that cannot be decoded in a split that can be read. The part is recorded with the report
        of this subtask once the batch is complete, is listed with the quarantined splits, counts towards
        ``maxQuarantinedSplits``, and is read again after ``flip27 edit quarantine retry``. ``quarantines`` of
        the reader must return True.

        Args:
            part: a split that consists of the part alone, with whatever is needed to read it later. Its id
                differs from those of all other splits and parts.
            error: why it cannot be read.
            split_id: the split that it is a part of, or for a range of a split the id that ``set_apart`` of
                the enumerator gives the range. If that split fails as a whole, its parts are not recorded.

        Raises:
            SplitReadError: this is a batch read, which has no state.
            QuarantineError: the task has quarantined more than ``maxQuarantinedSplits``.
            AttemptError: an earlier attempt has reported, and has delivered this part.
        """
        self.part_taker(part, error, split_id)

    def check_new_columns(self, found: pa.Schema, *, where: str) -> None:
        """Compare the current columns of the source with those of the DataFrame (``FindsSchema``).

        Call it in ``read``, before the first row that may have a new column. With
        ``schemaEvolutionMode=addNewColumns`` the wider schema is recorded and the query stops. After a
        restart the DataFrame has the new columns, and the batch is read again with them.

        Args:
            found: the columns of the source.
            where: what has these columns, for the error message: a table or a topic.

        Raises:
            NewColumnsError: there are new columns, and the mode does not ignore them.
        """
        if (self.options.get("schemaEvolutionMode") or "none") not in ("addNewColumns", "failOnNewColumns"):
            return
        # Imported here because `flip27 --help` imports this module, and importing pyarrow is slow.
        from .schemas.ddl import columns_text
        from .schemas.new_columns import additions

        new = additions(self.schema, found)
        if len(new):
            raise NewColumnsError(
                f"{where} has columns that the schema does not have: {columns_text(new)}",
                columns=columns_text(new),
                remedy="add them to the schema; no row of the batch was delivered",
            )

    def send_event_to_coordinator(self, event: SourceEvent) -> None:
        """Send an event to the enumerator (FLIP-27 sendSourceEventToCoordinator).

        The event is stored in this subtask's report. When the batch is complete, it reaches the enumerator's
        ``handle_source_event`` exactly once. Events arrive in the order of subtasks, and in the order in
        which a subtask sent them (FLINK-28639). With ``onSplitError=quarantine`` or ``ignore``, the events of
        a failed try to read a split are discarded with its rows. The enumerator must define
        ``handle_source_event``. In a batch read events are not delivered.
        """
        self.event_sender(event)

    def savepoint_stream(self, name: str) -> AbstractContextManager[BinaryIO]:
        """A file that the reader adds to the savepoint: ``readers/<subtask>/<name>`` in its directory.

        Use it in a ``with`` statement: at its end the complete file exists; after an exception there is no
        file. Another attempt writes the same file again.
        """
        return self.savepoint_opener(name)


class SplitReader(ABC, Generic[SplitT]):
    """Reads splits (FLIP-27 SplitReader, as one generator instead of fetch loops).

    Created without arguments, once per task. ``open`` is called first, then ``read`` for each split
    of the task in the order of the plan, then ``close``. A task may be killed at any time without
    ``close``; another attempt may read the same splits again, and must yield the same rows. A reader
    never writes anything that outlives it.

    Attributes:
        context: the SourceReaderContext, from ``open`` on.
        options: class attribute, the reader's own options as Option values.
    """

    options: ClassVar[tuple[Option[Any], ...]] = ()
    event_types: ClassVar[tuple[type[SourceEvent], ...] | None] = None
    """Types of the events that it accepts; None: the annotation of ``handle_source_event``."""
    repeatable: ClassVar[bool] = True
    """Whether every split gives the same rows when it is read again. Set it to False if rows may change, as
    in a table: a repeated task may then read newer rows, and the query is not stopped. Define
    :meth:`is_repeatable` if that differs from split to split."""
    ignored_by: ClassVar[tuple[str, ...]] = ()
    """Names of the boolean options of the reader or enumerator that leave out unreadable splits;
    ``SplitReadError.ignored_by`` names the option for an error."""

    loses_whole_splits: ClassVar[bool] = True
    """Whether ``read`` may raise a DataLossError, because nothing is left of a split. If it only calls
    ``context.report_data_loss``, set it to False: with ``onDataLoss=report`` its rows are then not buffered
    until the end of their split."""

    reads_later: ClassVar[bool] = False
    """Whether its rows only name data that the query reads later. Splits may then turn out to be unreadable
    after the report of their task: see ``flip27_source.native``."""

    @classmethod
    def quarantines(cls, options: Options) -> bool:
        """Whether, with these options, the reader may call ``context.quarantine``: its tasks then report."""
        return False

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema | None:
        """The schema if the user gives none; None if the user must give one.

        Runs in a planning process: no I/O.
        """
        return None

    def open(self, context: SourceReaderContext) -> None:
        """Called once, before the first ``read``. The default sets ``self.context``."""
        self.context = context

    def handle_source_event(self, event: Any) -> None:
        """Handle an event of the enumerator, after ``open`` and before the first ``read`` of the batch.

        The annotation of ``event`` declares the accepted types: ``event: Pause | Resume``.
        """
        raise ContractError(
            f"{type(self).__name__} got a {type(event).__name__} but does not define handle_source_event",
            remedy="define handle_source_event, or do not send events to the readers",
        )

    @abstractmethod
    def read(self, split: SplitT) -> Output:
        """Yield the rows of ``split``.

        Batches of 64k to 256k rows are fastest. Batches are cast to ``context.schema`` if they differ
        from it; otherwise this costs nothing. Raise SplitReadError (or any error) if the split cannot be
        read: the task fails, and with it the batch; no row is delivered. Raise ReturnSplit before the
        first row to return the split to the enumerator.
        """

    def is_repeatable(self, split: SplitT) -> bool:
        """Whether this split gives the same rows when it is read again; by default what ``repeatable`` says.

        A task counts as repeatable if all of its splits are.
        """
        return self.repeatable

    def must_read(self, split: SplitT) -> bool:
        """Whether the task fails if this split cannot be read, whatever ``onSplitError`` is.

        Return True for a split on which others depend: those after it could not be read without it.
        """
        return False

    def close(self) -> None:
        """Called after the last split, unless the task is killed."""

    @classmethod
    def resolve_event_types(cls) -> tuple[type[SourceEvent], ...]:
        """``event_types``, or the types in the annotation of ``handle_source_event``."""
        return handled_events(cls, SplitReader)


class YieldsProgress:
    """Optional mix-in of a reader: the reader bounds splits, because only it knows where a page ends.

    For paged APIs and queues. ``read`` starts at the position in the split, and yields a
    :class:`Progress` after every page of rows. The split's share of the batch ends at a Progress: when
    its budget (``maxRowsPerSplit``, ``maxBytesPerSplit``, ``maxSplitDuration``) is used up, or when
    ``read`` returns because there is no more data for now; the split is then read again from there, at
    once or after ``pollInterval``. ``Progress(None)`` means that the split is finished for good; it has
    no position, so if the source may still grow, yield ``Progress(None)`` only from a ``read`` without
    rows. Rows after the last Progress are an error, because no position covers them.

    If a batch is repeated (a retried task, a restart after a crash), ``read`` is called with the same
    split again and must yield the same rows. It is stopped at the position where the first attempt ended.
    Positions must therefore be reproducible: tokens that the server generates for every request are not.
    """


class ReadsTogether(ABC, Generic[SplitT]):
    """Optional mix-in of a reader: reads many splits together, which can be faster than one by one."""

    @abstractmethod
    def read_together(self, splits: Sequence[SplitT]) -> Output:
        """Yield the rows of all ``splits``, in order; called instead of ``read``."""


class KnowsConstants(ABC, Generic[SplitT]):
    """Optional mix-in of a reader: some columns have one value in all rows of a split, known in advance.

    A batch read (``spark.read``) leaves out the splits that the query's filters on these columns exclude.
    """

    @classmethod
    @abstractmethod
    def constants_of(
        cls, schema: pa.Schema, options: Options
    ) -> Callable[[SplitT], Mapping[tuple[str, ...], Any]]:
        """A function that returns the values of a split's constant columns.

        Keys are the names of a column, ``("day",)``, and of a field in it, ``("_metadata", "file_size")``.
        Values are Python values of the column's type; None for null. Columns that are not in the mapping may
        have any value. Pure.
        """


class KnowsEventTimes(ABC):
    """Optional mix-in of a reader of files: it knows the event times in a file without reading its rows."""

    @classmethod
    @abstractmethod
    def event_times(cls, split: Any, column: str, options: Options) -> EventTimeRange | None:
        """The smallest and largest time in a column; None if no row has one. Runs on threads of the driver.

        Raises:
            SplitReadError: the file is gone, or cannot be read: its task says so.
            DiscoveryError: the file can be read, and does not tell its times.
            AccessError: the file cannot be reached.
        """


class ComposedOfReaders(ABC):
    """Optional mix-in of a reader that consists of the readers of other sources."""

    @classmethod
    @abstractmethod
    def composed(cls, enumerator: type[Any]) -> type[SplitReader[Any]]:
        """The class for an enumerator that consists of sources (``ComposedOfSources``)."""


class ReadsEventTimeBuckets:
    """Optional mix-in of a reader of files: of a split with a ``bucket`` it delivers only the rows in that.

    An EventTimeBucket says of the stored rows of an Arrow batch, or of a time, what is in it (``rows_of``,
    ``has``). It must not depend on options or on the schema, which may change while buckets of a file wait.
    """


class ReadsRanges(ABC):
    """Optional mix-in of a reader of files: it can read a byte range of a file."""

    @classmethod
    @abstractmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        """Whether this file can be cut into ranges that different tasks read."""
