"""Locates a query's state and the newest complete checkpoint in it. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import MissingStateError, StateLocationError
from ..file_systems.paths import redacted
from ..snapshots import file_names
from ..snapshots.file_names import CheckpointName
from ..snapshots.locations import chosen_lineage, find_lineages, lineages_in
from ..snapshots.spark_checkpoint import is_spark_checkpoint, newest_committed
from ..snapshots.store import Store, open_store
from ..snapshots.stored_lineage import StoredLineage


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestBatch:
    """The newest committed batch of a query.

    Attributes:
        checkpoint: the query's Spark checkpoint location.
        named: lineage and checkpoint of each source whose state is in files.
    """

    checkpoint: str
    batch_id: int
    named: tuple[tuple[str, CheckpointName], ...]


def newest_batch(state: str, checkpoint: str | None, options: dict[str, Any]) -> NewestBatch | None:
    """The newest committed batch of the query; None if Spark's checkpoint is not known.

    Args:
        checkpoint: the query's Spark checkpoint location; None to look for it above ``state``.

    Raises:
        StateLocationError: ``checkpoint`` is not a Spark checkpoint.
        MissingStateError: no batch is committed yet.
    """
    parent = state.rstrip("/").rpartition("/")[0]
    above = [folder for folder in (parent, parent.rpartition("/")[0]) if folder.rpartition("/")[2]]
    for location in above if checkpoint is None else [checkpoint]:
        store = open_store(location, options)
        if is_spark_checkpoint(store):
            batch = newest_committed(store)
            named = [
                (offset.lineage, offset.name)
                for offset in batch.offsets.values()
                if offset.lineage is not None and offset.name is not None
            ]
            return NewestBatch(checkpoint=location, batch_id=batch.batch_id, named=tuple(named))
    if checkpoint is None:
        return None
    raise StateLocationError(
        f"{redacted(checkpoint)} is not the checkpoint location of a streaming query: it has no offset log",
        remedy="give the checkpointLocation of the query that writes the state",
    )


def surely_newest_batch(state: str, checkpoint: str | None, options: dict[str, Any]) -> NewestBatch:
    """As :func:`newest_batch`, but refuses a query whose Spark checkpoint is not known."""
    batch = newest_batch(state, checkpoint, options)
    if batch is None:
        raise StateLocationError(
            f"the checkpoint location of the query with its state in {redacted(state)} is not known",
            remedy="give the query's checkpointLocation (--checkpoint-location)",
        )
    return batch


def state_store(state: str, options: dict[str, Any]) -> Store:
    """The store at a state location.

    Raises:
        StateLocationError: ``state`` is a lineage in one.
    """
    store = open_store(state, options)
    if file_names.SOURCE_FILE in store.list(""):
        raise StateLocationError(
            f"{redacted(state)} is a lineage, not a state location",
            remedy="give the directory that contains it, and its name as the lineage (--lineage)",
        )
    return store


def lineage_of(state: str, batch: NewestBatch | None, lineage: str | None, store: Store) -> str:
    """The name of the query's only lineage, or of ``lineage``.

    Raises:
        StateLocationError: there is none, or there are several.
    """
    if batch is not None:
        return one_source(batch.named, state, lineage, store)[0]
    lineages = lineages_in(store, store.list(""))
    if lineages and (lineage is not None or len(lineages) == 1):
        return chosen_lineage(lineages, lineage, state)
    raise StateLocationError(
        f"{redacted(state)} contains {len(lineages)} lineages: {', '.join(lineages) or 'none'}",
        remedy="choose one by its lineage (--lineage), or give the query's Spark checkpoint "
        "(--checkpoint-location)"
        if lineages
        else "give the stateLocation of the query",
    )


def one_source(
    named: Sequence[tuple[str, CheckpointName]],
    state: str,
    lineage: str | None,
    store: Store,
    *,
    any_of_them: bool = False,
) -> tuple[str, CheckpointName]:
    """Lineage and checkpoint of the only source, of ``lineage``, or of any source if ``any_of_them``.

    Raises:
        MissingStateError, StateLocationError: there is none, or there are several and one is required, or
            its state is not in ``store``.
        OptionError: there is no lineage ``lineage``.
    """
    if lineage is not None and named:
        lineage = chosen_lineage([name for name, _ in named], lineage, state)
    matching = [item for item in named if lineage in (None, item[0])]
    if len(matching) == 1 or (matching and any_of_them):
        if not StoredLineage(store, matching[0][0]).names():
            raise StateLocationError(
                f"the lineage {matching[0][0]}, which the query's checkpoint names, is not in the state "
                f"location {redacted(state)}",
                remedy="give the stateLocation (--state) and the checkpointLocation (--checkpoint-location) "
                "of the same query",
            )
        return matching[0]
    if not matching:
        raise MissingStateError(
            f"the query's last batch refers to no state in {redacted(state)}",
            remedy="state inside the offsets needs no savepoint: copy the checkpoint; or give the state "
            "location and the lineage of the source",
        )
    raise StateLocationError(
        f"the query has several sources with state: {', '.join(sorted(item[0] for item in matching))}",
        remedy="choose one by its lineage (--lineage)",
    )


def surely_complete(store: Store, lineage: str) -> CheckpointName:
    """The newest checkpoint that is known to be complete without Spark's log.

    Raises:
        MissingStateError: there is none.
    """
    name = StoredLineage(store, lineage).line().newest_complete
    if name is not None:
        return name
    raise MissingStateError(
        f"no checkpoint of {lineage} is known to be complete",
        remedy="give the query's Spark checkpoint location (--checkpoint-location), which names "
        "complete checkpoints",
    )


def checkpoint_of(query: Any) -> str:
    """The checkpoint location of a query, which only the query's JVM object provides."""
    in_jvm = getattr(query, "_jsq", None)
    if in_jvm is None:
        raise StateLocationError(
            "the query's state location is not known: Spark Connect does not provide it",
            remedy='pass it: stop_with_savepoint(query, target, state="<stateLocation>")',
        )
    return str(in_jvm.streamingQuery().resolvedCheckpointRoot())


def state_in(checkpoint: str, options: dict[str, Any]) -> str:
    locations = {lineage.parent for lineage in find_lineages(checkpoint, options)} - {None}
    if len(locations) != 1:
        raise StateLocationError(
            f"the Spark checkpoint {redacted(checkpoint)} contains {len(locations)} state locations",
            remedy='choose one: state="<stateLocation>"'
            if locations
            else "state inside the offsets needs no savepoint: copy the checkpoint",
        )
    return str(locations.pop())
