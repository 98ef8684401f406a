"""Two topics, read by sources that wait for each other, with a real broker."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flip27_source.driver.environment import Environment
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.kafka.reading import options_of
from tests.enumerators.kafka.test_event_times import filled
from tests.kafka_server import KafkaBroker


class Member(MicroBatchEngine):
    """A source of one topic, in an application; its partitions have records at these minutes."""

    application: Path

    def __init__(
        self, application: Path, broker: KafkaBroker, *minutes: Iterable[float], **options: Any
    ) -> None:
        self.application = application
        super().__init__(options_of(broker, filled(broker, *minutes), **options))

    def environment(self) -> Environment:
        given = super().environment()
        return dataclasses.replace(given, application_folder=lambda: str(self.application))

    def minutes(self) -> list[float]:
        return [row[5].timestamp() / 60 - 1 for row in self.rows]


def test_a_topic_that_is_ahead_waits_for_the_slowest_partition_of_another_one(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    aligned = {"alignmentGroup": "topics", "maxEventTimeDrift": "10 minutes"}
    dense, late = [0.1 * number for number in range(600)], range(0, 60, 5)
    slow = Member(tmp_path, kafka, dense, late, uid="slow", maxOffsetsPerTrigger=40, **aligned)
    fast = Member(tmp_path, kafka, range(0, 6000, 10), uid="fast", **aligned)
    most = 0.0
    for _ in range(300):
        for one in (slow, fast):
            one.now_ms += 200
            one.run_batch()
        if len(slow.rows) < 612:
            # The slowest partition of the other topic is read up to here, or further.
            reached = min(max(slow.minutes(), default=0.0), 60)
            most = max(most, max(fast.minutes(), default=0.0) - reached)
        if len(fast.rows) == 600:
            break
        for one in (slow, fast):
            one.now_ms += 2_000
    assert (len(slow.rows), len(fast.rows)) == (612, 600)
    assert 0 < most <= 20
