"""Rewind targets: the checkpoint that a rewind goes back to, by its id or by a time."""

from __future__ import annotations

import datetime as dt

from ..errors import EditError
from ..snapshots.file_names import CheckpointName
from .state_copy import StateCopy


def rewind_target(copy: StateCopy, to_checkpoint: int | None, to_time: dt.datetime | None) -> CheckpointName:
    """The retained checkpoint with this id, or the last one created up to this time.

    Raises:
        EditError: there is none, or it is the newest one.
    """
    names = copy.line.names[:-1]
    if to_checkpoint is not None:
        matching = [name for name in names if name.checkpoint_id == to_checkpoint]
    else:
        assert to_time is not None
        until_ms = to_time.timestamp() * 1000
        if copy.head.timestamp_ms <= until_ms:
            raise EditError(
                f"the newest checkpoint, {copy.name.checkpoint_id}, was created up to {to_time.isoformat()}: "
                "nothing was read since then",
                remedy="give an earlier time, or a checkpoint (--to-checkpoint)",
            )
        matching = [name for name in names if _made_ms(copy, name) <= until_ms]
    if matching:
        return matching[-1]
    what = f"checkpoint {to_checkpoint}" if to_time is None else f"a checkpoint up to {to_time.isoformat()}"
    retained = "there is no checkpoint before the current one"
    if names:
        oldest = dt.datetime.fromtimestamp(_made_ms(copy, names[0]) / 1000, dt.UTC)
        retained = (
            f"checkpoints {names[0].checkpoint_id} to {names[-1].checkpoint_id} are retained; the oldest "
            f"was created at {oldest.isoformat(timespec='seconds')}"
        )
    raise EditError(
        f"the source cannot be rewound to {what}",
        remedy=f"{retained}; option retainedCheckpoints sets how many are kept",
    )


def _made_ms(copy: StateCopy, name: CheckpointName) -> float:
    document = copy.history.document(name)
    return float("inf") if document is None else document.timestamp_ms
