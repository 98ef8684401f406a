"""The states of the coordinator between and during checkpoints, as the table CHECKPOINT_TRANSITIONS.

At most one checkpoint is pending, because Spark's batches do not overlap. An abort has no call: a new
coordinator is created from the previous checkpoint (R8). Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..errors import ProtocolError
from .checkpoints import PendingCheckpoint
from .subtask_reports import AcknowledgeResult


class CheckpointState(Enum):
    IDLE = "none is pending"
    PENDING = "one is pending"
    """The checkpoint is frozen and not known to be complete."""


class CheckpointCall(Enum):
    TRIGGER = "trigger, the next id"
    TRIGGER_OTHER = "trigger, another id"
    ACKNOWLEDGE = "a subtask's report"
    ACKNOWLEDGE_AGAIN = "a second report of a subtask"
    ACKNOWLEDGE_UNKNOWN = "a report of a subtask that is not in the plan"
    ACKNOWLEDGE_OTHER = "a report on another checkpoint"
    REPEAT = "a required report is missing, and its splits are read again"
    COMPLETE = "complete, every required report exists"
    COMPLETE_EARLY = "complete, a required report is missing"
    COMPLETE_OTHER = "complete, an earlier id"
    COMPLETE_UNSEEN = "complete, an unknown id"
    STAND = "the whole state between two batches"


@dataclass(frozen=True, slots=True)
class CheckpointTransition:
    """One cell of the table; ``rule``: the effect and the reason."""

    state: CheckpointState
    call: CheckpointCall
    next_state: CheckpointState
    rule: str


_IDLE, _PENDING = CheckpointState
_Call = CheckpointCall
_Transition = CheckpointTransition

CHECKPOINT_TRANSITIONS: tuple[CheckpointTransition, ...] = (
    _Transition(_IDLE, _Call.TRIGGER, _PENDING, "plan, freeze, close the gateways (R2, R3, R4)"),
    _Transition(_IDLE, _Call.ACKNOWLEDGE_OTHER, _IDLE, "dropped: late (S25)"),
    _Transition(_IDLE, _Call.COMPLETE_OTHER, _IDLE, "dropped: already complete (R7)"),
    _Transition(_IDLE, _Call.STAND, _IDLE, "the state that edits are applied to"),
    _Transition(_PENDING, _Call.ACKNOWLEDGE, _PENDING, "stored; the gateway of the subtask opens (R4, I4)"),
    _Transition(_PENDING, _Call.ACKNOWLEDGE_AGAIN, _PENDING, "dropped: the first report counts (R5, S33)"),
    _Transition(_PENDING, _Call.ACKNOWLEDGE_UNKNOWN, _PENDING, "dropped (S33)"),
    _Transition(
        _PENDING, _Call.ACKNOWLEDGE_OTHER, _PENDING, "dropped: late, or from a stale driver (R9, S25)"
    ),
    _Transition(_PENDING, _Call.REPEAT, _PENDING, "by onMissingReport=repeat (R6)"),
    _Transition(_PENDING, _Call.COMPLETE, _IDLE, "reports are processed once, all gateways open (R4, R7)"),
    _Transition(_PENDING, _Call.COMPLETE_OTHER, _PENDING, "dropped: already complete (R7)"),
)
"""Every allowed call; any other call is a bug in the runtime."""

_BY_CELL = {(item.state, item.call): item for item in CHECKPOINT_TRANSITIONS}


def transition(state: CheckpointState, call: CheckpointCall, what: str) -> CheckpointState:
    """The state after a call.

    Args:
        what: the call with its checkpoint, for the message.

    Raises:
        ProtocolError: the call is not allowed in this state.
    """
    cell = _BY_CELL.get((state, call))
    if cell is None:
        raise ProtocolError(f"{what}: {call.value!r} is not allowed while {state.value}")
    return cell.next_state


ACKNOWLEDGEMENTS = {
    AcknowledgeResult.SUCCESS: CheckpointCall.ACKNOWLEDGE,
    AcknowledgeResult.DUPLICATE: CheckpointCall.ACKNOWLEDGE_AGAIN,
    AcknowledgeResult.UNKNOWN: CheckpointCall.ACKNOWLEDGE_UNKNOWN,
    AcknowledgeResult.DISCARDED: CheckpointCall.ACKNOWLEDGE_OTHER,
}
"""The call that a report is."""


def completion_of(
    pending: PendingCheckpoint[Any] | None, checkpoint_id: int, newest_id: int
) -> CheckpointCall:
    if checkpoint_id > newest_id:
        return CheckpointCall.COMPLETE_UNSEEN
    if pending is None or pending.checkpoint_id != checkpoint_id:
        return CheckpointCall.COMPLETE_OTHER
    return CheckpointCall.COMPLETE_EARLY if pending.not_yet_acknowledged else CheckpointCall.COMPLETE


def check_call(
    pending: PendingCheckpoint[Any] | None, call: CheckpointCall, checkpoint_id: int, newest_id: int
) -> None:
    """Raise ProtocolError for a call that the table does not allow."""
    missing = sorted(pending.not_yet_acknowledged) if pending else []
    transition(
        CheckpointState.IDLE if pending is None else CheckpointState.PENDING,
        call,
        f"checkpoint {checkpoint_id} (the newest is {newest_id}"
        + (f"; subtasks {missing} have not acknowledged it)" if missing else ")"),
    )
