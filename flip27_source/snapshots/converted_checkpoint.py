"""A Spark checkpoint in which Spark's file source replaces a flip27 source."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..errors import MissingStateError, StateError, StateLocationError
from .file_names import CheckpointName
from .spark_checkpoint import (
    COMMITS,
    METADATA_FILE,
    OFFSETS,
    files_of_batch,
    is_spark_checkpoint,
    newest_planned,
    offsets_replaced,
)
from .spark_file_log import LoggedFile, file_of_log
from .store import Store, open_store

_LOG_OFFSET = 1
_UNDER_WAY = b"a checkpoint is being written\n"


def check_convertible(location: str, storage_options: Mapping[str, Any], batch_id: int) -> int:
    """The number of the last batch in the new checkpoint.

    If Spark has planned a batch that it has not committed, the number of that batch is used, so that a sink
    that has written part of the batch does not skip the next one.

    Raises:
        StateError: the query has operators with state, which belongs to another batch number.
    """
    number = max(1, newest_planned(open_store(location, storage_options)))
    names = files_of_batch(location, storage_options, batch_id)
    if number != batch_id and any(name.startswith("state/") for name in names):
        raise StateError(
            f"the query has planned batch {number} and not committed it, and its operators have state",
            remedy="let the query commit another batch first",
        )
    return number


def write_converted(
    target: Store,
    location: str,
    storage_options: Mapping[str, Any],
    *,
    batch_id: int,
    replaced: CheckpointName,
    files: Iterable[LoggedFile],
) -> int:
    """Write the checkpoint; return the number of its last batch. May be called again if it was interrupted.

    Args:
        target: an empty directory.
        location: the checkpoint location of our query. batch_id: its newest committed batch.
        replaced: the checkpoint of our source in the offsets of that batch.
        files: the files that our source has read.

    Raises:
        StateLocationError: ``target`` belongs to a query. StateError: see :func:`check_convertible`.
    """
    number = check_convertible(location, storage_options, batch_id)
    _check_free(target)
    # Spark cannot parse this metadata, so a query that is started too early fails.
    target.replace(METADATA_FILE, _UNDER_WAY)
    origin = open_store(location, storage_options)
    before, _ = offsets_replaced(origin, batch_id, replaced, _offset(0))
    offsets, name = offsets_replaced(origin, batch_id, replaced, _offset(_LOG_OFFSET))
    # Spark reads the last batch of the log again at the first start, to plan it, so it contains few files.
    logged = [msgspec.structs.replace(file, batch=0) for file in files]
    last = [msgspec.structs.replace(file, batch=_LOG_OFFSET) for file in logged[-1:]]
    for batch, entries in ((0, logged[:-1]), (_LOG_OFFSET, last)):
        target.replace(f"sources/{name}/{batch}", file_of_log(entries))
    # The logs of other sources, and the state of operators, stay as they are.
    for file in files_of_batch(location, storage_options, batch_id):
        if file.startswith(("state/", "sources/")) and not file.startswith(f"sources/{name}/"):
            target.replace(file, origin.read(file))
    commit = origin.read(f"{COMMITS}/{batch_id}")
    for batch, data in ((number - 1, before), (number, offsets)):
        target.replace(f"{OFFSETS}/{batch}", data)
        target.replace(f"{COMMITS}/{batch}", commit)
    target.replace(METADATA_FILE, msgspec.json.encode({"id": str(uuid.uuid4())}))
    return number


def _offset(batch: int) -> bytes:
    return msgspec.json.encode({"logOffset": batch})


def _check_free(target: Store) -> None:
    try:
        if target.read(METADATA_FILE) == _UNDER_WAY:
            return
    except MissingStateError:
        if not is_spark_checkpoint(target) and not target.list("sources"):
            return
    raise StateLocationError(
        f"{target.location} is already the checkpoint location of a query", remedy="give a new directory"
    )
