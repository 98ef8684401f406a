"""SubtaskGateway: the one door from the coordinator to a subtask.

    state            | send          | mark(n)      | close(n)       | open(n)        | open_all
    -----------------+---------------+--------------+----------------+----------------+---------
    open             | to the outbox | marked(n)    | no (False)     | no effect      | open
    marked(n)        | to the outbox | n' > n only  | closed(n)      | open           | open
    closed(n)        | held back     | error        | no (False)     | flush, open    | flush, open

The outbox is what the next plan is made from; what is held back joins it when the gateway opens.
So whatever is sent, split or event, after the freeze of checkpoint n waits for the batch after n
(rule R4, first half). Events keep their order among themselves, and splits theirs.
Source: FLIP-27, FLINK-21996, FLINK-26029 (SubtaskGatewayImpl). Pure; single-threaded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Generic

from ..errors import ProtocolError
from ..events import SourceEvent
from ..split import SplitT


class GatewayState(Enum):
    OPEN = "open"
    MARKED = "marked"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class AddSplit(Generic[SplitT]):
    """A split on its way to a subtask; ``pinned`` when planning must not move it elsewhere."""

    split: SplitT
    pinned: bool


class SubtaskGateway(Generic[SplitT]):
    """The gateway of one subtask."""

    __slots__ = (
        "_checkpoint_id", "_events", "_events_held_back", "_held_back", "_last_closed", "_outbox",
        "_state", "subtask_id",
    )  # fmt: skip

    def __init__(self, subtask_id: int, *, last_closed: int = 0) -> None:
        """``last_closed``: the checkpoint that the coordinator was restored from."""
        self.subtask_id = subtask_id
        self._state = GatewayState.OPEN
        self._checkpoint_id = last_closed
        self._last_closed = last_closed
        self._outbox: deque[AddSplit[SplitT]] = deque()
        self._held_back: list[AddSplit[SplitT]] = []
        self._events: list[SourceEvent] = []
        self._events_held_back: list[SourceEvent] = []

    @property
    def state(self) -> GatewayState:
        """Whether it is open, marked or closed."""
        return self._state

    def send(self, item: AddSplit[SplitT] | SourceEvent) -> None:
        """Send to the subtask: into the next plan, or held back while closed."""
        closed = self._state is GatewayState.CLOSED
        if isinstance(item, AddSplit):
            (self._held_back if closed else self._outbox).append(item)
        else:
            (self._events_held_back if closed else self._events).append(item)

    def mark_for_checkpoint(self, checkpoint_id: int) -> None:
        """Checkpoint ``checkpoint_id`` has been triggered; its freeze is to come."""
        if self._state is GatewayState.CLOSED:
            raise ProtocolError(
                f"gateway {self.subtask_id} cannot be marked for checkpoint {checkpoint_id}: it "
                f"is closed by checkpoint {self._checkpoint_id}"
            )
        if checkpoint_id <= max(self._checkpoint_id, self._last_closed):
            raise ProtocolError(
                f"gateway {self.subtask_id} cannot be marked for checkpoint {checkpoint_id} "
                f"after {max(self._checkpoint_id, self._last_closed)}: ids must rise"
            )
        self._state = GatewayState.MARKED
        self._checkpoint_id = checkpoint_id

    def try_close(self, checkpoint_id: int) -> bool:
        """Freeze: close, if marked for this very checkpoint. Says whether it closed."""
        if self._state is not GatewayState.MARKED or self._checkpoint_id != checkpoint_id:
            return False
        self._state = GatewayState.CLOSED
        self._last_closed = checkpoint_id
        return True

    def open_after(self, checkpoint_id: int) -> None:
        """The subtask acknowledged ``checkpoint_id``: what was held back goes out, in order.

        A late acknowledgement of an older checkpoint has no effect on a newer one.
        """
        if checkpoint_id > max(self._checkpoint_id, self._last_closed):
            raise ProtocolError(
                f"gateway {self.subtask_id} cannot open for checkpoint {checkpoint_id}: the "
                f"newest it has seen is {max(self._checkpoint_id, self._last_closed)}"
            )
        if self._state is not GatewayState.OPEN and self._checkpoint_id == checkpoint_id:
            self.open()

    def open(self) -> None:
        """Open, whatever the state: after an abort, a reset, or a completion."""
        self._outbox.extend(self._held_back)
        self._held_back.clear()
        self._events.extend(self._events_held_back)
        self._events_held_back.clear()
        self._state = GatewayState.OPEN

    def take_events(self) -> list[SourceEvent]:
        """Remove all events of the outbox: they are in the plan now."""
        taken, self._events = self._events, []
        return taken

    def peek(self) -> AddSplit[SplitT] | None:
        """The first split of the outbox."""
        return self._outbox[0] if self._outbox else None

    def take(self) -> AddSplit[SplitT]:
        """Remove the first split of the outbox: it is in the plan now."""
        return self._outbox.popleft()

    def waiting(self) -> Iterator[AddSplit[SplitT]]:
        """The splits that were sent and are in no plan yet, in order."""
        yield from self._outbox
        yield from self._held_back

    def waiting_events(self) -> Iterator[SourceEvent]:
        """The events that were sent and are in no plan yet, in order."""
        yield from self._events
        yield from self._events_held_back

    def __len__(self) -> int:
        """How much the next plan can be made from."""
        return len(self._outbox) + len(self._events)
