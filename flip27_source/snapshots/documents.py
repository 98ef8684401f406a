"""Checkpoint documents: one JSON value with everything that a coordinator needs to continue.

Formats 1 to 5. Bulk state is stored in segments: small segments inside the document, others in separate
files. ``codec`` converts authors' values. Nothing is pickled. Pure.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from ..coordination.action_pages import ActionPage
from ..coordination.alignment import BatchHorizon
from ..coordination.batch_sizing import BatchTimes
from ..coordination.checkpoints import QuarantinedSplit
from ..coordination.data_losses import DataLoss
from ..coordination.edit_values import AppliedEdit
from ..coordination.event_time_order import EventTimeProgress
from ..coordination.subtask_reports import ReportDemand
from ..errors import CorruptStateError, IncompatibleStateError
from ..segment import Segment, content_digest
from ..values.stored_json import decode_json, format_of
from ..values.times import datetime_or_none
from .file_names import CheckpointName, checked_segment_name

FORMAT = 1
FORMAT_WITH_BLOCKS = 2
"""The format of documents whose quarantined splits are in segments; older libraries would not see these."""
FORMAT_WITH_DELAYED_ACTIONS = 3
"""The format of documents with delayed actions; older libraries would drop these."""
FORMAT_WITH_RANGES = 4
"""The format of documents with ranges that are read again; older libraries would lose these."""
FORMAT_WITH_BUCKETS = 5
"""The format of documents with buckets of files; older libraries would read each as the whole file."""

FORMATS = (FORMAT, FORMAT_WITH_BLOCKS, FORMAT_WITH_DELAYED_ACTIONS, FORMAT_WITH_RANGES, FORMAT_WITH_BUCKETS)
"""A document has the lowest of these formats that its content allows."""

MOST_DOCUMENT_BYTES = 512 * 1024 * 1024
"""Larger documents are neither written nor read; bulk state belongs in segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceIdentity:
    """The source that a document belongs to; a restart with another identity is refused.

    Attributes:
        uid: Flink's operator uid. enumerator, reader: their names.
        state_version, split_version: versions of the author's types.
        library: version of flip27-source that wrote the document.
        start_options: options that are used only at the first start, without secrets.
    """

    uid: str
    enumerator: str
    reader: str
    state_version: int
    split_version: int
    library: str
    start_options: dict[str, str] = field(default_factory=dict)


def encode_source(source: SourceIdentity) -> bytes:
    """The content of a lineage's ``source.json``."""
    return msgspec.json.encode({"format": 1, "source": source}, order="sorted")


def decode_source(data: bytes) -> SourceIdentity:
    """The source in a lineage's ``source.json``.

    Raises:
        msgspec.MsgspecError: the content is not one.
    """
    return decode_json(data, _SourceFile).source


class _SourceFile(msgspec.Struct, frozen=True):
    source: SourceIdentity


_ABSENT = msgspec.Raw()


class StoredSegment(msgspec.Struct, frozen=True, omit_defaults=True):
    json: msgspec.Raw = _ABSENT
    base64: str | None = None
    bytes: int | None = None


class StoredWaiting(msgspec.Struct, frozen=True):
    splits: str
    subtask: int | None


class StoredWaitingEvent(msgspec.Struct, frozen=True):
    event: msgspec.Raw
    subtask: int


StoredQuarantined: TypeAlias = QuarantinedSplit[msgspec.Raw]


class StoredQuarantineBlock(msgspec.Struct, frozen=True):
    """A segment of StoredQuarantined values, and their number."""

    items: str
    count: int


class StoredLedger(msgspec.Struct, frozen=True, omit_defaults=True):
    finished: int
    live: list[msgspec.Raw]
    pins: dict[str, int]
    waiting: list[StoredWaiting]
    events: list[StoredWaitingEvent] = []
    quarantined: list[StoredQuarantined] = []
    quarantine_blocks: list[StoredQuarantineBlock] = []
    ignored: list[StoredQuarantined] = []
    ignored_count: int = 0
    losses: list[DataLoss] = []
    loss_count: int = 0
    ranges: list[msgspec.Raw] = []

    @property
    def quarantined_count(self) -> int:
        """How many splits are quarantined, inside the document and in its segments."""
        return len(self.quarantined) + sum(block.count for block in self.quarantine_blocks)


class StoredActionPage(msgspec.Struct, frozen=True, omit_defaults=True):
    actions: str
    count: int
    since: int
    done: int = 0

    @classmethod
    def of(cls, page: ActionPage) -> StoredActionPage:
        return cls(actions=page.actions.name, count=page.count, since=page.since_ms, done=page.done)

    def page(self, find: SegmentFinder) -> ActionPage:
        return ActionPage(actions=find(self.actions), count=self.count, since_ms=self.since, done=self.done)


class StoredAssignment(msgspec.Struct, frozen=True, omit_defaults=True):
    splits: str
    subtask: int
    events: list[msgspec.Raw] = []


class StoredState(msgspec.Struct, frozen=True):
    state: msgspec.Raw
    version: int


class StoredDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int
    id: int
    parent: str | None
    timestamp: int
    kind: Literal["checkpoint", "savepoint"]
    source: SourceIdentity
    enumerator: StoredState
    ledger: StoredLedger
    position_names: dict[str, str] = {}
    plan: list[StoredAssignment]
    segments: dict[str, StoredSegment]
    reports: ReportDemand = ReportDemand.NONE
    actions: str | None = None
    delayed: list[StoredActionPage] = []
    action_delay: int | None = None
    edits: list[AppliedEdit] = []
    answered: list[str] = []
    times: BatchTimes | None = None
    event_time: EventTimeProgress | None = None
    horizon: BatchHorizon | None = None
    savepoint: str | None = None
    target: str | None = None
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDocument:
    """A decoded document whose author values are still JSON: no author code is needed to read it.

    Attributes:
        segments: names of the segments that are stored in separate files.
    """

    checkpoint_id: int
    parent: CheckpointName | None
    timestamp_ms: int
    source: SourceIdentity
    segments: frozenset[str]
    raw: StoredDocument

    @property
    def segment_bytes(self) -> dict[str, int]:
        """Sizes of the segments that are stored in separate files, if the document contains them."""
        return {name: found.bytes for name, found in self.raw.segments.items() if found.bytes is not None}

    @property
    def stored_bytes(self) -> int:
        """Its size, with the segments that are stored in separate files."""
        return len(msgspec.json.encode(self.raw)) + sum(self.segment_bytes.values())

    def quarantined(self, load: Callable[[str], bytes]) -> list[StoredQuarantined]:
        ledger, find = self.raw.ledger, SegmentFinder(self.raw.segments, load)
        beside = [
            item for block in ledger.quarantine_blocks for item in find(block.items).values(StoredQuarantined)
        ]
        return [*ledger.quarantined, *beside]

    def delayed_actions(self, load: Callable[[str], bytes]) -> list[ActionPage]:
        find = SegmentFinder(self.raw.segments, load)
        return [page.page(find) for page in self.raw.delayed]

    def plan_segments(self, load: Callable[[str], bytes]) -> list[tuple[StoredAssignment, Segment]]:
        """Each assignment of the plan with the segment of its splits."""
        find = SegmentFinder(self.raw.segments, load)
        return [(item, find(item.splits)) for item in self.raw.plan]

    def is_for_pages(self, load: Callable[[str], bytes]) -> bool | None:
        """Whether the planned splits are live where the batch begins, because their reader bounds them.

        None if no split is planned. Only for an enumerator that does not bound splits.
        """
        for _, segment in self.plan_segments(load):
            for split in segment.values(Any)[:1]:
                return split in map(decode_json, self.raw.ledger.live)
        return None


class SegmentFinder:
    """Finds the segments that a document names: inside the document, or with ``load``."""

    def __init__(self, inside: Mapping[str, StoredSegment], load: Callable[[str], bytes]) -> None:
        self._inside = inside
        self._load = load

    def __call__(self, name: Any) -> Segment:
        if not isinstance(name, str):
            raise CorruptStateError(f"{name!r} is not the name of a segment")
        entry = self._inside.get(checked_segment_name(name))
        if entry is None:
            raise CorruptStateError(f"the document names segment {name} but does not list it")
        if bytes(entry.json):
            return Segment(name, load=lambda _: bytes(entry.json))
        if entry.base64 is not None:
            return Segment(name, load=lambda _: _unbase64(name, entry.base64 or ""))
        return Segment(name, load=self._load, size=entry.bytes)


def decode_document(data: bytes, name: CheckpointName | None = None) -> CheckpointDocument:
    """Decode a document; with ``name``, check its digest.

    Raises:
        CorruptStateError: the document is truncated, altered, or not a document.
        IncompatibleStateError: this library does not know the document's format.
    """
    where = "in the offset" if name is None else f"{name.file_name}"
    if name is not None and content_digest(data) != name.digest:
        raise CorruptStateError(
            f"checkpoint document {where} does not match its digest ({len(data)} bytes)",
            remedy="restore the file from a backup of the state location, or restart the query "
            "from an older copy of its checkpoint and state",
        )
    try:
        number = format_of(data)
        if number not in FORMATS:
            raise IncompatibleStateError(
                f"checkpoint document {where} has format {number}; this library reads {FORMAT} to "
                f"{FORMATS[-1]}",
                remedy="install the version of flip27-source that wrote the document, or a newer one",
            )
        raw = decode_json(data, StoredDocument)
    except msgspec.MsgspecError as error:
        raise CorruptStateError(
            f"checkpoint document {where} cannot be read: {error}",
            remedy="restore the document from a backup of the state location or checkpoint",
        ) from error
    beside = (n for n, e in raw.segments.items() if not bytes(e.json) and e.base64 is None)
    return CheckpointDocument(
        checkpoint_id=raw.id,
        parent=None if raw.parent is None else CheckpointName.parse(raw.parent),
        timestamp_ms=raw.timestamp,
        source=raw.source,
        segments=frozenset(checked_segment_name(n) for n in beside),
        raw=raw,
    )


def _unbase64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise CorruptStateError(f"segment {name} inside the document is damaged") from error


def timestamp(milliseconds: int) -> dt.datetime:
    """Convert a time in a document.

    Raises:
        CorruptStateError: the time is out of range.
    """
    moment = datetime_or_none(milliseconds)
    if moment is None:
        raise CorruptStateError(
            f"a time in the state is {milliseconds!s:.40} milliseconds since 1970, which is not a valid date",
            remedy="the driver's clock was wrong, or the file was altered: restore the file from a backup",
        )
    return moment
