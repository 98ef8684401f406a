"""RequestedSavepoints: checks the targets of a running query's savepoints, and copies checkpoints to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import StateLocationError
from ..log import LOG
from ..snapshots.documents import CheckpointDocument
from ..snapshots.file_names import CheckpointName
from ..snapshots.offsets import Offset
from ..snapshots.planned_subtask import SavepointPlace
from ..snapshots.store import Store
from .additions import failed_additions
from .format import METADATA, savepoint_folder, write_savepoint


class RequestedSavepoints:
    def __init__(
        self,
        store: Store | None,
        storage_options: Mapping[str, Any],
        open_store: Callable[[str, Mapping[str, Any]], Store],
        new_random: Callable[[], str],
    ) -> None:
        self._store = store
        self._storage_options = storage_options
        self._open_store = open_store
        self._new_random = new_random

    def problem_with(self, target: str) -> Exception | None:
        """Why a target is not writable, or None; called before the batch that becomes a savepoint."""
        probe = f".flip27-{self._new_random()}"
        try:
            place = self._open_store(target, self._storage_options)
            place.replace(probe, b"flip27 tests whether it can write here")
            place.delete(probe)
        except Exception as error:  # noqa: BLE001 - any error fails the savepoint, not the query
            return error
        return None

    def make(self, target: str, lineage: str, name: CheckpointName, created_ms: int) -> None:
        """Copy a complete checkpoint to its target.

        Raises:
            StateLocationError: a reader could not add a file to the savepoint, or the target fails.
        """
        if self._store is None:
            return
        missing = failed_additions(self._store, lineage, name)
        if missing is not None:
            raise StateLocationError(missing)
        place = self._open_store(target, self._storage_options)
        folder = savepoint_folder(name)
        # A restart completes the newest checkpoint again.
        if METADATA in place.list(folder):
            return
        write_savepoint(self._store, lineage, name, place, created_ms=created_ms)
        LOG.info("created the requested savepoint %s/%s", place.location, folder)


def savepoint_of(offset: Offset, document: CheckpointDocument) -> SavepointPlace | None:
    """The savepoint that a checkpoint becomes; None if it does not become one."""
    target = document.raw.target
    if target is None or offset.lineage is None or offset.name is None:
        return None
    directory = f"{target}/{savepoint_folder(offset.name)}"
    return SavepointPlace(directory=directory, lineage=offset.lineage, name=offset.name)
