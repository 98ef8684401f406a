"""The state of a source at the end of the newest committed batch of its query, and the splits that were not
read yet. Read-only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..coordination.subtask_reports import SplitStatus
from ..enumerator_mixins import HoldsSplits
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import CheckpointDocument, SourceIdentity
from ..snapshots.file_names import CheckpointName
from ..snapshots.spark_checkpoint import batches_of
from ..snapshots.store import open_store
from ..snapshots.stored_lineage import StoredLineage
from ..source import stored_enumerator
from .format import reported
from .query_state import one_source, state_store, surely_newest_batch

_UNREAD = frozenset({SplitStatus.LIVE, SplitStatus.RETURNED, SplitStatus.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedState:
    """The state of one source after a committed batch.

    Attributes:
        checkpoint: the Spark checkpoint location of the query. batch_id: its newest committed batch.
        lineage, name: the source's checkpoint.
        enumerator_state: the state of its enumerator.
        unread: the splits that were found and not read to their end, or that cannot be read.
        uncommitted: the splits of later batches, which Spark has planned and not committed.
    """

    checkpoint: str
    batch_id: int
    lineage: str
    name: CheckpointName
    source: SourceIdentity
    enumerator_state: Any
    unread: list[Any]
    uncommitted: list[Any]


def committed_state(
    state: str, checkpoint: str | None, lineage: str | None, storage_options: Mapping[str, Any]
) -> CommittedState:
    """The state of a query's only source, or of ``lineage``.

    Args:
        state: the query's ``stateLocation``.
        checkpoint: its Spark checkpoint location; None to look for it above ``state``.

    Raises:
        StateLocationError, MissingStateError, CorruptStateError: the state cannot be read.
    """
    options = dict(storage_options)
    batch = surely_newest_batch(state, checkpoint, options)
    store = state_store(state, options)
    folder, name = one_source(batch.named, state, lineage, store)
    stored = StoredLineage(store, folder)
    document = stored.document(name)
    kind: Any = stored_enumerator(document.source.enumerator, document.source.start_options)
    codec = SnapshotCodec(kind)

    def planned_in(document: CheckpointDocument) -> list[Any]:
        plan = codec.decode(document, stored.segment_loader(document), with_plan=True).plan
        return [split for item in plan.assignments for split in item.splits]

    snapshot = codec.decode(document, stored.segment_loader(document))
    ledger = snapshot.ledger
    held = kind.splits_in(snapshot.enumerator_state) if issubclass(kind, HoldsSplits) else []
    reports = (stored.report(name, subtask, surely=True) for subtask in reported(stored, document, name))
    results = (result for report in reports if report is not None for result in report.results)
    unread = {result.split for result in results if result.status in _UNREAD}
    later = {
        offset.name
        for logged, _ in batches_of(open_store(batch.checkpoint, options))
        for offset in logged.offsets.values()
        if logged.batch_id > batch.batch_id and offset.lineage == folder and offset.name not in (None, name)
    }
    return CommittedState(
        checkpoint=batch.checkpoint,
        batch_id=batch.batch_id,
        lineage=folder,
        name=name,
        source=document.source,
        enumerator_state=snapshot.enumerator_state,
        unread=[
            *held,
            *(item.split for item in ledger.waiting),
            *ledger.live,
            *ledger.ranges,
            *(item.split for item in ledger.quarantined),
            *(split for split in planned_in(document) if split.split_id in unread),
        ],
        uncommitted=[split for each in later for split in planned_in(stored.document(each))],
    )
