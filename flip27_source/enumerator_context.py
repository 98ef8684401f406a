"""The context that the coordinator gives an enumerator, and the values of the context's methods.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

import heapq
import math
import operator
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar, overload

from .errors import ContractError
from .events import SourceEvent
from .reader import SplitReader
from .split import SplitT

ResultT = TypeVar("ResultT")
ArgumentT = TypeVar("ArgumentT")


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


COORDINATORS_NUMBERS = frozenset({
    "splits", "files", "rows", "bytes", "waitingSplits", "liveSplits", "finishedSplits", "quarantinedSplits",
    "ignoredSplits", "dataLosses", "actionsGivenUp", "delayedActions", "positions", "checkpoint", "source",
    "backlogSplits", "backlogRows", "backlogBytes", "backlogOldestEventTime", "smallestWatermarkDelayMs",
    "lateSplits", "pausedSplits", "eventTimeHorizon", "alignmentSlowest", "replayBehindMs", "replayIsLive",
    "failedCheckpoints", "lastFailure", "lastFailureAt", "checkpointBytes", "planningMs", "writeMs",
    "restoreMs", "restoreBytes", "parts", "limitedBy",
    "lastRows", "lastBytes", "lastSlowestSubtaskMs", "lastRetriedSubtasks", "lastMaxEventTime",
})  # fmt: skip
"""The names in offsets and progress events under which no enumerator can publish a number of its own."""


MOST_PARTS = 1000
"""Of how many parts a number is published at most."""


class MetricGroup:
    """Numbers that an enumerator publishes; they appear in the offset's summary and in progress events.

    Any thread may set them, including that of ``discover`` and of work for ``call_async``. Numbers of any
    library are published as int or float.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int | float] = {}
        self._parts: dict[str, dict[str, int | float]] = {}
        self._lock = threading.Lock()

    @property
    def gauges(self) -> dict[str, int | float]:
        """The current numbers, by name, without NaN and infinity, which JSON cannot represent."""
        with self._lock:
            return {name: value for name, value in self._numbers.items() if math.isfinite(value)}

    @property
    def parts(self) -> dict[str, dict[str, int | float]]:
        """The numbers of parts, by name."""
        with self._lock:
            return dict(self._parts)

    def gauge_parts(self, name: str, values: Mapping[str, float]) -> None:
        """Set a number for each part, such as the partitions of a topic, in place of those of before.

        They are in progress events and in the driver's record, and not in offsets: those of the
        ``MOST_PARTS`` parts with the largest values.

        Raises:
            ContractError: a value is not a number, a part's name is not a str, or the coordinator uses the
                name.
        """
        _check_name(name)
        for part in values:
            if not isinstance(part, str):
                raise ContractError(f"the name of a part of {name} is {part!r}", remedy="give a str")
        numbers = {part: _number(name, value) for part, value in values.items()}
        largest = heapq.nlargest(MOST_PARTS, numbers, key=lambda part: numbers[part])
        with self._lock:
            self._parts[name] = {
                part: numbers[part] for part in sorted(largest) if math.isfinite(numbers[part])
            }

    def gauge(self, name: str, value: float) -> None:
        """Set a gauge to its newest value. While this is NaN, infinite or beyond float, it is not published.

        Raises:
            ContractError: the value is not a number, or the coordinator uses the name.
        """
        _check_name(name)
        with self._lock:
            self._numbers[name] = _number(name, value)

    def count(self, name: str, by: float = 1) -> None:
        """Add to a counter.

        Raises:
            ContractError: the value is not a number, or the coordinator uses the name.
        """
        _check_name(name)
        with self._lock:
            self._numbers[name] = _number(name, self._numbers.get(name, 0) + _number(name, by))


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise ContractError(f"the name of a metric is {name!r}", remedy="give a str")
    if name in COORDINATORS_NUMBERS:
        raise ContractError(
            f"the metric {name} is a number of the coordinator",
            remedy="publish it under another name than " + ", ".join(sorted(COORDINATORS_NUMBERS)),
        )


def _number(name: str, value: Any) -> int | float:
    """The value as int or float, whatever library it is from; infinite if it is beyond float."""
    try:
        number = int(operator.index(value)) if hasattr(value, "__index__") else value.__float__()
        return math.inf if math.isinf(number) else number
    except OverflowError:
        return math.inf
    except (AttributeError, TypeError, ValueError):
        raise ContractError(
            f"the metric {name} has the value {value!r}, which is not a number",
            remedy="publish an int, a float, or a number of another library that float() takes",
        ) from None


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

    def assign_splits(self, assignments: Mapping[int, Sequence[SplitT]]) -> None:
        """``assign_split`` for many splits, each with its subtask."""
        for subtask_id, splits in assignments.items():
            for split in splits:
                self.assign_split(split, subtask_id)

    @overload
    def call_async(
        self,
        work: Callable[[], ResultT],
        handler: Callable[[ResultT | None, BaseException | None], None],
        *,
        period_s: float | None = None,
        retry: RetryPolicy | None = None,
    ) -> None: ...
    @overload
    def call_async(
        self,
        work: Callable[[ArgumentT], ResultT],
        handler: Callable[[ResultT | None, BaseException | None], None],
        *,
        argument: Callable[[Sequence[SplitT]], ArgumentT],
        period_s: float | None = None,
        retry: RetryPolicy | None = None,
    ) -> None: ...
    @abstractmethod
    def call_async(
        self,
        work: Callable[..., ResultT],
        handler: Callable[[ResultT | None, BaseException | None], None],
        *,
        argument: Callable[[Sequence[SplitT]], Any] | None = None,
        period_s: float | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        """Run ``work`` on a thread, then ``handler(result, error)`` on the coordinator.

        ``work`` must not use objects that coordinator code uses: what it needs is its ``argument``. With
        ``period_s`` it runs again this many seconds after the end of the previous round. ``retry`` sets how a
        failed round is retried, unless a retry cannot succeed (ContractError, damaged or missing state); then
        the handler gets the error, and raising it fails the query. A run of the query does not report
        "nothing new" before the first round of each call has ended.

        Args:
            argument: makes the argument of ``work``, a value that does not change afterwards, from the live
                splits at their positions after the newest batch. It is called on the coordinator: now, after
                every handler, and when a batch is planned or complete. A round gets the newest value.
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
            delayed: the action also waits for :meth:`PerformsActions.action_delay_s`. Millions may wait.
                Allowed only in the methods above.
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
