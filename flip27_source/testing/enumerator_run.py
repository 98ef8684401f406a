"""EnumeratorRun: runs one enumerator split by split, without a coordinator.

State and splits are encoded as in checkpoints. No threads, and no I/O except the enumerator's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from ..coordination.checkpoints import CheckpointMetadata, LedgerState, Snapshot
from ..coordination.context import CoordinatorContext, CoordinatorSettings, Handler
from ..coordination.packing import Plan
from ..coordination.split_rules import SplitRules
from ..enumerator import Budget, SplitEnumerator
from ..enumerator_context import Boundedness, RetryPolicy
from ..events import SourceEvent
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import decode_document
from ..snapshots.source_identity import identity_of
from ..source import Source
from ..values.differences import shown
from .inline_environment import AsyncCall
from .law import Disagreement
from .reader_run import ReaderRun

MOST_ASKS = 20_000
MOST_RESTS = 20
"""Number of rests of a split with which a new one is compared."""


class Recorder:
    """Takes the coordinator's place, and notes what an enumerator does.

    Attributes:
        settings: those of the enumerator's context.
        assigned: the assigned splits, in order.
        calls: the remaining asynchronous calls.
        uses: the names of the context's methods that were called.
    """

    def __init__(self, settings: CoordinatorSettings) -> None:
        self.settings = settings
        self.assigned: list[Any] = []
        self.calls: list[AsyncCall] = []
        self.uses: list[str] = []

    def send_split(self, split: Any, subtask_id: int | None) -> None:
        self.uses.append("assign_split")
        self.assigned.append(split)

    def send_event(self, subtask_id: int, event: SourceEvent) -> None:
        self.uses.append("send_event_to_reader")

    def add_action(self, action: Any, *, delayed: bool) -> None:
        self.uses.append("perform_after_completion")

    def report_data_loss(self, what: str, split_id: str | None) -> None:
        """The loss is not recorded."""

    def submit(
        self, work: Callable[[], Any], handler: Handler, period_s: float | None, retry: RetryPolicy
    ) -> None:
        self.uses.append("call_async")
        self.calls.append(AsyncCall(work, handler, period_s, retry))


class RecordedContext(CoordinatorContext[Any]):
    """The real context, which takes splits that cannot be stored: a law of its own checks them.

    Attributes:
        arguments: what asynchronous work was given, each with its text at that time.
    """

    def __init__(self, recorder: Recorder, enumerator_type: type[SplitEnumerator[Any]]) -> None:
        super().__init__(recorder, recorder, enumerator_type)
        self.arguments: list[tuple[Any, str]] = []

    def call_async(self, work: Callable[..., Any], *args: Any, **more: Any) -> None:
        def noting(argument: Any = None) -> Any:
            self.arguments.append((argument, repr(argument)))
            return work(argument)

        super().call_async(work if more.get("argument") is None else noting, *args, **more)

    def assign_split(self, split: Any, subtask_id: int | None = None) -> None:
        self._assign_checked(split, subtask_id)


class EnumeratorRun:
    """One enumerator since its construction.

    Args:
        stored: a state returned by ``snapshot``; None for the first start.
        start: whether to start the enumerator and register the subtasks.
        asks: number of earlier requests; determines which subtask asks next.
        schema: the columns, if the splits are read and the events of the reader are delivered.
        unread: splits that were assigned before ``stored`` and not read: their events are delivered, too.
    """

    def __init__(
        self,
        source: Source,
        stored: bytes | None = None,
        *,
        parallelism: int = 2,
        boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED,
        start: bool = True,
        asks: int = 0,
        schema: pa.Schema | None = None,
        unread: Sequence[Any] = (),
    ) -> None:
        self._source = source
        self._codec = SnapshotCodec(source.enumerator_type, source.reader_type)
        settings = CoordinatorSettings(
            boundedness=boundedness,
            parallelism=parallelism,
            max_partition_bytes=None,
            reader_type=source.reader_type,
            options=source.options,
        )
        self.recorder = Recorder(settings)
        self._parallelism = parallelism
        self._asks = asks
        self._idle = 0
        self._schema = schema
        self._unread_before = list(unread)
        self._read = 0
        state = None if stored is None else self.state_in(stored)
        self.context = RecordedContext(self.recorder, source.enumerator_type)
        self.enumerator: SplitEnumerator[Any] = source.enumerator_type(self.context, source.options, state)
        if start:
            self.enumerator.start()
            for number in range(parallelism):
                self.enumerator.add_reader(number)

    def state_in(self, stored: bytes) -> Any:
        """The enumerator's state in what ``snapshot`` has returned."""
        return self._decoded(stored).enumerator_state

    @property
    def assigned(self) -> list[Any]:
        return self.recorder.assigned

    def discover(self) -> None:
        """Run one round of all asynchronous calls, and the first round of calls that they start."""
        for call in list(self.recorder.calls):
            self._round(call)
        while fresh := [call for call in self.recorder.calls if call.rounds == 0]:
            for call in fresh:
                self._round(call)

    @property
    def unread(self) -> list[Any]:
        """The assigned splits that were not read yet."""
        return [*self._unread_before, *self.assigned[self._read :]]

    def give_back(self, splits: Sequence[Any], subtask_id: int) -> None:
        """A subtask returns splits that it has not read."""
        self._unread_before = [split for split in self.unread if split not in splits]
        self._read = len(self.assigned)
        self.enumerator.add_splits_back(splits, subtask_id)

    @property
    def is_idle(self) -> bool:
        """Whether no subtask has received a split at its last request."""
        return self._idle >= self._parallelism

    def ask(self) -> None:
        """Request a split for the next subtask; if all are idle, they read, and their events arrive."""
        before = len(self.assigned)
        self.enumerator.handle_split_request(self._asks % self._parallelism)
        self._asks += 1
        self._idle = 0 if len(self.assigned) > before else self._idle + 1
        if self.is_idle and self._deliver_events():
            self._idle = 0

    def _deliver_events(self) -> bool:
        """Read the assigned splits, and pass the reader's events on; returns whether there were any."""
        splits = self.unread
        if self._schema is None or not splits:
            return False
        self._read, self._unread_before = len(self.assigned), []
        with ReaderRun(self._source.reader_type, self._source.options, self._schema) as reader:
            ranges = [cut for split in splits for cut in self._ranges_of(split, first_only=False)]
            events = [event for cut in ranges for event in reader.read(cut).events]
        for event in events:
            self.enumerator.handle_source_event(0, event)
        return bool(events)

    def drain(self) -> list[Any]:
        """Request splits until no subtask receives one; returns the splits assigned by this call."""
        before = len(self.assigned)
        self._idle = 0
        while not self.is_idle:
            self.ask()
            if len(self.assigned) - before > MOST_ASKS:
                name, last = type(self.enumerator).__qualname__, self.assigned[-1]
                raise Disagreement(
                    f"handle_split_request of {name} assigns a split each time, {MOST_ASKS} so far, the last "
                    f"one {shown(last)}: assign none when all are assigned"
                )
        return self.assigned[before:]

    def ranges(self, *, first_only: bool = False) -> Iterator[Any]:
        """Every split in the ranges that tasks would read; only the first of each if ``first_only``.

        Raises:
            Disagreement: the ranges of a split, or the splits, do not come to an end.
        """
        self.discover()
        checkpoint_id = 0
        # An enumerator may assign one split in each batch.
        while splits := self.drain() or self._at_the_end():
            for split in splits:
                yield from self._ranges_of(split, first_only=first_only)
            checkpoint_id += 1
            self.enumerator.snapshot_state(checkpoint_id)
            self.enumerator.notify_checkpoint_complete(checkpoint_id)

    def _at_the_end(self) -> list[Any]:
        """What the enumerator assigns once everything has been read."""
        while self.enumerator.end_of_data(()) or any(not call.rounds for call in self.recorder.calls):
            self.discover()
            if splits := self.drain():
                return splits
        return []

    def _ranges_of(self, split: Any, *, first_only: bool) -> Iterator[Any]:
        rest = split
        seen: list[Any] = []
        while rest is not None and (cut := self.enumerator.bound_split(rest, Budget())) is not None:
            yield cut.read
            if first_only:
                return
            if cut.rest in seen[-MOST_RESTS:] or len(seen) > MOST_ASKS:
                raise Disagreement(
                    f"bound_split of split {split.split_id!r} does not come to an end: the rest after "
                    f"{shown(cut.read)} is {shown(cut.rest)}. The rest begins where read ends; None "
                    "instead of a range says that there is nothing to read now"
                )
            seen.append(cut.rest)
            rest = cut.rest

    def snapshot(self, checkpoint_id: int = 1) -> bytes:
        """The current state, encoded as in a checkpoint."""
        return self.stored(self.enumerator.snapshot_state(checkpoint_id), checkpoint_id)

    def stored(self, state: Any, checkpoint_id: int = 1) -> bytes:
        """A state, encoded as in a checkpoint."""
        metadata = CheckpointMetadata(checkpoint_id=checkpoint_id, timestamp_ms=0)
        snapshot: Snapshot[Any] = Snapshot(
            metadata=metadata, enumerator_state=state, ledger=LedgerState(), plan=Plan()
        )
        encoded = self._codec.encode(snapshot, source=identity_of(self._source), parent=None, inline_all=True)
        return encoded.data

    def split_through_json(self, split: Any) -> Any:
        """A split, encoded as in a checkpoint and decoded."""
        raw = self._codec.encode_split(split)
        return self._codec.decode_split(self._source.enumerator_type.split_version, raw)

    def _decoded(self, stored: bytes) -> Snapshot[Any]:
        def nowhere(name: str) -> bytes:
            raise Disagreement(f"segment {name} is not inside the state")

        return self._codec.decode(decode_document(stored), nowhere)

    def _round(self, call: AsyncCall) -> None:
        rules: SplitRules[Any] = SplitRules(enumerator_type=self._source.enumerator_type)
        self.context.moved_on([split for split in self.assigned if rules.is_range(split)])
        result, error = call.run()
        if error is not None or call.period_s is None:
            self.recorder.calls.remove(call)
        call.handler(result, error)
