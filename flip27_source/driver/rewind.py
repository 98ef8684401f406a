"""Rewinding: the state that a source had after an older checkpoint, to go on from once more."""

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
    """The state after the batch of a retained checkpoint: its reports folded in, and nobody told.

    Args:
        offset, present: that checkpoint, and the one that the source stands at.
        make: makes a coordinator of a snapshot.

    Raises:
        MissingStateError, MissingReportError: it is not there any more, or not whole.
        CorruptStateError: it is not on the way to the present one.
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
