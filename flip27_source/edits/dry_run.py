"""Planning an edit: a dry run that applies it to a copy of the stored state, and shows the difference.

It changes nothing. The request names the splits that the dry run found; later splits are not part of it.
"""

from __future__ import annotations

import datetime as dt
import getpass
import socket
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ..coordination.edit_effects import Edited
from ..coordination.edit_values import EditOperation, EditRequest
from ..enumerator_mixins import NamedPosition, NamesPositions, PerformsActions
from ..errors import EditError
from ..file_systems.paths import redacted
from ..file_systems.url_credentials import masked
from ..snapshots.file_names import CheckpointName
from ..snapshots.locations import Lineage, find_lineages
from ..state_tables.predicates import Predicate
from ..state_tables.split_rows import DROPPED, UNDONE
from .rewind_targets import rewind_target
from .selection import (
    LEFT_ALONE,
    UNREAD,
    Candidate,
    Change,
    Selection,
    live,
    planned,
    quarantined,
    to_be_read,
)
from .state_copy import StateCopy

_AGAIN = "rows that were already delivered are delivered again"
_POSITIONS = (
    "rows are delivered again if the new position is before the old one, and skipped if it is after it"
)

_NOT_MOVED = (
    "ranges and records that are quarantined, or wait for their retry, are not moved: if the split reads "
    "them too, a retry delivers them twice; drop them (quarantine drop)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """What an edit would do; nothing happens before the plan is submitted.

    Attributes:
        changes: split by split, as of the newest checkpoint.
        notes: further consequences of the edit.
        at: that checkpoint. line: the checkpoints that were retained then. waiting: the ids of the edits that
            waited, and are applied first.
        dropped_actions: number of side effects that are dropped because their data is read again.
    """

    request: EditRequest
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    lineage: Lineage
    at: CheckpointName
    line: tuple[CheckpointName, ...]
    waiting: tuple[str, ...] = ()
    dropped_actions: int = 0
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)


def plan(
    operation: EditOperation | str,
    *,
    state: str,
    why: str,
    who: str | None = None,
    lineage: str | None = None,
    splits: Iterable[str] = (),
    glob: str | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    to_checkpoint: int | None = None,
    to_time: dt.datetime | None = None,
    position: Mapping[str, Any] | NamedPosition | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> EditPlan:
    """Plan an edit: a dry run that shows what it would change.

    Args:
        operation: ``skip``, ``replay``, ``rewind``, ``set-position``, ``quarantine retry``,
            ``quarantine drop`` or ``forget``.
        state: the query's state location or its Spark checkpoint.
        why: the reason, stored in the history.
        who: the author, stored in the history; user and host if None.
        lineage: the lineage, if several queries share a state location.
        splits, glob, since, until: select splits by id, by a glob on the id, and by the time of the
            checkpoint that read them; times without a zone are local. A split must meet all conditions.
        to_checkpoint, to_time: for a rewind: a retained checkpoint, or the last one up to that time.
        position: for set-position: fields of the split and their new values; or a named position, if the
            enumerator is a ``NamesPositions``.
        storage_options: options of the file system, like the source's ``storage.*`` options.

    Raises:
        EditError: the edit is not possible, or selects something that does not exist.
        StateLocationError, OptionError, StateError: the state cannot be found or read.
    """
    chosen, options = _operation(operation), dict(storage_options or {})
    return plan_on(
        StateCopy(only_lineage(state, lineage, options), options),
        chosen,
        why=why,
        who=who,
        selection=Selection(
            split_ids=tuple(dict.fromkeys(splits)), glob=glob, since=_aware(since), until=_aware(until)
        ),
        to_checkpoint=to_checkpoint,
        to_time=to_time,
        position=position,
    )


def plan_on(
    copy: StateCopy,
    operation: EditOperation,
    *,
    why: str,
    who: str | None,
    selection: Selection,
    to_checkpoint: int | None = None,
    to_time: dt.datetime | None = None,
    position: Mapping[str, Any] | NamedPosition | None = None,
) -> EditPlan:
    """As :func:`plan`, on a copy of the state, which stays as it is."""
    if not why.strip():
        raise EditError("an edit needs a reason, which the history shows", remedy="give the reason (--why)")
    request = EditRequest(
        request_id=str(uuid.uuid4()),
        lineage=copy.lineage.folder,
        operation=operation,
        who=masked(who or own_name()),  # what is stored has no password
        why=masked(why),
        requested_us=time.time_ns() // 1000,
        selected=masked(str(selection)),
        position=fields_at(position, copy) if isinstance(position, NamedPosition) else position,
    )
    if operation is EditOperation.REWIND:
        request = _rewinding(copy, request, selection, to_checkpoint, _aware(to_time))
        candidates: list[Candidate] = []
    else:
        if to_checkpoint is not None or to_time is not None:
            raise EditError(
                f"{operation} takes no checkpoint or time to go back to",
                remedy="remove it: only rewind takes one",
            )
        check_selected(operation, selection, request.position)
        candidates = _candidates(copy, request, selection)
        request = _selecting(request, candidates)
    return _shown(copy, request, candidates)


def plan_again(copy: StateCopy, request: EditRequest) -> EditPlan:
    """What exactly this request does to a copy of the state; raises as :func:`plan` does."""
    candidates: list[Candidate] = []
    plans = {name: frozenset(ids) for name, ids in request.plans.items()}
    if request.operation is not EditOperation.REWIND:
        named = (*request.split_ids, *(name for ids in request.plans.values() for name in ids))
        candidates = _candidates(copy, request, Selection(split_ids=tuple(dict.fromkeys(named))))
    if request.operation is EditOperation.REPLAY:
        candidates = [item for item in candidates if item.split_id in plans.get(str(item.name), ())]
    return _shown(copy, request, candidates)


def _shown(copy: StateCopy, request: EditRequest, candidates: list[Candidate]) -> EditPlan:
    edited = _edited(copy, request)
    changes = _changes(copy, request, candidates, edited)
    # The others may have become possible to change by then, and the edit only does what is shown.
    changed = {change.split_id for change in changes if not change.is_left_alone}
    candidates = [item for item in candidates if item.split_id in changed]
    return EditPlan(
        request=_until_now(copy, _selecting(request, candidates), candidates),
        changes=tuple(changes),
        notes=(
            *_notes(copy, request, candidates),
            *edited.notes,
            *_notes_on_actions(copy, changes, edited.dropped_actions),
        ),
        lineage=copy.lineage,
        at=copy.name,
        line=copy.line.names,
        waiting=tuple(edit.request_id for edit in copy.waiting_edits),
        dropped_actions=edited.dropped_actions,
        storage_options=copy.storage_options,
    )


def own_name() -> str:
    """The author of an edit that names none: user and host."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _edited(copy: StateCopy, request: EditRequest) -> Edited[Any]:
    if copy.kind is None and request.operation is EditOperation.FORGET:
        # Only the class knows what the state remembers.
        return Edited(snapshot=copy.standing, changed=request.split_ids)
    return copy.applied(request, copy.standing)


def only_lineage(state: str, lineage: str | None, storage_options: Mapping[str, Any]) -> Lineage:
    """The only lineage, or the one named ``lineage``.

    Raises:
        EditError: there are several, or no query can continue with the lineage.
    """
    if not state:
        raise EditError("the state location is an empty text", remedy="give the location (--state)")
    lineages = find_lineages(state, storage_options, only=lineage)
    if len(lineages) > 1:
        raise EditError(
            f"{redacted(state)} contains several lineages: {', '.join(item.name for item in lineages)}",
            remedy="choose one (--lineage)",
        )
    return editable(lineages[0])


def editable(lineage: Lineage) -> Lineage:
    """The lineage; raises EditError if no query can continue with it, or its state cannot be edited."""
    if lineage.is_savepoint:
        raise EditError(
            f"{lineage.name} is a savepoint, which never changes",
            remedy="start a query from the savepoint, and edit the state of that query",
        )
    if lineage.parent is None:
        raise EditError(
            f"the state of {lineage.name} is inside Spark's offset log, where it cannot be edited",
            remedy="edits need a state location: set stateLocation on a new query",
        )
    return lineage


def _operation(given: EditOperation | str) -> EditOperation:
    try:
        return EditOperation(given)
    except ValueError:
        raise EditError(
            f"{given!r} is not an edit operation", remedy=f"use one of: {', '.join(EditOperation)}"
        ) from None


def _aware(given: dt.datetime | None) -> dt.datetime | None:
    return None if given is None else given.astimezone(dt.UTC)


def fields_at(position: NamedPosition, copy: StateCopy) -> Mapping[str, Any]:
    """The fields of a split at a named position; raises EditError if the source has no such position."""
    if copy.kind is None or not issubclass(copy.kind, NamesPositions):
        raise EditError(
            f"positions of the enumerator {copy.head.source.enumerator} have no names"
            + (" here, where it cannot be imported" if copy.kind is None else ""),
            remedy="give fields of the split and their values (--position)",
        )
    return copy.kind.fields_at(position)


def check_selected(
    operation: EditOperation, selection: Selection, position: Mapping[str, Any] | None
) -> None:
    """Raises EditError unless the edit has a selection that its operation can have, and its position."""
    if selection.is_empty:
        raise EditError(
            f"no splits are selected for {operation}",
            remedy="select splits by id (--split), --glob, or --since and --until",
        )
    if "" in selection.split_ids:
        raise EditError("an empty text is not the id of a split", remedy="give the id of a split (--split)")
    if selection.has_time and operation in (EditOperation.SKIP, EditOperation.SET_POSITION):
        raise EditError(
            f"a time selects splits by the batch that has read them, but {operation} applies to splits that "
            "have not been read yet",
            remedy="select splits by id or glob",
        )
    if (position is None) != (operation is not EditOperation.SET_POSITION):
        raise EditError(
            f"{operation} " + ("needs a position" if position is None else "takes no position"),
            remedy='only set-position takes a position: fields of the split, such as {"next": 500}',
        )


def _candidates(copy: StateCopy, request: EditRequest, selection: Selection) -> list[Candidate]:
    """The selected splits of the kind that the operation is for."""
    match request.operation:
        case EditOperation.SKIP:
            return selection.chosen(to_be_read(copy), "that waits to be read")
        case EditOperation.SET_POSITION:
            return selection.chosen(live(copy, selection.asked.split_ids), "that is live")
        case EditOperation.QUARANTINE_RETRY | EditOperation.QUARANTINE_DROP:
            all_of_them = list(quarantined(copy))
            wanted = {item.split_id for item in selection.chosen(all_of_them, "that is quarantined")}
            return [item for item in all_of_them if item.split_id in wanted]
    forgets = request.operation is EditOperation.FORGET
    candidates = list(planned(copy, selection.asked, without=UNREAD - {DROPPED} if forgets else UNREAD))
    if forgets:
        candidates += _not_retained(selection, candidates)
    elif not any(map(selection.has, candidates)):
        aside = [item.split_id for item in quarantined(copy) if selection.has(item)]
        if aside:
            raise EditError(
                f"{aside[0]} is quarantined, so no batch has read it",
                remedy="use quarantine retry, which reads it once",
            )
    return selection.chosen(candidates, "that a retained batch has read")


def _not_retained(selection: Selection, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Splits that are named, and that the enumerator may know although no retained batch has read them."""
    there = {item.split_id for item in candidates}
    if not selection.has_time and selection.glob is None:
        for name in selection.split_ids:
            if name not in there:
                yield Candidate(split=_Named(name), text="", now="is in no retained batch")


@dataclass(frozen=True, slots=True)
class _Named:
    """A split of which only the id is known."""

    split_id: str


def _selecting(request: EditRequest, candidates: Iterable[Candidate]) -> EditRequest:
    if request.operation is not EditOperation.REPLAY:
        return replace(request, split_ids=tuple(dict.fromkeys(item.split_id for item in candidates)))
    plans: dict[str, list[str]] = {}
    for item in candidates:
        plans.setdefault(str(item.name), []).append(item.split_id)
    return replace(request, plans={name: tuple(ids) for name, ids in plans.items()})


def _until_now(copy: StateCopy, request: EditRequest, candidates: Iterable[Candidate]) -> EditRequest:
    """A drop of what is quarantined now: the parts of a split that come into quarantine later have its id."""
    if request.operation is not EditOperation.QUARANTINE_DROP:
        return request
    newest: dict[str, CheckpointName] = {}
    for item in candidates:
        # Those of a checkpoint that is no longer retained are older than all others.
        name = item.name or copy.line.names[0]
        newest[item.split_id] = max(name, newest.get(item.split_id, name))
    plans: dict[str, list[str]] = {}
    for split_id, name in newest.items():
        plans.setdefault(str(name), []).append(split_id)
    return replace(request, plans={name: tuple(ids) for name, ids in plans.items()})


def _changes(
    copy: StateCopy, request: EditRequest, candidates: list[Candidate], edited: Edited[Any]
) -> list[Change]:
    """What the edit has done to the copy, split by split.

    Raises:
        EditError: it has changed nothing.
    """
    if request.operation is EditOperation.REWIND:
        then = dict(edited.left_alone)
        then |= dict.fromkeys(edited.changed, "is found and read again")
        then |= dict.fromkeys(edited.counted, "counts as read, as it did at that checkpoint")
        batches = planned(copy, Predicate(lowest=edited.fork + 1), without=frozenset())
        return [
            _change(item, then[item.split_id]) for item in _listed(copy, batches) if item.split_id in then
        ]
    live_now = {split.split_id: split for split in edited.snapshot.ledger.live}
    changes = []
    changed = set(edited.changed)
    if request.operation in (EditOperation.QUARANTINE_RETRY, EditOperation.QUARANTINE_DROP):
        left = [item.split for item in edited.snapshot.ledger.quarantined_as(changed)]
        listed = candidates
    else:
        left, listed = [], _listed(copy, candidates)
    for item in listed:
        if item.split in left:
            changes.append(_change(item, f"{LEFT_ALONE}: {_AN_OLDER_ONE[request.operation]}"))
        elif item.split_id in changed:
            changes.append(_change(item, _then(copy, request, item, live_now.get(item.split_id))))
        elif copy.kind is None and item.now.endswith("held by the enumerator"):
            changes.append(_change(item, "is never read, if the enumerator can skip splits that it holds"))
        elif item.split_id in edited.left_alone:
            changes.append(_change(item, f"{LEFT_ALONE}: {edited.left_alone[item.split_id]}"))
    if all(change.is_left_alone for change in changes):
        reasons = "; ".join(f"{change.split_id} {change.then}" for change in changes[:3])
        raise EditError(
            f"{request.operation} would change nothing: {reasons}",
            remedy="select other splits, or use another operation (docs/edits.md)",
        )
    return changes


def _listed(copy: StateCopy, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Each split once, because it is read once: as in its newest batch, if possible one that is not undone.

    A split that is live goes back to the earliest of its batches, so it is listed with each.
    """
    candidates = list(candidates)
    newest = {item.split_id: item for item in sorted(candidates, key=lambda item: item.now != UNDONE)}
    live_ids = {split.split_id for split in copy.standing.ledger.live}
    return [item for item in candidates if item.split_id in live_ids or newest[item.split_id] is item]


_AN_OLDER_ONE = {
    EditOperation.QUARANTINE_RETRY: "an older one with this id is read first",
    EditOperation.QUARANTINE_DROP: "it was quarantined after the dry run",
}
_THEN = {
    EditOperation.SKIP: "is never read",
    EditOperation.REPLAY: "is read again as it was",
    EditOperation.QUARANTINE_RETRY: "is tried again",
    EditOperation.QUARANTINE_DROP: "is never read",
    EditOperation.FORGET: "is forgotten",
}


def _then(copy: StateCopy, request: EditRequest, item: Candidate, live_now: Any) -> str:
    if request.operation is EditOperation.FORGET and copy.kind is None:
        return "is forgotten, if the enumerator can forget splits"
    if request.operation is EditOperation.REPLAY and live_now is not None:  # its reader bounds it
        return f"is read again from {copy.position_of(live_now)}"
    if request.operation is not EditOperation.SET_POSITION or live_now is None:
        return _THEN[request.operation]
    then = f"continues at {copy.position_of(live_now)}"
    if copy.kind is None or not issubclass(copy.kind, NamesPositions):
        return then
    rows = copy.kind.rows_moved(*(msgspec.json.decode(text) for text in (item.text, copy.text_of(live_now))))
    if rows is None:
        return then
    return then + (f"; rows skipped: {rows}" if rows >= 0 else f"; rows read again: {-rows}")


def _change(item: Candidate, then: str) -> Change:
    checkpoint_id = None if item.name is None else item.name.checkpoint_id
    return Change(split_id=item.split_id, now=item.now, then=then, checkpoint_id=checkpoint_id)


def _notes(copy: StateCopy, request: EditRequest, candidates: list[Candidate]) -> Iterator[str]:
    match request.operation:
        case EditOperation.REWIND:
            back_to = _checkpoint_id(request)
            yield f"the source goes back from checkpoint {copy.name.checkpoint_id} to {back_to}"
            yield "batches that come before the edit is applied are undone too"
            yield _AGAIN
        case EditOperation.REPLAY:
            yield _AGAIN
        case EditOperation.SET_POSITION:
            yield _POSITIONS
            ledger = copy.standing.ledger
            if ledger.quarantined or ledger.waiting:
                yield _NOT_MOVED
        case EditOperation.FORGET:
            yield f"splits that discovery finds again are read again: {_AGAIN}"
            unknown = sum(isinstance(item.split, _Named) for item in candidates)
            if unknown:
                yield f"{unknown} of the splits are in no retained batch"
    if copy.waiting_edits:
        yield f"{len(copy.waiting_edits)} edits that wait are applied first, and are part of what is shown"
    if copy.kind is None:
        yield (
            f"the enumerator {copy.head.source.enumerator} cannot be imported here: what only it knows, such "
            "as pending side effects on the data, shows when the query applies the edit"
        )


def _notes_on_actions(copy: StateCopy, changes: list[Change], dropped: int) -> Iterator[str]:
    if dropped:
        yield (
            f"{dropped} pending side effects (archive, delete) on data that is read again "
            "will not happen; files that were already deleted are not restored"
        )
    newest = copy.name.checkpoint_id
    may_act = copy.kind is not None and issubclass(copy.kind, PerformsActions)
    if may_act and any(change.checkpoint_id == newest for change in changes):
        yield (
            f"what the source does after its newest batch, {newest} (archive, delete), is not known here, "
            "and does not happen to data that is read again"
        )


def _checkpoint_id(request: EditRequest) -> int:
    name = CheckpointName.parse(request.checkpoint or "")
    return 0 if name is None else name.checkpoint_id


def _rewinding(
    copy: StateCopy,
    request: EditRequest,
    selection: Selection,
    to_checkpoint: int | None,
    to_time: dt.datetime | None,
) -> EditRequest:
    if not selection.is_empty:
        raise EditError(
            f"a rewind applies to the whole source, but {selection} was selected",
            remedy="replay those splits instead",
        )
    if (to_checkpoint is None) == (to_time is None):
        raise EditError(
            "a rewind needs a target: either a checkpoint or a time",
            remedy="give a checkpoint (--to-checkpoint) or a time (--to-time)",
        )
    target = rewind_target(copy, to_checkpoint, to_time)
    selected = f"to checkpoint {target.checkpoint_id}"
    selected += "" if to_time is None else f", the last one up to {to_time.isoformat()}"
    return replace(request, checkpoint=str(target), selected=selected)
