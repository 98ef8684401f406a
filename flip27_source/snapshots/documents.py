"""Checkpoint documents: one JSON value that holds everything a coordinator needs to go on.

Format 1. Values of authors are stored through their types (msgspec), each with a version; bulk
state is stored beside the document in segments, small segments inside it. Never pickle. Pure.
"""

from __future__ import annotations

import base64
import binascii
import functools
import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from ..coordination.checkpoints import (
    CheckpointMetadata,
    LedgerState,
    Snapshot,
    WaitingSplit,
)
from ..coordination.planning import Plan
from ..enumerator import SplitEnumerator
from ..errors import ContractError, CorruptStateError, IncompatibleStateError
from ..segment import Segment, content_digest
from .layout import CheckpointName, checked_segment_name

FORMAT = 1
INLINE_SEGMENT_BYTES = 1024
"""Segments up to this size are kept inside the document: a file costs more than they do."""


WAITING_BLOCK_SPLITS = 512
"""How many waiting splits are stored together, on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceIdentity:
    """What a document belongs to; a restart with another identity is refused.

    Attributes:
        uid: Flink's operator uid. enumerator, reader: their names.
        state_version, split_version: versions of the author's types.
        library: version of flip27-source that wrote the document.
        start_options: options that only mattered at the first start, without secrets.
    """

    uid: str
    enumerator: str
    reader: str
    state_version: int
    split_version: int
    library: str
    start_options: dict[str, str] = field(default_factory=dict)


_ABSENT = msgspec.Raw()


class _Segment(msgspec.Struct, frozen=True, omit_defaults=True):
    json: msgspec.Raw = _ABSENT
    base64: str | None = None
    bytes: int | None = None


class _Waiting(msgspec.Struct, frozen=True):
    splits: str
    subtask: int | None


class _Ledger(msgspec.Struct, frozen=True):
    finished: int
    live: list[msgspec.Raw]
    pins: dict[str, int]
    waiting: list[_Waiting]


class _Assignment(msgspec.Struct, frozen=True):
    splits: str
    subtask: int


class _State(msgspec.Struct, frozen=True):
    state: msgspec.Raw
    version: int


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    id: int
    parent: str | None
    timestamp: int
    kind: Literal["checkpoint", "savepoint"]
    source: SourceIdentity
    enumerator: _State
    ledger: _Ledger
    plan: list[_Assignment]
    segments: dict[str, _Segment]


class _Format(msgspec.Struct):
    format: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedDocument:
    """A document in its stored form.

    Attributes:
        name: id and digest.
        data: canonical JSON.
        segments: the segments that do not live inside it, by name.
    """

    name: CheckpointName
    data: bytes
    segments: Mapping[str, Segment]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDocument:
    """A decoded document whose author values are still JSON: no author code is needed to read it.

    Attributes:
        segments: names of the segments that are stored beside it.
    """

    checkpoint_id: int
    parent: CheckpointName | None
    timestamp_ms: int
    is_savepoint: bool
    source: SourceIdentity
    segments: frozenset[str]
    _raw: _Document

    @property
    def plan(self) -> list[tuple[int, str]]:
        """For each subtask of the plan the name of the segment with its splits."""
        return [(item.subtask, item.splits) for item in self._raw.plan]

    def plan_segments(self, load: Callable[[str], bytes]) -> list[tuple[int, Segment]]:
        """The same, with the segments themselves."""
        find = _Finder(self._raw.segments, load)
        return [(subtask, find(name)) for subtask, name in self.plan]


class SnapshotCodec:
    """Turns snapshots of one enumerator type into documents and back."""

    def __init__(self, enumerator_type: type[SplitEnumerator[Any]]) -> None:
        self._enumerator_type = enumerator_type
        self._split_type = enumerator_type.resolve_split_type()
        self._state_type = enumerator_type.resolve_state_type()

    def encode(
        self,
        snapshot: Snapshot[Any],
        *,
        source: SourceIdentity,
        parent: CheckpointName | None,
        inline_all: bool,
    ) -> EncodedDocument:
        """The document of ``snapshot``; with ``inline_all`` every segment lives inside it."""
        collected: dict[str, Segment] = {}
        encode = functools.partial(self._encode_value, collected=collected)
        plan = []
        for assignment in snapshot.plan.assignments:
            segment = self._encode_splits("plan", assignment.splits)
            collected[segment.name] = segment
            plan.append(_Assignment(splits=segment.name, subtask=assignment.subtask_id))
        ledger = _Ledger(
            finished=snapshot.ledger.finished,
            live=[encode(split) for split in snapshot.ledger.live],
            pins=snapshot.ledger.pins,
            waiting=self._encode_waiting(snapshot.ledger.waiting, collected),
        )
        state = encode(snapshot.enumerator_state)
        self._check_state(state, collected)
        inside, beside = _placed(collected, inline_all)
        document = _Document(
            format=FORMAT,
            id=snapshot.metadata.checkpoint_id,
            parent=None if parent is None else str(parent),
            timestamp=snapshot.metadata.timestamp_ms,
            kind="savepoint" if snapshot.metadata.is_savepoint else "checkpoint",
            source=source,
            enumerator=_State(state=state, version=self._enumerator_type.state_version),
            ledger=ledger,
            plan=plan,
            segments=inside,
        )
        data = msgspec.json.encode(document, order="sorted")
        name = CheckpointName(document.id, content_digest(data))
        return EncodedDocument(name=name, data=data, segments=beside)

    def decode(self, document: CheckpointDocument, load: Callable[[str], bytes]) -> Snapshot[Any]:
        """The snapshot in a document, but for its plan: that is read by who reads the batch.

        Raises:
            IncompatibleStateError: it is of a newer state or split version.
            CorruptStateError: a value does not have the shape of its type.
        """
        raw = document._raw
        find = _Finder(raw.segments, load)
        versions = document.source
        kind = self._enumerator_type
        state = self._decode_value(
            raw.enumerator.state,
            self._state_type,
            find,
            ("state", raw.enumerator.version, kind.state_version, kind.upgrade_state),
        )
        split_rule = ("split", versions.split_version, *self._split_rule())

        def split(value: msgspec.Raw) -> Any:
            return self._decode_value(value, self._split_type, find, split_rule)

        ledger: LedgerState[Any] = LedgerState(
            live=tuple(split(value) for value in raw.ledger.live),
            pins=raw.ledger.pins,
            waiting=tuple(
                WaitingSplit(split=waiting, subtask_id=block.subtask)
                for block in raw.ledger.waiting
                for waiting in self.decode_splits(versions.split_version, find(block.splits))
            ),
            finished=raw.ledger.finished,
        )
        metadata = CheckpointMetadata(
            checkpoint_id=raw.id,
            timestamp_ms=raw.timestamp,
            is_savepoint=raw.kind == "savepoint",
        )
        return Snapshot(metadata=metadata, enumerator_state=state, ledger=ledger, plan=Plan())

    def decode_splits(self, version: int, segment: Segment) -> list[Any]:
        """The splits that a plan gives to one subtask; ``version`` is their split version."""
        rule = ("split", version, *self._split_rule())
        no_segments = _Finder({}, _no_segments_in_splits)
        if version == self._enumerator_type.split_version:
            return segment.values(self._split_type)
        return [
            self._decode_value(raw, self._split_type, no_segments, rule)
            for raw in segment.values(msgspec.Raw)
        ]

    def _split_rule(self) -> tuple[int, Callable[[int, Any], Any]]:
        return self._enumerator_type.split_version, self._enumerator_type.upgrade_split

    def _encode_splits(self, kind: str, splits: Sequence[Any]) -> Segment:
        try:
            return Segment.of_values(kind, splits)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise self._not_storable(splits[0], error) from error

    def _encode_waiting(
        self, waiting: Sequence[WaitingSplit[Any]], collected: dict[str, Segment]
    ) -> list[_Waiting]:
        """Waiting splits in blocks whose ends depend on their content.

        So splits that are taken from the front or added at the back change one block each; the
        others keep their names and are not written again.
        """
        blocks = []
        for subtask_id, items in itertools.groupby(waiting, key=lambda item: item.subtask_id):
            for splits in _cut_by_content([item.split for item in items]):
                segment = self._encode_splits("waiting", splits)
                collected[segment.name] = segment
                blocks.append(_Waiting(splits=segment.name, subtask=subtask_id))
        return blocks

    def _check_state(self, state: msgspec.Raw, collected: Mapping[str, Segment]) -> None:
        """What is stored must be readable at the restart: it is read once before it is stored."""

        def known(_kind: type, name: Any) -> Segment:
            return collected[name]

        try:
            msgspec.json.decode(state, type=self._state_type, dec_hook=known)
        except msgspec.MsgspecError as error:
            raise ContractError(
                f"the state of {self._enumerator_type.__qualname__} does not fit its type "
                f"{self._state_type}: {error}",
                remedy="return what the annotation of snapshot_state (or discover) promises; NaN and "
                "infinity have no form in JSON",
            ) from error

    def _not_storable(self, value: Any, error: Exception) -> ContractError:
        return ContractError(
            f"a {type(value).__name__} of {self._enumerator_type.__qualname__} cannot be "
            f"stored as JSON: {error} ({value!r:.200})",
            remedy="use fields of types that JSON can carry (str, int, float, bool, bytes, "
            "datetime, list, tuple, dict, dataclass), or a Segment for bulk data; text has to be Unicode",
        )

    def _encode_value(self, value: Any, *, collected: dict[str, Segment]) -> msgspec.Raw:
        def collect(item: Any) -> Any:
            if isinstance(item, Segment):
                collected[item.name] = item
                return item.name
            raise NotImplementedError

        try:
            return msgspec.Raw(msgspec.json.encode(value, enc_hook=collect, order="sorted"))
        except (TypeError, ValueError, NotImplementedError, msgspec.MsgspecError) as error:
            raise self._not_storable(value, error) from error

    def _decode_value(
        self,
        raw: msgspec.Raw,
        wanted: Any,
        find: _Finder,
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
                remedy="deploy the code that wrote it, or newer code",
            )
        try:
            if stored == current:
                return msgspec.json.decode(raw, type=wanted, dec_hook=segment)
            upgraded = upgrade(stored, msgspec.json.decode(raw))
            return msgspec.convert(upgraded, type=wanted, dec_hook=segment)
        except msgspec.MsgspecError as error:
            raise CorruptStateError(
                f"the stored {what} of {self._enumerator_type.__qualname__} does not fit its type: {error}",
                remedy=f"if the type was changed, raise {what}_version and define "
                f"upgrade_{what}; if not, restore the state location from a backup",
            ) from error


class _Finder:
    """Finds the segments that a document names: inside it, or through ``load``."""

    def __init__(self, inside: Mapping[str, _Segment], load: Callable[[str], bytes]) -> None:
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
    """Read a document; with ``name``, check that it is the one that was meant.

    Raises:
        CorruptStateError: it is cut off, altered, or no document at all.
        IncompatibleStateError: its format is newer than this library.
    """
    where = "in the offset" if name is None else f"{name.file_name}"
    if name is not None and content_digest(data) != name.digest:
        raise CorruptStateError(
            f"checkpoint document {where} is not what its digest promises ({len(data)} bytes)",
            remedy="restore the file from a backup of the state location, or restart the query "
            "from an older copy of its checkpoint and state",
        )
    try:
        found = msgspec.json.decode(data, type=_Format).format
        if found != FORMAT:
            raise IncompatibleStateError(
                f"checkpoint document {where} has format {found}; this library reads {FORMAT}",
                remedy="install the version of flip27-source that wrote it, or a newer one",
            )
        raw = msgspec.json.decode(data, type=_Document)
    except msgspec.MsgspecError as error:
        raise CorruptStateError(
            f"checkpoint document {where} cannot be read: {error}",
            remedy="restore it from a backup of the state location or checkpoint",
        ) from error
    parent = None if raw.parent is None else CheckpointName.parse(raw.parent)
    beside = (n for n, e in raw.segments.items() if not bytes(e.json) and e.base64 is None)
    return CheckpointDocument(
        checkpoint_id=raw.id,
        parent=parent,
        timestamp_ms=raw.timestamp,
        is_savepoint=raw.kind == "savepoint",
        source=raw.source,
        segments=frozenset(checked_segment_name(n) for n in beside),
        _raw=raw,
    )


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
) -> tuple[dict[str, _Segment], dict[str, Segment]]:
    """Which segments live inside the document, and which beside it."""
    inside: dict[str, _Segment] = {}
    beside: dict[str, Segment] = {}
    for name, segment in collected.items():
        size = len(segment.data) if segment.size is None else segment.size
        if not inline_all and size > INLINE_SEGMENT_BYTES:
            inside[name] = _Segment(bytes=size)
            beside[name] = segment
        elif segment.holds_json:
            inside[name] = _Segment(json=msgspec.Raw(segment.data))
        else:
            inside[name] = _Segment(base64=base64.b64encode(segment.data).decode())
    return inside, beside


def _no_segments_in_splits(name: str) -> bytes:
    raise CorruptStateError(f"a split refers to segment {name}; splits hold no segments")


def _unbase64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise CorruptStateError(f"segment {name} inside the document is damaged") from error
