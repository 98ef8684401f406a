"""Submits edits, lists those that wait or have failed, and withdraws them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ..coordination.edit_values import AppliedEdit, Edit, EditRequest
from ..errors import EditError, Flip27Error
from ..snapshots.file_names import CheckpointName
from ..snapshots.request_mailbox import SAVEPOINT, Mailbox
from ..state_tables.history import COMPLETE, History
from .dry_run import EditPlan, only_lineage


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingEdit:
    """An existing request.

    Attributes:
        request: the request; None if it cannot be read.
        error: why it cannot be read, or why it failed or was refused.
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
        applied_in: the checkpoint that had already applied the edit; None if there is none.
        is_certain: whether the batch of ``applied_in`` is known to be complete. If not, and the query
            restarts from before that checkpoint, the edit is not applied.
        error: why it had failed, was refused, or could not be read; None for a waiting or applied edit.
    """

    request_id: str
    applied_in: int | None
    is_certain: bool = True
    error: str | None = None

    @property
    def said(self) -> str:
        """The result in a sentence."""
        if self.applied_in is None:
            return f"withdrawn: {self.request_id}" + (
                "" if self.error is None else f", which had failed: {self.error}"
            )
        said = (
            f"{self.request_id} was applied by checkpoint {self.applied_in}: to undo it, edit the state again"
        )
        if not self.is_certain:
            said += "; or it is withdrawn, if the query restarts from before that checkpoint: see its history"
        return said


class Outcome(StrEnum):
    """What has become of a request."""

    WAITING = "waiting"
    APPLIED = "applied"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What has become of one request.

    Attributes:
        request: None if it cannot be read; its result, once a checkpoint has answered it.
        checkpoint: that checkpoint. is_certain: whether its batch is known to be complete; if not, and the
            query restarts from before it, the request waits again.
        reason: why it was refused, has failed, or cannot be read.
    """

    request_id: str
    outcome: Outcome
    request: Edit | None
    checkpoint: CheckpointName | None = None
    is_certain: bool = True
    reason: str | None = None

    @property
    def applied_in(self) -> int | None:
        return self.checkpoint.checkpoint_id if self.checkpoint and self.reason is None else None

    @property
    def refusal(self) -> str | None:
        """Which checkpoint has refused it, and why."""
        if self.checkpoint is None or self.reason is None:
            return None
        return f"refused by checkpoint {self.checkpoint.checkpoint_id}: {self.reason}"


def submit(plan: EditPlan) -> str:
    """Submit a plan; returns the id of the request.

    The query applies it at the next batch boundary: a running query within ``requestInterval``, a
    stopped one at its next start. It follows all requests that already wait.
    """
    (request_id,) = submit_all([plan])
    return request_id


def submit_all(plans: Sequence[EditPlan]) -> Iterator[str]:
    """Submit plans of one source, in their order, as ``submit`` does; the ids, each once it is submitted.

    Raises:
        EditError: some were submitted, and the next one could not be.
    """
    if not plans:
        return
    store = plans[0].lineage.store(plans[0].storage_options)
    assert store is not None
    mailbox = Mailbox(store, plans[0].lineage.folder)
    waiting = mailbox.waiting().edits
    there = {edit.request_id for edit in waiting}
    last_us = waiting[-1].requested_us if waiting else plans[0].request.requested_us - 1
    for done, plan in enumerate(plans):
        request = plan.request
        if request.request_id not in there:
            last_us = max(request.requested_us, last_us + 1)  # the clocks of requesters differ
            try:
                mailbox.submit(replace(request, requested_us=last_us))
            except Flip27Error as error:
                if not done:
                    raise
                raise EditError(
                    f"{done} of {len(plans)} edits were submitted and wait; the next one failed: "
                    + error.what,
                    remedy="withdraw those that wait (flip27 edit list) before you submit all of them again; "
                    "or, on the page, confirm the same dry run again, which submits the others",
                ) from error
        yield request.request_id


def pending(
    *, state: str, lineage: str | None = None, storage_options: Mapping[str, Any] | None = None
) -> list[PendingEdit]:
    """The waiting requests, in the order in which they will be applied; then unreadable and failed ones."""
    mailbox, history = _opened(state, lineage, storage_options)
    return _pending(mailbox, lambda: _answered(history, {}))


def _pending(mailbox: Mailbox, find: Callable[[], Mapping[str, Fate]]) -> list[PendingEdit]:
    requests = mailbox.waiting()
    answered = find() if requests.edits else {}
    waiting = []
    for item in requests.edits:
        fate = answered.get(item.request_id)
        said: dict[str, Any] = {} if fate is None else {"error": fate.refusal, "applied_in": fate.applied_in}
        waiting.append(PendingEdit(request_id=item.request_id, request=item, **said))
    problems = {name: str(error) for name, error in sorted((requests.damaged | requests.unread).items())}
    problems |= {item.request_id: item.reason for item in mailbox.failed() if item.kind != SAVEPOINT}
    return waiting + [
        PendingEdit(request_id=name, request=None, error=error) for name, error in problems.items()
    ]


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
        EditError: no request, or more than one, starts with the id: waiting, failed, or applied by a retained
            checkpoint.
    """
    mailbox, history = _opened(state, lineage, storage_options)
    known = _answered(history, {})
    existing = {item.request_id: item.error for item in _pending(mailbox, lambda: known)}
    name = mailbox.withdraw(request_id, [*existing, *known], EditError)
    # Read after the deletion: the query may have applied the edit in between.
    fate = _answered(history, {}).get(name)
    applied_in = None if fate is None else fate.applied_in
    return WithdrawnEdit(
        request_id=name,
        applied_in=applied_in,
        is_certain=fate is None or applied_in is None or fate.is_certain,
        error=existing.get(name) if fate is None else fate.refusal,
    )


def _opened(
    state: str, lineage: str | None, storage_options: Mapping[str, Any] | None
) -> tuple[Mailbox, History]:
    options = dict(storage_options or {})
    chosen = only_lineage(state, lineage, options)
    store = chosen.store(options)
    assert store is not None
    return Mailbox(store, chosen.folder), History(store, chosen)


def fates(history: History, known: dict[CheckpointName, tuple[AppliedEdit, ...]]) -> list[Fate]:
    """What has become of the requests that wait, have failed, or that a retained checkpoint has answered.

    Those that wait are first, in their order, then those that have failed, then the others, newest first.

    Args:
        known: the edits of checkpoints that were read before; this adds to it.
    """
    answered = _answered(history, known)
    there = [
        Fate(
            request_id=item.request_id,
            outcome=Outcome.WAITING if item.error is None else Outcome.FAILED,
            request=item.request,
            reason=item.error,
        )
        for item in _pending(Mailbox(history.stored.store, history.stored.folder), dict)
        if item.request_id not in answered
    ]
    return [*there, *answered.values()]


def _answered(history: History, known: dict[CheckpointName, tuple[AppliedEdit, ...]]) -> dict[str, Fate]:
    """The requests that retained checkpoints have answered, newest first, by id; ``known``: as above."""
    line = history.line()
    answered: dict[str, Fate] = {}
    for name in reversed(line.names):
        if name not in known:
            document = history.document(name)
            known[name] = () if document is None else tuple(document.raw.edits)
        for edit in known[name]:
            answered[edit.request_id] = Fate(
                request_id=edit.request_id,
                outcome=Outcome.APPLIED if edit.refused is None else Outcome.REFUSED,
                request=edit,
                checkpoint=name,
                is_certain=line.status[name] == COMPLETE,
                reason=edit.refused,
            )
    for gone in known.keys() - line.status.keys():
        del known[gone]
    return answered
