"""The seen-file log of Spark's file source: ``sources/<n>`` in the checkpoint of a query, read and written.

A file of the log has the line ``v1`` and one JSON object for each file. Every tenth batch, by default, is a
compact file, ``9.compact``, which contains the files of all batches so far. What lives here: the form of the
log. What must not live here: the meaning of the paths in it, which are URIs of Hadoop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from ..errors import CorruptStateError, MissingStateError
from ..values.stored_json import decode_json
from .store import Store

_HEADER = b"v1"
_COMPACT = ".compact"


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
