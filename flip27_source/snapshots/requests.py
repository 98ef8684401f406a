"""Requests: edits that wait in a lineage for its next batch boundary. One file each, never changed.

A file says what is asked for and its digest; it is created by whoever asks, and deleted by the driver
that has applied it, or to withdraw it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..coordination.edits import EditRequest
from ..errors import CorruptStateError, EditError, Flip27Error, IncompatibleStateError, MissingStateError
from . import layout
from .sealed import BrokenSealError, seal, unseal
from .store import Store

FORMAT = 1
EDIT = "edit"


class _Kind(msgspec.Struct, frozen=True):
    format: int
    kind: str


class _StoredEdit(msgspec.Struct, frozen=True):
    format: int
    kind: str
    edit: EditRequest


class EditRequests:
    """The edits that wait in one lineage."""

    def __init__(self, store: Store, lineage: str) -> None:
        self._store = store
        self.lineage = lineage

    def submit(self, request: EditRequest) -> None:
        """Write a request; durable on return.

        Raises:
            EditError: it cannot be stored, or there is one of that id already.
        """
        try:
            stored = _StoredEdit(format=FORMAT, kind=EDIT, edit=request)
            data = msgspec.json.encode(stored, order="sorted")
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise EditError(
                f"the edit cannot be stored as JSON: {error}", remedy="use text that is Unicode"
            ) from error
        file = layout.request_file(self.lineage, request.request_id)
        if not self._store.create(file, sealed(data)):
            raise EditError(f"there is a request {request.request_id} already", remedy="submit it once")

    def ids(self) -> list[str]:
        """The ids of all requests that are there, sorted."""
        found = map(layout.parse_request, self._store.list(f"{self.lineage}/{layout.REQUESTS}"))
        return [request_id for request_id in found if request_id is not None]

    def read(self, request_id: str) -> EditRequest | None:
        """A request; None when it is not there, or asks for something else than an edit.

        Raises:
            CorruptStateError: it is cut off, altered, or meant for another lineage.
            IncompatibleStateError: its format is newer than this library.
        """
        file = layout.request_file(self.lineage, request_id)
        try:
            data = self._store.read(file)
        except MissingStateError:
            return None
        request = _decoded(file, data)
        if request is not None and (request.lineage, request.request_id) != (self.lineage, request_id):
            raise CorruptStateError(
                f"{file} holds request {request.request_id} for lineage {request.lineage}",
                remedy="requests are not copied: withdraw it, and ask for the edit of this lineage",
            )
        return request

    def delete(self, request_id: str) -> None:
        """Delete a request; no error when it is not there."""
        self._store.delete(layout.request_file(self.lineage, request_id))

    def readable(self) -> tuple[dict[str, EditRequest], dict[str, Flip27Error]]:
        """All edits that are there, and why some of them cannot be read, by id."""
        found: dict[str, EditRequest] = {}
        damaged: dict[str, Flip27Error] = {}
        for request_id in self.ids():
            try:
                request = self.read(request_id)
            except (CorruptStateError, IncompatibleStateError) as error:
                damaged[request_id] = error
                continue
            if request is not None:
                found[request_id] = request
        return found, damaged


def sealed(request: bytes) -> bytes:
    """A request with its digest, as it is stored."""
    return seal("request", msgspec.Raw(request))


def unsealed(file: str, data: bytes) -> bytes:
    """The request in a file.

    Raises:
        CorruptStateError: it is cut off or altered.
    """
    try:
        return unseal("request", data)
    except BrokenSealError as error:
        raise _damaged(file, f"it {error}") from None
    except msgspec.MsgspecError as error:
        raise _damaged(file, error) from error


def _decoded(file: str, data: bytes) -> EditRequest | None:
    request = unsealed(file, data)
    try:
        found = msgspec.json.decode(request, type=_Kind)
        if found.kind != EDIT:
            return None
        if found.format != FORMAT:
            raise IncompatibleStateError(
                f"request {file} has format {found.format}; this library reads {FORMAT}",
                remedy="run the query with the version of flip27-source that wrote it, or withdraw it",
            )
        return msgspec.json.decode(request, type=_StoredEdit).edit
    except msgspec.MsgspecError as error:
        raise _damaged(file, error) from error


def _damaged(file: str, why: Any) -> CorruptStateError:
    return CorruptStateError(
        f"request {file} cannot be read: {why}",
        remedy="withdraw it and ask again: flip27 edit withdraw; nothing was changed",
    )
