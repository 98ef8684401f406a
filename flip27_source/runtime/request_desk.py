"""RequestDesk: looks for what is asked for, and hands it to the desks of edits and savepoints.

No request stops the query, whatever it holds: one that cannot be read is marked as failed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ..coordination.checkpoints import CheckpointMetadata
from ..enumerator import RetryPolicy
from ..errors import Flip27Error, IncompatibleStateError, StateError
from ..hiding import Hidden
from ..snapshots.offsets import Offset
from ..snapshots.requests import RequestFolder, WaitingRequests
from ..snapshots.store import Store
from .background import BackgroundRunner
from .edit_desk import EditDesk
from .savepoint_desk import SavepointDesk

_log = logging.getLogger("flip27_source")

LOOKS_BORNE = 3
"""A request that cannot be read at so many looks is marked as failed; a network may fail now and then."""


class RequestDesk:
    """The requests of one source. Used on the coordinator's thread, but for :meth:`look`."""

    def __init__(
        self,
        store: Store | None,
        edits: EditDesk,
        savepoints: SavepointDesk,
        storage_options: Mapping[str, Any],
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._edits = edits
        self._savepoints = savepoints
        self._hidden = Hidden(storage_options)
        self._now_ms = now_ms
        self._folder: RequestFolder | None = None
        self._left_alone: frozenset[str] = frozenset()
        self._unread: Counter[str] = Counter()

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
            self._sort_out(folder, found)
        except Exception as error:  # noqa: BLE001 - what lies among the requests must not stop the query
            _log.warning("requests cannot be looked for, tried again later: %s", error)
            return None
        return found

    def found(self, requests: WaitingRequests | None, error: BaseException | None) -> None:
        """A look has ended."""
        if error is not None:
            raise error
        self._edits.found(() if requests is None else requests.edits)
        self._savepoints.found(() if requests is None else requests.savepoints)

    def _sort_out(self, folder: RequestFolder, found: WaitingRequests) -> None:
        """Mark what is no request or cannot be read again and again; leave alone what newer code asks."""
        newer = {name: e for name, e in found.damaged.items() if isinstance(e, IncompatibleStateError)}
        for request_id in newer.keys() - self._left_alone:
            _log.warning("a request is left alone: %s", newer[request_id])
        self._left_alone = frozenset(newer)
        self._unread = Counter({name: self._unread[name] + 1 for name in found.unread})
        for request_id, error in (found.damaged | found.unread).items():
            if request_id not in newer and self._unread.get(request_id, LOOKS_BORNE) >= LOOKS_BORNE:
                self._fail(folder, request_id, error)

    def _fail(self, folder: RequestFolder, request_id: str, error: Flip27Error) -> None:
        _log.warning("a request is marked as failed: %s", error)
        try:
            reason = self._hidden.in_text(str(error))
            folder.fail(request_id, kind="", asked="", reason=reason, now_ms=self._now_ms())
        except StateError as failure:
            _log.warning("a request cannot be marked as failed, tried again later: %s", failure)

    def _enter(self, offset: Offset) -> None:
        """The folder of the lineage that the offset is in; with the first checkpoint there is one."""
        lineage = offset.lineage
        if self._store is None or lineage is None:
            self._folder = None
        elif self._folder is None or self._folder.lineage != lineage:
            self._folder = RequestFolder(self._store, lineage)
        self._edits.requests = self._savepoints.requests = self._folder
