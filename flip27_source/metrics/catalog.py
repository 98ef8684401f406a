"""The catalog of metrics: every exported name with its kind, unit, labels and meaning.

Names, labels and meanings are a contract: dashboards and alerts depend on them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any


class Kind(Enum):
    """A gauge goes up and down; a counter only goes up, and starts at 0 for a new query."""

    GAUGE = "gauge"
    COUNTER = "counter"


class By(Enum):
    """What exports a metric: the listener in the query's program, the exporter that reads states, or both."""

    BOTH = "both"
    LISTENER = "listener"
    EXPORTER = "exporter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        name: the exported name; Prometheus appends ``_total`` to that of a counter.
        unit: UCUM, as in OpenTelemetry: ``s``, ``By``, or the counted thing in braces.
        labels: names of the labels of each sample, in order.
        doc: one sentence.
        by: what exports it.
    """

    name: str
    unit: str
    labels: tuple[str, ...]
    doc: str
    kind: Kind = Kind.GAUGE
    by: By = By.BOTH


def is_float(value: float) -> bool:
    """Whether a number is finite as a float."""
    return abs(value) <= sys.float_info.max


_defined: list[Metric] = []
_UNITS = {
    "seconds": "s", "bytes": "By", "splits": "{split}", "rows": "{row}", "files": "{file}",
    "checkpoints": "{checkpoint}", "subtasks": "{subtask}", "losses": "{loss}",
}  # fmt: skip
"""The units that the last word of a name tells; others are given, or 1."""


def _of_query(
    name: str, doc: str, *labels: str, unit: str | None = None, kind: Kind = Kind.GAUGE, by: By = By.BOTH
) -> Metric:
    unit = unit or _UNITS.get(name.rpartition("_")[2], "1")
    _defined.append(Metric(name=name, unit=unit, labels=("query", *labels), doc=doc, kind=kind, by=by))
    return _defined[-1]


def _of_source(name: str, doc: str, *labels: str, **more: Any) -> Metric:
    return _of_query(name, doc, "source", *labels, **more)


_heard_of_query, _heard_of_source = (partial(of, by=By.LISTENER) for of in (_of_query, _of_source))
_stored_of_query, _stored_of_source = (partial(of, by=By.EXPORTER) for of in (_of_query, _of_source))

QUERY_ACTIVE = _of_query("flip27_query_active", "1 while the query runs, 0 after its end.")
QUERY_FAILED = _of_query("flip27_query_failed", "1 if the query has ended with an error.")
BATCH_ID = _of_query("flip27_batch_id", "Number of the newest completed batch.")
BATCH_DURATION = _heard_of_query("flip27_batch_duration_seconds", "Duration of the newest batch.")
BATCH_PHASE = _heard_of_query(
    "flip27_batch_phase_seconds", "Duration of a phase of the newest batch, by Spark's name.", "phase"
)
STATE_READABLE = _stored_of_query(
    "flip27_state_readable", "1 if the last look at the query's state could read all of it, 0 if not."
)
STATE_READ = _stored_of_query(
    "flip27_state_read_seconds", "Time since the query's state was last read, all of it."
)
DRIVER_CONDITION = _stored_of_source(
    "flip27_driver_condition",
    "1 for the condition of the source's driver: running, stopped, failed, lost (it has ended without a "
    "word) or unknown; 0 for the others.",
    "condition",
)
DRIVER_ERROR = _stored_of_source(
    "flip27_driver_error", "1 for the class of the error with which the driver has ended.", "error"
)
DRIVER_EPOCH = _stored_of_source(
    "flip27_driver_epoch",
    "How often a driver has taken the source over: a start adds one, or two if it repeats a batch.",
)
DRIVER_HEARD = _stored_of_source(
    "flip27_driver_heard_seconds", "Time since the driver has last said that it is alive, or its end."
)
DISCOVERY = _stored_of_source(
    "flip27_discovery_seconds",
    "For how long the present round of discovery has lasted, if that is more than a minute, otherwise 0; "
    "none unless the query runs.",
)
BATCH_PENDING = _stored_of_source(
    "flip27_batch_pending",
    "1 if the batch of the newest checkpoint is not complete, 0 if it is; known with the query's checkpoint "
    "location.",
)
CHECKPOINT_ID = _of_source("flip27_checkpoint_id", "The newest checkpoint.")
LAG = _of_source("flip27_lag_seconds", "Time since the newest checkpoint was triggered.")
COMPLETE_AGE = _of_source(
    "flip27_complete_checkpoint_seconds",
    "Time since the newest checkpoint whose batch is complete was triggered.",
)
EVENT_TIME_LAG = _of_source(
    "flip27_event_time_lag_seconds", "Time since the largest event time reported by tasks."
)
BACKLOG = _of_source("flip27_backlog_splits", "Splits that were found and are in no batch yet.")
BACKLOG_ROWS = _of_source(
    "flip27_backlog_rows", "Rows that were found and are in no batch yet, if the source reports them."
)
BACKLOG_BYTES = _of_source(
    "flip27_backlog_bytes", "Bytes that were found and are in no batch yet, if the source reports them."
)
BACKLOG_AGE = _of_source("flip27_backlog_seconds", "Time since the event time of the oldest waiting record.")
SPLITS = _of_source("flip27_splits", "Splits by status.", "status")
LATE_FILES = _of_source("flip27_late_files", "Files that arrived late, since the first start of the source.")
LATE_SPLITS = _of_source(
    "flip27_late_splits", "Splits that were found too late for the watermark, since eventTimeOrder was set."
)
SMALLEST_WATERMARK_DELAY = _of_source(
    "flip27_smallest_watermark_delay_seconds",
    "The smallest watermark delay with which nothing of the newest batch and the backlog is late, with "
    "eventTimeOrder.",
)
HORIZON = _of_source(
    "flip27_event_time_horizon_seconds",
    "Time since the event time after which nothing was read in the newest batch, with maxEventTimeDrift or "
    "replaySpeed.",
)
PAUSED_SPLITS = _of_source(
    "flip27_paused_splits", "Splits that maxEventTimeDrift or replaySpeed has kept out of the newest batch."
)
REPLAY_BEHIND = _of_source(
    "flip27_replay_behind_seconds",
    "For how long the data that still waits has been due, with replaySpeed; none once the source is live.",
)
TOO_OLD_FILES = _of_source(
    "flip27_too_old_files", "Files skipped as too old, since the first start of the source."
)
OVERWRITTEN_FILES = _of_source(
    "flip27_overwritten_files", "Files that were overwritten, since the first start of the source."
)
SLOWEST_SUBTASK = _of_source(
    "flip27_slowest_subtask_seconds", "Duration of the slowest task of the newest batch whose tasks reported."
)
RETRIED_SUBTASKS = _of_source(
    "flip27_retried_subtasks", "Tasks that needed a retry, in the newest batch whose tasks reported."
)
ACTIONS_GIVEN_UP = _of_source(
    "flip27_actions_given_up", "Side effects after a batch that have failed permanently.", unit="{action}"
)
DATA_LOSSES = _of_source(
    "flip27_data_losses", "How often data was lost before it was read, since the first start of the source."
)
FAILED_CHECKPOINTS = _of_source(
    "flip27_failed_checkpoints",
    "Batches of this run that could not be planned or stored because something could not be reached.",
)
LAST_FAILURE = _of_source(
    "flip27_failed_checkpoint_seconds",
    "Time since the newest of these failures, by the class of its error.",
    "error",
)
CHECKPOINT_BYTES = _of_source(
    "flip27_checkpoint_bytes", "Size of the newest checkpoint, with the segments that it shares."
)
PLANNING = _of_source("flip27_planning_seconds", "Time that it took to choose the newest batch.")
WRITING = _of_source(
    "flip27_checkpoint_write_seconds", "Time that it took to make the newest checkpoint durable."
)
RESTORE = _of_source(
    "flip27_restore_seconds", "Time that this run has taken to restore its state; none if it began anew."
)
RESTORE_BYTES = _of_source("flip27_restore_bytes", "Size of the checkpoint that this run has restored.")
SLOT_KEPT = _of_source(
    "flip27_slot_kept_bytes", "WAL that a PostgreSQL server keeps for the slot of the source.", "slot"
)
PARTITION_LAG = _of_source(
    "flip27_partition_lag_rows",
    "Offsets of a Kafka partition that are in no batch yet, with partitionLag=true.",
    "partition",
)
ENUMERATOR_GAUGE = _of_source(
    "flip27_enumerator_gauge",
    "Value of a gauge that the enumerator publishes, by the name of the gauge.",
    "name",
)
CHECKPOINTS = _heard_of_source("flip27_checkpoints", "Checkpoints taken.", kind=Kind.COUNTER)
ROWS = _heard_of_source("flip27_rows", "Rows read by Spark.", kind=Kind.COUNTER)
FILES = _heard_of_source("flip27_files", "Files that were put into batches.", kind=Kind.COUNTER)
BYTES = _heard_of_source(
    "flip27_bytes", "Known size of the splits that were put into batches.", kind=Kind.COUNTER
)

CATALOG = tuple(_defined)
"""All metrics in display order."""
