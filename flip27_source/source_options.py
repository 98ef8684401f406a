"""The options that every flip27 source has. Pure: no pyspark, no I/O."""

from __future__ import annotations

from typing import Any

from .file_systems.moved_paths import PathRewrite, path_rewrite
from .file_systems.paths import location
from .options import Option, boolean, duration_s, integer, one_of, optional, size_bytes, text

PATH: Option[str | None] = Option(
    name="path", parse=optional(text), default=None, doc="Where the data is; set by load(path)."
)
ENUMERATOR: Option[str | None] = Option(
    name="enumerator",
    parse=optional(text),
    default=None,
    doc="Finds the splits: a built-in name, an entry point, or package.module:Class.",
)
READER: Option[str | None] = Option(
    name="reader",
    parse=optional(text),
    default=None,
    default_text="the enumerator's own reader, if it has one",
    doc="Reads the splits: a built-in name, an entry point, or package.module:Class.",
)
UID: Option[str | None] = Option(
    name="uid",
    parse=optional(text),
    default=None,
    default_text="the enumerator's name",
    doc="Names this source within its state location (Flink's operator uid).",
)
STATE_LOCATION: Option[str | None] = Option(
    name="stateLocation",
    parse=optional(location),
    default=None,
    doc="Directory (any fsspec URL) for the source's state, best inside the query's checkpoint "
    "location. Without it the state must fit into Spark's offset log (see inlineStateLimit).",
)
INLINE_STATE_LIMIT: Option[int] = Option(
    name="inlineStateLimit",
    parse=size_bytes,
    default=64 * 1024,
    default_text="64k",
    doc="Largest state that may live in Spark's offset log when there is no stateLocation.",
)
RETAINED_CHECKPOINTS: Option[int] = Option(
    name="retainedCheckpoints",
    parse=integer(minimum=2),
    default=100,
    doc="How many checkpoints are kept; at least Spark's spark.sql.streaming.minBatchesToRetain.",
)
PARALLELISM: Option[int | None] = Option(
    name="parallelism",
    parse=optional(integer(minimum=1)),
    default=None,
    default_text="the driver's cores, more for batches of many maxPartitionBytes",
    doc="Most Spark tasks that a batch is packed into; one to three per executor core.",
)
REQUEST_INTERVAL: Option[float] = Option(
    name="requestInterval",
    parse=duration_s,
    default=10.0,
    default_text="10 seconds",
    doc="Pause between two looks for requests, beside the batches: edits of the state (docs/edits.md) and "
    "savepoints (docs/savepoints.md); 0s: they are looked for at the start of the query only.",
)
MAX_PARTITION_BYTES: Option[int] = Option(
    name="maxPartitionBytes",
    parse=size_bytes,
    default=128 * 1024 * 1024,
    default_text="128m",
    doc="Files that can be cut are cut into ranges of at most this size.",
)
MAX_FILES_PER_TRIGGER: Option[int | None] = Option(
    name="maxFilesPerTrigger",
    parse=optional(integer(minimum=1)),
    default=None,
    doc="Most files in one batch. Limits combine: the first one reached ends the batch, which "
    "always holds at least one split.",
)
MAX_ROWS_PER_TRIGGER: Option[int | None] = Option(
    name="maxRowsPerTrigger",
    parse=optional(integer(minimum=1)),
    default=None,
    doc="Most rows in one batch, as far as rows are known before reading.",
)
MAX_BYTES_PER_TRIGGER: Option[int | None] = Option(
    name="maxBytesPerTrigger",
    parse=optional(size_bytes),
    default=None,
    doc="Soft limit of the bytes in one batch.",
)
DISCOVERY_INTERVAL: Option[float] = Option(
    name="discoveryInterval",
    parse=duration_s,
    default=1.0,
    default_text="1 second",
    doc="Pause between two rounds of discovery, which runs beside the batches.",
)
DISCOVERY_RETRIES: Option[int] = Option(
    name="discoveryRetries",
    parse=integer(minimum=0),
    default=3,
    doc="How many failures of discovery in a row are tried again, with growing pauses, before "
    "the query fails.",
)
TIME_ZONE: Option[str | None] = Option(
    name="timeZone",
    parse=optional(text),
    default=None,
    default_text="the session's time zone",
    doc="Time zone of timestamps that are written without one.",
)

TASK_REPORTS: Option[str] = Option(
    name="taskReports",
    parse=one_of("auto", "always"),
    default="auto",
    doc="auto: tasks write a report to the stateLocation only where the source needs one; always: "
    "also for its numbers (rows, bytes, duration).",
)
ON_MISSING_REPORT: Option[str] = Option(
    name="onMissingReport",
    parse=one_of("fail", "repeat"),
    default="fail",
    doc="What to do when a batch is complete and a task that had to report has not (a foreachBatch that "
    "took only a few rows): fail the query, or repeat the splits of that task in the next batch.",
)
EVENT_TIME_COLUMN: Option[str | None] = Option(
    name="eventTimeColumn",
    parse=optional(text),
    default=None,
    doc="Column of times or dates whose largest value the tasks report, for the query's progress events.",
)
ON_SPLIT_ERROR: Option[str] = Option(
    name="onSplitError",
    parse=one_of("fail", "quarantine", "ignore"),
    default="fail",
    doc="What to do with a split (a file) that cannot be read: fail the query; set the split aside, with "
    "its error, in the state (quarantine); or leave it out, counted (ignoredSplits) and listed in the state "
    "(ignore). Either all of its rows are delivered or none.",
)
ON_DATA_LOSS: Option[str] = Option(
    name="onDataLoss",
    parse=one_of("fail", "report"),
    default="fail",
    doc="What to do when data is gone before it was read (retention removed it, a table or topic was removed "
    "or made anew, a file vanished): fail the query; or go on with what is there, and count the loss "
    "(dataLosses), list it in the state and log it (report). report needs a stateLocation.",
)
MAX_SPLIT_ATTEMPTS: Option[int] = Option(
    name="maxSplitAttempts",
    parse=integer(minimum=1),
    default=3,
    doc="How many times reading a split is tried before it is quarantined or ignored; counted across "
    "restarts.",
)
MAX_QUARANTINED_SPLITS: Option[int] = Option(
    name="maxQuarantinedSplits",
    parse=integer(minimum=0),
    default=100,
    doc="More quarantined splits than this fail the query.",
)
MAX_ROWS_PER_SPLIT: Option[int | None] = Option(
    name="maxRowsPerSplit",
    parse=optional(integer(minimum=1)),
    default=None,
    doc="A split that the reader bounds (pages) ends its share of a batch at the first page that reaches "
    "so many rows.",
)
MAX_BYTES_PER_SPLIT: Option[int | None] = Option(
    name="maxBytesPerSplit",
    parse=optional(size_bytes),
    default=None,
    doc="The same for bytes of Arrow data.",
)
MAX_SPLIT_DURATION: Option[float] = Option(
    name="maxSplitDuration",
    parse=duration_s,
    default=60.0,
    default_text="1 minute",
    doc="The same for the time that the split has been read in this batch.",
)
POLL_INTERVAL: Option[float] = Option(
    name="pollInterval",
    parse=duration_s,
    default=10.0,
    default_text="10 seconds",
    doc="Pause before a split whose reader had nothing more is read again.",
)
MAX_ACTION_ATTEMPTS: Option[int] = Option(
    name="maxActionAttempts",
    parse=integer(minimum=1),
    default=5,
    doc="How many times a side effect that is due after a batch (archive, delete, acknowledge) is tried.",
)
ON_ACTION_ERROR: Option[str] = Option(
    name="onActionError",
    parse=one_of("fail", "keep"),
    default="fail",
    doc="What to do when that fails as often: fail the query, or keep the action in the state and go on; "
    "it is tried again when the query is restarted.",
)

READER_BOUNDED_OPTIONS: tuple[Option[Any], ...] = (
    MAX_ROWS_PER_SPLIT,
    MAX_BYTES_PER_SPLIT,
    MAX_SPLIT_DURATION,
    POLL_INTERVAL,
)
"""Only for readers that yield Progress."""

ACTION_OPTIONS: tuple[Option[Any], ...] = (MAX_ACTION_ATTEMPTS, ON_ACTION_ERROR)
"""Only for enumerators that perform actions."""

SCHEMA_EVOLUTION_MODE: Option[str | None] = Option(
    name="schemaEvolutionMode",
    parse=optional(one_of("none", "failOnNewColumns", "addNewColumns")),
    default=None,
    default_text="addNewColumns where the schema is found out, none where it is given",
    doc="What to do when the source has columns that the schema does not have. addNewColumns: record the "
    "wider schema, then fail; the query goes on with it when it is restarted. failOnNewColumns: fail until "
    "the schema is changed. none: do not read them.",
)
FOUND_SCHEMA_OPTIONS: tuple[Option[Any], ...] = (SCHEMA_EVOLUTION_MODE,)
"""Only for readers and enumerators that find out their schema (``FindsSchema``)."""

SAVEPOINT: Option[str | None] = Option(
    name="savepoint",
    parse=optional(location),
    default=None,
    doc="Savepoint (its directory, any fsspec URL) that a new query begins with; looked at only as long as "
    "the query has no checkpoint of its own.",
)
SAVEPOINT_CLAIM: Option[str] = Option(
    name="savepointClaim",
    parse=one_of("noClaim", "claim"),
    default="noClaim",
    doc="Whose the savepoint is from then on. noClaim: nobody's, it is only read. claim: this query's, which "
    "deletes it once retainedCheckpoints of its own are complete; no other query can claim it.",
)
ALLOW_NON_RESTORED_STATE: Option[bool] = Option(
    name="allowNonRestoredState",
    parse=boolean,
    default=False,
    doc="true: a savepoint that does not match the source in every way is not refused; what cannot be "
    "matched begins afresh, as a warning says.",
)
ALLOW_ROLLED_BACK_CHECKPOINT: Option[bool] = Option(
    name="allowRolledBackCheckpoint",
    parse=boolean,
    default=False,
    doc="true: a query goes on whose checkpoint location is an older copy, while its state location is not. "
    "What was read since is read again; a sink that knows batch numbers leaves out those that it has.",
)
PATH_REWRITE: Option[PathRewrite | None] = Option(
    name="pathRewrite",
    parse=optional(path_rewrite),
    default=None,
    doc="The files that the savepoint knows were moved: /old=/new, several separated by commas, or a JSON "
    'object {"/old": "/new"}. The longest prefix counts. Needed at the first start only.',
)

CORE_OPTIONS: tuple[Option[Any], ...] = (
    PATH,
    ENUMERATOR,
    READER,
    UID,
    STATE_LOCATION,
    INLINE_STATE_LIMIT,
    RETAINED_CHECKPOINTS,
    REQUEST_INTERVAL,
    PARALLELISM,
    MAX_PARTITION_BYTES,
    MAX_FILES_PER_TRIGGER,
    MAX_ROWS_PER_TRIGGER,
    MAX_BYTES_PER_TRIGGER,
    DISCOVERY_INTERVAL,
    DISCOVERY_RETRIES,
    TIME_ZONE,
    TASK_REPORTS,
    ON_MISSING_REPORT,
    EVENT_TIME_COLUMN,
    ON_SPLIT_ERROR,
    ON_DATA_LOSS,
    MAX_SPLIT_ATTEMPTS,
    MAX_QUARANTINED_SPLITS,
    SAVEPOINT,
    SAVEPOINT_CLAIM,
    ALLOW_NON_RESTORED_STATE,
    ALLOW_ROLLED_BACK_CHECKPOINT,
    PATH_REWRITE,
)
