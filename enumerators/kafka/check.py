"""What ``flip27 check`` finds about a Kafka cluster: brokers, topics, and whether records can be read.

It changes nothing in the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from flip27_source.enumerators.kafka.client import failed as failure
from flip27_source.enumerators.kafka.client import imported, new_consumer
from flip27_source.enumerators.kafka.client_properties import ClientProperties, Clock, client_properties
from flip27_source.enumerators.kafka.cluster import Cluster, Topic
from flip27_source.enumerators.kafka.options import KAFKA, time_step_s
from flip27_source.enumerators.kafka.poller import ClusterPoller, PollRequest
from flip27_source.enumerators.kafka.split import EARLIEST, LATEST, TopicPartition, split_id_of
from flip27_source.enumerators.kafka.start_positions import STARTING_OFFSETS, starting
from flip27_source.enumerators.kafka.topic_choice import TopicChoice
from flip27_source.errors import Flip27Error, OptionError, some_of
from flip27_source.file_systems.paths import open_file_system
from flip27_source.options import Options
from flip27_source.source_checks import Finding, failed, finding_of, ok, skipped, warning
from flip27_source.source_options import (
    INLINE_STATE_LIMIT,
    MAX_EVENT_TIME_DRIFT,
    ON_DATA_LOSS,
    SAVEPOINT,
    STATE_LOCATION,
    WATERMARK_DELAY,
)

STATE_BYTES_PER_PARTITION = 130
"""The approximate size of a partition in the state."""

_LOCAL = ("localhost", "127.", "[::1]")
_READ_TIMEOUT_S = 10.0


def findings(options: Options) -> Iterator[Finding]:
    """All findings; those that need the brokers are left out if the brokers cannot be reached."""
    choice = TopicChoice.of(options)
    properties = client_properties(options)
    yield from _protection(properties, options)
    with closing(Cluster(properties)) as cluster:
        try:
            names = choice.names if choice.pattern is None else cluster.names(choice.pattern)
            topics = cluster.topics(names)
        except Flip27Error as error:
            yield failed("brokers", error.what, error.remedy)
            return
        yield ok("brokers", f"{properties.place} answers")
        partitions = choice.partitions(topics)
        yield from _topics(choice, topics, partitions)
        if partitions:
            yield from _records(cluster, properties, partitions)
            yield from _state(options, len(partitions))
            yield from _event_times(cluster, options, partitions)
            yield finding_of("start", lambda: _start(options, choice))


def _protection(properties: ClientProperties, options: Options) -> Iterator[Finding]:
    """Whether the connection is encrypted, and where secrets come from."""
    protocol = properties.values.get("security.protocol", "plaintext").upper()
    brokers = [broker.strip() for broker in properties.values["bootstrap.servers"].split(",")]
    if protocol.endswith("SSL"):
        yield ok("encryption", f"security.protocol is {protocol}")
    elif all(broker.rpartition("://")[2].startswith(_LOCAL) for broker in brokers):
        yield ok("encryption", f"security.protocol is {protocol}, and the brokers are on this machine")
    else:
        yield warning(
            "encryption",
            f"security.protocol is {protocol}: records and passwords cross the network unencrypted",
            "set kafka.security.protocol to SSL or SASL_SSL",
        )
    secrets = options.texts_under(KAFKA).keys() & {"sasl.jaas.config", "sasl.password"}
    if secrets:
        yield warning(
            "secrets",
            f"kafka.{min(secrets)} is in the query's code",
            "set kafka.sasl.username, and kafka.sasl.passwordEnv or kafka.sasl.passwordFile",
        )


def _topics(
    choice: TopicChoice, topics: Mapping[str, Topic], partitions: list[TopicPartition]
) -> Iterator[Finding]:
    missing = choice.missing(topics)
    if missing or not partitions:
        what = f"{choice} names {', '.join(missing[:10])}" if missing else f"{choice} is set"
        yield failed(
            "topics",
            f"{what}, but the cluster has no such topics, or the user may not DESCRIBE them",
            "correct the name, create the topic, or grant the user DESCRIBE",
        )
        return
    named = sorted({name for name, _ in partitions})
    yield ok("topics", f"{len(partitions)} partitions of {some_of(named, 5)}")
    if any(topics[name].topic_id is None for name in named):
        yield warning(
            "topic ids",
            "the brokers do not report topic ids: a topic that was deleted and recreated is only noticed if "
            "it ends below the query's position",
            "use brokers with topic ids (Kafka 2.8 or newer)",
        )
    else:
        yield ok("topic ids", "a topic that was recreated is noticed by its id")


def _records(
    cluster: Cluster, properties: ClientProperties, partitions: list[TopicPartition]
) -> Iterator[Finding]:
    """How many offsets the partitions have, and whether a record can be read."""
    try:
        ends = cluster.offsets(dict.fromkeys(partitions, LATEST))
        starts = cluster.offsets(dict.fromkeys(partitions, EARLIEST))
    except Flip27Error as error:
        yield failed("offsets", error.what, error.remedy)
        return
    without = [split_id_of(*key) for key in partitions if key not in ends]
    if without:
        yield warning(
            "offsets",
            f"{len(without)} partitions have no leader, such as {without[0]}",
            "start their brokers: the query reads the others meanwhile, once it has started",
        )
    lengths = {key: end - starts.get(key, end) for key, end in ends.items()}
    yield ok("offsets", f"{sum(lengths.values())} offsets can be read")
    filled = next((key for key, length in lengths.items() if length), None)
    if filled is None:
        yield skipped("reading", "there is no record to test with")
        return
    yield _read(properties, filled, starts[filled])


def _start(options: Options, choice: TopicChoice) -> Finding:
    """Whether a query without state can start where the options say."""
    if _has_state(options):
        return skipped("start", "stateLocation has a state: a query continues where it was")
    if options[SAVEPOINT] is not None:
        return skipped("start", "a new query starts at the positions of the savepoint")
    first = starting(options, is_batch=False)
    poller = ClusterPoller(options, choice, first=first, last=None, clock=Clock())
    with closing(poller):
        result = poller.poll(PollRequest())
    problem = result.problem
    if problem is not None:
        return failed("start", f"a query without state cannot start: {problem.what}", problem.remedy)
    expired = [
        f"{first.option} sets offset {offset} for {split_id_of(*key)}, which begins at {result.starts[key]}"
        for key, offset in result.resolved.items()
        if offset < result.starts.get(key, offset)
    ]
    if not expired:
        return ok("start", f"{first.option} has a position for each partition")
    what = f"the start of a query without state is a data loss: {some_of(expired, 3)}"
    # Without stateLocation, Spark's checkpoint may have the state of a query that has started long ago.
    is_new = options[STATE_LOCATION] is not None
    finding = failed if is_new and options[ON_DATA_LOSS] == "fail" else warning
    return finding("start", what, f"set {STARTING_OFFSETS.name} to earliest, or to -2 for these partitions")


def _event_times(cluster: Cluster, options: Options, partitions: list[TopicPartition]) -> Iterator[Finding]:
    """Whether the brokers tell the times of records, if a query follows them."""
    if time_step_s(options) is None:
        return
    drift_s, delay_s = options[MAX_EVENT_TIME_DRIFT], options[WATERMARK_DELAY]
    try:
        known = cluster.first_at({key: [0] for key in partitions})
    except Flip27Error as error:
        yield failed("event time", error.what, error.remedy)
        return
    without = [split_id_of(*key) for key in partitions if known.get(key, {}).get(0) is None]
    found = f"{len(partitions) - len(without)} of {len(partitions)} partitions have records with times"
    if drift_s is None or (delay_s is not None and delay_s >= drift_s):
        yield ok("event time", found)
        return
    found += f"; a watermark delay of {drift_s:g} s loses no record that is in order"
    if delay_s is None:
        yield ok("event time", found)
    else:
        yield warning("event time", found, f"set {MAX_EVENT_TIME_DRIFT.name} to {WATERMARK_DELAY.name}")


def _has_state(options: Options) -> bool:
    location = options[STATE_LOCATION]
    if location is None:
        return False
    storage = options.with_prefix("storage.")
    files, path = open_file_system(
        location, storage, what=STATE_LOCATION.name, error_type=OptionError, caches_listings=False
    )
    # A first start that failed leaves the recorded columns there.
    return files.exists(path) and any(
        files.exists(f"{folder}/checkpoints") for folder in files.ls(path, detail=False)
    )


def _read(properties: ClientProperties, place: TopicPartition, start: int) -> Finding:
    kafka = imported()
    name = split_id_of(*place)
    with closing(new_consumer(properties)) as consumer:
        consumer.assign([kafka.TopicPartition(*place, start)])
        message: Any = consumer.poll(_READ_TIMEOUT_S)
    if message is None:
        return failed(
            "reading",
            f"{name} returned no record in {_READ_TIMEOUT_S:g} s",
            "check that this machine reaches every broker by its advertised address",
        )
    error = message.error()
    if error is not None and error.code() != kafka.KafkaError._PARTITION_EOF:
        said = failure(properties, f"reading {name}", error)
        return failed("reading", said.what, said.remedy)
    return ok("reading", f"{name} can be read")


def _state(options: Options, partitions: int) -> Iterator[Finding]:
    """Whether the state of this number of partitions fits into Spark's offset log."""
    size = partitions * STATE_BYTES_PER_PARTITION
    if options[STATE_LOCATION] is None and size > options[INLINE_STATE_LIMIT]:
        yield failed(
            "state",
            f"the state of {partitions} partitions takes about {size // 1024} KiB, and without stateLocation "
            f"it may have {options[INLINE_STATE_LIMIT] // 1024}",
            "set stateLocation",
        )
