"""Streams that grow and expire, which the reader bounds: what must be delivered, or reported as lost."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from flip27_source import Options, Progress, SplitEnumerator, SplitReader, YieldsProgress
from flip27_source.coordination.data_losses import DataLoss
from flip27_source.enumerator_context import Boundedness
from flip27_source.testing.under_test import SourceUnderTest

from .lives import DefectFound, Life
from .sources import LINE

_LOST = re.compile(r"rows (\d+) to (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A split that never ends."""

    split_id: str
    next: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """State of the enumerator: the streams that it has assigned."""

    streams: int = 0


class StreamsEnumerator(SplitEnumerator[Stream]):
    """Assigns each stream once."""

    streams: ClassVar[int] = 0

    def __init__(self, context: Any, options: Options, state: Assigned | None = None) -> None:
        super().__init__(context, options, state)
        self.assigned = (state or Assigned()).streams

    def start(self) -> None:
        pass

    def handle_split_request(self, subtask_id: int) -> None:
        if self.assigned < self.streams:
            self.context.assign_split(Stream(split_id=f"stream-{self.assigned}"))
            self.assigned += 1

    def add_splits_back(self, splits: Sequence[Stream], subtask_id: int) -> None:
        raise AssertionError("no reader of this source returns splits")

    def snapshot_state(self, checkpoint_id: int) -> Assigned:
        return Assigned(streams=self.assigned)


class StreamsReader(YieldsProgress, SplitReader[Stream]):
    """Reads what is there.

    Attributes:
        ends, starts: for each stream, the number of rows that have arrived, and of those that have expired.
        trouble: probability that reading fails before a row.
    """

    ends: ClassVar[dict[str, int]] = {}
    starts: ClassVar[dict[str, int]] = {}
    trouble: ClassVar[float] = 0.0
    random: ClassVar[random.Random]

    def read(self, split: Stream) -> Iterator[Any]:
        name = split.split_id
        until = self.context.end_positions.get(name)
        end = self.ends[name] if until is None else until.next
        start = min(self.starts[name], end)
        if split.next < start:
            self.context.report_data_loss(
                f"rows {split.next} to {start - 1} have expired", split_id=name, remedy="read more often"
            )
            yield Progress(replace(split, next=start))
        for number in range(max(split.next, start), end):
            if self.random.random() < self.trouble:
                raise ValueError("torn page")
            yield (f"{name}:{number}",)
            yield Progress(replace(split, next=number + 1))


class PagesLife(Life):
    """Streams to which rows are added; old rows expire."""

    OPTIONS: ClassVar = {
        "onSplitError": (None, "quarantine"),
        "onDataLoss": (None, "report"),
        "maxRowsPerSplit": (None, "2"),
        "maxSplitAttempts": ("1", "2"),
        "parallelism": (None, "1", "3"),
    }
    POLL_S: ClassVar = 60

    def begin(self) -> None:
        names = [f"stream-{number}" for number in range(self.random.randint(1, 3))]
        StreamsEnumerator.streams = len(names)
        StreamsReader.ends, StreamsReader.starts = dict.fromkeys(names, 3), dict.fromkeys(names, 0)
        StreamsReader.random = self.random
        StreamsReader.trouble = self.random.choice((0.0, 0.2))
        self.expires = self.random.random() < 0.5
        fixed = {"requestInterval": "1s", "pollInterval": f"{self.POLL_S}s"}
        self.options = {**fixed, **self.drawn(self.OPTIONS)}
        self.trouble_bucket()

    def given(self) -> SourceUnderTest:
        return SourceUnderTest(
            options=self.options, enumerator=StreamsEnumerator, reader=StreamsReader, schema=LINE
        )

    def arrive(self) -> None:
        name = self.random.choice(list(StreamsReader.ends))
        StreamsReader.ends[name] += self.random.randint(1, 4)
        self.of.tell(f"{name} has {StreamsReader.ends[name]} rows")
        # Rows that tasks have read and reported may be gone when the batch is repeated.
        if self.expires and (self.of.query.logs.has_uncommitted or self.random.random() < 0.2):
            StreamsReader.starts[name] = self.random.randint(
                StreamsReader.starts[name], StreamsReader.ends[name]
            )
            self.of.tell(f"{name} starts at row {StreamsReader.starts[name]}")

    def started(self) -> None:
        self.at_start = dict(StreamsReader.ends)

    def rested(self) -> None:
        """A run of Trigger.AvailableNow that ends has read what was there when it began."""
        if self.of.query.boundedness is Boundedness.BOUNDED:
            self._check_delivered(self.at_start)

    def calm(self) -> None:
        StreamsReader.trouble = 0.0
        # The remedy of the error about lost data.
        self.options["onDataLoss"] = "report"

    def check(self) -> None:
        self.of.pass_time(self.POLL_S * 1000)
        self.of.run_to_the_end()
        self.of.retry_quarantined()
        self.of.pass_time(self.POLL_S * 1000)
        self.of.run_to_the_end()
        self._check_delivered(StreamsReader.ends)
        # Streams rest: they are read again after the time of pollInterval, whatever the wall clock shows.
        self.arrive()
        self.of.set_clock(self.of.now_ms - self.random.choice((0, 3_600_000)))
        self.of.pass_time(self.POLL_S * 1000)
        self.of.run_to_the_end()
        self._check_delivered(StreamsReader.ends)

    def _check_delivered(self, ends: dict[str, int]) -> None:
        """Every row up to ``ends`` was delivered once, or was reported as lost, or is quarantined.

        Raises:
            DefectFound: rows are lost or duplicated.
        """
        found, lost = Counter(self.of.query.lines), []
        losses = self._losses()
        quarantined = {item.split.split_id: item.split.next for item in self.of.quarantined()}
        for name, end in ends.items():
            for number in range(min(end, quarantined.get(name, end))):
                is_reported = any(first <= number <= last for first, last in losses.get(name, ()))
                if not found[f"{name}:{number}"] and not is_reported:
                    lost.append(f"{name}:{number}")
        more = [row for row, times in found.items() if times > 1]
        self.of.outcome.rows = found.total()
        self.of.outcome.lost, self.of.outcome.duplicated = len(lost), len(more)
        if lost or more:
            raise DefectFound(f"lost and not reported: {lost}; duplicated: {more}; losses: {losses}")

    def _losses(self) -> dict[str, list[tuple[int, int]]]:
        """The first and last row of each range that was reported as lost, by stream."""
        ranges: dict[str, list[tuple[int, int]]] = {}
        for loss in self.of.losses():
            ranges.setdefault(str(loss.split_id), []).append(_rows_of(loss))
        return ranges


def _rows_of(loss: DataLoss) -> tuple[int, int]:
    lost = _LOST.search(loss.what)
    if lost is None:
        raise DefectFound(f"a loss does not say what is lost: {loss}")
    return int(lost[1]), int(lost[2])
