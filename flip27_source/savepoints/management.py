"""Managing savepoints: list, describe, verify and delete savepoints. It runs no authors' code."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import (
    CorruptStateError,
    Flip27Error,
    IncompatibleStateError,
    MissingStateError,
    StateLocationError,
)
from ..file_systems.paths import redacted
from ..snapshots import file_names
from ..snapshots.documents import SourceIdentity, timestamp
from ..snapshots.locations import names_in
from ..snapshots.report_contents import decode_stored_report
from ..snapshots.segment_files import check_packed
from ..snapshots.store import open_store
from ..snapshots.stored_lineage import StoredLineage
from .claims import CLAIM, files_of, mark_of
from .format import (
    METADATA,
    MOST_METADATA_BYTES,
    QUERY,
    READERS,
    Savepoint,
    open_savepoint_at,
    read_savepoint,
)

READABLE, DAMAGED, UNFINISHED = "readable", "damaged", "unfinished"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointEntry:
    """One savepoint in a directory.

    Attributes:
        directory: its directory; contains no secret.
        status: ``readable``; ``damaged``: its ``_metadata`` cannot be read; ``unfinished``: it has no
            ``_metadata``, because its creation is running, or its creation or deletion was interrupted.
        problem: why it is damaged; None if it is not.
        created_at: when it was created.
        checkpoint_id, lineage, uid: its checkpoint, lineage and source. All are None if it is not readable.
        claimed_by: the lineage that owns the savepoint and will delete it; None if there is none.
    """

    directory: str
    status: str
    problem: str | None = None
    created_at: dt.datetime | None = None
    checkpoint_id: int | None = None
    lineage: str | None = None
    uid: str | None = None
    claimed_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointDetails:
    """A description of a savepoint.

    Attributes:
        checkpoint_id, digest: the checkpoint in the savepoint.
        checkpoint_at: when the checkpoint was created.
        created_at: when the savepoint was created.
        lineage: the checkpoint's lineage.
        source: the source to which the savepoint belongs.
        live, finished, quarantined: numbers of splits.
        segments, reports: numbers of files besides ``_metadata``.
        query_batch: the newest batch of Spark's checkpoint in a savepoint of a whole query; else None.
        claimed_by: the lineage that owns the savepoint and will delete it; None if there is none.
    """

    directory: str
    checkpoint_id: int
    digest: str
    checkpoint_at: dt.datetime
    created_at: dt.datetime
    lineage: str
    source: SourceIdentity
    live: int
    finished: int
    quarantined: int
    segments: int
    reports: int
    query_batch: int | None
    claimed_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedFile:
    """One verified file of a savepoint.

    Attributes:
        name: its path relative to the savepoint.
        bytes: size of its unpacked content; None if unknown.
        problem: what is wrong with the file; None if the file is correct.
    """

    name: str
    bytes: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of checking every file of a savepoint."""

    directory: str
    files: tuple[VerifiedFile, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every file is correct."""
        return not self.damaged

    @property
    def damaged(self) -> tuple[VerifiedFile, ...]:
        """The files that are missing or damaged."""
        return tuple(file for file in self.files if file.problem is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedSavepoint:
    """A deleted savepoint: its directory, and the number of its files."""

    directory: str
    files: int


def list_savepoints(directory: str, storage_options: Mapping[str, Any] | None = None) -> list[SavepointEntry]:
    """The savepoints in a directory, ordered by name.

    Args:
        directory: the ``to`` of :func:`create`.
        storage_options: options of the file system, like the source's ``storage.*`` options.

    Raises:
        StateLocationError: the directory, or its bucket, does not exist or cannot be listed.
    """
    store = open_store(directory, storage_options or {})
    entries = []
    folders = store.list("")
    if not folders and not store.exists():
        raise StateLocationError(
            f"{redacted(directory)} does not exist",
            remedy="give the directory in which savepoints were created",
        )
    for folder in folders:
        names = names_in(store, folder)
        location = f"{directory.rstrip('/')}/{folder}"
        if METADATA in names:
            entries.append(_entry(location, storage_options))
        elif folder.startswith("savepoint-") and any(names_in(store, f"{folder}/{name}") for name in names):
            entries.append(SavepointEntry(directory=redacted(location), status=UNFINISHED))
    return entries


def describe(location: str, storage_options: Mapping[str, Any] | None = None) -> SavepointDetails:
    """Describe a savepoint.

    Args:
        location: its directory, with or without a slash, or its ``_metadata`` file.

    Raises:
        StateLocationError, CorruptStateError, IncompatibleStateError: the savepoint cannot be opened.
    """
    savepoint = open_savepoint_at(location, dict(storage_options or {}))
    metadata, document = savepoint.metadata, savepoint.document
    owner = mark_of(savepoint.store, savepoint.folder)
    ledger = document.raw.ledger
    return SavepointDetails(
        directory=savepoint.location,
        checkpoint_id=savepoint.name.checkpoint_id,
        digest=savepoint.name.digest,
        checkpoint_at=timestamp(document.timestamp_ms),
        created_at=timestamp(metadata.created_ms),
        lineage=metadata.lineage,
        source=document.source,
        live=len(ledger.live),
        finished=ledger.finished,
        quarantined=ledger.quarantined_count,
        segments=len(document.segments),
        reports=len(metadata.reports),
        query_batch=None if metadata.query is None else metadata.query.batch,
        claimed_by=None if owner is None else owner.lineage,
    )


def verify(location: str, storage_options: Mapping[str, Any] | None = None) -> Verification:
    """Read every file of a savepoint, and check each against its digest.

    Raises:
        StateLocationError: there is no savepoint.
    """
    try:
        savepoint = open_savepoint_at(location, dict(storage_options or {}))
    except (CorruptStateError, IncompatibleStateError) as error:
        broken = VerifiedFile(name=METADATA, problem=error.what)
        return Verification(directory=redacted(location), files=(broken,))
    return Verification(directory=savepoint.location, files=tuple(_verified(savepoint)))


def delete(location: str, storage_options: Mapping[str, Any] | None = None) -> DeletedSavepoint:
    """Delete a savepoint; ``_metadata`` first, so that what remains after an interruption is not a savepoint.

    If its directory contains other files, these files and the directory are kept.

    Raises:
        StateLocationError, CorruptStateError, IncompatibleStateError: this library cannot read the
            savepoint, a query owns it, or it or a folder in it is a link; nothing was deleted.
    """
    savepoint = open_savepoint_at(location, dict(storage_options or {}))
    store, folder = savepoint.store, savepoint.folder
    owner = mark_of(store, folder)
    if owner is not None:
        raise StateLocationError(
            f"the savepoint {savepoint.location} is claimed by the query {owner}",
            remedy="keep the savepoint: that query deletes it when it no longer needs it; if the query no "
            f"longer exists, delete the file {CLAIM} first",
        )
    names = [METADATA, *files_of(savepoint)]
    for inside in {f"{folder}/{name}".rpartition("/")[0] for name in names}:
        store.check_inside(f"{inside}/")
    for name in names:
        store.delete(f"{folder}/{name}")
    store.remove_empty(folder)
    return DeletedSavepoint(directory=savepoint.location, files=len(names))


def _entry(location: str, storage_options: Mapping[str, Any] | None) -> SavepointEntry:
    try:
        details = describe(location, storage_options)
    except Flip27Error as error:
        return SavepointEntry(directory=redacted(location), status=DAMAGED, problem=error.what)
    return SavepointEntry(
        directory=details.directory,
        status=READABLE,
        created_at=details.created_at,
        checkpoint_id=details.checkpoint_id,
        lineage=details.lineage,
        uid=details.source.uid,
        claimed_by=details.claimed_by,
    )


def _verified(savepoint: Savepoint) -> Iterator[VerifiedFile]:
    yield _looked_at(METADATA, _metadata_bytes, savepoint)
    stored, sizes = savepoint.stored(), savepoint.document.segment_bytes
    for name in sorted(savepoint.document.segments):
        yield _looked_at(f"{file_names.SEGMENTS}/{name}", _segment_bytes, stored, name, sizes.get(name))
    for name in savepoint.metadata.reports:
        file = f"{file_names.REPORTS}/{file_names.checked_report_name(name)}"
        yield _looked_at(file, _report_bytes, savepoint, file)
    query = savepoint.metadata.query
    further = ((READERS, savepoint.metadata.readers), (QUERY, {} if query is None else query.files))
    for folder, digests in further:
        for name, digest in sorted(digests.items()):
            file = f"{folder}/{file_names.checked_relative(name)}"
            yield _looked_at(file, _file_bytes, savepoint, file, digest)
    for folder in savepoint.source_folders:
        yield from _verified_source(savepoint, folder)


def _verified_source(savepoint: Savepoint, folder: str) -> Iterator[VerifiedFile]:
    """The files of the savepoint of another source of the query."""
    inside = folder.removeprefix(f"{savepoint.folder}/")
    try:
        further = read_savepoint(savepoint.store, folder)
    except Flip27Error as error:
        yield VerifiedFile(name=f"{inside}/{METADATA}", problem=error.what)
        return
    for file in _verified(further):
        yield replace(file, name=f"{inside}/{file.name}")


def _looked_at(name: str, content_bytes: Callable[..., int], *arguments: Any) -> VerifiedFile:
    try:
        return VerifiedFile(name=name, bytes=content_bytes(*arguments))
    except (CorruptStateError, MissingStateError, IncompatibleStateError) as error:
        return VerifiedFile(name=name, problem=error.what)


def _metadata_bytes(savepoint: Savepoint) -> int:
    for milliseconds in (savepoint.metadata.created_ms, savepoint.document.timestamp_ms):
        timestamp(milliseconds)
    return len(savepoint.store.read(f"{savepoint.folder}/{METADATA}", MOST_METADATA_BYTES))


def _segment_bytes(stored: StoredLineage, name: str, size: int | None) -> int:
    return check_packed(name, stored.packed_segment(name, size), size)


def _file_bytes(savepoint: Savepoint, file: str, digest: str) -> int:
    return len(savepoint.checked_file(file, digest))


def _report_bytes(savepoint: Savepoint, file: str) -> int:
    data = savepoint.store.read(f"{savepoint.folder}/{file}")
    decode_stored_report(file, data)
    return len(data)
