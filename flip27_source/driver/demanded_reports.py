"""DemandedReports: the driver's side of reports: which are required, where they go, and their collection."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..coordination.checkpoints import PendingCheckpoint
from ..coordination.coordinator import SourceCoordinator
from ..coordination.split_errors import SplitErrorPolicy
from ..coordination.subtask_reports import ReportDemand, SplitStatus, SubtaskReport
from ..errors import MissingReportError
from ..reader import YieldsProgress
from ..snapshots.codec import SnapshotCodec
from ..snapshots.offsets import Offset
from ..snapshots.report_files import ReportPlace, ReportStorage
from ..snapshots.store import Store
from ..source import Source
from ..source_options import EVENT_TIME_COLUMN, ON_MISSING_REPORT, TASK_REPORTS

_log = logging.getLogger("flip27_source")

_READ_AT_ONCE = 8


def report_demand(source: Source) -> ReportDemand:
    """Whether the tasks of a source write reports (R6)."""
    options = source.options
    if (
        source.enumerator_type.resolve_event_types()
        or issubclass(source.reader_type, YieldsProgress)
        or not SplitErrorPolicy.of(source).fails_always
    ):
        return ReportDemand.REQUIRED
    if options[TASK_REPORTS] == "always" or options[EVENT_TIME_COLUMN] is not None:
        return ReportDemand.WANTED
    return ReportDemand.NONE


def report_place(offset: Offset, demand: ReportDemand, subtask_id: int) -> ReportPlace | None:
    """Where a subtask of the checkpoint at ``offset`` writes its report; None if it writes none."""
    if demand is ReportDemand.NONE or offset.lineage is None or offset.name is None:
        return None
    return ReportPlace(
        lineage=offset.lineage,
        name=offset.name,
        subtask_id=subtask_id,
        required=demand is ReportDemand.REQUIRED,
    )


class DemandedReports:
    """Collects the reports of complete checkpoints."""

    def __init__(self, source: Source, store: Store, codec: SnapshotCodec) -> None:
        self._repeats = source.options[ON_MISSING_REPORT] == "repeat"
        self._storage = ReportStorage(store, codec, source.enumerator_type)
        self.numbers: dict[str, Any] = {}
        """Numbers for progress events, from the newest checkpoint whose tasks reported."""

    def collect(
        self,
        coordinator: SourceCoordinator[Any],
        pending: PendingCheckpoint[Any],
        offset: Offset,
        change: Callable[[SubtaskReport[Any]], SubtaskReport[Any]] | None = None,
    ) -> None:
        """Pass every report of a checkpoint whose batch is complete to the coordinator.

        Args:
            change: applied to each report first.

        Raises:
            MissingReportError: a required report is missing, and ``onMissingReport`` is fail.
        """
        plan = pending.snapshot.plan
        subtasks = [item.subtask_id for item in plan.assignments]
        places = [place for i in subtasks if (place := report_place(offset, plan.reports, i)) is not None]
        reports = []
        for place, report in zip(places, self._read(places), strict=True):
            if report is not None:
                coordinator.acknowledge(report if change is None else change(report))
                reports.append(report)
            elif place.required and self._repeats:
                coordinator.repeat(place.subtask_id)
            elif place.required:
                raise _missing(place)
        if reports:
            _warn_of_ignored(reports)
            self.numbers = _numbers(reports)

    def _read(self, places: list[ReportPlace]) -> list[SubtaskReport[Any] | None]:
        if len(places) < 2:
            return [self._storage.read(place) for place in places]
        with ThreadPoolExecutor(min(_READ_AT_ONCE, len(places))) as pool:
            return list(pool.map(self._storage.read, places))


def _warn_of_ignored(reports: list[SubtaskReport[Any]]) -> None:
    """Log every split that was skipped, in the driver's log."""
    for report in reports:
        for result in report.results:
            if result.status is SplitStatus.IGNORED:
                _log.warning(
                    "checkpoint %d: split %s could not be read and was skipped: %s",
                    report.checkpoint_id, result.split_id, result.error,
                )  # fmt: skip


def _missing(place: ReportPlace) -> MissingReportError:
    return MissingReportError(
        f"the batch of checkpoint {place.name.checkpoint_id} is complete, but its subtask "
        f"{place.subtask_id} has not written its report (lineage {place.lineage}): the rows that it read "
        "and the events that its reader sent are not known",
        remedy="read every batch to its end (a foreachBatch that only takes or limits rows does not), or "
        "restore the state location from a backup; with onMissingReport=repeat the splits of that subtask "
        "are read again, so rows that were already used are delivered twice",
    )


def _numbers(reports: list[SubtaskReport[Any]]) -> dict[str, Any]:
    metrics = [report.metrics for report in reports]
    numbers: dict[str, Any] = {
        "lastRows": sum(item.rows for item in metrics),
        "lastBytes": sum(item.bytes for item in metrics),
        "lastSlowestSubtaskMs": max(item.duration_ms for item in metrics),
        "lastRetriedSubtasks": sum(item.attempt_number > 0 for item in metrics),
    }
    times = [item.max_event_time for item in metrics if item.max_event_time is not None]
    if times:
        numbers["lastMaxEventTime"] = max(times)
    return numbers
