"""Requests: edits and savepoints that wait in a lineage for its next batch boundary.

One file each, never changed. It says what is asked for and its digest; it is created by whoever asks,
and deleted by the driver that has done it, or to withdraw it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from ..coordination.edits import EditRequest
from ..errors import CorruptStateError, EditError, Flip27Error, IncompatibleStateError, MissingStateError
from . import layout
from .sealed import BrokenSealError, seal, unseal
from .store import Store

FORMAT = 1
EDIT = "edit"
SAVEPOINT = "savepoint"
_PART = "request"


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


Request = EditRequest | SavepointRequest


class _StoredEdit(msgspec.Struct, frozen=True, kw_only=True):
    edit: EditRequest
    format: int = FORMAT
    kind: str = EDIT


class _Kind(msgspec.Struct, frozen=True):
    format: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequests:
    """The requests of a lineage, each kind in the order in which they were asked for.

    Attributes:
        damaged: why some of them cannot be read, by id; they are left where they are.
    """

    edits: tuple[EditRequest, ...] = ()
    savepoints: tuple[SavepointRequest, ...] = ()
    damaged: dict[str, Flip27Error]


class RequestFolder:
    """The requests that wait in one lineage."""

    def __init__(self, store: Store, lineage: str) -> None:
        self._store = store
        self.lineage = lineage

    def submit(self, request: Request) -> None:
        """Write a request; durable on return.

        Raises:
            EditError: it cannot be stored, or there is one of that id already.
        """
        try:
            data = seal(_PART, _StoredEdit(edit=request) if isinstance(request, EditRequest) else request)
        except (TypeError, ValueError) as error:
            raise EditError(
                f"the edit cannot be stored as JSON: {error}", remedy="use text that is Unicode"
            ) from error
        if not self._store.create_once(self.file(request.request_id), data):
            raise EditError(f"there is a request {request.request_id} already", remedy="submit it once")

    def file(self, request_id: str) -> str:
        """Where a request is stored, relative to the state location."""
        return layout.request_file(self.lineage, request_id)

    def ids(self) -> list[str]:
        """The ids of all requests that are there, of whatever kind, sorted."""
        found = map(layout.parse_request, self._store.list(f"{self.lineage}/{layout.REQUESTS}"))
        return [request_id for request_id in found if request_id is not None]

    def delete(self, request_id: str) -> None:
        """Delete a request; no error when it is not there."""
        self._store.delete(self.file(request_id))

    def waiting(self) -> WaitingRequests:
        """All requests that are there."""
        damaged: dict[str, Flip27Error] = {}
        found = list(self._readable(damaged))
        edits = (item for item in found if isinstance(item, EditRequest))
        savepoints = (item for item in found if isinstance(item, SavepointRequest))
        return WaitingRequests(
            edits=tuple(sorted(edits, key=lambda item: (item.requested_us, item.request_id))),
            savepoints=tuple(sorted(savepoints, key=lambda item: (item.requested_ms, item.request_id))),
            damaged=damaged,
        )

    def _readable(self, damaged: dict[str, Flip27Error]) -> Iterator[Request]:
        for request_id in self.ids():
            try:
                request = self._read(request_id)
            except (CorruptStateError, IncompatibleStateError) as error:
                damaged[request_id] = error
                continue
            if request is not None:
                yield request

    def _read(self, request_id: str) -> Request | None:
        """A request; None when it is gone, or of a kind that is not known here."""
        file = self.file(request_id)
        try:
            request = _decoded(file, self._store.read(file))
        except MissingStateError:
            return None
        if request is not None and (request.lineage, request.request_id) != (self.lineage, request_id):
            raise CorruptStateError(
                f"{file} holds request {request.request_id} for lineage {request.lineage}",
                remedy="requests are not copied: withdraw it, and ask again for this lineage",
            )
        return request


def _decoded(file: str, data: bytes) -> Request | None:
    try:
        request = unseal(_PART, data)
        found = msgspec.json.decode(request, type=_Kind)
        if found.kind not in (EDIT, SAVEPOINT):
            return None
        if found.format != FORMAT:
            raise IncompatibleStateError(
                f"request {file} has format {found.format}; this library reads {FORMAT}",
                remedy="run the query with the version of flip27-source that wrote it, or withdraw it",
            )
        if found.kind == SAVEPOINT:
            return msgspec.json.decode(request, type=SavepointRequest)
        return msgspec.json.decode(request, type=_StoredEdit).edit
    except BrokenSealError as error:
        raise _damaged(file, f"it {error}") from None
    except msgspec.MsgspecError as error:
        raise _damaged(file, error) from error


def _damaged(file: str, why: Any) -> CorruptStateError:
    return CorruptStateError(
        f"request {file} cannot be read: {why}",
        remedy="withdraw it and ask again: flip27 edit withdraw; nothing was changed",
    )
