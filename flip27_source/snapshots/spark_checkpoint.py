"""Spark's checkpoint directory: committed offsets, and the files of a batch. Read-only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import CorruptStateError, Flip27Error, MissingStateError, StateLocationError
from ..file_systems.paths import local_path, open_file_system
from ..values.stored_json import decode_json
from .file_names import CheckpointName
from .offsets import Offset
from .store import Store

OFFSETS = "offsets"
COMMITS = "commits"
METADATA_FILE = "metadata"
_FOLDERS = (OFFSETS, COMMITS, "sources", "state")
_HEADER_LINES = 2
_STATE_VERSION = re.compile(r"(\d+)(?:_[^./]+)?\.(?:delta|snapshot|zip|changelog)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """The newest batch in Spark's commit log.

    Attributes:
        batch_id: Spark's number of the batch.
        offsets: offsets of the query's flip27 sources, in the order of the sources.
    """

    batch_id: int
    offsets: tuple[Offset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedLines:
    """The newest batch in Spark's commit log, whatever its sources are.

    Attributes:
        lines: the offset of each source as Spark has stored it.
        names: the name of each source, which is the name of its folder in ``sources``.
        newest_planned: the newest batch in the offset log.
    """

    batch_id: int
    lines: tuple[str, ...]
    names: tuple[str, ...]
    newest_planned: int


def is_spark_checkpoint(store: Store, folder: str = "") -> bool:
    """Whether a directory looks like the checkpoint of a streaming query."""
    return bool(_numbers(store, _join(folder, OFFSETS)))


def newest_committed(store: Store, folder: str = "") -> CommittedBatch:
    """The newest batch in the commit log.

    Raises:
        MissingStateError: no batch was committed yet, or the batch's offsets no longer exist.
        CorruptStateError: the offset log is not a valid Spark offset log.
    """
    committed = _numbers(store, _join(folder, COMMITS))
    if not committed:
        raise MissingStateError(
            f"the query with the checkpoint {store.location}/{folder} has not committed a batch yet",
            remedy="wait for the first batch, or give the checkpoint location of the query",
        )
    return _batch(store, folder, max(committed))


def committed_lines(store: Store) -> CommittedLines:
    """The offsets of all sources after the newest committed batch; errors as for ``newest_committed``."""
    batch_id = newest_committed(store).batch_id
    lines = _named_lines(store, "", batch_id)
    return CommittedLines(
        batch_id=batch_id,
        lines=tuple(lines.values()),
        names=tuple(lines),
        newest_planned=newest_planned(store),
    )


def newest_planned(store: Store) -> int:
    """The newest batch in the offset log; -1 if there is none."""
    return max(_numbers(store, OFFSETS), default=-1)


def offsets_replaced(
    store: Store, batch_id: int, replaced: CheckpointName, offset: bytes
) -> tuple[bytes, str]:
    """The offset log of a batch with another offset for one of our sources, and the name of the source.

    Args:
        replaced: the checkpoint of the source in that batch.

    Raises:
        CorruptStateError: no source has this checkpoint.
    """
    data = store.read(f"{OFFSETS}/{batch_id}").decode()
    for name, line in _named_lines(store, "", batch_id).items():
        found = _offset(line)
        if found is not None and found.name == replaced:
            return data.replace(line, offset.decode()).encode(), name
    raise CorruptStateError(f"{OFFSETS}/{batch_id} has no source with the checkpoint {replaced}")


def batch_of(store: Store, name: CheckpointName) -> int | None:
    """The committed batch that ends with a source's checkpoint; None if Spark's logs do not contain it."""
    for batch_id in sorted(_numbers(store, COMMITS), reverse=True):
        try:
            names = [offset.name for offset in _batch(store, "", batch_id).offsets]
        except MissingStateError:
            return None
        if name in names:
            return batch_id
        if all(other is not None and other.checkpoint_id < name.checkpoint_id for other in names):
            return None
    return None


def files_of_batch(location: str, storage_options: Mapping[str, Any], batch_id: int) -> list[str]:
    """Names, relative to the checkpoint, of the files that a query needs to continue after a committed batch.

    Files of later batches in the logs and the operators' state are omitted: they are being written. After
    batch N a state store has version N + 1.
    """
    names = [METADATA_FILE, *_files_below(location, storage_options)]
    return [name for name in names if _is_of_batch(name.split("/"), batch_id)]


def _files_below(location: str, storage_options: Mapping[str, Any]) -> Iterator[str]:
    options = {} if local_path(location) is not None else storage_options
    file_system, root = open_file_system(
        location, options, what="the query's checkpoint", error_type=StateLocationError
    )
    file_system.invalidate_cache()
    for folder in _FOLDERS:
        for path in sorted(file_system.find(f"{root.rstrip('/')}/{folder}")):
            yield str(path)[len(root.rstrip("/")) + 1 :]


def _is_of_batch(parts: list[str], batch_id: int) -> bool:
    if any(part.startswith(".") for part in parts):
        return False  # checksums, and files that are being written
    folder, name = parts[0], parts[-1]
    if folder in (OFFSETS, COMMITS) or "_metadata" in parts:
        return not name.isdigit() or int(name) <= batch_id
    version = _STATE_VERSION.fullmatch(name) if folder == "state" else None
    return version is None or int(version[1]) <= batch_id + 1


def _batch(store: Store, folder: str, batch_id: int) -> CommittedBatch:
    found = [_offset(line) for line in _named_lines(store, folder, batch_id).values()]
    return CommittedBatch(batch_id=batch_id, offsets=tuple(item for item in found if item is not None))


def _named_lines(store: Store, folder: str, batch_id: int) -> dict[str, str]:
    """The offset of each source of a batch, by the name of the source.

    Version 1 of Spark's offset log numbers the sources; in version 2 each line begins with the name.
    """
    lines = store.read(_join(folder, f"{OFFSETS}/{batch_id}")).decode().splitlines()
    if len(lines) < _HEADER_LINES or not lines[0].startswith("v"):
        raise CorruptStateError(f"{OFFSETS}/{batch_id} is not an offset log of Spark: {lines[:1]}")
    if lines[0] == "v1":
        return {str(number): line for number, line in enumerate(lines[_HEADER_LINES:])}
    parts = (line.partition(":") for line in lines[_HEADER_LINES:])
    return {name: offset for name, _, offset in parts}


def _offset(line: str) -> Offset | None:
    """The offset in a line of the log; None for a source of another format."""
    try:
        value: Any = decode_json(line)
        offset = Offset.from_json(value)
    except (msgspec.MsgspecError, Flip27Error):
        return None
    return None if offset.is_initial else offset


def _numbers(store: Store, folder: str) -> list[int]:
    return [int(name) for name in store.list(folder) if name.isdigit()]


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
