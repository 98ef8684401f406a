"""StoredLineage: the only reader of a lineage's files, whoever asks (R17).

Drivers, tasks, commands, state tables, savepoints and clean-up get from here which checkpoints exist, which
of them leads to the present (the line of descent), and what documents, segments and reports contain. Needs
no code of authors: their values stay JSON. A query may be writing in the meantime. Writes nothing.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..coordination.edit_values import AppliedEdit, EditOperation
from ..errors import CorruptStateError, IncompatibleStateError, MissingStateError
from . import file_names
from .documents import MOST_DOCUMENT_BYTES, CheckpointDocument, decode_document
from .driver_epochs import drivers
from .file_names import CheckpointName
from .report_contents import StoredReport, decode_stored_report
from .segment_files import most_packed_bytes, unpack_segment
from .store import Store

_UNREADABLE = (MissingStateError, CorruptStateError, IncompatibleStateError)
"""Errors of a document itself; an error of access says nothing about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The existing checkpoints that lead to the newest one.

    Attributes:
        names: their names, oldest first.
        is_complete: whether the batch of the newest one is known to be complete; those before it are
            complete, because a checkpoint is only made once its parent is complete.
    """

    names: tuple[CheckpointName, ...] = ()
    is_complete: bool = False

    @property
    def newest(self) -> CheckpointName | None:
        return self.names[-1] if self.names else None

    @property
    def newest_complete(self) -> CheckpointName | None:
        """The newest checkpoint whose batch is known to be complete; None if there is none."""
        complete = self.names if self.is_complete else self.names[:-1]
        return complete[-1] if complete else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A checkpoint that a state is based on; ``edits_after``: those between it and the next one."""

    name: CheckpointName
    document: CheckpointDocument
    edits_after: list[AppliedEdit]


def steps_back(
    at: CheckpointName,
    edits: Sequence[AppliedEdit],
    find: Callable[[CheckpointName], CheckpointDocument | None],
) -> Iterator[Step]:
    """From a checkpoint back; before a rewind comes the checkpoint that it went back to.

    Args:
        edits: those after the checkpoint; those that it records itself do not count.
        find: a document; None if it no longer exists, and the way back ends there.
    """
    name: CheckpointName | None = at
    document = find(at)
    recorded = () if document is None else {edit.request_id for edit in document.raw.edits}
    edits = [edit for edit in edits if edit.request_id not in recorded]
    while True:
        after: list[AppliedEdit] = []
        for edit in edits:
            if edit.refused is None and edit.operation is EditOperation.REWIND:
                name, after = CheckpointName.parse(edit.checkpoint or ""), []
            elif edit.refused is None:
                after.append(edit)
        document = None if name is None else find(name)
        if name is None or document is None:
            return
        yield Step(name=name, document=document, edits_after=after)
        name, edits = document.parent, document.raw.edits


class Branches(NamedTuple):
    """The steps of two states up to the newest one that both are based on, newest first.

    Attributes:
        fork: the id of that checkpoint; 0 if it is not known, because documents no longer exist.
    """

    fork: int
    one: list[Step]
    other: list[Step]

    @classmethod
    def of(cls, one: Iterator[Step], other: Iterator[Step]) -> Branches:
        found = cls(0, [], [])
        step, beside = next(one, None), next(other, None)
        while step is not None and beside is not None:
            if step.name == beside.name:
                return found._replace(fork=step.name.checkpoint_id)
            if step.name > beside.name:
                found.one.append(step)
                step = next(one, None)
            else:
                found.other.append(beside)
                beside = next(other, None)
        return found


class StoredLineage:
    """Reads the files of one lineage.

    Args:
        store: contains the folder; None if every document is ``given`` and has no files.
        folder: the lineage's folder, or that of a savepoint, whose segments and reports lie alike.
        given: documents that are stored elsewhere: in Spark's offset log, or in a savepoint's metadata.
    """

    def __init__(
        self, store: Store | None, folder: str, given: Mapping[CheckpointName, bytes] | None = None
    ) -> None:
        self._store = store
        self.folder = folder
        self._given = given

    @property
    def store(self) -> Store:
        """The store with the folder.

        Raises:
            MissingStateError: the state is not in files.
        """
        if self._store is None:
            raise MissingStateError(f"the state of {self.folder} is in Spark's offset log, not in files")
        return self._store

    def names(self) -> set[CheckpointName]:
        """The checkpoints that exist, in any line."""
        if self._given is not None:
            return set(self._given)
        names = map(CheckpointName.parse, self.listed(file_names.CHECKPOINTS))
        return {name for name in names if name is not None}

    def document(self, name: CheckpointName) -> CheckpointDocument:
        """A document.

        Raises:
            MissingStateError, CorruptStateError, IncompatibleStateError: it is missing, is damaged, or has a
                format that this library does not know.
        """
        return decode_document(self.document_bytes(name), name)

    def document_bytes(self, name: CheckpointName) -> bytes:
        """The content of a document, unchecked; raises MissingStateError."""
        given = None if self._given is None else self._given.get(name)
        if given is not None:
            return given
        return self.store.read_surely(file_names.checkpoint_file(self.folder, name), MOST_DOCUMENT_BYTES)

    def document_if_there(self, name: CheckpointName) -> CheckpointDocument | None:
        """A document; None if clean-up has removed it. One that is listed and missing is an error."""
        try:
            return self.document(name)
        except MissingStateError:
            if name in self.names():
                raise
            return None

    def segment_loader(self, document: CheckpointDocument) -> Callable[[str], bytes]:
        segments = document.raw.segments

        def load(name: str) -> bytes:
            size = segments[name].bytes if name in segments else None
            return unpack_segment(name, self.packed_segment(name, size), size)

        return load

    def packed_segment(self, name: str, size: int | None) -> bytes:
        """The content of a segment's file; ``size``: the size of the segment, if its document has it."""
        file = file_names.segment_file(self.folder, file_names.checked_segment_name(name))
        return self.store.read_surely(file, most_packed_bytes(size))

    def reports(self) -> dict[CheckpointName, tuple[int, ...]]:
        """The subtasks that have reported, by document; late reports have ids of their own."""
        by_document: dict[CheckpointName, list[int]] = {}
        for file in self.listed(file_names.REPORTS):
            if (parsed := file_names.parse_report(file)) is not None:
                name, subtask = parsed
                by_document.setdefault(name, []).append(subtask)
        return {name: tuple(sorted(subtasks)) for name, subtasks in by_document.items()}

    def report(self, name: CheckpointName, subtask: int, *, surely: bool = False) -> StoredReport | None:
        """The report of a subtask; None if there is none. ``surely``: it must exist (R19)."""
        file = file_names.report_file(self.folder, name, subtask)
        try:
            data = self.store.read_surely(file) if surely else self.store.read(file)
        except MissingStateError:
            return None
        return decode_stored_report(file, data)

    def failures(self) -> list[tuple[CheckpointName, str, int]]:
        """The recorded failures to read splits: the document, the split's digest, and the number."""
        parsed = map(file_names.parse_failure, self.listed(file_names.FAILURES))
        return [failure for failure in parsed if failure is not None]

    def line(self, newest: CheckpointName | None = None) -> Line:
        """The line of descent.

        Args:
            newest: the newest checkpoint, if Spark's log says so; it may not be complete.
        """
        while True:
            names = self.names()
            head = Line(names=(newest,)) if newest is not None else self._head(names)
            if head.newest is None:
                return head
            line = self._line_to(head.newest, names)
            if line is not None:
                return Line(names=tuple(reversed(line)), is_complete=head.is_complete)
            if newest is not None:
                raise MissingStateError(
                    f"Spark's checkpoint names {file_names.checkpoint_file(self.folder, newest)}, which does "
                    "not exist",
                    remedy="give only the state location, or restore both from the same backup",
                )

    def chain(
        self, start: CheckpointName, end: CheckpointName
    ) -> list[tuple[CheckpointName, CheckpointDocument]]:
        """The documents after ``start`` up to ``end``, oldest first.

        Raises:
            CorruptStateError: ``start`` is not an ancestor of ``end``.
            MissingStateError: a document between them no longer exists.
        """
        chain: list[tuple[CheckpointName, CheckpointDocument]] = []
        at: CheckpointName | None = end
        while at is not None and at.checkpoint_id > start.checkpoint_id:
            chain.append((at, self.document(at)))
            at = chain[-1][1].parent
        if at != start:
            raise CorruptStateError(
                f"checkpoint {start.checkpoint_id} is not an ancestor of {end.checkpoint_id} in "
                f"{self.folder}: the query was reset",
                remedy="choose a checkpoint of the query's present line: flip27 state history",
            )
        return chain[::-1]

    def committed_after(self, start: CheckpointName, *, or_beside: bool = False) -> CheckpointName | None:
        """The newest checkpoint after ``start`` that Spark must have committed; None if there is none.

        Of several lines after it, that of the newest driver counts.

        A killed driver leaves at most one checkpoint after Spark's newest offset: one whose offset was not
        returned to Spark, or not logged by Spark. Two in a row prove that Spark had committed the first.

        Args:
            or_beside: also what the newest driver is known to have completed, on whichever line that is,
                unless ``start`` follows it.
        """
        names = self.names()
        follow = {start}
        committed, newest_epoch = None, 0
        # Parents first: a query that went back often has many lines, and no document is read twice.
        for name in sorted(name for name in names if name > start):
            # A damaged or missing document proves nothing, and the query does not need it.
            with contextlib.suppress(*_UNREADABLE):
                document = self.document(name)
                if document.parent in follow:
                    follow.add(name)
                    if document.parent != start and document.raw.epoch >= newest_epoch:
                        committed, newest_epoch = document.parent, document.raw.epoch
        if committed is not None:
            return committed
        is_one_line = len({name.checkpoint_id for name in names}) == len(names)
        if or_beside and not (is_one_line and start == max(names, default=start)):
            at: CheckpointName | None = start
            with contextlib.suppress(*_UNREADABLE):
                newest = self.line().newest_complete
                while newest is not None and at is not None and at.checkpoint_id > newest.checkpoint_id:
                    at = self.document(at).parent
                return None if at == newest else newest
        return None

    def listed(self, folder: str) -> list[str]:
        return [] if self._store is None else self._store.list(f"{self.folder}/{folder}")

    def _head(self, names: Collection[CheckpointName]) -> Line:
        """The newest checkpoint of the line that the newest driver continues, whether complete or not."""
        if not names:
            return Line()
        head = max(names)
        counts = Counter(name.checkpoint_id for name in names)
        twice = [checkpoint_id for checkpoint_id, count in counts.items() if count > 1]
        if twice:
            # A query went back to an earlier checkpoint: ids no longer tell which document is newest.
            later = [name for name in names if name.checkpoint_id >= min(twice)]
            head = max(later, key=lambda name: (self._written(name), name))
        is_in_files = self._store is not None and self._given is None
        for epoch, record in drivers(self.store, self.folder) if is_in_files else ():
            # A claim alone says nothing: its driver may have been suspended, and find that it must not drive.
            if record is not None and record.at is not None:
                at = CheckpointName.parse(record.at)
                if epoch > self._written(head)[0] and at is not None and at in names:
                    head = at  # this driver continues after this checkpoint, and has written nothing yet
                return Line(names=(head,), is_complete=at == head)
        return Line(names=(head,))

    def _written(self, name: CheckpointName) -> tuple[int, int]:
        """The order in which lines were written: by epoch; documents of version 0.1 have only a time."""
        document = self.document_if_there(name)
        if document is None:
            return 0, -1
        return document.raw.epoch, 0 if document.raw.epoch else document.timestamp_ms

    def _line_to(
        self, head: CheckpointName, names: Collection[CheckpointName]
    ) -> list[CheckpointName] | None:
        """From ``head`` to the oldest; None if ``head`` was removed in the meantime.

        Ids on a line are consecutive, so a document is opened only if two documents have the previous id.
        """
        if self.document_if_there(head) is None:
            return None
        same_id: dict[int, list[CheckpointName]] = {}
        for name in names:
            same_id.setdefault(name.checkpoint_id, []).append(name)
        line = [head]
        while before := same_id.get(line[-1].checkpoint_id - 1):
            parent: CheckpointName | None = before[0]
            if len(before) > 1:
                document = self.document_if_there(line[-1])
                parent = None if document is None else document.parent
            if parent is None or parent not in before:
                break
            line.append(parent)
        return line


def older_copy(lineage: str, last: CheckpointName, committed: CheckpointName) -> str:
    """What is wrong with a checkpoint location; ``committed``: what ``committed_after`` found."""
    said = (
        f"the query's checkpoint location is an older copy: its last checkpoint is {last.checkpoint_id} of "
        f"lineage {lineage}, and the state shows that Spark committed {committed.checkpoint_id}"
    )
    is_beside = committed.checkpoint_id <= last.checkpoint_id
    return said + " on the line that it continued later" * is_beside
