"""The watermark delay that is told: what waited then is never behind a watermark with that delay.

The cluster is simulated, and the times of each partition are in order, as with LogAppendTime.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

import pytest

from flip27_source.readers.kafka.consumers import close_idle_consumers
from flip27_source.testing import MicroBatchEngine
from tests.simulator.topics import Log, LogEnumerator, LogReader, Record, SimulatedCluster, SimulatedMessage

FIRST_MS = 1_700_000_000_000


@dataclass
class Query:
    """A query in event-time order on a topic with up to four partitions."""

    random: Random
    changes: Random | None = None
    """Draws which records are gone between batches; None: none."""
    logs: list[Log] = field(init=False)
    engine: MicroBatchEngine = field(init=False)
    drift_ms: float | None = None
    """None: it is drawn."""
    told: list[tuple[int, list[int]]] = field(default_factory=list)
    """Each delay that was told, and where the partitions ended then."""

    def __post_init__(self) -> None:
        draw = self.random
        close_idle_consumers()
        self.cluster = LogEnumerator.cluster = SimulatedCluster(Random(0), lambda _: None)
        self.cluster.tells_latest = draw.random() < 0.7
        self.logs = [Log("orders-0", "id", number) for number in range(draw.randint(2, 4))]
        self.cluster.topics = {"orders-0": self.logs}
        self.unit_ms = draw.choice((1, 1000, 60_000))
        self.last_ms = {log.number: FIRST_MS + draw.choice((0, 0, 1000, 3_600_000)) for log in self.logs}
        for log in self.logs:
            self.append(log, draw.choice((0, 1, 10, 60)))
        drift_ms = draw.choice((1, 1, 10, 100, 1000)) * draw.choice((1, self.unit_ms))
        drift_ms = self.drift_ms or drift_ms
        limits = {
            "maxOffsetsPerTrigger": draw.choice((None, 1, 5, 17, 60)),
            "maxOffsetsPerPartition": draw.choice((None, None, 3, 20)),
        }
        options = {
            "subscribe": "orders-0", "kafka.bootstrap.servers": "simulated:9092",
            "startingOffsets": "earliest", "eventTimeOrder": "true", "maxEventTimeDrift": f"{drift_ms}ms",
            "discoveryInterval": draw.choice(("0ms", "1h")),
        }  # fmt: skip
        if self.changes is not None:
            options["failOnDataLoss"] = "false"
        options |= {name: str(most) for name, most in limits.items() if most is not None}
        is_bounded = draw.random() < 0.3
        self.engine = MicroBatchEngine(
            options, enumerator=LogEnumerator, reader=LogReader, available_now=is_bounded
        )

    def append(self, log: Log, count: int) -> None:
        for offset in range(len(log.records), len(log.records) + count):
            self.last_ms[log.number] += self.random.choice((0, 0, 1, 1, 2, 5, 50, 1000)) * self.unit_ms
            time_ms, value = self.last_ms[log.number], f"{log}/{offset}".encode()
            message = SimulatedMessage(
                topic=log.topic, partition=log.number, offset=offset, value=value, timestamp=(2, time_ms)
            )
            at = datetime.fromtimestamp(time_ms / 1000, UTC)
            row = (None, value, log.topic, log.number, offset, at, 1)
            self.cluster.records[value] = Record(log, offset, time_ms, message, row)
            log.records.append(self.cluster.records[value])
        log.stable = len(log.records)

    def remove(self, draw: Random) -> None:
        """Let records expire, or recreate the topic with later ones."""
        if draw.random() < 0.3:
            self.recreate(draw)
        else:
            log = draw.choice(self.logs)
            log.start = draw.randint(log.start, len(log.records))
            if draw.random() < 0.5:
                self.engine.restart()

    def recreate(self, draw: Random) -> None:
        self.cluster.delete("orders-0")
        topic_id = f"id{draw.random()}"
        self.logs = [Log("orders-0", topic_id, log.number) for log in self.logs]
        self.cluster.topics = {"orders-0": self.logs}
        self.last_ms = dict.fromkeys(self.last_ms, max(self.last_ms.values()))
        for log in self.logs:
            self.append(log, draw.choice((0, 1, 10, 60)))
        self.told.clear()
        # Otherwise the topics are not described at once.
        self.engine.restart()

    def run(self) -> None:
        """Read all, and check every record by each delay that was told while it waited."""
        watermark_ms, seen, idle = 0, 0, 0
        while idle < len(self.logs) + 2:
            if self.changes is not None and self.changes.random() < 0.2:
                self.remove(self.changes)
            ends = [len(log.records) for log in self.logs]
            if not self.engine.run_batch():
                self.engine.now_ms += 60_000
                idle += 1
                continue
            rows, seen, idle = self.engine.rows[seen:], len(self.engine.rows), 0
            records = [self.cluster.records[row[1]] for row in rows]
            summary = json.loads(self.engine.logs.offsets[-1])["summary"]
            assert "lateSplits" not in summary
            self.told.append((summary["smallestWatermarkDelayMs"], ends))
            for delay_ms, known in self.told:
                late = [
                    one for one in records
                    if one.offset < known[one.log.number] and one.time_ms <= watermark_ms - delay_ms
                ]  # fmt: skip
                assert not late, f"{delay_ms} ms loses {late}"
            watermark_ms = max([watermark_ms, *(one.time_ms for one in records)])
        read = {row[1] for row in self.engine.rows}
        assert len(read) == len(self.engine.rows)
        assert not [one for value, one in self.cluster.records.items() if one.is_there and value not in read]


@pytest.mark.parametrize("seed", [*range(8), 27, 73, 89, 107, 226])
def test_no_delay_that_is_told_loses_a_record_that_waited(seed: int) -> None:
    Query(Random(seed)).run()


@pytest.mark.parametrize("seed", range(8))
def test_no_delay_that_is_told_loses_a_record_if_those_before_it_are_gone(seed: int) -> None:
    Query(Random(seed), Random(seed)).run()


@pytest.mark.parametrize("seed", [*range(3), 27, 30, 34])
def test_no_delay_that_is_told_loses_a_record_if_the_drift_is_less_than_a_millisecond(seed: int) -> None:
    Query(Random(seed), drift_ms=0.1).run()
