"""Parses a progress event of Spark: the numbers of the flip27 sources of a query.

Pure: no pyspark, no clock, no exporter. Sources of other formats are skipped.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..enumerator_context import COORDINATORS_NUMBERS
from ..errors import StateError
from ..snapshots.file_names import uid_in
from ..snapshots.offsets import Offset
from ..values.times import event_time
from . import catalog
from .catalog import Metric, is_float

STATUSES = {
    "pending": "pendingSplits",
    "waiting": "waitingSplits",
    "live": "liveSplits",
    "finished": "finishedSplits",
    "quarantined": "quarantinedSplits",
    "ignored": "ignoredSplits",
}
"""The statuses of a split, each with the number in the offset's summary that counts it."""

_NO_GAUGES = COORDINATORS_NUMBERS - {"delayedActions"} | {
    "pendingSplits", "filesLate", "filesTooOld", "filesOverwritten"
}  # fmt: skip
"""Numbers with a meaning here; any other number is a gauge of the enumerator."""


def error_class(text: Any) -> str | None:
    """The class of an error whose text is kept in the state; None if there is none: classes are few."""
    found = _CLASS.match(text) if isinstance(text, str) else None
    return None if found is None else found[0]


_CLASS = re.compile(r"[A-Za-z_]\w{0,59}(?=:|$)")


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and is_float(value) else None


def _seconds(milliseconds: Any) -> float | None:
    known = _number(milliseconds)
    return None if known is None else known / 1000


def _told(
    name: str, metric: Metric | None = None, default: Any = None, read: Callable[[Any], Any] = _number
) -> Any:
    """An attribute.

    Args:
        name: in offsets. metric: which shows it; an age, if it is a time. default: if it is not there.
    """
    return field(default=default, metadata={"name": name, "metric": metric, "read": read})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """One flip27 source at the end of a batch.

    Attributes:
        uid: uid of the source; if the source has a state location, in the form that file names use.
        is_new: whether the batch has a new checkpoint; False if only other sources had data.
        rows: rows of the batch as counted by Spark.
        splits, files, bytes: planned for the batch; 0 unless ``is_new``.
        by_status: number of splits by status; the keys are those of ``STATUSES``.
        late_files, too_old_files, overwritten_files: since the source began; 0 if they are not counted.
        late_splits: since eventTimeOrder was set; 0 if they are not counted.
        smallest_watermark_delay_s: that loses nothing of batch and backlog; None without eventTimeOrder.
        horizon: the event time after which nothing was read in the newest batch; None without a horizon.
        paused_splits: splits that it has kept out of that batch.
        replay_behind_s: for how long the data that still waits has been due; None without a replay.
        backlog_splits: splits found and not yet in a batch.
        backlog_rows, backlog_bytes: rows and bytes of the backlog; None if unknown.
        oldest_event_time: event time of the oldest waiting record.
        failed_checkpoints: failures to plan or store a batch, in this run of the query.
        failed_at, failed_with: when the newest of them was, and the class of its error.
        checkpoint_bytes: size of the newest checkpoint, with the segments that it shares with others.
        planning_s, writing_s: what it took to choose the newest batch, and to make its checkpoint durable.
        restore_s, restore_bytes: of the checkpoint that this run has restored; None if it began anew.
        data_losses: losses of data before it was read, since the source began.
        slowest_subtask_s, retried_subtasks: of the newest batch whose tasks reported; None without reports.
        max_event_time: the largest reported event time.
        gauges: other numbers published by the enumerator.
        parts: numbers of parts, such as the partitions of a topic, by the name of the number.
    """

    uid: str
    checkpoint_id: int
    is_new: bool
    rows: int
    splits: int
    files: int
    bytes: int
    by_status: Mapping[str, float]
    late_files: float = _told("filesLate", catalog.LATE_FILES, 0)
    too_old_files: float = _told("filesTooOld", catalog.TOO_OLD_FILES, 0)
    overwritten_files: float = _told("filesOverwritten", catalog.OVERWRITTEN_FILES, 0)
    late_splits: float = _told("lateSplits", catalog.LATE_SPLITS, 0)
    smallest_watermark_delay_s: float | None = _told(
        "smallestWatermarkDelayMs", catalog.SMALLEST_WATERMARK_DELAY, read=_seconds
    )
    horizon: dt.datetime | None = _told("eventTimeHorizon", catalog.HORIZON, read=event_time)  # noqa: RUF009
    paused_splits: float = _told("pausedSplits", catalog.PAUSED_SPLITS, 0)
    replay_behind_s: float | None = _told("replayBehindMs", catalog.REPLAY_BEHIND, read=_seconds)
    actions_given_up: float = _told("actionsGivenUp", catalog.ACTIONS_GIVEN_UP, 0)
    data_losses: float = _told("dataLosses", catalog.DATA_LOSSES, 0)
    failed_checkpoints: float = _told("failedCheckpoints", catalog.FAILED_CHECKPOINTS, 0)
    failed_at: dt.datetime | None = _told("lastFailureAt", read=event_time)  # noqa: RUF009
    failed_with: str | None = _told("lastFailure", read=error_class)
    checkpoint_bytes: float | None = _told("checkpointBytes", catalog.CHECKPOINT_BYTES)
    planning_s: float | None = _told("planningMs", catalog.PLANNING, read=_seconds)
    writing_s: float | None = _told("writeMs", catalog.WRITING, read=_seconds)
    restore_s: float | None = _told("restoreMs", catalog.RESTORE, read=_seconds)
    restore_bytes: float | None = _told("restoreBytes", catalog.RESTORE_BYTES)
    backlog_splits: float = _told("backlogSplits", catalog.BACKLOG, 0)
    backlog_rows: float | None = _told("backlogRows", catalog.BACKLOG_ROWS)
    backlog_bytes: float | None = _told("backlogBytes", catalog.BACKLOG_BYTES)
    oldest_event_time: dt.datetime | None = _told(  # noqa: RUF009
        "backlogOldestEventTime", catalog.BACKLOG_AGE, read=event_time
    )
    slowest_subtask_s: float | None = _told("lastSlowestSubtaskMs", catalog.SLOWEST_SUBTASK, read=_seconds)
    retried_subtasks: float | None = _told("lastRetriedSubtasks", catalog.RETRIED_SUBTASKS)
    max_event_time: dt.datetime | None = None
    gauges: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


_TOLD = {item.name: item.metadata for item in fields(SourceProgress) if item.metadata}
METRICS: Mapping[str, Metric] = {name: of["metric"] for name, of in _TOLD.items() if of["metric"]}
"""The metrics that show attributes of a source, by attribute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """One batch of a query.

    Attributes:
        at: time of the batch's trigger.
        phases: seconds by Spark's name of a phase of the batch, such as ``latestOffset``.
        sources: the sources of format flip27, in the order of the query.
    """

    query_id: str
    name: str | None
    batch_id: int
    at: dt.datetime
    duration_s: float
    phases: Mapping[str, float]
    sources: tuple[SourceProgress, ...]


def read_progress(progress: Mapping[str, Any]) -> QueryProgress:
    """Parse a progress event from its JSON (``StreamingQueryProgress.json``)."""
    sources = (_source(source) for source in progress["sources"])
    return QueryProgress(
        query_id=progress["id"],
        name=progress.get("name"),
        batch_id=progress["batchId"],
        at=dt.datetime.fromisoformat(progress["timestamp"]),
        duration_s=progress["batchDuration"] / 1000,
        phases={name: ms / 1000 for name, ms in progress.get("durationMs", {}).items()},
        sources=tuple(source for source in sources if source is not None),
    )


def _source(source: Mapping[str, Any]) -> SourceProgress | None:
    """None for a source of another format, and before the first checkpoint."""
    end = source.get("endOffset")
    try:
        offset = Offset.from_json(end)
    except StateError:
        return None
    if offset.is_initial:
        return None
    reported = source.get("latestOffset")
    # Spark before 4.2 shows the newest offset here, whose "state" is not a number of a report.
    if not isinstance(reported, dict) or isinstance(reported.get("state"), dict):
        reported = {}
    is_new = end != source.get("startOffset")
    planned = _numbers(offset.summary) if is_new else {}
    return progress_of(
        _uid(offset),
        offset.checkpoint_id,
        offset.summary,
        reported,
        is_new=is_new,
        rows=source.get("numInputRows") or 0,
        splits=int(planned.get("splits", 0)),
        files=int(planned.get("files", 0)),
        bytes=int(planned.get("bytes", 0)),
    )


def progress_of(
    uid: str, checkpoint_id: int, summary: Mapping[str, Any], reported: Mapping[str, Any], **batch: Any
) -> SourceProgress:
    """What the numbers of a source say.

    Args:
        summary: of the newest checkpoint. reported: as recent, with the numbers that tasks have reported.
        batch: the other attributes of the progress.
    """
    values = {**summary, **reported}
    numbers = _numbers(values)
    parts = values.get("parts")
    read = {name: of["read"](values.get(of["name"])) for name, of in _TOLD.items()}
    known = {name: value for name, value in read.items() if value is not None}
    if "replayIsLive" in reported:
        known.pop("replay_behind_s", None)
    # Offsets of older releases, and of enumerators that do not report their backlog, lack this number.
    waiting = numbers.get("pendingSplits", 0) + numbers.get("waitingSplits", 0)
    known["backlog_splits"] = max(known.get("backlog_splits", 0), waiting)
    return SourceProgress(
        uid=uid,
        checkpoint_id=checkpoint_id,
        by_status={status: numbers.get(name, 0) for status, name in STATUSES.items()},
        max_event_time=event_time(reported.get("lastMaxEventTime")),
        gauges={name: number for name, number in numbers.items() if name not in _NO_GAUGES},
        parts={
            name: _numbers(of)
            for name, of in (parts.items() if isinstance(parts, dict) else ())
            if isinstance(of, dict)
        },
        **known,
        **batch,
    )


def _uid(offset: Offset) -> str:
    if offset.lineage is not None:
        return uid_in(offset.lineage)
    source = (offset.inline or {}).get("source")
    return str(source["uid"]) if isinstance(source, dict) and "uid" in source else "unknown"


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among the values published by an enumerator and its tasks."""
    known = {name: _number(value) for name, value in values.items()}
    return {name: value for name, value in known.items() if value is not None}
