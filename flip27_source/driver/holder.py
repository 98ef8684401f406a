"""CoordinatorHolder: takes Spark's calls and carries out the coordinator's decisions.

One holder lives in the driver-side process of a source for one run of a query. It owns the
coordinator, its background work and its storage. Its only decision is which checkpoint the
coordinator has reached (R7, R8). Flink: OperatorCoordinatorHolder.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from .._version import __version__
from ..coordination.checkpoints import PendingCheckpoint, Snapshot
from ..coordination.coordinator import SourceCoordinator
from ..coordination.edit_effects import Editing
from ..coordination.packing import UNLIMITED, Limits
from ..coordination.subtask_reports import ReportDemand
from ..edits.application import EditApplication
from ..enumerator_context import Boundedness
from ..enumerator_mixins import PerformsActions
from ..errors import CorruptStateError, ProtocolError, StateLocationError
from ..savepoints.requested_savepoints import RequestedSavepoints, savepoint_of
from ..snapshots.checkpoint_files import CheckpointStorage
from ..snapshots.codec import SnapshotCodec
from ..snapshots.driver_epochs import RENEWED_EVERY_MS, DriverEpoch
from ..snapshots.offsets import INITIAL_OFFSET, Offset
from ..snapshots.planned_subtask import PlannedSubtask
from ..snapshots.source_identity import identity_of
from ..snapshots.store import Store
from ..source import Source
from ..source_options import (
    INLINE_STATE_LIMIT,
    REQUEST_INTERVAL,
    RETAINED_CHECKPOINTS,
    STATE_LOCATION,
)
from .action_runner import ActionRunner
from .background import BackgroundRunner
from .background_cleaner import BackgroundCleaner
from .checkpoint_log_lines import CheckpointLogLines
from .demanded_reports import (
    DemandedReports,
    demand_of_tasks,
    demanded_since,
    report_demand,
    report_place,
)
from .environment import Environment
from .requests import Requests
from .restored_state import RestoredSavepoint, check_not_rolled_back, restored_savepoint
from .rewind import state_after
from .settings import limits_of, settings_of

_log = logging.getLogger("flip27_source")


class CoordinatorHolder:
    """Answers latestOffset, partitions and commit for one source in one run."""

    def __init__(
        self,
        source: Source,
        boundedness: Boundedness,
        *,
        store: Store | None = None,
        environment: Environment | None = None,
        one_batch: bool = False,
    ) -> None:
        """``one_batch``: no checkpoint follows the first one, so tasks need not report."""
        self._source = source
        self._one_batch = one_batch
        self._environment = environment or Environment()
        reports = ReportDemand.NONE if one_batch else report_demand(source)
        self._settings = settings_of(
            source, boundedness, reports=reports, one_batch=one_batch, cores=self._environment.cores
        )
        self._checkpoint_log = CheckpointLogLines(source.uid, self._environment.now_ms)
        options = source.options
        location, storage_options = options[STATE_LOCATION], options.with_prefix("storage.")
        if store is None and location is not None:
            store = self._environment.open_store(location, storage_options)
        if store is None and reports is not ReportDemand.NONE:
            raise StateLocationError(
                f"the tasks of source {source.uid} write reports, and option stateLocation is not set",
                remedy='set .option("stateLocation", "<checkpointLocation>/flip27") to a directory that '
                "the driver and the executors can write to",
            )
        codec = SnapshotCodec(source.enumerator_type, source.reader_type)
        self._identity = identity_of(source)
        self._storage = CheckpointStorage(
            codec,
            self._identity,
            store=store,
            inline_limit_bytes=options[INLINE_STATE_LIMIT],
            new_random=self._environment.new_random,
            creates_exclusively=reports is not ReportDemand.NONE,
        )
        self._coordinator: SourceCoordinator[Any] | None = None
        self._runner = self._environment.new_runner()
        self._reports = None if store is None else DemandedReports(source, store, codec)
        self._actions = self._new_actions(None)
        self._epoch: DriverEpoch | None = None
        self._codec = codec
        self._restored_savepoint: RestoredSavepoint | None = None
        self._at = INITIAL_OFFSET
        self._cleaner = BackgroundCleaner(
            self._storage, options[RETAINED_CHECKPOINTS], storage_options, self._environment
        )
        editing = Editing(
            enumerator_type=source.enumerator_type,
            options=options,
            reader_bounds_splits=self._settings.reader_bounds_splits,
        )
        asked_in = None if one_batch else store
        self._requests = Requests(
            asked_in,
            EditApplication(editing, self._storage, codec),
            RequestedSavepoints(
                asked_in, storage_options, self._environment.open_store, self._environment.new_random
            ),
            storage_options,
            self._environment.now_ms,
        )
        self._poll_every_s = 0.0 if asked_in is None else options[REQUEST_INTERVAL]

    def latest_offset(self, start: dict[str, Any], limits: Limits | None) -> dict[str, Any]:
        """Make the next checkpoint after ``start`` durable; return ``start`` itself if there is nothing new.

        Args:
            start: the newest offset in Spark's commit log, or the initial offset.
            limits: additional limits for this batch; None for all available data.
        """
        with self._whole_or_not_at_all():
            offset = self._next_after(self._offset(start), limits)
        return start if offset is None else offset.to_json()

    def plan(self, start: dict[str, Any], end: dict[str, Any]) -> list[PlannedSubtask]:
        """The subtasks of the batch ``(start, end]``; the same at every call (R3)."""
        # While a driver is suspended, another one may advance until Spark's log has dropped this batch and
        # would accept it again.
        self._check_that_it_drives()
        first, last = self._offset(start), self._offset(end)
        return [
            PlannedSubtask(
                library=__version__,
                checkpoint_id=document.checkpoint_id,
                subtask_id=stored.subtask,
                split_version=document.source.split_version,
                splits=segment.data,
                events=tuple(bytes(event) for event in stored.events),
                report=report_place(
                    offset, demand_of_tasks(document.reports, self._settings.reports), stored.subtask
                ),
                savepoint=savepoint_of(offset, document),
            )
            for offset, document in self._storage.plans_between(first, last)
            for stored, segment in document.plan_segments(self._storage.segment_loader(offset, document))
        ]

    def coordinator_at(self, start: dict[str, Any]) -> SourceCoordinator[Any]:
        """The coordinator at an offset; it is created or restored if necessary."""
        with self._whole_or_not_at_all():
            return self._coordinator_at(self._offset(start))

    def wait_for_clean_up(self) -> None:
        """Block until no clean-up is running."""
        self._cleaner.wait()

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's commit log contains ``end``. Spark may call this late, twice, or never."""
        offset = self._offset(end)
        if self._coordinator is not None and offset == self._at:
            with self._whole_or_not_at_all():
                self._complete(self._coordinator, offset)
        self._cleaner.committed(offset)

    def report(self) -> dict[str, Any] | None:
        """The backlog, for Spark's progress events; None before the first checkpoint."""
        if self._coordinator is None:
            return None
        numbers: dict[str, Any] = {**self._coordinator.gauges}
        if self._reports is not None:
            numbers |= self._reports.numbers
        known = dict(sorted(numbers.items()))
        return {**known, "checkpoint": self._at.checkpoint_id, "source": self._source.description}

    def close(self) -> None:
        """End the run: stop background work and close the coordinator."""
        self._put_down()
        if self._epoch is not None:
            self._epoch.end()

    def _next_after(self, start: Offset, limits: Limits | None) -> Offset | None:
        coordinator = self._coordinator_at(start)
        self._complete(coordinator, start)
        delayed = coordinator.delayed_actions(self._environment.now_ms())
        if delayed:
            # The state of a driver that has taken over may no longer contain these actions.
            self._check_that_it_drives()
            self._actions.submit(delayed)
        for number, error in self._actions.drain():
            coordinator.action_ended(number, error)
        bounds = UNLIMITED if limits is None else limits.tightened_by(limits_of(self._source.options))
        if limits is None:
            self._runner.wait_for_first_rounds()
        # Checked before the mailbox is emptied, so that a round that ends in between is not missed.
        while True:
            more_to_come = self._runner.in_first_rounds
            with self._checkpoint_log.planning():
                pending = self._checkpoint(bounds)
            if pending is not None:
                with self._checkpoint_log.writing(pending):
                    return self._written(pending, start)
            # A handler may have submitted more work, whose first round is waited for too.
            if not more_to_come and not self._runner.in_first_rounds:
                return None
            self._runner.wait_for_first_rounds()

    def _checkpoint(self, limits: Limits) -> PendingCheckpoint[Any] | None:
        assert self._coordinator is not None
        self._runner.drain(self._coordinator.handle_result)
        if not self._requests.has_edits():
            return self._triggered(self._coordinator, limits)
        standing = self._stopped(self._coordinator)
        try:
            edited = self._requests.apply_edits(standing, self._state_after)
            return self._triggered(self._resumed(edited), limits)
        except Exception as error:  # noqa: BLE001 - an edit that the query cannot continue from is refused
            self._requests.refuse_edits(error)
            self._start_over()
            return self._triggered(self._resumed(standing), limits)

    def _triggered(
        self, coordinator: SourceCoordinator[Any], limits: Limits
    ) -> PendingCheckpoint[Any] | None:
        metadata = self._requests.next_checkpoint(coordinator.last_checkpoint_id + 1)
        return coordinator.checkpoint(metadata, limits)

    def _stopped(self, coordinator: SourceCoordinator[Any]) -> Snapshot[Any]:
        """Discard the coordinator between two batches, and return its state."""
        # No action starts in the meantime: an edit may cause its data to be read again.
        for number, error in self._actions.end():
            coordinator.action_ended(number, error)
        standing = coordinator.standing()
        self._start_over()
        return standing

    def _resumed(self, state: Snapshot[Any]) -> SourceCoordinator[Any]:
        """Create a coordinator from a state between two batches, as at a restart."""
        made = self._made(state)
        completed = made.complete(made.last_checkpoint_id, quietly=True)
        if completed is not None:
            self._actions.submit(completed.due_actions)
        return made

    def _state_after(self, offset: Offset) -> Snapshot[Any]:
        self._cleaner.wait()
        return state_after(
            offset,
            present=self._at,
            storage=self._storage,
            make=self._new_coordinator,
            reports=self._reports,
        )

    def _written(self, pending: PendingCheckpoint[Any], parent: Offset) -> Offset:
        """Make the checkpoint durable."""
        self._check_that_it_drives()
        restored = self._restored_savepoint if parent.is_initial else None
        savepoint = None if restored is None else restored.savepoint
        restored_from = None if savepoint is None else savepoint.name
        self._at = self._storage.write(pending, parent=parent, restored_from=restored_from)
        if restored is not None and not self._one_batch:
            restored.first_written(self._at, self._storage.store)
        self._drive(self._at)
        self._requests.written(self._at)
        return self._at

    @contextlib.contextmanager
    def _whole_or_not_at_all(self) -> Iterator[None]:
        """Discard the coordinator if the block fails half-way; the next call restores it from its offset."""
        try:
            yield
        except BaseException:
            self._start_over()
            raise

    def _put_down(self) -> None:
        self._runner.close()
        self._actions.close()
        if self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None

    def _start_over(self) -> None:
        self._put_down()
        self._runner = self._environment.new_runner()
        self._actions = self._new_actions(None)

    def _new_actions(self, enumerator: Any) -> ActionRunner:
        """A runner for the actions of one coordinator; its threads do not use this holder."""

        def perform(action: Any) -> None:
            if not isinstance(enumerator, PerformsActions):
                raise ProtocolError("the enumerator does not perform actions")
            enumerator.perform(action)

        return self._environment.new_actions(perform)

    def _complete(self, coordinator: SourceCoordinator[Any], offset: Offset) -> None:
        """The commit log contains the batch of ``offset``: process its reports, once (R4, R7)."""
        pending = coordinator.pending
        if pending is None or pending.checkpoint_id != offset.checkpoint_id:
            return
        if self._reports is not None:
            self._reports.collect(coordinator, pending, offset)
        completed = coordinator.complete(offset.checkpoint_id)
        if completed is not None:
            self._requests.edits_completed()
            self._actions.submit(completed.due_actions)
        self._requests.savepoint_completed(pending.snapshot.metadata, offset)

    def _drive(self, offset: Offset) -> None:
        """Record that this driver drives the lineage of ``offset`` from now on (R9)."""
        store, lineage = self._storage.store, offset.lineage
        if self._one_batch or store is None or lineage is None:
            return
        if self._epoch is None or self._epoch.lineage != lineage:
            if self._epoch is not None:
                self._epoch.end()
            is_renewed = self._poll_every_s > 0
            self._epoch = DriverEpoch(
                store,
                lineage,
                self._environment.now_ms(),
                is_renewed=is_renewed,
                process=self._environment.process,
            )

    def _check_that_it_drives(self) -> None:
        if self._epoch is not None:
            self._epoch.check()

    def _coordinator_at(self, offset: Offset) -> SourceCoordinator[Any]:
        """The coordinator at ``offset``; it is created or reset (R8) if necessary."""
        if self._coordinator is not None and offset == self._at:
            return self._coordinator
        if self._coordinator is not None:
            _log.warning(
                "source %s goes back from checkpoint %d to %d",
                self._source.uid, self._at.checkpoint_id, offset.checkpoint_id,
            )  # fmt: skip
            self._coordinator.enumerator.notify_checkpoint_aborted(self._at.checkpoint_id)
            self._start_over()
        self._drive(offset)
        restored = self._restored(offset)
        self._requests.restored_at(offset, None if restored is None else restored.metadata)
        self._at = offset
        coordinator = self._made(restored)
        if offset.is_initial and self._restored_savepoint is not None:
            self._restored_savepoint.complete(coordinator)
        return coordinator

    def _made(self, state: Snapshot[Any] | None) -> SourceCoordinator[Any]:
        """Create and start a coordinator with this state, and start to check for requests."""
        coordinator = self._new_coordinator(state, self._runner)
        # From here on this enumerator performs the actions of the restored state.
        self._coordinator = coordinator
        self._actions = self._new_actions(coordinator.enumerator)
        coordinator.start()
        self._look_for_requests()
        return coordinator

    def _new_coordinator(
        self, state: Snapshot[Any] | None, runner: BackgroundRunner
    ) -> SourceCoordinator[Any]:
        watched = self._checkpoint_log.watched(runner)
        state = demanded_since(state, self._settings.reports)
        return SourceCoordinator(self._source.enumerator_type, self._settings, watched, state)

    def _look_for_requests(self) -> None:
        if self._poll_every_s > 0:
            self._requests.poll_every(self._poll_every_s, self._runner)
            self._runner.repeat(self._renew_epoch, RENEWED_EVERY_MS / 1000)

    def _renew_epoch(self) -> None:
        epoch = self._epoch
        if epoch is not None:
            epoch.renew(self._environment.now_ms())

    def _restored(self, offset: Offset) -> Snapshot[Any] | None:
        if not offset.is_initial:
            self._check_not_rolled_back(offset)
            reports = self._settings.reports is ReportDemand.REQUIRED
            return self._storage.restore(offset, with_plan=reports or self._wants_finished_splits())
        self._restored_savepoint = restored_savepoint(
            self._source,
            self._identity,
            self._storage,
            self._codec,
            self._environment.open_store,
            one_batch=self._one_batch,
        )
        return None if self._restored_savepoint is None else self._restored_savepoint.snapshot

    def _check_not_rolled_back(self, offset: Offset) -> None:
        try:
            check_not_rolled_back(self._source, self._storage.store, offset)
        except CorruptStateError:
            # If another driver has taken over, it wrote the later checkpoints; nothing was rolled back.
            if self._epoch is not None:
                self._epoch.check()
            raise

    def _wants_finished_splits(self) -> bool:
        return self._source.enumerator_type.wants_finished_splits(self._source.options)

    def _offset(self, value: dict[str, Any]) -> Offset:
        # For an idle stream Spark passes the last offset many times a second.
        if not self._at.is_initial and value == self._at.to_json():
            return self._at
        return Offset.from_json(value)
