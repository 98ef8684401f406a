"""SourceCoordinator: drives one enumerator through checkpoints (FLIP-27, OperatorCoordinator).

Facts in, decisions out: callers report that asynchronous work ended, or that a checkpoint is triggered,
acknowledged or complete; the coordinator returns values that the caller makes durable. It does no I/O,
has no clock, starts no thread, and is called from one thread only. A reset (rules R7, R8) creates a new
instance from a snapshot, as in Flink's RecreateOnResetOperatorCoordinator.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from typing import Any, Generic

from ..enumerator import Backlog, BoundedRange, Budget, SplitEnumerator
from ..enumerator_context import Boundedness
from ..enumerator_mixins import PerformsActions
from ..errors import ContractError, ProtocolError
from ..events import SourceEvent
from ..split import SplitT, size_of
from ..values.stored_values import stored_actions
from .actions import PendingActions
from .backlog_numbers import backlog_numbers
from .batch import Batch
from .checkpoint_states import CheckpointCall, CheckpointState, transition
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
from .delayed_actions import DelayedActions
from .gateway import SubtaskGateway
from .ledger import Ledger
from .outbox import Outbox
from .packing import BatchBudget, Limits, Plan
from .report_delivery import ReportDelivery
from .shares import fair_ranges
from .subtask_reports import AcknowledgeResult, SubtaskReport

_log = logging.getLogger("flip27_source")

_CALL_OF = {
    AcknowledgeResult.SUCCESS: CheckpointCall.ACKNOWLEDGE,
    AcknowledgeResult.DUPLICATE: CheckpointCall.ACKNOWLEDGE_AGAIN,
    AcknowledgeResult.UNKNOWN: CheckpointCall.ACKNOWLEDGE_UNKNOWN,
    AcknowledgeResult.DISCARDED: CheckpointCall.ACKNOWLEDGE_OTHER,
}


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
        # Splits that any subtask may read and that are in no plan yet.
        self._free: Outbox[SplitT] = Outbox()
        # Non-empty outboxes, by subtask (None: the free splits), in the order of their turns, so that a
        # split request need not check all outboxes.
        self._ready: dict[int | None, None] = {}
        self._ledger = Ledger(None if restored is None else restored.ledger)
        self._actions = _pending_actions(enumerator_type, settings, restored)
        # When splits are read again whose reader had caught up; None: not in this run.
        self._resting: dict[str, int | None] = {}
        self._context = CoordinatorContext(self, runner, enumerator_type)
        self._cuts_splits = enumerator_type.bound_split is not SplitEnumerator.bound_split
        self._divides_ranges = enumerator_type.divide_ranges is not SplitEnumerator.divide_ranges
        if self._cuts_splits and settings.reader_bounds_splits:
            raise ContractError(
                f"{enumerator_type.__qualname__} bounds splits with bound_split, and "
                f"{settings.reader_type.__qualname__} bounds them with Progress",
                remedy="let only one of the two bound the splits",
            )
        # Restoring N implies that its batch is complete (R7): it stays pending until the caller completes it.
        self._pending: PendingCheckpoint[SplitT] | None = None
        self._restored = restored is not None
        self._delay_is_unsaved = False
        state = None
        if restored is not None:
            state = restored.enumerator_state
            self._restore(restored)
        self.enumerator = enumerator_type(self._context, settings.options, state)
        self._started = False
        self._completing: int | None = None
        self._backlog: Backlog | None = None

    @property
    def last_checkpoint_id(self) -> int:
        """Id of the newest checkpoint, pending or complete."""
        return self._last_id

    @property
    def pending(self) -> PendingCheckpoint[SplitT] | None:
        """The checkpoint that is frozen and not known to be complete; None if there is none."""
        return self._pending

    @property
    def gauges(self) -> dict[str, int | float | str]:
        """The numbers that the enumerator publishes, and our own of what went wrong."""
        self._settle_losses()
        own = {
            "quarantinedSplits": len(self._ledger.quarantined),
            "ignoredSplits": self._ledger.ignored_count,
            "dataLosses": self._ledger.losses.count,
            "actionsGivenUp": self._actions.given_up,
            "delayedActions": self._actions.delayed_count,
        }
        known = {name: value for name, value in own.items() if value}
        if self._backlog is None:
            self._backlog = self._waiting_backlog(self._waiting_splits())
        return {**self._context.metrics.gauges, **known, **backlog_numbers(self._backlog)}

    def start(self) -> None:
        """Start the enumerator and register the subtasks as its readers."""
        if self._started:
            raise ProtocolError("the coordinator was started twice")
        self._started = True
        self.enumerator.start()
        for subtask_id in self._gateways:
            self.enumerator.add_reader(subtask_id)

    def handle_result(self, handler: Handler, result: Any, error: BaseException | None) -> None:
        """Asynchronous work ended: pass its outcome to its handler."""
        self._check_started()
        self._backlog = None
        handler(result, error)

    def checkpoint(self, metadata: CheckpointMetadata, limits: Limits) -> PendingCheckpoint[SplitT] | None:
        """Trigger, plan and freeze a checkpoint; None if no checkpoint is needed.

        The plan contains the splits and events in the gateways, ranges of live splits, and the
        enumerator's answers to split requests, until a limit is reached. On return the gateways are
        closed: later splits and events go to the batch after this one.
        """
        self._check_started()
        is_next = metadata.checkpoint_id == self._last_id + 1
        self._check_call(
            CheckpointCall.TRIGGER if is_next else CheckpointCall.TRIGGER_OTHER, metadata.checkpoint_id
        )
        batch = Batch[SplitT](BatchBudget(limits))
        self._drain(batch)
        self._request_splits(batch)
        self._read_on(batch, metadata.timestamp_ms)
        wanted = metadata.edits or metadata.is_savepoint or self._delay_is_unsaved
        wanted = wanted or self.enumerator.wants_checkpoint()
        if not batch and not wanted:
            return None
        for gateway in self._gateways.values():
            gateway.mark_for_checkpoint(metadata.checkpoint_id)
        plan = batch.plan(
            parallelism=self.settings.parallelism,
            max_partition_bytes=self.settings.max_partition_bytes,
            reports=self.settings.reports,
            # A slow page or partition must not delay the others.
            each_apart=self._cuts_splits or self.settings.reader_bounds_splits,
            names_only=self.settings.reader_type.reads_later,
        )
        self._ledger.planned(metadata.checkpoint_id, batch.owners)
        snapshot = self._snapshot(metadata, plan)
        self._delay_is_unsaved = False
        for gateway in self._gateways.values():
            gateway.try_close(metadata.checkpoint_id)
        self._last_id = metadata.checkpoint_id
        summary = self._summary(batch.budget, snapshot.ledger)
        self._pending = PendingCheckpoint(snapshot=snapshot, summary=summary)
        return self._pending

    def standing(self) -> Snapshot[SplitT]:
        """The complete state between two batches, to which edits are applied."""
        self._check_started()
        self._check_call(CheckpointCall.STAND, self._last_id)
        return self._snapshot(CheckpointMetadata(checkpoint_id=self._last_id, timestamp_ms=0), Plan())

    def acknowledge(self, report: SubtaskReport[SplitT]) -> AcknowledgeResult:
        """A subtask has reported: open its gateway, and keep its report until the completion (R4)."""
        self._check_started()
        result, pending = AcknowledgeResult.DISCARDED, self._pending
        if pending is not None:
            result, pending = pending.acknowledged(report)
        self._check_call(_CALL_OF[result], report.checkpoint_id)
        self._pending = pending
        if result is AcknowledgeResult.SUCCESS:
            self._open(report.subtask_id, report.checkpoint_id)
        return result

    def repeat(self, subtask_id: int) -> None:
        """A required report is missing, and by policy the subtask's splits are read again (R6)."""
        self._check_call(CheckpointCall.REPEAT, self._last_id)
        if self._cuts_splits:
            raise ContractError(
                f"subtask {subtask_id} has written no report, and ranges from bound_split cannot be read "
                "again",
                remedy="set onMissingReport=fail and read every batch to its end",
            )
        assert self._pending is not None
        self._pending = self._pending.repeated(subtask_id)

    def complete(self, checkpoint_id: int, *, quietly: bool = False) -> CompletedCheckpoint[SplitT] | None:
        """The commit log contains the batch of ``checkpoint_id``. Idempotent (R7).

        Processes the reports, once and in order (R4), notifies the enumerator, and returns the due
        actions. ``quietly``: for a restored savepoint, which commits nothing (I12): the enumerator
        gets returned splits and events, and is not notified of the completion.

        Returns:
            The checkpoint if this call completed it; None if there was nothing to complete.
        """
        self._check_started()
        pending = self._pending
        call = self._completion_of(checkpoint_id)
        self._check_call(call, checkpoint_id)
        if pending is None or call is not CheckpointCall.COMPLETE:
            return None
        self._pending = None
        self._completing = checkpoint_id
        folding = ReportDelivery(pending, self._ledger, self.enumerator, self.settings)
        folding.fold_splits(resend=self._resend, cuts_splits=self._cuts_splits)
        self._rest(folding.caught_up, pending.snapshot.metadata.timestamp_ms)
        for loss in (loss for report in folding.reports for loss in report.losses):
            self._ledger.losses.add(loss)
        self._ledger.completed(checkpoint_id)
        for subtask_id in self._gateways:
            self._open(subtask_id, checkpoint_id)
        folding.tell(quietly=quietly)
        self._completing = None
        # Otherwise the delay would begin anew with every restart that finds nothing to read.
        self._delay_is_unsaved = self._restored and self._actions.has_unsaved_delays
        self._restored = False
        return CompletedCheckpoint(
            checkpoint_id=checkpoint_id,
            reports=folding.reports,
            due_actions=tuple(self._actions.take_due(checkpoint_id)),
        )

    def action_ended(self, number: int, error: str | None) -> None:
        """An action of a completed checkpoint has succeeded (error None) or failed."""
        self._actions.ended(number, error)

    def delayed_actions(self, now_ms: int) -> list[tuple[int, Any]]:
        """Delayed actions that are due now, each with its number for :meth:`action_ended`.

        Call it after every completion: actions that were delayed since the last call wait from ``now_ms`` on.
        """
        self._check_started()
        return self._actions.take_delayed(now_ms)

    def close(self) -> None:
        """End the run."""
        self.enumerator.close()

    def send_split(self, split: SplitT, subtask_id: int | None) -> None:
        """Send a split to a subtask; None: to any subtask, which planning chooses."""
        self._ledger.assigned(split)
        if subtask_id is None:
            # No gateway is needed: nothing is planned before the pending checkpoint is complete.
            self._free.add(split, is_held=False)
            self._ready.setdefault(None)
        else:
            self._gateways[subtask_id].send_split(split)
            self._sent_to(subtask_id)

    def send_event(self, subtask_id: int, event: SourceEvent) -> None:
        """Send an event to a subtask."""
        self._gateways[subtask_id].send_event(event)
        self._sent_to(subtask_id)

    def add_action(self, action: Any, *, delayed: bool) -> None:
        """Add an action that is due once the present state is durable and complete.

        Raises:
            ContractError: the action is delayed, and no checkpoint is being completed.
        """
        if not delayed:
            self._actions.add(action, self._last_id + 1 if self._completing is None else self._completing)
        elif self._completing is not None:
            self._actions.add_delayed(action, self._completing)
        else:
            raise ContractError(
                f"{type(self.enumerator).__qualname__} has asked for a delayed action, and no checkpoint is "
                "being completed",
                remedy="call perform_after_completion(action, delayed=True) only in notify_splits_finished, "
                "notify_checkpoint_complete or handle_source_event",
            )

    def report_data_loss(self, what: str, split_id: str | None) -> None:
        """Data was gone before it was read. May be called from any thread."""
        self._ledger.losses.report(what, split_id)

    def _settle_losses(self) -> None:
        for loss in self._ledger.losses.settle(self._last_id + 1):
            _log.warning("data was lost before it was read: %s", loss)

    def _sent_to(self, subtask_id: int) -> None:
        if len(self._gateways[subtask_id]):
            self._ready.setdefault(subtask_id)

    def _open(self, subtask_id: int, checkpoint_id: int) -> None:
        # A large batch may have more subtasks than gateways; nothing is sent to the additional ones.
        gateway = self._gateways.get(subtask_id)
        if gateway is not None:
            gateway.open_after(checkpoint_id)
            self._sent_to(subtask_id)

    def _completion_of(self, checkpoint_id: int) -> CheckpointCall:
        pending = self._pending
        if checkpoint_id > self._last_id:
            return CheckpointCall.COMPLETE_UNSEEN
        if pending is None or pending.checkpoint_id != checkpoint_id:
            return CheckpointCall.COMPLETE_OTHER
        return CheckpointCall.COMPLETE_EARLY if pending.not_yet_acknowledged else CheckpointCall.COMPLETE

    def _check_call(self, call: CheckpointCall, checkpoint_id: int) -> None:
        """Refuse a call that the state table does not allow."""
        state = CheckpointState.IDLE if self._pending is None else CheckpointState.PENDING
        missing = sorted(self._pending.not_yet_acknowledged) if self._pending else []
        transition(
            state,
            call,
            f"checkpoint {checkpoint_id} (the newest is {self._last_id}"
            + (f"; subtasks {missing} have not acknowledged it)" if missing else ")"),
        )

    def _check_started(self) -> None:
        if not self._started:
            raise ProtocolError("the coordinator was called before it was started")

    def _restore(self, restored: Snapshot[SplitT]) -> None:
        # The restarted query may have fewer subtasks than the earlier run.
        parallelism = self.settings.parallelism
        for waiting in restored.ledger.waiting:
            subtask_id = None if waiting.subtask_id is None else waiting.subtask_id % parallelism
            self.send_split(waiting.split, subtask_id)
        for item in restored.ledger.events:
            self.send_event(item.subtask_id % parallelism, item.event)
        planned = [split.split_id for item in restored.plan.assignments for split in item.splits]
        self._ledger.restores_plan(self._last_id, planned)
        self._pending = PendingCheckpoint(snapshot=restored)

    def _drain(self, batch: Batch[SplitT]) -> int:
        """Move splits that fit from the outboxes to the batch; return their number.

        Outboxes take turns with one split each. An outbox whose split moved goes to the end of the queue, and
        the first split in the queue always fits into an empty batch, so no split waits for ever.
        """
        for subtask_id in self._ready:
            if subtask_id is not None:
                batch.add_events(subtask_id, self._gateways[subtask_id].take_events())
        moved = 0
        waiting = list(self._ready)
        while waiting:
            served = [subtask_id for subtask_id in waiting if self._drain_one(subtask_id, batch)]
            moved += len(served)
            waiting = [subtask_id for subtask_id in served if subtask_id in self._ready]
        return moved

    def _drain_one(self, subtask_id: int | None, batch: Batch[SplitT]) -> bool:
        """Move the first split of an outbox to the batch, if there is one and it fits."""
        outbox = self._outbox(subtask_id)
        split = outbox.peek()
        if split is None:
            # The outbox had only events, which are already in the batch.
            self._ready.pop(subtask_id)
            return False
        if not self._planned(split, subtask_id, batch):
            return False
        outbox.take()
        del self._ready[subtask_id]
        if len(outbox):
            self._ready[subtask_id] = None
        return True

    def _outbox(self, subtask_id: int | None) -> Outbox[SplitT] | SubtaskGateway[SplitT]:
        return self._free if subtask_id is None else self._gateways[subtask_id]

    def _planned(self, split: SplitT, subtask_id: int | None, batch: Batch[SplitT]) -> bool:
        """Add a split to the batch, if it fits; a split that continues from batch to batch becomes live."""
        carries_data = self._cuts_splits and self.enumerator.carries_data(split)
        if (self._cuts_splits or self.settings.reader_bounds_splits) and not carries_data:
            self._ledger.begins(split, subtask_id)
            return True
        size = size_of(split)
        if not batch.budget.fits(size) or (carries_data and not batch.carries(size)):
            return False
        batch.add(split, size, subtask_id, split.split_id)
        return True

    def _read_on(self, batch: Batch[SplitT], now_ms: int) -> None:
        """Add ranges of live splits to the batch, within its limits."""
        live = self._ledger.live
        if self.settings.reader_bounds_splits:
            for split in live:
                self._read_pages(split, batch, now_ms)
            return
        free: list[SplitT] = []
        for split, cut in fair_ranges(self.enumerator.readable(live), batch.budget.left(), self._bounded):
            pinned_to = self._ledger.pin_of(split.split_id)
            for part in self._to_its_end(cut) if self.settings.one_batch else (cut,):
                if pinned_to is None and self._divides_ranges:
                    free.append(part.read)
                else:
                    batch.add(part.read, size_of(part.read), pinned_to, split.split_id)
                self._ledger.moved(split.split_id, part.rest)
        if free:
            self._add_divided(free, batch)

    def _add_divided(self, ranges: list[SplitT], batch: Batch[SplitT]) -> None:
        """Add ranges in the parts that the enumerator cuts them into."""
        division = self.enumerator.divide_ranges(ranges)
        self._context.check_division(ranges, division)
        for part in division.parts:
            batch.add(part, size_of(part), None, part.split_id)
        batch.wants_subtasks(division.subtasks)

    def _read_pages(self, split: SplitT, batch: Batch[SplitT], now_ms: int) -> None:
        """Add a split that the reader bounds to the batch, unless it rests."""
        rests_until = self._resting.get(split.split_id, 0)
        if batch.budget.exhausted or rests_until is None or rests_until > now_ms:
            return
        self._resting.pop(split.split_id, None)
        batch.add(split, size_of(split), self._ledger.pin_of(split.split_id), split.split_id)

    def _bounded(self, split: SplitT, budget: Budget) -> BoundedRange[SplitT] | None:
        cut = self.enumerator.bound_split(split, budget)
        if cut is not None:
            self._context.check_range(split, cut)
        return cut

    def _to_its_end(self, first: BoundedRange[SplitT]) -> Iterator[BoundedRange[SplitT]]:
        """All ranges of a split, because no batch follows this one."""
        cut: BoundedRange[SplitT] | None = first
        while cut is not None:
            yield cut
            cut = None if cut.rest is None else self._bounded(cut.rest, Budget())

    def _request_splits(self, batch: Batch[SplitT]) -> None:
        """Request splits for each subtask in turn, until the budget is used up or no subtask gets one.

        Unbounded splits cost nothing before they are bounded: all of them are requested, so that live
        splits cannot starve those that the enumerator still holds.
        """
        asking = list(self._gateways)
        while asking:
            got_some = []
            for subtask_id in asking:
                if batch.budget.exhausted or self._ready:
                    return
                self.enumerator.handle_split_request(subtask_id)
                if self._drain(batch):
                    got_some.append(subtask_id)
            asking = got_some

    def _resend(self, split: SplitT | None, subtask_id: int, events: tuple[SourceEvent, ...]) -> None:
        """Send the splits and events of a subtask without a report again."""
        if split is not None:
            self._ledger.taken_back(split.split_id)
            self.send_split(split, None)
        for event in events:
            self.send_event(subtask_id % self.settings.parallelism, event)

    def _rest(self, caught_up: list[str], triggered_ms: int) -> None:
        # After a restart, splits that an earlier run had caught up with are read again at once.
        if self._restored:
            return
        bounded = self.settings.boundedness is Boundedness.BOUNDED
        until = None if bounded else triggered_ms + self.settings.poll_interval_ms
        self._resting.update(dict.fromkeys(caught_up, until))

    def _snapshot(self, metadata: CheckpointMetadata, plan: Plan[SplitT]) -> Snapshot[SplitT]:
        state = self.enumerator.snapshot_state(metadata.checkpoint_id)
        self._settle_losses()
        gateways = self._gateways.values()
        ledger = self._ledger.state(
            waiting=self._waiting_splits(),
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
            delayed=self._actions.delayed(),
            action_delay_ms=self._actions.delay_ms,
        )

    def _waiting_splits(self) -> tuple[WaitingSplit[SplitT], ...]:
        return tuple(
            WaitingSplit(split=split, subtask_id=subtask_id)
            # The order of waiting splits restores the order of the queue.
            for subtask_id in dict.fromkeys((*self._ready, *self._gateways))
            for split in self._outbox(subtask_id).waiting()
        )

    def _waiting_backlog(self, waiting: tuple[WaitingSplit[SplitT], ...]) -> Backlog:
        """What is in no batch yet: what the enumerator knows of, and what limits have put off."""
        told = self.enumerator.backlog(self._ledger.live)
        if not isinstance(told, Backlog):
            raise ContractError(
                f"backlog of {type(self.enumerator).__qualname__} returned a {type(told).__name__}",
                remedy="return Backlog(splits=..., rows=..., bytes=..., oldest_event_time=...); rows and "
                "bytes are None where they are not known",
            )
        return told + Backlog.of(size_of(item.split) for item in waiting) if waiting else told

    def _summary(self, budget: BatchBudget, ledger: LedgerState[SplitT]) -> CheckpointSummary:
        self._backlog = self._waiting_backlog(ledger.waiting)
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
            data_losses=ledger.loss_count,
            backlog=self._backlog,
            gauges=dict(self._context.metrics.gauges),
        )


def _pending_actions(
    enumerator_type: type[SplitEnumerator[Any]],
    settings: CoordinatorSettings,
    restored: Snapshot[Any] | None,
) -> PendingActions:
    due, pages = ((), ()) if restored is None else (restored.actions, restored.delayed)
    delay_ms, stored = None, None
    if issubclass(enumerator_type, PerformsActions):
        kind: Any = enumerator_type
        delay_s: float | None = kind.action_delay_s(settings.options)
        delay_ms = None if delay_s is None else round(delay_s * 1000)
        stored = functools.partial(stored_actions, enumerator_type)
    return PendingActions(settings.action_policy, due, delayed=DelayedActions(delay_ms, stored, pages))
