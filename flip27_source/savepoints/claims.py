"""Claims: a query that starts from a savepoint can own it, and deletes it once it is no longer needed.

The first checkpoint of a lineage contains all of the savepoint's state, so a claim only decides who deletes
the savepoint (Flink: RestoreMode.CLAIM, FLINK-25154). Two files record it: ``_claim`` in the savepoint names
the lineage, and is created once; ``claim.json`` in the lineage lists what to delete and when.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from ..errors import CorruptStateError, MissingStateError, StateLocationError
from ..log import LOG
from ..snapshots import file_names
from ..snapshots.file_names import CheckpointName
from ..snapshots.linked_folders import Deletion
from ..snapshots.store import Store
from ..snapshots.stored_lineage import StoredLineage
from ..values.stored_json import decode_json
from .format import METADATA, Savepoint, read_savepoint

CLAIM = "_claim"


class ClaimMark(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``_claim``: the owner. ``state`` is its state location, without credentials."""

    lineage: str
    state: str
    uid: str

    def __str__(self) -> str:
        return f"whose source {self.uid} has its state in {self.state}/{self.lineage}"


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a lineage's ``claim.json``; ``first`` is the first checkpoint of the lineage."""

    parent: str
    folder: str
    first: int
    files: list[str]


def claim(savepoint: Savepoint, mine: Store, lineage: str, uid: str, first_checkpoint_id: int) -> None:
    """Claim a savepoint for a lineage whose first checkpoint is durable, before Spark knows that checkpoint.

    Raises:
        StateLocationError: another query owns it, or its file system does not support create-if-absent.
    """
    folder = savepoint.folder
    record = _Record(
        parent=savepoint.store.location, folder=folder, first=first_checkpoint_id, files=files_of(savepoint)
    )
    mine.create(file_names.claim_file(lineage), msgspec.json.encode(record, order="sorted"))
    mark = msgspec.json.encode(ClaimMark(lineage=lineage, state=mine.location, uid=uid), order="sorted")
    if not savepoint.store.create(f"{folder}/{CLAIM}", mark, exclusive=True):
        check_claimable(savepoint, mine, uid)
        savepoint.store.replace(f"{folder}/{CLAIM}", mark)


def check_claimable(savepoint: Savepoint, mine: Store, uid: str) -> None:
    """Refuse a savepoint that another query owns.

    A lineage of this source that has only its first checkpoint does not count as another query: its driver
    was killed before Spark knew that checkpoint, or this query is about to replace that lineage.

    Raises:
        StateLocationError: another query owns the savepoint; the message names it.
    """
    mark = mark_of(savepoint.store, savepoint.folder)
    if mark is None:
        return
    if (mark.state, mark.uid) == (mine.location, uid) and len(StoredLineage(mine, mark.lineage).names()) < 2:
        return
    raise StateLocationError(
        f"savepoint {savepoint.location} is claimed by the query {mark}, which will delete the savepoint",
        remedy="remove savepointClaim=claim to start from the savepoint while it exists, or claim a copy "
        f"of it (without the file {CLAIM})",
    )


def delete_subsumed(
    mine: Store, lineage: str, committed: CheckpointName, retained: int, open_at: Callable[[str], Store]
) -> bool:
    """Delete the savepoint that a lineage owns, once the lineage has ``retained`` checkpoints.

    The call can be interrupted at any step and repeated. Other files in the directory are kept.

    Args:
        open_at: opens the store at a location.

    Returns:
        Whether this call deleted the savepoint.
    """
    record = _decoded(mine, file_names.claim_file(lineage), _Record)
    if record is None or committed.checkpoint_id - record.first + 1 < retained:
        return False
    store, folder = open_at(record.parent), record.folder
    mark = mark_of(store, folder)
    is_mine = mark is not None and mark.lineage == lineage
    if is_mine:
        # Metadata first: without it the directory is not a savepoint. The claim is deleted last.
        names = (METADATA, *map(file_names.checked_relative, record.files), CLAIM)
        deletion = Deletion(store)
        for name in names:
            deletion.delete(f"{folder}/{name}")
        deletion.remove_empty(folder)
        LOG.info("deleted the savepoint %s/%s, which this query had claimed", record.parent, folder)
    mine.delete(file_names.claim_file(lineage))
    return is_mine


def owned(mine: Store, lineage: str) -> str | None:
    """The location of the savepoint that a lineage owns; None if there is none."""
    record = _decoded(mine, file_names.claim_file(lineage), _Record)
    return None if record is None else f"{record.parent}/{record.folder}"


def release(mine: Store, lineage: str, open_at: Callable[[str], Store]) -> None:
    """Give up the savepoint that a lineage owns: it stays, and no query will delete it.

    The call can be interrupted at any step and repeated.

    Args:
        open_at: opens the store at a location.
    """
    record = _decoded(mine, file_names.claim_file(lineage), _Record)
    if record is None:
        return
    store = open_at(record.parent)
    mark = mark_of(store, record.folder)
    if mark is not None and mark.lineage == lineage:
        store.delete(f"{record.folder}/{CLAIM}")
    mine.delete(file_names.claim_file(lineage))


def files_of(savepoint: Savepoint) -> list[str]:
    """The files to delete, relative to the savepoint's folder, with the savepoints of other sources."""
    files = savepoint.files()
    for folder in savepoint.source_folders:
        inside = folder.removeprefix(f"{savepoint.folder}/")
        inner = read_savepoint(savepoint.store, folder)
        files += [f"{inside}/{METADATA}", *(f"{inside}/{name}" for name in inner.files())]
    return files


def mark_of(store: Store, folder: str) -> ClaimMark | None:
    return _decoded(store, f"{folder}/{CLAIM}", ClaimMark)


StructT = TypeVar("StructT", bound=msgspec.Struct)


def _decoded(store: Store, name: str, kind: type[StructT]) -> StructT | None:
    try:
        return decode_json(store.read(name), kind)
    except MissingStateError:
        return None
    except msgspec.MsgspecError as error:
        raise CorruptStateError(
            f"{name} in {store.location} cannot be read: {error}",
            remedy="delete this file; then no query owns the savepoint, and none will delete it",
        ) from error
