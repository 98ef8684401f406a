"""History: reads the documents of one lineage and their files while a query may be writing.

Needs no code of authors: their values stay JSON. Files that clean-up removes in the meantime are skipped;
a file that is listed and cannot be read is an error. Writes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from ..coordination.action_pages import ActionGroup
from ..errors import CorruptStateError, Flip27Error, MissingStateError
from ..file_systems.file_ids import FileSplitId
from ..savepoints.format import METADATA, Savepoint, open_savepoint
from ..snapshots import file_names
from ..snapshots.documents import (
    MOST_DOCUMENT_BYTES,
    CheckpointDocument,
    SegmentFinder,
    SourceIdentity,
    StoredQuarantined,
    decode_document,
)
from ..snapshots.driver_epochs import DriverRecord
from ..snapshots.failure_counts import FailureRecord
from ..snapshots.file_names import CheckpointName
from ..snapshots.locations import Lineage
from ..snapshots.report_files import StoredReport, decode_stored_report
from ..snapshots.segment_files import most_packed_bytes, unpack_segment
from ..snapshots.store import Store
from ..values.stored_json import decode_json

COMPLETE = "complete"
PENDING = "pending"
ORPHAN = "orphan"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSplit:
    """A split as it is stored.

    Attributes:
        text: canonical JSON. fields: the decoded JSON; {} if it is not an object.
    """

    split_id: str
    text: str
    fields: Mapping[str, Any]

    @classmethod
    def of(cls, raw: msgspec.Raw) -> StoredSplit:
        """Decode a split from its JSON."""
        value = decode_json(raw)
        fields = value if isinstance(value, dict) else {}
        text = canonical(value)
        return cls(split_id=_split_id(fields, text), text=text, fields=fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestry:
    """The checkpoints that lead to the newest one.

    Attributes:
        names: their names, oldest first, without later ones that Spark does not know.
        status: the status of every existing document.
    """

    names: tuple[CheckpointName, ...]
    status: Mapping[CheckpointName, str]


class History:
    """Reads one lineage.

    Args:
        store: holds the lineage's folder; None if all documents are in Spark's offset log.
    """

    def __init__(self, store: Store | None, lineage: Lineage) -> None:
        self._store = store
        self.lineage = lineage
        self._held = dict(lineage.held)
        self._batches = {batch.name: batch.batch_id for batch in reversed(lineage.batches or ())}
        self._summaries = {batch.name: batch.summary for batch in lineage.batches or ()}
        self._heads: dict[CheckpointName, CheckpointDocument] = {}

    def line(self) -> Ancestry:
        """The existing checkpoints and the status of each."""
        while True:
            names = self._names()
            head = self._head(names)
            if head is None:
                return Ancestry(names=(), status={})
            line = self._line_to(head, names)
            if line is not None:
                break
        status = dict.fromkeys(names, ORPHAN)
        status.update((name, PENDING) for name in names if name.checkpoint_id > head.checkpoint_id)
        status.update(dict.fromkeys(line, COMPLETE))
        if not self._is_committed(head):
            status[head] = PENDING
        return Ancestry(names=tuple(reversed(line)), status=status)

    def document(self, name: CheckpointName) -> CheckpointDocument | None:
        """A document; None if clean-up has removed it.

        Raises:
            CorruptStateError: the document is damaged, or missing for another reason.
        """
        if name in self._heads:
            return self._heads[name]
        if self.lineage.is_savepoint:
            return self._savepoint.document
        data = self._held.get(name)
        if data is None:
            try:
                file = file_names.checkpoint_file(self.lineage.folder, name)
                data = self._required_store.read(file, MOST_DOCUMENT_BYTES)
            except MissingStateError:
                if self.is_there(name):
                    raise
                return None
        return decode_document(data, name)

    def splits(
        self, name: CheckpointName, document: CheckpointDocument, segment: str
    ) -> list[StoredSplit] | None:
        """The splits in a segment of a document; None if clean-up has removed both."""
        raws = self.values(name, document, segment, msgspec.Raw)
        return None if raws is None else [StoredSplit.of(raw) for raw in raws]

    def values(
        self, name: CheckpointName, document: CheckpointDocument, segment: str, kind: Any
    ) -> list[Any] | None:
        """The values of a segment; None if clean-up has removed it with its document."""
        find = SegmentFinder(document.raw.segments, self.segment_loader(document))
        try:
            return find(segment).values(kind)
        except MissingStateError:
            if self.is_there(name):
                raise
            return None

    def quarantined(self, name: CheckpointName, document: CheckpointDocument) -> list[StoredQuarantined]:
        """The splits that were set aside; none if clean-up has removed their segment with its document."""
        try:
            return document.quarantined(self.segment_loader(document))
        except MissingStateError:
            if self.is_there(name):
                raise
            return []

    def delayed_actions(self, name: CheckpointName, document: CheckpointDocument) -> Iterator[ActionGroup]:
        """The actions that wait for a time; none if clean-up has removed their segments with the document."""
        try:
            for page in document.delayed_actions(self.segment_loader(document)):
                yield from page.groups()
        except MissingStateError:
            if self.is_there(name):
                raise

    def segment_loader(self, document: CheckpointDocument) -> Callable[[str], bytes]:
        """Reads segments of a document by their names."""
        sizes = document.segment_bytes
        return lambda text: self._load_segment(text, sizes.get(text))

    def is_there(self, name: CheckpointName) -> bool:
        """Whether a document is still listed."""
        return name in self._names()

    def batch_id(self, name: CheckpointName) -> int | None:
        """Spark's batch id of a checkpoint; None unless Spark's checkpoint was given."""
        return self._batches.get(name)

    def summary(self, name: CheckpointName) -> Mapping[str, Any]:
        """The summary in the offset of a checkpoint; empty unless Spark's checkpoint was given."""
        return self._summaries.get(name, {})

    @cached_property
    def reports(self) -> Mapping[CheckpointName, tuple[int, ...]]:
        """The subtasks that have reported, by document."""
        found: dict[CheckpointName, list[int]] = {}
        for file in self._list(file_names.REPORTS):
            if (parsed := file_names.parse_report(file)) is not None:
                name, subtask = parsed
                found.setdefault(name, []).append(subtask)
        return {name: tuple(sorted(subtasks)) for name, subtasks in found.items()}

    def report(self, name: CheckpointName, subtask: int) -> StoredReport | None:
        """The report of a subtask; None if it has not reported."""
        if subtask not in self.reports.get(name, ()):
            return None
        file = file_names.report_file(self.lineage.folder, name, subtask)
        try:
            data = self._required_store.read(file)
        except MissingStateError:
            return None  # cleaned up in the meantime
        return decode_stored_report(file, data)

    @cached_property
    def failures(self) -> Mapping[str, tuple[CheckpointName, int]]:
        """By the digest of a split: the document of its newest failure, and the number of failures there."""
        found: dict[str, tuple[CheckpointName, int]] = {}
        for file in self._list(file_names.FAILURES):
            if (parsed := file_names.parse_failure(file)) is not None:
                name, digest, number = parsed
                found[digest] = max(found.get(digest, (name, 0)), (name, number))
        return found

    def failure(self, split_id: str) -> tuple[int, str | None]:
        """The number of failures of a split in the newest batch with a record of it, and the last error."""
        name, count = self.failures.get(file_names.split_digest(split_id), (None, 0))
        if name is None:
            return 0, None
        file = file_names.failure_file(self.lineage.folder, name, split_id, count)
        try:
            record = decode_json(self._required_store.read(file), FailureRecord)
        except MissingStateError:
            return count, None  # cleaned up in the meantime
        except msgspec.MsgspecError as error:
            raise _unreadable(file, error) from error
        return count, record.error

    def source(self) -> SourceIdentity | None:
        """The source of the lineage, from its source file or else from its newest document."""
        if not (self._held or self.lineage.is_savepoint):
            file = file_names.source_file(self.lineage.folder)
            try:
                return decode_json(self._required_store.read(file), _SourceFile).source
            except msgspec.MsgspecError as error:
                raise _unreadable(file, error) from error
        document = self.document(self.line().names[-1])
        return None if document is None else document.source

    def driver(self) -> tuple[int, DriverRecord | None] | None:
        """The newest epoch and its driver; None if no driver has registered."""
        found = (file_names.parse_driver(file) for file in self._list(file_names.DRIVERS))
        epochs = [epoch for epoch in found if epoch is not None]
        if not epochs:
            return None
        file = file_names.driver_file(self.lineage.folder, max(epochs))
        try:
            record = decode_json(self._required_store.read(file), DriverRecord)
        except MissingStateError:
            return max(epochs), None
        except msgspec.MsgspecError as error:
            raise _unreadable(file, error) from error
        return max(epochs), record

    @property
    def _required_store(self) -> Store:
        if self._store is None:
            raise MissingStateError("the state is in Spark's offset log, not in files")
        return self._store

    @cached_property
    def _savepoint(self) -> Savepoint:
        store = self._required_store
        return open_savepoint(f"{store.location}/{self.lineage.folder}/{METADATA}", lambda _: store)

    def _list(self, folder: str) -> list[str]:
        return [] if self._store is None else self._store.list(f"{self.lineage.folder}/{folder}")

    def _names(self) -> set[CheckpointName]:
        if self.lineage.is_savepoint:
            return {self._savepoint.name}
        if self._held:
            return set(self._held)
        found = (CheckpointName.parse(text) for text in self._list(file_names.CHECKPOINTS))
        return {name for name in found if name is not None}

    def _load_segment(self, name: str, size: int | None) -> bytes:
        file = file_names.segment_file(self.lineage.folder, file_names.checked_segment_name(name))
        return unpack_segment(name, self._required_store.read(file, most_packed_bytes(size)), size)

    def _is_committed(self, head: CheckpointName) -> bool:
        if self.lineage.is_savepoint:
            return True
        return any(batch.committed and batch.name == head for batch in self.lineage.batches or ())

    def _head(self, names: Collection[CheckpointName]) -> CheckpointName | None:
        """The newest checkpoint: the last one in Spark's log, or else the one created last."""
        if self.lineage.batches:
            return self.lineage.batches[-1].name
        twice = _ids_with_several(names)
        if not twice:
            return max(names, default=None)
        # A query restarted from an earlier checkpoint: ids no longer tell which document is newest.
        made = []
        for name in names:
            if name.checkpoint_id >= min(twice):
                document = self.document(name)
                made.append((-1 if document is None else document.timestamp_ms, name))
        return max(made)[1]

    def _line_to(
        self, head: CheckpointName, names: Collection[CheckpointName]
    ) -> list[CheckpointName] | None:
        """From ``head`` to the oldest; None if ``head`` was removed in the meantime.

        Ids on a line are consecutive, so a document is opened only if two documents have the previous id.
        """
        document = self.document(head)
        if document is None:
            if self.lineage.batches:
                file = file_names.checkpoint_file(self.lineage.folder, head)
                raise MissingStateError(
                    f"Spark's checkpoint names {file}, which does not exist",
                    remedy="give only the state location, or restore both from the same backup",
                )
            return None
        self._heads = {head: document}
        by_id: dict[int, list[CheckpointName]] = {}
        for name in names:
            by_id.setdefault(name.checkpoint_id, []).append(name)
        line = [head]
        while before := by_id.get(line[-1].checkpoint_id - 1):
            parent: CheckpointName | None = before[0]
            if len(before) > 1:
                document = self.document(line[-1])
                parent = None if document is None else document.parent
            if parent is None or parent not in before:
                break
            line.append(parent)
        return line


class _SourceFile(msgspec.Struct, frozen=True):
    source: SourceIdentity


def canonical(value: Any) -> str:
    """JSON with sorted keys."""
    return msgspec.json.encode(value, order="sorted").decode()


def canonical_text(raw: msgspec.Raw) -> str:
    """JSON with sorted keys, from JSON."""
    return canonical(decode_json(raw))


def _split_id(fields: Mapping[str, Any], text: str) -> str:
    """The id of a split: its field, the form that the files enumerator gives it, or its JSON."""
    known = fields.get("split_id")
    if isinstance(known, str):
        return known
    path = fields.get("path")
    if not isinstance(path, str):
        return text
    start, end, version = fields.get("start", 0), fields.get("end"), fields.get("version")
    if not (isinstance(version, str | None) and isinstance(start, int) and isinstance(end, int | None)):
        return text
    return str(FileSplitId(path=path, version=version, start=start, end=end))


def _ids_with_several(names: Collection[CheckpointName]) -> set[int]:
    counts = Counter(name.checkpoint_id for name in names)
    return {checkpoint_id for checkpoint_id, count in counts.items() if count > 1}


def _unreadable(file: str, error: Exception) -> Flip27Error:
    return CorruptStateError(
        f"{file} cannot be read: {error}",
        remedy="restore the file from a backup of the state location",
    )


class HeldPage(msgspec.Struct):
    """The stored form of a PendingPage: the splits of a segment after the first ``taken``."""

    splits: str
    taken: int
    split_version: int


class _State(msgspec.Struct):
    pages: list[HeldPage]


def held_pages(document: CheckpointDocument) -> list[HeldPage]:
    """The pages that wait to be assigned; empty if the state has another form."""
    try:
        return decode_json(document.raw.enumerator.state, _State).pages
    except msgspec.MsgspecError:
        return []
