"""The enumerator's half of the contract, which runs in the coordinator, on the driver.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

import datetime as dt
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

from .errors import ContractError, DataLossError
from .events import SourceEvent
from .options import Option, Options
from .reader import SplitReader
from .split import SplitSize, SplitT, size_of
from .values.annotations import annotation_of, handled_events, type_argument_of

ResultT = TypeVar("ResultT")
ActionT = TypeVar("ActionT")


class Boundedness(Enum):
    """Whether the run of the query is bounded (FLIP-27 Boundedness)."""

    BOUNDED = "bounded"
    """A batch read or Trigger.AvailableNow: the run reads the data that exists when it starts.

    The run ends when the first round of each ``call_async`` has ended and no subtask is assigned a split. No
    reader waits for more splits, so FLIP-27's signalNoMoreSplits has no counterpart."""
    CONTINUOUS_UNBOUNDED = "continuousUnbounded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderInfo:
    """A registered reader (FLIP-27 ReaderInfo)."""

    subtask_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, and after which pauses, failed asynchronous work is retried.

    Attributes:
        retries: maximum number of retries after the first failure.
        first_pause_s: pause before the first retry, in seconds; it doubles each time.
        longest_pause_s: upper bound of the pause, in seconds.
    """

    retries: int = 0
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0

    def pause_s(self, failures: int) -> float:
        """The pause after this number of failures in a row (1 or more)."""
        return float(min(self.longest_pause_s, self.first_pause_s * 2.0 ** min(failures - 1, 32)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A split's share of a batch's limits, in files, rows and bytes; None means no limit."""

    files: int | None = None
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedRange(Generic[SplitT]):
    """An unbounded split, bounded for one batch.

    Attributes:
        read: the part that this batch reads.
        rest: the split after that part; None if the split is finished.
    """

    read: SplitT
    rest: SplitT | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Division(Generic[SplitT]):
    """Ranges of unbounded splits, cut into parts.

    Attributes:
        parts: the parts of all ranges.
        subtasks: how many subtasks read them, at least, if there are as many parts.
    """

    parts: Sequence[SplitT]
    subtasks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The known data that is not in a batch yet.

    Attributes:
        splits: number of splits with data to read.
        rows, bytes: the amount of data in these splits; None unless it is known for all of them.
        oldest_event_time: the event time of the oldest waiting record, if known.
    """

    splits: int = 0
    rows: int | None = 0
    bytes: int | None = 0
    oldest_event_time: dt.datetime | None = None

    @classmethod
    def of(cls, sizes: Iterable[SplitSize]) -> Backlog:
        """The backlog of splits with these sizes."""
        found = list(sizes)
        rows = [size.rows for size in found if size.rows is not None]
        octets = [size.bytes for size in found if size.bytes is not None]
        return cls(
            splits=len(found),
            rows=sum(rows) if len(rows) == len(found) else None,
            bytes=sum(octets) if len(octets) == len(found) else None,
        )

    def __add__(self, other: Backlog) -> Backlog:
        """The sum of both."""
        times = [time for time in (self.oldest_event_time, other.oldest_event_time) if time is not None]
        return Backlog(
            splits=self.splits + other.splits,
            rows=None if self.rows is None or other.rows is None else self.rows + other.rows,
            bytes=None if self.bytes is None or other.bytes is None else self.bytes + other.bytes,
            oldest_event_time=min(times) if times else None,
        )


UNKNOWN_BACKLOG = Backlog(rows=None, bytes=None)


class MetricGroup:
    """Numbers that an enumerator publishes; they appear in the offset's summary and in progress events.

    Any thread may set them, including that of ``discover`` and of work for ``call_async``.
    """

    __slots__ = ("_lock", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[str, int | float] = {}
        self._lock = threading.Lock()

    @property
    def gauges(self) -> dict[str, int | float]:
        """A copy of the current numbers, by name."""
        with self._lock:
            return dict(self._numbers)

    def gauge(self, name: str, value: float) -> None:
        """Set a gauge to its newest value."""
        with self._lock:
            self._numbers[name] = value

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self._numbers[name] = self._numbers.get(name, 0) + by


class SplitEnumeratorContext(ABC, Generic[SplitT]):
    """An enumerator's interface to the coordinator (FLIP-27 SplitEnumeratorContext).

    Call methods only on the coordinator's thread, except :meth:`report_data_loss` and the methods of
    ``metrics``.
    """

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Whether this run ends when the data that exists now has been read."""

    @property
    def reads_once(self) -> bool:
        """Whether this is a batch read (``spark.read``): one checkpoint, whose state is discarded."""
        return False

    @property
    @abstractmethod
    def current_parallelism(self) -> int:
        """Number of subtasks to which splits can be assigned, numbered from 0."""

    @property
    @abstractmethod
    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        """The readers to which splits can be assigned now, by subtask."""

    @property
    @abstractmethod
    def reader_type(self) -> type[SplitReader[Any]]:
        """The class of the reader that will read the splits."""

    @property
    @abstractmethod
    def metrics(self) -> MetricGroup:
        """The enumerator's published numbers; any thread may publish them."""

    @abstractmethod
    def assign_split(self, split: SplitT, subtask_id: int | None = None) -> None:
        """Assign a split. From now on the coordinator owns the split, not the enumerator.

        Args:
            subtask_id: the subtask that reads the split, in this batch and, if it continues, in every later
                one. None is best for nearly all sources: planning then places the split so that all subtasks
                of a batch finish at the same time.
        """

    def _assign_checked(self, split: SplitT, subtask_id: int | None = None) -> None:
        """``assign_split`` for a split that was already checked."""
        self.assign_split(split, subtask_id)

    @abstractmethod
    def assign_splits(self, assignments: Mapping[int, Sequence[SplitT]]) -> None:
        """``assign_split`` for many splits, each with its subtask."""

    @abstractmethod
    def call_async(
        self,
        work: Callable[[], ResultT],
        handler: Callable[[ResultT | None, BaseException | None], None],
        *,
        period_s: float | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        """Run ``work`` on a thread, then ``handler(result, error)`` on the coordinator.

        ``work`` must not use objects that coordinator code uses. With ``period_s`` it runs again this many
        seconds after the end of the previous round. ``retry`` sets how a failed round is retried, unless a
        retry cannot succeed (ContractError, damaged or missing state); then the handler gets the error, and
        raising it fails the query. A run of the query does not report "nothing new" before the first round
        of each call has ended.
        """

    @abstractmethod
    def send_event_to_reader(self, subtask_id: int, event: SourceEvent) -> None:
        """Send an event that reaches the subtask with its next batch, exactly once.

        Events to one subtask arrive in order, before the splits of the batch; an event alone is enough for
        a batch. The reader defines ``handle_source_event``.
        """

    @abstractmethod
    def perform_after_completion(self, action: Any, *, delayed: bool = False) -> None:
        """Request a call of :meth:`PerformsActions.perform` once the present state is durable.

        If this is called in a ``notify_...`` method or in ``handle_source_event``, the action is due after
        the checkpoint that is being completed; otherwise after the next one. The action is stored in the
        state until it is done: it is performed at least once.

        Args:
            delayed: the action also waits for :meth:`PerformsActions.action_delay_s`. Millions may wait;
                only in the methods above.
        """

    @abstractmethod
    def report_data_loss(self, what: str, *, split_id: str | None = None, remedy: str | None = None) -> None:
        """Report that data was lost before it was read: it expired, or a table was dropped or recreated.

        With ``onDataLoss=report`` the loss is counted, listed in the state and logged, and the method
        returns: continue with the remaining data. The method may be called on any thread, including that of
        ``discover``, and repeatedly for the same loss, which is identified by ``what`` and ``split_id``.

        Args:
            what: the lost data, the same text each time: "offsets 17 to 403 of orders-0 have expired".
            split_id: the split that lost data, if there is one.
            remedy: what the user can do, if known.

        Raises:
            DataLossError: ``onDataLoss`` is ``fail``, the default; do not catch it.
        """


class SplitEnumerator(ABC, Generic[SplitT]):
    """Finds splits and assigns them (FLIP-27 SplitEnumerator).

    One instance lives in the driver-side process of a query. All methods are called on one
    thread. :meth:`snapshot_state` returns everything needed to continue after a restart: a typed
    value (dataclass, list, str, ...) that is stored as JSON by its type.
    The constructor takes ``(context, options, state=None)`` and sets ``self.context`` and
    ``self.options_given[MY_OPTION]``. In the class body ``options`` are the enumerator's own options,
    and ``default_reader`` is a reader's name or ``package.module:Class``.
    """

    options: ClassVar[tuple[Option[Any], ...]] = ()
    default_reader: ClassVar[str | None] = None
    repeatable: ClassVar[bool] = True
    """Whether its splits give the same rows when they are read again; see SplitReader.repeatable."""
    state_version: ClassVar[int] = 1
    split_version: ClassVar[int] = 1
    split_type: ClassVar[Any] = None
    """Type of the splits; None: the class's type argument."""
    state_type: ClassVar[Any] = None
    """Type of the state; None: the annotation of ``snapshot_state``."""
    event_types: ClassVar[tuple[type[SourceEvent], ...] | None] = None
    """Types of the events that it accepts; None: the annotation of ``handle_source_event``."""

    def __init__(self, context: SplitEnumeratorContext[SplitT], options: Options, state: Any = None) -> None:
        """``state`` is None only on the first start. Do no I/O here, but in :meth:`start`."""
        self.context = context
        self.options_given = options

    @abstractmethod
    def start(self) -> None:
        """Called once, before all other methods; call ``context.call_async`` here."""

    @abstractmethod
    def handle_split_request(self, subtask_id: int) -> None:
        """The batch has room: assign a split, or do nothing if there is none.

        Called for each subtask in turn until nothing is assigned. ``assign_split(split)`` lets planning
        choose the subtask; with ``subtask_id`` the split stays with the requesting subtask.
        """

    @abstractmethod
    def add_splits_back(self, splits: Sequence[SplitT], subtask_id: int) -> None:
        """Take back assigned splits that were not read."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Any:
        """The state at this checkpoint, without assigned splits, which the coordinator owns.

        The value must not change afterwards.
        """

    def wants_checkpoint(self) -> bool:
        """Whether to store the state even if there is nothing to read, such as a fixed start position."""
        return False

    def add_reader(self, subtask_id: int) -> None:
        """From now on splits can be assigned to this reader."""

    def handle_source_event(self, subtask_id: int, event: Any) -> None:
        """Handle a reader's event, after the checkpoint in which it was sent is complete.

        The annotation of ``event`` declares the accepted types: ``event: PageSeen | Throttled``.
        """
        raise ContractError(
            f"{type(self).__name__} got a {type(event).__name__} from subtask {subtask_id} but "
            "does not define handle_source_event",
            remedy="define handle_source_event, or do not send events from the reader",
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The batch of this checkpoint is complete. May be called twice, or late."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will never complete; the source is reset to an earlier one."""

    @classmethod
    def wants_finished_splits(cls, options: Options) -> bool:
        """Whether :meth:`notify_splits_finished` is called: by default, if it is overridden.

        If so, a restart must decode the last batch's plan.
        """
        return cls.notify_splits_finished is not SplitEnumerator.notify_splits_finished

    def notify_splits_finished(self, checkpoint_id: int, splits: Sequence[SplitT]) -> None:
        """These splits of the batch are finished; called before ``notify_checkpoint_complete``.

        May be called again after a restart.
        """

    def subtask_reset(self, subtask_id: int, checkpoint_id: int) -> None:
        """A subtask's first attempt failed and a later one succeeded (OperatorCoordinator.subtaskReset).

        Called when the batch is complete, before its events, if subtasks report. ``checkpoint_id`` is the
        checkpoint to which the subtask was reset, 0 if there is none. The later attempt has read the splits,
        so nothing needs to be done for them.
        """

    def bound_split(self, split: SplitT, budget: Budget) -> BoundedRange[SplitT] | None:
        """Bound a split for this batch (for unbounded splits); None if there is nothing to read now.

        Called at every checkpoint for every live split, with its share of the batch's limits. Called again if
        the split has used up its share and others have not, or if it returned None and its smallest step may
        exceed its share. It must have no side effects: the last result counts. The
        default reads the whole split.
        """
        return BoundedRange(read=split, rest=None)

    @classmethod
    def set_apart(cls, cut: SplitT) -> SplitT:
        """A range of ``bound_split`` that could not be read, as a split that can be retried alone.

        It needs an id of its own, because the split that it was cut from goes on, and because a task may
        read several ranges of one split. ``flip27 edit quarantine retry`` assigns it, and ``bound_split``
        gets it like any other. The default has the same id: the range is listed, and cannot be retried while
        its split is read.
        """
        return cut

    def carries_data(self, split: SplitT) -> bool:
        """Whether a split holds its data itself, such as a record that a reader has set aside.

        Called for assigned splits of an enumerator with ``bound_split``, which is not called for those that
        carry data: they are planned whole, as many of them in a batch as tasks can be given.
        """
        return False

    def readable(self, live: Sequence[SplitT]) -> Sequence[SplitT]:
        """Those live splits that ``bound_split`` is to be called for, in the same order.

        Called at every checkpoint, before ``bound_split``, with all live splits; on an idle stream that is
        many times a second. A source with thousands of splits leaves out those with nothing to read. The
        default is all of them.
        """
        return live

    def divide_ranges(self, ranges: Sequence[SplitT]) -> Division[SplitT]:
        """Cut ranges that ``bound_split`` returned into parts that different subtasks may read.

        Called once for each batch with the ranges of splits that any subtask may read. The parts of a range
        have its id, are its rows without overlap, and come in its place. The default cuts nothing.
        """
        return Division(parts=ranges)

    def backlog(self, live: Sequence[SplitT]) -> Backlog:
        """The data that waits to be read, as far as known without I/O; for monitoring and alerts.

        Called after every checkpoint. The default calls ``bound_split`` without limits for each live split,
        if the class defines it; otherwise the backlog is unknown. The coordinator adds splits that are
        assigned and not yet read.

        Args:
            live: unbounded splits, at the position after the newest batch.
        """
        if type(self).bound_split is SplitEnumerator.bound_split:
            return UNKNOWN_BACKLOG
        try:
            cuts = [self.bound_split(split, Budget()) for split in live]
        except DataLossError:
            # The next batch stops the query for this loss; the batch that is being planned need not fail.
            return UNKNOWN_BACKLOG
        return Backlog.of(size_of(cut.read) for cut in cuts if cut is not None)

    def close(self) -> None:
        """End the run; not called if the process is killed."""

    @classmethod
    def implied_options(cls, options: Options) -> Mapping[Option[Any], Any]:
        """Values of options of every source that follow from those of this one: other names of limits.

        Runs in planning processes: no I/O.

        Raises:
            OptionError: options contradict each other.
        """
        return {}

    @classmethod
    def upgrade_state(cls, version: int, raw: Any) -> Any:
        """Convert the JSON value of an older ``state_version`` to the current version."""
        raise _no_upgrade(cls, "state", version, cls.state_version)

    @classmethod
    def upgrade_split(cls, version: int, raw: Any) -> Any:
        """Convert the JSON value of a split of an older ``split_version`` to the current version."""
        raise _no_upgrade(cls, "split", version, cls.split_version)

    @classmethod
    def resolve_split_type(cls) -> Any:
        """``split_type``, or the type argument of SplitEnumerator."""
        if cls.split_type is not None:
            return cls.split_type
        found = type_argument_of(cls, SplitEnumerator)
        if found is not None:
            return found
        raise ContractError(
            f"the split type of {cls.__qualname__} is not known",
            remedy=f"write class {cls.__name__}(SplitEnumerator[YourSplit]), "
            "or set split_type = YourSplit in the class body",
        )

    @classmethod
    def resolve_event_types(cls) -> tuple[type[SourceEvent], ...]:
        """``event_types``, or the types in the annotation of ``handle_source_event``."""
        return handled_events(cls, SplitEnumerator)

    @classmethod
    def resolve_state_type(cls) -> Any:
        """``state_type``, or the return annotation of ``snapshot_state``."""
        if cls.state_type is not None:
            return cls.state_type
        return annotation_of(cls, "snapshot_state", "return", "state_type")


class PerformsActions(ABC, Generic[ActionT]):
    """Optional mix-in of an enumerator: side effects once a checkpoint is complete (R7).

    Examples: archive files, acknowledge messages, commit positions elsewhere. An enumerator requests actions
    with ``context.perform_after_completion``; each is a value that can be stored as JSON.
    """

    action_type: ClassVar[Any] = None
    """Type of the actions; None: the annotation of ``perform``."""

    @abstractmethod
    def perform(self, action: ActionT) -> None:
        """Perform an action. Runs on a thread, in parallel with others; must be idempotent.

        If it raises, it is retried at the next completion, up to ``maxActionAttempts`` times.
        """

    @classmethod
    def action_delay_s(cls, options: Options) -> float | None:
        """How long delayed actions wait after their checkpoint is complete, in seconds; None: this run
        performs none of them, and they stay in the state.

        Asked once in each run, which also applies it to actions that earlier runs have delayed.
        """
        return 0.0

    @classmethod
    def concerned(cls, actions: Sequence[ActionT], split_ids: Collection[str]) -> Sequence[bool]:
        """For each action, whether it touches the data of one of these splits.

        Called for an edit that has splits read again: such actions must no longer be performed. The default
        is True for all actions, because a skipped action loses no data.
        """
        return [True] * len(actions)

    @classmethod
    def resolve_action_type(cls) -> Any:
        """``action_type``, or the annotation of ``perform``."""
        if cls.action_type is not None:
            return cls.action_type
        return annotation_of(cls, "perform", "action", "action_type")


@runtime_checkable
class HoldsSplits(Protocol):
    """Optional mix-in of an enumerator: its state contains the splits that it has found and not assigned.

    Edits use it: a split that the enumerator holds can be skipped, and is not assigned twice.
    """

    @classmethod
    def splits_in(cls, state: Any) -> Sequence[Any]:
        """The splits in a value of ``snapshot_state``."""

    @classmethod
    def without_splits(cls, state: Any, split_ids: Collection[str]) -> Any:
        """The state without these splits; they stay known, so that discovery does not find them again."""


@runtime_checkable
class ForgetsSplits(Protocol):
    """Optional mix-in of an enumerator: its state can forget splits, so that discovery finds them again."""

    @classmethod
    def forget_splits(
        cls, state: Any, split_ids: Collection[str], *, busy: Sequence[Any], options: Options
    ) -> tuple[Any, Mapping[str, str]]:
        """The state without knowledge of these splits.

        Args:
            busy: splits that are not read yet, or quarantined: they must stay known.

        Returns:
            The state, and the reasons for splits that are not forgotten, by split id.

        Raises:
            EditError: this state cannot forget single splits.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPosition:
    """A position in a split, as ``flip27 edit set-position`` names it: exactly one attribute is set.

    Attributes:
        offset: a number that the source counts its rows by.
        timestamp_ms: the first row at this time or later, in milliseconds since 1970 UTC.
        word: ``earliest`` or ``latest``.
    """

    offset: int | None = None
    timestamp_ms: int | None = None
    word: str | None = None


@runtime_checkable
class NamesPositions(Protocol):
    """Optional mix-in of an enumerator: positions of its live splits have names, which edits use."""

    @classmethod
    def fields_at(cls, position: NamedPosition) -> Mapping[str, Any]:
        """The fields of a split at this position, with their values.

        Raises:
            EditError: the source has no such position.
        """

    @classmethod
    def rows_moved(cls, now: Mapping[str, Any], then: Mapping[str, Any]) -> int | None:
        """How many rows a change of these fields skips; below 0, how many are read again; None: not known."""


@runtime_checkable
class CutsSomeSplits(Protocol):
    """Optional mix-in of an enumerator with ``bound_split`` that plans some of its splits as a whole.

    Edits use it: such a split can be replayed.
    """

    @classmethod
    def is_cut_off(cls, split: Any) -> bool:
        """Whether a planned split is a range that was cut off another one, and cannot be read alone."""


@runtime_checkable
class LimitsRewinds(Protocol):
    """Optional mix-in of an enumerator: what an older state needs may be gone."""

    @classmethod
    def check_rewind(cls, present: Any, older: Any) -> None:
        """Check that the source can go back from one value of ``snapshot_state`` to an older one.

        Raises:
            EditError: it cannot; the rewind is refused, and the query goes on.
        """


def _no_upgrade(cls: type, what: str, version: int, current: int) -> ContractError:
    return ContractError(
        f"{cls.__qualname__} has {what} version {current}, and the stored {what} has version {version}",
        remedy=f"define upgrade_{what}(version, raw) in {cls.__name__}",
    )
