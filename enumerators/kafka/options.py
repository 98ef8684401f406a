"""The options of the kafka source: those of Spark's Kafka source, and our own."""

from __future__ import annotations

import re
from typing import Any

from flip27_source.enumerators.kafka.positions import (
    Positions,
    TopicPartition,
    offsets,
    partition_lists,
    timestamp,
    timestamps,
)
from flip27_source.options import (
    Change,
    Option,
    ReadingOption,
    boolean,
    duration_s,
    integer,
    one_of,
    optional,
    text,
)

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _topics(value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    for name in names:
        if _TOPIC.fullmatch(name) is None:
            raise ValueError(f"{name[:60]!r} is not the name of a topic")
    if not names:
        raise ValueError("at least one topic is expected")
    return names


def _pattern(value: str) -> re.Pattern[str]:
    try:
        return re.compile(value)
    except re.error as error:
        raise ValueError(f"a regular expression is expected: {error}") from None


def _spark_duration_s(value: str) -> float:
    """A duration as Spark writes it: ``15m``, ``500ms``; a bare number is milliseconds."""
    return int(value) / 1000 if value.strip().isdigit() else duration_s(value)


KAFKA: Option[str | None] = ReadingOption(
    name="kafka.*",
    parse=optional(text),
    default=None,
    secret=True,
    doc="Properties of the client under librdkafka's names, or under those of Kafka's Java client where the "
    "meaning is the same: kafka.bootstrap.servers, kafka.security.protocol, kafka.sasl.mechanism. To keep a "
    "secret out of the code, name an environment variable (kafka.sasl.passwordEnv) or a file "
    "(kafka.sasl.passwordFile); every property has these two forms.",
)
SUBSCRIBE: Option[tuple[str, ...] | None] = Option(
    name="subscribe",
    parse=optional(_topics),
    default=None,
    doc="Topics, separated by commas. Set exactly one of subscribe, subscribePattern and assign.",
    names_data=True,
    changes=Change.NEXT_BATCH,
)
SUBSCRIBE_PATTERN: Option[re.Pattern[str] | None] = Option(
    name="subscribePattern",
    parse=optional(_pattern),
    default=None,
    doc="A regular expression that matches whole names of topics; new topics are found while the query runs.",
    names_data=True,
    changes=Change.NEXT_BATCH,
)
ASSIGN: Option[tuple[TopicPartition, ...] | None] = Option(
    name="assign",
    parse=optional(partition_lists),
    default=None,
    doc='Partitions, as JSON: {"orders": [0, 1], "customers": [2]}.',
    names_data=True,
    changes=Change.NEXT_BATCH,
)
STARTING_OFFSETS: Option[Positions | None] = Option(
    name="startingOffsets",
    parse=optional(offsets("earliest", "latest")),
    default=None,
    default_text="latest for a stream, earliest for a batch read",
    doc='Where partitions start: earliest, latest, or JSON: {"orders": {"0": 23, "1": -2}}, where -2 is '
    "earliest and -1 latest. Partitions that appear later start at earliest.",
    changes=Change.FIRST_START,
)
STARTING_TIMESTAMP: Option[Positions | None] = Option(
    name="startingTimestamp",
    parse=optional(timestamp),
    default=None,
    doc="Partitions start at the first record at this time or later, in milliseconds since 1970 UTC. Takes "
    "precedence over startingOffsetsByTimestamp, which takes precedence over startingOffsets.",
    changes=Change.FIRST_START,
)
STARTING_OFFSETS_BY_TIMESTAMP: Option[Positions | None] = Option(
    name="startingOffsetsByTimestamp",
    parse=optional(timestamps),
    default=None,
    doc='A time for each partition, as JSON: {"orders": {"0": 1767225600000}}.',
    changes=Change.FIRST_START,
)
STARTING_STRATEGY: Option[str] = Option(
    name="startingOffsetsByTimestampStrategy",
    parse=one_of("error", "latest"),
    default="error",
    doc="What to do with a partition that has no record at the starting time or later: error fails, latest "
    "starts at its end.",
    changes=Change.FIRST_START,
)
ENDING_OFFSETS: Option[Positions | None] = Option(
    name="endingOffsets",
    parse=optional(offsets("latest")),
    default=None,
    default_text="latest",
    doc="For a batch read, where partitions end: latest, or JSON with the first offsets that are not read, "
    "where -1 is latest.",
    changes=Change.IGNORED,
    change_note="a stream has no end",
)
ENDING_TIMESTAMP: Option[Positions | None] = Option(
    name="endingTimestamp",
    parse=optional(timestamp),
    default=None,
    doc="For a batch read, partitions end before the first record at this time or later. Takes precedence "
    "over endingOffsetsByTimestamp, which takes precedence over endingOffsets.",
    changes=Change.IGNORED,
    change_note="a stream has no end",
)
ENDING_OFFSETS_BY_TIMESTAMP: Option[Positions | None] = Option(
    name="endingOffsetsByTimestamp",
    parse=optional(timestamps),
    default=None,
    doc="For a batch read, a time for each partition, as JSON.",
    changes=Change.IGNORED,
    change_note="a stream has no end",
)
FAIL_ON_DATA_LOSS: Option[bool | None] = ReadingOption(
    name="failOnDataLoss",
    parse=optional(boolean),
    default=None,
    default_text="true",
    doc="Spark's name: true is onDataLoss=fail; false is onDataLoss=report, except that without a "
    "stateLocation a loss that a task finds is only logged.",
)
MAX_OFFSETS_PER_TRIGGER: Option[int | None] = Option(
    name="maxOffsetsPerTrigger",
    parse=optional(integer(minimum=1)),
    default=None,
    doc="Maximum number of offsets in one batch, shared fairly among the partitions. Spark's name for "
    "maxRowsPerTrigger.",
    changes=Change.NEXT_BATCH,
)
MIN_OFFSETS_PER_TRIGGER: Option[int | None] = Option(
    name="minOffsetsPerTrigger",
    parse=optional(integer(minimum=1)),
    default=None,
    doc="A batch waits until this number of offsets can be read, but no longer than maxTriggerDelay.",
    changes=Change.NEXT_BATCH,
)
MAX_TRIGGER_DELAY: Option[float] = Option(
    name="maxTriggerDelay",
    parse=_spark_duration_s,
    default=900.0,
    default_text="15m",
    doc="With minOffsetsPerTrigger, the longest pause between two batches if there is anything to read.",
    changes=Change.NEXT_BATCH,
)
MAX_OFFSETS_PER_PARTITION: Option[int | None] = Option(
    name="maxOffsetsPerPartition",
    parse=optional(integer(minimum=1)),
    default=None,
    doc="Maximum number of offsets of each partition in one batch.",
    changes=Change.NEXT_BATCH,
)
MIN_PARTITIONS: Option[int | None] = Option(
    name="minPartitions",
    parse=optional(integer(minimum=1)),
    default=None,
    doc="Minimum number of Spark tasks for a batch with enough records: large partitions are cut into parts.",
    changes=Change.NEXT_BATCH,
)
MAX_RECORDS_PER_PARTITION: Option[int | None] = Option(
    name="maxRecordsPerPartition",
    parse=optional(integer(minimum=1)),
    default=None,
    doc="Maximum number of offsets of one partition that a Spark task reads; larger ranges are cut into "
    "parts, one for each task.",
    changes=Change.NEXT_BATCH,
)
COMMIT_OFFSETS: Option[bool] = Option(
    name="commitOffsets",
    parse=boolean,
    default=False,
    doc="true: the offsets of a batch are committed to the consumer group kafka.group.id once the batch is "
    "complete, so that tools show the query's lag. The query itself never reads them.",
    changes=Change.PENDING_BATCH,
    change_note="its offsets are committed too",
)
INCLUDE_HEADERS: Option[bool] = ReadingOption(
    name="includeHeaders",
    parse=boolean,
    default=False,
    doc="Whether rows have a column headers, with the headers of the records.",
)
POLL_TIMEOUT: Option[int] = ReadingOption(
    name="kafkaConsumer.pollTimeoutMs",
    parse=integer(minimum=1),
    default=120_000,
    doc="How long a task waits for records that exist in the partition, in milliseconds.",
)
FETCH_RETRIES: Option[int | None] = Option(
    name="fetchOffset.numRetries",
    parse=optional(integer(minimum=0)),
    default=None,
    default_text="discoveryRetries",
    doc="Spark's name for discoveryRetries.",
    changes=Change.NEXT_BATCH,
)
FETCH_RETRY_INTERVAL: Option[int] = Option(
    name="fetchOffset.retryIntervalMs",
    parse=integer(minimum=0),
    default=1000,
    doc="Pause before the first retry of a failed request to the cluster, in milliseconds; it doubles each "
    "time.",
    changes=Change.NEXT_BATCH,
)
GROUP_ID_PREFIX: Option[str | None] = ReadingOption(
    name="groupIdPrefix",
    parse=optional(text),
    default=None,
    default_text="flip27",
    doc="Prefix of the clients' group id. The clients do not join the group, but brokers with access control "
    "check its name.",
)
DISCOVERY_INTERVAL: Option[float] = Option(
    name="discoveryInterval",
    parse=duration_s,
    default=0.1,
    default_text="100 milliseconds",
    doc="Pause between two requests for the end offsets of the partitions.",
    changes=Change.NEXT_BATCH,
)
DISCOVERY_RETRIES: Option[int] = Option(
    name="discoveryRetries",
    parse=integer(minimum=0),
    default=10,
    doc="How many times in a row these requests may fail, with growing pauses, before the query fails: "
    "brokers are unavailable for a while when they restart.",
    changes=Change.NEXT_BATCH,
)

KAFKA_OPTIONS: tuple[Option[Any], ...] = (
    KAFKA,
    SUBSCRIBE,
    SUBSCRIBE_PATTERN,
    ASSIGN,
    STARTING_OFFSETS,
    STARTING_TIMESTAMP,
    STARTING_OFFSETS_BY_TIMESTAMP,
    STARTING_STRATEGY,
    ENDING_OFFSETS,
    ENDING_TIMESTAMP,
    ENDING_OFFSETS_BY_TIMESTAMP,
    FAIL_ON_DATA_LOSS,
    MAX_OFFSETS_PER_TRIGGER,
    MIN_OFFSETS_PER_TRIGGER,
    MAX_TRIGGER_DELAY,
    MAX_OFFSETS_PER_PARTITION,
    MIN_PARTITIONS,
    MAX_RECORDS_PER_PARTITION,
    COMMIT_OFFSETS,
    INCLUDE_HEADERS,
    POLL_TIMEOUT,
    FETCH_RETRIES,
    FETCH_RETRY_INTERVAL,
    GROUP_ID_PREFIX,
    DISCOVERY_INTERVAL,
    DISCOVERY_RETRIES,
)
