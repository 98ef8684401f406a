"""EditEngine: applies an edit to a state between two batches.

The driver applies it to the state itself, and a dry run to a copy: what a dry run shows happens (R17).
``coordination`` defines the effect of each operation; this module reads the stored state that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ..coordination.checkpoints import Snapshot
from ..coordination.edit_effects import Edited, Editing
from ..coordination.edit_values import AppliedEdit, EditOperation, EditRequest
from ..enumerator_mixins import CompletesPositions
from ..errors import CorruptStateError, EditError
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import CheckpointDocument
from ..snapshots.file_names import CheckpointName
from ..snapshots.stored_lineage import Branches, Step, StoredLineage, steps_back
from ..values.position_names import path_of, with_value

StateAfter = Callable[[CheckpointName], Snapshot[Any]]
"""The state after a retained checkpoint whose batch is complete."""

_UNDONE = "a rewind has undone its batch: it is found and read again"
_AHEAD = "is not known to have passed that position again: wait, or use set-position"
_UNORDERED = (
    "which of the positions of its batches is the earliest is not known: choose fewer batches, or use "
    "set-position"
)


class EditEngine:
    def __init__(self, editing: Editing[Any], codec: SnapshotCodec) -> None:
        self._editing = editing
        self._codec = codec

    def apply(
        self,
        request: EditRequest,
        standing: Snapshot[Any],
        lineage: StoredLineage,
        at: CheckpointName,
        state_after: StateAfter,
    ) -> Edited[Any]:
        """The state with the edit applied.

        Args:
            standing, at: the state between two batches, and the checkpoint that it follows.

        Raises:
            EditError, StateError: the edit cannot be applied; nothing was changed.
        """
        editing, split_ids = self._editing, request.split_ids
        by_ids = {
            EditOperation.SKIP: editing.skip,
            EditOperation.QUARANTINE_RETRY: editing.retry,
            EditOperation.FORGET: editing.forget,
        }
        match request.operation:
            case EditOperation.REPLAY:
                edited = self._replayed(request, standing, lineage, at)
            case EditOperation.REWIND:
                edited = self._rewound(request, standing, lineage, at, state_after)
            case EditOperation.SET_POSITION:
                fields = request.position or {}
                edited = editing.set_position(
                    standing, split_ids, lambda split: self._with_fields(split, fields)
                )
            case EditOperation.QUARANTINE_DROP:
                newest = {
                    split_id: _name(name).checkpoint_id
                    for name, ids in request.plans.items()
                    for split_id in ids
                }
                edited = editing.drop(standing, split_ids, newest)
            case operation:
                edited = by_ids[operation](standing, split_ids)
        done = AppliedEdit.of(request, changed=edited.changed)
        metadata = replace(standing.metadata, edits=(*standing.metadata.edits, done))
        return replace(edited, snapshot=replace(edited.snapshot, metadata=metadata))

    def _with_fields(self, split: Any, fields: Mapping[str, Any]) -> Any:
        """The split with new values in some of its fields, validated by the split's type."""
        known: Any = msgspec.json.decode(self._codec.encode_split(split))
        given = known if isinstance(known, dict) else {}
        kind = self._editing.enumerator_type
        found = {name: path_of(name, given, self._codec.position_names) for name in fields}
        unknown = [name for name, path in found.items() if path in (None, ("split_id",))]
        if unknown:
            raise EditError(
                f"split {split.split_id} has no position field {', '.join(unknown)}",
                remedy=f"give fields of the split, which is {msgspec.json.encode(known).decode():.500}; its "
                "id cannot change",
            )
        moved, paths = given, {name: path for name, path in found.items() if path is not None}
        for name, path in paths.items():
            moved = with_value(moved, path, fields[name])
        fields = {path[0]: moved[path[0]] for path in paths.values()}
        if issubclass(kind, CompletesPositions):
            fields = kind.completed_position(fields, given)
        try:
            changed = msgspec.json.encode({**given, **fields}, order="sorted")
            return self._codec.decode_split(kind.split_version, msgspec.Raw(changed))
        except CorruptStateError as error:
            raise EditError(f"{dict(fields)} is not a valid position: {error.what}") from error

    def _rewound(
        self,
        request: EditRequest,
        standing: Snapshot[Any],
        lineage: StoredLineage,
        at: CheckpointName,
        state_after: StateAfter,
    ) -> Edited[Any]:
        """Only what the two states do not have in common changes: either may have been rewound before."""
        back_to = _name(request.checkpoint)
        known: dict[CheckpointName, CheckpointDocument | None] = dict(lineage.chain(back_to, at))

        def find(name: CheckpointName) -> CheckpointDocument | None:
            if name not in known:
                known[name] = lineage.document_if_there(name)
            return known[name]

        branches = Branches.of(steps_back(at, standing.metadata.edits, find), steps_back(back_to, (), find))
        undone, counted = (
            [split for step in steps for split in self._splits_in(lineage, step.document)]
            for steps in (branches.one[::-1], branches.other[::-1])
        )
        edited = self._editing.rewind(standing, state_after(back_to), undone, branches.fork)
        recorded = {edit.request_id for step in branches.one for edit in step.document.raw.edits}
        taken_back = [edit for edit in standing.metadata.edits if edit.request_id not in recorded]
        in_both = {split.split_id for split in undone}
        return replace(
            edited,
            counted=tuple(split.split_id for split in counted if split.split_id not in in_both),
            notes=(
                *_notes_on_edits(branches.one, "is taken back", taken_back),
                *_notes_on_edits(branches.other, "counts again"),
            ),
        )

    def _replayed(
        self, request: EditRequest, standing: Snapshot[Any], lineage: StoredLineage, at: CheckpointName
    ) -> Edited[Any]:
        """The splits to replay are as in the plans of their batches, oldest batch first.

        What a rewind has undone since is found again by the enumerator: a replay would read it twice.
        """
        plans = {_name(text): frozenset(split_ids) for text, split_ids in request.plans.items()}
        names = sorted(plans)
        documents = dict(lineage.chain(names[0], at)) if names else {}
        documents |= {name: lineage.document(name) for name in names[:1]}
        steps = list(steps_back(at, standing.metadata.edits, documents.get))
        path = {step.name for step in steps}
        asked: dict[CheckpointName, list[Any]] = {}
        for name in names:
            if name not in documents:
                raise EditError(
                    f"checkpoint {name} is not an ancestor of {at}: the query was reset",
                    remedy="plan and submit the edit again",
                )
            splits = self._splits_in(lineage, documents[name])
            asked[name] = [split for split in splits if split.split_id in plans[name]]
        undone = [split for name in names if name not in path for split in asked[name]]
        unread, _ = self._editing.read_after(standing, undone) if undone else ((), {})
        left_alone = dict.fromkeys(unread, _UNDONE)
        planned = [
            split
            for name in names
            for split in asked[name]
            if name in path or split.split_id not in left_alone
        ]
        if self._editing.rules.reader_bounds_splits:
            planned, without_start = self._starts(planned, standing, steps)
            left_alone |= without_start
        edited = self._editing.replay(standing, planned)
        again = {split.split_id for split in planned}
        left_alone = {name: why for name, why in left_alone.items() if name not in again}
        return replace(edited, left_alone={**edited.left_alone, **left_alone})

    def _starts(
        self, planned: Sequence[Any], standing: Snapshot[Any], steps: Iterable[Step]
    ) -> tuple[list[Any], dict[str, str]]:
        """Of each split the earliest that a batch has read, and why there is none for the other splits.

        Positions cannot be compared: one is earlier than another if the split has moved from it to the other.
        Positions that a live split is not known to have passed do not count: it would skip rows.
        """
        moves = self._moves(standing, steps)
        present = {split.split_id: self._text(split) for split in standing.ledger.live}
        read: dict[str, dict[bytes, Any]] = {}
        for split in planned:
            read.setdefault(split.split_id, {}).setdefault(self._text(split), split)
        starts: list[Any] = []
        left_alone: dict[str, str] = {}
        for name, at in read.items():
            forward = moves.get(name, [])
            if name in present:
                passed = _reached(present[name], [(before, after) for after, before in forward])
                at = {position: split for position, split in at.items() if position in passed}
            start = _earliest(at, forward)
            if start is None:
                left_alone[name] = _UNORDERED if at else _AHEAD
            else:
                starts.append(at[start])
        return starts, left_alone

    def _moves(self, standing: Snapshot[Any], steps: Iterable[Step]) -> dict[str, list[tuple[bytes, bytes]]]:
        """How each split has moved by being read: from a position to a later one. Edits move it anywhere."""
        moves: dict[str, list[tuple[bytes, bytes]]] = {}
        later = {split.split_id: self._text(split) for split in standing.ledger.live}
        for step in steps:
            for edit in step.edits_after:
                if edit.operation is not EditOperation.QUARANTINE_RETRY:
                    for name in edit.split_ids if len(edit.split_ids) == edit.splits else list(later):
                        later.pop(name, None)
            version = step.document.source.split_version
            for raw in step.document.raw.ledger.live:
                split = self._codec.decode_split(version, raw)
                name, position = split.split_id, self._text(split)
                if name in later:
                    moves.setdefault(name, []).append((position, later[name]))
                later[name] = position
        return moves

    def _text(self, split: Any) -> bytes:
        return bytes(self._codec.encode_split(split))

    def _splits_in(self, lineage: StoredLineage, document: CheckpointDocument) -> Iterator[Any]:
        for _, segment in document.plan_segments(lineage.segment_loader(document)):
            yield from self._codec.decode_splits(document.source.split_version, segment)


def _notes_on_edits(
    steps: Iterable[Step], what_happens: str, more: Iterable[AppliedEdit] = ()
) -> Iterator[str]:
    for edit in (*more, *(edit for step in steps for edit in step.document.raw.edits)):
        if edit.refused is None and edit.operation is not EditOperation.REWIND:
            names = ", ".join(edit.split_ids[:3]) + (", ..." if edit.splits > 3 else "")
            yield f"the edit {edit.operation} of {edit.splits} splits ({names}) {what_happens}"


def _earliest(positions: Collection[bytes], moves: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The position from which moves lead to all the others; None if no such position is known."""
    earliest: bytes | None = None
    reached: set[bytes] = set()
    for position in positions:
        if position not in reached:  # so no position before this one leads to all
            earliest, reached = position, _reached(position, moves)
    return earliest if reached.issuperset(positions) else None


def _reached(start: bytes, moves: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """A position, and those that moves lead to from it."""
    leads_to: dict[bytes, list[bytes]] = {}
    for position, other in moves:
        leads_to.setdefault(position, []).append(other)
    reached, left = {start}, [start]
    while left:
        new = set(leads_to.get(left.pop(), ())) - reached
        reached |= new
        left += new
    return reached


def _name(text: str | None) -> CheckpointName:
    name = CheckpointName.parse(text or "")
    if name is None:
        raise EditError(f"{text!r} is not the name of a checkpoint", remedy="withdraw and resubmit the edit")
    return name
