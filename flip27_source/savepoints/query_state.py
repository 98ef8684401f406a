"""Locating: where a query has its state, and which of its checkpoints is complete. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import CorruptStateError, MissingStateError, StateLocationError
from ..file_systems.paths import redacted
from ..snapshots import file_names
from ..snapshots.documents import MOST_DOCUMENT_BYTES, decode_document
from ..snapshots.file_names import CheckpointName
from ..snapshots.locations import find_lineages
from ..snapshots.spark_checkpoint import is_spark_checkpoint, newest_committed
from ..snapshots.store import Store, open_store
from .values import NewestBatch


def newest_batch(state: str, checkpoint: str | None, options: dict[str, Any]) -> NewestBatch | None:
    """The newest committed batch of the query; None where Spark's checkpoint is not known.

    Args:
        checkpoint: the query's Spark checkpoint location; None to look for it around ``state``.

    Raises:
        StateLocationError: ``checkpoint`` is none. MissingStateError: nothing is committed yet.
    """
    for location in [checkpoint] if checkpoint is not None else _parents(state):
        store = open_store(location, options)
        if is_spark_checkpoint(store):
            batch = newest_committed(store)
            named = [
                (offset.lineage, offset.name)
                for offset in batch.offsets
                if offset.lineage is not None and offset.name is not None
            ]
            return NewestBatch(checkpoint=location, batch_id=batch.batch_id, named=tuple(named))
    if checkpoint is None:
        return None
    raise StateLocationError(
        f"{redacted(checkpoint)} is not the checkpoint location of a streaming query: it has no offset log",
        remedy="give the checkpointLocation of the query that writes the state",
    )


def lineage_of(state: str, batch: NewestBatch | None, lineage: str | None, store: Store) -> str:
    """The lineage that is meant.

    Raises:
        StateLocationError: there is none, or there are several.
    """
    if batch is not None:
        return one_source(batch.named, state, lineage)[0]
    return file_names.checked_lineage_name(lineage) if lineage else _only_lineage(store, state)


def one_source(
    named: Sequence[tuple[str, CheckpointName]], state: str, lineage: str | None, *, any_of_them: bool = False
) -> tuple[str, CheckpointName]:
    """Lineage and checkpoint of the source that is meant.

    Raises:
        MissingStateError, StateLocationError: there is none, or there are several and not any will do.
    """
    found = [item for item in named if lineage in (None, item[0])]
    if len(found) == 1 or (found and any_of_them):
        return found[0]
    if not found:
        raise MissingStateError(
            f"the query's last batch names no state in {redacted(state)}",
            remedy="state inside the offsets needs no savepoint: copy the checkpoint; or give the state "
            "location and lineage of the source that you mean",
        )
    raise StateLocationError(
        f"the query has several sources with state: {', '.join(sorted(item[0] for item in found))}",
        remedy="say which one by lineage (--lineage)",
    )


def surely_complete(store: Store, lineage: str) -> CheckpointName:
    """The parent of the newest checkpoint: it was complete before its child was made.

    Raises:
        MissingStateError: there is none.
    """
    for name in checkpoint_names(store, lineage):
        data = store.read(file_names.checkpoint_file(lineage, name), MOST_DOCUMENT_BYTES)
        document = decode_document(data, name)
        if document.parent is not None:
            return document.parent
    raise MissingStateError(
        f"no checkpoint of {lineage} is known to be complete",
        remedy="give the query's Spark checkpoint location (--checkpoint-location), which knows",
    )


def checkpoint_names(store: Store, lineage: str) -> list[CheckpointName]:
    """The checkpoints of a lineage, newest first."""
    names = map(CheckpointName.parse, store.list(f"{lineage}/{file_names.CHECKPOINTS}"))
    return sorted((name for name in names if name is not None), reverse=True)


def checkpoint_of(query: Any) -> str:
    """Where Spark keeps the checkpoint of a query; only the query in the JVM knows."""
    in_jvm = getattr(query, "_jsq", None)
    if in_jvm is None:
        raise StateLocationError(
            "where the query has its state is not known here: Spark Connect does not tell",
            remedy='give it: stop_with_savepoint(query, target, state="<stateLocation>")',
        )
    return str(in_jvm.streamingQuery().resolvedCheckpointRoot())


def state_in(checkpoint: str, options: dict[str, Any]) -> str:
    """The state location inside a Spark checkpoint."""
    found = {lineage.parent for lineage in find_lineages(checkpoint, options)} - {None}
    if len(found) != 1:
        raise StateLocationError(
            f"the Spark checkpoint {redacted(checkpoint)} holds {len(found)} state locations",
            remedy='say which one: state="<stateLocation>"'
            if found
            else "state inside the offsets needs no savepoint: copy the checkpoint",
        )
    return str(found.pop())


def _parents(state: str) -> list[str]:
    parent = state.rstrip("/").rpartition("/")[0]
    return [folder for folder in (parent, parent.rpartition("/")[0]) if folder.rpartition("/")[2]]


def _only_lineage(store: Store, state: str) -> str:
    found = []
    for name in store.list(""):
        try:
            found.append(file_names.checked_lineage_name(name))
        except CorruptStateError:
            continue
    if len(found) == 1:
        return found[0]
    raise StateLocationError(
        f"{redacted(state)} holds {len(found)} lineages: {', '.join(found) or 'none'}",
        remedy="say which one by lineage (--lineage), or give the query's Spark checkpoint "
        "(--checkpoint-location)"
        if found
        else "give the stateLocation of the query",
    )
