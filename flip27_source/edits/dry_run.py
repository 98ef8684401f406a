"""Planning an edit: a dry run over the stored state, split by split. It changes nothing.

The request names the splits that the dry run found; later splits are not part of the edit.
"""

from __future__ import annotations

import datetime as dt
import getpass
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ..coordination.edit_values import EditOperation, EditRequest
from ..enumerator import SplitEnumerator
from ..enumerator_mixins import CutsSomeSplits, ForgetsSplits, NamedPosition, NamesPositions
from ..errors import EditError
from ..file_systems.paths import redacted
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import CheckpointDocument
from ..snapshots.file_names import CheckpointName
from ..snapshots.locations import Lineage, find_lineages
from ..state_tables.held_splits import class_of
from ..state_tables.history import Ancestry, History, StoredSplit, canonical
from ..state_tables.predicates import Predicate
from .selection import Candidate, Change, Selection, live, planned, quarantined, to_be_read

_AGAIN = "rows that were already delivered are delivered again"
_NO_SIDE_EFFECTS = (
    "pending side effects on splits that are read again (archive, delete) will not happen; files that were "
    "already deleted are not restored"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """What an edit would do; nothing happens before the plan is submitted.

    Attributes:
        changes: split by split, as of the newest checkpoint.
        notes: further consequences of the edit.
    """

    request: EditRequest
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    lineage: Lineage
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """The stored state that an edit starts from."""

    history: History
    line: Ancestry
    head: CheckpointDocument

    @property
    def name(self) -> CheckpointName:
        return self.line.names[-1]


_Planned = tuple[EditRequest, Iterable[Change], list[str]]


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
    chosen = _operation(operation)
    options = dict(storage_options or {})
    found = only_lineage(state, lineage, options)
    ground = _ground(found, options)
    if not why.strip():
        raise EditError("an edit needs a reason, which the history shows", remedy="give the reason (--why)")
    request = EditRequest(
        request_id=str(uuid.uuid4()),
        lineage=found.folder,
        operation=chosen,
        who=who or f"{getpass.getuser()}@{socket.gethostname()}",
        why=why,
        requested_us=time.time_ns() // 1000,
        position=_fields_at(position, ground.head) if isinstance(position, NamedPosition) else position,
    )
    if chosen is EditOperation.REWIND:
        selection = Selection(split_ids=tuple(splits), glob=glob, since=since, until=until)
        if not selection.is_empty:
            raise EditError(
                f"a rewind applies to the whole source, but {selection} was selected",
                remedy="replay those splits instead",
            )
        request, changes, notes = _rewind(ground, request, to_checkpoint, _aware(to_time))
    else:
        if to_checkpoint is not None or to_time is not None:
            raise EditError(
                f"{chosen} takes no checkpoint or time to go back to",
                remedy="remove it: only rewind takes one",
            )
        selection = Selection(
            split_ids=tuple(dict.fromkeys(splits)), glob=glob, since=_aware(since), until=_aware(until)
        )
        _check(chosen, selection, request.position, class_of(ground.head))
        request = replace(request, selected=str(selection))
        request, changes, notes = _BY_SPLITS[chosen](ground, request, selection)
    return EditPlan(
        request=request, changes=tuple(changes), notes=tuple(notes), lineage=found, storage_options=options
    )


def only_lineage(state: str, lineage: str | None, storage_options: Mapping[str, Any]) -> Lineage:
    """The only lineage, or the one named ``lineage``.

    Raises:
        EditError: there are several, or no query can continue with the lineage.
    """
    found = find_lineages(state, storage_options, only=lineage)
    if len(found) > 1:
        raise EditError(
            f"{redacted(state)} contains several lineages: {', '.join(item.name for item in found)}",
            remedy="choose one (--lineage)",
        )
    (one,) = found
    if one.is_savepoint:
        raise EditError(
            f"{redacted(state)} is a savepoint, which never changes",
            remedy="start a query from the savepoint, and edit the state of that query",
        )
    if one.parent is None:
        raise EditError(
            f"the state of {one.name} is inside Spark's offset log, where it cannot be edited",
            remedy="edits need a state location: set stateLocation on a new query",
        )
    return one


def _operation(given: EditOperation | str) -> EditOperation:
    try:
        return EditOperation(given)
    except ValueError:
        raise EditError(
            f"{given!r} is not an edit operation", remedy=f"use one of: {', '.join(EditOperation)}"
        ) from None


def _ground(lineage: Lineage, storage_options: Mapping[str, Any]) -> _Ground:
    history = History(lineage.store(storage_options), lineage)
    line = history.line()
    head = history.document(line.names[-1]) if line.names else None
    if head is None:
        raise EditError(f"{lineage.name} has no checkpoint yet", remedy="wait for the first batch")
    return _Ground(history=history, line=line, head=head)


def _aware(given: dt.datetime | None) -> dt.datetime | None:
    return None if given is None else given.astimezone(dt.UTC)


def _fields_at(position: NamedPosition, head: CheckpointDocument) -> Mapping[str, Any]:
    enumerator = class_of(head)
    if enumerator is None or not issubclass(enumerator, NamesPositions):
        raise EditError(
            f"positions of the enumerator {head.source.enumerator} have no names",
            remedy="give fields of the split and their values (--position)",
        )
    return enumerator.fields_at(position)


def _moved(
    enumerator: type[SplitEnumerator[Any]] | None, now: Mapping[str, Any], fields: Mapping[str, Any]
) -> str:
    """How many rows a new position skips or repeats, if the enumerator knows."""
    if enumerator is None or not issubclass(enumerator, NamesPositions):
        return ""
    rows = enumerator.rows_moved(now, {**now, **fields})
    if rows is None:
        return ""
    return f"; rows skipped: {rows}" if rows >= 0 else f"; rows read again: {-rows}"


def _check(
    operation: EditOperation,
    selection: Selection,
    position: Mapping[str, Any] | None,
    enumerator: type[SplitEnumerator[Any]] | None,
) -> None:
    if selection.is_empty:
        raise EditError(
            f"no splits are selected for {operation}",
            remedy="select splits by id (--split), --glob, or --since and --until",
        )
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
    if enumerator is None:
        return
    if operation is EditOperation.FORGET and not issubclass(enumerator, ForgetsSplits):
        raise EditError(
            f"{enumerator.__qualname__} cannot forget splits: it has no forget_splits",
            remedy="replay the splits, or rewind the source",
        )
    cuts_splits = enumerator.bound_split is not SplitEnumerator.bound_split
    if operation is EditOperation.REPLAY and cuts_splits and not issubclass(enumerator, CutsSomeSplits):
        raise EditError(
            f"{enumerator.__qualname__} bounds its splits (bound_split): their ranges cannot be replayed",
            remedy="set the position of the split, or rewind the source",
        )


def _skip(ground: _Ground, request: EditRequest, selection: Selection) -> _Planned:
    candidates = to_be_read(ground.history, ground.name, ground.head)
    chosen = selection.chosen(candidates, "that waits to be read")
    return _by_ids(request, chosen), _changes(chosen, "is never read"), []


def _replay(ground: _Ground, request: EditRequest, selection: Selection) -> _Planned:
    candidates = planned(ground.history, ground.line, selection.asked)
    is_cut_off = _cut_off(ground.head)
    whole = [item for item in candidates if not is_cut_off(item.split)]
    if not any(selection.has(item) for item in whole):
        _refuse_replay(ground, selection)
    chosen = selection.chosen(whole, "that a retained batch has read")
    plans: dict[str, list[str]] = {}
    for item in chosen:
        plans.setdefault(str(item.name), []).append(item.split.split_id)
    request = replace(request, plans={name: tuple(ids) for name, ids in plans.items()})
    return request, _changes(chosen, "is read again as it was"), [_AGAIN, _NO_SIDE_EFFECTS]


def _refuse_replay(ground: _Ground, selection: Selection) -> None:
    """Raise an EditError that names the edit to use instead, if a replay cannot read the splits again."""
    aside = [item for item in quarantined(ground.history, ground.line) if selection.has(item)]
    if aside:
        raise EditError(
            f"{aside[0].split.split_id} is quarantined, so no batch has read it",
            remedy="use quarantine retry, which reads it once",
        )
    ranges = [item for item in planned(ground.history, ground.line, selection.asked) if selection.has(item)]
    if ranges:
        raise EditError(
            f"{ranges[0].split.split_id} is read in ranges, which cannot be replayed",
            remedy="set the position of the split, or rewind the source",
        )


def _cut_off(head: CheckpointDocument) -> Callable[[StoredSplit], bool]:
    """Whether a planned split is a range, which cannot be replayed."""
    kind = class_of(head)
    if kind is None or not issubclass(kind, CutsSomeSplits):
        return lambda _: False
    codec, version = SnapshotCodec(kind), head.source.split_version
    return lambda split: kind.is_cut_off(codec.decode_split(version, msgspec.Raw(split.text.encode())))


def _set_position(ground: _Ground, request: EditRequest, selection: Selection) -> _Planned:
    chosen = selection.chosen(live(ground.head), "that is live")
    fields = request.position or {}
    changes = []
    for item in chosen:
        unknown = [name for name in fields if name not in item.split.fields]
        if unknown or "split_id" in fields:
            raise EditError(
                f"split {item.split.split_id} has no position field {', '.join(unknown or ['split_id'])}",
                remedy=f"give fields of the split, which is {item.split.text}; its id cannot change",
            )
        then = f"continues at {canonical({**item.split.fields, **fields})}"
        then += _moved(class_of(ground.head), item.split.fields, fields)
        changes.append(Change(split_id=item.split.split_id, now=item.now, then=then))
    note = "rows are delivered again if the new position is before the old one, and skipped if it is after it"
    return _by_ids(request, chosen), changes, [note]


def _retry(ground: _Ground, request: EditRequest, selection: Selection) -> _Planned:
    chosen = selection.chosen(quarantined(ground.history, ground.line), "that is quarantined")
    return _by_ids(request, chosen), _changes(chosen, "is tried again"), []


def _drop(ground: _Ground, request: EditRequest, selection: Selection) -> _Planned:
    chosen = selection.chosen(quarantined(ground.history, ground.line), "that is quarantined")
    return _by_ids(request, chosen), _changes(chosen, "is never read"), []


def _forget(ground: _Ground, request: EditRequest, selection: Selection) -> _Planned:
    candidates = list(planned(ground.history, ground.line, selection.asked))
    notes = [f"splits that discovery finds again are read again: {_AGAIN}"]
    there = {item.split.split_id for item in candidates}
    unknown = [name for name in selection.split_ids if name not in there]
    if unknown and not selection.has_time and selection.glob is None:
        notes.append(
            f"{len(unknown)} of the splits are in no retained batch: the query checks whether the enumerator "
            "knows them when it applies the edit"
        )
        candidates += [
            Candidate(split=StoredSplit(split_id=name, text="", fields={}), now="is in no retained batch")
            for name in unknown
        ]
    chosen = selection.chosen(candidates, "that a retained batch has read")
    return _by_ids(request, chosen), _changes(chosen, "is forgotten"), notes


_BY_SPLITS: dict[EditOperation, Callable[[_Ground, EditRequest, Selection], _Planned]] = {
    EditOperation.SKIP: _skip,
    EditOperation.REPLAY: _replay,
    EditOperation.SET_POSITION: _set_position,
    EditOperation.QUARANTINE_RETRY: _retry,
    EditOperation.QUARANTINE_DROP: _drop,
    EditOperation.FORGET: _forget,
}


def _rewind(
    ground: _Ground, request: EditRequest, to_checkpoint: int | None, to_time: dt.datetime | None
) -> _Planned:
    if (to_checkpoint is None) == (to_time is None):
        raise EditError(
            "a rewind needs a target: either a checkpoint or a time",
            remedy="give a checkpoint (--to-checkpoint) or a time (--to-time)",
        )
    target = _target(ground, to_checkpoint, to_time)
    after = Predicate(lowest=target.checkpoint_id + 1)
    read_again = planned(ground.history, ground.line, after)
    notes = [
        f"the source goes back from checkpoint {ground.name.checkpoint_id} to {target.checkpoint_id}",
        _AGAIN,
        _NO_SIDE_EFFECTS,
    ]
    selected = f"to checkpoint {target.checkpoint_id}"
    selected += "" if to_time is None else f", the last one up to {to_time.isoformat()}"
    request = replace(request, checkpoint=str(target), selected=selected)
    return request, _changes(read_again, "is found and read again"), notes


def _target(ground: _Ground, to_checkpoint: int | None, to_time: dt.datetime | None) -> CheckpointName:
    names = ground.line.names[:-1]
    if to_checkpoint is not None:
        found = [name for name in names if name.checkpoint_id == to_checkpoint]
    else:
        assert to_time is not None
        until_ms = to_time.timestamp() * 1000
        found = [name for name in names if _made_ms(ground.history, name) <= until_ms]
    if found:
        return found[-1]
    what = f"checkpoint {to_checkpoint}" if to_time is None else f"a checkpoint up to {to_time.isoformat()}"
    retained = "there is no checkpoint before the current one"
    if names:
        oldest = dt.datetime.fromtimestamp(_made_ms(ground.history, names[0]) / 1000, dt.UTC)
        retained = (
            f"checkpoints {names[0].checkpoint_id} to {names[-1].checkpoint_id} are retained; the oldest "
            f"was created at {oldest.isoformat(timespec='seconds')}"
        )
    raise EditError(
        f"the source cannot be rewound to {what}",
        remedy=f"{retained}; option retainedCheckpoints sets how many are kept",
    )


def _made_ms(history: History, name: CheckpointName) -> float:
    document = history.document(name)
    return float("inf") if document is None else document.timestamp_ms


def _by_ids(request: EditRequest, chosen: Iterable[Candidate]) -> EditRequest:
    return replace(request, split_ids=tuple(dict.fromkeys(item.split.split_id for item in chosen)))


def _changes(chosen: Iterable[Candidate], then: str) -> list[Change]:
    return [
        Change(
            split_id=item.split.split_id,
            now=item.now,
            then=then,
            checkpoint_id=None if item.name is None else item.name.checkpoint_id,
        )
        for item in chosen
    ]
