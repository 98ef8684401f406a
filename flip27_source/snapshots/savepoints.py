"""Savepoints: a checkpoint in a directory of its own, whole, movable, and never cleaned up.

<target>/savepoint-<id>-<digest>/
  segments/<digest>.<kind>.<form>    as in a lineage
  reports/<id>-<digest>.<subtask>.json
  _metadata                          the document; written last, so its presence is the commit mark

Documents are immutable, so a savepoint can be made of any of them at any time, beside a running
query and without asking it. It commits nothing and is no recovery point of the query that it was
made of (FLINK-5777, FLINK-25276; scenarios I12, S85).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from ..coordination.reports import ReportDemand
from ..errors import CorruptStateError, IncompatibleStateError, MissingStateError, StateLocationError
from ..file_systems import redacted
from . import layout
from .documents import CheckpointDocument, decode_document
from .layout import CheckpointName
from .segments import unpack_segment
from .store import Store, open_store

FORMAT = 1
METADATA = "_metadata"


class _Metadata(msgspec.Struct, kw_only=True):
    """What ``_metadata`` holds."""

    format: int
    kind: str
    name: str
    created_ms: int
    lineage: str
    document: msgspec.Raw
    segments: list[str]
    reports: list[str]


class _Format(msgspec.Struct):
    format: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """A savepoint that is there, whole.

    Attributes:
        store, folder: where it lies: ``folder`` is in the place of a lineage.
        name: of the checkpoint that it was made of.
    """

    store: Store
    folder: str
    name: CheckpointName
    document: CheckpointDocument

    @property
    def location(self) -> str:
        """Its directory; holds no secret."""
        return f"{self.store.location}/{self.folder}"

    def load_segment(self, name: str) -> bytes:
        """The bytes of one of its segments."""
        file = layout.segment_file(self.folder, layout.checked_segment_name(name))
        return unpack_segment(name, self.store.read(file))


def write_savepoint(
    source: Store,
    lineage: str,
    name: CheckpointName,
    target: Store,
    *,
    created_ms: int,
) -> Savepoint:
    """Copy a complete checkpoint into a directory of its own.

    Raises:
        MissingStateError: the checkpoint is not complete, or was cleaned up meanwhile.
    """
    data = source.read(layout.checkpoint_file(lineage, name))
    document = decode_document(data, name)
    folder = f"savepoint-{name}"
    for segment in sorted(document.segments):
        target.create(
            layout.segment_file(folder, segment), source.read(layout.segment_file(lineage, segment))
        )
    reports = _reports(source, lineage, document, name)
    for file in reports:
        target.create(f"{folder}/{layout.REPORTS}/{file}", source.read(f"{lineage}/{layout.REPORTS}/{file}"))
    metadata = _Metadata(
        format=FORMAT,
        kind="savepoint",
        name=str(name),
        created_ms=created_ms,
        lineage=lineage,
        document=msgspec.Raw(data),
        segments=sorted(document.segments),
        reports=reports,
    )
    readable = msgspec.json.format(msgspec.json.encode(metadata), indent=2)
    target.replace(f"{folder}/{METADATA}", readable)
    return Savepoint(store=target, folder=folder, name=name, document=document)


def open_savepoint(location: str, open_at: Callable[[str], Store]) -> Savepoint:
    """The savepoint at a directory, with or without a slash, or at its ``_metadata`` file.

    Raises:
        StateLocationError: there is none.
        CorruptStateError: it is cut off or altered.
        IncompatibleStateError: its format is newer than this library.
    """
    directory = location.rstrip("/").removesuffix(f"/{METADATA}")
    parent, slash, folder = directory.rpartition("/")
    store = open_at(parent or ("/" if slash else "."))
    try:
        data = store.read(f"{folder}/{METADATA}")
    except MissingStateError:
        raise StateLocationError(
            f"there is no savepoint at {redacted(location)}: it holds no file {METADATA}",
            remedy="give the directory that `flip27 savepoint create` has named; one without "
            f"{METADATA} was not finished",
        ) from None
    try:
        found = msgspec.json.decode(data, type=_Format).format
        if found != FORMAT:
            raise IncompatibleStateError(
                f"the savepoint {redacted(location)} has format {found}; this library reads {FORMAT}",
                remedy="install the version of flip27-source that wrote it, or a newer one",
            )
        metadata = msgspec.json.decode(data, type=_Metadata)
        # What people can read is indented; the digest is of the form without blanks.
        canonical = msgspec.json.format(bytes(metadata.document), indent=-1)
    except msgspec.MsgspecError as error:
        raise CorruptStateError(
            f"the savepoint {redacted(location)} cannot be read: {error}",
            remedy="copy the directory again; it has to be whole",
        ) from error
    name = CheckpointName.parse(metadata.name)
    if name is None:
        raise CorruptStateError(f"the savepoint {redacted(location)} has no name: {metadata.name!r}")
    document = decode_document(canonical, name)
    return Savepoint(store=store, folder=folder, name=name, document=document)


def open_savepoint_at(location: str, storage_options: dict[str, Any]) -> Savepoint:
    """The same for a path or fsspec URL."""
    return open_savepoint(location, lambda parent: open_store(parent, storage_options))


def _reports(source: Store, lineage: str, document: CheckpointDocument, name: CheckpointName) -> list[str]:
    found = [file for file in source.list(f"{lineage}/{layout.REPORTS}") if layout.belongs_to(file) == name]
    wanted = {
        layout.report_file(lineage, name, item.subtask).rpartition("/")[2] for item in document.raw.plan
    }
    if document.reports is ReportDemand.REQUIRED and not wanted <= set(found):
        raise MissingStateError(
            f"checkpoint {name} is not complete: of its {len(wanted)} subtasks {len(found)} have reported",
            remedy="wait for the batch to end, or make a savepoint of an earlier checkpoint",
        )
    return sorted(found)
