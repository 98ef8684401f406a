"""Tracks: live splits whose records have event times, for tests of alignment and replay."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from flip27_source import (
    BoundedRange,
    Budget,
    DiscoveringEnumerator,
    Discovery,
    EventTimeRange,
    FollowsEventTime,
    Option,
    Options,
    SplitEnumerator,
    SplitReader,
    SplitSize,
)
from flip27_source.options import text

MINUTE_US = 60_000_000


@dataclass
class Road:
    """What a source finds: records of tracks, and pieces that are read whole.

    Attributes:
        times: the event times of the records of each track, in microseconds; tests append to them.
        closed: the tracks that end with their last record.
        pieces: the times of pieces, in the order in which they are found.
        unknown: tracks whose times are not known.
    """

    times: dict[str, list[int]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    pieces: list[tuple[int, int]] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)


ROADS: dict[str, Road] = {}
"""By the option ``road``."""
ROAD: Option[str] = Option(name="road", parse=text, default="", doc="Which of ROADS, or its times as JSON.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """The records ``next`` to ``end`` of a track; None: to the last one that there will be."""

    split_id: str
    next: int = 0
    end: int | None = None

    @property
    def size(self) -> SplitSize:
        return SplitSize(files=0, rows=None if self.end is None else self.end - self.next)


class Tracks(FollowsEventTime[Track], SplitEnumerator[Track]):
    """Cuts tracks by rows and by the horizon. Of times that go back, it knows the largest so far."""

    options: ClassVar[tuple[Option[Any], ...]] = (ROAD,)

    def __init__(self, context: Any, options: Options, state: list[str] | None = None) -> None:
        super().__init__(context, options, state)
        name = options[ROAD]
        self.road = ROADS[name] if name in ROADS else Road(times=json.loads(name))
        self._assigned = set(state or ())

    def start(self) -> None: ...

    def handle_split_request(self, subtask_id: int) -> None:
        for name in sorted(self.road.times.keys() - self._assigned)[:1]:
            self._assigned.add(name)
            self.context.assign_split(Track(split_id=name))

    def add_splits_back(self, splits: Sequence[Track], subtask_id: int) -> None:
        self._assigned -= {split.split_id for split in splits}

    def snapshot_state(self, checkpoint_id: int) -> list[str]:
        return sorted(self._assigned)

    def bound_split(self, split: Track, budget: Budget) -> BoundedRange[Track] | None:
        times = self.road.times[split.split_id]
        end = len(times) if budget.rows is None else min(len(times), split.next + budget.rows)
        reached_us = self.event_time_at(split)
        if budget.latest_us is not None and reached_us is not None:
            if reached_us > budget.latest_us:
                return None
            later = (at for at in range(split.next, end) if times[at] > budget.latest_us)
            end = next(later, end)
        if end <= split.next:
            return None
        is_over = split.split_id in self.road.closed and end == len(times)
        rest = None if is_over else replace(split, next=end)
        return BoundedRange(read=replace(split, end=end), rest=rest)

    def event_time_at(self, split: Track) -> int | None:
        times = self.road.times[split.split_id][: split.next + 1]
        return max(times) if times and split.split_id not in self.road.unknown else None


class TrackReader(SplitReader[Track]):
    """A row for each record: the track, and its number."""

    def read(self, split: Track) -> Iterator[tuple[str, int]]:
        assert split.end is not None
        yield from ((split.split_id, number) for number in range(split.next, split.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A split that is read whole."""

    split_id: str
    event_time: EventTimeRange | None


class Pieces(DiscoveringEnumerator[Piece]):
    """Finds all pieces that are there."""

    options: ClassVar[tuple[Option[Any], ...]] = (ROAD,)

    def discover(self, position: int | None) -> Discovery[Piece, int]:
        pieces = ROADS[self.options_given[ROAD]].pieces
        found = [
            Piece(split_id=f"piece-{number}", event_time=EventTimeRange(*pieces[number]))
            for number in range(position or 0, len(pieces))
        ]
        return Discovery(found, len(pieces))


class PieceReader(SplitReader[Piece]):
    def read(self, split: Piece) -> Iterator[tuple[str]]:
        yield (split.split_id,)


class AnyReader(SplitReader[Any]):
    """Reads tracks and pieces, for chains of both."""

    def read(self, split: Any) -> Iterator[tuple[str, int]]:
        inner = getattr(split, "split", split)
        if isinstance(inner, Track):
            yield from TrackReader().read(inner)
        else:
            yield inner.split_id, 0
