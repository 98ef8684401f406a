"""DiscoveringEnumerator: the short way to an enumerator, one method.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from .enumerator import (
    Boundedness,
    RetryPolicy,
    SplitEnumerator,
    SplitEnumeratorContext,
    annotation_of,
)
from .errors import DiscoveryError
from .options import Options
from .segment import Segment
from .source_options import DISCOVERY_INTERVAL, DISCOVERY_RETRIES
from .split import SplitT, size_of

PositionT = TypeVar("PositionT")


@dataclass(frozen=True, slots=True)
class Discovery(Generic[SplitT, PositionT]):
    """What one round of discovery found.

    Attributes:
        splits: new splits, in the order in which they shall be read.
        position: what the next round needs to find only what is new; stored in the state.
    """

    splits: Sequence[SplitT]
    position: PositionT


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPage:
    """Splits of one round that wait to be assigned: all of ``splits`` but the first ``taken``."""

    splits: Segment
    taken: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveringState(Generic[PositionT]):
    """State of a DiscoveringEnumerator: where discovery stands and what it found ahead."""

    position: PositionT
    pages: tuple[PendingPage, ...]


class DiscoveringEnumerator(SplitEnumerator[SplitT]):
    """An enumerator made of one method, :meth:`discover`.

    Discovery runs on a thread, every ``discoveryInterval``; in a bounded run once, at the start.
    What it finds is queued, handed out in order, stored and restored here. ``discover`` must not
    change what other methods read, except through the position it returns.
    """

    position_type: ClassVar[Any] = None
    """Type of the position; taken from the annotation of ``discover`` when None."""

    def __init__(self, context: SplitEnumeratorContext[SplitT], options: Options, state: Any = None) -> None:
        super().__init__(context, options, state)
        restored: DiscoveringState[Any] | None = state
        self._pages: deque[_Page[SplitT]] = deque()
        self._ahead: Any = None
        self._position: Any = None
        if restored is not None:
            self._position = self._ahead = restored.position
            split_type = self.resolve_split_type()
            for page in restored.pages:
                splits = page.splits.values(split_type)
                self._pages.append(_Page(splits, taken=page.taken, segment=page.splits))
                page.splits.forget()

    @abstractmethod
    def discover(self, position: Any) -> Discovery[SplitT, Any]:
        """Find what is new since ``position`` (None the first time). Runs on a thread.

        May raise: the round is tried again, up to ``discoveryRetries`` times in a row.
        """

    def start(self) -> None:
        """Begin to discover."""
        bounded = self.context.boundedness is Boundedness.BOUNDED
        self.context.call_async(
            self._discover_next,
            self._discovered,
            period_s=None if bounded else self.options_given[DISCOVERY_INTERVAL],
            retry=RetryPolicy(retries=self.options_given[DISCOVERY_RETRIES]),
        )

    def handle_split_request(self, subtask_id: int) -> None:
        """Assign the split that was found first."""
        while self._pages:
            page = self._pages[0]
            if page.taken < len(page.splits):
                self.context.assign_split(page.splits[page.taken], subtask_id)
                page.taken += 1
                return
            self._pages.popleft()
        if self.context.boundedness is Boundedness.BOUNDED:
            self.context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits: Sequence[SplitT], subtask_id: int) -> None:
        """Put the splits in front of the queue."""
        self._pages.appendleft(_Page(list(splits)))

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """The position, and each page of waiting splits as a segment that is written once."""
        self._publish()
        pages = tuple(page.stored() for page in self._pages if page.taken < len(page.splits))
        return DiscoveringState(position=self._position, pages=pages)

    def pending_splits(self) -> Iterator[SplitT]:
        """The splits that were found and not yet assigned, in order."""
        for page in self._pages:
            yield from page.splits[page.taken :]

    @classmethod
    def resolve_state_type(cls) -> Any:
        """DiscoveringState of the position type."""
        position_type = cls.position_type
        if position_type is None:
            position_type = annotation_of(cls, "discover", "position", "position_type")
        # A type made at run time, which static checkers cannot follow.
        generic: Any = DiscoveringState
        return generic[position_type]

    def _discover_next(self) -> Discovery[SplitT, Any]:
        found = self.discover(self._ahead)
        self._ahead = found.position
        return found

    def _discovered(self, found: Discovery[SplitT, Any] | None, error: BaseException | None) -> None:
        if found is None:
            raise DiscoveryError(
                f"{type(self).__name__} could not discover splits: {error}",
                remedy="mend the cause and restart the query: nothing is lost; "
                "option discoveryRetries sets how many failures in a row are borne",
            ) from error
        self._position = found.position
        if found.splits:
            self._pages.append(_Page(found.splits))
        self._publish()

    def _publish(self) -> None:
        waiting = sum(len(page.splits) - page.taken for page in self._pages)
        self.context.metrics.gauge("pendingSplits", waiting)


class _Page(Generic[SplitT]):
    __slots__ = ("segment", "splits", "taken")

    def __init__(self, splits: Sequence[SplitT], *, taken: int = 0, segment: Segment | None = None) -> None:
        self.splits = splits
        self.taken = taken
        self.segment = segment

    def stored(self) -> PendingPage:
        if self.segment is None:
            self.splits = self.splits[self.taken :]
            self.taken = 0
            self.segment = Segment.of_values("splits", self.splits)
        return PendingPage(splits=self.segment, taken=self.taken)


def backlog_bytes(enumerator: DiscoveringEnumerator[Any]) -> int:
    """Known bytes of the splits that wait, for reports."""
    return sum(size_of(split).bytes or 0 for split in enumerator.pending_splits())
