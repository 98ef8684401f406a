"""EnumeratorRun: runs one enumerator split by split, without a coordinator.

State and splits are encoded as in checkpoints. No threads, and no I/O except the enumerator's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..coordination.checkpoints import CheckpointMetadata, LedgerState, Snapshot
from ..coordination.context import CoordinatorContext, CoordinatorSettings, Handler
from ..coordination.packing import Plan
from ..enumerator import Budget, SplitEnumerator
from ..enumerator_context import Boundedness, RetryPolicy
from ..events import SourceEvent
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import decode_document
from ..snapshots.source_identity import identity_of
from ..source import Source
from .inline_environment import AsyncCall
from .law import Disagreement

MOST_ASKS = 100_000


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
    """The real context, which takes splits that cannot be stored: a law of its own checks them."""

    def assign_split(self, split: Any, subtask_id: int | None = None) -> None:
        self._assign_checked(split, subtask_id)


class EnumeratorRun:
    """One enumerator since its construction.

    Args:
        stored: a state returned by ``snapshot``; None for the first start.
        start: whether to start the enumerator and register the subtasks.
        asks: number of earlier requests; determines which subtask asks next.
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
        state = None if stored is None else self._decoded(stored).enumerator_state
        context = RecordedContext(self.recorder, self.recorder, source.enumerator_type)
        self.enumerator: SplitEnumerator[Any] = source.enumerator_type(context, source.options, state)
        if start:
            self.enumerator.start()
            for number in range(parallelism):
                self.enumerator.add_reader(number)

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

    def ask(self) -> bool:
        """Request a split for the next subtask; returns whether it received one."""
        before = len(self.assigned)
        self.enumerator.handle_split_request(self._asks % self._parallelism)
        self._asks += 1
        return len(self.assigned) > before

    def drain(self) -> list[Any]:
        """Request splits until no subtask receives one; returns the splits assigned by this call."""
        before = len(self.assigned)
        idle = 0
        while idle < self._parallelism:
            idle = 0 if self.ask() else idle + 1
            if len(self.assigned) - before > MOST_ASKS:
                raise Disagreement(f"the enumerator still assigns splits after {MOST_ASKS} requests")
        return self.assigned[before:]

    def ranges(self, *, first_only: bool = False) -> Iterator[Any]:
        """Every split in the ranges that tasks would read; only the first of each if ``first_only``."""
        self.discover()
        for split in self.drain():
            rest = split
            while rest is not None and (cut := self.enumerator.bound_split(rest, Budget())) is not None:
                yield cut.read
                rest = None if first_only else cut.rest

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
        result, error = call.run()
        if error is not None or call.period_s is None:
            self.recorder.calls.remove(call)
        call.handler(result, error)
