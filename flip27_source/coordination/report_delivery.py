"""ReportDelivery: applies the reports of a checkpoint once it is complete (R4). Pure.

Reports are applied in the order of their subtasks, so a restart that applies them again reaches the
same state.
"""

from __future__ import annotations

from typing import Generic, Protocol

from ..enumerator import SplitEnumerator
from ..enumerator_mixins import CutsSomeSplits
from ..errors import ContractError, CorruptStateError, QuarantineError
from ..events import SourceEvent
from ..split import SplitT
from .checkpoints import PendingCheckpoint, QuarantinedSplit
from .context import CoordinatorSettings, SentT_contra
from .ledger import Ledger
from .packing import Assignment
from .subtask_reports import ReportDemand, SplitResult, SplitStatus, SubtaskReport


class Resend(Protocol[SentT_contra]):
    """Sends a split or events again."""

    def __call__(
        self, split: SentT_contra | None, subtask_id: int, events: tuple[SourceEvent, ...]
    ) -> None: ...


class ReportDelivery(Generic[SplitT]):
    """Folds the reports of one checkpoint into the ledger and notifies the enumerator."""

    def __init__(
        self,
        pending: PendingCheckpoint[SplitT],
        ledger: Ledger[SplitT],
        enumerator: SplitEnumerator[SplitT],
        settings: CoordinatorSettings,
    ) -> None:
        self._pending = pending
        self._ledger = ledger
        self._enumerator = enumerator
        self._settings = settings
        self._finished: list[SplitT] = []
        self._returned: list[tuple[SplitT, int]] = []
        self.caught_up: list[str] = []
        """Ids of live splits whose reader found no more data."""

    @property
    def reports(self) -> tuple[SubtaskReport[SplitT], ...]:
        """The reports, in the order of their subtasks."""
        return tuple(report for _, report in sorted(self._pending.reports.items()))

    def apply_results(self, *, resend: Resend[SplitT], cuts_splits: bool) -> None:
        """Update the ledger for every split of the plan, by its result."""
        for assignment in self._pending.snapshot.plan.assignments:
            if assignment.subtask_id in self._pending.repeats:
                self._repeat(assignment, resend)
                continue
            report = self._pending.reports.get(assignment.subtask_id)
            results = {} if report is None else {r.split_id: r for r in report.results}
            known = set()
            for split in assignment.splits:
                result = None
                if results:
                    # The result of a range has the id of the range: a task may read several of one split.
                    range_id = type(self._enumerator).set_apart(split).split_id
                    known |= {split.split_id, range_id}
                    result = results.get(range_id) or results.get(split.split_id)
                self._apply(split, result, assignment.subtask_id, cuts_splits)
            for result in results.values():
                if result.split_id not in known:
                    self._set_aside_part(result)
        limit = self._settings.max_quarantined_splits
        if len(self._ledger.quarantined) > max(limit, 0):
            worst = self._ledger.quarantined[-1]
            raise QuarantineError(
                f"{len(self._ledger.quarantined)} splits cannot be read and are quarantined, more than "
                f"maxQuarantinedSplits={limit}; the last one is {worst.split.split_id!r}: {worst.error}",
                remedy="fix the cause, or raise maxQuarantinedSplits and restart the query; the "
                "quarantined splits are in the state, and none of their rows were delivered",
            )

    def notify(self, *, quietly: bool = False) -> None:
        """Notify the enumerator of returned splits, of the completion, and then of events in order."""
        for split, subtask_id in self._returned:
            self._enumerator.add_splits_back([split], subtask_id)
        if not quietly:
            self._notify_completion()
        for report in self.reports:
            for event in report.events:
                self._enumerator.handle_source_event(report.subtask_id, event)

    def _notify_completion(self) -> None:
        checkpoint_id = self._pending.checkpoint_id
        for report in self.reports:
            if report.metrics.attempt_number > 0:
                self._enumerator.subtask_reset(report.subtask_id, checkpoint_id - 1)
        if self._enumerator.wants_finished_splits(self._settings.options):
            self._enumerator.notify_splits_finished(checkpoint_id, self._finished)
        self._enumerator.notify_checkpoint_complete(checkpoint_id)

    def _repeat(self, assignment: Assignment[SplitT], resend: Resend[SplitT]) -> None:
        for split in assignment.splits:
            if self._settings.reader_bounds_splits:
                # The split is already live at the same position; it goes to the end of the queue.
                self._ledger.moved(split.split_id, split)
            else:
                resend(split, assignment.subtask_id, ())
        resend(None, assignment.subtask_id, assignment.events)

    def _set_aside_part(self, result: SplitResult[SplitT]) -> None:
        """Quarantine a part of a split whose other rows were delivered."""
        if result.status is SplitStatus.FAILED and result.position is not None:
            self._ledger.set_aside(self._item(result.position, result), is_range=True)

    def _item(self, split: SplitT, result: SplitResult[SplitT]) -> QuarantinedSplit[SplitT]:
        return QuarantinedSplit(
            split=split,
            checkpoint_id=self._pending.checkpoint_id,
            attempts=result.attempts,
            error=result.error or "",
        )

    def _is_range(self, split: SplitT, cuts_splits: bool) -> bool:
        kind = type(self._enumerator)
        return cuts_splits and (not issubclass(kind, CutsSomeSplits) or kind.is_cut_off(split))

    def _apply(
        self, split: SplitT, result: SplitResult[SplitT] | None, subtask_id: int, cuts_splits: bool
    ) -> None:
        if result is None:
            required = self._pending.snapshot.plan.reports is ReportDemand.REQUIRED
            if required and self._settings.reader_bounds_splits:
                raise CorruptStateError(
                    f"the report of subtask {subtask_id} for checkpoint {self._pending.checkpoint_id} "
                    f"has no result for split {split.split_id!r}",
                    remedy="restore the state location from a backup",
                )
            self._finished.append(split)
            return
        match result.status:
            case SplitStatus.FINISHED:
                if self._settings.reader_bounds_splits:
                    self._ledger.ended(split.split_id)
                self._finished.append(split)
            case SplitStatus.LIVE:
                self._ledger.moved(split.split_id, result.position)
                if result.caught_up:
                    self.caught_up.append(split.split_id)
            case SplitStatus.RETURNED:
                if cuts_splits:
                    raise ContractError(
                        f"the reader returned a range of split {split.split_id!r} from bound_split",
                        remedy="read the range or raise an error; only whole splits can be returned",
                    )
                self._ledger.taken_back(split.split_id)
                self._returned.append((split, subtask_id))
            case SplitStatus.FAILED | SplitStatus.IGNORED:
                failed = result.status is SplitStatus.FAILED
                place = self._ledger.set_aside if failed else self._ledger.left_out
                item = self._item(result.position or split, result)
                place(item, is_range=self._is_range(split, cuts_splits))
