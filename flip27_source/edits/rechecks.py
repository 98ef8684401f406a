"""Rechecks: whether a planned edit still does to the state what its dry run has shown. Writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..coordination.edit_values import Edit, EditOperation
from ..errors import EditError, MissingStateError
from .dry_run import EditPlan, plan_again
from .selection import Change
from .state_copy import StateCopy

_MOST_NAMED = 5


def differences(shown: EditPlan, copy: StateCopy) -> list[str]:
    """What has become different since a dry run; empty if its request still does what was shown.

    That the query has read on is no difference by itself: the request names its splits and their new
    position, and a rewind also undoes the batches that come before it. It is one if rows that were to be
    skipped would be read again.

    Args:
        copy: the state now.
    """
    said = [
        f"another edit was submitted: {edit.operation} by {edit.who}: {edit.why}"
        for edit in _edits_since(shown, copy)
    ]
    try:
        now = plan_again(copy, shown.request)
    except (EditError, MissingStateError) as error:
        return [*said, error.what]
    found = set(map(_effect, shown.changes)) - set(map(_effect, now.changes))
    then = {change.split_id: change.then for change in now.changes}
    lost = [f"{split_id}: {what}, now: {then.get(split_id, 'nothing')}" for split_id, what in sorted(found)]
    if shown.request.operation in (EditOperation.QUARANTINE_DROP, EditOperation.QUARANTINE_RETRY):
        more = Counter(map(_effect, now.changes)) - Counter(map(_effect, shown.changes))
        lost += [
            f"{split_id}: {number} more are quarantined under this id"
            for (split_id, _), number in sorted(more.items())
        ]
    said += lost[:_MOST_NAMED]
    said += [f"and {len(lost) - _MOST_NAMED} more splits"] if len(lost) > _MOST_NAMED else []
    # What a rewind does to the edits of others.
    said += [f"new: {note}" for note in now.notes if note.startswith("the edit ") and note not in shown.notes]
    performed = shown.dropped_actions - now.dropped_actions
    if performed > 0 and shown.request.operation is not EditOperation.REWIND:
        said.append(
            f"{performed} side effects (archive, delete) on data that is read again have happened meanwhile"
        )
    return said


def _edits_since(shown: EditPlan, copy: StateCopy) -> Iterator[Edit]:
    """The edits that the dry run has not known: they wait, or were applied meanwhile."""
    documents = (copy.history.document(name) for name in copy.line.names if name not in shown.line)
    applied = (edit for document in documents if document is not None for edit in document.raw.edits)
    for edit in (*(edit for edit in applied if edit.refused is None), *copy.waiting_edits):
        if edit.request_id not in shown.waiting:
            yield edit


def _effect(change: Change) -> tuple[str, str]:
    # How many rows lie between changes as the query reads on; not whether they are skipped or read again.
    said = change.then.rpartition(": ")[0] if "; rows " in change.then else change.then
    return change.split_id, said
