"""EditEngine: applies an edit to a state between two batches.

The driver applies it to the state itself, and a dry run to a copy: what a dry run shows happens (R17).
``coordination`` defines the effect of each operation; this module reads the stored state that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from ..coordination.checkpoints import Snapshot
from ..coordination.edit_effects import Edited, Editing
from ..coordination.edit_values import AppliedEdit, EditOperation, EditRequest
from ..errors import CorruptStateError, EditError
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import CheckpointDocument
from ..snapshots.file_names import CheckpointName
from ..snapshots.stored_lineage import StoredLineage

StateAfter = Callable[[CheckpointName], Snapshot[Any]]
"""The state after a retained checkpoint whose batch is complete."""


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
        match request.operation:
            case EditOperation.REPLAY:
                return self._replayed(request, standing, lineage, at)
            case EditOperation.REWIND:
                back_to = _name(request.checkpoint)
                undone = lineage.chain(back_to, at)
                splits = (split for _, document in undone for split in self._splits_in(lineage, document))
                edited = editing.rewind(standing, state_after(back_to), (split.split_id for split in splits))
                edits = (*standing.metadata.edits, AppliedEdit.of(request))
                snapshot = replace(edited.snapshot, metadata=replace(standing.metadata, edits=edits))
                return replace(edited, snapshot=snapshot)
            case EditOperation.SET_POSITION:
                fields = request.position or {}
                return editing.set_position(
                    standing, split_ids, lambda split: self._with_fields(split, fields)
                )
        by_ids = {
            EditOperation.SKIP: editing.skip,
            EditOperation.QUARANTINE_RETRY: editing.retry,
            EditOperation.QUARANTINE_DROP: editing.drop,
            EditOperation.FORGET: editing.forget,
        }
        return by_ids[request.operation](standing, split_ids)

    def _with_fields(self, split: Any, fields: Mapping[str, Any]) -> Any:
        """The split with new values in some of its fields, validated by the split's type."""
        known: Any = msgspec.json.decode(self._codec.encode_split(split))
        given = known if isinstance(known, dict) else {}
        unknown = [name for name in fields if name not in given or name == "split_id"]
        if unknown:
            raise EditError(
                f"split {split.split_id} has no position field {', '.join(unknown)}",
                remedy=f"give fields of the split, which is {msgspec.json.encode(known).decode():.500}; its "
                "id cannot change",
            )
        version = self._editing.enumerator_type.split_version
        try:
            changed = msgspec.json.encode({**given, **fields}, order="sorted")
            return self._codec.decode_split(version, msgspec.Raw(changed))
        except CorruptStateError as error:
            raise EditError(f"{dict(fields)} is not a valid position: {error.what}") from error

    def _replayed(
        self, request: EditRequest, standing: Snapshot[Any], lineage: StoredLineage, at: CheckpointName
    ) -> Edited[Any]:
        """The splits to replay are as in the plans of their batches, oldest batch first.

        What a rewind has undone since is found again by the enumerator: a replay would read it twice.
        """
        plans = {_name(text): frozenset(split_ids) for text, split_ids in request.plans.items()}
        names = sorted(plans)
        chain = lineage.chain(names[0], at) if names else []
        line = {*names[:1], *(name for name, _ in chain)}
        recorded = [(name.checkpoint_id, edit) for name, document in chain for edit in document.raw.edits]
        known = {edit.request_id for _, edit in recorded}
        recorded += [
            (at.checkpoint_id + 1, edit) for edit in standing.metadata.edits if edit.request_id not in known
        ]
        rewinds = [
            (_name(edit.checkpoint).checkpoint_id, by)
            for by, edit in recorded
            if edit.operation is EditOperation.REWIND and edit.refused is None
        ]
        planned: list[Any] = []
        undone: list[str] = []
        for name in names:
            if name not in line:
                raise EditError(
                    f"checkpoint {name} is not an ancestor of {at}: the query was reset",
                    remedy="plan and submit the edit again",
                )
            splits = self._splits_in(lineage, lineage.document(name))
            asked = [split for split in splits if split.split_id in plans[name]]
            if any(back_to < name.checkpoint_id < by for back_to, by in rewinds):
                undone += [split.split_id for split in asked]
            else:
                planned += asked
        edited = self._editing.replay(standing, planned)
        again = {split.split_id for split in planned}
        why = "a rewind has undone its batch: it is found and read again"
        left_alone = {name: why for name in undone if name not in again}
        return replace(edited, left_alone={**edited.left_alone, **left_alone})

    def _splits_in(self, lineage: StoredLineage, document: CheckpointDocument) -> Iterator[Any]:
        for _, segment in document.plan_segments(lineage.segment_loader(document)):
            yield from self._codec.decode_splits(document.source.split_version, segment)


def _name(text: str | None) -> CheckpointName:
    name = CheckpointName.parse(text or "")
    if name is None:
        raise EditError(f"{text!r} is not the name of a checkpoint", remedy="withdraw and resubmit the edit")
    return name
