"""SourceCoordinator: drives one enumerator through checkpoints (FLIP-27, OperatorCoordinator).

Facts in, decisions out: callers tell it that asynchronous work ended, that a checkpoint is
triggered, acknowledged or complete; it answers with values to be made durable. It does no I/O, has
no clock, starts no thread, and is called from one thread only. A reset (rules R7, R8) is a new
instance made from a snapshot, as in Flink's RecreateOnResetOperatorCoordinator.
"""

from __future__ import annotations

from typing import Any, Generic

from ..enumerator import Boundedness, BoundedRange, SplitEnumerator
from ..errors import ContractError, ProtocolError
from ..events import SourceEvent
from ..split import SplitT, size_of
from .actions import PendingActions
from .batch import Batch
from .checkpoints import (
    INITIAL_CHECKPOINT_ID,
    CheckpointMetadata,
    CheckpointSummary,
    CompletedCheckpoint,
    LedgerState,
    PendingCheckpoint,
    Snapshot,
    WaitingEvent,
    WaitingSplit,
)
from .context import AsyncRunner, CoordinatorContext, CoordinatorSettings, Handler
from .folding import Folding
from .gateway import AddSplit, SubtaskGateway
from .ledger import Ledger
from .planning import BatchBudget, Limits, Plan
from .reports import AcknowledgeResult, SubtaskReport


class SourceCoordinator(Generic[SplitT]):
    """The coordinator of one source in one run of a query."""

    def __init__(
        self,
        enumerator_type: type[SplitEnumerator[SplitT]],
        settings: CoordinatorSettings,
        runner: AsyncRunner,
        restored: Snapshot[SplitT] | None = None,
    ) -> None:
        self.settings = settings
        self._last_id = restored.metadata.checkpoint_id if restored else INITIAL_CHECKPOINT_ID
        self._gateways = {
            i: SubtaskGateway[SplitT](i, last_closed=self._last_id) for i in range(settings.parallelism)
        }
        # Gateways whose outbox holds something: a request must not cost a look at all of them.
        self._ready: set[int] = set()
        self._ledger = Ledger(None if restored is None else restored.ledger)
        self._actions = PendingActions(settings.action_policy, () if restored is None else restored.actions)
        # Splits that a reader has caught up with: when they are read again, None for "not in this run".
        self._resting: dict[str, int | None] = {}
        self._context = CoordinatorContext(self, runner, enumerator_type)
        self._cuts_splits = enumerator_type.bound_split is not SplitEnumerator.bound_split
        if self._cuts_splits and settings.reader_bounds_splits:
            raise ContractError(
                f"{enumerator_type.__qualname__} cuts splits by bound_split and "
                f"{settings.reader_type.__qualname__} ends them by Progress",
                remedy="let one of the two say where a batch ends",
            )
        # Restoring N implies that its batch is complete (R7): it is pending until the caller says so.
        self._pending: PendingCheckpoint[SplitT] | None = None
        self._restored = restored is not None
        state = None
        if restored is not None:
            state = restored.enumerator_state
            self._restore(restored)
        self.enumerator = enumerator_type(self._context, settings.options, state)
        self._started = False
        self._completing: int | None = None

    @property
    def last_checkpoint_id(self) -> int:
        """Id of the newest checkpoint, pending or complete."""
        return self._last_id

    @property
    def pending(self) -> PendingCheckpoint[SplitT] | None:
        """The checkpoint that is frozen and not known to be complete."""
        return self._pending

    @property
    def gauges(self) -> dict[str, int | float]:
        """The numbers that the enumerator publishes, and our own of what went wrong."""
        own = {
            "quarantinedSplits": len(self._ledger.quarantined),
            "ignoredSplits": self._ledger.ignored_count,
            "actionsGivenUp": self._actions.given_up,
        }
        return {**self._context.metrics.gauges, **{name: value for name, value in own.items() if value}}

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
        """Trigger, plan and freeze a checkpoint; None when there is no need of one.

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
        batch = Batch[SplitT](BatchBudget(limits))
        self._drain_gateways(batch)
        self._request_splits(batch)
        for split in self._ledger.live:
            self._read_on(split, batch, metadata.timestamp_ms)
        wanted = metadata.edits or metadata.is_savepoint or self.enumerator.wants_checkpoint()
        if not batch and not wanted:
            return None
        for gateway in self._gateways.values():
            gateway.mark_for_checkpoint(metadata.checkpoint_id)
        plan = batch.plan(
            parallelism=self.settings.parallelism,
            max_partition_bytes=self.settings.max_partition_bytes,
            reports=self.settings.reports,
            # Nobody knows how long a page takes: what one waits for must not hold up the others.
            each_apart=self.settings.reader_bounds_splits,
        )
        self._ledger.planned(metadata.checkpoint_id, batch.owners)
        snapshot = self._snapshot(metadata, plan)
        for gateway in self._gateways.values():
            gateway.try_close(metadata.checkpoint_id)
        self._last_id = metadata.checkpoint_id
        summary = self._summary(batch.budget, snapshot.ledger)
        self._pending = PendingCheckpoint(snapshot=snapshot, summary=summary)
        return self._pending

    def standing(self) -> Snapshot[SplitT]:
        """The whole state between two batches: what edits are applied to."""
        self._check_started()
        if self._pending is not None:
            raise ProtocolError(f"checkpoint {self._pending.checkpoint_id} is pending: nothing stands still")
        return self._snapshot(CheckpointMetadata(checkpoint_id=self._last_id, timestamp_ms=0), Plan())

    def acknowledge(self, report: SubtaskReport[SplitT]) -> AcknowledgeResult:
        """A subtask has done its share: its gateway opens, its report waits for the completion (R4)."""
        self._check_started()
        if self._pending is None:
            return AcknowledgeResult.DISCARDED
        result, self._pending = self._pending.acknowledged(report)
        if result is AcknowledgeResult.SUCCESS:
            self._open(report.subtask_id, report.checkpoint_id)
        return result

    def repeat(self, subtask_id: int) -> None:
        """A required report is missing, and by policy the subtask's share is read once more (R6)."""
        if self._pending is None:
            raise ProtocolError(f"subtask {subtask_id} cannot repeat: no checkpoint is pending")
        if self._cuts_splits:
            raise ContractError(
                f"subtask {subtask_id} has written no report, and ranges that bound_split has cut "
                "cannot be read again",
                remedy="set onMissingReport=fail and let every batch be read to its end",
            )
        self._pending = self._pending.repeated(subtask_id)

    def complete(self, checkpoint_id: int, *, quietly: bool = False) -> CompletedCheckpoint[SplitT] | None:
        """The batch of ``checkpoint_id`` is in the commit log. Idempotent (R7).

        Folds the reports in, once and in order (R4), tells the enumerator, and says which actions
        are due. ``quietly``: for a restored savepoint, which commits nothing (I12): the enumerator
        gets back what is its own, splits and events, and is told of no completion.

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
        if pending.not_yet_acknowledged:
            raise ProtocolError(
                f"checkpoint {checkpoint_id} cannot be complete: subtasks "
                f"{sorted(pending.not_yet_acknowledged)} have not acknowledged it"
            )
        self._pending = None
        self._completing = checkpoint_id
        folding = Folding(pending, self._ledger, self.enumerator, self.settings)
        folding.fold_splits(resend=self._resend, cuts_splits=self._cuts_splits)
        self._rest(folding.caught_up, pending.snapshot.metadata.timestamp_ms)
        self._ledger.completed(checkpoint_id)
        for subtask_id in self._gateways:
            self._open(subtask_id, checkpoint_id)
        folding.tell(quietly=quietly)
        self._completing = None
        self._restored = False
        return CompletedCheckpoint(
            checkpoint_id=checkpoint_id,
            reports=folding.reports,
            due_actions=tuple(self._actions.take_due(checkpoint_id)),
        )

    def action_ended(self, number: int, error: str | None) -> None:
        """An action of a completed checkpoint is done (error None) or has failed."""
        self._actions.ended(number, error)

    def close(self) -> None:
        """The run ends."""
        self.enumerator.close()

    def send_split(self, split: SplitT, subtask_id: int, *, pinned: bool) -> None:
        """Send a split to a subtask; not ``pinned``: to any subtask."""
        self._ledger.assigned(split)
        self._send(subtask_id if pinned else 0, AddSplit(split, pinned))

    def send_event(self, subtask_id: int, event: SourceEvent) -> None:
        """Send an event to a subtask."""
        self._send(subtask_id, event)

    def add_action(self, action: Any) -> None:
        """To be performed once what is known now is durable and complete."""
        self._actions.add(action, self._last_id + 1 if self._completing is None else self._completing)

    def _send(self, subtask_id: int, item: AddSplit[SplitT] | SourceEvent) -> None:
        gateway = self._gateways[subtask_id]
        gateway.send(item)
        if len(gateway):
            self._ready.add(subtask_id)

    def _open(self, subtask_id: int, checkpoint_id: int) -> None:
        # Large batches have more subtasks than gateways: those are sent to in no other way.
        gateway = self._gateways.get(subtask_id)
        if gateway is not None:
            gateway.open_after(checkpoint_id)
            if len(gateway):
                self._ready.add(subtask_id)

    def _check_started(self) -> None:
        if not self._started:
            raise ProtocolError("the coordinator was used before it was started")

    def _restore(self, restored: Snapshot[SplitT]) -> None:
        # A restart may have fewer subtasks than the run that sent to them.
        parallelism = self.settings.parallelism
        for waiting in restored.ledger.waiting:
            subtask_id = (waiting.subtask_id or 0) % parallelism
            self.send_split(waiting.split, subtask_id, pinned=waiting.subtask_id is not None)
        for item in restored.ledger.events:
            self.send_event(item.subtask_id % parallelism, item.event)
        planned = [split.split_id for item in restored.plan.assignments for split in item.splits]
        self._ledger.restores_plan(self._last_id, planned)
        self._pending = PendingCheckpoint(snapshot=restored)

    def _drain_gateways(self, batch: Batch[SplitT]) -> int:
        """Move what fits from the outboxes into the batch; the number of splits that moved.

        Splits that go on from batch to batch begin to live.
        """
        moved = 0
        lives_on = self._cuts_splits or self.settings.reader_bounds_splits
        for subtask_id in sorted(self._ready):
            gateway = self._gateways[subtask_id]
            batch.add_events(subtask_id, gateway.take_events())
            while (item := gateway.peek()) is not None:
                pinned_to = subtask_id if item.pinned else None
                if lives_on:
                    self._ledger.begins(item.split, pinned_to)
                elif batch.budget.fits(size := size_of(item.split)):
                    batch.add(item.split, size, pinned_to, item.split.split_id)
                else:
                    break
                gateway.take()
                moved += 1
            else:
                self._ready.discard(subtask_id)
        return moved

    def _read_on(self, split: SplitT, batch: Batch[SplitT], now_ms: int) -> None:
        """Put the next range of a live split into the batch, if there is one and room for it."""
        if batch.budget.exhausted:
            return
        pinned_to = self._ledger.pin_of(split.split_id)
        if self.settings.reader_bounds_splits:
            rests_until = self._resting.get(split.split_id, 0)
            if rests_until is not None and rests_until <= now_ms:
                self._resting.pop(split.split_id, None)
                batch.add(split, size_of(split), pinned_to, split.split_id)
            return
        rest: SplitT | None = split
        while rest is not None and not batch.budget.exhausted:
            cut: BoundedRange[SplitT] | None = self.enumerator.bound_split(rest, batch.budget.left())
            if cut is None:
                return
            self._context.check_range(split, cut)
            batch.add(cut.read, size_of(cut.read), pinned_to, split.split_id)
            self._ledger.moved(split.split_id, cut.rest)
            rest = cut.rest if self.settings.one_batch else None

    def _request_splits(self, batch: Batch[SplitT]) -> None:
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
                if self._ready and self._drain_gateways(batch):
                    got_some.append(subtask_id)
            asking = got_some

    def _resend(self, split: SplitT | None, subtask_id: int, events: tuple[SourceEvent, ...]) -> None:
        """What a subtask that gave no report was sent goes out once more."""
        if split is not None:
            self._ledger.taken_back(split.split_id)
            self.send_split(split, 0, pinned=False)
        for event in events:
            self.send_event(subtask_id % self.settings.parallelism, event)

    def _rest(self, caught_up: list[str], triggered_ms: int) -> None:
        # A restart is a new run: it looks once more at what an earlier run had caught up with.
        if self._restored:
            return
        bounded = self.settings.boundedness is Boundedness.BOUNDED
        until = None if bounded else triggered_ms + self.settings.poll_interval_ms
        self._resting.update(dict.fromkeys(caught_up, until))

    def _snapshot(self, metadata: CheckpointMetadata, plan: Plan[SplitT]) -> Snapshot[SplitT]:
        state = self.enumerator.snapshot_state(metadata.checkpoint_id)
        gateways = self._gateways.values()
        ledger = self._ledger.state(
            waiting=tuple(
                WaitingSplit(split=item.split, subtask_id=gateway.subtask_id if item.pinned else None)
                for gateway in gateways
                for item in gateway.waiting()
            ),
            events=tuple(
                WaitingEvent(event=event, subtask_id=gateway.subtask_id)
                for gateway in gateways
                for event in gateway.waiting_events()
            ),
        )
        return Snapshot(
            metadata=metadata,
            enumerator_state=state,
            ledger=ledger,
            plan=plan,
            actions=self._actions.pending,
        )

    def _summary(self, budget: BatchBudget, ledger: LedgerState[SplitT]) -> CheckpointSummary:
        return CheckpointSummary(
            splits=budget.splits,
            files=budget.files,
            rows=budget.rows,
            bytes=budget.bytes,
            live_splits=len(ledger.live),
            finished_splits=ledger.finished,
            waiting_splits=len(ledger.waiting),
            quarantined_splits=len(ledger.quarantined),
            ignored_splits=ledger.ignored_count,
            gauges=dict(self._context.metrics.gauges),
        )
