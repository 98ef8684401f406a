"""DiscoveringEnumerator: an enumerator that needs only one method.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from .enumerator import Backlog, SplitEnumerator
from .enumerator_context import Boundedness, RetryPolicy, SplitEnumeratorContext
from .enumerator_mixins import HoldsSplits
from .errors import ContractError, DataLossError, DiscoveryError, Flip27Error, StateError
from .event_time import begins_at, place_of
from .options import Options
from .segment import Segment
from .source_options import DISCOVERY_INTERVAL, DISCOVERY_RETRIES, EVENT_TIME_ORDER
from .source_progress import LooksIntoSource, ProgressTable
from .split import SplitT, size_of
from .values.annotations import annotation_of
from .values.merged_blocks import merged_blocks
from .values.stored_values import StoredValues, stored_splits

_MOST_SHOWN = 100
"""The most new splits that a look names."""

PositionT = TypeVar("PositionT")


@dataclass(frozen=True, slots=True)
class Discovery(Generic[SplitT, PositionT]):
    """The result of one round of discovery.

    Attributes:
        splits: new splits, in the order in which they should be read.
        position: a value from which the next round finds only new splits; stored in the state.
    """

    splits: Sequence[SplitT]
    position: PositionT


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPage:
    """Splits that wait to be assigned: all of ``splits`` except the first ``taken``.

    Attributes:
        split_version: the version of the stored splits.
    """

    splits: Segment
    taken: int
    split_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveringState(Generic[PositionT]):
    """State of a DiscoveringEnumerator: the position of discovery, and splits that wait."""

    position: PositionT
    pages: tuple[PendingPage, ...]


class DiscoveringEnumerator(SplitEnumerator[SplitT], HoldsSplits, LooksIntoSource):
    """An enumerator that needs only one method, :meth:`discover`.

    Discovery runs on a thread, every ``discoveryInterval``; in a bounded run once, at the start. This
    class queues the splits, assigns them in order, and stores and restores them. ``discover`` must not
    change values that other methods read, except through the position that it returns.

    With the option ``eventTimeOrder`` waiting splits are assigned in the order of their event times: of their
    attribute ``event_time`` (an EventTimeRange or None).

    Attributes:
        _waiting_changes: how often waiting splits were added, removed or given other event times.
    """

    position_type: ClassVar[Any] = None
    """Type of the position; None: the annotation of ``discover``."""
    _latest_first: bool = False
    """Whether splits that are found later are read before those that wait."""

    def __init__(self, context: SplitEnumeratorContext[SplitT], options: Options, state: Any = None) -> None:
        super().__init__(context, options, state)
        restored: DiscoveringState[Any] | None = state
        self._pages: deque[Page[SplitT]] = deque()
        self._by_event_time = options.get(EVENT_TIME_ORDER.name, False) and not context.reads_once
        self._waiting_changes = 0
        # After how many changes, all splits that wait begin at a time or later.
        self._waits_after: tuple[int, int] | None = None
        self._ahead: Any = None
        self._stored_splits = stored_splits(type(self))
        self._stored_positions = StoredValues(
            self._resolve_position_type(), f"the position of {type(self).__qualname__}", holds_segments=True
        )
        self._position: Any = None
        if restored is not None:
            self._position = self._ahead = restored.position
            self._pages.extend(self._restored(page) for page in restored.pages)
            if self._by_event_time:
                self._sort_waiting()

    @abstractmethod
    def discover(self, position: Any) -> Discovery[SplitT, Any]:
        """Find new splits since ``position`` (None the first time). Runs on a thread.

        It may raise: the round is retried, up to ``discoveryRetries`` times in a row. The result is checked
        at once: splits or a position that cannot be stored stop the query (ContractError).
        """

    def start(self) -> None:
        """Start discovery."""
        bounded = self.context.boundedness is Boundedness.BOUNDED
        self._look(None if bounded else self.options_given[DISCOVERY_INTERVAL])

    def look_again(self) -> None:
        """Look once more in a bounded run: for what has come since, and for what a listing has left out."""
        self._look(None)

    def waits_only_from(self, time_us: int) -> bool:
        """Whether splits wait, and all begin at this event time, in microseconds since 1970, or later."""
        waiting = [page for page in self._pages if page.left]
        first = [begins_at(page.splits[page.taken]) for page in waiting]
        # They tell it in nearly all cases: this is asked for each split.
        if not self._by_event_time or not first or min(first) < time_us:
            return False
        if self._waits_after != (self._waiting_changes, time_us):
            rest = chain.from_iterable(page.splits[page.taken :] for page in waiting)
            if any(begins_at(split) < time_us for split in rest):
                return False
            self._waits_after = self._waiting_changes, time_us
        return True

    def _look(self, period_s: float | None) -> None:
        self.context.call_async(
            self._discover_next,
            self._discovered,
            period_s=period_s,
            retry=RetryPolicy(retries=self.options_given[DISCOVERY_RETRIES]),
        )

    def handle_split_request(self, subtask_id: int) -> None:
        """Assign the first split in the queue."""
        while self._pages:
            page = self._pages[0]
            if page.taken == len(page.splits):
                self._pages.popleft()
                continue
            if self._by_event_time:
                page = min((page for page in self._pages if page.left), key=Page.place)
            self.context._assign_checked(page.splits[page.taken])
            page.taken += 1
            return

    def add_splits_back(self, splits: Sequence[SplitT], subtask_id: int) -> None:
        """Put the splits in front of the queue."""
        self._pages.appendleft(Page(self._in_order(splits)))
        self._waiting_changes += 1

    def look(self, live: Sequence[Any]) -> Iterator[ProgressTable]:
        """What a round of discovery finds that the state does not have."""
        found = self.discover(self._position).splits
        size = self._backlog_of(found)
        known = ((size.rows, "rows"), (size.bytes, "bytes"))
        amounts = "".join(f", {amount:,} {what}" for amount, what in known if amount)
        sizes = map(size_of, found[:_MOST_SHOWN])
        yield ProgressTable(
            title="in the source",
            said=f"{len(found):,} splits that the state does not have{amounts}",
            columns=("split", "rows", "bytes"),
            rows=[(split.split_id, one.rows, one.bytes) for split, one in zip(found, sizes, strict=False)],
        )

    @property
    def _waiting_count(self) -> int:
        """The number of splits that were found and wait to be assigned."""
        return sum(page.left for page in self._pages)

    def _waiting_splits(self) -> list[SplitT]:
        """The splits that were found and wait to be assigned, in order."""
        return self._in_order([split for page in self._pages for split in page.splits[page.taken :]])

    def _waiting_in_order(self) -> Iterator[SplitT]:
        left = (islice(page.splits, page.taken, None) for page in self._pages)
        return heapq.merge(*left, key=place_of) if self._by_event_time else chain.from_iterable(left)

    def _in_order(self, splits: Sequence[SplitT]) -> list[SplitT]:
        return sorted(splits, key=place_of) if self._by_event_time else list(splits)

    def _sort_waiting(self, change: Callable[[SplitT], SplitT] = lambda split: split) -> None:
        """Put all waiting splits in order, after ``change``; pages that are in order stay as stored."""
        self._waiting_changes += 1
        for page in self._pages:
            left = page.splits[page.taken :]
            changed = self._in_order([change(split) for split in left])
            if any(one is not other for one, other in zip(left, changed, strict=True)):
                page.replace(changed)

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """The position, and each page of waiting splits as a segment, which is written once."""
        self._publish()
        self._pages = self._merged_pages()
        pages = tuple(page.stored(self.split_version) for page in self._pages)
        return DiscoveringState(position=self._position, pages=pages)

    def backlog(self, live: Sequence[SplitT]) -> Backlog:
        """The splits that were found and wait to be assigned, and the backlog of the live splits."""
        waiting = sum((page.backlog(self._backlog_of) for page in self._pages), Backlog())
        return waiting + super().backlog(live) if live else waiting

    @staticmethod
    def _backlog_of(splits: Sequence[SplitT]) -> Backlog:
        """The backlog of waiting splits. There may be millions: subclasses may compute it faster."""
        return Backlog.of(map(size_of, splits))

    @classmethod
    def splits_in(cls, state: Any) -> Sequence[SplitT]:
        """Splits that were found and not assigned (``HoldsSplits``); empty for a state of another type."""
        if not isinstance(state, DiscoveringState):
            return []
        return [split for page in map(cls._restored, state.pages) for split in page.splits[page.taken :]]

    @classmethod
    def without_splits(
        cls, state: DiscoveringState[Any], split_ids: Collection[str]
    ) -> DiscoveringState[Any]:
        """The state without these splits; the position stays, so discovery does not find them again."""
        pages = []
        for stored in state.pages:
            page = cls._restored(stored)
            left = page.splits[page.taken :]
            kept = [split for split in left if split.split_id not in split_ids]
            pages.append(stored if len(kept) == len(left) else Page(kept).stored(cls.split_version))
        return replace(state, pages=tuple(pages))

    @classmethod
    def resolve_state_type(cls) -> Any:
        """DiscoveringState with the position type."""
        # The type is created at run time, which static checkers cannot follow.
        generic: Any = DiscoveringState
        return generic[cls._resolve_position_type()]

    @classmethod
    def _resolve_position_type(cls) -> Any:
        return annotation_of(cls, "discover", "position", "position_type")

    def _discover_next(self) -> Discovery[SplitT, Any]:
        discovery = self._checked_type(self._discovery())
        # A generator runs here, on the thread, and before the position counts as reached.
        splits = list(self._iterated(discovery.splits))
        for split in splits:
            self._stored_splits.check_split(split)
        if discovery.position is not self._ahead:
            self._stored_positions.check(discovery.position)
        self._ahead = discovery.position
        return replace(discovery, splits=splits)

    def _discovery(self) -> Discovery[SplitT, Any]:
        try:
            return self.discover(self._ahead)
        except TypeError as error:
            # Python's own error for a call with wrong arguments: the author's class is wrong.
            if str(error).startswith(f"{Discovery.__name__}.__init__()"):
                raise self._misused(f"created an incomplete Discovery: {error}") from error
            raise

    def _checked_type(self, discovery: Discovery[SplitT, Any]) -> Discovery[SplitT, Any]:
        if not isinstance(discovery, Discovery):
            raise self._misused(f"returned a {type(discovery).__name__}: {discovery!r:.200}")
        return discovery

    def _iterated(self, splits: Iterable[SplitT]) -> Iterator[SplitT]:
        try:
            return iter(splits)
        except TypeError as error:
            raise self._misused(f"returned a Discovery whose splits cannot be iterated: {error}") from error

    def _misused(self, what: str) -> ContractError:
        return ContractError(
            f"discover of {type(self).__qualname__} {what}",
            remedy="return Discovery(splits, position): a list of splits, and a position from which the next "
            "round finds only new splits",
        )

    @classmethod
    def with_splits_changed(
        cls, state: DiscoveringState[Any], change: Callable[[SplitT], SplitT]
    ) -> DiscoveringState[Any]:
        """The state with ``change`` applied to every split."""
        pages = [cls._restored(page) for page in state.pages]
        changed = [Page([change(split) for split in page.splits[page.taken :]]) for page in pages]
        return replace(state, pages=tuple(page.stored(cls.split_version) for page in changed))

    @classmethod
    def _restored(cls, page: PendingPage) -> Page[SplitT]:
        if page.split_version == cls.split_version:
            splits = page.splits.values(cls.resolve_split_type())
            page.splits.forget()
            return Page(splits, taken=page.taken, segment=page.splits)
        return Page([cls._upgraded(raw, page.split_version) for raw in page.splits.values(Any)[page.taken :]])

    @classmethod
    def _upgraded(cls, raw: Any, version: int) -> SplitT:
        upgraded = cls.upgrade_split(version, raw)
        try:
            split: SplitT = msgspec.convert(upgraded, cls.resolve_split_type())
        except msgspec.ValidationError as error:
            raise ContractError(
                f"upgrade_split of {cls.__qualname__} returned a value for version {version} that does not "
                f"match the type of its splits: {error} ({upgraded!r:.200})",
                remedy="fix upgrade_split and restart the query; nothing was changed",
            ) from error
        stored_splits(cls).check_split(split)
        return split

    def _discovered(self, discovery: Discovery[SplitT, Any] | None, error: BaseException | None) -> None:
        if discovery is None:
            raise self._not_discovered(error)
        self._position = discovery.position
        if discovery.splits:
            add = self._pages.appendleft if self._latest_first else self._pages.append
            add(Page(self._in_order(discovery.splits)))
            self._waiting_changes += 1
        self._publish()

    def _not_discovered(self, error: BaseException | None) -> BaseException:
        """The error that stops the query when discovery has failed for good."""
        if isinstance(error, ContractError | DataLossError | StateError):
            return error
        known = error if isinstance(error, Flip27Error) else None
        stops = DiscoveryError(
            f"{type(self).__name__} could not discover splits: {error if known is None else known.what}",
            remedy=f"{(known and known.remedy) or 'fix the cause'}; then restart the query: nothing is "
            "lost; option discoveryRetries sets how many failures in a row are retried",
        )
        stops.__cause__ = error
        return stops

    def _merged_pages(self) -> deque[Page[SplitT]]:
        """The pages that are not empty, in the order in which they are read; small ones are merged."""
        step = -1 if self._latest_first else 1

        def joined(pages: Sequence[Page[SplitT]]) -> Page[SplitT]:
            return Page(self._in_order([s for page in pages[::step] for s in page.splits[page.taken :]]))

        oldest_first = [page for page in self._pages if page.left][::step]
        return deque(merged_blocks(oldest_first, size_of=lambda page: page.left, join=joined)[::step])

    def _publish(self) -> None:
        self.context.metrics.gauge("pendingSplits", self._waiting_count)


class Page(Generic[SplitT]):
    """Splits that were found together; ``segment`` is set once they are encoded for storage."""

    __slots__ = ("_counted", "_sizes", "segment", "splits", "taken")

    def __init__(self, splits: Sequence[SplitT], *, taken: int = 0, segment: Segment | None = None) -> None:
        self.splits = splits
        self.taken = taken
        self.segment = segment
        self._sizes: Backlog | None = None
        self._counted = 0

    def backlog(self, of: Callable[[Sequence[SplitT]], Backlog]) -> Backlog:
        """The sizes of the remaining splits; each split is measured once when added and once when taken."""
        if self._sizes is None:
            self._sizes = of(self.splits[self.taken :])
        elif self._counted < self.taken:
            self._sizes = _without(self._sizes, of(self.splits[self._counted : self.taken]))
        self._counted = self.taken
        return self._sizes

    @property
    def left(self) -> int:
        return len(self.splits) - self.taken

    def place(self) -> float:
        """The place of its first split in event-time order."""
        return place_of(self.splits[self.taken])

    def replace(self, splits: Sequence[SplitT]) -> None:
        """Have these splits instead of those that are left."""
        self.splits, self.taken, self.segment = splits, 0, None
        self._sizes, self._counted = None, 0

    def stored(self, split_version: int) -> PendingPage:
        if self.segment is None:
            self.splits = self.splits[self.taken :]
            self.taken = 0
            self._sizes = None
            self.segment = Segment._of_values("splits", self.splits)
        return PendingPage(splits=self.segment, taken=self.taken, split_version=split_version)


def _without(whole: Backlog, part: Backlog) -> Backlog:
    return Backlog(
        splits=whole.splits - part.splits,
        rows=None if whole.rows is None or part.rows is None else whole.rows - part.rows,
        bytes=None if whole.bytes is None or part.bytes is None else whole.bytes - part.bytes,
    )
