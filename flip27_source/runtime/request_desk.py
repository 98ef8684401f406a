"""RequestDesk: looks for what is asked for, and hands it to the desks of edits and savepoints."""

from __future__ import annotations

import logging

from ..coordination.checkpoints import CheckpointMetadata
from ..enumerator import RetryPolicy
from ..errors import StateError
from ..snapshots.offsets import Offset
from ..snapshots.requests import RequestFolder, WaitingRequests
from ..snapshots.store import Store
from .background import BackgroundRunner
from .edit_desk import EditDesk
from .savepoint_desk import SavepointDesk

_log = logging.getLogger("flip27_source")


class RequestDesk:
    """The requests of one source. Used on the coordinator's thread, but for :meth:`look`."""

    def __init__(self, store: Store | None, edits: EditDesk, savepoints: SavepointDesk) -> None:
        self._store = store
        self._edits = edits
        self._savepoints = savepoints
        self._folder: RequestFolder | None = None
        self._damaged: frozenset[str] = frozenset()

    def stand_at(self, offset: Offset, metadata: CheckpointMetadata | None) -> None:
        """A coordinator begins at an offset, whose document has this metadata: look for its requests."""
        self._enter(offset)
        self._edits.stand_at(offset, metadata)
        self._savepoints.stand_at()
        self.found(self.look(), None)

    def written(self, offset: Offset) -> None:
        """A checkpoint is durable."""
        self._enter(offset)
        self._edits.written(offset)

    def look_every(self, period_s: float, runner: BackgroundRunner) -> None:
        """Look now and then, beside the batches."""
        runner.submit(self.look, self.found, period_s, RetryPolicy())

    def look(self) -> WaitingRequests | None:
        """All requests that can be read; None where they cannot be looked for. On any thread."""
        folder = self._folder
        if folder is None:
            return None
        try:
            found = folder.waiting()
        except StateError as error:
            _log.warning("requests cannot be looked for, tried again later: %s", error)
            return None
        for request_id in found.damaged.keys() - self._damaged:
            _log.warning("a request is left alone: %s", found.damaged[request_id])
        self._damaged = frozenset(found.damaged)
        return found

    def found(self, requests: WaitingRequests | None, error: BaseException | None) -> None:
        """A look has ended."""
        if error is not None:
            raise error
        self._edits.found(() if requests is None else requests.edits)
        self._savepoints.found(() if requests is None else requests.savepoints)

    def _enter(self, offset: Offset) -> None:
        """The folder of the lineage that the offset is in; with the first checkpoint there is one."""
        lineage = offset.lineage
        if self._store is None or lineage is None:
            self._folder = None
        elif self._folder is None or self._folder.lineage != lineage:
            self._folder = RequestFolder(self._store, lineage)
        self._edits.requests = self._savepoints.requests = self._folder
