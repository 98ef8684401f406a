"""EnumeratorRun: runs one enumerator split by split, without a coordinator.

State and splits are encoded as in checkpoints. No threads, and no I/O except the enumerator's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..coordination.checkpoints import CheckpointMetadata, LedgerState, Snapshot
from ..coordination.context import Handler
from ..coordination.data_losses import described
from ..coordination.packing import Plan
from ..enumerator import SplitEnumerator
from ..enumerator_context import Boundedness, MetricGroup, ReaderInfo, RetryPolicy, SplitEnumeratorContext
from ..errors import ContractError, DataLossError
from ..events import SourceEvent
from ..options import Options
from ..reader import SplitReader
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import decode_document
from ..snapshots.source_identity import identity_of
from ..source import Source
from ..source_options import ON_DATA_LOSS
from ..values.stored_values import stored_actions, stored_events
from .inline_environment import AsyncCall
from .law import Disagreement

MOST_ASKS = 100_000


class RecordingContext(SplitEnumeratorContext[Any]):
    """Records what an enumerator does, and refuses events and actions that cannot be stored.

    Attributes:
        assigned: the assigned splits, in order.
        calls: the remaining asynchronous calls.
        uses: the names of the called methods.
    """

    def __init__(
        self,
        parallelism: int,
        boundedness: Boundedness,
        enumerator_type: type[SplitEnumerator[Any]],
        reader_type: type[SplitReader[Any]],
        options: Options,
    ) -> None:
        self._options = options
        self._enumerator_type = enumerator_type
        self._events = stored_events(reader_type)
        self._parallelism = parallelism
        self._boundedness = boundedness
        self._reader_type = reader_type
        self._metrics = MetricGroup()
        self.assigned: list[Any] = []
        self.calls: list[AsyncCall] = []
        self.uses: list[str] = []

    @property
    def boundedness(self) -> Boundedness:
        return self._boundedness

    @property
    def current_parallelism(self) -> int:
        return self._parallelism

    @property
    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        return {number: ReaderInfo(subtask_id=number) for number in range(self._parallelism)}

    @property
    def reader_type(self) -> type[SplitReader[Any]]:
        return self._reader_type

    @property
    def metrics(self) -> MetricGroup:
        return self._metrics

    def assign_split(self, split: Any, subtask_id: int | None = None) -> None:
        self._used("assign_split", subtask_id or 0)
        self.assigned.append(split)

    def assign_splits(self, assignments: Mapping[int, Sequence[Any]]) -> None:
        for subtask_id, splits in assignments.items():
            for split in splits:
                self.assign_split(split, subtask_id)

    def call_async(
        self,
        work: Callable[[], Any],
        handler: Handler,
        *,
        period_s: float | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._used("call_async", 0)
        self.calls.append(AsyncCall(work, handler, period_s, retry or RetryPolicy()))

    def send_event_to_reader(self, subtask_id: int, event: SourceEvent) -> None:
        self._used("send_event_to_reader", subtask_id)
        if type(event) in self._events:
            self._events[type(event)].check(event)

    def perform_after_completion(self, action: Any, *, delayed: bool = False) -> None:
        self._used("perform_after_completion", 0)
        stored_actions(self._enumerator_type).check(action)

    def report_data_loss(self, what: str, *, split_id: str | None = None, remedy: str | None = None) -> None:
        if self._options[ON_DATA_LOSS] == "fail":
            raise DataLossError(described(what, split_id), remedy=remedy)

    def _used(self, what: str, subtask_id: int) -> None:
        if not 0 <= subtask_id < self._parallelism:
            raise ContractError(
                f"{what}: subtask {subtask_id} is not registered: there are {self._parallelism}",
                remedy="assign to a subtask of context.registered_readers",
            )
        self.uses.append(what)


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
        self.context = RecordingContext(
            parallelism, boundedness, source.enumerator_type, source.reader_type, source.options
        )
        self._parallelism = parallelism
        self._asks = asks
        state = None if stored is None else self._decoded(stored).enumerator_state
        self.enumerator: SplitEnumerator[Any] = source.enumerator_type(self.context, source.options, state)
        if start:
            self.start()

    def start(self) -> None:
        """Start the enumerator and register the subtasks."""
        self.enumerator.start()
        for number in range(self._parallelism):
            self.enumerator.add_reader(number)

    @property
    def assigned(self) -> list[Any]:
        """All assigned splits."""
        return self.context.assigned

    def discover(self) -> None:
        """Run one round of all asynchronous calls, and the first round of calls that they start."""
        for call in list(self.context.calls):
            self._round(call)
        while fresh := [call for call in self.context.calls if call.rounds == 0]:
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
        if error is not None or not call.has_next_round:
            self.context.calls.remove(call)
        call.handler(result, error)
