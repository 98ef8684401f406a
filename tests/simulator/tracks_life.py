"""Aligned sources in a simulation: tracks, pieces that are read whole, or a chain of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

from flip27_source import SplitReader, hybrid
from flip27_source.coordination.checkpoints import Snapshot
from flip27_source.enumerators.hybrid.enumerator import HybridEnumerator
from flip27_source.event_time import event_time_of
from flip27_source.source_options import REPLAY_SPEED
from flip27_source.testing.under_test import SourceUnderTest
from tests.timed_tracks import MINUTE_US, ROADS, Pieces, Road, Track, Tracks

from .lives import DefectFound, Life
from .sources import LINE

_MOST_WAITS = 12
"""After the last record, a track may wait for each of the others until that counts as idle."""


class LineReader(SplitReader[Any]):
    """A row for each record of a track, and one for a piece."""

    def read(self, split: Any) -> Iterator[tuple[str]]:
        own = getattr(split, "split", split)
        numbers = range(own.next, own.end or 0) if isinstance(own, Track) else [0]
        yield from ((f"{own.split_id}:{number}",) for number in numbers)


class TracksLife(Life):
    """Tracks and pieces that run ahead of each other; their options change, and all is delivered once."""

    keeps_data = True
    OPTIONS: ClassVar = {
        "maxEventTimeDrift": (None, "1 minute", "10 minutes", "10 minutes"),
        "replaySpeed": (None, None, None, "1000", "1e6", "1e9"), "alignmentTimeout": (None, "1s"),
        "maxRowsPerTrigger": (None, "1", "3", "10"),
        "maxFilesPerTrigger": (None, "1", "3"), "taskReports": (None, "always"),
        "parallelism": (None, "1", "3"),
    }  # fmt: skip

    def begin(self) -> None:
        draw, of = self.random, self.of
        # Part of the state of a chain, and so of its files' names.
        self._now_us = HybridEnumerator.now_us
        HybridEnumerator.now_us = staticmethod(lambda: of.now_ms * 1000)  # type: ignore[method-assign]
        self.road = Road()
        self.name = f"simulated-{self.of.outcome.seed}"
        ROADS[self.name] = self.road
        self.kind = draw.choice(("tracks", "tracks", "pieces", "chain", "two"))
        self.is_ordered = draw.random() < 0.5
        if self.kind != "pieces":
            self.road.times = {f"track-{number}": [] for number in range(draw.randint(1, 4))}
        if self.kind == "chain":
            self._add_pieces()
        # The tracks of a first source, of which no more records come.
        self.first = Road(times={f"first-{number}": [] for number in range(2 if self.kind == "two" else 0)})
        ROADS[f"{self.name}-first"] = self.first
        for times in self.first.times.values():
            times += [draw.randint(0, 10) * MINUTE_US * number for number in range(draw.randint(1, 8))]
            times.sort()
        given = {"road": self.name, "reader": f"{__name__}:LineReader"}
        ordered = given | {"eventTimeOrder": "true"}
        if self.kind == "chain":
            self.options = hybrid((Pieces, ordered), (Tracks, given))
        elif self.kind == "two":
            self.options = hybrid((Tracks, given | {"road": f"{self.name}-first"}), (Tracks, given))
        else:
            self.options = ordered if self.kind == "pieces" else given
            kind = Pieces if self.kind == "pieces" else Tracks
            self.options |= {"enumerator": f"{kind.__module__}:{kind.__qualname__}"}
        self.options |= {"requestInterval": "1s", **self.drawn(self.OPTIONS)}
        self.trouble_bucket()

    def end(self) -> None:
        HybridEnumerator.now_us = staticmethod(self._now_us)  # type: ignore[method-assign]
        del ROADS[self.name], ROADS[f"{self.name}-first"]

    def given(self) -> SourceUnderTest:
        return SourceUnderTest(options=self.options, schema=LINE)

    def arrive(self) -> None:
        draw = self.random
        if self.kind == "pieces":
            self._add_pieces()
            return
        names = sorted(self.road.times)
        for name in draw.sample(names, draw.randint(1, len(names))):
            times = self.road.times[name]
            for _ in range(draw.randint(1, 6)):
                step = draw.choice((0, 1, 3, 30)) if self.is_ordered else draw.randint(-20, 30)
                times.append((times[-1] if times else 0) + step * MINUTE_US)
            self.of.tell(f"{name} has {len(times)} records")

    def _add_pieces(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            first = self.random.randint(0, 90)
            last = first + self.random.choice((0, 3, 60))
            self.road.pieces.append((first * MINUTE_US, last * MINUTE_US))

    def check_document(self, before: Snapshot[Any] | None, snapshot: Snapshot[Any]) -> None:
        """Check that at most one unit of a batch is later than its horizon, and none in a replay."""
        if snapshot.horizon is None or snapshot.metadata.edits:
            return
        planned = [split for item in snapshot.plan.assignments for split in item.splits]
        latest = {split.split_id: self._latest_us(split) for split in planned}
        late = [name for name, time in latest.items() if time > snapshot.horizon.latest_us]
        if len(late) > (snapshot.horizon.slowest != REPLAY_SPEED.name):
            raise DefectFound(
                f"{late} are later than the horizon of checkpoint {snapshot.metadata.checkpoint_id}"
            )

    def _latest_us(self, split: Any) -> int:
        own = getattr(split, "split", split)
        if isinstance(own, Track):
            return max(self._times[own.split_id][own.next : own.end])
        times = event_time_of(own)
        return 0 if times is None else times.latest_us

    @property
    def _times(self) -> dict[str, list[int]]:
        return self.first.times | self.road.times

    def check(self) -> None:
        for number in range(_MOST_WAITS):
            if number < 2:
                self.arrive()
            self.of.run_to_the_end()
            self.of.wait(100_000)
        expected = Counter(f"piece-{number}:0" for number in range(len(self.road.pieces)))
        for name, times in self._times.items():
            expected.update(f"{name}:{number}" for number in range(len(times)))
        self.of.check_rows(expected)
