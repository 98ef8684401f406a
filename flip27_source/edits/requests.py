"""Pending edits: submits, lists and withdraws their requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..coordination.edit_values import EditRequest
from ..errors import EditError
from ..snapshots.requests import SAVEPOINT, RequestFolder
from ..state_tables.history import History
from .dry_run import EditPlan, only_lineage


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingEdit:
    """An existing request.

    Attributes:
        request: the request; None if it cannot be read.
        error: why it cannot be read, or why it failed.
        applied_in: the checkpoint that has applied it; the batch of that checkpoint may not be complete.
    """

    request_id: str
    request: EditRequest | None
    error: str | None = None
    applied_in: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawnEdit:
    """The result of a withdrawal.

    Attributes:
        applied_in: the checkpoint that had already applied the edit; None if it is never applied.
    """

    request_id: str
    applied_in: int | None


def submit(plan: EditPlan) -> str:
    """Submit a plan; returns the id of the request.

    The query applies it at the next batch boundary: a running query within ``requestInterval``, a
    stopped one at its next start.
    """
    store = plan.lineage.store(plan.storage_options)
    assert store is not None
    RequestFolder(store, plan.lineage.folder).submit(plan.request)
    return plan.request.request_id


def pending(
    *, state: str, lineage: str | None = None, storage_options: Mapping[str, Any] | None = None
) -> list[PendingEdit]:
    """The waiting requests, in the order in which they will be applied; then unreadable and failed ones."""
    requests, history = _opened(state, lineage, storage_options)
    found = requests.waiting()
    applied = _applied(history) if found.edits else {}
    waiting = [
        PendingEdit(request_id=item.request_id, request=item, applied_in=applied.get(item.request_id))
        for item in found.edits
    ]
    unreadable = [
        PendingEdit(request_id=request_id, request=None, error=str(error))
        for request_id, error in sorted((found.damaged | found.unread).items())
    ]
    failed = [
        PendingEdit(request_id=item.request_id, request=None, error=item.reason)
        for item in requests.failed()
        if item.kind != SAVEPOINT
    ]
    return waiting + unreadable + failed


def withdraw(
    request_id: str,
    *,
    state: str,
    lineage: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> WithdrawnEdit:
    """Withdraw a request; the result says whether it was already applied.

    Args:
        request_id: the id from ``submit`` or ``pending``, or its beginning.

    Raises:
        EditError: there is no such request, and no retained checkpoint has applied it.
    """
    requests, history = _opened(state, lineage, storage_options)
    found = requests.waiting()
    failed = (item.request_id for item in requests.failed() if item.kind != SAVEPOINT)
    there = (*(edit.request_id for edit in found.edits), *found.damaged, *found.unread, *failed)
    matching = [name for name in there if name.startswith(request_id)]
    if len(matching) > 1:
        raise EditError(f"{len(matching)} requests start with {request_id}", remedy="give more of the id")
    for name in matching:
        requests.delete(name)
    name = matching[0] if matching else request_id
    applied_in = _applied(history).get(name)
    if not matching and applied_in is None:
        raise EditError(f"there is no request {request_id}", remedy="list the requests: flip27 edit list")
    return WithdrawnEdit(request_id=name, applied_in=applied_in)


def _opened(
    state: str, lineage: str | None, storage_options: Mapping[str, Any] | None
) -> tuple[RequestFolder, History]:
    options = dict(storage_options or {})
    found = only_lineage(state, lineage, options)
    store = found.store(options)
    assert store is not None
    return RequestFolder(store, found.folder), History(store, found)


def _applied(history: History) -> dict[str, int]:
    """The retained checkpoints that have applied requests, by request."""
    found: dict[str, int] = {}
    for name in history.line().names:
        document = history.document(name)
        if document is not None:
            found.update((edit.request_id, name.checkpoint_id) for edit in document.raw.edits)
    return found
