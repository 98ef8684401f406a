"""Mailbox: the edits and savepoints that wait in a lineage for its next batch boundary.

Each request is one file, which never changes: it contains the request and its digest. The requester creates
it; the driver deletes it once it is done, or the requester withdraws it. If a request fails, a second file
gives the reason; it hides the request from the driver, and remains until the request is withdrawn.

Requests are validated when they are created and again when they are read: their content goes into checkpoint
documents and to the tasks of a batch, so an invalid request would stop the query at every restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from ..coordination.edit_values import EditOperation, EditRequest
from ..errors import (
    CorruptStateError,
    EditError,
    Flip27Error,
    IncompatibleStateError,
    MissingStateError,
    StateLocationError,
    kept_words,
)
from ..file_systems.paths import redacted
from ..values.differences import unstorable
from ..values.stored_json import decode_json
from ..values.stored_values import is_unicode
from . import file_names
from .file_names import CheckpointName
from .sealed import BrokenSealError, seal, unseal
from .store import Store

FORMAT = 1
EDIT = "edit"
SAVEPOINT = "savepoint"
_PART = "request"
MOST_FAILURES = 100
"""Maximum number of failed requests that are kept; the oldest are deleted."""

MOST_BYTES = 64 * 1024 * 1024
"""Larger requests are neither written nor read."""
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, the latest time that Python's datetime supports."""

_MARK_BYTES = 1024 * 1024
_LONGEST_TARGET = 4096
_LONGEST_TEXT = 10_000
_LONGEST_POSITION_BYTES = 64 * 1024


class SavepointRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a savepoint.

    Attributes:
        target: the directory in which the savepoint's own directory is created; contains no secret.
        requested_ms: time of the request, milliseconds since the epoch.
    """

    request_id: str
    lineage: str
    target: str
    requested_ms: int
    format: int = FORMAT
    kind: str = SAVEPOINT


Request = EditRequest | SavepointRequest


class FailedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that failed and is not tried again.

    Attributes:
        kind: ``edit`` or ``savepoint``; empty if the request could not be read.
        asked: the target of a savepoint; empty for other requests.
        reason: the reason, as text. failed_ms: time of the failure, milliseconds since the epoch.
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
    """The requests of a lineage, each kind ordered by time of request.

    Attributes:
        damaged: errors of invalid requests, by id.
        unread: errors of requests that could not be read this time, by id.
    """

    edits: tuple[EditRequest, ...] = ()
    savepoints: tuple[SavepointRequest, ...] = ()
    damaged: dict[str, Flip27Error]
    unread: dict[str, Flip27Error]


class Mailbox:
    def __init__(self, store: Store, lineage: str) -> None:
        self._store = store
        self.lineage = lineage

    def submit(self, request: Request) -> None:
        """Write a request; durable on return.

        Raises:
            EditError: the edit is invalid or cannot be stored, or a request with its id already exists.
            StateLocationError: no savepoint can be taken in the target.
        """
        if isinstance(request, SavepointRequest):
            check_target(request.target)
        else:
            problem = edit_problem(request)
            if problem is not None:
                raise EditError(
                    f"the edit is invalid: {problem}", remedy="correct the edit and submit it again"
                )
        try:
            data = seal(_PART, _StoredEdit(edit=request) if isinstance(request, EditRequest) else request)
        except (TypeError, ValueError) as error:
            raise EditError(
                f"the edit cannot be stored as JSON: {error}", remedy="use text that is Unicode"
            ) from error
        if len(data) > MOST_BYTES:
            raise EditError(
                f"the edit has more than {MOST_BYTES} bytes: it names too many splits",
                remedy="submit several edits with fewer splits each, or rewind the source",
            )
        file = self.file(request.request_id)
        # The response to a first attempt may be lost: a second attempt then finds its own data.
        if not (self._store.create(file, data) or self._store.read(file) == data):
            raise EditError(
                f"request {request.request_id} already exists", remedy="submit each request only once"
            )

    @property
    def location(self) -> str:
        """The location of the lineage; contains no secret."""
        return f"{self._store.location}/{self.lineage}"

    def file(self, request_id: str) -> str:
        return file_names.request_file(self.lineage, request_id)

    def ids(self) -> list[str]:
        """The ids of all waiting requests of any kind, sorted."""
        waiting, failed = self._listed()
        return [request_id for request_id in waiting if request_id not in failed]

    def forget(self, request_id: str) -> None:
        """Delete a request, but not the reason for its failure. No error if the request does not exist."""
        self._store.delete(self.file(request_id))

    def delete(self, request_id: str) -> None:
        """Delete a request and the reason for its failure; no error if neither exists."""
        self.forget(request_id)
        self._store.delete(file_names.failed_request_file(self.lineage, request_id))

    def fail(self, request_id: str, *, kind: str, asked: str, reason: str, now_ms: int) -> None:
        """Store the reason for a request's failure durably: from then on the request no longer waits."""
        failed = FailedRequest(
            request_id=request_id,
            kind=kind,
            asked=asked,
            reason=kept_words(reason),
            failed_ms=min(max(now_ms, 0), LATEST_MS),
        )
        file = file_names.failed_request_file(self.lineage, request_id)
        self._store.create(file, msgspec.json.encode(failed, order="sorted"))
        for old in self.failed()[:-MOST_FAILURES]:
            self._store.delete(file_names.failed_request_file(self.lineage, old.request_id))

    def failed(self) -> list[FailedRequest]:
        """The failed requests, ordered by time of failure."""
        failures = [self._failure(request_id) for request_id in self._listed()[1]]
        return sorted(failures, key=lambda item: (item.failed_ms, item.request_id))

    def failure(self, request_id: str) -> FailedRequest | None:
        return self._failure(request_id) if request_id in self._listed()[1] else None

    def withdraw(self, prefix: str, request_ids: Iterable[str], error_type: type[Flip27Error]) -> str:
        """Delete the only one of these requests whose id starts with ``prefix``, and return its id.

        It may be gone already: then nothing is deleted.

        Raises:
            Flip27Error: an ``error_type``: no request, or more than one, has this id.
        """
        known = sorted(set(request_ids))
        matching = [request_id for request_id in known if prefix.strip() and request_id.startswith(prefix)]
        if len(matching) != 1:
            what = f"{len(matching)} requests start with" if matching else "there is no request"
            raise error_type(
                f"{what} {prefix or 'with an empty id'} in {self.location}",
                remedy="give the id, or enough of its beginning; existing requests: "
                + (", ".join(known[:20]) or "none"),
            )
        self.delete(matching[0])
        return matching[0]

    def waiting(self) -> WaitingRequests:
        damaged: dict[str, Flip27Error] = {}
        unread: dict[str, Flip27Error] = {}
        requests = list(self._readable(damaged, unread))
        edits = (item for item in requests if isinstance(item, EditRequest))
        savepoints = (item for item in requests if isinstance(item, SavepointRequest))
        return WaitingRequests(
            edits=tuple(sorted(edits, key=lambda item: (item.requested_us, item.request_id))),
            savepoints=tuple(sorted(savepoints, key=lambda item: (item.requested_ms, item.request_id))),
            damaged=damaged,
            unread=unread,
        )

    def _listed(self) -> tuple[list[str], frozenset[str]]:
        names = self._store.list(f"{self.lineage}/{file_names.REQUESTS}")
        parsed = [item for item in map(file_names.parse_request, names) if item is not None]
        waiting = [request_id for request_id, is_failed in parsed if not is_failed]
        return waiting, frozenset(request_id for request_id, is_failed in parsed if is_failed)

    def _failure(self, request_id: str) -> FailedRequest:
        file = file_names.failed_request_file(self.lineage, request_id)
        try:
            failed = decode_json(self._store.read(file, _MARK_BYTES), FailedRequest)
            problem = time_problem("failed_ms", failed.failed_ms)
            if problem is None and failed.request_id == request_id:
                return failed
            raise _damaged(file, problem or "it belongs to another request")
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
        file = self.file(request_id)
        try:
            request = _decoded(file, self._store.read(file, MOST_BYTES))
        except MissingStateError as error:
            if request_id not in self.ids():
                return None
            raise StateLocationError(f"request {file} is listed but cannot be found") from error
        if (request.lineage, request.request_id) != (self.lineage, request_id):
            raise CorruptStateError(
                f"{file} contains request {request.request_id!r:.100} for lineage {request.lineage!r:.200}",
                remedy="requests cannot be copied: withdraw this request, and submit one for this lineage",
            )
        return request


def check_target(target: str) -> None:
    """Refuse a target in which no savepoint can be taken.

    Raises:
        StateLocationError: the target is invalid.
    """
    problem = target_problem(target)
    if problem is not None:
        raise StateLocationError(
            f"a savepoint cannot be requested: {problem}",
            remedy="give a directory, as a path or URL; set credentials with the storage.* options of the "
            "query and of this call; or copy the newest complete checkpoint without the query (--copy)",
        )


def _decoded(file: str, data: bytes) -> Request:
    try:
        content = unseal(_PART, data)
        stored = decode_json(content, _Kind)
        unknown = None
        if stored.kind not in (EDIT, SAVEPOINT):
            unknown = f"the unknown kind {stored.kind!r:.100}"
        elif stored.format != FORMAT:
            unknown = f"format {stored.format}; this library reads {FORMAT}"
        if unknown is not None:
            raise IncompatibleStateError(
                f"request {file} has {unknown}",
                remedy="run the query with the flip27-source version that wrote the request, or withdraw it",
            )
        if stored.kind == SAVEPOINT:
            savepoint = decode_json(content, SavepointRequest)
            request: Request = savepoint
            problem = target_problem(savepoint.target) or time_problem("requested_ms", savepoint.requested_ms)
        else:
            request = decode_json(content, _StoredEdit).edit
            problem = edit_problem(request)
    except BrokenSealError as error:
        raise _damaged(file, f"it {error}") from None
    except msgspec.MsgspecError as error:
        raise _damaged(file, error) from error
    if problem is not None:
        raise _damaged(file, problem)
    return request


def _damaged(file: str, why: Any) -> CorruptStateError:
    return CorruptStateError(
        f"request {file} cannot be read: {why}",
        remedy="withdraw the request and submit it again (flip27 edit withdraw, flip27 savepoint withdraw); "
        "nothing was changed",
    )


def target_problem(target: str) -> str | None:
    """Why no savepoint can be taken in a directory with this name; None if no reason is known."""
    if not target:
        return "the target is empty"
    if "\0" in target:
        return f"the target {target!r} contains a NUL character"
    if not is_unicode(target):
        return f"the target {target!r} is not Unicode"
    if len(target) > _LONGEST_TARGET:
        return f"the target has {len(target)} characters, more than {_LONGEST_TARGET}"
    if redacted(target) != target:
        return f"the target {redacted(target)} contains a user name or password, which would be stored"
    return None


def time_problem(name: str, milliseconds: float) -> str | None:
    """Why a number of milliseconds is not a valid time of a request; None if it is valid."""
    return None if 0 <= milliseconds <= LATEST_MS else f"{name} is not a valid time"


def edit_problem(edit: EditRequest) -> str | None:
    """Why an edit is invalid for any state; None if it is valid."""
    return next(_problems(edit), None)


def _problems(edit: EditRequest) -> Iterator[str]:
    for name, text in {"who": edit.who, "why": edit.why, "selected": edit.selected}.items():
        if not is_unicode(text):
            yield f"{name} is not Unicode: {text!r:.200}"
        if len(text) > _LONGEST_TEXT:
            yield f"{name} has {len(text)} characters, more than {_LONGEST_TEXT}"
    problem = time_problem("requested_us", edit.requested_us / 1000)
    if problem is not None:
        yield problem
    if not all(map(is_unicode, edit.split_ids)):
        yield "split_ids contain an id that is not Unicode"
    if (edit.operation is EditOperation.REWIND) != (edit.checkpoint is not None) or (
        edit.checkpoint is not None and CheckpointName.parse(edit.checkpoint) is None
    ):
        yield f"checkpoint is {edit.checkpoint!r:.200}: a rewind needs a checkpoint's name, other edits none"
    wrong = [name for name in edit.plans if CheckpointName.parse(name) is None]
    if wrong:
        yield f"plans contains an invalid checkpoint name: {wrong[0]!r:.200}"
    yield from _position_problems(edit)


def _position_problems(edit: EditRequest) -> Iterator[str]:
    if (edit.operation is EditOperation.SET_POSITION) != (edit.position is not None):
        yield f"{edit.operation} " + ("needs a position" if edit.position is None else "takes no position")
    if edit.position is None:
        return
    unstorable_part = unstorable(edit.position)
    if unstorable_part is not None:
        yield f"the position cannot be stored as JSON: {unstorable_part}"
        return
    size = len(msgspec.json.encode(edit.position))
    if size > _LONGEST_POSITION_BYTES:
        yield f"the position has {size} bytes, more than {_LONGEST_POSITION_BYTES}"
