"""SourceCoordinator: drives one enumerator through checkpoints (FLIP-27, OperatorCoordinator).

Facts in, decisions out: callers report that asynchronous work ended, or that a checkpoint is triggered,
acknowledged or complete; the coordinator returns values that the caller makes durable. It does no I/O,
has no clock, starts no thread, and is called from one thread only. A reset (rules R7, R8) creates a new
instance from a snapshot, as in Flink's RecreateOnResetOperatorCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic

from ..discovery import DiscoveringEnumerator
from ..enumerator import Backlog, SplitEnumerator
from ..enumerator_context import Boundedness
from ..errors import ContractError, ProtocolError
from ..events import SourceEvent
from ..log import LOG
from ..source_options import EVENT_TIME_ORDER
from ..split import SplitT, size_of
from .actions import PendingActions
from .alignment import HELD_MS, Alignment
from .batch_collector import Batch, BatchCollector
from .batch_limits import UNLIMITED, BatchBudget, Limits
from .batch_sizing import BatchSizer
from .checkpoint_states import ACKNOWLEDGEMENTS, CheckpointCall, check_call, completion_of
from .checkpoints import (
    INITIAL_CHECKPOINT_ID,
    CheckpointMetadata,
    CheckpointSummary,
    LedgerState,
    PendingCheckpoint,
    Snapshot,
    WaitingSplit,
)
from .context import AsyncRunner, CoordinatorContext, CoordinatorSettings, Handler
from .delayed_actions import DelayedActions
from .event_time_order import EventTimeOrder
from .horizon import Reach, SetsHorizon
from .ledger import Ledger
from .packing import Plan
from .report_results import ReportResults, notify_enumerator
from .split_rules import SplitRules
from .subtask_reports import AcknowledgeResult, SubtaskReport
from .waiting_queues import WaitingQueues

_MOST_ENDS = 1000
"""How often data may end in one planning; a chain of sources without data has an end for each."""


class SourceCoordinator(Generic[SplitT]):
    """The coordinator of one source in one run of a query.

    Attributes:
        last_checkpoint_id: the newest checkpoint, pending or complete.
        pending: the checkpoint that is frozen and not known to be complete; None if there is none.
        is_restored: whether the pending checkpoint, if there is one, was planned in an earlier run.
    """

    def __init__(
        self,
        enumerator_type: type[SplitEnumerator[SplitT]],
        settings: CoordinatorSettings,
        runner: AsyncRunner,
        restored: Snapshot[SplitT] | None = None,
        *,
        horizons: Sequence[SetsHorizon] = (),
    ) -> None:
        """``horizons``: what bounds batches in event time besides the alignment of the own splits."""
        self.settings = settings
        self.last_checkpoint_id = restored.metadata.checkpoint_id if restored else INITIAL_CHECKPOINT_ID
        self._queues = WaitingQueues[SplitT](settings.parallelism, last_closed=self.last_checkpoint_id)
        self._ledger = Ledger(None if restored is None else restored.ledger)
        due, pages = ((), ()) if restored is None else (restored.actions, restored.delayed)
        delayed = DelayedActions.of(enumerator_type, settings.options, pages)
        self._actions = PendingActions(settings.action_policy, due, delayed=delayed)
        self._context = CoordinatorContext(self, runner, enumerator_type)
        self._rules = SplitRules(
            enumerator_type=enumerator_type, reader_bounds_splits=settings.reader_bounds_splits
        )
        if self._rules.cuts_splits and settings.reader_bounds_splits:
            raise ContractError(
                f"{enumerator_type.__qualname__} bounds splits with bound_split, and "
                f"{settings.reader_type.__qualname__} bounds them with Progress",
                remedy="let only one of the two bound the splits",
            )
        # Restoring N implies that its batch is complete (R7): it stays pending until the caller completes it.
        self.pending: PendingCheckpoint[SplitT] | None = None
        self.is_restored = restored is not None
        self._planned_at_ms = 0
        self._delay_is_unsaved = self._losses_are_unsaved = False
        self._sizer = BatchSizer.of(settings.options, None if restored is None else restored.times)
        self._order = EventTimeOrder.of(settings.options, None if restored is None else restored.event_time)
        state, postponed = None, list[SplitT]()
        if restored is not None:
            state = restored.enumerator_state
            in_order = (
                issubclass(enumerator_type, DiscoveringEnumerator) and settings.options[EVENT_TIME_ORDER]
            )
            postponed = self._restore(restored, in_order=in_order)
        self.enumerator = enumerator_type(self._context, settings.options, state)
        if postponed:
            self.enumerator.add_splits_back(postponed, 0)
        self._horizons = horizons
        self._reached: tuple[int, Reach] | None = None
        self._alignment = Alignment.of(settings.options, self.enumerator, horizons, settings.boundedness)
        self._collector = BatchCollector(
            self.enumerator, self._context, settings, self._queues, self._ledger, self._rules, self._alignment
        )
        self._started = False
        self._completing: int | None = None
        self._drops_actions = False
        # The newest complete checkpoint whose actions have not been taken yet.
        self._completed: int | None = None
        self._backlog: Backlog | None = None

    @property
    def gauges(self) -> dict[str, int | float | str]:
        """The numbers that the enumerator publishes, and the coordinator's own counts and backlog."""
        self._settle_losses()
        own = {
            "quarantinedSplits": len(self._ledger.quarantined),
            "ignoredSplits": self._ledger.ignored_count,
            "dataLosses": self._ledger.losses.count,
            "actionsGivenUp": self._actions.given_up,
            "delayedActions": len(self._actions.delayed),
        }
        known = {name: value for name, value in own.items() if value}
        if self._backlog is None:
            self._backlog = self._waiting_backlog(self._queues.splits())
        progress = None if self._order is None else self._order.told
        of_time = {} if progress is None else progress.numbers()
        horizon = None if self._alignment is None else self._alignment.of_batch
        bounds = {} if horizon is None else horizon.numbers()
        return {**self._published, **known, **self._backlog.numbers(), **of_time, **bounds}

    @property
    def parts(self) -> dict[str, dict[str, int | float]]:
        """The numbers of parts that the enumerator publishes, by name."""
        return self._context.metrics.parts

    @property
    def _published(self) -> dict[str, int | float]:
        numbers: dict[str, int | float] = dict(self._context.metrics.gauges)
        for one in self._horizons:
            numbers |= one.numbers()
        return numbers

    def start(self) -> None:
        if self._started:
            raise ProtocolError("the coordinator was started twice")
        self._started = True
        self._context.moved_on(self._ledger.live)
        self.enumerator.start()
        for subtask_id in range(self.settings.parallelism):
            self.enumerator.add_reader(subtask_id)

    def handle_result(self, handler: Handler, result: Any, error: BaseException | None) -> None:
        self._check_started()
        self._backlog = None
        handler(result, error)
        self._context.moved_on(self._ledger.live)

    def checkpoint(
        self,
        metadata: CheckpointMetadata,
        limits: Limits | None,
        steady_ms: int = 0,
        *,
        is_first: bool = False,
        is_discovering: Callable[[], bool] = lambda: False,
    ) -> PendingCheckpoint[SplitT] | None:
        """Trigger, plan and freeze a checkpoint; None if no checkpoint is needed.

        On return the gateways are closed: later splits and events go to the batch after this one.

        Args:
            limits: of this batch; None for all available data.
            steady_ms: a time in milliseconds that never goes back, unlike that in ``metadata`` (R22).
            is_first: whether it is the first after a savepoint, whose state it stores even if nothing is new.
            is_discovering: whether the caller waits for work and plans again if there is no checkpoint: one
                without data, such as that of an edit, is not made before.

        Raises:
            QuarantineError: more splits are quarantined than ``maxQuarantinedSplits``.
        """
        self._check_started()
        # After edits, which may have emptied the quarantine.
        self._ledger.check_quarantine(max(self.settings.max_quarantined_splits, 0))
        is_next = metadata.checkpoint_id == self.last_checkpoint_id + 1
        self._check_call(
            CheckpointCall.TRIGGER if is_next else CheckpointCall.TRIGGER_OTHER, metadata.checkpoint_id
        )
        sizer = self._sizer
        batch, bounds = self._collect(limits, steady_ms, is_discovering)
        if self._horizons:
            reach = self._reach_after(steady_ms, is_empty=not batch)
            for one in self._horizons:
                one.planned(reach, steady_ms, is_empty=not batch, is_held=self.is_held)
        is_needed = is_first or metadata.edits or metadata.is_savepoint or self._delay_is_unsaved
        self._settle_losses()
        is_needed = is_needed or self._losses_are_unsaved or self.enumerator.wants_checkpoint()
        # With no checkpoint, a run that reads what exists would end.
        is_needed = is_needed or (self.is_held and self.settings.boundedness is Boundedness.BOUNDED)
        if not batch and (not is_needed or is_discovering()):
            return None
        self._queues.mark_for_checkpoint(metadata.checkpoint_id)
        # A slow page or partition must not delay the others.
        each_apart = self._rules.cuts_splits or self._rules.reader_bounds_splits
        plan = batch.plan(self.settings, each_apart=each_apart)
        if self._order is not None:
            waiting = [item.split for item in self._queues.splits()]
            self._order.follow(self.enumerator, batch.splits(), self._ledger.live, waiting, bounds)
        self._ledger.planned(metadata.checkpoint_id, batch.owners)
        snapshot = self._snapshot(metadata, plan)
        self._delay_is_unsaved = self._losses_are_unsaved = False
        self._queues.close(metadata.checkpoint_id)
        self.last_checkpoint_id = metadata.checkpoint_id
        self._planned_at_ms = steady_ms
        self._context.moved_on(snapshot.ledger.live)
        summary = self._summary(batch.budget, snapshot.ledger)
        if sizer is not None:
            sizer.planned(batch.budget, summary.backlog)
        self.pending = PendingCheckpoint(snapshot=snapshot, summary=summary)
        return self.pending

    def _reach_after(self, steady_ms: int, *, is_empty: bool) -> Reach:
        """As :meth:`reach`, after a planning; an idle source is asked many times a second."""
        if is_empty and self.is_held:
            # It has gone nowhere, and its horizons know how far it could get.
            return Reach()
        known = self._reached
        if known is None or not is_empty or steady_ms - known[0] >= HELD_MS:
            self._reached = known = steady_ms, self.reach(steady_ms)
        return known[1]

    def _collect(
        self, limits: Limits | None, steady_ms: int, is_discovering: Callable[[], bool]
    ) -> tuple[Batch[SplitT], Limits]:
        """The next batch and its limits; where the data ends, of what the enumerator goes on with."""
        is_last = limits is None or self.settings.one_batch
        for _ in range(_MOST_ENDS):
            bounds = (limits or UNLIMITED) if self._sizer is None else self._sizer.tighten(limits)
            batch = self._collector.collect(bounds, steady_ms, is_last=is_last)
            if (
                batch
                or self.is_held
                or is_discovering()
                or not self.enumerator.end_of_data(self._ledger.live)
            ):
                return batch, bounds
            if self._sizer is not None:
                self._sizer.begins_anew()
            for split in self._ledger.live:
                self._ledger.ended(split.split_id)
            self._context.moved_on(())
        raise ContractError(
            f"end_of_data of {type(self.enumerator).__qualname__} returned True {_MOST_ENDS} times in a row, "
            "and no split was assigned",
            remedy="return True only if more data may follow, and False at the end of all data",
        )

    def standing(self, now_ms: int) -> Snapshot[SplitT]:
        """The complete state between two batches, to which edits are applied.

        ``now_ms``: as for :meth:`due_actions`.
        """
        self._check_started()
        self._check_call(CheckpointCall.STAND, self.last_checkpoint_id)
        self._actions.delayed.start_waiting(now_ms)
        return self._snapshot(
            CheckpointMetadata(checkpoint_id=self.last_checkpoint_id, timestamp_ms=0), Plan()
        )

    def reach(self, steady_ms: int) -> Reach:
        """How far the source could get in the next batch, with the limits of the newest one.

        Between two batches; it changes nothing. ``steady_ms``: as for :meth:`checkpoint`.
        """
        self._check_started()
        return self._collector.reach(steady_ms)

    @property
    def is_held(self) -> bool:
        """Whether the horizon has kept data out of the newest planning that would have fitted into its batch.

        If nothing else was planned, there is no batch, although data waits.
        """
        return self._alignment is not None and self._alignment.paused > 0

    def batch_took(self, duration_ms: int, *, waited: bool) -> None:
        """The batch that was planned last has ended; batches that size themselves follow it.

        Args:
            duration_ms: from its trigger to the next one, in milliseconds.
            waited: whether the query waited for that trigger, so that the batch took at most this long.
        """
        if self._sizer is not None:
            self._sizer.completed(duration_ms, waited=waited)

    def acknowledge(self, report: SubtaskReport[SplitT]) -> AcknowledgeResult:
        """A subtask has reported: open its gateway, and keep its report until the completion (R4)."""
        self._check_started()
        result, pending = AcknowledgeResult.DISCARDED, self.pending
        if pending is not None:
            result, pending = pending.acknowledged(report)
        self._check_call(ACKNOWLEDGEMENTS[result], report.checkpoint_id)
        self.pending = pending
        if result is AcknowledgeResult.SUCCESS:
            self._queues.open_after(report.checkpoint_id, report.subtask_id)
        return result

    def repeat(self, subtask_id: int) -> None:
        """A required report is missing, and by policy the subtask's splits are read again (R6)."""
        self._check_call(CheckpointCall.REPEAT, self.last_checkpoint_id)
        assert self.pending is not None
        self.pending = self.pending.repeated(subtask_id)

    def complete(self, checkpoint_id: int, *, quietly: bool = False) -> bool:
        """The commit log contains the batch of ``checkpoint_id``. Idempotent (R7).

        Processes the reports, once and in order (R4), and notifies the enumerator. ``quietly``: for a
        restored savepoint, which commits nothing (I12): the enumerator gets finished and returned splits and
        events, is not notified of the completion, and the actions that it adds are dropped.

        Returns:
            Whether this call completed the checkpoint; False if there was nothing to complete.
        """
        self._check_started()
        pending = self.pending
        call = completion_of(pending, checkpoint_id, self.last_checkpoint_id)
        self._check_call(call, checkpoint_id)
        if pending is None or call is not CheckpointCall.COMPLETE:
            return False
        self.pending = self._backlog = None
        self._completing, self._drops_actions = checkpoint_id, quietly
        folded = ReportResults(pending, self._ledger, self._rules).fold()
        # After a restart, splits that an earlier run had caught up with are read again at once.
        if not self.is_restored:
            self._collector.rest(folded.caught_up, self._planned_at_ms)
        parallelism = self.settings.parallelism
        for split in folded.unread:
            self.send_split(split, None)
        for subtask_id, event in folded.unsent:
            self.send_event(subtask_id % parallelism, event)
        for subtask_id in range(parallelism):
            self._queues.open_after(checkpoint_id, subtask_id)
        notify_enumerator(self.enumerator, pending, folded, settings=self.settings, quietly=quietly)
        self._completing, self._drops_actions = None, False
        self._context.moved_on(self._ledger.live)
        self._completed = checkpoint_id
        # Otherwise each restart that finds nothing to read would start the delay again.
        self._delay_is_unsaved = self.is_restored and self._actions.delayed.has_fresh
        self.is_restored = False
        return True

    def due_actions(self, now_ms: int) -> list[tuple[int, Any]]:
        """The actions to perform now, each with its number for :meth:`action_ended`.

        After a completion these are the actions of all complete checkpoints, also those that have failed
        before; at any time, delayed actions whose time has come. Call it after every completion: actions that
        were delayed since the last call wait from ``now_ms`` on, in milliseconds since the epoch.
        """
        self._check_started()
        completed, self._completed = self._completed, None
        due = [] if completed is None else self._actions.take_due(completed)
        return due + self._actions.take_delayed(now_ms)

    def action_ended(self, number: int, error: str | None) -> None:
        """An action of a completed checkpoint has succeeded (error None) or failed."""
        self._actions.ended(number, error)

    def close(self) -> None:
        self.enumerator.close()

    def send_split(self, split: SplitT, subtask_id: int | None) -> None:
        """Send a split to a subtask; None: to any subtask, which planning chooses."""
        self._ledger.assigned(split)
        self._queues.send_split(split, subtask_id)

    def send_event(self, subtask_id: int, event: SourceEvent) -> None:
        self._queues.send_event(subtask_id, event)

    def add_action(self, action: Any, *, delayed: bool) -> None:
        """Add an action that is due once the present state is durable and complete.

        Raises:
            ContractError: the action is delayed, and no checkpoint is being completed.
        """
        if self._drops_actions:
            return
        if not delayed:
            self._actions.add(
                action, self.last_checkpoint_id + 1 if self._completing is None else self._completing
            )
        elif self._completing is not None:
            self._actions.add_delayed(action, self._completing)
        else:
            raise ContractError(
                f"{type(self.enumerator).__qualname__} requested a delayed action while no checkpoint is "
                "being completed",
                remedy="call perform_after_completion(action, delayed=True) only in notify_splits_finished, "
                "notify_checkpoint_complete or handle_source_event",
            )

    def report_data_loss(self, what: str, split_id: str | None) -> None:
        """Report that data was lost before it was read. May be called from any thread."""
        self._ledger.losses.report(what, split_id)

    def _settle_losses(self) -> None:
        for loss in self._ledger.losses.settle(self.last_checkpoint_id + 1):
            LOG.warning("data was lost before it was read: %s", loss)
            self._losses_are_unsaved = True

    def _check_call(self, call: CheckpointCall, checkpoint_id: int) -> None:
        check_call(self.pending, call, checkpoint_id, self.last_checkpoint_id)

    def _check_started(self) -> None:
        if not self._started:
            raise ProtocolError("the coordinator was called before it was started")

    def _restore(self, restored: Snapshot[SplitT], *, in_order: bool) -> list[SplitT]:
        """Restore what waits.

        Args:
            in_order: whether the enumerator hands out splits in event-time order: then those that limits have
                postponed are returned, for it to find their places among the others.
        """
        # The restarted query may have fewer subtasks than the earlier run.
        parallelism = self.settings.parallelism
        postponed = []
        for waiting in restored.ledger.waiting:
            if waiting.subtask_id is not None:
                self.send_split(waiting.split, waiting.subtask_id % parallelism)
            elif in_order:
                postponed.append(waiting.split)
            else:
                self.send_split(waiting.split, None)
        for item in restored.ledger.events:
            self.send_event(item.subtask_id % parallelism, item.event)
        planned = [split.split_id for item in restored.plan.assignments for split in item.splits]
        self._ledger.restores_plan(self.last_checkpoint_id, planned)
        self.pending = PendingCheckpoint(snapshot=restored)
        return postponed

    def _snapshot(self, metadata: CheckpointMetadata, plan: Plan[SplitT]) -> Snapshot[SplitT]:
        state = self.enumerator.snapshot_state(metadata.checkpoint_id)
        self._settle_losses()
        return Snapshot(
            metadata=metadata,
            enumerator_state=state,
            ledger=self._ledger.state(waiting=self._queues.splits(), events=self._queues.events()),
            plan=plan,
            actions=self._actions.pending,
            delayed=self._actions.delayed.stored(),
            action_delay_ms=self._actions.delayed.delay_ms,
            times=None if self._sizer is None else self._sizer.times,
            event_time=None if self._order is None else self._order.told,
            horizon=None if self._alignment is None else self._alignment.of_batch,
        )

    def _waiting_backlog(self, waiting: tuple[WaitingSplit[SplitT], ...]) -> Backlog:
        """The backlog that the enumerator knows of, and the splits that limits have postponed."""
        others: list[SplitT] = []
        for_room = list(self._ledger.live)
        for item in waiting:
            is_whole = self._rules.may_be_whole(item.split) and not self.enumerator.carries_data(item.split)
            (for_room if is_whole else others).append(item.split)
        known = self.enumerator.backlog(for_room)
        if not isinstance(known, Backlog):
            raise ContractError(
                f"backlog of {type(self.enumerator).__qualname__} returned a {type(known).__name__}",
                remedy="return Backlog(splits=..., rows=..., bytes=..., oldest_event_time=...); rows and "
                "bytes are None if they are not known",
            )
        return known + Backlog.of(map(size_of, others)) if others else known

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
            limited_by=budget.limited_by if self._backlog.splits else {},
            sized=None if self._sizer is None else self._sizer.times.decided,
            event_time=None if self._order is None else self._order.told,
            horizon=None if self._alignment is None else self._alignment.of_batch,
            gauges=self._published,
        )
