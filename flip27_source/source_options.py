"""The options that every flip27 source has. Pure: no pyspark, no I/O."""

from __future__ import annotations

from typing import Any

from .file_systems.moved_paths import PathRewrite, path_rewrite
from .file_systems.paths import location
from .options import (
    Change,
    NextBatchOption,
    Option,
    ReadingOption,
    boolean,
    duration_s,
    integer,
    one_of,
    optional,
    positive_duration_s,
    positive_number,
    size_bytes,
    text,
)

PATH: Option[str | None] = ReadingOption(
    name="path",
    doc="Location of the data; set by load(path).",
    names_data=True,
    change_note="its splits stay, and partition columns are counted from the new path",
)
ENUMERATOR: Option[str | None] = Option(
    name="enumerator",
    default_text="files, if there is a path",
    doc="The enumerator, which finds the splits: a built-in name, an entry point, or package.module:Class.",
    changes=Change.REFUSED,
)
READER: Option[str | None] = ReadingOption(
    name="reader",
    default_text="the enumerator's own reader; for files, the one that the names of the files tell",
    doc="The reader, which reads the splits: a built-in name, an entry point, or package.module:Class.",
    change_note="its splits are read by the new reader; refused if only one of the two yields Progress",
)
READER_BY_NAMES: Option[str | None] = Option(
    name="readerByNames",
    doc="The reader that the names of files tell; set by the source itself if reader is not set.",
)
UID: Option[str | None] = Option(
    name="uid",
    default_text="the enumerator's name",
    doc="Names this source within its state location (Flink's operator uid). Give each source of a query a "
    "different uid: Spark matches sources and states by order, and the uid shows if the order has changed.",
    changes=Change.REFUSED,
)
STATE_LOCATION: Option[str | None] = Option(
    name="stateLocation",
    parse=optional(location),
    doc="Directory (any fsspec URL) for the source's state, preferably inside the query's checkpoint "
    "location. Without it the state must fit into Spark's offset log (see inlineStateLimit).",
    changes=Change.REFUSED,
    change_note="except for the place to which the state was moved, or if it was not set",
)
INLINE_STATE_LIMIT: Option[int] = NextBatchOption(
    name="inlineStateLimit",
    parse=size_bytes,
    default_text="64k",
    doc="Largest state that is stored in Spark's offset log when stateLocation is not set.",
)
RETAINED_CHECKPOINTS: Option[int] = NextBatchOption(
    name="retainedCheckpoints",
    parse=integer(minimum=2),
    default=100,
    doc="Number of checkpoints to keep; at least Spark's spark.sql.streaming.minBatchesToRetain.",
)
AVAILABLE_NOW: Option[bool] = NextBatchOption(
    name="availableNow",
    parse=boolean,
    doc="true: a run reads only the data that exists when it starts, batch by batch, with any trigger; "
    "query.processAllAvailable() returns when all of it is read. Needed before Spark 4.2 only, where "
    "Trigger.AvailableNow reads a single batch.",
    change_note="from the next run on",
)
PARALLELISM: Option[int | None] = NextBatchOption(
    name="parallelism",
    parse=optional(integer(minimum=1, maximum=100_000)),
    default_text="the driver's cores; more for batches that exceed maxPartitionBytes per core",
    doc="Maximum number of Spark tasks per batch; use one to three per executor core.",
)
REQUEST_INTERVAL: Option[float] = NextBatchOption(
    name="requestInterval",
    parse=duration_s,
    default_text="10 seconds",
    doc="Pause between two checks for requests, in the background: edits of the state (docs/edits.md) and "
    "savepoints (docs/savepoints.md); with 0s, the query only checks when it starts.",
)
MAX_PARTITION_BYTES: Option[int] = NextBatchOption(
    name="maxPartitionBytes",
    parse=size_bytes,
    default_text="128m",
    doc="Maximum size of the ranges that splittable files are cut into.",
)
MAX_FILES_PER_TRIGGER: Option[int | None] = NextBatchOption(
    name="maxFilesPerTrigger",
    parse=optional(integer(minimum=1)),
    doc="Maximum number of files in one batch. Limits combine: the first limit reached ends the batch, "
    "which always holds at least one split.",
)
MAX_ROWS_PER_TRIGGER: Option[int | None] = NextBatchOption(
    name="maxRowsPerTrigger",
    parse=optional(integer(minimum=1)),
    doc="Maximum number of rows in one batch; counts only splits whose rows are known before reading.",
)
MAX_BYTES_PER_TRIGGER: Option[int | None] = NextBatchOption(
    name="maxBytesPerTrigger", parse=optional(size_bytes), doc="Soft limit on the bytes in one batch."
)
TARGET_BATCH_DURATION: Option[float | None] = NextBatchOption(
    name="targetBatchDuration",
    parse=optional(positive_duration_s),
    doc="How long a batch should take, from its trigger to the next one: batches size themselves by the "
    "measured times of those before, within the limits max...PerTrigger. The first batch is small.",
)
TARGET_BACKLOG_DURATION: Option[float | None] = NextBatchOption(
    name="targetBacklogDuration",
    parse=optional(positive_duration_s),
    default_text="targetBatchDuration",
    doc="How long a batch should take while at least one more batch is waiting; at least "
    "targetBatchDuration, which must be set.",
)
EVENT_TIME_ORDER: Option[bool] = NextBatchOption(
    name="eventTimeOrder",
    parse=boolean,
    doc="Read the splits that wait in the order of their event times, so that a watermark drops none of a "
    "backlog. Files: set eventTimePattern or eventTimeColumn, which tell the times of a file. Kafka: "
    "partitions advance in step, by the times of their records.",
)
WATERMARK_DELAY: Option[float | None] = NextBatchOption(
    name="watermarkDelay",
    parse=optional(duration_s),
    doc="eventTimeOrder: the delay that the query gives withWatermark, which a source cannot see. A warning "
    "in the driver's log tells if it is less than the smallest delay that loses nothing of the backlog; "
    "splits that are found later than it are counted. An option of the whole chain, if the source is one.",
)
TOLERABLE_FAILED_CHECKPOINTS: Option[int] = NextBatchOption(
    name="tolerableFailedCheckpoints",
    parse=integer(minimum=0),
    default_text="0",
    doc="How many times in a row a batch may fail to be planned, or its checkpoint to be written, because a "
    "file system or a server could not be reached, before the query ends. It is tried again after 1 second, "
    "then 2, 4 and so on, at most 60.",
)
MAX_EVENT_TIME_DRIFT: Option[float | None] = NextBatchOption(
    name="maxEventTimeDrift",
    parse=optional(positive_duration_s),
    doc="Alignment: how far in event time a split, or a source of the alignmentGroup, is read ahead of what "
    "the slowest can reach in the same batch. Needs splits whose event times are known.",
)
ALIGNMENT_GROUP: Option[str | None] = NextBatchOption(
    name="alignmentGroup",
    parse=optional(text),
    doc="Sources of one Spark application with the same name here wait for each other too, as "
    "maxEventTimeDrift and replaySpeed say.",
)
ALIGNMENT_TIMEOUT: Option[float] = NextBatchOption(
    name="alignmentTimeout",
    parse=positive_duration_s,
    default_text="60 seconds",
    doc="Alignment: for how long a split in which nothing waits, or a source of the group that is silent, "
    "still holds the others back; and for how long a source that has met no other one goes on slowly.",
)
REPLAY_SPEED: Option[float | None] = NextBatchOption(
    name="replaySpeed",
    parse=optional(positive_number),
    doc="Read a backlog in the pace of its event times, this many times as fast, until it has caught up with "
    "the present. Needs splits whose event times are known.",
)
DISCOVERY_INTERVAL: Option[float] = NextBatchOption(
    name="discoveryInterval",
    parse=duration_s,
    default_text="1 second",
    doc="Pause between two rounds of discovery, which runs in the background.",
)
DISCOVERY_RETRIES: Option[int] = NextBatchOption(
    name="discoveryRetries",
    parse=integer(minimum=0),
    default=3,
    doc="How many times in a row failed discovery is retried, with growing pauses, before the query fails.",
)
TIME_ZONE: Option[str | None] = ReadingOption(
    name="timeZone",
    default_text="spark.sql.session.timeZone if it is set, otherwise the zone of the executor's machine",
    doc="Time zone of timestamps that have none.",
)

TASK_REPORTS: Option[str] = NextBatchOption(
    name="taskReports",
    parse=one_of("auto", "always"),
    doc="auto: tasks write a report to the stateLocation only if the source needs one; always: "
    "tasks always report, so that rows, bytes and durations are known.",
)
ON_MISSING_REPORT: Option[str] = ReadingOption(
    name="onMissingReport",
    parse=one_of("fail", "repeat"),
    doc="What to do when a batch is complete and a required report is missing (after a foreachBatch that "
    "took only a few rows): fail the query, or repeat the splits of that task in the next batch: rows that "
    "the sink has written then arrive twice.",
    change_note="decides if its reports are missing",
)
EVENT_TIME_COLUMN: Option[str | None] = ReadingOption(
    name="eventTimeColumn",
    doc="Column of times or dates whose largest value the tasks report, for the query's progress events. "
    "Files with eventTimeOrder: the column whose smallest and largest value in a file tell its times.",
    change_note="if its tasks report",
)
ON_SPLIT_ERROR: Option[str] = ReadingOption(
    name="onSplitError",
    parse=one_of("fail", "quarantine", "ignore"),
    doc="What to do with a split (a file) that cannot be read: fail the query; record the split as "
    "unreadable in the state, with its error (quarantine); or only count it (ignoredSplits) and list it in "
    "the state (ignore). Either all rows of a split are delivered or none. A split that cannot be reached "
    "(permission, credentials, network, disk) fails the query with any value.",
)
ON_DATA_LOSS: Option[str] = ReadingOption(
    name="onDataLoss",
    parse=one_of("fail", "report"),
    doc="What to do when data was lost before it was read (retention removed it, a table or topic was "
    "removed or recreated, a file vanished): fail the query; or continue with the remaining data, and count "
    "the loss (dataLosses), list it in the state and log it (report). report needs a stateLocation.",
)
LOG_DATA_LOSS = "log"
"""A value of ``onDataLoss`` that only an enumerator can imply, for Spark's name of the option: losses that
the driver finds are counted and listed, and those that a task finds are logged. It needs no stateLocation."""

MAX_SPLIT_ATTEMPTS: Option[int] = ReadingOption(
    name="maxSplitAttempts",
    parse=integer(minimum=1),
    default=3,
    doc="Number of attempts to read a split before it is quarantined or ignored; counted across restarts.",
)
MAX_QUARANTINED_SPLITS: Option[int] = ReadingOption(
    name="maxQuarantinedSplits",
    parse=integer(minimum=0),
    default=100,
    doc="Maximum number of quarantined splits and records (onSplitError, onRecordError); the query "
    "fails if there are more.",
)
MAX_ROWS_PER_SPLIT: Option[int | None] = ReadingOption(
    name="maxRowsPerSplit",
    parse=optional(integer(minimum=1)),
    doc="Maximum rows per batch of a split that its reader bounds (pages): its share of the batch ends with "
    "the first page that reaches this number.",
    change_note="for tasks that have not reported yet",
)
MAX_BYTES_PER_SPLIT: Option[int | None] = ReadingOption(
    name="maxBytesPerSplit",
    parse=optional(size_bytes),
    doc="Like maxRowsPerSplit, for bytes of Arrow data.",
    change_note="for tasks that have not reported yet",
)
MAX_SPLIT_DURATION: Option[float] = ReadingOption(
    name="maxSplitDuration",
    parse=duration_s,
    default_text="1 minute",
    doc="Like maxRowsPerSplit, for the time spent reading the split in this batch.",
    change_note="for tasks that have not reported yet",
)
POLL_INTERVAL: Option[float] = NextBatchOption(
    name="pollInterval",
    parse=duration_s,
    default_text="10 seconds",
    doc="Pause before a split is read again after its reader found no more data.",
)
MAX_ACTION_ATTEMPTS: Option[int] = NextBatchOption(
    name="maxActionAttempts",
    parse=integer(minimum=1),
    default=5,
    doc="Number of attempts for a side effect that is due after a batch (archive, delete, acknowledge).",
    change_note="also for actions that wait",
)
ON_ACTION_ERROR: Option[str] = NextBatchOption(
    name="onActionError",
    parse=one_of("fail", "keep"),
    doc="What to do after maxActionAttempts failures: fail the query, or keep the action in the state and "
    "continue; it is tried again when the query is restarted.",
    change_note="also for actions that wait",
)

DISCOVERY_OPTIONS: tuple[Option[Any], ...] = (
    DISCOVERY_INTERVAL,
    DISCOVERY_RETRIES,
    EVENT_TIME_ORDER,
    WATERMARK_DELAY,
)
"""Only for enumerators that discover splits (``DiscoveringEnumerator``)."""

READER_BOUNDED_OPTIONS: tuple[Option[Any], ...] = (
    MAX_ROWS_PER_SPLIT,
    MAX_BYTES_PER_SPLIT,
    MAX_SPLIT_DURATION,
    POLL_INTERVAL,
)
"""Only for readers that yield Progress."""

ACTION_OPTIONS: tuple[Option[Any], ...] = (MAX_ACTION_ATTEMPTS, ON_ACTION_ERROR)
"""Only for enumerators that perform actions."""

SCHEMA_EVOLUTION_MODE: Option[str | None] = ReadingOption(
    name="schemaEvolutionMode",
    parse=optional(one_of("none", "failOnNewColumns", "addNewColumns")),
    default_text="addNewColumns if the source provides the schema, none if it is given",
    doc="What to do when the source has columns that the schema does not have. addNewColumns: record the "
    "wider schema, then fail; a restarted query continues with it. failOnNewColumns: fail until "
    "the schema is changed. none: do not read them.",
)
FOUND_SCHEMA_OPTIONS: tuple[Option[Any], ...] = (SCHEMA_EVOLUTION_MODE,)
"""Only for readers and enumerators that find their schema in the source (``FindsSchema``)."""

SAVEPOINT: Option[str | None] = Option(
    name="savepoint",
    parse=optional(location),
    doc="Savepoint (its directory, any fsspec URL) that a new query starts from; ignored once the query has "
    "a checkpoint of its own.",
    changes=Change.IGNORED,
)
SAVEPOINT_CLAIM: Option[str] = Option(
    name="savepointClaim",
    parse=one_of("noClaim", "claim"),
    doc="Whether the query takes ownership of the savepoint. noClaim: the savepoint is only read. claim: the "
    "query owns the savepoint and deletes it once retainedCheckpoints of its own checkpoints are complete; "
    "no other query can claim it.",
    changes=Change.IGNORED,
)
ALLOW_NON_RESTORED_STATE: Option[bool] = Option(
    name="allowNonRestoredState",
    parse=boolean,
    doc="true: a savepoint that does not fully match the source is accepted; a warning names the state that "
    "cannot be restored, which starts empty.",
    changes=Change.IGNORED,
)
ALLOW_ROLLED_BACK_CHECKPOINT: Option[bool] = NextBatchOption(
    name="allowRolledBackCheckpoint",
    parse=boolean,
    doc="true: a query may continue when its checkpoint location is an older copy than its state location. "
    "Data read since the copy is read again; a sink that tracks batch numbers skips batches that it has.",
    change_note="looked at when the query starts",
)
PATH_REWRITE: Option[PathRewrite | None] = Option(
    name="pathRewrite",
    parse=optional(path_rewrite),
    doc="New paths of files that were moved after the savepoint: /old=/new, several separated by commas, or "
    'a JSON object {"/old": "/new"}. The longest matching prefix applies. Needed at the first start only.',
    changes=Change.IGNORED,
)
TRACING: Option[bool] = NextBatchOption(
    name="tracing",
    parse=boolean,
    doc="true: each batch is a trace for OpenTelemetry, with its tasks (docs/monitoring.md). The environment "
    "variables OTEL_* of the driver and of the executors say where to; they alone switch nothing on.",
    change_note="from the next run on",
)

CORE_OPTIONS: tuple[Option[Any], ...] = (
    PATH, ENUMERATOR, READER, UID, STATE_LOCATION, INLINE_STATE_LIMIT, RETAINED_CHECKPOINTS,
    REQUEST_INTERVAL, AVAILABLE_NOW, PARALLELISM, MAX_PARTITION_BYTES, MAX_FILES_PER_TRIGGER,
    MAX_ROWS_PER_TRIGGER, MAX_BYTES_PER_TRIGGER, TARGET_BATCH_DURATION, TARGET_BACKLOG_DURATION,
    TOLERABLE_FAILED_CHECKPOINTS, MAX_EVENT_TIME_DRIFT, ALIGNMENT_GROUP, ALIGNMENT_TIMEOUT, REPLAY_SPEED,
    *DISCOVERY_OPTIONS, TIME_ZONE, TASK_REPORTS, ON_MISSING_REPORT, EVENT_TIME_COLUMN,
    ON_SPLIT_ERROR, ON_DATA_LOSS, MAX_SPLIT_ATTEMPTS, MAX_QUARANTINED_SPLITS, SAVEPOINT, SAVEPOINT_CLAIM,
    ALLOW_NON_RESTORED_STATE, ALLOW_ROLLED_BACK_CHECKPOINT, PATH_REWRITE, TRACING,
)  # fmt: skip
