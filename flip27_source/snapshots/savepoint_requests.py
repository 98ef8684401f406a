"""Requests for savepoints: they wait in a lineage for its next batch boundary, beside those for edits."""

from __future__ import annotations

import msgspec

from ..errors import CorruptStateError, MissingStateError
from . import layout
from .requests import FORMAT, sealed, unsealed
from .store import Store

SAVEPOINT = "savepoint"


class SavepointRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A savepoint that is asked for.

    Attributes:
        target: the directory in which it gets a directory of its own; holds no secret.
        requested_ms: when, milliseconds since the epoch.
    """

    request_id: str
    lineage: str
    target: str
    requested_ms: int
    format: int = FORMAT
    kind: str = SAVEPOINT


class _Kind(msgspec.Struct, frozen=True):
    format: int
    kind: str


class SavepointRequests:
    """The requests for savepoints in one lineage."""

    def __init__(self, store: Store, lineage: str) -> None:
        self._store = store
        self.lineage = lineage

    def submit(self, request: SavepointRequest) -> None:
        """Write a request; durable on return."""
        data = msgspec.json.encode(request, order="sorted")
        self._store.create(layout.request_file(self.lineage, request.request_id), sealed(data))

    def ids(self) -> list[str]:
        """The ids of all requests that are there, of whatever kind."""
        found = map(layout.parse_request, self._store.list(f"{self.lineage}/{layout.REQUESTS}"))
        return [request_id for request_id in found if request_id is not None]

    def waiting(self) -> list[SavepointRequest]:
        """Those that can be read, oldest first; what is damaged or of a newer format is left where it is."""
        found = [self._read(request_id) for request_id in self.ids()]
        there = [request for request in found if request is not None and request.lineage == self.lineage]
        return sorted(there, key=lambda request: (request.requested_ms, request.request_id))

    def delete(self, request_id: str) -> None:
        """Delete a request; no error when it is not there."""
        self._store.delete(layout.request_file(self.lineage, request_id))

    def _read(self, request_id: str) -> SavepointRequest | None:
        file = layout.request_file(self.lineage, request_id)
        try:
            request = unsealed(file, self._store.read(file))
            if msgspec.json.decode(request, type=_Kind) != _Kind(format=FORMAT, kind=SAVEPOINT):
                return None
            return msgspec.json.decode(request, type=SavepointRequest)
        except (MissingStateError, CorruptStateError, msgspec.MsgspecError):
            return None
