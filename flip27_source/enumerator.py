"""The enumerator's half of the contract, which runs in the coordinator, on the driver.

SplitEnumerator, and the values that its methods take and return. Its interface to the coordinator is in
``enumerator_context``, its optional mix-ins are in ``enumerator_mixins``. Pure: no pyspark, no I/O.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic

from .enumerator_context import SplitEnumeratorContext
from .errors import ContractError, DataLossError
from .event_time import EventTimeRange
from .events import SourceEvent
from .options import Option, Options
from .split import SplitSize, SplitT, size_of
from .values.annotations import annotation_of, handled_events, type_argument_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A split's share of a batch's limits, in files, rows and bytes; None means no limit.

    Attributes:
        latest_us: the horizon of the batch, in microseconds since the epoch (UTC): no record with a later
            event time, as far as the enumerator knows the times (``FollowsEventTime``).
    """

    files: int | None = None
    rows: int | None = None
    bytes: int | None = None
    latest_us: int | None = None


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
        known = list(sizes)
        rows = [size.rows for size in known if size.rows is not None]
        octets = [size.bytes for size in known if size.bytes is not None]
        return cls(
            splits=len(known),
            rows=sum(rows) if len(rows) == len(known) else None,
            bytes=sum(octets) if len(octets) == len(known) else None,
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

    def numbers(self) -> dict[str, int | str]:
        """What is known of it, by the names that offsets and progress events use."""
        amounts = {"backlogRows": self.rows, "backlogBytes": self.bytes}
        numbers: dict[str, int | str] = {name: value for name, value in amounts.items() if value is not None}
        if self.splits or numbers:
            numbers["backlogSplits"] = self.splits
        if self.oldest_event_time is not None:
            numbers["backlogOldestEventTime"] = self.oldest_event_time.isoformat()
        return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEnd(Generic[SplitT]):
    """A source of a chain that has been read to its end.

    Attributes:
        began: when it was started for the first time, by the driver's clock.
        last: the event times of the split that ends last; None if no split has any.
        live: the live splits, at the positions that they have reached.
    """

    began: dt.datetime
    last: EventTimeRange | None
    live: Sequence[SplitT]


UNKNOWN_BACKLOG = Backlog(rows=None, bytes=None)


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
    """False: its splits may give other rows when they are read again; see SplitReader.repeatable."""
    state_version: ClassVar[int] = 1
    split_version: ClassVar[int] = 1
    split_type: ClassVar[Any] = None
    """Type of the splits; None: the class's type argument."""
    state_type: ClassVar[Any] = None
    """Type of the state; None: the annotation of ``snapshot_state``."""
    position_names: ClassVar[Mapping[str, str]] = {}
    """Names of fields in its splits, by path: with ``{"log.first": "lsn"}`` summaries and ``flip27 state
    splits`` show ``lsn=500``, and ``set-position`` takes ``{"lsn": 500}``."""
    event_types: ClassVar[tuple[type[SourceEvent], ...] | None] = None
    """Types of the events that it accepts; None: the annotation of ``handle_source_event``."""
    switch_defaults: ClassVar[Mapping[str, str]] = {}
    """Options, by name, that it has in a chain if it starts where the source before has ended."""

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

        May be called again after a restart. Also called for the last batch before a restored savepoint or a
        rewind; the actions requested then are dropped.
        """

    def notify_splits_quarantined(self, checkpoint_id: int, splits: Sequence[SplitT]) -> None:
        """These were added to the quarantine, each as a retry reads it: whole splits, ranges
        (:meth:`set_apart`), and parts that the reader has quarantined.

        Otherwise as :meth:`notify_splits_finished`, which names those that a retry has read.
        """

    def notify_splits_given_up(self, checkpoint_id: int, splits: Sequence[SplitT]) -> None:
        """These splits of the batch were quarantined or ignored as a whole; otherwise as
        :meth:`notify_splits_finished`. A split that is retried later is not assigned again.
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
        exceed its share. It must have no side effects: the last result counts. The default reads the whole
        split.
        """
        return BoundedRange(read=split, rest=None)

    @classmethod
    def set_apart(cls, cut: SplitT) -> SplitT:
        """Turn a range of ``bound_split`` that could not be read into a split that can be retried alone.

        The result needs a different id, because the split that it was cut from continues, and because a task
        may read several ranges of one split. ``flip27 edit quarantine retry`` assigns it, and
        ``bound_split`` gets it like any other split. The default keeps the id: the range is listed, but
        cannot be retried while the split that it was cut from is read.
        """
        return cut

    def carries_data(self, split: SplitT) -> bool:
        """Whether a split holds its data itself, such as a quarantined record.

        Called for assigned splits of an enumerator with ``bound_split``, which is not called for those that
        carry data: they are planned whole, and their total size in one batch is limited.
        """
        return False

    def readable(self, live: Sequence[SplitT]) -> Sequence[SplitT]:
        """The live splits that ``bound_split`` should be called for, in the same order.

        Called at every checkpoint, before ``bound_split``, with all live splits; on an idle stream that is
        many times a second. A source with thousands of splits leaves out those with nothing to read. The
        default returns all of them.
        """
        return live

    def divide_ranges(self, ranges: Sequence[SplitT]) -> Division[SplitT]:
        """Cut ranges that ``bound_split`` returned into parts that different subtasks may read.

        Called once for each batch with the ranges of splits that any subtask may read. The parts of a range
        have its id, cover its rows without overlap, and replace it in the result. ``set_apart`` gives each
        part an id of its own, otherwise a stream reads the ranges whole. The default cuts nothing.
        """
        return Division(parts=ranges)

    def backlog(self, live: Sequence[SplitT]) -> Backlog:
        """The known data that waits to be read; for monitoring and alerts. Does no I/O.

        Called after every checkpoint. The default calls ``bound_split`` without limits for each live split,
        if the class defines it; otherwise the backlog is unknown. The coordinator adds splits that are
        assigned and not yet read.

        Args:
            live: unbounded splits, at the position after the newest batch, and splits that wait to become
                live (``CutsSomeSplits``).
        """
        if type(self).bound_split is SplitEnumerator.bound_split:
            return UNKNOWN_BACKLOG
        try:
            cuts = [self.bound_split(split, Budget()) for split in live]
        except DataLossError:
            # The next batch stops the query for this loss; the batch that is being planned need not fail.
            return UNKNOWN_BACKLOG
        return Backlog.of(size_of(cut.read) for cut in cuts if cut is not None)

    def end_of_data(self, live: Sequence[SplitT]) -> bool:
        """Nothing is left to read: every batch is complete, no split waits, and no live split has data now.

        Called when the next batch would be empty, once no first round of asynchronous work is awaited. If it
        returns True, the live splits are finished, and planning goes on with what the enumerator has then.
        """
        return False

    @classmethod
    def beginning(cls, options: Options) -> dt.datetime | None:
        """The event time at which the data of the source begins, for ``readUntil=next`` of the source before
        it in a chain; None: the source before has to be read to its end. Runs on a thread; I/O is allowed.
        """
        return None

    @classmethod
    def left_at_end(cls, options: Options) -> tuple[str, str] | None:
        """What a bounded run leaves for a later one although it exists, and the remedy; None: nothing.

        In a chain no later run follows.
        """
        return None

    @classmethod
    def starts_now(cls, start_options: Mapping[str, str]) -> bool:
        """Whether a start with these options, by name, begins at the present end of the data.

        A chain cannot be rewound to before such a start, because the data since then would not come again.
        """
        return False

    @classmethod
    def switch_kind(cls, options: Options) -> str | None:
        """What :meth:`switch_position` will tell: ``time`` or ``text``; None: nothing. No I/O.

        The default follows from the annotation of its result.
        """
        if cls.switch_position is SplitEnumerator.switch_position:
            return None
        told = str(cls.switch_position.__annotations__.get("return", ""))
        return "text" if "str" in told and "datetime" not in told else "time"

    def switch_position(self, end: SourceEnd[SplitT]) -> dt.datetime | str | None:
        """Where the source has ended, and the next source of a chain starts: docs/hybrid.md.

        Called once, at the end of its data (FLIP-150: the switch of a HybridSource). What it returns becomes
        the ``{switch}`` in the options of the next source. With ``eventTimeOrder`` it is also called before,
        for the watermark delay that the switch will need: it has no side effects.

        Returns:
            An event time; or the text of another place, such as a number or an LSN. None: the source was
            empty, so the next one starts at its beginning. The default is the largest event time.
        """
        return None if end.last is None else end.last.latest

    def close(self) -> None:
        """End the run; not called if the process is killed."""

    @classmethod
    def implied_options(cls, options: Options) -> Mapping[Option[Any], Any]:
        """Values of common options that this source's own options imply, such as limits under other names.

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

    def _waiting_in_order(self) -> Iterator[SplitT]:
        """The splits that are not assigned, in the order in which they will be, as far as it is known."""
        return iter(())

    _by_event_time = False
    """Whether splits that wait are handed out in the order of their event times."""

    def _read_now(self, splits: Iterable[Any]) -> tuple[SplitEnumerator[Any], list[Any]]:
        """The enumerator of the source that is read now, and those of these splits that are its own."""
        return self, list(splits)

    def _to_be_read(self, waiting: Sequence[Any]) -> tuple[Sequence[Any], int | None]:
        """Those of the splits that wait in event-time order that will be read, and the smallest time, in
        microseconds since the epoch, in the source of a chain that follows them; None: not known."""
        return waiting, None

    @classmethod
    def _has_buckets(cls, state: Any) -> bool:
        """Whether the splits of a state may be buckets of files, which older libraries read whole."""
        return False

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
            remedy=f"write class {cls.__name__}(SplitEnumerator[YourSplit]), or SplitEnumerator[Chunk | Log] "
            "for two kinds of split, or set split_type in the class body",
        )

    @classmethod
    def resolve_event_types(cls) -> tuple[type[SourceEvent], ...]:
        """``event_types``, or the types in the annotation of ``handle_source_event``."""
        return handled_events(cls, SplitEnumerator)

    @classmethod
    def resolve_state_type(cls) -> Any:
        """``state_type``, or the return annotation of ``snapshot_state``."""
        return annotation_of(cls, "snapshot_state", "return", "state_type")


def _no_upgrade(cls: type, what: str, version: int, current: int) -> ContractError:
    return ContractError(
        f"{cls.__qualname__} has {what} version {current}, and the stored {what} has version {version}",
        remedy=f"define upgrade_{what}(version, raw) in {cls.__name__}",
    )
