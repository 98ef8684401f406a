"""LateReports: failures and losses found after the tasks of a batch reported, before the batch is complete.

The rows of some readers only name data (``SplitReader.reads_later``): the code that reads the data reports
what cannot be read. A task that is repeated reports data that was lost after its first attempt. A late
report has a reserved subtask id, so savepoints and clean-up treat it like the others. Late reports are
created and never replaced; all of them count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..coordination.data_losses import DataLoss
from ..coordination.subtask_reports import SplitResult, SplitStatus, SubtaskReport
from ..errors import CorruptStateError
from . import file_names
from .file_names import CheckpointName
from .report_contents import FORMAT, StoredReport, StoredResult
from .sealed import seal
from .store import Store
from .stored_lineage import StoredLineage

FIRST_LATE_SUBTASK = 900_000_000
"""The subtask ids of late reports start here; no plan has that many subtasks."""

_UNDELIVERED = frozenset({SplitStatus.FAILED, SplitStatus.IGNORED, SplitStatus.RETURNED})


class LateReports:
    def __init__(self, store: Store, lineage: str, name: CheckpointName) -> None:
        self._store = store
        self._lineage = lineage
        self._name = name

    @classmethod
    def of(cls, store: Store, checkpoint_name: str) -> LateReports:
        """The late reports of a document given as ``SourceReaderContext.checkpoint_name``.

        Raises:
            CorruptStateError: the text is not the name of a document.
        """
        lineage, _, text = checkpoint_name.partition("/")
        name = CheckpointName.parse(text)
        if name is None:
            raise CorruptStateError(f"{checkpoint_name!r} is not the name of a checkpoint")
        return cls(store, file_names.checked_lineage_name(lineage), name)

    def read(self, *, durably: bool = False) -> list[SubtaskReport[Any]]:
        """The late reports, in order; they belong to no subtask. ``durably``: they are durable on return."""
        reports: list[SubtaskReport[Any]] = []
        lineage = StoredLineage(self._store, self._lineage)
        while (stored := lineage.report(self._name, FIRST_LATE_SUBTASK + len(reports))) is not None:
            if durably:
                self._store.make_durable(self._file(len(reports)))
            reports.append(
                SubtaskReport(
                    checkpoint_id=self._name.checkpoint_id,
                    subtask_id=-1,
                    results=tuple(item.result() for item in stored.results),
                    losses=tuple(stored.losses),
                )
            )
        return reports

    def add(self, results: Sequence[SplitResult[Any]], losses: Sequence[DataLoss]) -> None:
        """Add a late report to those that exist; it is durable on return."""
        stored = StoredReport(
            format=FORMAT,
            checkpoint=str(self._name),
            subtask=FIRST_LATE_SUBTASK,
            split_version=1,
            results=[StoredResult.of(result) for result in results],
            losses=list(losses),
        )
        number = len(self.read())
        while not self._store.create(self._file(number), seal("report", stored), exclusive=True):
            number += 1

    def add_losses(self, losses: Sequence[DataLoss], lost_splits: Sequence[SplitResult[Any]]) -> None:
        """Add a late report with the lost splits, and those losses that no late report contains.

        It is durable on return.
        """
        known = {loss for report in self.read(durably=True) for loss in report.losses}
        new = [loss for loss in losses if loss not in known]
        if new or lost_splits:
            self.add(lost_splits, new)

    def _file(self, number: int) -> str:
        return file_names.report_file(self._lineage, self._name, FIRST_LATE_SUBTASK + number)


def report_is_demanded(late: StoredReport) -> bool:
    """Whether a late report says that a batch, planned without reports, has them when it is repeated."""
    return late.subtask == FIRST_LATE_SUBTASK and not (late.results or late.losses)


def ids_in_reports(splits: Sequence[Any], enumerator: Any) -> set[str]:
    """The ids that planned splits have in reports: a range may also have one of its own."""
    return {name for split in splits for name in (split.split_id, enumerator.set_apart(split).split_id)}


def with_late(
    report: SubtaskReport[Any], late: list[SubtaskReport[Any]], split_ids: set[str]
) -> SubtaskReport[Any]:
    """``report`` with the late results and losses of its splits, each once.

    The report decides what became of a split, except that a finished one may have been lost before its rows
    were delivered. A loss that was found later counts, unless the report says that nothing was delivered.
    """
    results = {item.split_id: item for item in report.results}
    undelivered = {name for name, item in results.items() if item.status in _UNDELIVERED}
    late_results = {
        item.split_id: item
        for of_late in reversed(late)
        for item in of_late.results
        if item.split_id in split_ids
        and (item.split_id not in results or results[item.split_id].status is SplitStatus.FINISHED)
    }
    late_losses = {
        loss: None
        for of_late in late
        for loss in of_late.losses
        if (loss.split_id is None or loss.split_id in split_ids) and loss.split_id not in undelivered
    }
    if not late_results and not late_losses:
        return report
    results.update(late_results)
    return replace(report, results=tuple(results.values()), losses=(*report.losses, *late_losses))
