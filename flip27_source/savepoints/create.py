"""Making savepoints: of a running or a stopped query, by where its state and its checkpoint are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import CorruptStateError, MissingStateError, StateLocationError, StopError
from ..file_systems import redacted
from ..snapshots import layout
from ..snapshots.claims import mark_of
from ..snapshots.documents import decode_document
from ..snapshots.layout import CheckpointName
from ..snapshots.locations import find_lineages
from ..snapshots.savepoints import METADATA, read_savepoint, savepoint_folder, write_savepoint
from ..snapshots.spark_checkpoint import is_spark_checkpoint, newest_committed
from ..snapshots.store import Store, open_store
from .query import NewestBatch, copy_query, now_ms


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
    query: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> CreatedSavepoint:
    """Make a savepoint of the newest complete checkpoint; the query may be running or not.

    Where the directory has one of this very checkpoint, that one is left as it is and named.

    Args:
        state: the query's ``stateLocation``.
        to: directory in which the savepoint gets a directory of its own.
        checkpoint: the query's Spark checkpoint location, which says what the last committed
            batch is. Found by itself where ``state`` lies inside it.
        lineage: which of several queries that share a state location; its directory's name.
        query: take the whole query: Spark's checkpoint after that batch, operators' state and all, and
            the state of its other flip27 sources. See :func:`restore_query`.
        storage_options: for the file systems, as the source's ``storage.*`` options.

    Raises:
        StateLocationError, MissingStateError, CorruptStateError: with what to do.
    """
    options = dict(storage_options or {})
    source, target = open_store(state, options), open_store(to, options)
    found = _in_checkpoint(state, checkpoint, options)
    if found is not None:
        folder, name = _only(found.named, state, lineage, any_of_them=query)
    elif query:
        raise StateLocationError(
            f"where the checkpoint of the query is that has its state in {redacted(state)} is not known",
            remedy="give the query's checkpointLocation (--checkpoint)",
        )
    else:
        folder = lineage or _only_lineage(source, state)
        name = _surely_complete(source, folder)
    _check_unclaimed(target, name)
    if not _is_there(target, name, query=query):
        whole = None
        if query and found is not None:
            others = [item for item in found.named if item[0] != folder]
            whole = copy_query(found, others, source, f"{to.rstrip('/')}/{savepoint_folder(name)}", options)
        write_savepoint(source, folder, name, target, created_ms=now_ms(), query=whole)
    return CreatedSavepoint(
        directory=f"{to.rstrip('/')}/{savepoint_folder(name)}",
        checkpoint_id=name.checkpoint_id,
        batch_id=None if found is None else found.batch_id,
    )


def lineage_of(state: str, checkpoint: str | None, lineage: str | None, options: dict[str, Any]) -> str:
    """The lineage that a query's state location holds.

    Raises:
        StateLocationError: there is none, or there are several.
    """
    found = _in_checkpoint(state, checkpoint, options)
    if found is not None:
        return _only(found.named, state, lineage, any_of_them=False)[0]
    return lineage or _only_lineage(open_store(state, options), state)


def stop_with_savepoint(
    query: Any,
    target: str,
    *,
    state: str | None = None,
    checkpoint: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> CreatedSavepoint:
    """Stop a query and make a savepoint of exactly what it has committed.

    Args:
        query: the StreamingQuery.
        target, checkpoint, storage_options: see :func:`create`.
        state: the query's ``stateLocation``; found by itself where it lies inside the checkpoint location
            of a query that runs in this process (not by Spark Connect).

    Raises:
        StopError: the stop failed; the message names the savepoint, which is whole (S87).
        StateLocationError, MissingStateError: the savepoint could not be made; where it is the state
            location that is not known, the query was not stopped.
    """
    options = dict(storage_options or {})
    if state is None:
        checkpoint = checkpoint or _checkpoint_of(query)
        state = _state_in(checkpoint, options)
    failure: Exception | None = None
    try:
        query.stop()
    except Exception as error:  # noqa: BLE001 - raised below, with the savepoint that was still made
        failure = error
    made = create(state=state, to=target, checkpoint=checkpoint, storage_options=options)
    if failure is not None:
        raise StopError(
            f"the query could not be stopped: {failure}. A savepoint has been created at {made.directory}",
            remedy="stop the query by other means; batches that it still runs are not in the savepoint",
        ) from failure
    return made


def _checkpoint_of(query: Any) -> str:
    """Where Spark keeps the checkpoint of a query; only the query in the JVM knows."""
    in_jvm = getattr(query, "_jsq", None)
    if in_jvm is None:
        raise StateLocationError(
            "where the query has its state is not known here: Spark Connect does not tell",
            remedy='give it: stop_with_savepoint(query, target, state="<stateLocation>")',
        )
    return str(in_jvm.streamingQuery().resolvedCheckpointRoot())


def _state_in(checkpoint: str, options: dict[str, Any]) -> str:
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


def _in_checkpoint(state: str, checkpoint: str | None, options: dict[str, Any]) -> NewestBatch | None:
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
            return NewestBatch(checkpoint=location, batch_id=batch.batch_id, named=tuple(named))
    if checkpoint is None:
        return None
    raise StateLocationError(
        f"{redacted(checkpoint)} is not the checkpoint location of a streaming query: it has no offset log",
        remedy="give the checkpointLocation of the query that writes the state",
    )


def _is_there(target: Store, name: CheckpointName, *, query: bool) -> bool:
    """Whether a savepoint of this checkpoint is there and holds what is asked for."""
    folder = savepoint_folder(name)
    if METADATA not in target.list(folder):
        return False
    return not query or read_savepoint(target, folder).metadata.query is not None


def _check_unclaimed(target: Store, name: CheckpointName) -> None:
    folder = savepoint_folder(name)
    owner = mark_of(target, folder)
    if owner is not None:
        raise StateLocationError(
            f"{target.location}/{folder} is a savepoint of this checkpoint already; the query whose source "
            f"{owner.uid} has its state in {owner.state}/{owner.lineage} has claimed it and will delete it",
            remedy="give another directory",
        )


def _parents(state: str) -> list[str]:
    parent = state.rstrip("/").rpartition("/")[0]
    return [folder for folder in (parent, parent.rpartition("/")[0]) if folder.rpartition("/")[2]]


def _only(
    named: Sequence[tuple[str, CheckpointName]], state: str, lineage: str | None, *, any_of_them: bool
) -> tuple[str, CheckpointName]:
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
