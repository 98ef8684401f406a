"""Savepoints: a checkpoint in its own directory, which is complete, movable and never cleaned up.

<target>/savepoint-<id>-<digest>/, and savepoint-<id>-<digest>-batch-<n>/ for a whole query
  segments/<digest>.<kind>.<form>    as in a lineage
  reports/<id>-<digest>.<subtask>.json
  readers/<subtask>/...              files that readers have added
  query/...                          Spark's checkpoint, in a savepoint of a whole query
  sources/savepoint-...              savepoints of the query's other sources
  _metadata                          the document; written last, so its presence is the commit mark
  _claim                             the query that owns the savepoint and will delete it (see claims)

Documents are immutable, so a complete one can be copied into a savepoint at any time, without the help of a
running query. A savepoint commits nothing, and is not a recovery point of its query (FLINK-5777,
FLINK-25276; scenarios I12, S85).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from ..coordination.subtask_reports import ReportDemand
from ..errors import CorruptStateError, IncompatibleStateError, MissingStateError, StateLocationError
from ..file_systems.paths import refuse_credentials
from ..segment import content_digest
from ..snapshots import file_names
from ..snapshots.documents import MOST_DOCUMENT_BYTES, CheckpointDocument, decode_document
from ..snapshots.file_names import CheckpointName
from ..snapshots.segment_files import check_packed
from ..snapshots.store import Store, open_store
from ..snapshots.stored_lineage import StoredLineage
from ..values.stored_json import compact_json, decode_json, format_of

FORMAT = 1
METADATA = file_names.SAVEPOINT_METADATA
MOST_METADATA_BYTES = 2 * MOST_DOCUMENT_BYTES
QUERY = "query"
READERS = "readers"
SOURCES = "sources"


class StoredQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The query that the source belongs to.

    Attributes:
        batch: the newest batch in Spark's checkpoint.
        files: the digest of each file of the checkpoint, by name below ``query/``.
        sources: savepoints of the query's other sources, by name below ``sources/``.
    """

    batch: int
    files: dict[str, str]
    sources: list[str] = []


class SavepointMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of ``_metadata``; ``readers``: the digest of each file that readers added, by name."""

    format: int
    kind: str
    name: str
    created_ms: int
    lineage: str
    document: msgspec.Raw
    segments: list[str]
    reports: list[str]
    query: StoredQuery | None = None
    readers: dict[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """A complete savepoint.

    Attributes:
        store, folder: its location; ``folder`` has the layout of a lineage.
        name: the name of its checkpoint.
        metadata: the content of its ``_metadata``.
    """

    store: Store
    folder: str
    name: CheckpointName
    document: CheckpointDocument
    metadata: SavepointMetadata

    @property
    def location(self) -> str:
        """Its directory; contains no secret."""
        return f"{self.store.location}/{self.folder}"

    @property
    def data(self) -> bytes:
        """The document as it is stored in a lineage."""
        return msgspec.json.format(bytes(self.metadata.document), indent=-1)

    @property
    def source_folders(self) -> list[str]:
        """The folders of the savepoints of the query's other sources, in the same store."""
        names = [] if self.metadata.query is None else self.metadata.query.sources
        return [f"{self.folder}/{SOURCES}/{file_names.checked_relative(name)}" for name in names]

    def files(self) -> list[str]:
        """All of its files except ``_metadata``, relative to its folder; no name leads out of the folder."""
        segments = [
            f"{file_names.SEGMENTS}/{file_names.checked_segment_name(name)}"
            for name in self.metadata.segments
        ]
        reports = [
            f"{file_names.REPORTS}/{file_names.checked_report_name(name)}" for name in self.metadata.reports
        ]
        query = [] if self.metadata.query is None else sorted(self.metadata.query.files)
        added = [f"{READERS}/{file_names.checked_relative(name)}" for name in sorted(self.metadata.readers)]
        queried = [f"{QUERY}/{file_names.checked_relative(name)}" for name in query]
        return [*segments, *reports, *added, *queried]

    def checked_file(self, file: str, digest: str) -> bytes:
        """The content of a file of Spark's checkpoint or of a reader, by its name in ``files``.

        Raises:
            CorruptStateError: the file does not match its digest.
        """
        data = self.store.read(f"{self.folder}/{file}")
        if content_digest(data) != digest:
            raise CorruptStateError(
                f"{file} of savepoint {self.location} does not match its digest ({len(data)} bytes)",
                remedy="copy the savepoint again, with all of its files",
            )
        return data

    def stored(self) -> StoredLineage:
        """Its document, segments and reports, as those of a lineage."""
        return StoredLineage(self.store, self.folder, {self.name: self.data})


def write_savepoint(
    source: Store,
    lineage: str,
    name: CheckpointName,
    target: Store,
    *,
    created_ms: int,
    query: StoredQuery | None = None,
) -> Savepoint:
    """Copy a complete checkpoint into a new directory.

    Args:
        query: the query of the source; its files are already in the directory, which its batch names.

    Raises:
        MissingStateError: the checkpoint is not complete, or was cleaned up in the meantime.
        CorruptStateError: a file of the checkpoint is damaged.
    """
    stored = StoredLineage(source, lineage)
    data = stored.document_bytes(name)
    document = decode_document(data, name)
    folder = savepoint_folder(name, None if query is None else query.batch)
    sizes = document.segment_bytes
    for segment in document.segments:
        size = sizes.get(segment)
        packed = stored.packed_segment(segment, size)
        check_packed(segment, packed, size)
        target.ensure(file_names.segment_file(folder, segment), packed)
    reports = [file_names.report_file("", name, subtask) for subtask in reported(stored, document, name)]
    for file in reports:
        target.ensure(f"{folder}{file}", source.read_surely(f"{lineage}{file}"))
    metadata = SavepointMetadata(
        format=FORMAT,
        kind="savepoint",
        name=str(name),
        created_ms=created_ms,
        lineage=lineage,
        document=msgspec.Raw(data),
        segments=sorted(document.segments),
        reports=sorted(file.rpartition("/")[2] for file in reports),
        query=query,
        readers=_added(target, folder),
    )
    written = msgspec.json.encode(metadata)
    readable = msgspec.json.format(written, indent=2)
    if len(readable) > MOST_METADATA_BYTES:
        readable = written
    target.replace(f"{folder}/{METADATA}", readable)
    return Savepoint(store=target, folder=folder, name=name, document=document, metadata=metadata)


def savepoint_folder(name: CheckpointName, batch_id: int | None = None) -> str:
    """The name of a savepoint's directory.

    Args:
        batch_id: for a whole query, its batch: the source may stay at a checkpoint while the query goes on.
    """
    return f"savepoint-{name}" if batch_id is None else f"savepoint-{name}-batch-{batch_id}"


def open_savepoint(location: str, open_at: Callable[[str], Store]) -> Savepoint:
    """The savepoint at a directory, with or without a slash, or at its ``_metadata`` file.

    Raises: see :func:`read_savepoint`.
    """
    refuse_credentials(location, "savepoint", StateLocationError)
    parent, slash, folder = location.rstrip("/").removesuffix(f"/{METADATA}").rpartition("/")
    return read_savepoint(open_at(parent or ("/" if slash or location[:1] == "/" else ".")), folder)


def read_savepoint(store: Store, folder: str) -> Savepoint:
    """The savepoint in a folder of a store.

    Raises:
        StateLocationError: the folder contains no savepoint.
        CorruptStateError: the savepoint is truncated or altered.
        IncompatibleStateError: this library does not know the savepoint's format.
    """
    location = f"{store.location.rstrip('/')}/{folder}"
    try:
        data = store.read(f"{folder}/{METADATA}", MOST_METADATA_BYTES)
    except MissingStateError:
        raise StateLocationError(
            f"there is no savepoint at {location}: the file {METADATA} does not exist",
            remedy="give the directory printed by `flip27 savepoint create`; a directory without "
            f"{METADATA} is an unfinished savepoint",
        ) from None
    try:
        number = format_of(data)
        if number != FORMAT:
            raise IncompatibleStateError(
                f"the savepoint {location} has format {number}; this library reads {FORMAT}",
                remedy="install the version of flip27-source that wrote the savepoint, or a newer one",
            )
        metadata = decode_json(data, SavepointMetadata)
        # The stored document is indented for readability; its digest was computed without whitespace.
        canonical = compact_json(bytes(metadata.document))
    except msgspec.MsgspecError as error:
        raise CorruptStateError(
            f"the savepoint {location} cannot be read: {error}",
            remedy="copy the directory again, with all of its files",
        ) from error
    name = CheckpointName.parse(metadata.name)
    if name is None:
        raise CorruptStateError(
            f"the savepoint {location} has the invalid name {metadata.name!r}",
            remedy="copy the directory again, with all of its files",
        )
    document = decode_document(canonical, name)
    return Savepoint(store=store, folder=folder, name=name, document=document, metadata=metadata)


def open_savepoint_at(location: str, storage_options: dict[str, Any]) -> Savepoint:
    """The savepoint at a path or fsspec URL, see :func:`open_savepoint`."""
    return open_savepoint(location, lambda parent: open_store(parent, storage_options))


def _added(target: Store, folder: str) -> dict[str, str]:
    """The digests of the files that readers have added to an unfinished savepoint."""
    within = f"{folder}/{READERS}"
    names = [
        f"{subtask}/{name}" for subtask in target.list(within) for name in target.list(f"{within}/{subtask}")
    ]
    return {name: content_digest(target.read(f"{within}/{name}")) for name in names}


def reported(stored: StoredLineage, document: CheckpointDocument, name: CheckpointName) -> tuple[int, ...]:
    """The subtasks that have reported on a document, and late reports.

    Raises:
        MissingStateError: a report that the batch requires is missing.
    """
    subtasks = stored.reports().get(name, ())
    planned = {item.subtask for item in document.raw.plan}
    if document.raw.reports is ReportDemand.REQUIRED and not planned <= set(subtasks):
        raise MissingStateError(
            f"checkpoint {name} is not complete: {len(planned & set(subtasks))} of its {len(planned)} "
            "subtasks have reported",
            remedy="wait for the batch to end; if it has ended, restore the reports from a backup of the "
            "state location, or let the query run another batch with onMissingReport=repeat",
        )
    return subtasks
