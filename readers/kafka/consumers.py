"""Consumers of this process: made once, and used again by later tasks and batches.

A task takes a consumer for itself and gives it back; a consumer that failed is closed instead. Consumers are
members of no group: partitions are assigned to them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flip27_source.enumerators.kafka.client import new_consumer
from flip27_source.enumerators.kafka.client_properties import ClientProperties

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_MOST_IDLE = 4
"""Idle consumers of a process; a Python worker of Spark runs one task at a time."""


@dataclass(slots=True)
class _Idle:
    """A consumer that no task uses; ``topics`` has the ids of the topics that it has read."""

    process: int
    properties: ClientProperties
    consumer: Consumer
    topics: dict[str, str]


_lock = threading.Lock()
_idle: list[_Idle] = []


@contextmanager
def pooled_consumer(properties: ClientProperties, topics: Mapping[str, str]) -> Iterator[Consumer]:
    """A consumer with these properties, which has no assignment.

    Args:
        topics: the ids of the topics that are read, if brokers tell them. A consumer that has read a topic of
            the same name and another id is not used: librdkafka 2.16 can crash on the next fetch.
    """
    taken = _taken(properties, topics)
    consumer, known = (new_consumer(properties), {}) if taken is None else (taken.consumer, taken.topics)
    try:
        yield consumer
        consumer.unassign()
    except BaseException:
        consumer.close()
        raise
    _give_back(
        _Idle(process=os.getpid(), properties=properties, consumer=consumer, topics={**known, **topics})
    )


def _taken(properties: ClientProperties, topics: Mapping[str, str]) -> _Idle | None:
    """An idle consumer; those of a process that this one was forked from are left to it."""
    with _lock:
        for index, idle in enumerate(_idle):
            if idle.process != os.getpid() or idle.properties != properties:
                continue
            if all(idle.topics.get(name, topic_id) == topic_id for name, topic_id in topics.items()):
                return _idle.pop(index)
    return None


def _give_back(idle: _Idle) -> None:
    with _lock:
        _idle.append(idle)
        surplus = _idle[:-_MOST_IDLE]
        del _idle[:-_MOST_IDLE]
    for old in surplus:
        if old.process == os.getpid():
            old.consumer.close()
