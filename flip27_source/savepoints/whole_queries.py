"""Savepoints of whole queries: Spark's checkpoint and the state of the sources, and forks of the query."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import MissingStateError, StateLocationError
from ..file_systems.paths import canonical_path, redacted
from ..segment import content_digest
from ..snapshots import file_names
from ..snapshots.documents import encode_source
from ..snapshots.file_names import CheckpointName
from ..snapshots.spark_checkpoint import COMMITS, METADATA_FILE, OFFSETS, files_of_batch, is_spark_checkpoint
from ..snapshots.store import Store, open_store
from .format import (
    QUERY,
    SOURCES,
    Savepoint,
    StoredQuery,
    open_savepoint_at,
    read_savepoint,
    savepoint_folder,
    write_savepoint,
)
from .query_state import NewestBatch

_TRIES = 3
_UNDER_WAY = b"a query is being restored from"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredQuery:
    """A query that can be started from a savepoint.

    Attributes:
        checkpoint_location: for ``.option("checkpointLocation", ...)`` of the sink.
        state_location: for ``.option("stateLocation", ...)`` of every flip27 source.
        batch_id: Spark's batch after which the query continues.
    """

    checkpoint_location: str
    state_location: str
    batch_id: int


def copy_query(
    batch: NewestBatch,
    others: Sequence[tuple[str, CheckpointName]],
    state: Store,
    directory: str,
    storage_options: Mapping[str, Any],
) -> StoredQuery:
    """Copy Spark's checkpoint after a batch, and the state of the query's other sources, into a savepoint.

    The query may run: files of the batch no longer change. Spark may delete files of older batches in the
    meantime, but they are not needed.

    Raises:
        MissingStateError: Spark has deleted the batch itself in the meantime.
    """
    target = open_store(directory, storage_options)
    for _ in range(_TRIES):
        files = _copied(batch, target, storage_options)
        if files is not None:
            break
    else:
        raise MissingStateError(
            f"files of batch {batch.batch_id} in {redacted(batch.checkpoint)} vanished during the copy",
            remedy="try again, or raise spark.sql.streaming.minBatchesToRetain, because the batches of the "
            "query are short",
        )
    for lineage, name in others:
        beside = open_store(f"{directory}/{SOURCES}/{lineage}", storage_options)
        write_savepoint(state, lineage, name, beside, created_ms=now_ms())
    folders = [f"{lineage}/{savepoint_folder(name)}" for lineage, name in others]
    return StoredQuery(batch=batch.batch_id, files=files, sources=folders)


def is_of_batch(stored: StoredQuery, batch: NewestBatch, storage_options: Mapping[str, Any]) -> bool:
    """Whether a stored query is this one after this batch; a fork has another id and other offsets."""
    source = open_store(batch.checkpoint, storage_options)
    names = (METADATA_FILE, f"{OFFSETS}/{batch.batch_id}")
    return stored.batch == batch.batch_id and all(
        stored.files.get(name) == content_digest(source.read(name)) for name in names
    )


def restore_query(
    savepoint: str,
    checkpoint_location: str,
    *,
    state: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> RestoredQuery:
    """Create a checkpoint location from which a savepoint's query can be started, as a fork.

    To Spark the fork is a different query with its own id. The call may be repeated if it was interrupted.

    Args:
        savepoint: a savepoint that was created with ``query=True``.
        checkpoint_location: a new directory.
        state: the sources' state location; ``<checkpoint_location>/flip27`` if not given.
        storage_options: options of the file systems, like the source's ``storage.*`` options.

    Raises:
        StateLocationError: the savepoint does not contain a whole query, or the location belongs to a query.
        CorruptStateError, MissingStateError: the savepoint is damaged; nothing can be started.
    """
    options = dict(storage_options or {})
    stored = open_savepoint_at(savepoint, options)
    query = stored.metadata.query
    if query is None:
        raise StateLocationError(
            f"savepoint {stored.location} contains a source and not a whole query",
            remedy='start a new query from it, .option("savepoint", ...); or create a savepoint with --query',
        )
    state = state or f"{checkpoint_location.rstrip('/')}/flip27"
    target, state_store = open_store(checkpoint_location, options), open_store(state, options)
    sources = [stored, *(read_savepoint(stored.store, folder) for folder in stored.source_folders)]
    marker = _under_way(stored, canonical_path(state))
    _check_free(target, state_store, sources, marker)
    # Spark cannot parse this metadata, so a query that is started too early fails.
    target.replace(METADATA_FILE, marker)
    for source in sources:
        _write_lineage(source, state_store)
    # Without its offsets, an interrupted copy is not yet the checkpoint of a query.
    logs = (f"{OFFSETS}/", f"{COMMITS}/")
    for name in sorted(query.files, key=lambda name: (name.startswith(logs), name)):
        if name != METADATA_FILE:
            data = stored.checked_file(f"{QUERY}/{name}", query.files[name])
            target.replace(file_names.checked_relative(name), data)
    target.replace(METADATA_FILE, msgspec.json.encode({"id": str(uuid.uuid4())}))
    return RestoredQuery(checkpoint_location=checkpoint_location, state_location=state, batch_id=query.batch)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _copied(batch: NewestBatch, target: Store, storage_options: Mapping[str, Any]) -> dict[str, str] | None:
    """Copy all files; return their digests by name, or None if a file was deleted before it was copied."""
    source = open_store(batch.checkpoint, storage_options)
    digests = {}
    try:
        for name in files_of_batch(batch.checkpoint, storage_options, batch.batch_id):
            data = source.read(name)
            target.replace(f"{QUERY}/{name}", data)
            digests[name] = content_digest(data)
        # While Spark keeps a batch, it keeps the state of the batch.
        source.read(f"{COMMITS}/{batch.batch_id}")
    except MissingStateError:
        return None
    return digests


def _check_free(target: Store, state: Store, sources: Sequence[Savepoint], marker: bytes) -> None:
    has_metadata = METADATA_FILE in target.list("")
    existing = target.read(METADATA_FILE) if has_metadata else b""
    if existing == marker:
        return
    if existing.startswith(_UNDER_WAY):
        raise StateLocationError(
            f"a restore in {target.location} was interrupted, of another savepoint or with another state "
            "location: its files are there",
            remedy="repeat that restore, or give a new directory (and a new state location)",
        )
    if has_metadata or is_spark_checkpoint(target):
        raise StateLocationError(
            f"{target.location} is already the checkpoint location of a query", remedy="give a new directory"
        )
    taken = [item.metadata.lineage for item in sources if state.list(item.metadata.lineage)]
    if taken:
        raise StateLocationError(
            f"{state.location} contains state of the savepoint's own query: {', '.join(taken)}",
            remedy="give the fork its own state location",
        )


def _write_lineage(savepoint: Savepoint, state: Store) -> None:
    lineage = file_names.checked_lineage_name(savepoint.metadata.lineage)
    for name in savepoint.files():
        folder, _, _ = name.partition("/")
        if folder in (file_names.SEGMENTS, file_names.REPORTS):
            state.replace(f"{lineage}/{name}", savepoint.store.read(f"{savepoint.folder}/{name}"))
    state.replace(file_names.source_file(lineage), encode_source(savepoint.document.source))
    state.replace(file_names.checkpoint_file(lineage, savepoint.name), savepoint.data)


def _under_way(savepoint: Savepoint, state: str) -> bytes:
    # Savepoints of one checkpoint have the same folder, whichever batch of the query they contain.
    digest = content_digest(msgspec.json.encode([savepoint.metadata, state]))
    return _UNDER_WAY + f" {savepoint.folder} {digest}\n".encode()
