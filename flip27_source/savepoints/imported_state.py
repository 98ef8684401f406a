"""A savepoint of imported state, which no flip27 query has written."""

from __future__ import annotations

import os
from typing import Any

from ..coordination.checkpoints import (
    INITIAL_CHECKPOINT_ID,
    CheckpointMetadata,
    LedgerState,
    PendingCheckpoint,
    Snapshot,
)
from ..coordination.packing import Plan
from ..errors import StateError
from ..snapshots.checkpoint_files import CheckpointStorage
from ..snapshots.codec import SnapshotCodec
from ..snapshots.offsets import INITIAL_OFFSET
from ..snapshots.source_identity import ANY_READER, identity_of
from ..snapshots.store import MemoryStore, Store
from ..source import Source
from .format import Savepoint, write_savepoint
from .whole_queries import now_ms


def write_imported(target: Store, source: Source, state: Any, *, finished: int) -> Savepoint:
    """Write a savepoint from which a source starts with this state, with any reader.

    Args:
        target: the store in which the savepoint gets its own directory.
        state: the state of the source's enumerator.
        finished: the number of splits that were read before.

    Raises:
        StateLocationError: the savepoint cannot be written.
    """
    created_ms = now_ms()
    memory = MemoryStore()
    storage = CheckpointStorage(
        SnapshotCodec(source.enumerator_type, source.reader_type),
        identity_of(source, reader_name=ANY_READER),
        store=memory,
        inline_limit_bytes=0,
        new_random=lambda: os.urandom(8).hex(),
    )
    snapshot: Snapshot[Any] = Snapshot(
        metadata=CheckpointMetadata(checkpoint_id=INITIAL_CHECKPOINT_ID + 1, timestamp_ms=created_ms),
        enumerator_state=state,
        ledger=LedgerState(finished=finished),
        plan=Plan(),
    )
    offset = storage.write(PendingCheckpoint(snapshot=snapshot), INITIAL_OFFSET)
    if offset.lineage is None or offset.name is None:
        raise StateError("the imported state has no name", remedy="report this defect")
    return write_savepoint(memory, offset.lineage, offset.name, target, created_ms=created_ms)
