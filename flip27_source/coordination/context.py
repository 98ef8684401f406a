"""CoordinatorContext: the enumerator's interface to its coordinator. Pure; single-threaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ..enumerator import BoundedRange, Division, SplitEnumerator
from ..enumerator_context import Boundedness, MetricGroup, ReaderInfo, RetryPolicy, SplitEnumeratorContext
from ..errors import ContractError, DataLossError
from ..events import SourceEvent
from ..options import Options
from ..reader import SplitReader, YieldsProgress
from ..source import Source
from ..source_options import (
    MAX_ACTION_ATTEMPTS,
    MAX_PARTITION_BYTES,
    MAX_QUARANTINED_SPLITS,
    ON_ACTION_ERROR,
    ON_DATA_LOSS,
    PARALLELISM,
    POLL_INTERVAL,
)
from ..split import SplitT
from ..values.stored_values import StoredValues, stored_actions, stored_events, stored_splits
from .actions import ActionPolicy
from .data_losses import described
from .subtask_reports import ReportDemand

SentT_contra = TypeVar("SentT_contra", contravariant=True)
Handler = Callable[[Any, BaseException | None], None]


class AsyncRunner(Protocol):
    """Runs asynchronous work elsewhere; its results arrive through ``handle_result``."""

    def submit(
        self, work: Callable[[], Any], handler: Handler, period_s: float | None, retry: RetryPolicy
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """Settings that do not change during a coordinator's lifetime.

    Attributes:
        parallelism: maximum number of subtasks in a batch.
        max_partition_bytes: if set, more subtasks than parallelism are allowed, so that none gets more bytes
            than this.
        reports: whether subtasks report.
        one_batch: no checkpoint follows the first one: unbounded splits are read to their end.
        reader_bounds_splits: splits stay live until the reader finishes them.
        poll_interval_ms: pause before a split whose reader had caught up is read again.
        max_quarantined_splits: the query fails if more splits are quarantined.
    """

    boundedness: Boundedness
    parallelism: int
    max_partition_bytes: int | None
    reader_type: type[SplitReader[Any]]
    options: Options
    reports: ReportDemand = ReportDemand.NONE
    one_batch: bool = False
    reader_bounds_splits: bool = False
    poll_interval_ms: int = 0
    max_quarantined_splits: int = 0
    action_policy: ActionPolicy = field(default_factory=ActionPolicy)

    @classmethod
    def of(
        cls, source: Source, boundedness: Boundedness, *, reports: ReportDemand, one_batch: bool, cores: int
    ) -> CoordinatorSettings:
        """The settings by a source's options; ``cores`` is the parallelism if the option is not set."""
        options = source.options
        chosen = options[PARALLELISM]
        return cls(
            boundedness=boundedness,
            parallelism=chosen or cores,
            # A parallelism that the user set is kept; otherwise large batches get more tasks.
            max_partition_bytes=None if chosen else options[MAX_PARTITION_BYTES],
            reader_type=source.reader_type,
            options=options,
            reports=reports,
            one_batch=one_batch,
            reader_bounds_splits=issubclass(source.reader_type, YieldsProgress) and not one_batch,
            poll_interval_ms=round(options[POLL_INTERVAL] * 1000),
            max_quarantined_splits=options[MAX_QUARANTINED_SPLITS],
            action_policy=ActionPolicy(
                max_attempts=options[MAX_ACTION_ATTEMPTS], fail=options[ON_ACTION_ERROR] == "fail"
            ),
        )


class Coordinator(Protocol[SentT_contra]):
    """The methods of the coordinator that the context uses."""

    settings: CoordinatorSettings

    def send_split(self, split: SentT_contra, subtask_id: int | None) -> None: ...

    def send_event(self, subtask_id: int, event: SourceEvent) -> None: ...

    def add_action(self, action: Any, *, delayed: bool) -> None: ...

    def report_data_loss(self, what: str, split_id: str | None) -> None: ...


class _Argument(Generic[SplitT]):
    """The newest argument of asynchronous work, which another thread reads."""

    def __init__(self, make: Callable[[Sequence[SplitT]], Any], live: Sequence[SplitT]) -> None:
        self._make = make
        self.renew(live)

    def renew(self, live: Sequence[SplitT]) -> None:
        self.value = self._make(live)


class CoordinatorContext(SplitEnumeratorContext[SplitT], Generic[SplitT]):
    """Checks authors' values and passes them to the coordinator and the runner."""

    def __init__(
        self,
        coordinator: Coordinator[SplitT],
        runner: AsyncRunner,
        enumerator_type: type[SplitEnumerator[SplitT]],
    ) -> None:
        self._coordinator = coordinator
        self._runner = runner
        self._enumerator_type = enumerator_type
        self._metrics = MetricGroup()
        self._splits = stored_splits(enumerator_type)
        self._events = stored_events(coordinator.settings.reader_type)
        self._actions: StoredValues | None = None
        self._live: Sequence[SplitT] = ()
        self._arguments: list[_Argument[SplitT]] = []

    @property
    def boundedness(self) -> Boundedness:
        return self._coordinator.settings.boundedness

    @property
    def reads_once(self) -> bool:
        return self._coordinator.settings.one_batch

    @property
    def current_parallelism(self) -> int:
        return self._coordinator.settings.parallelism

    @property
    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        return {i: ReaderInfo(subtask_id=i) for i in range(self.current_parallelism)}

    @property
    def reader_type(self) -> type[SplitReader[Any]]:
        return self._coordinator.settings.reader_type

    @property
    def metrics(self) -> MetricGroup:
        return self._metrics

    def assign_split(self, split: SplitT, subtask_id: int | None = None) -> None:
        self._splits.check_split(split)
        self._assign_checked(split, subtask_id)

    def _assign_checked(self, split: SplitT, subtask_id: int | None = None) -> None:
        if subtask_id is not None:
            self._check_registered(subtask_id)
        self._coordinator.send_split(split, subtask_id)

    def call_async(
        self,
        work: Callable[..., Any],
        handler: Handler,
        *,
        argument: Callable[[Sequence[SplitT]], Any] | None = None,
        period_s: float | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        retry = retry or RetryPolicy()
        if argument is None:
            self._runner.submit(work, handler, period_s, retry)
            return
        newest = _Argument(argument, self._live)
        self._arguments.append(newest)

        def handled(result: Any, error: BaseException | None) -> None:
            if error is not None or period_s is None:
                self._arguments.remove(newest)  # no round follows
            handler(result, error)

        self._runner.submit(lambda: work(newest.value), handled, period_s, retry)

    def moved_on(self, live: Sequence[SplitT]) -> None:
        """Make the arguments of asynchronous work again: the enumerator or its live splits have changed."""
        self._live = live
        for argument in self._arguments:
            argument.renew(live)

    def send_event_to_reader(self, subtask_id: int, event: SourceEvent) -> None:
        self._check_registered(subtask_id)
        stored = self._events.get(type(event))
        if stored is None:
            raise ContractError(
                f"{self.reader_type.__qualname__} takes no {type(event).__name__}, but one was sent to "
                f"subtask {subtask_id}",
                remedy=f"define handle_source_event(self, event: {type(event).__name__}) in the reader",
            )
        stored.check(event)
        self._coordinator.send_event(subtask_id, event)

    def perform_after_completion(self, action: Any, *, delayed: bool = False) -> None:
        if self._actions is None:
            self._actions = stored_actions(self._enumerator_type)
        self._actions.check(action)
        self._coordinator.add_action(action, delayed=delayed)

    def report_data_loss(self, what: str, *, split_id: str | None = None, remedy: str | None = None) -> None:
        if self._coordinator.settings.options.get(ON_DATA_LOSS.name, "fail") == "fail":
            raise DataLossError(described(what, split_id), remedy=remedy)
        self._coordinator.report_data_loss(what, split_id)

    def check_range(self, split: SplitT, cut: BoundedRange[SplitT]) -> None:
        """Refuse a result of ``bound_split`` that cannot be stored or belongs to another split.

        Raises:
            ContractError: the result is invalid.
        """
        if not isinstance(cut, BoundedRange):
            raise ContractError(
                f"bound_split of {self._enumerator_type.__qualname__} returned a {type(cut).__name__} for "
                f"split {split.split_id!r}",
                remedy="return BoundedRange(read=..., rest=...), or None if there is nothing to read now",
            )
        if cut.read is not split:  # which was checked when it was assigned
            self._splits.check_split(cut.read)
        if cut.rest is None:
            return
        self._splits.check_split(cut.rest)
        if cut.rest.split_id != split.split_id:
            raise ContractError(
                f"bound_split of split {split.split_id!r} returned a rest with the id {cut.rest.split_id!r}",
                remedy="keep split_id; only the position may change",
            )

    def check_division(self, ranges: Sequence[SplitT], division: Division[SplitT]) -> None:
        """Refuse a result of ``divide_ranges`` that cannot be stored or does not consist of these ranges.

        Raises:
            ContractError: the result is invalid.
        """
        if not isinstance(division, Division):
            raise ContractError(
                f"divide_ranges of {self._enumerator_type.__qualname__} returned a {type(division).__name__}",
                remedy="return Division(parts=...)",
            )
        if division.parts is ranges:
            return
        for part in division.parts:
            self._splits.check_split(part)
        given = {split.split_id for split in ranges}
        got = {part.split_id for part in division.parts}
        if given != got:
            odd = sorted(given ^ got)[:3]
            raise ContractError(
                f"divide_ranges of {self._enumerator_type.__qualname__} left out or added splits: {odd}",
                remedy="return every range, whole or in parts that keep split_id",
            )

    def _check_registered(self, subtask_id: int) -> None:
        if not 0 <= subtask_id < self.current_parallelism:
            raise ContractError(
                f"subtask {subtask_id} is not registered: there are {self.current_parallelism} subtasks, "
                "numbered from 0",
                remedy="assign to a subtask of context.registered_readers",
            )
