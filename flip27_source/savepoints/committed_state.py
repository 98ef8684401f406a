"""The state of a source at the end of the newest committed batch of its query, and the splits that were not
read yet. Read-only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..coordination.subtask_reports import SplitStatus
from ..enumerator_mixins import HoldsSplits
from ..errors import StateLocationError
from ..file_systems.paths import redacted
from ..registry import find_enumerator
from ..snapshots import file_names
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import MOST_DOCUMENT_BYTES, SourceIdentity, decode_document
from ..snapshots.file_names import CheckpointName
from ..snapshots.report_files import decode_stored_report
from ..snapshots.segment_files import most_packed_bytes, unpack_segment
from ..snapshots.store import Store, open_store
from .query_state import newest_batch, one_source

_UNREAD = frozenset({SplitStatus.LIVE.value, SplitStatus.RETURNED.value, SplitStatus.FAILED.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedState:
    """The state of one source after a committed batch.

    Attributes:
        checkpoint: the Spark checkpoint location of the query. batch_id: its newest committed batch.
        lineage, name: the source's checkpoint.
        enumerator_state: the state of its enumerator.
        unread: the splits that were found and not read to their end, or that cannot be read.
    """

    checkpoint: str
    batch_id: int
    lineage: str
    name: CheckpointName
    source: SourceIdentity
    enumerator_state: Any
    unread: list[Any]


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
    batch = newest_batch(state, checkpoint, options)
    if batch is None:
        raise StateLocationError(
            f"the checkpoint location of the query with its state in {redacted(state)} is not known",
            remedy="give the query's checkpointLocation (--checkpoint-location)",
        )
    folder, name = one_source(batch.named, state, lineage)
    store = open_store(state, options)
    document = decode_document(
        store.read(file_names.checkpoint_file(folder, name), MOST_DOCUMENT_BYTES), name
    )
    kind: Any = find_enumerator(document.source.enumerator)

    def load(segment: str) -> bytes:
        size = document.segment_bytes.get(segment)
        file = file_names.segment_file(folder, file_names.checked_segment_name(segment))
        return unpack_segment(segment, store.read(file, most_packed_bytes(size)), size)

    snapshot = SnapshotCodec(kind).decode(document, load, with_plan=True)
    ledger = snapshot.ledger
    held = kind.splits_in(snapshot.enumerator_state) if issubclass(kind, HoldsSplits) else []
    reported = _reported_unread(store, folder, name)
    planned = (split for item in snapshot.plan.assignments for split in item.splits)
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
            *(item.split for item in ledger.quarantined),
            *(split for split in planned if split.split_id in reported),
        ],
    )


def _reported_unread(store: Store, lineage: str, name: CheckpointName) -> set[str]:
    """The splits of the batch that its subtasks have not read to their end."""
    found = set()
    for file in store.list(f"{lineage}/{file_names.REPORTS}"):
        if file_names.belongs_to(file) == name:
            report = decode_stored_report(file, store.read(f"{lineage}/{file_names.REPORTS}/{file}"))
            found |= {item.split for item in report.results if item.status in _UNREAD}
    return found
