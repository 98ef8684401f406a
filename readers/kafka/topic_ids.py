"""Checks that the topics of a task still have the ids with which its ranges were planned.

A topic may have been recreated since the batch that is repeated: its offsets then belong to other records.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence

from flip27_source.enumerators.kafka.client import KafkaError
from flip27_source.enumerators.kafka.client_properties import ClientProperties
from flip27_source.enumerators.kafka.cluster import Cluster
from flip27_source.enumerators.kafka.split import KafkaSplit

_PAUSE_S = 0.2

_lock = threading.Lock()
_clusters: list[tuple[int, ClientProperties, Cluster]] = []


def other_topics(
    properties: ClientProperties, splits: Sequence[KafkaSplit], *, timeout_s: float
) -> dict[str, str]:
    """The topics of these ranges that now have another id, with that id; found with one request.

    Topics that the brokers do not have, and topics without ids, are left out.
    """
    planned = {split.topic: split.topic_id for split in splits if split.topic_id is not None}
    if not planned:
        return {}
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with _lock:
                topics = _cluster(properties).topics(planned)
        except KafkaError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return {
                name: topic.topic_id
                for name, topic in topics.items()
                if topic.topic_id is not None and topic.topic_id != planned[name]
            }


def _cluster(properties: ClientProperties) -> Cluster:
    """The connection of this process; it never uses the connection of a parent process."""
    for process, known, cluster in _clusters:
        if process == os.getpid() and known == properties:
            return cluster
    cluster = Cluster(properties)
    _clusters.append((os.getpid(), properties, cluster))
    return cluster
