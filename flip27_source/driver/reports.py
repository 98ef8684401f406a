"""The driver's side of reports: which ones are required, where they are written, and their collection."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..coordination.checkpoints import PendingCheckpoint
from ..coordination.coordinator import SourceCoordinator
from ..coordination.split_rules import SplitErrorPolicy
from ..coordination.subtask_reports import ReportDemand, SplitStatus, SubtaskReport
from ..errors import MissingReportError
from ..log import LOG
from ..reader import YieldsProgress
from ..snapshots.codec import SnapshotCodec
from ..snapshots.late_reports import LateReports, ids_in_reports, with_late
from ..snapshots.offsets import Offset
from ..snapshots.report_files import ReportPlace, ReportStorage
from ..snapshots.store import Store
from ..source import Source
from ..source_options import EVENT_TIME_COLUMN, ON_DATA_LOSS, ON_MISSING_REPORT, TASK_REPORTS

_READ_AT_ONCE = 8

_MISSING_REPORT = (
    "read every batch to its end (a foreachBatch that only takes or limits rows does not), or restore the "
    "state location from a backup. With onMissingReport=repeat the query continues and reads the splits of "
    "that subtask again: rows of theirs that are already in the sink are then there twice"
)


def report_demand(source: Source) -> ReportDemand:
    """Whether the tasks of a source write reports (R6)."""
    options = source.options
    if (
        source.enumerator_type.resolve_event_types()
        or issubclass(source.reader_type, YieldsProgress)
        or source.reader_type.quarantines(options)
        or not SplitErrorPolicy.of(source).fails_always
        or options[ON_DATA_LOSS] == "report"
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


class SubtaskReports:
    """Collects the reports of complete checkpoints."""

    def __init__(self, source: Source, store: Store, codec: SnapshotCodec) -> None:
        self._repeats = source.options[ON_MISSING_REPORT] == "repeat"
        self._storage = ReportStorage(store, codec, source.enumerator_type)
        self._store = store
        self._may_have_late = source.reader_type.reads_later or SplitErrorPolicy.of(source).reports_loss
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

        What the tasks of this run may have written follows from its options. The tasks of an earlier run may
        have had other options, so whatever they have written is read, even if the plan does not demand it.

        Args:
            change: applied to each report first.

        Raises:
            MissingReportError: a required report is missing, and ``onMissingReport`` is fail.
        """
        plan = pending.snapshot.plan
        if plan.reports is ReportDemand.NONE and not coordinator.is_restored:
            return
        late = self._late(offset) if self._may_have_late or coordinator.is_restored else []
        # Tasks of a repeated batch may have reported although nothing was demanded when it was planned.
        demand = plan.reports if plan.reports is ReportDemand.REQUIRED else ReportDemand.WANTED
        subtasks = [item.subtask_id for item in plan.assignments]
        places = [place for i in subtasks if (place := report_place(offset, demand, i)) is not None]
        if change is not None:
            late = [change(report) for report in late]
        owned = {i.subtask_id: ids_in_reports(i.splits, coordinator.enumerator) for i in plan.assignments}
        reports = []
        for place, report in zip(places, self._read(places), strict=True):
            if report is not None:
                report = report if change is None else change(report)
                report = with_late(report, late, owned[place.subtask_id])
                coordinator.acknowledge(report)
                reports.append(report)
            elif place.required and self._repeats:
                coordinator.repeat(place.subtask_id)
            elif place.required:
                raise MissingReportError(
                    f"the batch of checkpoint {place.name.checkpoint_id} is complete, but its subtask "
                    f"{place.subtask_id} has not written its report (lineage {place.lineage}): the rows that "
                    "it read and the events that its reader sent are not known",
                    remedy=_MISSING_REPORT,
                )
        if reports:
            _warn_of_ignored(reports)
            self.numbers = _numbers(reports)

    def _read(self, places: list[ReportPlace]) -> list[SubtaskReport[Any] | None]:
        read = functools.partial(self._storage.read, surely=True)
        if len(places) < 2:
            return list(map(read, places))
        with ThreadPoolExecutor(min(_READ_AT_ONCE, len(places))) as pool:
            return list(pool.map(read, places))

    def demand_again(self, planned: ReportDemand, offset: Offset, now: ReportDemand) -> ReportDemand:
        """The reports that the tasks of a repeated batch write; ``now``: what the present options demand.

        Only the plan decides whether the batch is complete without them: a sink that has the batch may skip
        it, so that no task runs. But once a task may have reported, the tasks of all later runs follow its
        report, whatever their options demand: an empty late report, durable on return, says so.
        """
        if planned is not ReportDemand.NONE or offset.lineage is None or offset.name is None:
            return ReportDemand.REQUIRED if now is ReportDemand.REQUIRED else planned
        if not self._late(offset):
            if now is ReportDemand.NONE:
                return now
            LateReports(self._store, offset.lineage, offset.name).add((), ())
        return ReportDemand.REQUIRED

    def _late(self, offset: Offset) -> list[SubtaskReport[Any]]:
        if offset.lineage is None or offset.name is None:
            return []
        return LateReports(self._store, offset.lineage, offset.name).read()


def _warn_of_ignored(reports: list[SubtaskReport[Any]]) -> None:
    """Log every split that was skipped, in the driver's log."""
    for report in reports:
        for result in report.results:
            if result.status is SplitStatus.IGNORED:
                LOG.warning(
                    "checkpoint %d: split %s could not be read and was skipped: %s",
                    report.checkpoint_id, result.split_id, result.error,
                )  # fmt: skip


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
