"""SnapshotCodec: converts snapshots of one enumerator type to documents, and back.

Authors' values are stored by their types (msgspec), each with a version and an upgrade hook. Every value
is checked to be readable before it is stored. Pure.
"""

from __future__ import annotations

import base64
import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..coordination.actions import PendingAction
from ..coordination.checkpoints import CheckpointMetadata, LedgerState, Snapshot, WaitingEvent, WaitingSplit
from ..coordination.packing import Assignment, Plan
from ..enumerator import SplitEnumerator
from ..errors import CorruptStateError, IncompatibleStateError, ProtocolError
from ..reader import SplitReader
from ..segment import Segment, content_digest
from ..values.stored_json import decode_json
from ..values.stored_values import stored_splits, stored_states
from .documents import (
    FORMAT,
    FORMAT_WITH_BLOCKS,
    FORMAT_WITH_BUCKETS,
    FORMAT_WITH_DELAYED_ACTIONS,
    FORMAT_WITH_RANGES,
    CheckpointDocument,
    SegmentFinder,
    SourceIdentity,
    StoredActionPage,
    StoredAssignment,
    StoredDocument,
    StoredLedger,
    StoredSegment,
    StoredState,
    StoredWaiting,
    StoredWaitingEvent,
    decode_document,
)
from .event_codec import EventCodec, decode_actions, encode_actions
from .file_names import CheckpointName
from .quarantine_blocks import QuarantineBlocks, as_given, as_stored

INLINE_SEGMENT_BYTES = 1024
"""Segments up to this size are stored inside the document, which is cheaper than a file."""


WAITING_BLOCK_SPLITS = 512
"""Average number of waiting splits in one segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedDocument:
    """A document in its stored form.

    Attributes:
        name: id and digest.
        data: canonical JSON.
        segments: the segments that are not inside the document, by name.
    """

    name: CheckpointName
    data: bytes
    segments: Mapping[str, Segment]


class SnapshotCodec:
    """Converts snapshots of one enumerator type, and events to its subtasks, to JSON and back."""

    def __init__(
        self, enumerator_type: type[SplitEnumerator[Any]], reader_type: type[SplitReader[Any]] = SplitReader
    ) -> None:
        self._enumerator_type = enumerator_type
        self.position_names: Mapping[str, str] = enumerator_type.position_names
        self._splits = stored_splits(enumerator_type)
        self._states = stored_states(enumerator_type)
        self.events_to_readers = EventCodec(reader_type)
        self._quarantine_blocks = QuarantineBlocks(self.encode_split)

    def encode(
        self,
        snapshot: Snapshot[Any],
        *,
        source: SourceIdentity,
        parent: CheckpointName | None,
        inline_all: bool,
        savepoint: CheckpointName | None = None,
        epoch: int = 0,
    ) -> EncodedDocument:
        """The document of ``snapshot``; with ``inline_all`` it contains every segment.

        Args:
            savepoint: the savepoint that the state was restored from.
            epoch: the driver's epoch; 0 if it has none. Within an epoch ids increase along one line.
        """
        collected: dict[str, Segment] = {}
        encode = self.encode_split
        plan = []
        for assignment in snapshot.plan.assignments:
            segment = self._encode_plan(assignment.splits)
            collected[segment.name] = segment
            plan.append(
                StoredAssignment(
                    splits=segment.name,
                    subtask=assignment.subtask_id,
                    events=[self.events_to_readers.encode(event) for event in assignment.events],
                )
            )
        quarantine = self._quarantine_blocks.stored(snapshot.ledger.quarantined, collected)
        ledger = StoredLedger(
            finished=snapshot.ledger.finished,
            live=[encode(split) for split in snapshot.ledger.live],
            pins=snapshot.ledger.pins,
            waiting=self._encode_waiting(snapshot.ledger.waiting, collected),
            events=[
                StoredWaitingEvent(event=self.events_to_readers.encode(item.event), subtask=item.subtask_id)
                for item in snapshot.ledger.events
            ],
            quarantined=quarantine.inside,
            quarantine_blocks=quarantine.blocks,
            ignored=as_stored(snapshot.ledger.ignored, encode),
            ignored_count=snapshot.ledger.ignored_count,
            losses=list(snapshot.ledger.losses),
            loss_count=snapshot.ledger.loss_count,
            ranges=[encode(cut) for cut in snapshot.ledger.ranges],
        )
        state = msgspec.Raw(self._states.encode(snapshot.enumerator_state, collected))
        actions = encode_actions(self._enumerator_type, snapshot.actions)
        if actions is not None:
            collected[actions.name] = actions
        collected |= {page.actions.name: page.actions for page in snapshot.delayed}
        inside, beside = _placed(collected, inline_all)
        document = StoredDocument(
            format=_format_with(
                ledger,
                delayed=bool(snapshot.delayed),
                buckets=self._enumerator_type._has_buckets(snapshot.enumerator_state),
            ),
            id=snapshot.metadata.checkpoint_id,
            parent=None if parent is None else str(parent),
            timestamp=snapshot.metadata.timestamp_ms,
            kind="savepoint" if snapshot.metadata.is_savepoint else "checkpoint",
            source=source,
            enumerator=StoredState(state=state, version=self._enumerator_type.state_version),
            ledger=ledger,
            position_names=dict(self.position_names),
            plan=plan,
            segments=inside,
            reports=snapshot.plan.reports,
            actions=None if actions is None else actions.name,
            delayed=[StoredActionPage.of(page) for page in snapshot.delayed],
            action_delay=snapshot.action_delay_ms if snapshot.delayed else None,
            edits=list(snapshot.metadata.edits),
            answered=list(snapshot.metadata.answered),
            times=snapshot.times,
            event_time=snapshot.event_time,
            horizon=snapshot.horizon,
            savepoint=None if savepoint is None else str(savepoint),
            target=snapshot.metadata.target_directory,
            epoch=epoch,
        )
        data = msgspec.json.encode(document, order="sorted")
        name = CheckpointName(document.id, content_digest(data))
        return EncodedDocument(name=name, data=data, segments=beside)

    def decode(
        self,
        document: CheckpointDocument,
        load: Callable[[str], bytes],
        *,
        with_plan: bool = False,
        with_events: bool = True,
    ) -> Snapshot[Any]:
        """The snapshot in a document.

        Args:
            with_plan: whether to decode the plan, which may be large.
            with_events: whether to decode events to readers, for which the class of the reader is needed.

        Raises:
            IncompatibleStateError: the document has a newer state or split version.
            CorruptStateError: a value does not match its type.
        """
        raw = document.raw
        find = SegmentFinder(raw.segments, load)
        version = document.source.split_version
        state = self.decode_state(document, load)

        def split(value: msgspec.Raw) -> Any:
            return self.decode_split(version, value)

        ledger: LedgerState[Any] = LedgerState(
            live=tuple(split(value) for value in raw.ledger.live),
            pins=raw.ledger.pins,
            waiting=tuple(
                WaitingSplit(split=waiting, subtask_id=block.subtask)
                for block in raw.ledger.waiting
                for waiting in self.decode_splits(version, find(block.splits))
            ),
            events=tuple(
                WaitingEvent(event=self.events_to_readers.decode(item.event), subtask_id=item.subtask)
                for item in (raw.ledger.events if with_events else ())
            ),
            ranges=tuple(split(value) for value in raw.ledger.ranges),
            quarantined=as_given(document.quarantined(load), split),
            ignored=as_given(raw.ledger.ignored, split),
            ignored_count=raw.ledger.ignored_count,
            losses=tuple(raw.ledger.losses),
            loss_count=raw.ledger.loss_count,
            finished=raw.ledger.finished,
        )
        return Snapshot(
            metadata=CheckpointMetadata(
                checkpoint_id=raw.id,
                timestamp_ms=raw.timestamp,
                is_savepoint=raw.kind == "savepoint",
                target_directory=raw.target,
                edits=tuple(raw.edits),
                answered=tuple(raw.answered),
            ),
            enumerator_state=state,
            ledger=ledger,
            plan=self._decode_plan(document, load, with_events=with_events) if with_plan else Plan(),
            actions=() if raw.actions is None else self.decode_actions(find(raw.actions)),
            delayed=tuple(document.delayed_actions(load)),
            action_delay_ms=raw.action_delay,
            times=raw.times,
            event_time=raw.event_time,
            horizon=raw.horizon,
        )

    def decode_state(self, document: CheckpointDocument, load: Callable[[str], bytes]) -> Any:
        """The enumerator's state in a document.

        Raises:
            IncompatibleStateError: the document has a newer state version.
            CorruptStateError: the state does not match its type.
        """
        stored, kind = document.raw.enumerator, self._enumerator_type
        rule = ("state", stored.version, kind.state_version, kind.upgrade_state)
        find = SegmentFinder(document.raw.segments, load)
        return self._decode_value(stored.state, self._states.declared, find, rule)

    def decode_actions(self, segment: Segment) -> tuple[PendingAction, ...]:
        return decode_actions(self._enumerator_type, segment)

    def check_storable(self, snapshot: Snapshot[Any], source: SourceIdentity) -> None:
        """Refuse a snapshot that could not be stored and restored.

        Raises:
            ContractError, CorruptStateError: the snapshot is invalid; the message names the value.
        """
        encoded = self.encode(snapshot, source=source, parent=None, inline_all=False)
        self.decode(decode_document(encoded.data), lambda name: encoded.segments[name].data, with_plan=True)

    def decode_split(self, version: int, raw: msgspec.Raw) -> Any:
        kind = self._enumerator_type
        rule = ("split", version, kind.split_version, kind.upgrade_split)
        return self._decode_value(raw, self._splits.declared, SegmentFinder({}, _no_segments_in_splits), rule)

    def encode_split(self, split: Any) -> msgspec.Raw:
        """The JSON of one split.

        Raises:
            ContractError: decoding would not restore the same split.
        """
        return msgspec.Raw(self._splits.encode(split, {}))

    def check_split(self, split: Any) -> None:
        """Raise the errors of :meth:`encode_split`, and refuse an id that cannot be stored."""
        self._splits.check_split(split)

    def decode_splits(self, version: int, segment: Segment) -> list[Any]:
        """The splits of one subtask in a plan; ``version`` is their split version."""
        if version == self._enumerator_type.split_version:
            return segment.values(self._splits.declared)
        return [self.decode_split(version, raw) for raw in segment.values(msgspec.Raw)]

    def _decode_plan(
        self, document: CheckpointDocument, load: Callable[[str], bytes], *, with_events: bool
    ) -> Plan[Any]:
        return Plan(
            assignments=tuple(
                Assignment(
                    subtask_id=stored.subtask,
                    splits=tuple(self.decode_splits(document.source.split_version, segment)),
                    events=tuple(
                        self.events_to_readers.decode(event)
                        for event in (stored.events if with_events else ())
                    ),
                )
                for stored, segment in document.plan_segments(load)
            ),
            reports=document.raw.reports,
        )

    def _encode_splits(self, kind: str, splits: Sequence[Any]) -> Segment:
        try:
            return Segment._of_values(kind, splits)
        except Exception:
            for split in splits:
                self._splits.check_split(split)
            raise

    def _encode_plan(self, splits: Sequence[Any]) -> Segment:
        """Encode the splits of one subtask, and check that tasks can decode them."""
        segment = self._encode_splits("plan", splits)
        try:
            decoded = len(segment.values(self._splits.declared))
        except CorruptStateError:
            decoded = -1
        if decoded != len(splits):
            for split in splits:
                self._splits.check_split(split)
            raise ProtocolError(f"the plan of {len(splits)} splits cannot be decoded: {segment.name}")
        return segment

    def _encode_waiting(
        self, waiting: Sequence[WaitingSplit[Any]], collected: dict[str, Segment]
    ) -> list[StoredWaiting]:
        """Waiting splits in blocks whose boundaries depend on their content.

        Taking splits from the front or adding splits at the back therefore changes one block each; the
        other blocks keep their names and are not written again.
        """
        blocks = []
        for subtask_id, items in itertools.groupby(waiting, key=lambda item: item.subtask_id):
            for splits in _cut_by_content([item.split for item in items]):
                segment = self._encode_splits("waiting", splits)
                collected[segment.name] = segment
                blocks.append(StoredWaiting(splits=segment.name, subtask=subtask_id))
        return blocks

    def _decode_value(
        self,
        raw: msgspec.Raw,
        target_type: Any,
        find: SegmentFinder,
        rule: tuple[str, int, int, Callable[[int, Any], Any]],
    ) -> Any:
        what, stored, current, upgrade = rule

        def segment(kind: type, name: Any) -> Any:
            if kind is Segment:
                return find(name)
            raise NotImplementedError

        if stored > current:
            raise IncompatibleStateError(
                f"the stored {what} of {self._enumerator_type.__qualname__} has version {stored}; "
                f"this code knows version {current}",
                remedy=f"deploy the code that wrote the {what}, or newer code",
            )
        try:
            if stored == current:
                return decode_json(raw, target_type, dec_hook=segment)
            return msgspec.convert(upgrade(stored, decode_json(raw)), type=target_type, dec_hook=segment)
        except msgspec.MsgspecError as error:
            raise CorruptStateError(
                f"the stored {what} of {self._enumerator_type.__qualname__} does not match its type: {error}",
                remedy=f"if the type was changed, raise {what}_version and define "
                f"upgrade_{what}; if not, restore the state location from a backup",
            ) from error


def _format_with(ledger: StoredLedger, *, delayed: bool, buckets: bool) -> int:
    """The oldest format that supports the content of a document."""
    if buckets:
        return FORMAT_WITH_BUCKETS
    if ledger.ranges:
        return FORMAT_WITH_RANGES
    if delayed:
        return FORMAT_WITH_DELAYED_ACTIONS
    return FORMAT_WITH_BLOCKS if ledger.quarantine_blocks else FORMAT


def _cut_by_content(splits: list[Any]) -> Iterator[list[Any]]:
    start = 0
    for index, split in enumerate(splits, 1):
        if zlib.crc32(str(split.split_id).encode("utf-8", "replace")) % WAITING_BLOCK_SPLITS == 0:
            yield splits[start:index]
            start = index
    if start < len(splits):
        yield splits[start:]


def _placed(
    collected: Mapping[str, Segment], inline_all: bool
) -> tuple[dict[str, StoredSegment], dict[str, Segment]]:
    """The segments inside the document, and the segments in separate files."""
    inside: dict[str, StoredSegment] = {}
    beside: dict[str, Segment] = {}
    for name, segment in collected.items():
        size = len(segment.data) if segment.size is None else segment.size
        if not inline_all and size > INLINE_SEGMENT_BYTES:
            inside[name] = StoredSegment(bytes=size)
            beside[name] = segment
        elif segment.holds_json:
            inside[name] = StoredSegment(json=msgspec.Raw(segment.data))
        else:
            inside[name] = StoredSegment(base64=base64.b64encode(segment.data).decode())
    return inside, beside


def _no_segments_in_splits(name: str) -> bytes:
    raise CorruptStateError(f"a split refers to segment {name}; splits cannot contain segments")
