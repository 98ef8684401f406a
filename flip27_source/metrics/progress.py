"""Reading a progress event of Spark: what its JSON says about the flip27 sources of a query.

Pure: no pyspark, no clock, no exporter. Sources of other formats are passed over.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import StateError
from ..snapshots.file_names import uid_in
from ..snapshots.offsets import Offset

STATUSES = {
    "pending": "pendingSplits",
    "waiting": "waitingSplits",
    "live": "liveSplits",
    "finished": "finishedSplits",
    "quarantined": "quarantinedSplits",
    "ignored": "ignoredSplits",
}
"""Where a split can be, and the number in the offset's summary that counts those."""

_OWN = {
    *STATUSES.values(), "checkpoint", "splits", "files", "rows", "bytes", "actionsGivenUp",
    "filesLate", "filesTooOld", "filesOverwritten",
    "dataLosses", "backlogSplits", "backlogRows", "backlogBytes",
    "lastRows", "lastBytes", "lastSlowestSubtaskMs", "lastRetriedSubtasks",
}  # fmt: skip
"""Numbers that have a meaning here; any other is a gauge of the enumerator's author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """One flip27 source at the end of a batch.

    Attributes:
        uid: of the source, in the characters of file names where it has a state location.
        is_new: whether the batch took a new checkpoint; False when only other sources had data.
        rows: that Spark counted in the batch.
        splits, files, bytes: planned for the batch; 0 unless ``is_new``.
        by_status: splits by where they are; the keys are those of ``STATUSES``.
        late_files, too_old_files, overwritten_files: since the source began; 0 where nobody counts them.
        backlog_splits: splits that are found and in no batch yet. backlog_rows, backlog_bytes: what they
            hold, None where that is not known. oldest_event_time: of the oldest record that waits.
        data_losses: how often data was gone before it was read, since the source began.
        slowest_subtask_s, retried_subtasks: of the newest batch whose tasks reported; None without reports.
        max_event_time: the largest one reported.
        gauges: what the enumerator publishes beside these.
    """

    uid: str
    checkpoint_id: int
    is_new: bool
    rows: int
    splits: int
    files: int
    bytes: int
    by_status: Mapping[str, float]
    late_files: float = 0
    too_old_files: float = 0
    overwritten_files: float = 0
    actions_given_up: float = 0
    data_losses: float = 0
    backlog_splits: float = 0
    backlog_rows: float | None = None
    backlog_bytes: float | None = None
    oldest_event_time: dt.datetime | None = None
    slowest_subtask_s: float | None = None
    retried_subtasks: float | None = None
    max_event_time: dt.datetime | None = None
    gauges: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """One batch of a query.

    Attributes:
        at: when the batch was triggered.
        phases: seconds by the name that Spark gives to a part of the batch, ``latestOffset`` say.
        sources: those of format flip27, in the order of the query.
    """

    query_id: str
    name: str | None
    batch_id: int
    at: dt.datetime
    duration_s: float
    phases: Mapping[str, float]
    sources: tuple[SourceProgress, ...]


def read_progress(progress: Mapping[str, Any]) -> QueryProgress:
    """What a progress event says, from its JSON (``StreamingQueryProgress.json``)."""
    found = (_source(source) for source in progress["sources"])
    return QueryProgress(
        query_id=progress["id"],
        name=progress.get("name"),
        batch_id=progress["batchId"],
        at=dt.datetime.fromisoformat(progress["timestamp"]),
        duration_s=progress["batchDuration"] / 1000,
        phases={name: ms / 1000 for name, ms in progress.get("durationMs", {}).items()},
        sources=tuple(source for source in found if source is not None),
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
    report = source.get("latestOffset")
    told = report if isinstance(report, dict) else {}
    # The report is as new as the summary, and also knows what the tasks said.
    numbers = _numbers({**offset.summary, **told})
    is_new = end != source.get("startOffset")
    planned = _numbers(offset.summary) if is_new else {}
    slowest_ms = numbers.get("lastSlowestSubtaskMs")
    return SourceProgress(
        uid=_uid(offset),
        checkpoint_id=offset.checkpoint_id,
        is_new=is_new,
        rows=source.get("numInputRows") or 0,
        splits=int(planned.get("splits", 0)),
        files=int(planned.get("files", 0)),
        bytes=int(planned.get("bytes", 0)),
        by_status={status: numbers.get(name, 0) for status, name in STATUSES.items()},
        late_files=numbers.get("filesLate", 0),
        too_old_files=numbers.get("filesTooOld", 0),
        overwritten_files=numbers.get("filesOverwritten", 0),
        actions_given_up=numbers.get("actionsGivenUp", 0),
        data_losses=numbers.get("dataLosses", 0),
        # Offsets of older releases, and enumerators that do not tell their backlog, have no such number.
        backlog_splits=max(
            numbers.get("backlogSplits", 0), numbers.get("pendingSplits", 0) + numbers.get("waitingSplits", 0)
        ),
        backlog_rows=numbers.get("backlogRows"),
        backlog_bytes=numbers.get("backlogBytes"),
        oldest_event_time=_time({**offset.summary, **told}.get("backlogOldestEventTime")),
        slowest_subtask_s=None if slowest_ms is None else slowest_ms / 1000,
        retried_subtasks=numbers.get("lastRetriedSubtasks"),
        max_event_time=_time(told.get("lastMaxEventTime")),
        gauges={name: number for name, number in numbers.items() if name not in _OWN},
    )


def _uid(offset: Offset) -> str:
    if offset.lineage is not None:
        return uid_in(offset.lineage)
    source = (offset.inline or {}).get("source")
    return str(source["uid"]) if isinstance(source, dict) and "uid" in source else "unknown"


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among what an enumerator and its tasks have published."""
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _time(text: Any) -> dt.datetime | None:
    """An event time as tasks report it; without a zone it is UTC. None for what is no such time."""
    try:
        time = dt.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)
