"""SavepointDesk: the driver's side of savepoints that are asked for while the query runs.

A request turns the next checkpoint into a savepoint: coordinator and subtasks are told (FLINK-5777), and
once it is complete it is copied to its target. The request is deleted after that, or marked as failed: no
savepoint that cannot be made stops the query.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..coordination.checkpoints import CheckpointMetadata
from ..errors import StateError, StateLocationError, said_of
from ..hiding import Hidden
from ..snapshots.additions import SavepointPlace, failed_additions
from ..snapshots.documents import CheckpointDocument
from ..snapshots.layout import CheckpointName
from ..snapshots.offsets import Offset
from ..snapshots.requests import SAVEPOINT, RequestFolder, SavepointRequest
from ..snapshots.savepoints import METADATA, savepoint_folder, write_savepoint
from ..snapshots.store import Store
from .environment import Environment

_log = logging.getLogger("flip27_source")


class SavepointDesk:
    """The requested savepoints of one source. Used on the coordinator's thread.

    Attributes:
        requests: where they are asked for; None as long as the source has no lineage.
    """

    def __init__(
        self, store: Store | None, storage_options: Mapping[str, Any], environment: Environment
    ) -> None:
        self._store = store
        self._storage_options = storage_options
        self._hidden = Hidden(storage_options)
        self._environment = environment
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
        self._confirm()
        while self._due:
            target = self._due[0].target
            wanted = [item for item in self._due if item.target == target]
            problem = self._problem_with(target)
            if problem is None:
                self._under_way = {item.request_id for item in wanted}
                return replace(metadata, is_savepoint=True, target_directory=target)
            self._answer(wanted, problem)
        return metadata

    def completed(self, metadata: CheckpointMetadata, offset: Offset) -> None:
        """A checkpoint is complete: copy it where it is a savepoint. A failure is not tried again."""
        target = metadata.target_directory
        if target is None or self._store is None or offset.lineage is None or offset.name is None:
            return
        problem: Exception | None = None
        try:
            self._make(target, offset.lineage, offset.name, metadata.timestamp_ms)
        except Exception as error:  # noqa: BLE001 - whatever it is, the query goes on
            problem = error
        # After a restart it is not known any more which request the checkpoint was made for.
        answered = [
            item
            for item in self._due
            if item.request_id in self._under_way
            or (item.target == target and item.requested_ms <= metadata.timestamp_ms)
        ]
        if problem is not None and not answered:
            _log.error("the savepoint that was asked for in %s could not be made: %s", target, problem)
        self._under_way = set()
        self._answer(answered, problem)

    def _make(self, target: str, lineage: str, name: CheckpointName, created_ms: int) -> None:
        assert self._store is not None
        missing = failed_additions(self._store, lineage, name)
        if missing is not None:
            raise StateLocationError(missing)
        place = self._environment.open_store(target, self._storage_options)
        folder = savepoint_folder(name)
        # A restart completes the newest checkpoint once more.
        if METADATA in place.list(folder):
            return
        write_savepoint(self._store, lineage, name, place, created_ms=created_ms)
        _log.info("savepoint %s/%s was made, as asked for", place.location, folder)

    def _confirm(self) -> None:
        """Forget what was withdrawn meanwhile."""
        if not self._due or self.requests is None:
            return
        try:
            there = set(self.requests.ids())
        except StateError as error:
            _log.warning("requests cannot be looked for, tried again later: %s", error)
            there = set()
        self._due = [item for item in self._due if item.request_id in there]

    def _problem_with(self, target: str) -> Exception | None:
        """Why nothing can be written to a target; asked before the batch that is to become a savepoint."""
        probe = f".flip27-{uuid.uuid4().hex}"
        try:
            place = self._environment.open_store(target, self._storage_options)
            place.replace(probe, b"flip27 looks whether it can write here")
            place.delete(probe)
        except Exception as error:  # noqa: BLE001 - whatever it is, the query goes on
            return error
        return None

    def _answer(self, requests: list[SavepointRequest], problem: Exception | None) -> None:
        """Delete requests that were done; mark those that could not be."""
        answered = {item.request_id for item in requests}
        self._handled |= answered
        self._due = [item for item in self._due if item.request_id not in answered]
        for request in requests:
            assert self.requests is not None
            try:
                if problem is not None:
                    self._fail(request, problem)
                self.requests.forget(request.request_id)
            except StateError as error:
                _log.warning("an answered request could not be deleted: %s", error)

    def _fail(self, request: SavepointRequest, problem: Exception) -> None:
        assert self.requests is not None
        _log.error("the savepoint that was asked for in %s could not be made: %s", request.target, problem)
        self.requests.fail(
            request.request_id,
            kind=SAVEPOINT,
            asked=request.target,
            reason=self._hidden.in_text(said_of(problem)),
            now_ms=self._environment.now_ms(),
        )


def savepoint_of(offset: Offset, document: CheckpointDocument) -> SavepointPlace | None:
    """The savepoint that a checkpoint is to become."""
    target = document.target_directory
    if target is None or offset.lineage is None or offset.name is None:
        return None
    directory = f"{target}/{savepoint_folder(offset.name)}"
    return SavepointPlace(directory=directory, lineage=offset.lineage, name=offset.name)
