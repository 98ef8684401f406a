"""The consumers of this process, which later tasks and batches reuse.

A task takes a consumer out of the pool and returns it at its end, unless the consumer failed: then it is
closed. Consumers do not join a group: partitions are assigned to them.

A topic may have been recreated since the batch that is repeated: its offsets then belong to other records. So
the ids of topics are compared with those in the plan.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from flip27_source.enumerators.kafka.client import Consumer, KafkaError, new_consumer
from flip27_source.enumerators.kafka.client_properties import ClientProperties
from flip27_source.enumerators.kafka.cluster import Cluster, gone_after_s
from flip27_source.enumerators.kafka.split import KafkaSplit

_PAUSE_S = 0.2

_MOST_IDLE = 4
"""The maximum number of idle consumers in a process; a Python worker of Spark runs one task at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class _Idle:
    """A consumer that no task uses.

    Attributes:
        topics: the ids of the topics that it has read, except topics without an id.
        causes: the last error of its connections.
    """

    process: int
    properties: ClientProperties
    consumer: Consumer
    topics: dict[str, str]
    causes: deque[Any]


class _Causes(deque[Any]):
    """The last error, except that brokers are down: this only follows from an error that says why."""

    def append(self, error: Any) -> None:
        """Keep the error instead of the one before."""
        if not self or error.name() != "_ALL_BROKERS_DOWN":
            super().append(error)


_lock = threading.Lock()
_idle: list[_Idle] = []
_cluster_lock = threading.Lock()
_clusters: list[tuple[int, ClientProperties, Cluster]] = []


@contextmanager
def pooled_consumer(
    properties: ClientProperties, splits: Sequence[KafkaSplit]
) -> Iterator[tuple[Consumer, deque[Any]]]:
    """A consumer with these properties and no assignment, and the last error of its connections.

    librdkafka 2.16 can crash when it fetches from a topic that was deleted and recreated, so a consumer is
    closed if the id of one of its topics has changed.

    Args:
        splits: the ranges that it will read.
    """
    topics = {split.topic: split.topic_id for split in splits if split.topic_id is not None}
    taken = _taken(properties, topics)
    if taken is None:
        causes = _Causes(maxlen=1)
        taken = _Idle(os.getpid(), properties, new_consumer(properties, causes.append), {}, causes)
    try:
        yield taken.consumer, taken.causes
        taken.consumer.unassign()
    except BaseException:
        taken.consumer.close()
        raise
    _give_back(replace(taken, topics={**taken.topics, **topics}))


def close_idle_consumers() -> None:
    """Close the clients that the tasks of this process have returned, as the end of the process would."""
    with _lock:
        own = [idle for idle in _idle if idle.process == os.getpid()]
        _idle.clear()
        _clusters.clear()
    for idle in own:
        idle.consumer.close()


def _taken(properties: ClientProperties, topics: Mapping[str, str]) -> _Idle | None:
    """Take an idle consumer; None if there is none. Consumers from before a fork are left to the parent."""
    fitting: _Idle | None = None
    outdated: list[_Idle] = []
    with _lock:
        for idle in list(_idle):
            if idle.process != os.getpid() or idle.properties != properties:
                continue
            if any(idle.topics.get(topic, topic_id) != topic_id for topic, topic_id in topics.items()):
                outdated.append(idle)
            elif fitting is None:
                fitting = idle
            else:
                continue
            _idle.remove(idle)
    for idle in outdated:
        idle.consumer.close()
    return fitting


def _give_back(idle: _Idle) -> None:
    with _lock:
        _idle.append(idle)
        surplus = _idle[:-_MOST_IDLE]
        del _idle[:-_MOST_IDLE]
    for old in surplus:
        if old.process == os.getpid():
            old.consumer.close()


def other_topics(
    properties: ClientProperties,
    splits: Sequence[KafkaSplit],
    *,
    timeout_s: float,
    read: Collection[str] = (),
) -> dict[str, str]:
    """The topics of these ranges that now have another id, with that id.

    Topics that the brokers do not have, and topics without ids, are left out.

    Args:
        read: topics whose records were read: they are asked for until the brokers have them, or they count as
            gone.

    Raises:
        KafkaError: the brokers do not answer, or do not have a topic that was read.
    """
    planned = {split.topic: split.topic_id for split in splits if split.topic_id is not None}
    if not planned:
        return {}
    clock = properties.clients
    began_s = clock.now_s()
    while True:
        try:
            with _cluster_lock:
                topics = _cluster(properties).topics(planned)
        except KafkaError:
            if clock.now_s() - began_s > timeout_s:
                raise
        else:
            missing = [name for name in planned if name in read and name not in topics]
            if not missing:
                return {
                    name: topic.topic_id
                    for name, topic in topics.items()
                    if topic.topic_id is not None and topic.topic_id != planned[name]
                }
            if clock.now_s() - began_s > gone_after_s(timeout_s):
                raise KafkaError(
                    f"the brokers no longer have the topic {missing[0]}, and may have recreated it while its "
                    "records were read",
                    remedy="nothing of this task is delivered; Spark repeats the task, or restart the query",
                )
        clock.wait_s(_PAUSE_S)


def is_gone(properties: ClientProperties, split: KafkaSplit) -> bool:
    """Whether the brokers answer that they do not have the partition.

    A consumer also does not know a partition while its own requests fail.
    """
    try:
        with _cluster_lock:
            topic = _cluster(properties).topics([split.topic]).get(split.topic)
    except KafkaError:
        return False
    return topic is None or split.partition not in topic.partitions


def high_watermark(properties: ClientProperties, split: KafkaSplit) -> int | None:
    """The end of the partition with all open transactions; None if its leader does not answer."""
    partition = split.topic, split.partition
    with _cluster_lock:
        return _cluster(properties).high_watermarks([partition]).get(partition)


def _cluster(properties: ClientProperties) -> Cluster:
    """The connection of this process; it never uses the connection of a parent process."""
    for process, known, cluster in _clusters:
        if process == os.getpid() and known == properties:
            return cluster
    cluster = Cluster(properties)
    _clusters.append((os.getpid(), properties, cluster))
    return cluster
