"""Kills processes while a query copies Kafka topics, and the broker.

In a Kafka cluster, replicas replace a killed broker. The tests have a single broker, which loses what it has
acknowledged in its last seconds, even on SIGTERM. So the producers pause during the kill until the broker has
written its file. The query keeps reading, and the producers resume while the broker is down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from tests.kafka_server import KafkaBroker, kafka_broker

from .life import Life
from .server_disasters import PROCESSES, ServerDisasters
from .topic_copies import TopicCopy, WrittenTopics

BROKER = "broker"


class TopicDisasters(ServerDisasters):
    """A given number of kills while topics are copied; no other faults."""

    shape = TopicCopy
    victims: ClassVar[Mapping[str, int]] = {BROKER: 30, **PROCESSES}
    server = BROKER
    away = re.compile(r"_TRANSPORT|_ALL_BROKERS_DOWN|_TIMED_OUT")

    def __init__(self, root: Path, broker: KafkaBroker, *, seed: int, **more: Any) -> None:
        self.topics = WrittenTopics(broker, seed)
        super().__init__(root, {"kafka": broker.address}, seed=seed, **more)

    @property
    def _written(self) -> WrittenTopics:
        return self.topics

    def _finish(self, life: Life) -> None:
        super()._finish(life)
        (shape,) = self._shapes.values()
        assert isinstance(shape, TopicCopy)
        self.outcome.unexplained += self.topics.complaints(shape.rows())
        self.outcome.told.append(
            f"partitions {self.topics.partitions}  records sent {self.topics.sent}  "
            f"acknowledged {len(self.topics.acknowledged)}  aborted {len(self.topics.aborted)}"
        )


@contextmanager
def topic_disasters(root: Path, **more: Any) -> Iterator[TopicDisasters]:
    """The disasters with a new broker, which is stopped at the end."""
    with kafka_broker() as broker:
        yield TopicDisasters(root, broker, **more)
