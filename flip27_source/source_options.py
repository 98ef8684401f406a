"""The options that every flip27 source has. Pure: no pyspark, no I/O."""

from __future__ import annotations

from typing import Any

from .options import Option, duration_s, integer, optional, size_bytes, text

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
    parse=optional(text),
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

CORE_OPTIONS: tuple[Option[Any], ...] = (
    PATH,
    ENUMERATOR,
    READER,
    UID,
    STATE_LOCATION,
    INLINE_STATE_LIMIT,
    RETAINED_CHECKPOINTS,
    PARALLELISM,
    MAX_PARTITION_BYTES,
    MAX_FILES_PER_TRIGGER,
    MAX_ROWS_PER_TRIGGER,
    MAX_BYTES_PER_TRIGGER,
    DISCOVERY_INTERVAL,
    DISCOVERY_RETRIES,
    TIME_ZONE,
)
