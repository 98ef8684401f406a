"""PartContext: what the enumerator of a part sees of the coordinator: its own splits, and a bounded run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flip27_source.enumerator_context import (
    Boundedness,
    MetricGroup,
    ReaderInfo,
    RetryPolicy,
    SplitEnumeratorContext,
)
from flip27_source.enumerators.hybrid.parts import Part, PartSplit
from flip27_source.enumerators.hybrid.switch import Switch
from flip27_source.events import SourceEvent
from flip27_source.reader import SplitReader


class PartContext(SplitEnumeratorContext[Any]):
    """Passes the calls of one part's enumerator to the coordinator.

    Attributes:
        is_over: whether the next part has started: work that goes on is ignored.
    """

    def __init__(
        self,
        outer: SplitEnumeratorContext[Any],
        part: Part,
        boundedness: Boundedness,
        switch: Switch | None,
        assigned: Callable[[Any], None],
    ) -> None:
        self._outer = outer
        self._switch = switch
        self._part = part
        self._boundedness = boundedness
        self._assigned = assigned
        self.is_over = False

    @property
    def boundedness(self) -> Boundedness:
        return self._boundedness

    @property
    def current_parallelism(self) -> int:
        return self._outer.current_parallelism

    @property
    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        return self._outer.registered_readers

    @property
    def reader_type(self) -> type[SplitReader[Any]]:
        return self._part.reader_type

    @property
    def metrics(self) -> MetricGroup:
        return self._outer.metrics

    def assign_split(self, split: Any, subtask_id: int | None = None) -> None:
        self._outer.assign_split(self._part.wrapped(split, self._switch), subtask_id)
        self._assigned(split)

    def _assign_checked(self, split: Any, subtask_id: int | None = None) -> None:
        self._outer._assign_checked(self._part.wrapped(split, self._switch), subtask_id)
        self._assigned(split)

    def call_async(
        self,
        work: Callable[..., Any],
        handler: Callable[[Any, BaseException | None], None],
        *,
        argument: Callable[[Sequence[Any]], Any] | None = None,
        period_s: float | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        def handled(result: Any, error: BaseException | None) -> None:
            if not self.is_over:
                with self._part.naming_itself():
                    handler(result, error)

        def watched(*values: Any) -> Any:
            return None if self.is_over else work(*values)

        if argument is None:
            self._outer.call_async(watched, handled, period_s=period_s, retry=retry)
            return
        make = argument
        self._outer.call_async(
            watched, handled, argument=lambda live: make(self.own(live)), period_s=period_s, retry=retry
        )

    def own(self, splits: Sequence[PartSplit]) -> list[Any]:
        """Those of these splits that belong to the part, as its source has them."""
        return [split.split for split in splits if split.number == self._part.number]

    def send_event_to_reader(self, subtask_id: int, event: SourceEvent) -> None:
        self._outer.send_event_to_reader(subtask_id, self._part.wrapped_event(event, self._switch))

    def perform_after_completion(self, action: Any, *, delayed: bool = False) -> None:
        wrapped = action if self._part.action_type is None else self._part.action_type(action=action)
        self._outer.perform_after_completion(wrapped, delayed=delayed)

    def report_data_loss(self, what: str, *, split_id: str | None = None, remedy: str | None = None) -> None:
        name = None if split_id is None else self._part.split_id(split_id)
        self._outer.report_data_loss(what, split_id=name, remedy=remedy)
