"""The toy source of the model: an enumerator and two readers that exchange numbered events.

The enumerator sends ``Ping(subtask, 0)``, ``Ping(subtask, 1)``, ...; the readers send ``Pong(text)``, whose
text names the batch, the subtask and the attempt. The enumerator's counters are in its state, so events that
a crash takes back are sent again with the same numbers. What happens is recorded on the ``STAGE``.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flip27_source.coordination.gateway import GatewayState
from flip27_source.enumerator import SplitEnumerator
from flip27_source.enumerator_mixins import PerformsActions
from flip27_source.events import Progress, ReturnSplit, SourceEvent
from flip27_source.options import Options
from flip27_source.reader import SourceReaderContext, SplitReader, YieldsProgress
from flip27_source.source_options import ON_SPLIT_ERROR

ROWS_TO_THE_END = 2
"""A paged piece whose name ends with ``!`` is finished for good after this many rows."""


class Stage:
    """What the world tells the toys to do, and what they have done; there is one for the current world.

    Attributes:
        enumerator: the enumerator that was started last.
        misopened: gateways that an acknowledgement of another subtask has opened, or of their own has not.
        sent_through: the states of the gateways at the moments in which events were sent through them.
    """

    def __init__(self) -> None:
        self.pongs: Sequence[str] = ()
        self.rows = 0
        self.fails: str | None = None
        self.sent_at_freeze: list[int] = []
        self.begin(None)

    def begin(self, enumerator: Exchange | None) -> None:
        """A move begins."""
        self.enumerator = enumerator
        self.received: list[tuple[int, int]] = []
        self.late_events = 0
        self.performed: list[str] = []
        self.misopened: list[str] = []
        self.sent_through: list[GatewayState] = []

    def living_enumerator(self) -> Exchange | None:
        """The enumerator that was started last, unless it was closed."""
        return None if self.enumerator is None or self.enumerator.closed else self.enumerator

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """A block whose effects do not belong to the current world."""
        before = dict(vars(self))
        self.begin(None)
        try:
            yield
        finally:
            vars(self).update(before)


STAGE = Stage()


@dataclass(frozen=True, slots=True)
class Ping(SourceEvent):
    """An event from the enumerator to a reader."""

    subtask: int
    number: int


@dataclass(frozen=True, slots=True)
class Pong(SourceEvent):
    """An event from a reader to the enumerator."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A split. ``at`` is its position for the paged reader. A ``shy`` piece is returned at the first try."""

    split_id: str
    at: int = 0
    tries: int = 0
    shy: bool = False
    bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The state of the enumerator: everything it has done and heard."""

    sent: list[int] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    queue: list[Piece] = field(default_factory=list)


class InjectedError(Exception):
    """An error that author code raises because the world asks for it."""


class Exchange(PerformsActions[str], SplitEnumerator[Piece]):
    """Sends pings and pieces, and hears pongs; every pong makes another piece."""

    # Finding these types by annotations would take longer, and the model makes very many drivers.
    split_type = Piece
    state_type = Known
    event_types = (Pong,)
    action_type = str
    first: tuple[tuple[int | None, Piece], ...] = (
        (0, Piece(split_id="a")),
        (None, Piece(split_id="b", shy=True)),
    )

    def __init__(self, context: Any, options: Options, state: Known | None = None) -> None:
        super().__init__(context, options, state)
        self.given = state
        known = state or Known(sent=[0] * context.current_parallelism)
        self.sent = [*known.sent, *[0] * (context.current_parallelism - len(known.sent))]
        self.heard = list(known.heard)
        self.made = list(known.made)
        self.finished = list(known.finished)
        self.queue = deque(known.queue)
        self.completed: list[int] = []
        self.aborted: list[int] = []
        self.resets: list[tuple[int, int]] = []
        self.closed = False

    def start(self) -> None:
        STAGE.enumerator = self
        if self.given is None:
            for subtask_id, piece in self.first:
                self.make(piece, subtask_id)

    def make(self, piece: Piece, subtask_id: int | None) -> None:
        """Make a new piece for one subtask, or for the next split request."""
        self.made.append(piece.split_id)
        if subtask_id is None:
            self.queue.append(piece)
        else:
            self.context.assign_split(piece, subtask_id)

    def ping(self, subtask_id: int) -> None:
        """Send the next event to a subtask with an action, and with every second event a piece."""
        number = self.sent[subtask_id]
        self.sent[subtask_id] += 1
        self.context.send_event_to_reader(subtask_id, Ping(subtask_id, number))
        self.context.perform_after_completion(f"ping {subtask_id} {number}")
        if number % 2:
            self.make(Piece(split_id=f"p{subtask_id}-{number}"), subtask_id)

    def handle_split_request(self, subtask_id: int) -> None:
        if STAGE.fails == "request":
            raise InjectedError("request")
        if self.queue:
            self.context.assign_split(self.queue.popleft())

    def add_splits_back(self, splits: Sequence[Piece], subtask_id: int) -> None:
        self.queue.extend(replace(piece, tries=piece.tries + 1) for piece in splits)

    def handle_source_event(self, subtask_id: int, event: Pong) -> None:
        self.heard.append(event.text)
        bad = self.options_given[ON_SPLIT_ERROR] == "quarantine" and len(self.heard) % 3 == 0
        piece = Piece(split_id=f"h{len(self.heard)}", bad=bad)
        self.make(piece, subtask_id if len(self.heard) % 2 else None)

    def notify_splits_finished(self, checkpoint_id: int, splits: Sequence[Piece]) -> None:
        self.finished.extend(piece.split_id for piece in splits)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.completed.append(checkpoint_id)
        self.context.perform_after_completion(f"after {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.aborted.append(checkpoint_id)

    def subtask_reset(self, subtask_id: int, checkpoint_id: int) -> None:
        self.resets.append((subtask_id, checkpoint_id))

    def snapshot_state(self, checkpoint_id: int) -> Known:
        if STAGE.fails == "snapshot":
            raise InjectedError("snapshot")
        STAGE.sent_at_freeze = list(self.sent)
        if checkpoint_id == 1:
            # This is after the trigger and before the freeze: too late for the plan, in time for the state.
            self.ping(len(self.sent) - 1)
        return Known(
            sent=list(self.sent),
            heard=list(self.heard),
            made=list(self.made),
            finished=list(self.finished),
            queue=list(self.queue),
        )

    @classmethod
    def concerned(cls, actions: Sequence[str], split_ids: Collection[str]) -> Sequence[bool]:
        return [False] * len(actions)

    def perform(self, action: str) -> None:
        STAGE.performed.append(action)

    def close(self) -> None:
        self.closed = True


class PagedExchange(Exchange):
    """Like Exchange, but with pieces that stay live from batch to batch."""

    first = ((0, Piece(split_id="a!")), (None, Piece(split_id="b")))


class _Talks(SplitReader[Piece]):
    event_types = (Ping,)

    def open(self, context: SourceReaderContext) -> None:
        super().open(context)
        self.reading = False
        for text in STAGE.pongs:
            context.send_event_to_coordinator(Pong(text))

    def handle_source_event(self, event: Ping) -> None:
        STAGE.late_events += self.reading
        STAGE.received.append((event.subtask, event.number))


class Echo(_Talks):
    """Reads one row from each piece: its name."""

    def read(self, split: Piece) -> Iterator[Any]:
        self.reading = True
        if split.shy and not split.tries:
            raise ReturnSplit("not yet")
        if split.bad:
            raise OSError("a bad piece")
        yield (split.split_id,)


class Pages(YieldsProgress, _Talks):
    """Reads pages of one row each, up to the number of rows on the stage."""

    def read(self, split: Piece) -> Iterator[Any]:
        self.reading = True
        at = split.at
        while at < STAGE.rows:
            yield (f"{split.split_id}#{at}",)
            at += 1
            if split.split_id.endswith("!") and at == ROWS_TO_THE_END:
                yield Progress(None)
                return
            yield Progress(replace(split, at=at))
