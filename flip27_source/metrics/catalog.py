"""The catalog of metrics: every exported name with its kind, unit, labels and meaning.

Names, labels and meanings are a contract: dashboards and alerts depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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


_defined: list[Metric] = []


def _of_query(
    name: str, unit: str, doc: str, *labels: str, kind: Kind = Kind.GAUGE, by: By = By.BOTH
) -> Metric:
    _defined.append(Metric(name=name, unit=unit, labels=("query", *labels), doc=doc, kind=kind, by=by))
    return _defined[-1]


def _of_source(
    name: str, unit: str, doc: str, *labels: str, kind: Kind = Kind.GAUGE, by: By = By.BOTH
) -> Metric:
    return _of_query(name, unit, doc, "source", *labels, kind=kind, by=by)


QUERY_ACTIVE = _of_query("flip27_query_active", "1", "1 while the query runs, 0 after its end.")
QUERY_FAILED = _of_query("flip27_query_failed", "1", "1 if the query has ended with an error.")
BATCH_ID = _of_query("flip27_batch_id", "1", "Number of the newest completed batch.")
BATCH_DURATION = _of_query(
    "flip27_batch_duration_seconds", "s", "Duration of the newest batch.", by=By.LISTENER
)
BATCH_PHASE = _of_query(
    "flip27_batch_phase_seconds",
    "s",
    "Duration of a phase of the newest batch, by Spark's name.",
    "phase",
    by=By.LISTENER,
)
STATE_READABLE = _of_query(
    "flip27_state_readable",
    "1",
    "1 if the last look at the query's state could read all of it, 0 if not.",
    by=By.EXPORTER,
)
STATE_READ = _of_query(
    "flip27_state_read_seconds", "s", "Time since the query's state was last read, all of it.", by=By.EXPORTER
)
DRIVER_CONDITION = _of_source(
    "flip27_driver_condition",
    "1",
    "1 for the condition of the source's driver: running, stopped, failed, lost (it has ended without a "
    "word) or unknown; 0 for the others.",
    "condition",
    by=By.EXPORTER,
)
DRIVER_ERROR = _of_source(
    "flip27_driver_error", "1", "1 for the class of the error with which the driver has ended.", "error",
    by=By.EXPORTER,
)  # fmt: skip
DRIVER_EPOCH = _of_source(
    "flip27_driver_epoch", "1", "How many drivers the source has had: each start of the query adds one.",
    by=By.EXPORTER,
)  # fmt: skip
DRIVER_HEARD = _of_source(
    "flip27_driver_heard_seconds", "s", "Time since the driver has last said that it is alive, or its end.",
    by=By.EXPORTER,
)  # fmt: skip
BATCH_PENDING = _of_source(
    "flip27_batch_pending",
    "1",
    "1 if the newest batch is not complete, 0 if it is; known with the query's checkpoint location.",
    by=By.EXPORTER,
)
CHECKPOINT_ID = _of_source("flip27_checkpoint_id", "1", "The newest checkpoint.")
LAG = _of_source("flip27_lag_seconds", "s", "Time since the newest checkpoint was triggered.")
COMPLETE_AGE = _of_source(
    "flip27_complete_checkpoint_seconds",
    "s",
    "Time since the newest checkpoint whose batch is complete was triggered.",
)
EVENT_TIME_LAG = _of_source(
    "flip27_event_time_lag_seconds", "s", "Time since the largest event time reported by tasks."
)
BACKLOG = _of_source("flip27_backlog_splits", "{split}", "Splits that were found and are in no batch yet.")
BACKLOG_ROWS = _of_source(
    "flip27_backlog_rows",
    "{row}",
    "Rows that were found and are in no batch yet, if the source reports them.",
)
BACKLOG_BYTES = _of_source(
    "flip27_backlog_bytes", "By", "Bytes that were found and are in no batch yet, if the source reports them."
)
BACKLOG_AGE = _of_source(
    "flip27_backlog_seconds", "s", "Time since the event time of the oldest waiting record."
)
SPLITS = _of_source("flip27_splits", "{split}", "Splits by status.", "status")
LATE_FILES = _of_source(
    "flip27_late_files", "{file}", "Files that arrived late, since the first start of the source."
)
LATE_SPLITS = _of_source(
    "flip27_late_splits",
    "{split}",
    "Splits that were found too late for the watermark, since eventTimeOrder was set.",
)
SMALLEST_WATERMARK_DELAY = _of_source(
    "flip27_smallest_watermark_delay_seconds",
    "s",
    "The smallest watermark delay with which nothing of the newest batch and the backlog is late, with "
    "eventTimeOrder.",
)
HORIZON = _of_source(
    "flip27_event_time_horizon_seconds",
    "s",
    "Time since the event time after which nothing was read in the newest batch, with maxEventTimeDrift or "
    "replaySpeed.",
)
PAUSED_SPLITS = _of_source(
    "flip27_paused_splits",
    "{split}",
    "Splits that maxEventTimeDrift or replaySpeed has kept out of the newest batch.",
)
REPLAY_BEHIND = _of_source(
    "flip27_replay_behind_seconds",
    "s",
    "For how long the data that still waits has been due, with replaySpeed; none once the source is live.",
)
TOO_OLD_FILES = _of_source(
    "flip27_too_old_files", "{file}", "Files skipped as too old, since the first start of the source."
)
OVERWRITTEN_FILES = _of_source(
    "flip27_overwritten_files", "{file}", "Files that were overwritten, since the first start of the source."
)
SLOWEST_SUBTASK = _of_source(
    "flip27_slowest_subtask_seconds",
    "s",
    "Duration of the slowest task of the newest batch whose tasks reported.",
)
RETRIED_SUBTASKS = _of_source(
    "flip27_retried_subtasks",
    "{subtask}",
    "Tasks that needed a retry, in the newest batch whose tasks reported.",
)
ACTIONS_GIVEN_UP = _of_source(
    "flip27_actions_given_up", "{action}", "Side effects after a batch that have failed permanently."
)
DATA_LOSSES = _of_source(
    "flip27_data_losses",
    "{loss}",
    "How often data was lost before it was read, since the first start of the source.",
)
FAILED_CHECKPOINTS = _of_source(
    "flip27_failed_checkpoints",
    "{checkpoint}",
    "Batches of this run that could not be planned or stored because something could not be reached.",
)
LAST_FAILURE = _of_source(
    "flip27_failed_checkpoint_seconds",
    "s",
    "Time since the newest of these failures, by the class of its error.",
    "error",
)
CHECKPOINT_BYTES = _of_source(
    "flip27_checkpoint_bytes", "By", "Size of the newest checkpoint, with the segments that it shares."
)
PLANNING = _of_source("flip27_planning_seconds", "s", "Time that it took to choose the newest batch.")
WRITING = _of_source(
    "flip27_checkpoint_write_seconds", "s", "Time that it took to make the newest checkpoint durable."
)
RESTORE = _of_source(
    "flip27_restore_seconds", "s", "Time that this run has taken to restore its state; none if it began anew."
)
RESTORE_BYTES = _of_source("flip27_restore_bytes", "By", "Size of the checkpoint that this run has restored.")
SLOT_KEPT = _of_source(
    "flip27_slot_kept_bytes", "By", "WAL that a PostgreSQL server keeps for the slot of the source.", "slot"
)
PARTITION_LAG = _of_source(
    "flip27_partition_lag_rows",
    "{row}",
    "Offsets of a Kafka partition that are in no batch yet, with partitionLag=true.",
    "partition",
)
ENUMERATOR_GAUGE = _of_source(
    "flip27_enumerator_gauge",
    "1",
    "Value of a gauge that the enumerator publishes, by the name of the gauge.",
    "name",
)
CHECKPOINTS = _of_source(
    "flip27_checkpoints", "{checkpoint}", "Checkpoints taken.", kind=Kind.COUNTER, by=By.LISTENER
)
ROWS = _of_source("flip27_rows", "{row}", "Rows read by Spark.", kind=Kind.COUNTER, by=By.LISTENER)
FILES = _of_source(
    "flip27_files", "{file}", "Files that were put into batches.", kind=Kind.COUNTER, by=By.LISTENER
)
BYTES = _of_source(
    "flip27_bytes", "By", "Known size of the splits that were put into batches.", kind=Kind.COUNTER,
    by=By.LISTENER,
)  # fmt: skip

CATALOG = tuple(_defined)
"""All metrics in display order."""
