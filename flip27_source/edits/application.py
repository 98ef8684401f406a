"""EditApplication: applies one edit to the state of a source, with the plans of the batches that it names.

``coordination`` defines the effect of each operation; this module reads the stored state for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from ..coordination.checkpoints import Snapshot
from ..coordination.edit_effects import Edited, Editing
from ..coordination.edit_values import EditOperation, EditRequest
from ..errors import CorruptStateError, EditError
from ..snapshots.checkpoint_files import CheckpointStorage
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import CheckpointDocument
from ..snapshots.file_names import CheckpointName
from ..snapshots.offsets import Offset

StateAfter = Callable[[Offset], Snapshot[Any]]
"""The state after a retained checkpoint whose batch is complete."""


def changed_fields(split: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object of a split with new values in some of its fields.

    Raises:
        EditError: the split has no such field.
    """
    known = split if isinstance(split, dict) else {}
    unknown = [name for name in fields if name not in known]
    if unknown:
        raise EditError(
            f"a split has no field {', '.join(unknown)}: {msgspec.json.encode(split).decode():.500}",
            remedy=f"give only fields of the split, as JSON: {', '.join(known)}",
        )
    return {**known, **fields}


class EditApplication:
    """Applies edits to the state of one source; keeps no state itself."""

    def __init__(self, editing: Editing[Any], storage: CheckpointStorage, codec: SnapshotCodec) -> None:
        self._editing = editing
        self._storage = storage
        self._codec = codec

    def apply(
        self, request: EditRequest, standing: Snapshot[Any], at: Offset, state_after: StateAfter
    ) -> Edited[Any]:
        """The state with the edit applied.

        Args:
            standing, at: the state between two batches, and the checkpoint that it follows.

        Raises:
            EditError, StateError: the edit cannot be applied; nothing was changed.
        """
        edited = self._dispatched(request, standing, at, state_after)
        self._storage.check_storable(edited.snapshot)
        return edited

    def _dispatched(
        self, request: EditRequest, standing: Snapshot[Any], at: Offset, state_after: StateAfter
    ) -> Edited[Any]:
        editing, split_ids = self._editing, request.split_ids
        match request.operation:
            case EditOperation.REPLAY:
                return editing.replay(standing, list(self._planned(request, at)))
            case EditOperation.REWIND:
                back_to = _offset(request.checkpoint, at)
                edited = editing.rewind(standing, state_after(back_to))
                read_again = [
                    split.split_id
                    for offset, document in self._storage.plans_between(back_to, at)
                    for split in self._splits_in(offset, document)
                ]
                return replace(edited, changed=tuple(dict.fromkeys(read_again)))
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
        version = self._editing.enumerator_type.split_version
        try:
            changed = msgspec.json.encode(changed_fields(known, fields))
            return self._codec.decode_split(version, msgspec.Raw(changed))
        except CorruptStateError as error:
            raise EditError(f"{dict(fields)} is not a valid position: {error.what}") from error

    def _planned(self, request: EditRequest, at: Offset) -> Iterable[Any]:
        """The splits to replay, as in the plans of their batches, oldest batch first."""
        plans = {_offset(name, at): frozenset(wanted) for name, wanted in request.plans.items()}
        offsets = sorted(plans, key=lambda offset: offset.checkpoint_id)
        if not offsets:
            return
        line = {offsets[0], *(offset for offset, _ in self._storage.plans_between(offsets[0], at))}
        for offset in offsets:
            if offset not in line:
                raise EditError(
                    f"checkpoint {offset.name} is not an ancestor of {at.name}: the query was reset",
                    remedy="plan and submit the edit again",
                )
            splits = self._splits_in(offset, self._storage.read(offset))
            yield from (split for split in splits if split.split_id in plans[offset])

    def _splits_in(self, offset: Offset, document: CheckpointDocument) -> Iterator[Any]:
        """The splits in the batch of a checkpoint."""
        for _, segment in document.plan_segments(self._storage.segment_loader(offset, document)):
            yield from self._codec.decode_splits(document.source.split_version, segment)


def _offset(text: str | None, at: Offset) -> Offset:
    """The checkpoint with this name, in the source's lineage."""
    name = CheckpointName.parse(text or "")
    if name is None or at.lineage is None:
        raise EditError(f"{text!r} is not the name of a checkpoint", remedy="withdraw and resubmit the edit")
    return Offset(checkpoint_id=name.checkpoint_id, lineage=at.lineage, name=name)
