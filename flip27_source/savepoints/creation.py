"""Creating savepoints: a running query takes one at its next batch boundary; a stopped query is copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import StateLocationError, StopError
from ..snapshots.store import Store, open_store
from ..snapshots.stored_lineage import StoredLineage
from .claims import mark_of
from .format import METADATA, read_savepoint, savepoint_folder, write_savepoint
from .query_state import (
    NewestBatch,
    checkpoint_of,
    lineage_of,
    newest_batch,
    one_source,
    state_in,
    state_store,
    surely_complete,
    surely_newest_batch,
)
from .running_queries import CreatedSavepoint, Progress, made_by_driver
from .whole_queries import copy_query, is_of_batch, now_ms


def create(
    *,
    state: str,
    to: str,
    checkpoint: str | None = None,
    lineage: str | None = None,
    query: bool = False,
    copy: bool = False,
    timeout_s: float = 600.0,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> CreatedSavepoint:
    """Create a savepoint of a running or stopped query.

    If the query's driver is alive, it finds the request within ``requestInterval`` and turns the next
    checkpoint into a savepoint: at the next batch boundary, or at once if the stream is idle. If no driver is
    alive, or the driver dies or cannot write to ``to``, the newest complete checkpoint is copied.

    Args:
        state: the query's ``stateLocation``.
        to: directory in which the savepoint gets its own directory. A running query must reach the same
            directory by this path or URL, with its own ``storage.*`` options.
        checkpoint: the query's Spark checkpoint location, which contains the last committed
            batch. Not needed if ``state`` is inside it.
        lineage: the directory name of the query's lineage, if several queries share a state location.
        query: include the whole query: Spark's checkpoint after the newest committed batch with the
            operators' state, and the state of other flip27 sources. See :func:`restore_query`. The savepoint
            is always a copy.
        copy: copy the newest complete checkpoint at once, whether or not the query runs. If the
            directory already contains a savepoint of this checkpoint, that one is kept and returned.
        timeout_s: how long to wait for a running query, in seconds.
        progress: called with texts about what the call is waiting for.
        storage_options: options of the file systems, like the source's ``storage.*`` options.

    Raises:
        StateLocationError, MissingStateError, CorruptStateError: the savepoint could not be created. After
            a timeout the request is withdrawn, unless the driver is already handling it.
    """
    options = dict(storage_options or {})
    if not (query or copy):
        made = made_by_driver(state, to, checkpoint, lineage, options, timeout_s, progress)
        if made is not None:
            return made
    return _copied(state, to, checkpoint, lineage, options, query=query)


def stop_with_savepoint(
    query: Any,
    target: str,
    *,
    state: str | None = None,
    checkpoint: str | None = None,
    lineage: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> CreatedSavepoint:
    """Stop a query, and create a savepoint of exactly the batches that it has committed.

    Args:
        query: the StreamingQuery.
        target, checkpoint, lineage, storage_options: see :func:`create`.
        state: the query's ``stateLocation``; not needed if it is inside the checkpoint location of a
            query that runs in this process (not with Spark Connect).

    Raises:
        StopError: the stop failed; the message names the savepoint, which is complete (S87).
        StateLocationError, MissingStateError: the savepoint could not be created; if the state location
            or the lineage is not known, the query was not stopped.
    """
    options = dict(storage_options or {})
    if state is None:
        checkpoint = checkpoint or checkpoint_of(query)
        state = state_in(checkpoint, options)
    lineage = lineage_of(
        state, newest_batch(state, checkpoint, options), lineage, state_store(state, options)
    )
    failure: Exception | None = None
    try:
        query.stop()
    except Exception as error:  # noqa: BLE001 - raised below, with the savepoint that was created
        failure = error
    made = _copied(state, target, checkpoint, lineage, options)
    if failure is not None:
        raise StopError(
            f"the query could not be stopped: {failure}. A savepoint was created at {made.directory}",
            remedy="stop the query by other means; batches that it still runs are not in the savepoint",
        ) from failure
    return made


def _copied(
    state: str,
    to: str,
    checkpoint: str | None,
    lineage: str | None,
    options: dict[str, Any],
    *,
    query: bool = False,
) -> CreatedSavepoint:
    source, target = state_store(state, options), open_store(to, options)
    newest = surely_newest_batch if query else newest_batch
    batch = newest(state, checkpoint, options)
    if batch is not None:
        if query:
            _check_is_together(source, batch)
        folder, name = one_source(batch.named, state, lineage, source, any_of_them=query)
    else:
        folder = lineage_of(state, None, lineage, source)
        name = surely_complete(source, folder)
    into = savepoint_folder(name, batch.batch_id if query and batch is not None else None)
    _check_unclaimed(target, into)
    directory = f"{to.rstrip('/')}/{into}"
    if not _is_there(target, into, batch if query else None, options):
        whole = None
        if query and batch is not None:
            others = [item for item in batch.named if item[0] != folder]
            whole = copy_query(batch, others, source, directory, options)
        write_savepoint(source, folder, name, target, created_ms=now_ms(), query=whole)
    return CreatedSavepoint(
        directory=directory,
        checkpoint_id=name.checkpoint_id,
        batch_id=None if batch is None else batch.batch_id,
    )


def _check_is_together(store: Store, batch: NewestBatch) -> None:
    """Refuse a whole query whose sources have different state locations."""
    elsewhere = [lineage for lineage, _ in batch.named if not StoredLineage(store, lineage).names()]
    if elsewhere and len(elsewhere) < len(batch.named):
        raise StateLocationError(
            f"the state of the query's sources {', '.join(elsewhere)} is not in {store.location}",
            remedy="a savepoint of a whole query needs all of its flip27 sources in one stateLocation; "
            "create a savepoint of each source instead, without query (--query)",
        )


def _is_there(target: Store, folder: str, batch: NewestBatch | None, options: dict[str, Any]) -> bool:
    """Whether the savepoint exists; ``batch``: the batch of the whole query that it must contain.

    Raises:
        StateLocationError: it contains another query, such as the one that this query is a fork of.
    """
    if METADATA not in target.list(folder):
        return False
    if batch is None:
        return True
    query = read_savepoint(target, folder).metadata.query
    if query is not None and is_of_batch(query, batch, options):
        return True
    raise StateLocationError(
        f"{target.location}/{folder} is a savepoint of another query that shares this checkpoint",
        remedy="give another directory",
    )


def _check_unclaimed(target: Store, folder: str) -> None:
    owner = mark_of(target, folder)
    if owner is not None:
        raise StateLocationError(
            f"{target.location}/{folder} is already a savepoint of this checkpoint; the query {owner} has "
            "claimed it and will delete it",
            remedy="give another directory",
        )
