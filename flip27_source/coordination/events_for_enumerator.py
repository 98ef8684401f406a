"""What an enumerator learns when a checkpoint is complete, and in which order. Pure.

Returned splits first, then that splits are finished and that the checkpoint is complete, then the events that
the readers sent, in the order of their subtasks: this is where a reader's event reaches the enumerator (R4).
"""

from __future__ import annotations

from ..enumerator import SplitEnumerator
from ..split import SplitT
from .checkpoints import PendingCheckpoint
from .context import CoordinatorSettings
from .report_results import Folded


def notify_enumerator(
    enumerator: SplitEnumerator[SplitT],
    pending: PendingCheckpoint[SplitT],
    folded: Folded[SplitT],
    *,
    settings: CoordinatorSettings,
    quietly: bool,
) -> None:
    """Notify the enumerator of a complete checkpoint.

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
    if not quietly:
        enumerator.notify_checkpoint_complete(checkpoint_id)
    for report in pending.reports_in_order:
        for event in report.events:
            enumerator.handle_source_event(report.subtask_id % parallelism, event)
