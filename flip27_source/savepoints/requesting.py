"""Asking a running query for a savepoint, so that its readers can add to it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from ..errors import Flip27Error, StateLocationError
from ..file_systems import canonical_path, redacted
from ..snapshots.layout import checked_lineage_name
from ..snapshots.savepoint_requests import SavepointRequest, SavepointRequests
from ..snapshots.savepoints import Savepoint, read_savepoint
from ..snapshots.store import Store, open_store
from .create import CreatedSavepoint, lineage_of
from .query import now_ms

_LOOK_EVERY_S = 0.2


def request(
    *,
    state: str,
    to: str,
    checkpoint: str | None = None,
    lineage: str | None = None,
    timeout_s: float = 60.0,
    storage_options: Mapping[str, Any] | None = None,
) -> CreatedSavepoint:
    """Have a running query make a savepoint at its next batch boundary, and wait for it.

    Unlike :func:`create`, which copies the newest complete checkpoint, this makes a checkpoint: at
    once on an idle stream, as soon as the query has looked for requests (``requestInterval``). Its tasks are
    told, and their readers may add files of their own (``context.savepoint_stream``).

    Args:
        state, to, checkpoint, lineage, storage_options: see :func:`create`. ``to`` has to mean the same
            directory to the query, and to be reached with its ``storage.*`` options.
        timeout_s: how long to wait, in seconds.

    Raises:
        StateLocationError: it was not made in time (the request stays, and is answered when the query
            goes on), or the query could not make it.
    """
    options = dict(storage_options or {})
    if redacted(to) != to:
        raise StateLocationError(
            f"the target {redacted(to)} has a user name or password in it, which would be stored",
            remedy="give credentials by the storage.* options of the query and of this call",
        )
    store, target = open_store(state, options), open_store(to, options)
    folder = checked_lineage_name(lineage_of(state, checkpoint, lineage, options))
    before = {found.folder for found in _savepoints_of(folder, target)}
    asked = SavepointRequest(
        request_id=str(uuid.uuid4()), lineage=folder, target=canonical_path(to), requested_ms=now_ms()
    )
    requests = SavepointRequests(store, folder)
    requests.submit(asked)
    _wait(requests, asked.request_id, timeout_s)
    made = [found for found in _savepoints_of(folder, target) if found.folder not in before]
    if not made:
        raise StateLocationError(
            f"the query with the state {store.location}/{folder} could not make the savepoint",
            remedy="the log of its driver says why; check that it can write to " + redacted(to),
        )
    newest = max(made, key=lambda found: found.name)
    return CreatedSavepoint(
        directory=f"{to.rstrip('/')}/{newest.folder}",
        checkpoint_id=newest.name.checkpoint_id,
        batch_id=None,
    )


def _wait(requests: SavepointRequests, request_id: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while request_id in requests.ids():
        if time.monotonic() >= deadline:
            raise StateLocationError(
                f"the savepoint was not made within {timeout_s:g} s; request {request_id} waits in "
                f"{requests.lineage}",
                remedy="it is answered at the query's next batch boundary, which for a stopped query is its "
                "next start; a savepoint of a stopped query needs no asking",
            )
        time.sleep(_LOOK_EVERY_S)


def _savepoints_of(lineage: str, target: Store) -> list[Savepoint]:
    found = []
    for folder in target.list(""):
        try:
            savepoint = read_savepoint(target, folder)
        except Flip27Error:
            continue
        if savepoint.metadata.lineage == lineage:
            found.append(savepoint)
    return found
