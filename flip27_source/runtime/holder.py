"""CoordinatorHolder: Spark's calls in, the coordinator's decisions carried out.

One holder lives in the driver-side process of a source for one run of a query. It owns the
coordinator, its background work and its storage, and decides nothing itself but which
checkpoint the coordinator stands at (R7, R8). Flink: OperatorCoordinatorHolder.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._version import __version__
from ..coordination.checkpoints import CheckpointMetadata, PendingCheckpoint
from ..coordination.coordinator import CoordinatorSettings, SourceCoordinator
from ..coordination.planning import UNLIMITED, Limits
from ..enumerator import Boundedness
from ..errors import StateError
from ..snapshots.cleanup import Cleaner
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import SourceIdentity
from ..snapshots.layout import CheckpointName
from ..snapshots.offsets import INITIAL_OFFSET, Offset
from ..snapshots.storage import CheckpointStorage
from ..snapshots.store import Store, open_store
from ..source import Source
from ..source_options import (
    INLINE_STATE_LIMIT,
    MAX_BYTES_PER_TRIGGER,
    MAX_FILES_PER_TRIGGER,
    MAX_PARTITION_BYTES,
    MAX_ROWS_PER_TRIGGER,
    PARALLELISM,
    RETAINED_CHECKPOINTS,
    STATE_LOCATION,
)
from .background import BackgroundRunner
from .subtask import PlannedSubtask

_log = logging.getLogger("flip27_source")

CLEAN_EVERY = 10
"""Checkpoints between two clean-ups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a holder takes from the world; tests hand in their own."""

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    new_random: Callable[[], str] = lambda: secrets.token_hex(8)
    cores: int = os.cpu_count() or 1


class CoordinatorHolder:
    """Answers latestOffset, partitions and commit for one source in one run."""

    def __init__(
        self,
        source: Source,
        boundedness: Boundedness,
        *,
        store: Store | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._source = source
        self._boundedness = boundedness
        self._surroundings = surroundings or Surroundings()
        options = source.options
        location = options[STATE_LOCATION]
        if store is None and location is not None:
            store = open_store(location, options.with_prefix("storage."))
        self._storage = CheckpointStorage(
            SnapshotCodec(source.enumerator_type),
            identity_of(source),
            store=store,
            inline_limit_bytes=options[INLINE_STATE_LIMIT],
            new_random=self._surroundings.new_random,
        )
        self._coordinator: SourceCoordinator[Any] | None = None
        self._runner = BackgroundRunner()
        self._at = INITIAL_OFFSET
        self._cleaner: Cleaner | None = None
        self._cleaning: threading.Thread | None = None
        self._cleaned_at = 0

    def latest_offset(self, start: dict[str, Any], limits: Limits | None) -> dict[str, Any]:
        """The next checkpoint after ``start``, durable; ``start`` itself when nothing is new.

        Args:
            start: the newest offset in Spark's commit log, or the initial one.
            limits: further limits of this batch; None for "all that is available".
        """
        offset = self._offset(start)
        coordinator = self._coordinator_at(offset)
        coordinator.complete(offset.checkpoint_id)
        bounds = UNLIMITED if limits is None else limits.tightened_by(self._own_limits())
        if limits is None:
            self._runner.wait_for_first_rounds()
        # Asked before the mailbox is emptied: a round that ends in between is not overlooked.
        while True:
            more_to_come = self._runner.in_first_rounds
            pending = self._checkpoint(coordinator, bounds)
            if pending is not None:
                return self._written(pending, offset).to_json()
            # A handler may have begun a further call, whose first round counts too.
            if not more_to_come and not self._runner.in_first_rounds:
                return start
            self._runner.wait_for_first_rounds()

    def plan(self, start: dict[str, Any], end: dict[str, Any]) -> list[PlannedSubtask]:
        """What the tasks of the batch ``(start, end]`` read; the same at every call (R3)."""
        first, last = self._offset(start), self._offset(end)
        return [
            PlannedSubtask(
                library=__version__,
                checkpoint_id=document.checkpoint_id,
                subtask_id=subtask_id,
                split_version=document.source.split_version,
                splits=segment.data,
            )
            for offset, document in self._storage.plans_between(first, last)
            for subtask_id, segment in document.plan_segments(self._storage.segment_loader(offset))
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's commit log holds ``end``. May be told late, twice, or never."""
        offset = self._offset(end)
        if self._coordinator is not None and offset == self._at:
            self._coordinator.complete(offset.checkpoint_id)
        self._clean(offset)

    def report(self) -> dict[str, Any] | None:
        """The backlog, for Spark's progress events; None before the first checkpoint."""
        if self._coordinator is None:
            return None
        gauges = self._coordinator.gauges
        return {"checkpoint": self._at.checkpoint_id, **dict(sorted(gauges.items()))}

    def close(self) -> None:
        """The run ends."""
        self._runner.close()
        if self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None

    def _checkpoint(
        self, coordinator: SourceCoordinator[Any], limits: Limits
    ) -> PendingCheckpoint[Any] | None:
        self._runner.drain(coordinator.handle_result)
        metadata = CheckpointMetadata(
            checkpoint_id=coordinator.last_checkpoint_id + 1, timestamp_ms=self._surroundings.now_ms()
        )
        return coordinator.checkpoint(metadata, limits)

    def _written(self, pending: PendingCheckpoint[Any], parent: Offset) -> Offset:
        """Make the checkpoint durable; where that fails, the coordinator stands nowhere any more."""
        try:
            self._at = self._storage.write(pending, parent=parent)
        except BaseException:
            self._start_over()
            raise
        return self._at

    def _start_over(self) -> None:
        self.close()
        self._runner = BackgroundRunner()

    def _coordinator_at(self, offset: Offset) -> SourceCoordinator[Any]:
        """The coordinator, standing at ``offset``: made or reset (R8) where it is not."""
        if self._coordinator is not None and offset == self._at:
            return self._coordinator
        if self._coordinator is not None:
            _log.warning(
                "source %s goes back from checkpoint %d to %d",
                self._source.uid, self._at.checkpoint_id, offset.checkpoint_id,
            )  # fmt: skip
            self._coordinator.enumerator.notify_checkpoint_aborted(self._at.checkpoint_id)
            self._start_over()
        coordinator: SourceCoordinator[Any] = SourceCoordinator(
            self._source.enumerator_type,
            self._settings(),
            self._runner,
            self._storage.restore(offset),
        )
        coordinator.start()
        self._coordinator, self._at = coordinator, offset
        return coordinator

    def _settings(self) -> CoordinatorSettings:
        options = self._source.options
        chosen = options[PARALLELISM]
        return CoordinatorSettings(
            boundedness=self._boundedness,
            parallelism=chosen or self._surroundings.cores,
            # Whoever sets parallelism means it; otherwise large batches get more tasks.
            max_partition_bytes=None if chosen else options[MAX_PARTITION_BYTES],
            reader_type=self._source.reader_type,
            options=options,
        )

    def _own_limits(self) -> Limits:
        options = self._source.options
        return Limits(
            files=options[MAX_FILES_PER_TRIGGER],
            rows=options[MAX_ROWS_PER_TRIGGER],
            bytes=options[MAX_BYTES_PER_TRIGGER],
        )

    def _offset(self, value: dict[str, Any]) -> Offset:
        # An idle stream asks many times a second with the offset that was told last.
        if not self._at.is_initial and value == self._at.to_json():
            return self._at
        return Offset.from_json(value)

    def _clean(self, committed: Offset) -> None:
        """Now and then, beside the batches, clean up what no retained checkpoint can reach."""
        name, lineage, store = committed.name, committed.lineage, self._storage.store
        if store is None or name is None or lineage is None:
            return
        if name.checkpoint_id < self._cleaned_at + CLEAN_EVERY:
            return
        if self._cleaning is not None and self._cleaning.is_alive():
            return
        self._cleaned_at = name.checkpoint_id
        if self._cleaner is None or self._cleaner.lineage != lineage:
            retained = self._source.options[RETAINED_CHECKPOINTS]
            self._cleaner = Cleaner(store, lineage, retained, self._storage.in_use)
        self._cleaning = threading.Thread(
            target=_clean_up, args=(self._cleaner, name), name="flip27-clean-up", daemon=True
        )
        self._cleaning.start()


def identity_of(source: Source) -> SourceIdentity:
    """What the documents of a source say they belong to."""
    return SourceIdentity(
        uid=source.uid,
        enumerator=source.enumerator_name,
        reader=source.reader_name,
        state_version=source.enumerator_type.state_version,
        split_version=source.enumerator_type.split_version,
        library=__version__,
        start_options=source.options.first_start_values(),
    )


def _clean_up(cleaner: Cleaner, committed: CheckpointName) -> None:
    try:
        cleaner.clean(committed)
    except StateError as error:
        # Clean-up is no part of the guarantee: what is left over is found again next time.
        _log.warning("clean-up of the state location failed, tried again later: %s", error)
