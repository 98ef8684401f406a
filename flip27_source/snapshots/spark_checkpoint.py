"""Spark's checkpoint directory, as far as a source needs it: which offsets are committed. Read only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import CorruptStateError, Flip27Error, MissingStateError
from .offsets import Offset
from .store import Store

OFFSETS = "offsets"
COMMITS = "commits"
_HEADER_LINES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """The newest batch in Spark's commit log.

    Attributes:
        batch_id: Spark's number of it.
        offsets: those of the flip27 sources of the query, in the order of the sources.
    """

    batch_id: int
    offsets: tuple[Offset, ...]


def is_spark_checkpoint(store: Store, folder: str = "") -> bool:
    """Whether a directory looks like the checkpoint of a streaming query."""
    return bool(_numbers(store, _join(folder, OFFSETS)))


def newest_committed(store: Store, folder: str = "") -> CommittedBatch:
    """The newest batch that is in the commit log.

    Raises:
        MissingStateError: no batch was committed yet, or its offsets are gone.
        CorruptStateError: the offset log is not what Spark writes.
    """
    committed = _numbers(store, _join(folder, COMMITS))
    if not committed:
        raise MissingStateError(
            f"no batch of the query whose checkpoint is {store.location}/{folder} is committed yet",
            remedy="wait for the first batch, or give the checkpoint location of the query",
        )
    batch_id = max(committed)
    lines = store.read(_join(folder, f"{OFFSETS}/{batch_id}")).decode().splitlines()
    if len(lines) < _HEADER_LINES or not lines[0].startswith("v"):
        raise CorruptStateError(f"{OFFSETS}/{batch_id} is not an offset log of Spark: {lines[:1]}")
    found = [_offset(line) for line in lines[_HEADER_LINES:]]
    return CommittedBatch(batch_id=batch_id, offsets=tuple(item for item in found if item is not None))


def _offset(line: str) -> Offset | None:
    """The offset in a line of the log; None for a source that is not one of flip27."""
    try:
        value: Any = msgspec.json.decode(line)
        offset = Offset.from_json(value)
    except (msgspec.MsgspecError, Flip27Error):
        return None
    return None if offset.is_initial else offset


def _numbers(store: Store, folder: str) -> list[int]:
    return [int(name) for name in store.list(folder) if name.isdigit()]


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
