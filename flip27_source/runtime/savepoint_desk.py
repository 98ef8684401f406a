"""SavepointDesk: the driver's side of savepoints that are asked for while the query runs.

A request turns the next checkpoint into a savepoint: coordinator and subtasks are told (FLINK-5777), and
once it is complete it is copied to its target. The request is deleted after that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..coordination.checkpoints import CheckpointMetadata
from ..errors import StateError
from ..snapshots.documents import CheckpointDocument
from ..snapshots.offsets import Offset
from ..snapshots.requests import RequestFolder, SavepointRequest
from ..snapshots.savepoints import METADATA, savepoint_folder, write_savepoint
from ..snapshots.store import Store

_log = logging.getLogger("flip27_source")


class SavepointDesk:
    """The requested savepoints of one source. Used on the coordinator's thread.

    Attributes:
        requests: where they are asked for; None as long as the source has no lineage.
    """

    def __init__(
        self,
        store: Store | None,
        storage_options: Mapping[str, Any],
        open_store: Callable[[str, Mapping[str, Any]], Store],
    ) -> None:
        self._store = store
        self._storage_options = storage_options
        self._open_store = open_store
        self.requests: RequestFolder | None = None
        self._due: list[SavepointRequest] = []
        self._under_way: set[str] = set()
        self._handled: set[str] = set()

    def stand_at(self) -> None:
        """A coordinator begins: it is not known any more what is under way."""
        self._under_way = set()

    def found(self, requests: Iterable[SavepointRequest]) -> None:
        """What a look has found."""
        self._due = [item for item in requests if item.request_id not in self._handled]

    def asked(self, metadata: CheckpointMetadata) -> CheckpointMetadata:
        """What the next checkpoint is triggered with: as a savepoint where one is asked for."""
        if self._due and self.requests is not None:
            there = set(self.requests.ids())
            self._due = [item for item in self._due if item.request_id in there]
        if not self._due:
            return metadata
        target = self._due[0].target
        self._under_way = {item.request_id for item in self._due if item.target == target}
        return replace(metadata, is_savepoint=True, target_directory=target)

    def completed(self, metadata: CheckpointMetadata, offset: Offset) -> None:
        """A checkpoint is complete: copy it where it is a savepoint. A failure is logged, not tried again."""
        target = metadata.target_directory
        if target is None or self._store is None or offset.lineage is None or offset.name is None:
            return
        folder = savepoint_folder(offset.name)
        try:
            place = self._open_store(target, self._storage_options)
            # A restart completes the newest checkpoint once more.
            if METADATA not in place.list(folder):
                write_savepoint(
                    self._store, offset.lineage, offset.name, place, created_ms=metadata.timestamp_ms
                )
                _log.info("savepoint %s/%s was made, as asked for", place.location, folder)
        except StateError as error:
            _log.error("the savepoint that was asked for in %s could not be made: %s", target, error)
        self._answer(metadata)

    def _answer(self, metadata: CheckpointMetadata) -> None:
        # After a restart it is not known any more which request the checkpoint was made for.
        answered = self._under_way | {
            item.request_id
            for item in self._due
            if item.target == metadata.target_directory and item.requested_ms <= metadata.timestamp_ms
        }
        self._handled |= answered
        self._due = [item for item in self._due if item.request_id not in answered]
        self._under_way = set()
        for request_id in sorted(answered):
            assert self.requests is not None
            try:
                self.requests.delete(request_id)
            except StateError as error:
                _log.warning("an answered request could not be deleted: %s", error)


def savepoint_of(offset: Offset, document: CheckpointDocument) -> str | None:
    """The directory of the savepoint that a checkpoint is to become."""
    target = document.target_directory
    return None if target is None or offset.name is None else f"{target}/{savepoint_folder(offset.name)}"
