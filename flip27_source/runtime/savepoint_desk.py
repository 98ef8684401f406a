"""SavepointDesk: the driver's side of savepoints that are asked for while the query runs.

A request turns the next checkpoint into a savepoint: coordinator and subtasks are told (FLINK-5777), and
once it is complete it is copied to its target. The request is deleted after that.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..coordination.checkpoints import CheckpointMetadata
from ..errors import StateError
from ..snapshots.documents import CheckpointDocument
from ..snapshots.offsets import Offset
from ..snapshots.savepoint_requests import SavepointRequest, SavepointRequests
from ..snapshots.savepoints import METADATA, savepoint_folder, write_savepoint
from ..snapshots.store import Store, open_store

_log = logging.getLogger("flip27_source")


class SavepointDesk:
    """The requested savepoints of one source. Used on the coordinator's thread, but for :meth:`look`."""

    def __init__(self, store: Store | None, storage_options: Mapping[str, Any]) -> None:
        self._store = store
        self._storage_options = storage_options
        self._requests: SavepointRequests | None = None
        self._due: list[SavepointRequest] = []
        self._under_way: set[str] = set()
        self._handled: set[str] = set()

    def stand_at(self, offset: Offset) -> None:
        """A coordinator begins at an offset, or a first checkpoint was made: look for its requests."""
        self._requests, self._under_way = None, set()
        if self._store is not None and offset.lineage is not None:
            self._requests = SavepointRequests(self._store, offset.lineage)
        self.found(self.look(), None)

    def look(self) -> list[SavepointRequest]:
        """All requests that can be read. On any thread."""
        try:
            return [] if self._requests is None else self._requests.waiting()
        except StateError as error:
            _log.warning("requests for savepoints cannot be looked for, tried again later: %s", error)
            return []

    def found(self, requests: list[SavepointRequest] | None, error: BaseException | None) -> None:
        """A look has ended."""
        if error is not None:
            raise error
        self._due = [item for item in requests or () if item.request_id not in self._handled]

    def asked(self, metadata: CheckpointMetadata) -> CheckpointMetadata:
        """What the next checkpoint is triggered with: as a savepoint where one is asked for."""
        if self._due and self._requests is not None:
            there = set(self._requests.ids())
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
            place = open_store(target, self._storage_options)
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
            assert self._requests is not None
            try:
                self._requests.delete(request_id)
            except StateError as error:
                _log.warning("an answered request could not be deleted: %s", error)


def savepoint_of(offset: Offset, document: CheckpointDocument) -> str | None:
    """The directory of the savepoint that a checkpoint is to become."""
    target = document.target_directory
    return None if target is None or offset.name is None else f"{target}/{savepoint_folder(offset.name)}"
