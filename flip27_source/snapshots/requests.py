"""Requests: edits and savepoints that wait in a lineage for its next batch boundary.

One file each, never changed. It says what is asked for and its digest; it is created by whoever asks,
and deleted by the driver that has done it, or to withdraw it. Beside a request that cannot be done lies a
file that says why; it hides the request from the driver, and stays until the request is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from ..coordination.edit_values import EditRequest
from ..errors import (
    LONGEST_KEPT,
    CorruptStateError,
    EditError,
    Flip27Error,
    IncompatibleStateError,
    MissingStateError,
    StateLocationError,
)
from ..values.stored_json import decode_json
from . import file_names
from .request_checks import LATEST_MS, MOST_BYTES, edit_problem, target_problem, time_problem
from .sealed import BrokenSealError, seal, unseal
from .store import Store

FORMAT = 1
EDIT = "edit"
SAVEPOINT = "savepoint"
_PART = "request"
MOST_FAILURES = 100
"""So many failed requests are remembered, the newest."""

_MARK_BYTES = 1024 * 1024


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


class FailedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was not done, and never will be.

    Attributes:
        kind: ``edit`` or ``savepoint``; empty where the request could not be read.
        asked: the target of a savepoint; empty for the others.
        reason: why, in words. failed_ms: when, milliseconds since the epoch.
    """

    request_id: str
    kind: str
    asked: str
    reason: str
    failed_ms: int
    format: int = FORMAT


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
        damaged: why some of them are no requests, by id.
        unread: why some of them could not be read this time, by id.
    """

    edits: tuple[EditRequest, ...] = ()
    savepoints: tuple[SavepointRequest, ...] = ()
    damaged: dict[str, Flip27Error]
    unread: dict[str, Flip27Error]


class RequestFolder:
    """The requests that wait in one lineage."""

    def __init__(self, store: Store, lineage: str) -> None:
        self._store = store
        self.lineage = lineage

    def submit(self, request: Request) -> None:
        """Write a request; durable on return.

        Raises:
            EditError: the edit makes no sense or cannot be stored, or there is a request of that id already.
            StateLocationError: the savepoint can never be made where it is asked for.
        """
        if isinstance(request, SavepointRequest):
            check_target(request.target)
        else:
            problem = edit_problem(request)
            if problem is not None:
                raise EditError(f"the edit cannot be made: {problem}", remedy="mend it and ask again")
        try:
            data = seal(_PART, _StoredEdit(edit=request) if isinstance(request, EditRequest) else request)
        except (TypeError, ValueError) as error:
            raise EditError(
                f"the edit cannot be stored as JSON: {error}", remedy="use text that is Unicode"
            ) from error
        if len(data) > MOST_BYTES:
            raise EditError(
                f"the edit has more than {MOST_BYTES} bytes: it names too many splits",
                remedy="ask for several edits of fewer splits each, or rewind the source",
            )
        if not self._store.create_once(self.file(request.request_id), data):
            raise EditError(f"there is a request {request.request_id} already", remedy="submit it once")

    @property
    def location(self) -> str:
        """Where the lineage is; holds no secret."""
        return f"{self._store.location}/{self.lineage}"

    def file(self, request_id: str) -> str:
        """Where a request is stored, relative to the state location."""
        return file_names.request_file(self.lineage, request_id)

    def ids(self) -> list[str]:
        """The ids of all requests that wait, of whatever kind, sorted."""
        waiting, failed = self._listed()
        return [request_id for request_id in waiting if request_id not in failed]

    def forget(self, request_id: str) -> None:
        """Delete a request; what says why it failed stays. No error when it is not there."""
        self._store.delete(self.file(request_id))

    def delete(self, request_id: str) -> None:
        """Delete a request and what says why it failed; no error when neither is there."""
        self.forget(request_id)
        self._store.delete(file_names.failed_request_file(self.lineage, request_id))

    def fail(self, request_id: str, *, kind: str, asked: str, reason: str, now_ms: int) -> None:
        """Say why a request is not done, durably: from then on it does not wait any more."""
        kept = reason[:LONGEST_KEPT].encode("utf-8", "backslashreplace").decode()
        failed_ms = min(max(now_ms, 0), LATEST_MS)
        failed = FailedRequest(
            request_id=request_id, kind=kind, asked=asked, reason=kept, failed_ms=failed_ms
        )
        file = file_names.failed_request_file(self.lineage, request_id)
        self._store.create(file, msgspec.json.encode(failed, order="sorted"))
        for old in self.failed()[:-MOST_FAILURES]:
            self._store.delete(file_names.failed_request_file(self.lineage, old.request_id))

    def failed(self) -> list[FailedRequest]:
        """The requests that were not done, in the order in which they failed."""
        found = [self._failure(request_id) for request_id in self._listed()[1]]
        return sorted(found, key=lambda item: (item.failed_ms, item.request_id))

    def failure(self, request_id: str) -> FailedRequest | None:
        """Why a request was not done; None where nothing says so."""
        return self._failure(request_id) if request_id in self._listed()[1] else None

    def waiting(self) -> WaitingRequests:
        """All requests that are there and have not failed."""
        damaged: dict[str, Flip27Error] = {}
        unread: dict[str, Flip27Error] = {}
        found = list(self._readable(damaged, unread))
        edits = (item for item in found if isinstance(item, EditRequest))
        savepoints = (item for item in found if isinstance(item, SavepointRequest))
        return WaitingRequests(
            edits=tuple(sorted(edits, key=lambda item: (item.requested_us, item.request_id))),
            savepoints=tuple(sorted(savepoints, key=lambda item: (item.requested_ms, item.request_id))),
            damaged=damaged,
            unread=unread,
        )

    def _listed(self) -> tuple[list[str], frozenset[str]]:
        names = self._store.list(f"{self.lineage}/{file_names.REQUESTS}")
        waiting = (file_names.parse_request(name) for name in names)
        failed = (file_names.parse_failed_request(name) for name in names)
        return [item for item in waiting if item is not None], frozenset(
            item for item in failed if item is not None
        )

    def _failure(self, request_id: str) -> FailedRequest:
        file = file_names.failed_request_file(self.lineage, request_id)
        try:
            failed = decode_json(self._store.read(file, _MARK_BYTES), FailedRequest)
            problem = time_problem("failed_ms", failed.failed_ms)
            if problem is None and failed.request_id == request_id:
                return failed
            raise _damaged(file, problem or "it is of another request")
        except (Flip27Error, msgspec.MsgspecError) as error:
            reason = f"{file} cannot be read: {error}"
            return FailedRequest(request_id=request_id, kind="", asked="", reason=reason, failed_ms=0)

    def _readable(self, damaged: dict[str, Flip27Error], unread: dict[str, Flip27Error]) -> Iterator[Request]:
        for request_id in self.ids():
            try:
                request = self._read(request_id)
            except (CorruptStateError, IncompatibleStateError) as error:
                damaged[request_id] = error
            except StateLocationError as error:
                unread[request_id] = error
            else:
                if request is not None:
                    yield request

    def _read(self, request_id: str) -> Request | None:
        """A request; None when it is gone."""
        file = self.file(request_id)
        try:
            request = _decoded(file, self._store.read(file, MOST_BYTES))
        except MissingStateError as error:
            if request_id not in self.ids():
                return None
            raise StateLocationError(f"request {file} is there and leads nowhere") from error
        if (request.lineage, request.request_id) != (self.lineage, request_id):
            raise CorruptStateError(
                f"{file} holds request {request.request_id!r:.100} for lineage {request.lineage!r:.200}",
                remedy="requests are not copied: withdraw it, and ask again for this lineage",
            )
        return request


def check_target(target: str) -> None:
    """Refuse a target that a savepoint can never be made in.

    Raises:
        StateLocationError: with what to do.
    """
    problem = target_problem(target)
    if problem is not None:
        raise StateLocationError(
            f"a savepoint cannot be asked for: {problem}",
            remedy="give a directory, by path or URL; give credentials by the storage.* options of the query "
            "and of this call; or copy the newest complete checkpoint, without asking the query (--copy)",
        )


def _decoded(file: str, data: bytes) -> Request:
    try:
        request = unseal(_PART, data)
        found = decode_json(request, _Kind)
        if found.kind not in (EDIT, SAVEPOINT):
            raise IncompatibleStateError(
                f"request {file} is of kind {found.kind!r:.100}, which this library does not know",
                remedy="run the query with the version of flip27-source that wrote it, or withdraw it",
            )
        if found.format != FORMAT:
            raise IncompatibleStateError(
                f"request {file} has format {found.format}; this library reads {FORMAT}",
                remedy="run the query with the version of flip27-source that wrote it, or withdraw it",
            )
        if found.kind == SAVEPOINT:
            return _checked_savepoint(file, decode_json(request, SavepointRequest))
        return _checked_edit(file, decode_json(request, _StoredEdit).edit)
    except BrokenSealError as error:
        raise _damaged(file, f"it {error}") from None
    except msgspec.MsgspecError as error:
        raise _damaged(file, error) from error


def _checked_savepoint(file: str, request: SavepointRequest) -> SavepointRequest:
    problem = target_problem(request.target) or time_problem("requested_ms", request.requested_ms)
    if problem is not None:
        raise _damaged(file, problem)
    return request


def _checked_edit(file: str, edit: EditRequest) -> EditRequest:
    problem = edit_problem(edit)
    if problem is not None:
        raise _damaged(file, problem)
    return edit


def _damaged(file: str, why: Any) -> CorruptStateError:
    return CorruptStateError(
        f"request {file} cannot be read: {why}",
        remedy="withdraw it and ask again (flip27 edit withdraw, flip27 savepoint withdraw); nothing was "
        "changed",
    )
