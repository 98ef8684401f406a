"""The watermark delay that a chain tells: with it, no row that waited then is behind a watermark.

The sources are files with times, in any order, and a simulated topic whose partitions are in order; the
driver is killed at any step, also across the switch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, ClassVar, NamedTuple

import pytest

from flip27_source import (
    DiscoveringEnumerator,
    Discovery,
    EventTimeRange,
    Option,
    SourceEnd,
    SplitReader,
    hybrid,
)
from flip27_source.readers.kafka.arrow_records import record_schema
from flip27_source.readers.kafka.consumers import close_idle_consumers
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.simulator.topics import Log, LogEnumerator, LogReader, Record, SimulatedCluster, SimulatedMessage

TOPIC = "topic"
FIRST_MS = 1_700_000_000_000
SHELF: Option[str] = Option(name="shelf", parse=str, default_text="", doc="Which pieces.")


@dataclass(frozen=True)
class Piece:
    """Rows of a history, by their times in milliseconds."""

    split_id: str
    times_ms: tuple[int, ...]

    @property
    def event_time(self) -> EventTimeRange | None:
        if not self.times_ms:
            return None
        return EventTimeRange(min(self.times_ms) * 1000, max(self.times_ms) * 1000)


class Shelf(DiscoveringEnumerator[Piece]):
    """Finds all of its pieces at once, and late ones when it looks again."""

    options: ClassVar[tuple[Option[Any], ...]] = (SHELF,)
    pieces: ClassVar[Mapping[str, list[list[Piece]]]] = {}

    def discover(self, position: int | None) -> Discovery[Piece, int]:
        rounds = self.pieces[self.options_given[SHELF]]
        at = position or 0
        return Discovery(rounds[at] if at < len(rounds) else [], at + 1)

    def switch_position(self, end: SourceEnd[Piece]) -> datetime | None:
        return None if end.last is None else end.last.latest


class PieceReader(SplitReader[Piece]):
    """Rows as Kafka has them."""

    def read(self, split: Piece) -> Iterator[tuple[Any, ...]]:
        for offset, time_ms in enumerate(split.times_ms):
            at = datetime.fromtimestamp(time_ms / 1000, UTC)
            yield (None, f"{split.split_id}/{offset}".encode(), "history", 0, offset, at, 0)


class Row(NamedTuple):
    """Attributes: shelf: the number of its part, or of the topic. round: in which it was found."""

    shelf: str
    round: str
    time_ms: int

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> Row:
        name = row[1].decode()
        shelf, round_ = name.split(".")[:2] if row[2] == "history" else (TOPIC, "0")
        return cls(shelf, round_, round(row[5].timestamp() * 1000))


@dataclass
class Chain:
    """A chain of one or two histories, and perhaps a topic."""

    random: Random
    engine: MicroBatchEngine = field(init=False)
    topic_part: int | None = None
    is_aligned: bool = False

    def __post_init__(self) -> None:
        draw = self.random
        self.unit_ms = draw.choice((1, 1000, 60_000))
        Shelf.pieces = {}
        more: dict[str, Any] = {"maxFilesPerTrigger": draw.choice((1, 2, 5)), "parallelism": 1}
        parts: list[Any] = [self.history(f"{number}") for number in range(1, draw.randint(2, 3))]
        if len(parts) == 1 or draw.random() < 0.5:
            self.topic_part = len(parts) + 1
            more |= {"switchOverlap": f"{draw.choice((0, 3, 100)) * self.unit_ms}ms"}
            self.is_aligned = draw.random() < 0.7
            if self.is_aligned:
                more["maxEventTimeDrift"] = f"{draw.choice((1, 10, 100)) * self.unit_ms}ms"
            parts.append(self.topic())
        self.engine = MicroBatchEngine(hybrid(*parts, **more), schema=record_schema(include_headers=False))

    def history(self, name: str) -> tuple[type[Shelf], dict[str, Any]]:
        draw, rounds = self.random, []
        for number in range(1 + (draw.random() < 0.3)):
            found = []
            # Where an empty source is passed over is not known before.
            for place in range(draw.randint(0 if name == "1" else 1, 6)):
                begin_ms = FIRST_MS + draw.randrange(200) * self.unit_ms
                width = draw.choice((1, 1, 10, 100))
                times = [begin_ms + draw.randrange(width) * self.unit_ms for _ in range(draw.randint(1, 3))]
                found.append(Piece(f"{name}.{number}.{place}", tuple(times)))
            rounds.append(found)
        Shelf.pieces = {**Shelf.pieces, name: rounds}
        return Shelf, {
            "shelf": name,
            "reader": PieceReader,
            "eventTimeOrder": True,
            "discoveryInterval": "1h",
        }

    def topic(self) -> tuple[type[LogEnumerator], dict[str, Any]]:
        draw = self.random
        close_idle_consumers()
        cluster = LogEnumerator.cluster = SimulatedCluster(Random(0), lambda _: None)
        cluster.tells_latest = draw.random() < 0.7
        self.logs = cluster.topics["orders-0"] = [Log("orders-0", "id", number) for number in range(3)]
        for log in self.logs:
            time_ms = FIRST_MS + draw.choice((0, 0, 100)) * self.unit_ms
            for offset in range(draw.choice((0, 10, 40))):
                time_ms += draw.choice((0, 0, 1, 1, 5, 50)) * self.unit_ms
                value = f"{log}/{offset}".encode()
                message = SimulatedMessage(
                    topic=log.topic, partition=log.number, offset=offset, value=value, timestamp=(2, time_ms)
                )
                at = datetime.fromtimestamp(time_ms / 1000, UTC)
                record = Record(
                    log, offset, time_ms, message, (None, value, log.topic, log.number, offset, at, 1)
                )
                cluster.records[value] = record
                log.records.append(record)
            log.stable = len(log.records)
        return LogEnumerator, {
            "reader": LogReader, "subscribe": "orders-0", "kafka.bootstrap.servers": "simulated:9092",
            "startingTimestamp": "{switch}", "onExpiredStart": "continue", "discoveryInterval": "0ms",
        }  # fmt: skip

    def run(self) -> None:
        """Read all, with kills, and look at the watermark that Spark would have had."""
        idle = 0
        while idle < 6:
            if self.random.random() < 0.3:
                self.engine.crash_at(self.random.choice(list(Step)))
            try:
                has_read = self.engine.run_batch() is not None
            except Crashed:
                self.engine.restart()
                continue
            idle = 0 if has_read else idle + 1
            self.engine.now_ms += 0 if has_read else 61_000
        self.check()

    def check(self) -> None:
        """Each row, by every delay that was told while it waited."""
        told: list[tuple[int, int, set[str]]] = []
        before: list[Row] = []
        has_late, late = set[str](), 0
        for number, batch in enumerate(self.engine.batches):
            rows = [Row.of(row) for row in batch.rows]
            for part, delay_ms, known in told:
                self.check_rows(rows, before, part, delay_ms, known)
            has_late |= {row.shelf for row in rows if row.round == "1"}
            summary = json.loads(self.engine.logs.offsets[number])["summary"]
            part, delay_ms = summary["chainPart"], summary.get("smallestWatermarkDelayMs")
            assert (delay_ms is None) == (part == self.topic_part and not self.is_aligned)
            # Nothing is known of a second history before it starts.
            assert has_late or part == 2 != self.topic_part or summary.get("lateSplits", late) == late
            late = summary.get("lateSplits", 0) if delay_ms is not None else late
            if delay_ms is not None:
                told.append((part, delay_ms, set(has_late)))
            before += rows
        if self.topic_part is None and all(len(rounds) == 1 for rounds in Shelf.pieces.values()):
            self.check_least(max([delay_ms for _, delay_ms, _ in told], default=0))

    def check_rows(
        self, rows: list[Row], before: list[Row], part: int, delay_ms: int, late: set[str]
    ) -> None:
        """``part``: in which the delay was told. ``late``: the histories of which all was known then."""
        of_history = max((row.time_ms for row in before if row.shelf != TOPIC), default=0)
        watermark_ms = max((row.time_ms for row in before), default=0)
        for row in rows:
            if row.shelf == TOPIC:
                # Of the topic itself nothing is known before it starts.
                if part < self.topic_part - 1:
                    continue
                latest_ms = watermark_ms if part == self.topic_part else of_history
            elif int(row.shelf) == part and (row.shelf in late or len(Shelf.pieces[row.shelf]) == 1):
                latest_ms = watermark_ms
            else:
                continue
            assert row.time_ms > latest_ms - delay_ms, f"{delay_ms} ms, told in part {part}, loses {row}"

    def check_least(self, most_ms: int) -> None:
        """The largest delay that was told loses nothing, and a smaller one something."""
        for delay_ms in (most_ms, most_ms - 1)[: 1 + (most_ms > 0)]:
            latest_ms, lost = 0, 0
            for batch in self.engine.batches:
                times = [Row.of(row).time_ms for row in batch.rows]
                lost += sum(latest_ms > 0 and time_ms <= latest_ms - delay_ms for time_ms in times)
                latest_ms = max([latest_ms, *times])
            assert (lost > 0) == (delay_ms < most_ms)


@pytest.mark.parametrize("seed", range(1500, 3500))
def test_no_delay_that_a_chain_tells_loses_a_row_that_waited(seed: int) -> None:
    Chain(Random(seed)).run()
