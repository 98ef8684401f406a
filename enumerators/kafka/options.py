"""The options of the kafka source: those of Spark's Kafka source, and our own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from flip27_source.enumerators.kafka.split import TopicPartition
from flip27_source.enumerators.kafka.start_positions import START_AND_END_OPTIONS
from flip27_source.errors import OptionError
from flip27_source.options import (
    Change,
    NextBatchOption,
    Option,
    Options,
    ReadingOption,
    boolean,
    duration_s,
    integer,
    optional,
    texts,
)
from flip27_source.source_options import (
    EVENT_TIME_ORDER,
    LOG_DATA_LOSS,
    MAX_EVENT_TIME_DRIFT,
    MAX_ROWS_PER_TRIGGER,
    ON_DATA_LOSS,
    REPLAY_SPEED,
    STATE_LOCATION,
    WATERMARK_DELAY,
)

DRIFT_IN_ORDER_S = 60.0
"""How far in event time partitions are read ahead with eventTimeOrder, unless an option says less."""

LEAST_DRIFT_S = 0.001
"""Times of records are in milliseconds."""

REPLAY_STEP_S = 1.0
"""With replaySpeed, how much real time a batch is cut to at least."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _topics(value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(texts(value)))
    for name in names:
        if _TOPIC.fullmatch(name) is None:
            raise ValueError(f"{name[:60]!r} is not the name of a topic")
    if not names:
        raise ValueError("at least one topic is expected")
    return names


def _partitions(value: str) -> tuple[TopicPartition, ...]:
    """The partitions in ``{"orders": [0, 1]}``."""
    try:
        topics = msgspec.json.decode(value, type=dict[str, list[int]])
    except msgspec.MsgspecError:
        raise ValueError('a JSON object of topics and partitions is expected: {"orders": [0, 1]}') from None
    pairs = tuple((topic, number) for topic, numbers in topics.items() for number in numbers)
    if not pairs or any(number < 0 for _, number in pairs) or "" in topics:
        raise ValueError("at least one partition is expected, each 0 or more")
    return tuple(dict.fromkeys(pairs))


def _pattern(value: str) -> re.Pattern[str]:
    if not value:
        raise ValueError("an empty pattern matches no topic")
    try:
        return re.compile(value)
    except re.error as error:
        raise ValueError(f"a regular expression is expected: {error}") from None


def _spark_duration_s(value: str) -> float:
    """A duration as Spark writes it: ``15m``, ``500ms``; a bare number is milliseconds."""
    return int(value) / 1000 if value.strip().isdigit() else duration_s(value)


KAFKA: Option[str | None] = ReadingOption(
    name="kafka.*",
    secret=True,
    doc="Properties of the client under librdkafka's names, or under those of Kafka's Java client where the "
    "meaning is the same: kafka.bootstrap.servers, kafka.security.protocol, kafka.sasl.mechanism. To keep a "
    "secret out of the code, name an environment variable (kafka.sasl.passwordEnv) or a file "
    "(kafka.sasl.passwordFile); every property has these two forms.",
)
SUBSCRIBE: Option[tuple[str, ...] | None] = NextBatchOption(
    name="subscribe",
    parse=optional(_topics),
    doc="Topics, separated by commas. Set exactly one of subscribe, subscribePattern and assign.",
    names_data=True,
)
SUBSCRIBE_PATTERN: Option[re.Pattern[str] | None] = NextBatchOption(
    name="subscribePattern",
    parse=optional(_pattern),
    doc="A regular expression that matches whole names of topics; new topics are found while the query runs.",
    names_data=True,
)
ASSIGN: Option[tuple[TopicPartition, ...] | None] = NextBatchOption(
    name="assign",
    parse=optional(_partitions),
    doc='Partitions, as JSON: {"orders": [0, 1], "customers": [2]}.',
    names_data=True,
)
FAIL_ON_DATA_LOSS: Option[bool | None] = ReadingOption(
    name="failOnDataLoss",
    parse=optional(boolean),
    default_text="true",
    doc="Spark's name: true is onDataLoss=fail; false is onDataLoss=report, except that without a "
    "stateLocation a loss that a task finds is only logged.",
)
MAX_OFFSETS_PER_TRIGGER: Option[int | None] = NextBatchOption(
    name="maxOffsetsPerTrigger",
    parse=optional(integer(minimum=1)),
    doc="Maximum number of offsets in one batch, shared fairly among the partitions. Spark's name for "
    "maxRowsPerTrigger.",
)
MIN_OFFSETS_PER_TRIGGER: Option[int | None] = NextBatchOption(
    name="minOffsetsPerTrigger",
    parse=optional(integer(minimum=1)),
    doc="A batch waits until this number of offsets can be read, but no longer than maxTriggerDelay.",
)
MAX_TRIGGER_DELAY: Option[float] = NextBatchOption(
    name="maxTriggerDelay",
    parse=_spark_duration_s,
    default_text="15m",
    doc="With minOffsetsPerTrigger, the longest pause between two batches if there is anything to read.",
)
MAX_OFFSETS_PER_PARTITION: Option[int | None] = NextBatchOption(
    name="maxOffsetsPerPartition",
    parse=optional(integer(minimum=1)),
    doc="Maximum number of offsets of each partition in one batch.",
)
MIN_PARTITIONS: Option[int | None] = NextBatchOption(
    name="minPartitions",
    parse=optional(integer(minimum=1)),
    doc="Minimum number of Spark tasks for a batch with enough records: large partitions are cut into parts.",
)
MAX_RECORDS_PER_PARTITION: Option[int | None] = NextBatchOption(
    name="maxRecordsPerPartition",
    parse=optional(integer(minimum=1)),
    doc="Maximum number of offsets of one partition that a Spark task reads; larger ranges are cut into "
    "parts, one for each task.",
)
COMMIT_OFFSETS: Option[bool] = Option(
    name="commitOffsets",
    parse=boolean,
    doc="true: the offsets of a batch are committed to the consumer group kafka.group.id once the batch is "
    "complete, so that tools show the query's lag. The query itself never reads them.",
    changes=Change.PENDING_BATCH,
    change_note="its offsets are committed too",
)
INCLUDE_HEADERS: Option[bool] = ReadingOption(
    name="includeHeaders",
    parse=boolean,
    doc="Whether rows have a column headers, with the headers of the records.",
)
POLL_TIMEOUT: Option[int] = ReadingOption(
    name="kafkaConsumer.pollTimeoutMs",
    parse=integer(minimum=1),
    default=120_000,
    doc="How long a task waits for records that exist in the partition, in milliseconds.",
)
FETCH_RETRIES: Option[int | None] = NextBatchOption(
    name="fetchOffset.numRetries",
    parse=optional(integer(minimum=0)),
    default_text="discoveryRetries",
    doc="Spark's name for discoveryRetries.",
)
FETCH_RETRY_INTERVAL: Option[int] = NextBatchOption(
    name="fetchOffset.retryIntervalMs",
    parse=integer(minimum=0),
    default=1000,
    doc="Pause before the first retry of a failed request to the cluster, in milliseconds; it doubles each "
    "time.",
)
GROUP_ID_PREFIX: Option[str | None] = ReadingOption(
    name="groupIdPrefix",
    default_text="flip27",
    doc="Prefix of the clients' group id. The clients do not join the group, but brokers with access control "
    "check its name.",
)
DISCOVERY_INTERVAL: Option[float] = NextBatchOption(
    name="discoveryInterval",
    parse=duration_s,
    default_text="100 milliseconds",
    doc="Pause between two requests for the end offsets of the partitions.",
)
DISCOVERY_RETRIES: Option[int] = NextBatchOption(
    name="discoveryRetries",
    parse=integer(minimum=0),
    default=10,
    doc="How many times in a row these requests may fail, with growing pauses, before the query fails: "
    "brokers are unavailable for a while when they restart.",
)
PARTITION_LAG: Option[bool] = NextBatchOption(
    name="partitionLag",
    parse=boolean,
    doc="Whether the metric flip27_partition_lag_rows shows each partition: at most the 1,000 that are "
    "furthest behind, each a time series of its own.",
)

KAFKA_OPTIONS: tuple[Option[Any], ...] = (
    KAFKA, SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN, *START_AND_END_OPTIONS, FAIL_ON_DATA_LOSS,
    MAX_OFFSETS_PER_TRIGGER, MIN_OFFSETS_PER_TRIGGER, MAX_TRIGGER_DELAY, MAX_OFFSETS_PER_PARTITION,
    MIN_PARTITIONS, MAX_RECORDS_PER_PARTITION, COMMIT_OFFSETS, INCLUDE_HEADERS, POLL_TIMEOUT, FETCH_RETRIES,
    FETCH_RETRY_INTERVAL, GROUP_ID_PREFIX, DISCOVERY_INTERVAL, DISCOVERY_RETRIES, PARTITION_LAG,
    EVENT_TIME_ORDER, WATERMARK_DELAY,
)  # fmt: skip


def time_step_s(options: Options) -> float | None:
    """The smallest distance of the times at which batches end; None: event times are not followed."""
    drift_s, speed = options[MAX_EVENT_TIME_DRIFT], options[REPLAY_SPEED]
    steps = [*([] if drift_s is None else [drift_s]), *([] if speed is None else [speed * REPLAY_STEP_S])]
    return min(steps, default=None)


def implied_options(options: Options) -> Mapping[Option[Any], Any]:
    """The options of every source that are set under other names, and their values.

    In event-time order partitions are aligned.
    """
    implied: dict[Option[Any], Any] = {}
    if options[EVENT_TIME_ORDER] and options[MAX_EVENT_TIME_DRIFT] is None:
        # A watermark with that delay then loses nothing.
        delay_s = options[WATERMARK_DELAY]
        implied[MAX_EVENT_TIME_DRIFT] = (
            DRIFT_IN_ORDER_S if delay_s is None else max(LEAST_DRIFT_S, min(DRIFT_IN_ORDER_S, delay_s))
        )
    fails = options[FAIL_ON_DATA_LOSS]
    if fails is not None:
        implied[ON_DATA_LOSS] = "fail" if fails else _reported(options)
    limit = options[MAX_OFFSETS_PER_TRIGGER]
    if limit is not None:
        implied[MAX_ROWS_PER_TRIGGER] = limit
    for option, value in implied.items():
        if options.is_set(option) and options[option] != value:
            name = FAIL_ON_DATA_LOSS if option is ON_DATA_LOSS else MAX_OFFSETS_PER_TRIGGER
            raise OptionError(
                f"options {name.name} and {option.name} contradict each other: {options[name]!r} and "
                f"{options[option]!r}",
                remedy=f"set one of them; {name.name} is Spark's name for {option.name}",
            )
    least = options[MIN_OFFSETS_PER_TRIGGER]
    most = implied.get(MAX_ROWS_PER_TRIGGER, options[MAX_ROWS_PER_TRIGGER])
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"option minOffsetsPerTrigger ({least}) is above maxOffsetsPerTrigger ({most})",
            remedy="set a minimum that a batch can have",
        )
    return implied


def _reported(options: Options) -> str:
    """The onDataLoss for failOnDataLoss=false: without a stateLocation, tasks cannot report losses."""
    can_report = options[STATE_LOCATION] is not None or options.is_set(ON_DATA_LOSS)
    return "report" if can_report else LOG_DATA_LOSS
