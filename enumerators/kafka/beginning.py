"""Where the records of a cluster begin, for the source before it in a chain."""

from __future__ import annotations

import datetime as dt
from contextlib import closing

from flip27_source.enumerators.kafka.client_properties import client_properties
from flip27_source.enumerators.kafka.cluster import Cluster
from flip27_source.enumerators.kafka.split import EARLIEST, LATEST
from flip27_source.enumerators.kafka.topic_choice import TopicChoice
from flip27_source.errors import DiscoveryError
from flip27_source.options import Options
from flip27_source.values.times import datetime_or_none


def beginning_of(options: Options) -> dt.datetime | None:
    """The time from which on every partition has its records; None if some partition has none any more.

    Records as old as the first one may have been removed, so it is later; and a source of a chain starts a
    millisecond before the place that it is given.

    Raises:
        DiscoveryError, AccessError: the brokers do not tell.
    """
    choice = TopicChoice.of(options)
    with closing(Cluster(client_properties(options))) as cluster:
        names = choice.names if choice.pattern is None else cluster.names(choice.pattern)
        present = choice.partitions(cluster.topics(names))
        begins, ends = (cluster.offsets(dict.fromkeys(present, at)) for at in (EARLIEST, LATEST))
        known = [key for key in present if key in begins and key in ends]
        filled = {key: begins[key] for key in known if begins[key] < ends[key]}
        if not filled or any(0 < begins[key] == ends[key] for key in known):
            return None
        times = cluster.times_ms(filled)
    if len(known) < len(present) or len(times) < len(filled):
        raise DiscoveryError(
            f"{len(present) - len(known) + len(filled) - len(times)} partitions of {choice} do not tell "
            "where they begin",
            remedy="wait for the brokers, or set readUntil=end for the source before",
        )
    return datetime_or_none(max(times.values()) + 2)
