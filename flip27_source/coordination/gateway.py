"""SubtaskGateway: the only way from the coordinator to a subtask. Its state machine is the table TRANSITIONS.

The next plan takes splits and events from the outbox; items that are held back move to the outbox when
the gateway opens. So a split or event that is sent after the freeze of checkpoint n waits for the batch
after n (rule R4, first half). Events keep their order, and so do splits. Splits that any subtask may read
do not go through a gateway (see ``WaitingQueues``).
Source: FLIP-27, FLINK-21996, FLINK-26029 (SubtaskGatewayImpl). Pure; single-threaded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from ..errors import ProtocolError
from ..events import SourceEvent
from ..split import SplitT

ItemT = TypeVar("ItemT")


class GatewayState(Enum):
    OPEN = "open"
    MARKED = "marked"
    """A checkpoint has been triggered and is not frozen yet."""
    CLOSED = "closed"
    """A checkpoint is frozen, and the subtask has not acknowledged it."""


class GatewayCall(Enum):
    """The coordinator's calls to a gateway; ``n``: the checkpoint that it is marked for or closed by."""

    SEND = "send"
    MARK_HIGHER = "mark, id above n"
    MARK_OTHER = "mark, other id"
    CLOSE = "close n"
    CLOSE_OTHER = "close, other id"
    ACKNOWLEDGE = "acknowledge n"
    ACKNOWLEDGE_OLDER = "acknowledge, older id"
    ACKNOWLEDGE_UNSEEN = "acknowledge, unknown id"


class Effect(Enum):
    NONE = "nothing"
    PASS = "to the outbox"
    HOLD = "held back"
    RELEASE = "held-back items go to the outbox"


@dataclass(frozen=True, slots=True)
class Transition:
    """One cell of the table; ``rule``: the reason."""

    state: GatewayState
    call: GatewayCall
    next_state: GatewayState
    effect: Effect
    rule: str


_OPEN, _MARKED, _CLOSED = GatewayState
_Call = GatewayCall

TRANSITIONS: tuple[Transition, ...] = (
    Transition(_OPEN, _Call.SEND, _OPEN, Effect.PASS, "before the freeze, events flow (I2)"),
    Transition(_OPEN, _Call.MARK_HIGHER, _MARKED, Effect.NONE, "a checkpoint is triggered"),
    Transition(_OPEN, _Call.CLOSE_OTHER, _OPEN, Effect.NONE, "a late freeze of an aborted checkpoint"),
    Transition(_OPEN, _Call.ACKNOWLEDGE, _OPEN, Effect.NONE, "already acknowledged"),
    Transition(_OPEN, _Call.ACKNOWLEDGE_OLDER, _OPEN, Effect.NONE, "late, no effect"),
    Transition(_MARKED, _Call.SEND, _MARKED, Effect.PASS, "before the freeze, events flow (I2)"),
    Transition(_MARKED, _Call.MARK_HIGHER, _MARKED, Effect.NONE, "the previous checkpoint was abandoned"),
    Transition(_MARKED, _Call.CLOSE, _CLOSED, Effect.NONE, "the freeze (R4)"),
    Transition(_MARKED, _Call.CLOSE_OTHER, _MARKED, Effect.NONE, "the freeze of another checkpoint"),
    Transition(_MARKED, _Call.ACKNOWLEDGE, _OPEN, Effect.RELEASE, "acknowledged before it froze"),
    Transition(_MARKED, _Call.ACKNOWLEDGE_OLDER, _MARKED, Effect.NONE, "late, no effect"),
    Transition(_CLOSED, _Call.SEND, _CLOSED, Effect.HOLD, "after the freeze: for the next batch (R4, I3)"),
    Transition(_CLOSED, _Call.CLOSE_OTHER, _CLOSED, Effect.NONE, "the freeze of another checkpoint"),
    Transition(_CLOSED, _Call.CLOSE, _CLOSED, Effect.NONE, "already frozen"),
    Transition(_CLOSED, _Call.ACKNOWLEDGE, _OPEN, Effect.RELEASE, "only its own subtask opens it (I4)"),
    Transition(_CLOSED, _Call.ACKNOWLEDGE_OLDER, _CLOSED, Effect.NONE, "late, no effect"),
)
"""Every allowed call. Any other call is a bug in the runtime: ids must increase, a closed gateway is not
marked, and no subtask acknowledges a checkpoint that was never triggered (S31)."""

_BY_CELL = {(item.state, item.call): item for item in TRANSITIONS}


class Outbox(Generic[ItemT]):
    """Items in no plan yet, in order: those that the next plan may take, then those that are held back."""

    def __init__(self) -> None:
        self._items: deque[ItemT] = deque()
        self._held: list[ItemT] = []

    def add(self, item: ItemT, *, is_held: bool) -> None:
        (self._held if is_held else self._items).append(item)

    def release(self) -> None:
        self._items.extend(self._held)
        self._held.clear()

    def peek(self) -> ItemT | None:
        return self._items[0] if self._items else None

    def take(self) -> ItemT:
        return self._items.popleft()

    def take_all(self) -> list[ItemT]:
        taken = list(self._items)
        self._items.clear()
        return taken

    def waiting(self) -> Iterator[ItemT]:
        yield from self._items
        yield from self._held

    def __len__(self) -> int:
        return len(self._items)


class SubtaskGateway(Generic[SplitT]):
    def __init__(self, subtask_id: int, *, last_closed: int = 0) -> None:
        """``last_closed``: the checkpoint that the coordinator was restored from."""
        self.subtask_id = subtask_id
        self.state = GatewayState.OPEN
        self._checkpoint_id = last_closed
        self._last_closed = last_closed
        self._splits: Outbox[SplitT] = Outbox()
        self._events: Outbox[SourceEvent] = Outbox()

    def send_split(self, split: SplitT) -> None:
        """Send a split to the subtask: into the next plan, or held back while closed."""
        self._splits.add(split, is_held=self._take(GatewayCall.SEND) is Effect.HOLD)

    def send_event(self, event: SourceEvent) -> None:
        """Send an event to the subtask: into the next plan, or held back while closed."""
        self._events.add(event, is_held=self._take(GatewayCall.SEND) is Effect.HOLD)

    def mark_for_checkpoint(self, checkpoint_id: int) -> None:
        """Checkpoint ``checkpoint_id`` has been triggered and will be frozen."""
        is_higher = checkpoint_id > self._newest
        self._take(GatewayCall.MARK_HIGHER if is_higher else GatewayCall.MARK_OTHER, checkpoint_id)
        self._checkpoint_id = checkpoint_id

    def try_close(self, checkpoint_id: int) -> bool:
        """Freeze: close the gateway if it is marked for this checkpoint. Returns whether it closed."""
        was_open = self.state is not GatewayState.CLOSED
        is_own = self.state is not GatewayState.OPEN and checkpoint_id == self._checkpoint_id
        self._take(GatewayCall.CLOSE if is_own else GatewayCall.CLOSE_OTHER, checkpoint_id)
        if was_open and self.state is GatewayState.CLOSED:
            self._last_closed = checkpoint_id
            return True
        return False

    def open_after(self, checkpoint_id: int) -> None:
        """The subtask acknowledged ``checkpoint_id``: held-back items go to the outbox, in order.

        A late acknowledgement of an older checkpoint has no effect on a newer one.
        """
        if checkpoint_id > self._newest:
            call = GatewayCall.ACKNOWLEDGE_UNSEEN
        elif checkpoint_id == self._checkpoint_id:
            call = GatewayCall.ACKNOWLEDGE
        else:
            call = GatewayCall.ACKNOWLEDGE_OLDER
        self._take(call, checkpoint_id)

    def take_events(self) -> list[SourceEvent]:
        """Remove and return all events in the outbox, for the plan."""
        return self._events.take_all()

    def peek(self) -> SplitT | None:
        return self._splits.peek()

    def take(self) -> SplitT:
        """Remove and return the first split in the outbox, for the plan."""
        return self._splits.take()

    def waiting(self) -> Iterator[SplitT]:
        """The splits that were sent and are in no plan yet, in order."""
        return self._splits.waiting()

    def waiting_events(self) -> Iterator[SourceEvent]:
        return self._events.waiting()

    def __len__(self) -> int:
        """Number of splits and events that the next plan can take."""
        return len(self._splits) + len(self._events)

    @property
    def _newest(self) -> int:
        return max(self._checkpoint_id, self._last_closed)

    def _take(self, call: GatewayCall, checkpoint_id: int | None = None) -> Effect:
        cell = _BY_CELL.get((self.state, call))
        if cell is None:
            raise self._misused(call, checkpoint_id)
        self.state = cell.next_state
        if cell.effect is Effect.RELEASE:
            self._splits.release()
            self._events.release()
        return cell.effect

    def _misused(self, call: GatewayCall, checkpoint_id: int | None) -> ProtocolError:
        if call is GatewayCall.MARK_HIGHER:
            why = f"it is closed by checkpoint {self._checkpoint_id}"
        elif call is GatewayCall.MARK_OTHER:
            why = f"its newest checkpoint is {self._newest}: ids must increase"
        else:
            why = f"its newest checkpoint is {self._newest}"
        return ProtocolError(
            f"gateway {self.subtask_id} is {self.state.value} and cannot take the call {call.value!r} for "
            f"checkpoint {checkpoint_id}: {why}"
        )
