"""Additions: what readers add to a savepoint that a running query makes, and what they could not add.

They write into the savepoint itself. Where that fails, the reading goes on and the savepoint is not made: a
file in the lineage says what is missing in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ..errors import CorruptStateError
from ..stored_json import decode_json
from . import layout
from .layout import CheckpointName
from .store import Store

_MOST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointPlace:
    """The savepoint that a checkpoint becomes; travels to the executor.

    Attributes:
        directory: of the savepoint. lineage, name: of the checkpoint.
    """

    directory: str
    lineage: str
    name: CheckpointName


class _FailedAddition(msgspec.Struct, frozen=True, kw_only=True):
    subtask: int
    file: str
    error: str


def record_failed_addition(store: Store, place: SavepointPlace, subtask_id: int, file: str, why: str) -> None:
    """Say, durably, that a subtask could not add a file; the first failure of a subtask is kept."""
    failed = _FailedAddition(subtask=subtask_id, file=file, error=why)
    name = layout.failed_addition_file(place.lineage, place.name, subtask_id)
    store.create(name, msgspec.json.encode(failed, order="sorted"))


def failed_additions(store: Store, lineage: str, name: CheckpointName) -> str | None:
    """What could not be added to the savepoint that a checkpoint becomes, in words; None where all was."""
    said = []
    for text in store.list(f"{lineage}/{layout.FAILURES}"):
        found = layout.parse_failed_addition(text)
        if found is None or found[0] != name:
            continue
        file = layout.failed_addition_file(lineage, name, found[1])
        try:
            failed = decode_json(store.read(file, _MOST_BYTES), _FailedAddition)
        except (msgspec.MsgspecError, CorruptStateError):
            said.append(f"subtask {found[1]} could not add a file")
        else:
            said.append(f"subtask {failed.subtask} could not add {failed.file}: {failed.error}")
    return "; ".join(said[:3]) or None
