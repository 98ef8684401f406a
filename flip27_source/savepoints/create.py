"""Making savepoints: of a running or a stopped query, by where its state and its checkpoint are."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import CorruptStateError, MissingStateError, StateLocationError, StopError
from ..file_systems import redacted
from ..snapshots import layout
from ..snapshots.documents import decode_document
from ..snapshots.layout import CheckpointName
from ..snapshots.savepoints import write_savepoint
from ..snapshots.spark_checkpoint import is_spark_checkpoint, newest_committed
from ..snapshots.store import Store, open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedSavepoint:
    """A savepoint that was made.

    Attributes:
        directory: where it is; what ``.option("savepoint", ...)`` takes.
        checkpoint_id: the checkpoint that it holds.
        batch_id: Spark's batch that this checkpoint ends with; None when Spark's checkpoint was
            not known, and the savepoint is of the newest checkpoint that is surely complete.
    """

    directory: str
    checkpoint_id: int
    batch_id: int | None


def create(
    *,
    state: str,
    to: str,
    checkpoint: str | None = None,
    lineage: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> CreatedSavepoint:
    """Make a savepoint of the newest complete checkpoint; the query may be running or not.

    Args:
        state: the query's ``stateLocation``.
        to: directory in which the savepoint gets a directory of its own.
        checkpoint: the query's Spark checkpoint location, which says what the last committed
            batch is. Found by itself where ``state`` lies inside it.
        lineage: which of several queries that share a state location; its directory's name.
        storage_options: for the file systems, as the source's ``storage.*`` options.

    Raises:
        StateLocationError, MissingStateError, CorruptStateError: with what to do.
    """
    options = dict(storage_options or {})
    source, target = open_store(state, options), open_store(to, options)
    batch_id = None
    found = _in_checkpoint(state, checkpoint, options)
    if found is not None:
        batch_id, names = found
        chosen = _only([item for item in names if lineage in (None, item[0])], state)
        folder, name = chosen
    else:
        folder = lineage or _only_lineage(source, state)
        name = _surely_complete(source, folder)
    savepoint = write_savepoint(source, folder, name, target, created_ms=time.time_ns() // 1_000_000)
    return CreatedSavepoint(
        directory=f"{to.rstrip('/')}/{savepoint.folder}",
        checkpoint_id=name.checkpoint_id,
        batch_id=batch_id,
    )


def stop_with_savepoint(
    query: Any,
    target: str,
    *,
    state: str,
    checkpoint: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> CreatedSavepoint:
    """Stop a query and make a savepoint of exactly what it has committed.

    Args:
        query: the StreamingQuery.
        target, state, checkpoint, storage_options: see :func:`create`.

    Raises:
        StopError: the stop failed; the message names the savepoint, which is whole (S87).
        StateLocationError, MissingStateError: the savepoint could not be made.
    """
    failure: Exception | None = None
    try:
        query.stop()
    except Exception as error:  # noqa: BLE001 - raised below, with the savepoint that was still made
        failure = error
    made = create(state=state, to=target, checkpoint=checkpoint, storage_options=storage_options)
    if failure is not None:
        raise StopError(
            f"the query could not be stopped: {failure}. A savepoint has been created at {made.directory}",
            remedy="stop the query by other means; batches that it still runs are not in the savepoint",
        ) from failure
    return made


def _in_checkpoint(
    state: str, checkpoint: str | None, options: dict[str, Any]
) -> tuple[int, list[tuple[str, CheckpointName]]] | None:
    """The newest committed batch of the query, with lineage and checkpoint of each of its sources."""
    for location in [checkpoint] if checkpoint is not None else _parents(state):
        store = open_store(location, options)
        if is_spark_checkpoint(store):
            batch = newest_committed(store)
            named = [
                (offset.lineage, offset.name)
                for offset in batch.offsets
                if offset.lineage is not None and offset.name is not None
            ]
            return batch.batch_id, named
    if checkpoint is None:
        return None
    raise StateLocationError(
        f"{redacted(checkpoint)} is not the checkpoint location of a streaming query: it has no offset log",
        remedy="give the checkpointLocation of the query that writes the state",
    )


def _parents(state: str) -> list[str]:
    parent = state.rstrip("/").rpartition("/")[0]
    return [folder for folder in (parent, parent.rpartition("/")[0]) if folder.rpartition("/")[2]]


def _only(found: list[tuple[str, CheckpointName]], state: str) -> tuple[str, CheckpointName]:
    if len(found) == 1:
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


def _only_lineage(source: Store, state: str) -> str:
    found = []
    for name in source.list(""):
        try:
            found.append(layout.checked_lineage_name(name))
        except CorruptStateError:
            continue
    if len(found) == 1:
        return found[0]
    raise StateLocationError(
        f"{redacted(state)} holds {len(found)} lineages: {', '.join(found) or 'none'}",
        remedy="say which one by lineage (--lineage), or give the query's Spark checkpoint (--checkpoint)"
        if found
        else "give the stateLocation of the query",
    )


def _surely_complete(source: Store, lineage: str) -> CheckpointName:
    """The parent of the newest checkpoint: it was complete before its child was made."""
    names = [CheckpointName.parse(name) for name in source.list(f"{lineage}/{layout.CHECKPOINTS}")]
    for name in sorted((name for name in names if name is not None), reverse=True):
        document = decode_document(source.read(layout.checkpoint_file(lineage, name)), name)
        if document.parent is not None:
            return document.parent
    raise MissingStateError(
        f"no checkpoint of {lineage} is known to be complete",
        remedy="give the query's Spark checkpoint location (--checkpoint), which knows",
    )
