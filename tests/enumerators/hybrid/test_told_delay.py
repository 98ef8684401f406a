"""The watermark delay that a chain tells: with it, no row that waited then is behind a watermark.

The sources are files with times, in any order, and a simulated topic whose partitions are in order; the
driver is killed at any step, also across the switch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
    Options,
    SourceEnd,
    SplitReader,
    hybrid,
)
from flip27_source.errors import OptionError
from flip27_source.readers.kafka.arrow_records import record_schema
from flip27_source.readers.kafka.consumers import close_idle_consumers
from flip27_source.source import Source
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.simulator.topics import Log, LogEnumerator, LogReader, Record, SimulatedCluster, SimulatedMessage

TOPIC = "topic"
HOUR_MS = 3_600_000
FIRST_MS = 1_700_000_000_000
SHELF: Option[str] = Option(name="shelf", parse=str, default_text="", doc="Which pieces.")


SINCE: Option[str] = Option(name="since", parse=str, default_text="", doc="Not used.")


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

    options: ClassVar[tuple[Option[Any], ...]] = (SHELF, SINCE)
    begins: ClassVar[datetime | None] = None
    pieces: ClassVar[Mapping[str, list[list[Piece]]]] = {}

    def discover(self, position: int | None) -> Discovery[Piece, int]:
        rounds = self.pieces[self.options_given[SHELF]]
        at = position or 0
        return Discovery(rounds[at] if at < len(rounds) else [], at + 1)

    @classmethod
    def beginning(cls, options: Options) -> datetime | None:
        return cls.begins

    def switch_position(self, end: SourceEnd[Piece]) -> datetime | None:
        return None if end.last is None else end.last.latest


class PieceReader(SplitReader[Piece]):
    """Rows as Kafka has them."""

    def read(self, split: Piece) -> Iterator[tuple[Any, ...]]:
        for offset, time_ms in enumerate(split.times_ms):
            at = datetime.fromtimestamp(time_ms / 1000, UTC)
            yield (None, f"{split.split_id}/{offset}".encode(), "history", 0, offset, at, 0)


def shelf(name: str, **more: Any) -> tuple[type[Shelf], dict[str, Any]]:
    given = {"shelf": name, "reader": PieceReader, "eventTimeOrder": True, "discoveryInterval": "1h"}
    return Shelf, {**given, **more}


def topic_part() -> tuple[type[LogEnumerator], dict[str, Any]]:
    return LogEnumerator, {
        "reader": LogReader, "subscribe": "orders-0", "kafka.bootstrap.servers": "simulated:9092",
        "startingTimestamp": "{switch}", "onExpiredStart": "continue", "discoveryInterval": "0ms",
    }  # fmt: skip


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
        draw, rounds = self.random, list[list[Piece]]()
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
        return shelf(name)

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
        return topic_part()

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


@pytest.mark.parametrize("seed", [*range(6), 30, 76, 271, 608])
def test_no_delay_that_a_chain_tells_loses_a_row_that_waited(seed: int) -> None:
    Chain(Random(seed)).run()


def pieces(*hours: tuple[int, ...]) -> list[Piece]:
    return [
        Piece(f"1.0.{hours.index(one)}", tuple(FIRST_MS + hour * HOUR_MS for hour in one)) for one in hours
    ]


def told(
    first: Sequence[Piece], *more: tuple[Any, dict[str, Any]], **options: Any
) -> tuple[list[int | None], MicroBatchEngine]:
    """The delays of the batches, in hours and a few milliseconds, and the query."""
    Shelf.pieces = {**Shelf.pieces, "1": [list(first)]}
    until = {"readUntil": "next"} if options.pop("until_next", False) else {}
    chain = hybrid(shelf("1", **until), *more, parallelism=1, **options)
    engine = MicroBatchEngine(chain, schema=record_schema(include_headers=False))
    engine.process_all_available()
    summaries = [json.loads(offset)["summary"] for offset in engine.logs.offsets]
    delays = [one.get("smallestWatermarkDelayMs") for one in summaries]
    return [None if ms is None else ms // HOUR_MS for ms in delays], engine


def empty_topic() -> tuple[type[LogEnumerator], dict[str, Any]]:
    LogEnumerator.cluster = SimulatedCluster(Random(0), lambda _: None)
    LogEnumerator.cluster.topics["orders-0"] = [Log("orders-0", "id", 0)]
    return topic_part()


def test_a_switch_needs_the_overlap_and_says_so_before_it_is_reached(
    caplog: pytest.LogCaptureFixture,
) -> None:
    delays, _ = told(
        pieces((0,), (1,), (2,)),
        empty_topic(),
        maxFilesPerTrigger=1,
        switchOverlap="2 hours",
        watermarkDelay="1 hour",
    )
    assert delays[:3] == [2, 2, 2]
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [one for one in warnings if "watermarkDelay is 3600 s" in one and "switchOverlap" in one] == [
        warnings[0]
    ]


def test_the_order_holds_for_files_beside_a_topic_that_limits_their_drift() -> None:
    # The second file is too wide for the horizon: those behind it wait with it.
    found = pieces((1,), (59,), (84, 108, 48), (96,), (102,), (207, 281, 230))
    _, engine = told(found, empty_topic(), maxFilesPerTrigger=2, maxEventTimeDrift="1 hour")
    names = list(dict.fromkeys(row[1].decode().split("/")[0] for row in engine.rows))
    assert names == ["1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.0.5"]


def test_what_is_not_read_because_the_next_source_has_it_needs_no_delay(monkeypatch: Any) -> None:
    monkeypatch.setattr(Shelf, "begins", datetime.fromtimestamp((FIRST_MS + 3 * HOUR_MS) / 1000, UTC))
    found, later = pieces((0,), (1,), (2,), (10,), (3, 30)), shelf("2", since="{switch:iso}")
    Shelf.pieces = {"2": [[]]}
    assert told(found, later, maxFilesPerTrigger=1)[0][:5] == [7, 7, 7, 7, 7]
    assert told(found, later, maxFilesPerTrigger=1, until_next=True)[0][:3] == [0, 0, 0]


def test_a_source_without_times_has_no_delay_and_the_next_one_begins_anew() -> None:
    Shelf.pieces = {"3": [pieces((5,), (6,))]}
    third = shelf("3")
    unordered = shelf("1", eventTimeOrder=False)
    delays, _ = told(pieces((1,), (3,)), unordered, third, maxFilesPerTrigger=1)
    assert delays == [0, 0, None, None, 0, 0]


def test_a_delay_is_refused_where_no_source_tells_its_times() -> None:
    plain = shelf("1", eventTimeOrder=False)
    with pytest.raises(OptionError, match="no source of the chain tells its event times"):
        Source.resolve(hybrid(plain, plain, watermarkDelay="1 hour"))


def test_a_restart_in_a_source_without_times_tells_no_delay() -> None:
    _, engine = told(pieces((1,)), shelf("1", eventTimeOrder=False), maxFilesPerTrigger=1)
    engine.restart()
    engine.run_batch()
    assert "smallestWatermarkDelayMs" not in (engine.holder.report() or {})


def test_the_delay_of_the_watermark_is_an_option_of_the_whole_chain() -> None:
    part = shelf("1", watermarkDelay="1 hour")
    with pytest.raises(OptionError, match=r"hybrid\.1\.watermarkDelay is unknown"):
        Source.resolve(hybrid(part, shelf("1")))
