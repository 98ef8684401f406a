"""Cycle: what happens between two batches, in this order.

1. complete: the reports of the last batch are processed, once, and the enumerator is notified (R4, R7)
2. edit: waiting edits change the state
3. act: side effects that are due start, if this driver still drives; none of a state that was just edited
4. discover: results of asynchronous work reach their handlers
5. plan: the next batch is planned and frozen (R3)
6. write: the checkpoint is durable before Spark gets its offset (R2)

``coordination`` decides what each step does, and ``snapshots`` stores it. Here is only decided which
checkpoint the coordinator has reached (R7, R8). Flink: OperatorCoordinatorHolder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..access_errors import may_pass
from ..coordination.batch_limits import Limits
from ..coordination.batch_sizing import waited_for_trigger
from ..coordination.checkpoints import PendingCheckpoint, Snapshot
from ..coordination.context import CoordinatorSettings
from ..coordination.coordinator import SourceCoordinator
from ..enumerator_context import Boundedness, RetryPolicy
from ..enumerator_mixins import PerformsActions
from ..errors import ProtocolError, StateLocationError
from ..file_systems.secrets_in_texts import Hidden
from ..log import LOG
from ..snapshots.checkpoint_files import CheckpointStorage
from ..snapshots.driver_epochs import RENEWED_EVERY_MS
from ..snapshots.file_names import CheckpointName
from ..snapshots.offsets import INITIAL_OFFSET, Offset
from ..source import Source
from ..source_options import REQUEST_INTERVAL, SAVEPOINT
from ..spans import add_to_current
from .background import ActionRunner, BackgroundRunner
from .background_cleaner import BackgroundCleaner
from .batch_traces import BatchTraces
from .checkpoint_log_lines import CheckpointLogLines
from .driving import Driving
from .environment import Environment
from .horizons import Horizons
from .reports import SubtaskReports
from .requests import Requests
from .restored_state import RestoredSavepoint, StateRestorer


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A coordinator, from the state that it was created with to its end, and the threads that work for it."""

    coordinator: SourceCoordinator[Any]
    runner: BackgroundRunner
    actions: ActionRunner

    def end(self) -> None:
        """Start no further work, and close the enumerator."""
        self.runner.close()
        self.actions.close()
        self.coordinator.close()


@dataclass(eq=False, repr=False)
class Cycle:
    """The cycles of one source in one run of a query.

    Attributes:
        at: the offset of the newest checkpoint of the coordinator.
        run: the coordinator; None before the first cycle, and after an error.
        requests: edits and savepoints that wait.
        driving: whether this process drives the lineage.
        traces: the spans of the batches.
    """

    _source: Source
    _settings: CoordinatorSettings
    _storage: CheckpointStorage
    _restorer: StateRestorer
    _reports: SubtaskReports | None
    requests: Requests
    driving: Driving
    _cleaner: BackgroundCleaner
    _environment: Environment
    _hidden: Hidden
    traces: BatchTraces
    _checkpoint_log: CheckpointLogLines = field(init=False)
    _limits: Limits = field(init=False)
    _savepoint: RestoredSavepoint | None = field(default=None, init=False)
    _watch: BackgroundRunner | None = field(default=None, init=False)
    # Whether it has claimed the lineage only to have its newest batch repeated.
    _repeats: bool = field(default=False, init=False)
    # When the trigger came that this call serves, and that of the newest batch: steady, and since the epoch.
    _trigger_ms: tuple[int, int] = field(default=(0, 0), init=False)
    _batch_began_ms: tuple[int, int] | None = field(default=None, init=False)
    _horizons: Horizons | None = field(default=None, init=False)
    _restored: dict[str, int] = field(default_factory=dict, init=False)
    at: Offset = field(default=INITIAL_OFFSET, init=False)
    run: Run | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._checkpoint_log = CheckpointLogLines(self._source.uid, self.driving, self._environment)
        self._limits = Limits.of(self._source.options)

    def next(self, start: Offset, limits: Limits | None) -> Offset | None:
        """One cycle, after the batch that ends at ``start`` was committed; None if there is nothing new."""
        self._trigger_ms = (self._environment.steady_ms(), self._environment.now_ms())
        with self.whole_or_not_at_all():
            end = self._next(start, limits)
            while self.requests.was_withdrawn():
                LOG.warning("checkpoint %d is made again: an edit in it was withdrawn", self.at.checkpoint_id)
                end = self._next(start, limits)
            return end

    def _next(self, start: Offset, limits: Limits | None) -> Offset | None:
        self.reach(start)
        self.complete(start)
        before = self._edit()
        if before is None:
            # The checkpoint of an edit may not come about: until it is complete, no side effect of it starts.
            self._act()
        try:
            pending = self._plan(limits)
        except Exception as error:
            if before is None or may_pass(error):
                raise
            pending = self._plan_without_edits(before, error, limits)
        if pending is None:
            self.traces.planned_nothing()
        end = None if pending is None else self._write(pending, start)
        if self._horizons is not None:
            self._horizons.planned(pending, self.at.lineage)
        if end is None and self._settings.boundedness is Boundedness.BOUNDED:
            # The run ends now: short runs would never perform the actions of the batches before them.
            self._current.actions.wait()
        return end

    @contextmanager
    def whole_or_not_at_all(self) -> Iterator[None]:
        """Discard the coordinator if the block fails half-way; the next call restores it from its offset."""
        try:
            yield
        except BaseException:
            self.end()
            raise

    def reach(self, offset: Offset) -> SourceCoordinator[Any]:
        """The coordinator at an offset; it is created, or reset (R8), if necessary."""
        if self.run is not None and offset == self.at:
            return self.run.coordinator
        if self.run is not None:
            LOG.warning(
                "source %s goes back from checkpoint %d to %d",
                self._source.uid, self.at.checkpoint_id, offset.checkpoint_id,
            )  # fmt: skip
            self.run.coordinator.enumerator.notify_checkpoint_aborted(self.at.checkpoint_id)
        self.end()
        is_from_savepoint = offset.is_initial and self._source.options.is_set(SAVEPOINT)
        with self.traces.restoring(offset, savepoint=is_from_savepoint):
            return self._restore(offset)

    def _restore(self, offset: Offset) -> SourceCoordinator[Any]:
        self.driving.check()
        begun_ms = self._environment.steady_ms()
        self._savepoint = None
        if offset.is_initial:
            self._savepoint = self._restorer.savepoint()
            state = None if self._savepoint is None else self._savepoint.snapshot
        else:
            state = self._restorer.restored(offset)
        self._restorer.take_over(offset)
        self.requests.restored_at(offset, None if state is None else state.metadata)
        self._watch_requests()
        self.at = offset
        if not self._settings.one_batch:
            self._horizons = Horizons.of(self._source, self._environment, self._horizons)
        coordinator = self._begin(state)
        if self._savepoint is not None:
            self._savepoint.complete(coordinator)
        if state is not None:
            size = self._storage.newest_bytes if self._savepoint is None else self._savepoint.stored_bytes
            self._restored = {"restoreMs": self._environment.steady_ms() - begun_ms, "restoreBytes": size}
            add_to_current(state_bytes=size)
        return coordinator

    @property
    def numbers(self) -> dict[str, int]:
        """What this run's restore and its newest checkpoint took, for progress events."""
        size = self._storage.newest_bytes
        known = {"checkpointBytes": size} if size else {}
        return self._checkpoint_log.numbers | self._restored | known

    def repeat(self, offset: Offset) -> None:
        """Spark repeats a batch after a restart, maybe for hours: show others that this driver is alive."""
        if self.run is not None or self._repeats:
            return
        try:
            self._repeats = self._restorer.claim(offset)
            if self._repeats:
                if self._source.options[REQUEST_INTERVAL] > 0:
                    self._watch = self._environment.new_runner()
                    self._watch.repeat(self.driving.renew, RENEWED_EVERY_MS / 1000)
                self.driving.forget_claims()
        except StateLocationError as error:  # the batch does not need it
            LOG.warning("this driver could not record that it is alive: %s", error)

    def has_planned(self, offset: Offset) -> bool:
        """Whether this run has planned the batch that ends at an offset, which is its newest."""
        return self.run is not None and offset == self.at and not self.run.coordinator.is_restored

    def complete(self, offset: Offset) -> None:
        """The commit log contains the batch of ``offset``: process its reports, once."""
        if self.run is None or offset != self.at:
            return
        coordinator, pending = self.run.coordinator, self.run.coordinator.pending
        if pending is None or pending.checkpoint_id != offset.checkpoint_id:
            return
        with self.traces.committing(offset):
            if self._reports is not None:
                self._reports.collect(coordinator, pending, offset)
            self._measure(coordinator)
            coordinator.complete(offset.checkpoint_id)
            self.driving.completed(offset)
            self.requests.completed(pending.snapshot.metadata, offset)

    def _measure(self, coordinator: SourceCoordinator[Any]) -> None:
        """Tell the coordinator how long the complete batch took, if it was planned in this run."""
        began, self._batch_began_ms = self._batch_began_ms, None
        if began is not None:
            steady_ms, now_ms = began
            coordinator.batch_took(
                self._environment.steady_ms() - steady_ms,
                waited=waited_for_trigger(now_ms, self._environment.now_ms()),
            )

    def end(self) -> None:
        """Discard the coordinator, and take no requests any more."""
        watch, self._watch, self._repeats = self._watch, None, False
        if watch is not None:
            watch.close()
        if self._horizons is not None:
            self._horizons.close()
        self._end_run()

    def _end_run(self) -> None:
        run, self.run = self.run, None
        self._batch_began_ms = None
        if run is not None:
            run.end()

    def _watch_requests(self) -> None:
        """Look for requests in the background, and tell those who send some that this driver is alive."""
        interval_s = self._source.options[REQUEST_INTERVAL]
        if self.requests.are_taken and interval_s > 0:
            self._watch = self._environment.new_runner()
            self._watch.submit(self.requests.poll, self.requests.found, interval_s, RetryPolicy())
            self._watch.repeat(self.driving.renew, RENEWED_EVERY_MS / 1000)

    def _begin(self, state: Snapshot[Any] | None) -> SourceCoordinator[Any]:
        self._end_run()
        runner = self._environment.new_runner()
        try:
            watched = self._checkpoint_log.watched(runner, self._hidden)
            bounds = () if self._horizons is None else self._horizons.all
            coordinator = SourceCoordinator(
                self._source.enumerator_type, self._settings, watched, state, horizons=bounds
            )
        except BaseException:
            runner.close()
            raise
        perform = self._hidden.in_errors(_performing(coordinator.enumerator, self.driving))
        actions = self._environment.new_actions(self.traces.performing(perform))
        self.run = Run(coordinator=coordinator, runner=runner, actions=actions)
        coordinator.start()
        return coordinator

    def _edit(self) -> Snapshot[Any] | None:
        """Apply waiting edits; return the state before them, None if there are none."""
        run = self.run
        if self._watch is not None:
            self._watch.drain(lambda handler, result, error: handler(result, error))
        if run is None or not self.requests.has_edits():
            return None
        # No action starts before the edits: they may cause its data to be read again.
        for number, error in run.actions.end():
            run.coordinator.action_ended(number, error)
        before = run.coordinator.standing(self._environment.now_ms())
        self._end_run()
        try:
            self._continue_from(self.requests.apply_edits(before, self._state_after))
        except Exception as error:
            if may_pass(error):
                raise
            self.requests.refuse_edits(error)
            self._continue_from(before)
        return before

    def _plan_without_edits(
        self, before: Snapshot[Any], error: Exception, limits: Limits | None
    ) -> PendingCheckpoint[Any] | None:
        """Refuse edits that the query cannot continue from, and go on from the state before them.

        If the query cannot continue from that state either, the edits wait: they may be some of the repairs
        that it needs. What is raised then is the error that is left after them.
        """
        self.requests.refuse_edits(error)
        self._continue_from(before)
        try:
            return self._plan(limits)
        except Exception as without:
            if may_pass(without):
                raise
            LOG.error("the query cannot continue without these edits either: they wait for its next start")
            raise error from without

    def _continue_from(self, between: Snapshot[Any]) -> None:
        """Continue from a state between two batches, which has no plan: its checkpoint is complete."""
        coordinator = self._begin(between)
        coordinator.complete(coordinator.last_checkpoint_id, quietly=True)

    @property
    def _current(self) -> Run:
        if self.run is None:
            raise ProtocolError("there is no coordinator to plan with")
        return self.run

    def _act(self) -> None:
        """Start the side effects that are due, and record those that have ended."""
        run = self._current
        due = run.coordinator.due_actions(self._environment.now_ms())
        if due:
            # The state of a driver that has taken over may no longer contain these actions.
            self.driving.check()
            self.traces.acting(len(due))
            run.actions.submit(due)
        for number, error in run.actions.drain():
            run.coordinator.action_ended(number, error)

    def _plan(self, limits: Limits | None) -> PendingCheckpoint[Any] | None:
        """Discover and plan; a run that reads all that exists waits for the first rounds of discovery."""
        run = self._current
        bounds = None if limits is None else limits.tightened_by(self._limits)
        if limits is None:
            run.runner.wait_for_first_rounds()
        horizons = self._horizons
        while True:
            if horizons is not None:
                horizons.before_planning(self.at.lineage)
            checkpoint_id = run.coordinator.last_checkpoint_id + 1
            with self._checkpoint_log.planning(), self.traces.planning(checkpoint_id):
                run.runner.drain(run.coordinator.handle_result)
                pending = run.coordinator.checkpoint(
                    self.requests.next_checkpoint(checkpoint_id),
                    bounds,
                    self._environment.steady_ms(),
                    is_first=self._savepoint is not None and self.at.is_initial,
                    is_discovering=lambda: run.runner.in_first_rounds,
                )
            # A handler or the plan may have submitted more work, whose first round is waited for too.
            if pending is not None or not run.runner.in_first_rounds:
                return pending
            run.runner.wait_for_first_rounds()

    def _write(self, pending: PendingCheckpoint[Any], parent: Offset) -> Offset:
        self.driving.check()
        savepoint = self._savepoint if parent.is_initial else None
        with self._checkpoint_log.writing(pending):
            with self.traces.writing(pending):
                self.at = self._storage.write(
                    pending,
                    parent=parent,
                    restored_from=None if savepoint is None else savepoint.savepoint.name,
                    epoch=self.driving.epoch,
                )
                add_to_current(state_bytes=self._storage.newest_bytes or None)
                with self._storage.forgotten_if_failing(None if parent.lineage else self.at.lineage):
                    if savepoint is not None and not self._settings.one_batch:
                        savepoint.first_written(self.at, self._storage.store)
                    self.driving.wrote_first(self.at)
                self._batch_began_ms = self._trigger_ms
                self.requests.written(self.at)
            self.traces.written(self.at)
        return self.at

    def _state_after(self, name: CheckpointName) -> Snapshot[Any]:
        """The state after the batch of an older checkpoint on this line, with its reports.

        The enumerator is not notified of the completion.

        Raises:
            MissingStateError, MissingReportError: the checkpoint no longer exists, or is not complete.
        """
        self._cleaner.wait()
        offset = Offset(checkpoint_id=name.checkpoint_id, lineage=self.at.lineage, name=name)
        no_work = BackgroundRunner()
        no_work.close()
        older = SourceCoordinator(
            self._source.enumerator_type,
            self._settings,
            no_work,
            self._storage.restore(offset, with_plan=True),
        )
        older.start()
        try:
            if self._reports is not None and older.pending is not None:
                self._reports.collect(older, older.pending, offset)
            older.complete(offset.checkpoint_id, quietly=True)
            return older.standing(self._environment.now_ms())
        finally:
            older.close()


def _performing(enumerator: Any, driving: Driving) -> Callable[[Any], None]:
    """A function that performs actions on threads: never once another driver has taken over (R9)."""

    def perform(action: Any) -> None:
        if not isinstance(enumerator, PerformsActions):
            raise ProtocolError("the enumerator does not perform actions")
        driving.check_lately()
        enumerator.perform(action)

    return perform
