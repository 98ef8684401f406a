"""Consumers of this process: made once, and used again by later tasks and batches.

A task takes a consumer for itself and gives it back; a consumer that failed is closed instead. Consumers are
members of no group: partitions are assigned to them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flip27_source.enumerators.kafka.client import new_consumer
from flip27_source.enumerators.kafka.client_properties import ClientProperties

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_MOST_IDLE = 4
"""Idle consumers of a process; a Python worker of Spark runs one task at a time."""

_lock = threading.Lock()
_idle: list[tuple[int, ClientProperties, Consumer]] = []


@contextmanager
def pooled_consumer(properties: ClientProperties) -> Iterator[Consumer]:
    """A consumer with these properties, which has no assignment."""
    consumer = _taken(properties) or new_consumer(properties)
    try:
        yield consumer
        consumer.unassign()
    except BaseException:
        consumer.close()
        raise
    with _lock:
        _idle.append((os.getpid(), properties, consumer))
        surplus = _idle[:-_MOST_IDLE]
        del _idle[:-_MOST_IDLE]
    for _, _, old in surplus:
        old.close()


def _taken(properties: ClientProperties) -> Consumer | None:
    """An idle consumer; those of a process that this one was forked from are left to it."""
    with _lock:
        for index, (process, known, consumer) in enumerate(_idle):
            if process == os.getpid() and known == properties:
                del _idle[index]
                return consumer
    return None
