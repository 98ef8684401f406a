"""The seen-file log of Spark's file source: ``sources/<n>`` in the checkpoint of a query, read and written.

Also written: a checkpoint in which Spark's file source replaces a flip27 source.
A file of the log has the line ``v1`` and one JSON object for each file. Every tenth batch, by default, is a
compact file, ``9.compact``, which contains the files of all batches so far. What lives here: the form of the
log. What must not live here: the meaning of the paths in it, which are URIs of Hadoop.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import CorruptStateError, MissingStateError, StateError, StateLocationError
from ..values.stored_json import decode_json
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
from .store import Store, open_store

_HEADER = b"v1"
_COMPACT = ".compact"
_LOG_OFFSET = 1
_UNDER_WAY = b"a checkpoint is being written\n"


class LoggedFile(msgspec.Struct, frozen=True, gc=False):
    """One file in the log.

    Attributes:
        path: a URI of Hadoop. modified_ms: its modification time, milliseconds since the epoch.
        batch: the batch of the log, which the source's offset names as ``logOffset``.
    """

    path: str
    modified_ms: int = msgspec.field(name="timestamp")
    batch: int = msgspec.field(default=-1, name="batchId")


class _LogOffset(msgspec.Struct):
    log_offset: int = msgspec.field(name="logOffset")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLog:
    """The files of a log, in no particular order.

    Attributes:
        committed: files of batches up to the log offset of the newest committed batch of the query.
        planned: files of later batches, which the query has planned but not committed.
    """

    committed: list[LoggedFile]
    planned: list[LoggedFile]


def log_offset(line: str) -> int | None:
    """The batch of the log in a line of Spark's offset log; None for a line of another source."""
    try:
        return decode_json(line, _LogOffset).log_offset
    except msgspec.MsgspecError:
        return None


def read_file_log(store: Store, source: str, committed: int) -> FileLog:
    """The log of a source, whose newest committed batch is ``committed``.

    Args:
        source: the name of the source's folder, such as ``0``.

    Raises:
        MissingStateError: files of the log are missing.
        CorruptStateError: a file of the log is damaged or has an unknown form.
    """
    log = FileLog(committed=[], planned=[])
    folder = f"sources/{source}"
    for name in _needed(store, folder, committed):
        number = int(name.removesuffix(_COMPACT))
        for file in _files_in(f"{folder}/{name}", store.read(f"{folder}/{name}")):
            batch = file.batch if file.batch >= 0 else number
            (log.committed if batch <= committed else log.planned).append(file)
    return log


def file_of_log(files: Iterable[LoggedFile]) -> bytes:
    return b"\n".join((_HEADER, *map(msgspec.json.Encoder().encode, files)))


def _needed(store: Store, folder: str, committed: int) -> list[str]:
    """The newest compact file and the files after it."""
    names = store.list(folder)
    numbers = {int(number): name for name in names if (number := name.removesuffix(_COMPACT)).isdigit()}
    first = max((number for number, name in numbers.items() if name.endswith(_COMPACT)), default=0)
    gone = [number for number in range(first, committed + 1) if number not in numbers]
    if gone:
        raise MissingStateError(
            f"{store.location}/{folder} has no file for batch {gone[0]}, and no compact file contains it",
            remedy="give the checkpoint location with all of its files, copied while the query was stopped",
        )
    return [numbers[number] for number in sorted(numbers) if number >= first]


def _files_in(name: str, data: bytes) -> Iterator[LoggedFile]:
    header, _, lines = data.partition(b"\n")
    if header != _HEADER:
        raise CorruptStateError(
            f"{name} is not a file of the log of Spark's file source: it begins with {header[:20]!r}",
            remedy="give the checkpoint location of a query that reads files with Spark's own source",
        )
    decoder = msgspec.json.Decoder(LoggedFile)
    for number, line in enumerate(lines.split(b"\n"), 2):
        if not line:
            continue
        try:
            yield decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise CorruptStateError(
                f"line {number} of {name} is damaged: {error}",
                remedy="restore the checkpoint location from a backup",
            ) from error


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
