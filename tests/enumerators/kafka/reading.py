"""Queries of the kafka source, and the rows that they delivered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerators.kafka.client_properties import Clock
from flip27_source.enumerators.kafka.split import KafkaSplit
from flip27_source.errors import SplitReadError
from flip27_source.readers.kafka.reader import KafkaReader
from flip27_source.testing import MicroBatchEngine
from tests.kafka_server import KafkaBroker

_OF_ENGINE = ("available_now", "inline_state", "max_failures", "parallelism", "reader", "schema", "store")


class ReaderOfDamagedLogs(KafkaReader):
    """A reader whose records are damaged as long as a test says so: no broker damages its log on request."""

    is_damaged: ClassVar[bool] = False

    def read_together(self, splits: Sequence[KafkaSplit]) -> Iterator[pa.RecordBatch]:
        if self.is_damaged:
            raise SplitReadError("the records are damaged", remedy="check the log of the brokers")
        return super().read_together(splits)


@contextmanager
def damaged_records() -> Iterator[None]:
    """While it is open, ReaderOfDamagedLogs cannot read."""
    ReaderOfDamagedLogs.is_damaged = True
    try:
        yield
    finally:
        ReaderOfDamagedLogs.is_damaged = False


class HandClock:
    """A clock that advances only when a test, or the code under test, waits."""

    def __init__(self) -> None:
        self.now_s = 0.0

    @property
    def clock(self) -> Clock:
        return Clock(now_s=lambda: self.now_s, wait_s=self.wait)

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


def options_of(broker: KafkaBroker, topic: str | None = None, **more: Any) -> dict[str, str]:
    """Return the options of a query that reads from the beginning and polls the broker without pauses."""
    given: dict[str, Any] = {
        "enumerator": "kafka",
        "kafka.bootstrap.servers": broker.address,
        "kafka.log_level": "0",
        "discoveryInterval": "0ms",
        "fetchOffset.retryIntervalMs": "1",
    }
    if topic is not None:
        given |= {"subscribe": topic}
    if not any(name.startswith("starting") for name in more):
        given |= {"startingOffsets": "earliest"}
    given |= more
    return {name: str(value) for name, value in given.items() if value is not None}


def stream(broker: KafkaBroker, topic: str | None = None, **more: Any) -> MicroBatchEngine:
    """Return a streaming query with the options ``more``, whose names may contain dots."""
    engine = {name: more.pop(name) for name in _OF_ENGINE if name in more}
    return MicroBatchEngine(options_of(broker, topic, **more), **{"max_failures": 1, **engine})


def read(broker: KafkaBroker, topic: str | None = None, **more: Any) -> MicroBatchEngine:
    """Return a streaming query, as ``stream`` does, that has read everything available."""
    engine = stream(broker, topic, **more)
    engine.process_all_available()
    return engine


def continued(engine: MicroBatchEngine) -> MicroBatchEngine:
    """Restart the query, and let it read everything available; return the query."""
    engine.restart()
    engine.process_all_available()
    return engine


def offsets_of(rows: Iterable[tuple[Any, ...]]) -> dict[str, list[int]]:
    """Return the offsets of rows with Spark's columns, by partition, in the order of delivery."""
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(f"{row[2]}/{row[3]}", []).append(row[4])
    return found


def values_of(rows: Iterable[tuple[Any, ...]]) -> list[bytes | None]:
    """Return the values of rows with Spark's columns."""
    return [row[1] for row in rows]
