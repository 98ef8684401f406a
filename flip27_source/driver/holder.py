"""CoordinatorHolder: answers Spark's calls for one source in one run of a query.

It puts the parts of the coordinator's process together; the work between two batches is done by ``cycle``.
"""

from __future__ import annotations

from typing import Any

from ..contract_version import contract_version
from ..coordination.batch_limits import Limits
from ..coordination.context import CoordinatorSettings
from ..coordination.coordinator import SourceCoordinator
from ..coordination.edit_effects import Editing
from ..coordination.split_rules import SplitRules
from ..coordination.subtask_reports import ReportDemand
from ..enumerator_context import COORDINATORS_NUMBERS, Boundedness
from ..errors import OptionError, StateLocationError
from ..file_systems.secrets_in_texts import Hidden
from ..file_systems.url_credentials import masked
from ..savepoints.requested_savepoints import RequestedSavepoints, savepoint_of
from ..segment import Segment
from ..snapshots.checkpoint_files import CheckpointStorage
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import CheckpointDocument, StoredAssignment
from ..snapshots.driver_epochs import RENEWED_EVERY_MS
from ..snapshots.offsets import Offset
from ..snapshots.planned_subtask import PlannedSubtask
from ..snapshots.source_identity import identity_of
from ..snapshots.store import LocalStore, Store
from ..source import Source
from ..source_options import (
    INLINE_STATE_LIMIT,
    REQUEST_INTERVAL,
    RETAINED_CHECKPOINTS,
    STATE_LOCATION,
    TOLERABLE_FAILED_CHECKPOINTS,
)
from .background_cleaner import BackgroundCleaner
from .batch_traces import BatchTraces
from .cycle import Cycle
from .driving import Driving
from .environment import Environment
from .reports import SubtaskReports, report_demand, report_place
from .requests import Requests
from .restored_state import StateRestorer
from .tolerated_failures import ToleratedFailures

MOST_GAUGES = 100
"""How many gauges of an enumerator progress events and the driver's record have, by name."""


class CoordinatorHolder:
    """Answers latestOffset, partitions and commit.

    Attributes:
        cycle: the coordinator and what it has reached.
    """

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
        environment = environment or Environment()
        options = source.options
        reports = ReportDemand.NONE if one_batch else report_demand(source)
        settings = CoordinatorSettings.of(
            source, boundedness, reports=reports, one_batch=one_batch, cores=environment.cores
        )
        storage_options = options.with_prefix("storage.")
        location = options[STATE_LOCATION]
        if store is None and location is not None:
            store = environment.open_store(location, storage_options)
        if store is None and reports is not ReportDemand.NONE:
            raise StateLocationError(
                f"the tasks of source {source.uid} write reports, and option stateLocation is not set",
                remedy='set .option("stateLocation", "<checkpointLocation>/flip27") to a directory that '
                "the driver and the executors can write to",
            )
        codec = SnapshotCodec(source.enumerator_type, source.reader_type)
        self._source = source
        self._one_batch = one_batch
        self._demand = reports
        self._store = store
        self._storage = CheckpointStorage(
            codec,
            identity_of(source),
            store=store,
            inline_limit_bytes=options[INLINE_STATE_LIMIT],
            new_random=environment.new_random,
            creates_exclusively=reports is not ReportDemand.NONE,
            options=options,
        )
        self._rules: SplitRules[Any] = SplitRules(
            enumerator_type=source.enumerator_type, reader_bounds_splits=settings.reader_bounds_splits
        )
        self._reports = None if store is None else SubtaskReports(source, store, codec)
        shared = None if one_batch else store
        self._environment = environment
        self._told_ms = 0
        self._lineage: str | None = None
        self._driving = Driving(shared, environment, is_renewed=options[REQUEST_INTERVAL] > 0)
        hidden = Hidden(storage_options)
        traces = BatchTraces(source, one_batch=one_batch)
        self._failures = ToleratedFailures(
            options[TOLERABLE_FAILED_CHECKPOINTS], self._driving, environment, hidden, traces
        )
        requests = Requests(
            shared,
            Editing(rules=self._rules, options=options),
            self._storage,
            codec,
            RequestedSavepoints(shared, storage_options, environment.open_store, environment.new_random),
            storage_options,
            environment.now_ms,
            self._driving.check,
        )
        self._cleaner = BackgroundCleaner(
            self._storage, options[RETAINED_CHECKPOINTS], storage_options, environment, self._driving.check
        )
        self.cycle = Cycle(
            source,
            settings,
            self._storage,
            StateRestorer(source, self._storage, codec, self._driving, environment.open_store, one_batch),
            self._reports,
            requests,
            self._driving,
            self._cleaner,
            environment,
            hidden,
            traces,
        )

    def latest_offset(self, start: dict[str, Any], limits: Limits | None) -> dict[str, Any]:
        """Make the next checkpoint after ``start`` durable; return ``start`` itself if there is nothing new.

        Args:
            start: the newest offset in Spark's commit log, or the initial offset.
            limits: additional limits for this batch; None for all available data.
        """
        offset = self._failures.tried(lambda: self.cycle.next(self._offset(start), limits))
        now_ms = self._environment.steady_ms()
        if offset is not None or now_ms - self._told_ms >= RENEWED_EVERY_MS:
            self._told_ms = now_ms
            self._driving.told(self._numbers())
        return start if offset is None else offset.to_json()

    def plan(self, start: dict[str, Any], end: dict[str, Any]) -> list[PlannedSubtask]:
        """The subtasks of the batch ``(start, end]``; the same at every call (R3)."""
        return self._failures.tried(lambda: self._plan(start, end))

    def _plan(self, start: dict[str, Any], end: dict[str, Any]) -> list[PlannedSubtask]:
        # While a driver is suspended, another one may advance until Spark's log has dropped this batch and
        # would accept it again.
        self._driving.check()
        first, last = self._offset(start), self._offset(end)
        plans = [
            (*item, self._checked_plan(*item), self._demanded(*item))
            for item in self._storage.plans_between(first, last)
        ]
        traceparent = None
        if first != last:  # Spark before 4.2 asks so for the position of a restart
            self.cycle.repeat(last)
            traceparent = self.cycle.traces.parent_of_tasks(last)
        return [
            PlannedSubtask(
                contract=contract_version(),
                checkpoint_id=document.checkpoint_id,
                subtask_id=stored.subtask,
                split_version=document.source.split_version,
                splits=segment.data,
                events=tuple(bytes(event) for event in stored.events),
                report=report_place(offset, demand, stored.subtask),
                savepoint=savepoint_of(offset, document),
                state=self._store.location if isinstance(self._store, LocalStore) else None,
                reads_once=self._one_batch,
                traceparent=traceparent,
                document=offset.document,
                epoch=self._driving.epoch,
            )
            for offset, document, assignments, demand in plans
            for stored, segment in assignments
        ]

    def _demanded(self, offset: Offset, document: CheckpointDocument) -> ReportDemand:
        """The reports that the tasks of a batch write."""
        if self._reports is None or self.cycle.has_planned(offset):
            return document.raw.reports
        return self._reports.demand_again(document.raw.reports, offset, self._demand)

    def _checked_plan(
        self, offset: Offset, document: CheckpointDocument
    ) -> list[tuple[StoredAssignment, Segment]]:
        """The plan of a document.

        Raises:
            OptionError: only one of its reader and the present reader bounds splits.
        """
        rules, load = self._rules, self._storage.segment_loader(offset, document)
        is_repeated = not self.cycle.has_planned(offset)
        may_differ = not rules.cuts_splits and (rules.reader_bounds_splits or document.raw.ledger.live)
        if is_repeated and may_differ and document.is_for_pages(load) is (not rules.reader_bounds_splits):
            was = document.source.reader
            raise OptionError(
                f"the batch of checkpoint {offset.checkpoint_id} is repeated, and it was planned with reader "
                f"{was}: only one of that reader and {self._source.reader_name} yields Progress, so they "
                "would not read the same rows",
                remedy=f"set option reader to '{was}' until that batch is complete",
            )
        return document.plan_segments(load)

    def coordinator_at(self, start: dict[str, Any]) -> SourceCoordinator[Any]:
        """The coordinator at an offset; it is created or restored if necessary."""
        with self.cycle.whole_or_not_at_all():
            return self.cycle.reach(self._offset(start))

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's commit log contains ``end``. Spark may call this late, twice, or never."""
        offset = self._offset(end)

        def complete() -> None:
            with self.cycle.whole_or_not_at_all():
                self.cycle.complete(offset)

        # After a failure there is nothing to complete any more: the next batch restores what it needs.
        self._failures.tried(complete)
        self._cleaner.committed(offset)

    def report(self) -> dict[str, Any] | None:
        """The backlog, for Spark's progress events; None before the first checkpoint."""
        if self.cycle.run is None:
            return None
        return {**self._numbers(), "source": self._source.description}

    def _numbers(self) -> dict[str, Any]:
        """The numbers of the source now; none before the first checkpoint."""
        if self.cycle.run is None:
            return {}
        coordinator = self.cycle.run.coordinator
        gauges: dict[str, Any] = coordinator.gauges
        for name in sorted(gauges.keys() - COORDINATORS_NUMBERS)[MOST_GAUGES:]:
            del gauges[name]
        numbers = {**gauges, **self.cycle.numbers, **self._failures.numbers}
        if self._reports is not None:
            numbers |= self._reports.numbers
        if coordinator.parts:
            numbers["parts"] = coordinator.parts
        known = {
            name: masked(value) if isinstance(value, str) else value
            for name, value in sorted(numbers.items())
        }
        return {**known, "checkpoint": self.cycle.at.checkpoint_id}

    def look_for_requests(self) -> None:
        """Look for edits and savepoints now, and not only at the next ``requestInterval``."""
        self.cycle.requests.found(self.cycle.requests.poll(), None)

    def wait_for_clean_up(self) -> None:
        self._cleaner.wait()

    def close(self) -> None:
        """End the run: stop background work and close the coordinator."""
        self.cycle.end()
        self._driving.end(self._failures.error, self._lineage)
        self.cycle.traces.close()

    def _offset(self, value: dict[str, Any]) -> Offset:
        # For an idle stream Spark passes the last offset many times a second.
        at = self.cycle.at
        if not at.is_initial and value == at.to_json():
            return at
        offset = Offset.from_json(value)
        self._lineage = offset.lineage or self._lineage
        return offset
