"""History: one lineage as tables and edits see it: its checkpoints with their status, and their values.

Needs no code of authors: their values stay JSON. Files that clean-up removes in the meantime are skipped;
a file that is listed and cannot be read is an error. Writes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from ..coordination.action_pages import ActionGroup
from ..coordination.subtask_reports import SplitStatus
from ..errors import CorruptStateError, Flip27Error, MissingStateError, StateError
from ..file_systems.file_ids import FileSplitId
from ..savepoints.format import read_savepoint
from ..snapshots import file_names
from ..snapshots.documents import (
    CheckpointDocument,
    SegmentFinder,
    SourceIdentity,
    StoredQuarantined,
    decode_source,
)
from ..snapshots.driver_condition import Condition, DriverCondition, DriverWatch
from ..snapshots.driver_epochs import DriverRecord
from ..snapshots.failure_counts import FailureRecord
from ..snapshots.file_names import CheckpointName
from ..snapshots.late_reports import FIRST_LATE_SUBTASK
from ..snapshots.locations import Lineage
from ..snapshots.report_contents import StoredReport
from ..snapshots.store import Store
from ..snapshots.stored_lineage import StoredLineage, older_copy, steps_back
from ..snapshots.task_failures import newest_failure
from ..values.stored_json import decode_json

T = TypeVar("T")


class CheckpointStatus(StrEnum):
    """The statuses of a checkpoint, as the views explain them."""

    COMPLETE = "complete"
    PENDING = "pending"
    ORPHAN = "orphan"


COMPLETE, PENDING, ORPHAN = CheckpointStatus


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
    status: Mapping[CheckpointName, CheckpointStatus]

    @property
    def orphans_first(self) -> list[CheckpointName]:
        """All checkpoints: those that the query went back from, and then the others, each oldest first."""
        return sorted(self.status, key=lambda name: (self.status[name] != ORPHAN, name))


class History:
    """Reads one lineage.

    Args:
        store: holds the lineage's folder; None if all documents are in Spark's offset log.
        counts: what :meth:`counted` has found so far, by segment; shared by histories of several looks.
        watch: looks at drivers; shared likewise.
    """

    def __init__(
        self,
        store: Store | None,
        lineage: Lineage,
        counts: dict[str, tuple[int, int]] | None = None,
        watch: DriverWatch | None = None,
    ) -> None:
        self._store = store
        self._counts = {} if counts is None else counts
        self._watch = watch or DriverWatch()
        self.lineage = lineage
        self._batches = {batch.name: batch.batch_id for batch in reversed(lineage.batches or ())}
        self._summaries = {batch.name: batch.summary for batch in lineage.batches or ()}
        self._known: dict[CheckpointName, CheckpointDocument] = {}

    @cached_property
    def stored(self) -> StoredLineage:
        lineage = self.lineage
        if lineage.is_savepoint and self._store is not None:
            return read_savepoint(self._store, lineage.folder).stored()
        return StoredLineage(self._store, lineage.folder, dict(lineage.held) or None)

    def line(self) -> Ancestry:
        batches = self.lineage.batches
        line = self.stored.line(batches[-1].name if batches else None)
        if line.newest is None:
            return Ancestry(names=(), status={})
        newest = line.newest
        self._known = {newest: self.stored.document(newest)}
        names = self.stored.names() | set(line.names)
        status = dict.fromkeys(names, ORPHAN)
        if not line.is_complete:
            status.update(dict.fromkeys(self._after(newest, names), PENDING))
        status.update(dict.fromkeys(line.names, COMPLETE))
        is_committed = self.lineage.is_savepoint or any(
            batch.committed and batch.name == newest for batch in self.lineage.batches or ()
        )
        if not (is_committed or line.is_complete):
            status[newest] = PENDING
        return Ancestry(names=line.names, status=status)

    def continued_elsewhere(self) -> str | None:
        """Why Spark's checkpoint is an older copy of another, which continues the state; None if not."""
        batches = self.lineage.batches
        if self._store is None or not batches:
            return None
        committed = self.stored.committed_after(batches[-1].name, or_beside=True)
        return None if committed is None else older_copy(self.lineage.name, batches[-1].name, committed)

    def _after(self, newest: CheckpointName, names: Iterable[CheckpointName]) -> set[CheckpointName]:
        """The checkpoints that descend from the newest one: Spark does not know them yet."""
        line = {newest}
        for name in sorted(name for name in names if name.checkpoint_id > newest.checkpoint_id):
            # A damaged document shows nothing, and no view of the line needs it.
            with contextlib.suppress(StateError):
                document = self.document(name)
                if document is not None and document.parent in line:
                    line.add(name)
        return line

    def document(self, name: CheckpointName) -> CheckpointDocument | None:
        """A document; None if clean-up has removed it.

        Raises:
            CorruptStateError: the document is damaged.
        """
        document = self._known.get(name) or self.stored.document_if_there(name)
        if document is not None and len(self._known) < 100:  # as many as a query retains by default
            self._known[name] = document
        return document

    def undone(self, line: Ancestry, since: CheckpointName) -> set[CheckpointName]:
        """The checkpoints on the line, from ``since`` on, whose batches a rewind has undone."""
        path, sought = set(), [line.names[-1]]

        def find(name: CheckpointName) -> CheckpointDocument | None:
            sought.append(name)  # the last one may be what a rewind went back to, and no longer exist
            return self.document(name)

        for step in steps_back(line.names[-1], (), find):
            path.add(step.name)
            if step.name <= since:
                break
        return {name for name in line.names if name >= max(since, sought[-1]) and name not in path}

    def splits(
        self, name: CheckpointName, document: CheckpointDocument, segment: str, text: str | None = None
    ) -> list[StoredSplit] | None:
        """The splits in a segment of a document; None if clean-up has removed both.

        Args:
            text: only those whose stored form contains it.
        """
        raws = self.raw_splits(name, document, segment, text)
        return None if raws is None else [StoredSplit.of(raw) for raw in raws]

    def raw_splits(
        self,
        name: CheckpointName,
        document: CheckpointDocument,
        segment: str,
        text: str | None = None,
        taken: int = 0,
    ) -> list[msgspec.Raw] | None:
        """Like :meth:`splits`, without the first ``taken``, and not decoded, which takes most of the time."""
        find = SegmentFinder(document.raw.segments, self.stored.segment_loader(document))
        sought = stored_text(text)

        def read() -> list[msgspec.Raw]:
            found = find(segment)
            if sought not in found.data:
                return []
            raws = found.values(msgspec.Raw)[taken:]
            return [raw for raw in raws if sought in bytes(raw)] if sought else raws

        return self._unless_cleaned_up(name, read)

    def counted(
        self, name: CheckpointName, document: CheckpointDocument, segment: str
    ) -> tuple[int, int] | None:
        """The numbers of splits in a segment and of files among them; None as in :meth:`splits`.

        A file counts once, with its first range.
        """
        if segment not in self._counts:
            values: list[Any] | None
            try:
                values = self.values(name, document, segment, _Counted)
            except CorruptStateError:  # not all of them are objects
                values = self.values(name, document, segment, msgspec.Raw)
            if values is None:
                return None
            files = sum(isinstance(item, _Counted) and bool(item.path) and item.start == 0 for item in values)
            self._counts[segment] = len(values), files
        return self._counts[segment]

    def split_count(self, name: CheckpointName, document: CheckpointDocument, segment: str) -> int:
        """The number of splits in a segment; 0 if clean-up has removed it with its document."""
        return (self.counted(name, document, segment) or (0, 0))[0]

    def values(
        self, name: CheckpointName, document: CheckpointDocument, segment: str, kind: Any
    ) -> list[Any] | None:
        """The values of a segment; None if clean-up has removed it with its document."""
        find = SegmentFinder(document.raw.segments, self.stored.segment_loader(document))
        return self._unless_cleaned_up(name, lambda: find(segment).values(kind))

    def quarantined(self, name: CheckpointName, document: CheckpointDocument) -> list[StoredQuarantined]:
        """The quarantined splits; none if clean-up has removed their segment with its document."""
        load = self.stored.segment_loader(document)
        return self._unless_cleaned_up(name, lambda: document.quarantined(load)) or []

    def delayed_actions(self, name: CheckpointName, document: CheckpointDocument) -> Iterator[ActionGroup]:
        """The actions that wait for a time; none if clean-up has removed their segments with the document."""
        for page in document.delayed_actions(self.stored.segment_loader(document)):
            yield from self._unless_cleaned_up(name, page.groups) or ()

    def _unless_cleaned_up(self, name: CheckpointName, read: Callable[[], T]) -> T | None:
        """What ``read`` returns; None if a segment is missing, and its document is no longer listed."""
        try:
            return read()
        except MissingStateError:
            if name in self.stored.names():
                raise
            return None

    def batch_id(self, name: CheckpointName) -> int | None:
        """Spark's batch id of a checkpoint; None unless Spark's checkpoint was given."""
        return self._batches.get(name)

    def summary(self, name: CheckpointName) -> Mapping[str, Any]:
        """The summary in the offset of a checkpoint; empty unless Spark's checkpoint was given."""
        return self._summaries.get(name, {})

    @cached_property
    def reports(self) -> Mapping[CheckpointName, tuple[int, ...]]:
        return self.stored.reports()

    def report(self, name: CheckpointName, subtask: int) -> StoredReport | None:
        return self.stored.report(name, subtask) if subtask in self.reports.get(name, ()) else None

    def report_with_late(self, name: CheckpointName, subtask: int) -> StoredReport | None:
        """A report with the results of late reports, and without those of splits that simply finished."""
        ids = [subtask, *(i for i in self.reports.get(name, ()) if i >= FIRST_LATE_SUBTASK)]
        first, *late = (self.report(name, i) for i in ids)
        results = (item for report in (first, *late) if report is not None for item in report.results)
        kept = [item for item in results if item.status != SplitStatus.FINISHED]
        return None if first is None else msgspec.structs.replace(first, results=kept)

    @cached_property
    def failures(self) -> Mapping[str, tuple[CheckpointName, int]]:
        """By the digest of a split: the document of its newest failure, and the number of failures there."""
        failures: dict[str, tuple[CheckpointName, int]] = {}
        for name, digest, number in self.stored.failures():
            failures[digest] = max(failures.get(digest, (name, 0)), (name, number))
        return failures

    def failure(self, split_id: str) -> tuple[int, str | None]:
        """The number of failures of a split in the newest batch with a record of it, and the last error."""
        name, count = self.failures.get(file_names.split_digest(split_id), (None, 0))
        if name is None:
            return 0, None
        file = file_names.failure_file(self.lineage.folder, name, split_id, count)
        try:
            record = decode_json(self.stored.store.read(file), FailureRecord)
        except MissingStateError:
            return count, None  # cleaned up in the meantime
        except msgspec.MsgspecError as error:
            raise _unreadable(file, error) from error
        return count, record.error

    def source(self) -> SourceIdentity | None:
        """The source of the lineage, from its source file or else from its newest document."""
        if not (self.lineage.held or self.lineage.is_savepoint):
            file = file_names.source_file(self.lineage.folder)
            try:
                return decode_source(self.stored.store.read(file))
            except msgspec.MsgspecError as error:
                raise _unreadable(file, error) from error
        document = self.head(self.line())
        return None if document is None else document.source

    def newest(self) -> tuple[CheckpointName, CheckpointDocument] | None:
        """The newest checkpoint of :meth:`line`; None if there is none, or clean-up has removed it."""
        line = self.line()
        document = self.head(line)
        return None if document is None else (line.names[-1], document)

    def head(self, line: Ancestry) -> CheckpointDocument | None:
        """The newest document of a line; None if there is none, or clean-up has removed it."""
        return self.document(line.names[-1]) if line.names else None

    @property
    def record(self) -> DriverRecord | None:
        """The record of the newest driver; None if none is known, or it cannot be read."""
        return None if self.driver is None else self.driver.driver.record

    @cached_property
    def driver(self) -> DriverCondition | None:
        """The newest driver, and whether it is alive; None if none is known, as in a savepoint."""
        if self._store is None:
            return None
        found = self._watch.newest(self._store, self.lineage.folder)
        if found is None or found.driver.record is None:
            return found
        has_ended = found.condition in (Condition.STOPPED, Condition.LOST)
        return self._with_failure(self._store, found, found.driver.record) if has_ended else found

    def _with_failure(self, store: Store, found: DriverCondition, record: DriverRecord) -> DriverCondition:
        """With the error on which its query has ended: Spark does not tell it to the driver."""
        line = self.line()
        document = self.head(line)
        if document is None or line.status[line.names[-1]] == COMPLETE:
            return found
        reported = self.reports.get(line.names[-1], ())
        epoch = found.driver.epoch
        failure = newest_failure(store, self.lineage.folder, line.names[-1], epoch, reported)
        if failure is None:
            return found
        # Spark may have tried a task again, and its batch may be complete.
        is_batch = failure.subtask is None
        known = is_batch or (found.condition is Condition.STOPPED and self.lineage.batches is not None)
        record = msgspec.structs.replace(record, error=failure.error, remedy=failure.remedy)
        condition = Condition.FAILED if known else found.condition
        return found._replace(driver=found.driver._replace(record=record), condition=condition)


def stored_text(text: str | None) -> bytes:
    """What the stored form of a split contains if one of its values contains ``text``."""
    return msgspec.json.encode(text or "")[1:-1]


def canonical(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def canonical_text(raw: msgspec.Raw) -> str:
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
    match fields.get("bucket"):
        case [_, int() | None as first, int() | None as last, *_]:
            return str(FileSplitId(path=path, version=version, bucket=(first, last)))
    return str(FileSplitId(path=path, version=version, start=start, end=end))


def _unreadable(file: str, error: Exception) -> Flip27Error:
    return CorruptStateError(
        f"{file} cannot be read: {error}", remedy="restore the file from a backup of the state location"
    )


class _Counted(msgspec.Struct):
    """What tells whether a split is the first range of a file."""

    path: msgspec.Raw = msgspec.Raw()
    start: Any = 0


class UnassignedPage(msgspec.Struct):
    """The stored form of a PendingPage: the splits of a segment after the first ``taken``."""

    splits: str
    taken: int
    split_version: int


class _State(msgspec.Struct):
    pages: list[UnassignedPage]


def unassigned_pages(document: CheckpointDocument) -> list[UnassignedPage]:
    """The pages that wait to be assigned; empty if the state has another form."""
    try:
        return decode_json(document.raw.enumerator.state, _State).pages
    except msgspec.MsgspecError:
        return []
