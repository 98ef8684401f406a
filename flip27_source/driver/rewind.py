"""Rewinding: restores the state that a source had after an older checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..coordination.checkpoints import Snapshot
from ..coordination.coordinator import SourceCoordinator
from ..snapshots.checkpoint_files import CheckpointStorage
from ..snapshots.offsets import Offset
from .background import BackgroundRunner
from .demanded_reports import DemandedReports

Make = Callable[[Snapshot[Any] | None, BackgroundRunner], SourceCoordinator[Any]]


def state_after(
    offset: Offset,
    *,
    present: Offset,
    storage: CheckpointStorage,
    make: Make,
    reports: DemandedReports | None,
) -> Snapshot[Any]:
    """The state after the batch of a retained checkpoint, with its reports.

    The enumerator is not notified of the completion.

    Args:
        offset: the offset of the retained checkpoint.
        present: the current offset of the source.
        make: makes a coordinator from a snapshot.

    Raises:
        MissingStateError, MissingReportError: the checkpoint no longer exists, or is not complete.
        CorruptStateError: the checkpoint is not an ancestor of the current one.
    """
    list(storage.plans_between(offset, present))
    no_work = BackgroundRunner()
    no_work.close()
    older = make(storage.restore(offset, with_plan=True), no_work)
    older.start()
    if reports is not None and older.pending is not None:
        reports.collect(older, older.pending, offset)
    older.complete(offset.checkpoint_id, quietly=True)
    state = older.standing()
    older.close()
    return state
