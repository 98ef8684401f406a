"""ReportResults: folds the reports of a complete checkpoint into the ledger, for the enumerator (R4). Pure.

Reports are applied in the order of their subtasks, so a restart that applies them again reaches the same
state. Needs only the class of the enumerator, so a dry run of an edit can do the same on a copy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

from ..enumerator import SplitEnumerator
from ..errors import CorruptStateError
from ..events import SourceEvent
from ..split import SplitT
from .checkpoints import PendingCheckpoint, QuarantinedSplit
from .context import CoordinatorSettings
from .ledger import Ledger
from .packing import Assignment
from .split_rules import SplitRules
from .subtask_reports import ReportDemand, SplitResult, SplitStatus

_NOT_PASSED = (SplitStatus.FAILED, SplitStatus.RETURNED)


@dataclass(slots=True, kw_only=True)
class Folded(Generic[SplitT]):
    """What became of the splits of a batch, besides the changes of the ledger.

    Attributes:
        finished: splits that were read to their end.
        quarantined: what was added to the quarantine: splits, ranges and parts of splits.
        given_up: splits that were quarantined or ignored as a whole.
        returned: splits that go back to the enumerator, each with its subtask.
        caught_up: ids of live splits whose reader found no more data.
        unread: splits and events that are sent again, because their subtask has not reported.
    """

    finished: list[SplitT] = field(default_factory=list)
    quarantined: list[SplitT] = field(default_factory=list)
    given_up: list[SplitT] = field(default_factory=list)
    returned: list[tuple[SplitT, int]] = field(default_factory=list)
    caught_up: list[str] = field(default_factory=list)
    unread: list[SplitT] = field(default_factory=list)
    unsent: list[tuple[int, SourceEvent]] = field(default_factory=list)


class ReportResults(Generic[SplitT]):
    def __init__(
        self, pending: PendingCheckpoint[SplitT], ledger: Ledger[SplitT], rules: SplitRules[SplitT]
    ) -> None:
        self._pending = pending
        self._ledger = ledger
        self._rules = rules
        self._folded = Folded[SplitT]()

    def fold(self) -> Folded[SplitT]:
        """Update the ledger for every split of the plan, by its result."""
        for assignment in self._pending.snapshot.plan.assignments:
            if assignment.subtask_id in self._pending.repeats:
                self._repeat(assignment)
            else:
                self._apply_report(assignment)
        reports = self._pending.reports_in_order
        again = {item.split_id for report in reports for item in report.results if item.status in _NOT_PASSED}
        # A late loss may be in the reports of several tasks.
        for loss in dict.fromkeys(loss for report in reports for loss in report.losses):
            may_repeat = self._rules.reader_bounds_splits or loss.split_id in again
            self._ledger.losses.add(loss, may_repeat=may_repeat)
        self._ledger.completed(self._pending.checkpoint_id)
        return self._folded

    def _repeat(self, assignment: Assignment[SplitT]) -> None:
        for split in assignment.splits:
            if self._is_for_pages(split):
                # The split is already live at the same position; it goes to the end of the queue.
                self._ledger.moved(split.split_id, split)
            elif self._rules.is_range(split):
                self._ledger.range_unread(split)
            else:
                self._ledger.taken_back(split.split_id)
                self._folded.unread.append(split)
        self._folded.unsent += [(assignment.subtask_id, event) for event in assignment.events]

    def _is_for_pages(self, split: SplitT) -> bool:
        """Whether the batch was planned with a reader that bounds splits: then it is live where it begins."""
        rules = self._rules
        return not (rules.cuts_splits or rules.is_range(split)) and self._ledger.is_live(split.split_id)

    def _apply_report(self, assignment: Assignment[SplitT]) -> None:
        report = self._pending.reports.get(assignment.subtask_id)
        results = {} if report is None else {result.split_id: result for result in report.results}
        known = set()
        for split in assignment.splits:
            result = None
            if results:
                range_id = self._rules.result_id(split)
                known |= {split.split_id, range_id}
                result = results.get(range_id) or results.get(split.split_id)
            self._apply(split, result, assignment.subtask_id)
        for result in results.values():
            # A part of a split whose other rows were delivered.
            is_part = result.status is SplitStatus.FAILED and result.position is not None
            if result.split_id not in known and is_part and result.position is not None:
                self._quarantine(self._item(result.position, result), is_range=True)

    def _quarantine(self, item: QuarantinedSplit[SplitT], *, is_range: bool) -> None:
        self._ledger.quarantine(item, is_range=is_range)
        self._folded.quarantined.append(item.split)

    def _item(self, split: SplitT, result: SplitResult[SplitT]) -> QuarantinedSplit[SplitT]:
        return QuarantinedSplit(
            split=split,
            checkpoint_id=self._pending.checkpoint_id,
            attempts=result.attempts,
            error=result.error or "",
        )

    def _apply(self, split: SplitT, result: SplitResult[SplitT] | None, subtask_id: int) -> None:
        rules = self._rules
        if result is None:
            if self._pending.snapshot.plan.reports is ReportDemand.REQUIRED and self._is_for_pages(split):
                raise CorruptStateError(
                    f"the report of subtask {subtask_id} for checkpoint {self._pending.checkpoint_id} "
                    f"has no result for split {split.split_id!r}",
                    remedy="restore the state location from a backup",
                )
            self._folded.finished.append(split)
            return
        match result.status:
            case SplitStatus.FINISHED:
                if self._is_for_pages(split):
                    self._ledger.ended(split.split_id)
                self._folded.finished.append(split)
            case SplitStatus.LIVE:
                self._ledger.moved(split.split_id, result.position)
                if result.caught_up:
                    self._folded.caught_up.append(split.split_id)
            case SplitStatus.RETURNED if rules.is_range(split):
                self._ledger.range_unread(split)
            case SplitStatus.RETURNED:
                self._ledger.taken_back(split.split_id)
                self._folded.returned.append((split, subtask_id))
            case SplitStatus.FAILED | SplitStatus.IGNORED:
                self._give_up(split, result)

    def _give_up(self, split: SplitT, result: SplitResult[SplitT]) -> None:
        place = self._quarantine if result.status is SplitStatus.FAILED else self._ledger.ignore
        is_range = self._rules.is_range(split)
        place(self._item(result.position or split, result), is_range=is_range)
        if not is_range:
            self._folded.given_up.append(split)


def notify_enumerator(
    enumerator: SplitEnumerator[SplitT],
    pending: PendingCheckpoint[SplitT],
    folded: Folded[SplitT],
    *,
    settings: CoordinatorSettings,
    quietly: bool,
) -> None:
    """Notify the enumerator of a complete checkpoint: this is where a reader's event reaches it (R4).

    Returned splits first, then what became of the others, then that the checkpoint is complete, then the
    events that the readers sent, in the order of their subtasks.

    Args:
        settings: with the number of registered subtasks. A batch may have had more; their ids are given
            modulo this number, so that the enumerator can answer the sender of an event.
        quietly: for a savepoint, which commits nothing (I12): there is no notice of the completion, and the
            actions that are requested are dropped.
    """
    parallelism = settings.parallelism
    for split, subtask_id in folded.returned:
        enumerator.add_splits_back([split], subtask_id % parallelism)
    checkpoint_id = pending.checkpoint_id
    if not quietly:
        for report in pending.reports_in_order:
            if report.metrics.attempt_number > 0:
                enumerator.subtask_reset(report.subtask_id % parallelism, checkpoint_id - 1)
    if enumerator.wants_finished_splits(settings.options):
        enumerator.notify_splits_finished(checkpoint_id, folded.finished)
    _notify_of_unread(enumerator, checkpoint_id, folded)
    if not quietly:
        enumerator.notify_checkpoint_complete(checkpoint_id)
    for report in pending.reports_in_order:
        for event in report.events:
            enumerator.handle_source_event(report.subtask_id % parallelism, event)


def _notify_of_unread(
    enumerator: SplitEnumerator[SplitT], checkpoint_id: int, folded: Folded[SplitT]
) -> None:
    if folded.quarantined:
        enumerator.notify_splits_quarantined(checkpoint_id, folded.quarantined)
    if folded.given_up:
        enumerator.notify_splits_given_up(checkpoint_id, folded.given_up)
