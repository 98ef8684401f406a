"""EditDesk: the driver's side of edits. Applies what is asked for, and deletes the requests.

A request is deleted only when the checkpoint that applied it is complete; until then documents name it,
so a crash anywhere has it applied once: either from the state before it, or not again (KIP-875).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from ..coordination.checkpoints import CheckpointMetadata, Snapshot
from ..coordination.editing import Edited, Editing, rewound
from ..coordination.edits import AppliedEdit, EditOperation, EditRequest
from ..errors import LONGEST_KEPT, CorruptStateError, EditError, StateError, said_of
from ..hiding import Hidden
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import CheckpointDocument
from ..snapshots.layout import CheckpointName
from ..snapshots.offsets import INITIAL_OFFSET, Offset
from ..snapshots.requests import RequestFolder
from ..snapshots.storage import CheckpointStorage

_log = logging.getLogger("flip27_source")

StateAfter = Callable[[Offset], Snapshot[Any]]
"""The state after a retained checkpoint whose batch is complete."""


def changed_fields(split: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object of a split with other values in some of its fields.

    Raises:
        EditError: it has no such field.
    """
    known = split if isinstance(split, dict) else {}
    unknown = [name for name in fields if name not in known]
    if unknown:
        raise EditError(
            f"a split has no field {', '.join(unknown)}: {msgspec.json.encode(split).decode():.500}",
            remedy=f"give fields of the split, as JSON: {', '.join(known)}",
        )
    return {**known, **fields}


class EditDesk:
    """The edits of one source. Used on the coordinator's thread.

    Attributes:
        requests: where they are asked for; None as long as the source has no lineage.
        due: requests that were found and are not applied, in the order in which they were asked for.
        applied: what came of those that the next checkpoint is to name.
    """

    def __init__(self, editing: Editing[Any], storage: CheckpointStorage, codec: SnapshotCodec) -> None:
        self._editing = editing
        self._storage = storage
        self._codec = codec
        self.requests: RequestFolder | None = None
        self._at = INITIAL_OFFSET
        self._handled: set[str] = set()
        self._undeleted: set[str] = set()
        self.due: tuple[EditRequest, ...] = ()
        self.applied: tuple[AppliedEdit, ...] = ()

    @property
    def answered(self) -> tuple[str, ...]:
        """Requests that were applied by checkpoints before, and whose files may still be there."""
        return tuple(sorted(self._undeleted))

    def stand_at(self, offset: Offset, metadata: CheckpointMetadata | None) -> None:
        """A coordinator begins at an offset, whose document has this metadata."""
        # A savepoint's edits are those of the query that it was made of.
        known = None if offset.is_initial else metadata
        named = known or CheckpointMetadata(checkpoint_id=0, timestamp_ms=0)
        self._undeleted = {*named.answered, *(edit.request_id for edit in named.edits)}
        self._handled = set(self._undeleted)
        self.due, self.applied = (), ()
        self._at = offset

    def found(self, requests: Iterable[EditRequest]) -> None:
        """What a look has found."""
        # A look that began before a request was deleted still tells of it.
        self.due = tuple(item for item in requests if item.request_id not in self._handled)

    def confirmed(self) -> bool:
        """Whether there is something to apply, after a last look at what was withdrawn meanwhile."""
        if self.due and self.requests is not None:
            try:
                there = set(self.requests.ids())
            except StateError as error:
                _log.warning("requests cannot be looked for, tried again later: %s", error)
                there = set()
            self.due = tuple(item for item in self.due if item.request_id in there)
        return bool(self.due)

    def apply(self, standing: Snapshot[Any], state_after: StateAfter) -> Snapshot[Any]:
        """The state with all that is due applied, in the order in which it was asked for.

        What cannot be done is refused: an edit that stops the query would stop it at every restart.
        """
        for request in self.due:
            try:
                edited = self._dispatched(standing, request, state_after)
                self._storage.check_storable(edited.snapshot)
            except Exception as error:  # noqa: BLE001 - the reason is in the history
                came_of_it = AppliedEdit.of(request, refused=self._said(error))
            else:
                standing = edited.snapshot
                came_of_it = AppliedEdit.of(
                    request,
                    changed=edited.changed,
                    left_alone=edited.left_alone,
                    dropped_actions=edited.dropped_actions,
                )
            _log.warning(
                "edit %s (%s, asked for by %s: %s) has changed %d splits and left %d alone%s",
                request.operation, request.request_id, request.who, request.why, came_of_it.splits,
                came_of_it.left_alone_count, "" if came_of_it.refused is None else f": {came_of_it.refused}",
            )  # fmt: skip
            self.applied += (came_of_it,)
        self._handled |= {request.request_id for request in self.due}
        self.due = ()
        return standing

    def refuse(self, error: Exception) -> None:
        """The query cannot go on from what was applied last: none of it is done."""
        why = f"the query cannot go on from the edited state: {self._said(error)}"
        _log.error("the edits of this batch boundary are refused: %s", why)
        self.applied = tuple(
            item if item.refused is not None else AppliedEdit.of(item, refused=why) for item in self.applied
        )

    def written(self, offset: Offset) -> None:
        """The checkpoint that names what was applied is durable."""
        self._undeleted |= {edit.request_id for edit in self.applied}
        self.applied = ()
        self._at = offset

    def completed(self) -> None:
        """The checkpoint is complete: what it and those before it have applied is asked for no longer."""
        for request_id in self.answered:
            assert self.requests is not None
            try:
                self.requests.delete(request_id)
            except StateError as error:
                _log.warning("an applied request is deleted later: %s", error)
            else:
                self._undeleted.discard(request_id)

    def _said(self, error: Exception) -> str:
        """What the history keeps of an error; no secret."""
        hidden = Hidden(self._editing.options.with_prefix("storage."))
        return hidden.in_text(said_of(error))[:LONGEST_KEPT].encode("utf-8", "backslashreplace").decode()

    def _dispatched(
        self, standing: Snapshot[Any], request: EditRequest, state_after: StateAfter
    ) -> Edited[Any]:
        editing, split_ids = self._editing, request.split_ids
        match request.operation:
            case EditOperation.REPLAY:
                return editing.replay(standing, list(self._planned(request)))
            case EditOperation.REWIND:
                back_to = self._offset(request.checkpoint)
                edited = rewound(standing, state_after(back_to))
                read_again = [
                    split.split_id
                    for at, document in self._storage.plans_between(back_to, self._at)
                    for split in self._splits_in(at, document)
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
        """The split with other values in some of its fields, checked by the split's type."""
        known: Any = msgspec.json.decode(self._codec.encode_split(split))
        version = self._editing.enumerator_type.split_version
        try:
            changed = msgspec.json.encode(changed_fields(known, fields))
            return self._codec.decode_split(version, msgspec.Raw(changed))
        except CorruptStateError as error:
            raise EditError(f"{dict(fields)} is no position: {error.what}") from error

    def _planned(self, request: EditRequest) -> Iterable[Any]:
        """The splits that are to be replayed, as the plans of their batches have them, oldest first."""
        plans = {self._offset(name): frozenset(wanted) for name, wanted in request.plans.items()}
        offsets = sorted(plans, key=lambda offset: offset.checkpoint_id)
        if not offsets:
            return
        line = {offsets[0], *(at for at, _ in self._storage.plans_between(offsets[0], self._at))}
        for offset in offsets:
            if offset not in line:
                raise EditError(
                    f"checkpoint {offset.name} is not on the way to {self._at.name}: the query went back "
                    "from it",
                    remedy="ask for the edit again",
                )
            splits = self._splits_in(offset, self._storage.read(offset))
            yield from (split for split in splits if split.split_id in plans[offset])

    def _splits_in(self, offset: Offset, document: CheckpointDocument) -> Iterator[Any]:
        """The splits that the batch of a checkpoint had."""
        for _, segment in document.plan_segments(self._storage.segment_loader(offset, document)):
            yield from self._codec.decode_splits(document.source.split_version, segment)

    def _offset(self, text: str | None) -> Offset:
        name = CheckpointName.parse(text or "")
        if name is None or self.requests is None:
            raise EditError(
                f"{text!r} is not the name of a checkpoint", remedy="withdraw the edit; ask again"
            )
        return Offset(checkpoint_id=name.checkpoint_id, lineage=self.requests.lineage, name=name)
