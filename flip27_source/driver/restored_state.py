"""The state that a run starts with: that of its own query, or a savepoint of another one.

Restoring a savepoint commits nothing (I12): the pending actions stay with the query that the savepoint was
taken from, and the enumerator is not notified of completion. Flink: CheckpointCoordinator.restoreSavepoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..coordination.checkpoints import Snapshot
from ..coordination.coordinator import SourceCoordinator
from ..errors import (
    CorruptStateError,
    IncompatibleStateError,
    OptionError,
    StaleDriverError,
    StateLocationError,
)
from ..log import LOG
from ..savepoints.claims import check_claimable, claim
from ..savepoints.format import Savepoint, open_savepoint
from ..savepoints.moved_files import MovedFiles
from ..snapshots.checkpoint_files import CheckpointStorage
from ..snapshots.codec import SnapshotCodec
from ..snapshots.driver_epochs import STOP_ONE
from ..snapshots.file_names import CheckpointName
from ..snapshots.offsets import Offset
from ..snapshots.source_identity import as_lines, savepoint_differences
from ..snapshots.store import Store
from ..snapshots.stored_lineage import older_copy
from ..source import Source
from ..source_options import (
    ALLOW_NON_RESTORED_STATE,
    ALLOW_ROLLED_BACK_CHECKPOINT,
    PATH_REWRITE,
    SAVEPOINT,
    SAVEPOINT_CLAIM,
    STATE_LOCATION,
)
from .driving import Driving
from .reports import SubtaskReports


class RestoredSavepoint:
    """The state of a savepoint that a new query starts with.

    Attributes:
        savepoint: the savepoint.
        snapshot: the state for the coordinator, with paths changed by ``pathRewrite``.
    """

    def __init__(self, source: Source, savepoint: Savepoint, codec: SnapshotCodec) -> None:
        self._source = source
        self._codec = codec
        self.savepoint = savepoint
        load_segment = savepoint.stored().segment_loader(savepoint.document)
        # With its plan, because its reports are not processed yet.
        stored = codec.decode(savepoint.document, load_segment, with_plan=True)
        rewrite = source.options[PATH_REWRITE]
        self._moved = None if rewrite is None else MovedFiles(source, rewrite, stored)
        found = stored if self._moved is None else self._moved.snapshot()
        # The watermark of a new query begins again.
        self.snapshot: Snapshot[Any] = replace(found, actions=(), delayed=(), event_time=None)

    @property
    def stored_bytes(self) -> int:
        return self.savepoint.document.stored_bytes

    def complete(self, coordinator: SourceCoordinator[Any]) -> None:
        """Process the reports that are stored with the savepoint."""
        pending = coordinator.pending
        assert pending is not None
        savepoint = self.savepoint
        offset = Offset(checkpoint_id=pending.checkpoint_id, lineage=savepoint.folder, name=savepoint.name)
        SubtaskReports(self._source, savepoint.store, self._codec).collect(
            coordinator, pending, offset, None if self._moved is None else self._moved.report
        )
        coordinator.complete(pending.checkpoint_id, quietly=True)

    def first_written(self, offset: Offset, store: Store | None) -> None:
        """The query's first checkpoint is durable, and Spark does not know it yet: claim the savepoint.

        Raises:
            StateLocationError: another query owns the savepoint.
        """
        if store is not None and offset.lineage is not None and _claims(self._source):
            claim(self.savepoint, store, offset.lineage, self._source.uid, offset.checkpoint_id)


def restored_savepoint(
    source: Source, savepoint: Savepoint, store: Store | None, codec: SnapshotCodec, *, is_claimed: bool
) -> RestoredSavepoint | None:
    """The state that a query without a checkpoint starts with; None if it starts from the beginning.

    Nothing is written, so ``flip27 check`` asks too.

    Args:
        store: the state location. is_claimed: whether ``savepointClaim`` counts.

    Raises:
        IncompatibleStateError: the savepoint does not match, and ``allowNonRestoredState`` is false.
        StateLocationError: another query owns the savepoint.
        OptionError: options contradict each other.
    """
    if is_claimed and _claims(source):
        _check_claim(source, savepoint, store)
    return RestoredSavepoint(source, savepoint, codec) if _is_restorable(source, savepoint) else None


@dataclass(eq=False, repr=False)
class StateRestorer:
    """Finds the state that a run of a query starts with.

    Args:
        one_batch: the run has a single checkpoint, whose state is discarded.
    """

    _source: Source
    _storage: CheckpointStorage
    _codec: SnapshotCodec
    _driving: Driving
    _open_store: Callable[[str, Mapping[str, Any]], Store]
    _one_batch: bool
    _committed: CheckpointName | None = field(default=None, init=False)

    def restored(self, offset: Offset) -> Snapshot[Any] | None:
        """The state at an offset of this query, with its plan if the completion of its batch needs that.

        Raises:
            CorruptStateError: Spark has committed a later offset, and ``allowRolledBackCheckpoint`` is false.
            MissingStateError, CorruptStateError, IncompatibleStateError: the state cannot be read.
        """
        try:
            self._check_not_rolled_back(offset)
        except CorruptStateError:
            # If another driver has taken over, it wrote the later checkpoints; nothing was rolled back.
            self._driving.check()
            raise
        kind = self._source.enumerator_type
        needs_plan = kind.wants_finished_splits(self._source.options) or self._has_reports(offset)
        return self._storage.restore(offset, with_plan=needs_plan)

    def take_over(self, offset: Offset) -> None:
        """Drive the lineage, unless another driver has continued it since :meth:`restored`.

        This driver may have been suspended meanwhile, or its state may have been removed.

        Raises:
            StaleDriverError: another driver has committed checkpoints in the meantime.
            MissingStateError: its checkpoint no longer exists.
        """
        self._driving.take_over(offset)
        try:
            self._check_there(offset)
            if self._committed_after(offset) not in (None, self._committed):
                raise StaleDriverError(
                    f"another driver has continued {offset.lineage} while this one restored checkpoint "
                    f"{offset.checkpoint_id}",
                    remedy=STOP_ONE,
                )
            self._driving.confirm(offset)
        except BaseException:
            self._driving.give_back()
            raise

    def claim(self, offset: Offset) -> bool:
        """Drive the lineage while the batch that ends at an offset is repeated; False if that is not known.

        This driver may have been suspended, or Spark's checkpoint may be an older copy: with
        ``allowRolledBackCheckpoint`` it drives all the same, as it will after the batch.

        Raises:
            MissingStateError: its checkpoint no longer exists.
        """
        committed = self._committed_after(offset, or_beside=True)
        if committed is not None and not self._source.options[ALLOW_ROLLED_BACK_CHECKPOINT]:
            return False
        self._driving.take_over(offset)
        try:
            self._check_there(offset)
            may_drive = self._committed_after(offset, or_beside=True) == committed
        except BaseException:
            self._driving.give_back()
            raise
        if not may_drive:
            self._driving.give_back()
        return may_drive

    def savepoint(self) -> RestoredSavepoint | None:
        """The savepoint that a query without a checkpoint starts from; None if it starts without one.

        Raises:
            StateLocationError: the savepoint does not exist.
            Flip27Error: as for :func:`restored_savepoint`.
        """
        source, options = self._source, self._source.options
        location = options[SAVEPOINT]
        if location is None:
            _check_unused(source)
            return None
        storage_options = options.with_prefix("storage.")
        savepoint = open_savepoint(location, lambda parent: self._open_store(parent, storage_options))
        store, is_claimed = self._storage.store, not self._one_batch
        return restored_savepoint(source, savepoint, store, self._codec, is_claimed=is_claimed)

    def _has_reports(self, offset: Offset) -> bool:
        """Whether tasks have reported on a checkpoint: an earlier run may have had other options (R18)."""
        if self._storage.store is None or offset.lineage is None or offset.name is None:
            return False
        return offset.name in self._storage.lineage(offset.lineage).reports()

    def _check_there(self, offset: Offset) -> None:
        """Once this driver has claimed the lineage, ``flip27 retire`` removes nothing of it any more."""
        if self._storage.store is None or offset.lineage is None or offset.name is None:
            return
        lineage = self._storage.lineage(offset.lineage)
        if offset.name not in lineage.names():  # a listing may be late
            lineage.document_bytes(offset.name)

    def _committed_after(self, offset: Offset, *, or_beside: bool = False) -> CheckpointName | None:
        if self._storage.store is None or offset.lineage is None or offset.name is None:
            return None
        return self._storage.lineage(offset.lineage).committed_after(offset.name, or_beside=or_beside)

    def _check_not_rolled_back(self, offset: Offset) -> None:
        self._committed = committed = self._committed_after(offset, or_beside=True)
        if committed is None:
            return
        assert offset.lineage is not None, "the checkpoint was compared with others of its lineage"
        assert offset.name is not None
        said = older_copy(offset.lineage, offset.name, committed)
        if not self._source.options[ALLOW_ROLLED_BACK_CHECKPOINT]:
            remedy = "restore the checkpoint location and the state location from the same backup. "
            if offset.name in self._storage.lineage(offset.lineage).names():
                remedy += (
                    f"To use the older copy, set {ALLOW_ROLLED_BACK_CHECKPOINT.name}=true: data that was "
                    "read since is read again. A sink that tracks batch numbers (Spark's files, Delta Lake) "
                    "skips batches that it has, including new data in them: restore such a sink to the "
                    "same moment"
                )
            else:
                remedy += (
                    "The older copy cannot be used alone, because the state of its checkpoint was cleaned "
                    "up. Without such a backup, start with a new checkpointLocation: from a savepoint of "
                    "this query, or from the beginning with a new stateLocation"
                )
            raise CorruptStateError(said, remedy=remedy)
        LOG.warning("%s; the query continues, and data that was read since is read again", said)


def _is_restorable(source: Source, savepoint: Savepoint) -> bool:
    found = savepoint_differences(savepoint.document, source)
    if not found:
        return True
    if not source.options[ALLOW_NON_RESTORED_STATE]:
        raise IncompatibleStateError(
            f"savepoint {savepoint.location} does not match source {source.uid}:{as_lines(found)}",
            remedy="restore the old settings; or, to continue despite the differences, set "
            f'.option("{ALLOW_NON_RESTORED_STATE.name}", "true"): docs/savepoints.md describes the effect '
            "on the state",
        )
    if any(difference.is_fatal for difference in found):
        LOG.warning(
            "source %s starts from the beginning: the savepoint %s is neither restored nor claimed, and data "
            "that its query has read is read again. Differences:%s",
            source.uid, savepoint.location, as_lines(found),
        )  # fmt: skip
        return False
    LOG.warning(
        "source %s starts from the savepoint %s although they differ; the state is restored unchanged, and "
        "start options that are set now have no effect on it. Differences:%s",
        source.uid, savepoint.location, as_lines(found),
    )  # fmt: skip
    return True


def _claims(source: Source) -> bool:
    return source.options[SAVEPOINT_CLAIM] == "claim"


def _check_claim(source: Source, savepoint: Savepoint, store: Store | None) -> None:
    if store is None:
        raise StateLocationError(
            f"option {SAVEPOINT_CLAIM.name} is claim, and option {STATE_LOCATION.name}, where the claim is "
            "stored, is not set",
            remedy=f"set {STATE_LOCATION.name}, or remove {SAVEPOINT_CLAIM.name}",
        )
    check_claimable(savepoint, store, source.uid)


def _check_unused(source: Source) -> None:
    for option in (PATH_REWRITE, SAVEPOINT_CLAIM):
        if source.options.is_set(option) and source.options[option] != option.default:
            raise OptionError(
                f"option {option.name} is set, the query has no checkpoint, and option savepoint is not set",
                remedy=f'add .option("{SAVEPOINT.name}", ...), or remove {option.name}',
            )
