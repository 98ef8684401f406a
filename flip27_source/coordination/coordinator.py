"""SourceCoordinator: drives one enumerator through checkpoints (FLIP-27, OperatorCoordinator).

Facts in, decisions out: callers tell it that asynchronous work ended, that a checkpoint is
triggered or complete; it answers with values to be made durable. It does no I/O, has no clock,
starts no thread, and is called from one thread only. A reset (rules R7, R8) is a new instance
made from a snapshot, as in Flink's RecreateOnResetOperatorCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from ..enumerator import (
    Boundedness,
    BoundedRange,
    MetricGroup,
    ReaderInfo,
    RetryPolicy,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from ..errors import ContractError, ProtocolError
from ..events import SourceEvent
from ..options import Options
from ..reader import SplitReader
from ..split import SplitSize, SplitT, size_of
from .checkpoints import (
    INITIAL_CHECKPOINT_ID,
    CheckpointMetadata,
    CheckpointMetrics,
    CompletedCheckpoint,
    LedgerState,
    PendingCheckpoint,
    Snapshot,
    WaitingSplit,
)
from .gateway import AddSplit, SubtaskGateway
from .ledger import Ledger
from .planning import Assignment, BatchBudget, Limits, Plan, pack

Handler = Callable[[Any, BaseException | None], None]


class AsyncRunner(Protocol):
    """Runs asynchronous work somewhere else; its results come back by ``handle_result``."""

    def submit(
        self,
        work: Callable[[], Any],
        handler: Handler,
        period_s: float | None,
        retry: RetryPolicy,
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """What does not change while a coordinator lives.

    Attributes:
        parallelism: most subtasks of a batch.
        max_partition_bytes: where set, parallelism may be exceeded so that no subtask gets more.
    """

    boundedness: Boundedness
    parallelism: int
    max_partition_bytes: int | None
    reader_type: type[SplitReader[Any]]
    options: Options


class SourceCoordinator(Generic[SplitT]):
    """The coordinator of one source in one run of a query."""

    def __init__(
        self,
        enumerator_type: type[SplitEnumerator[SplitT]],
        settings: CoordinatorSettings,
        runner: AsyncRunner,
        restored: Snapshot[SplitT] | None = None,
    ) -> None:
        self._settings = settings
        self._gateways = {i: SubtaskGateway[SplitT](i) for i in range(settings.parallelism)}
        self._pending: PendingCheckpoint[SplitT] | None = None
        ledger: LedgerState[SplitT] = LedgerState() if restored is None else restored.ledger
        self._ledger = Ledger(live=ledger.live, pins=ledger.pins, finished=ledger.finished)
        # Gateways whose outbox holds something: a request must not cost a look at all of them.
        self._ready: set[int] = set()
        self._last_id = restored.metadata.checkpoint_id if restored else INITIAL_CHECKPOINT_ID
        self._context = _Context(self, runner)
        for item in ledger.waiting:
            # A restart may have fewer subtasks than the run that pinned the split.
            subtask_id = (item.subtask_id or 0) % settings.parallelism
            self._send_split(item.split, subtask_id, pinned=item.subtask_id is not None)
        self._bounds_splits = enumerator_type.bound_split is not SplitEnumerator.bound_split
        state = None if restored is None else restored.enumerator_state
        self.enumerator = enumerator_type(self._context, settings.options, state)
        self._started = False

    @property
    def last_checkpoint_id(self) -> int:
        """Id of the newest checkpoint, pending or complete."""
        return self._last_id

    @property
    def pending(self) -> PendingCheckpoint[SplitT] | None:
        """The checkpoint that is frozen and not known to be complete."""
        return self._pending

    @property
    def gauges(self) -> Mapping[str, int | float]:
        """The numbers that the enumerator publishes."""
        return self._context.metrics.gauges

    def start(self) -> None:
        """Start the enumerator and register the subtasks as its readers."""
        if self._started:
            raise ProtocolError("the coordinator was started twice")
        self._started = True
        self.enumerator.start()
        for subtask_id in self._gateways:
            self.enumerator.add_reader(subtask_id)

    def handle_result(self, handler: Handler, result: Any, error: BaseException | None) -> None:
        """Asynchronous work ended: give its outcome to the handler that waits for it."""
        self._check_started()
        handler(result, error)

    def checkpoint(self, metadata: CheckpointMetadata, limits: Limits) -> PendingCheckpoint[SplitT] | None:
        """Trigger, plan and freeze a checkpoint; None when there is nothing new to read.

        The plan is what the gateways hold, what live splits have to give, and what the
        enumerator answers to split requests, until a limit is reached. On return the gateways
        are closed: whatever is sent from then on is for the batch after this one.
        """
        self._check_started()
        if self._pending is not None:
            raise ProtocolError(
                f"checkpoint {metadata.checkpoint_id} was triggered while "
                f"{self._pending.checkpoint_id} is pending"
            )
        if metadata.checkpoint_id != self._last_id + 1:
            raise ProtocolError(f"checkpoint {metadata.checkpoint_id} was triggered after {self._last_id}")
        batch = _Batch[SplitT](BatchBudget(limits))
        self._drain_gateways(batch)
        self._request_splits(batch)
        for split in self._ledger.live:
            self._bound(split, batch)
        if not batch:
            return None
        for gateway in self._gateways.values():
            gateway.mark_for_checkpoint(metadata.checkpoint_id)
        plan = self._plan(batch)
        self._ledger.planned(metadata.checkpoint_id, batch.owners)
        state = self.enumerator.snapshot_state(metadata.checkpoint_id)
        for gateway in self._gateways.values():
            gateway.try_close(metadata.checkpoint_id)
        ledger = self._ledger_state()
        self._last_id = metadata.checkpoint_id
        self._pending = PendingCheckpoint(
            snapshot=Snapshot(metadata=metadata, enumerator_state=state, ledger=ledger, plan=plan),
            metrics=self._metrics(batch.budget, ledger),
        )
        return self._pending

    def complete(self, checkpoint_id: int) -> CompletedCheckpoint | None:
        """The batch of ``checkpoint_id`` is in the commit log. Idempotent (R7).

        Returns:
            The checkpoint when this call completed it, None when there was nothing to complete.
        """
        self._check_started()
        if checkpoint_id > self._last_id:
            raise ProtocolError(
                f"checkpoint {checkpoint_id} cannot be complete: the newest is {self._last_id}"
            )
        pending = self._pending
        if pending is None or pending.checkpoint_id != checkpoint_id:
            return None
        self._pending = None
        self._ledger.completed(checkpoint_id)
        for gateway in self._gateways.values():
            gateway.open_after(checkpoint_id)
            if len(gateway):
                self._ready.add(gateway.subtask_id)
        self.enumerator.notify_checkpoint_complete(checkpoint_id)
        return CompletedCheckpoint(checkpoint_id=checkpoint_id)

    def close(self) -> None:
        """The run ends."""
        self.enumerator.close()

    def _check_started(self) -> None:
        if not self._started:
            raise ProtocolError("the coordinator was used before it was started")

    def _send_split(self, split: SplitT, subtask_id: int, *, pinned: bool) -> None:
        self._ledger.assigned(split)
        gateway = self._gateway(subtask_id if pinned else 0)
        gateway.send(AddSplit(split, pinned))
        if len(gateway):
            self._ready.add(gateway.subtask_id)

    def _gateway(self, subtask_id: int) -> SubtaskGateway[SplitT]:
        gateway = self._gateways.get(subtask_id)
        if gateway is None:
            raise ContractError(
                f"subtask {subtask_id} is not registered: there are {len(self._gateways)}, numbered from 0",
                remedy="assign to a subtask of context.registered_readers",
            )
        return gateway

    def _drain_gateways(self, batch: _Batch[SplitT]) -> None:
        """Move what fits from the outboxes into the batch; unbounded splits begin to live."""
        for subtask_id in sorted(self._ready):
            gateway = self._gateways[subtask_id]
            while (item := gateway.peek()) is not None:
                pinned_to = subtask_id if item.pinned else None
                if self._bounds_splits:
                    self._ledger.begins(item.split, pinned_to)
                elif batch.budget.fits(size := size_of(item.split)):
                    batch.add(item.split, size, pinned_to, item.split.split_id)
                else:
                    break
                gateway.take()
            else:
                self._ready.discard(subtask_id)

    def _bound(self, split: SplitT, batch: _Batch[SplitT]) -> None:
        if batch.budget.exhausted:
            return
        cut: BoundedRange[SplitT] | None = self.enumerator.bound_split(split, batch.budget.left())
        if cut is None:
            return
        if cut.rest is not None and cut.rest.split_id != split.split_id:
            raise ContractError(
                f"bound_split of split {split.split_id!r} returned a rest with the id {cut.rest.split_id!r}",
                remedy="keep split_id; only the position changes",
            )
        pinned_to = self._ledger.pin_of(split.split_id)
        batch.add(cut.read, size_of(cut.read), pinned_to, split.split_id)
        self._ledger.moved(split.split_id, cut.rest)

    def _request_splits(self, batch: _Batch[SplitT]) -> None:
        """Ask on behalf of each subtask in turn, until the budget is used up or none gets any.

        Unbounded splits cost nothing before they are cut: all of them are asked for, so that
        those which live already cannot starve those which are still with the enumerator.
        """
        asking = list(self._gateways)
        while asking:
            got_some = []
            for subtask_id in asking:
                if batch.budget.exhausted or self._ready:
                    return
                self._context.requesting = True
                try:
                    self.enumerator.handle_split_request(subtask_id)
                finally:
                    self._context.requesting = False
                if self._ready:
                    got_some.append(subtask_id)
                    self._drain_gateways(batch)
            asking = got_some

    def _plan(self, batch: _Batch[SplitT]) -> Plan[SplitT]:
        packed = pack(
            batch.free,
            batch.pinned,
            parallelism=self._settings.parallelism,
            max_partition_bytes=self._settings.max_partition_bytes,
        )
        return Plan(
            assignments=tuple(
                Assignment(subtask_id=subtask_id, splits=tuple(splits))
                for subtask_id, splits in packed.items()
            )
        )

    def _ledger_state(self) -> LedgerState[SplitT]:
        waiting = tuple(
            WaitingSplit(split=item.split, subtask_id=gateway.subtask_id if item.pinned else None)
            for gateway in self._gateways.values()
            for item in gateway.waiting()
        )
        return LedgerState(
            live=self._ledger.live,
            pins=self._ledger.pins,
            waiting=waiting,
            finished=self._ledger.finished,
        )

    def _metrics(self, budget: BatchBudget, ledger: LedgerState[SplitT]) -> CheckpointMetrics:
        return CheckpointMetrics(
            splits=budget.splits,
            files=budget.files,
            rows=budget.rows,
            bytes=budget.bytes,
            live_splits=len(ledger.live),
            finished_splits=ledger.finished,
            waiting_splits=len(ledger.waiting),
            gauges=dict(self._context.metrics.gauges),
        )


class _Batch(Generic[SplitT]):
    """What is collected for the plan of one checkpoint; ``owners`` are the ids of the splits."""

    __slots__ = ("budget", "free", "owners", "pinned")

    def __init__(self, budget: BatchBudget) -> None:
        self.budget = budget
        self.free: list[SplitT] = []
        self.pinned: list[tuple[int, SplitT]] = []
        self.owners: list[str] = []

    def add(self, split: SplitT, size: SplitSize, subtask_id: int | None, owner: str) -> None:
        self.budget.take(size)
        self.owners.append(owner)
        if subtask_id is None:
            self.free.append(split)
        else:
            self.pinned.append((subtask_id, split))

    def __bool__(self) -> bool:
        return bool(self.free or self.pinned)


class _Context(SplitEnumeratorContext[SplitT]):
    """What the enumerator sees of its coordinator."""

    def __init__(self, coordinator: SourceCoordinator[SplitT], runner: AsyncRunner) -> None:
        self._coordinator = coordinator
        self._runner = runner
        self._metrics = MetricGroup()
        self.requesting = False

    @property
    def boundedness(self) -> Boundedness:
        return self._coordinator._settings.boundedness

    @property
    def current_parallelism(self) -> int:
        return self._coordinator._settings.parallelism

    @property
    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        return {i: ReaderInfo(subtask_id=i) for i in self._coordinator._gateways}

    @property
    def reader_type(self) -> type[SplitReader[Any]]:
        return self._coordinator._settings.reader_type

    @property
    def metrics(self) -> MetricGroup:
        return self._metrics

    def assign_split(self, split: SplitT, subtask_id: int) -> None:
        self._coordinator._gateway(subtask_id)
        self._coordinator._send_split(split, subtask_id, pinned=not self.requesting)

    def assign_splits(self, assignments: Mapping[int, Sequence[SplitT]]) -> None:
        for subtask_id, splits in assignments.items():
            for split in splits:
                self.assign_split(split, subtask_id)

    def signal_no_more_splits(self, subtask_id: int) -> None:
        self._coordinator._gateway(subtask_id)

    def call_async(
        self,
        work: Callable[[], Any],
        handler: Handler,
        *,
        period_s: float | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._runner.submit(work, handler, period_s, retry or RetryPolicy())

    def send_event_to_reader(self, subtask_id: int, event: SourceEvent) -> None:
        self._coordinator._gateway(subtask_id)
        raise ContractError(
            f"{type(event).__name__} was sent to subtask {subtask_id}: events to readers are not "
            "supported by this version",
            remedy="carry what the reader has to know in the fields of its splits",
        )
