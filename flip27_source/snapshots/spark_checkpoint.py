"""Spark's checkpoint directory: committed offsets, and the files of a batch. Read-only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import CorruptStateError, MissingStateError, StateLocationError
from ..file_systems.paths import local_path, open_file_system
from ..values.stored_json import decode_json
from .file_names import CheckpointName
from .offsets import Offset
from .store import Store, open_store

OFFSETS = "offsets"
COMMITS = "commits"
METADATA_FILE = "metadata"
FOLDERS = (OFFSETS, COMMITS, "sources", "state")
_HEADER_LINES = 2
_STATE_VERSION = re.compile(r"(\d+)(?:_[^./]+)?\.(?:delta|snapshot|zip|changelog)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedBatch:
    """One batch in Spark's offset log.

    Attributes:
        batch_id: Spark's number of the batch.
        lines: the offset of each source as Spark has stored it, by the name of the source, which is also the
            name of its folder in ``sources``. Version 1 of the log numbers the sources.
        offsets: the offsets of flip27 sources that have a checkpoint, by the name of the source.
    """

    batch_id: int
    lines: Mapping[str, str]
    offsets: Mapping[str, Offset]


def is_spark_checkpoint(store: Store) -> bool:
    """Whether a directory looks like the checkpoint of a streaming query."""
    return newest_planned(store) >= 0


def query_id_of(store: Store) -> str | None:
    """The id of the query with this checkpoint; None if it has none yet."""
    try:
        value = decode_json(store.read(METADATA_FILE))
    except (MissingStateError, msgspec.MsgspecError):
        return None
    return value.get("id") if isinstance(value, dict) else None


def newest_planned(store: Store) -> int:
    """The newest batch in the offset log; -1 if there is none."""
    return max(_numbers(store, OFFSETS), default=-1)


def newest_committed(store: Store) -> LoggedBatch:
    """The newest batch in the commit log.

    Raises:
        MissingStateError: no batch was committed yet, or the batch's offsets no longer exist.
        CorruptStateError: the offset log is not a valid Spark offset log.
    """
    committed = _numbers(store, COMMITS)
    if not committed:
        raise MissingStateError(
            f"the query with the checkpoint {store.location} has not committed a batch yet",
            remedy="wait for the first batch, or give the checkpoint location of the query",
        )
    return _batch(store, max(committed))


def batches_of(store: Store) -> Iterator[tuple[LoggedBatch, bool]]:
    """Each batch of the offset log, oldest first, and whether the commit log contains it.

    Raises:
        CorruptStateError: as for :func:`newest_committed`.
    """
    # Commits are read first: a batch that ends in between counts as not committed, never the reverse.
    committed = set(_numbers(store, COMMITS))
    for batch_id in sorted(_numbers(store, OFFSETS)):
        try:
            yield _batch(store, batch_id), batch_id in committed
        except MissingStateError:
            if batch_id in _numbers(store, OFFSETS):
                raise
            continue  # Spark has deleted the batch's log in the meantime


def offsets_replaced(
    store: Store, batch_id: int, replaced: CheckpointName, offset: bytes
) -> tuple[bytes, str]:
    """The offset log of a batch with another offset for one of our sources, and the name of the source.

    Args:
        replaced: the checkpoint of the source in that batch.

    Raises:
        CorruptStateError: no source has this checkpoint.
    """
    data = _log(store, batch_id)
    batch = _parsed(data, batch_id)
    for name, other in batch.offsets.items():
        if other.name == replaced:
            return data.replace(batch.lines[name], offset.decode()).encode(), name
    raise CorruptStateError(f"{OFFSETS}/{batch_id} has no source with the checkpoint {replaced}")


def batch_of(store: Store, name: CheckpointName) -> int | None:
    """The committed batch that ends with a source's checkpoint; None if Spark's logs do not contain it."""
    for batch_id in sorted(_numbers(store, COMMITS), reverse=True):
        try:
            names = [offset.name for offset in _batch(store, batch_id).offsets.values()]
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


def files_of_checkpoint(location: str, storage_options: Mapping[str, Any]) -> list[str]:
    """Names, relative to the checkpoint, of all files that Spark has written there, its offset log last."""
    own = (METADATA_FILE, f".{METADATA_FILE}.crc")
    names = [name for name in open_store(location, storage_options).list("") if name in own]
    below = list(_files_below(location, storage_options))
    return sorted([*names, *below], key=_by_batch)


def _by_batch(name: str) -> tuple[bool, int, str]:
    """Orders the offset log last and by batch: its newest batch names the states of the sources."""
    folder, _, file = name.partition("/")
    number = file.strip(".").removesuffix(".crc")
    return folder == OFFSETS, int(number) if number.isdigit() else -1, name


def _files_below(location: str, storage_options: Mapping[str, Any]) -> Iterator[str]:
    options = {} if local_path(location) is not None else storage_options
    file_system, root = open_file_system(
        location, options, what="the query's checkpoint", error_type=StateLocationError
    )
    file_system.invalidate_cache()
    for folder in FOLDERS:
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


def _batch(store: Store, batch_id: int) -> LoggedBatch:
    return _parsed(_log(store, batch_id), batch_id)


def _log(store: Store, batch_id: int) -> str:
    try:
        return store.read(f"{OFFSETS}/{batch_id}").decode()
    except UnicodeDecodeError as error:
        raise CorruptStateError(
            f"{OFFSETS}/{batch_id} in the query's checkpoint is not UTF-8: {error}",
            remedy="restore the checkpoint location from a backup",
        ) from None


def _parsed(log: str, batch_id: int) -> LoggedBatch:
    lines = log.splitlines()
    if len(lines) < _HEADER_LINES or lines[0] not in ("v1", "v2"):
        raise CorruptStateError(
            f"{OFFSETS}/{batch_id} in the query's checkpoint is not an offset log of version v1 or v2: "
            f"it starts with {lines[:1]}",
            remedy="if a newer Spark wrote the log, install a newer flip27-source",
        )
    if lines[0] == "v1":
        named = {str(number): line for number, line in enumerate(lines[_HEADER_LINES:])}
    else:
        named = {name: offset for name, _, offset in (line.partition(":") for line in lines[_HEADER_LINES:])}
    offsets = {name: offset for name, line in named.items() if (offset := _offset(line)) is not None}
    return LoggedBatch(batch_id=batch_id, lines=named, offsets=offsets)


def _offset(line: str) -> Offset | None:
    """The offset in a line of the log; None for a source of another format, or without a checkpoint."""
    try:
        value = decode_json(line)
    except msgspec.MsgspecError:
        return None
    if not isinstance(value, dict) or not {"checkpoint", "format", "state"} <= value.keys():
        return None
    offset = Offset.from_json(value)
    return None if offset.is_initial else offset


def _numbers(store: Store, folder: str) -> list[int]:
    return [int(name) for name in store.list(folder) if name.isdigit()]
