"""WaitingQueues: the splits and events that were sent and are in no plan yet, and whose turn it is.

Events, and splits for one subtask, wait behind the gateway of that subtask. Splits that any subtask may read
wait in a separate queue. Queues take turns with one split each: a queue whose split was taken goes to the
end, so that no split waits for ever. Pure.
"""

from __future__ import annotations

from typing import Generic

from ..events import SourceEvent
from ..split import SplitT
from .checkpoints import WaitingEvent, WaitingSplit
from .gateway import Outbox, SubtaskGateway


class WaitingQueues(Generic[SplitT]):
    """One queue for each subtask, and one for splits that any subtask may read, whose key is None."""

    def __init__(self, subtasks: int, *, last_closed: int) -> None:
        """``last_closed``: the checkpoint that the coordinator was restored from."""
        self._gateways = {i: SubtaskGateway[SplitT](i, last_closed=last_closed) for i in range(subtasks)}
        self._free: Outbox[SplitT] = Outbox()
        self.turns: dict[int | None, Outbox[SplitT] | SubtaskGateway[SplitT]] = {}
        """The queues that the next plan can take from, in the order of their turns.

        It exists so that a split request does not have to visit all queues."""

    def send_split(self, split: SplitT, subtask_id: int | None) -> None:
        """Send a split to a subtask; None: to any subtask."""
        if subtask_id is None:
            # No gateway is needed: nothing is planned before the pending checkpoint is complete.
            self._free.add(split, is_held=False)
            self.turns.setdefault(None, self._free)
        else:
            self._gateways[subtask_id].send_split(split)
            self._take_a_turn(subtask_id)

    def send_event(self, subtask_id: int, event: SourceEvent) -> None:
        self._gateways[subtask_id].send_event(event)
        self._take_a_turn(subtask_id)

    def mark_for_checkpoint(self, checkpoint_id: int) -> None:
        for gateway in self._gateways.values():
            gateway.mark_for_checkpoint(checkpoint_id)

    def close(self, checkpoint_id: int) -> None:
        """Freeze: from now on the gateways hold back what is sent."""
        for gateway in self._gateways.values():
            gateway.try_close(checkpoint_id)

    def open_after(self, checkpoint_id: int, subtask_id: int) -> None:
        """The subtask has acknowledged the checkpoint, or its batch is complete: open its gateway."""
        # A large batch may have more subtasks than gateways; nothing is sent to the additional ones.
        gateway = self._gateways.get(subtask_id)
        if gateway is not None:
            gateway.open_after(checkpoint_id)
            self._take_a_turn(subtask_id)

    def take_events(self, subtask_id: int) -> list[SourceEvent]:
        """Remove and return the events to a subtask that the next plan can take."""
        return self._gateways[subtask_id].take_events()

    def take_split(self, subtask_id: int | None) -> None:
        """Remove the first split of a queue; the next turn of this queue comes after those of the others."""
        queue = self.turns.pop(subtask_id)
        queue.take()
        if len(queue):
            self.turns[subtask_id] = queue

    def splits(self) -> tuple[WaitingSplit[SplitT], ...]:
        """All splits, in an order that preserves their turns when they are sent again."""
        queues = self.turns | {i: gateway for i, gateway in self._gateways.items() if i not in self.turns}
        return tuple(
            WaitingSplit(split=split, subtask_id=subtask_id)
            for subtask_id, queue in queues.items()
            for split in queue.waiting()
        )

    def events(self) -> tuple[WaitingEvent, ...]:
        """All events, by subtask and in order."""
        return tuple(
            WaitingEvent(event=event, subtask_id=gateway.subtask_id)
            for gateway in self._gateways.values()
            for event in gateway.waiting_events()
        )

    def _take_a_turn(self, subtask_id: int) -> None:
        gateway = self._gateways[subtask_id]
        if len(gateway):
            self.turns.setdefault(subtask_id, gateway)
