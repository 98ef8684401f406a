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
        error: why it had failed, or could not be read; None for a waiting or applied edit.
    """

    request_id: str
    applied_in: int | None
    error: str | None = None


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
    return _pending(*_opened(state, lineage, storage_options))


def _pending(requests: RequestFolder, history: History) -> list[PendingEdit]:
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
    """Withdraw a waiting request, or delete a failed one; the result says whether it was already applied.

    Args:
        request_id: the id from ``submit`` or ``pending``, or its beginning.

    Raises:
        EditError: no request starts with the id, waiting, failed, or applied by a retained checkpoint; or
            several do.
    """
    if not request_id.strip():
        raise EditError("the id of a request is empty", remedy="list the requests: flip27 edit list")
    requests, history = _opened(state, lineage, storage_options)
    existing = {item.request_id: item for item in _pending(requests, history)}
    applied = _applied(history)
    matching = sorted(name for name in existing.keys() | applied.keys() if name.startswith(request_id))
    if len(matching) > 1:
        raise EditError(
            f"{len(matching)} requests start with {request_id}: {', '.join(matching)}",
            remedy="give more of the id",
        )
    if not matching:
        raise EditError(f"there is no request {request_id}", remedy="list the requests: flip27 edit list")
    (name,) = matching
    if name in existing:
        requests.delete(name)
        # Read again: the query may have applied the edit before its request was deleted.
        applied = _applied(history)
    error = existing[name].error if name in existing else None
    return WithdrawnEdit(request_id=name, applied_in=applied.get(name), error=error)


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
