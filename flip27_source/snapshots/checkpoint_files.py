"""CheckpointStorage: stores the checkpoints of one source and finds them again.

With a state location, documents and segments are files of one lineage. Without one, the offset
contains the whole document (Flink's memory state back end). A document is durable before Spark
gets its offset (R2); segments are durable before their document.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from ..coordination.checkpoints import PendingCheckpoint, Snapshot
from ..coordination.subtask_reports import ReportDemand
from ..errors import (
    CorruptStateError,
    IncompatibleStateError,
    MissingStateError,
    StateError,
    StateLocationError,
)
from ..options import Options
from ..source_options import READER_BY_NAMES
from . import file_names
from .codec import EncodedDocument, SnapshotCodec
from .documents import MOST_DOCUMENT_BYTES, CheckpointDocument, SourceIdentity, decode_document, encode_source
from .file_names import CheckpointName
from .offsets import INITIAL_OFFSET, Offset, live_positions, new_offset
from .segment_files import pack_segment
from .source_identity import ANY_READER, as_lines, differences
from .store import Store
from .stored_lineage import StoredLineage


@dataclass(frozen=True, slots=True, kw_only=True)
class _Newest:
    """The last checkpoint that was written, and the bytes of its plan's segments."""

    offset: Offset
    document: CheckpointDocument
    plan: dict[str, bytes]


class CheckpointStorage:
    """Stores and finds the checkpoints of one source.

    Args:
        store: the state location; None to keep all state in the offsets.
        inline_limit_bytes: maximum size of a document inside an offset.
        new_random: makes the 16 hex digits of a new lineage's name.
        options: the source's options, whose values are compared with stored ones; None to compare texts.

    Attributes:
        newest_bytes: size of the checkpoint that was written or restored last, with its segments; 0 if none.
    """

    def __init__(
        self,
        codec: SnapshotCodec,
        source: SourceIdentity,
        *,
        store: Store | None,
        inline_limit_bytes: int,
        new_random: Callable[[], str],
        creates_exclusively: bool = False,
        options: Options | None = None,
    ) -> None:
        """``creates_exclusively``: whether the store has to create files exclusively, for tasks' reports."""
        self.store = store
        self._creates_exclusively = creates_exclusively
        self._codec = codec
        self._source = source
        self._options = options
        self._inline_limit_bytes = inline_limit_bytes
        self._new_random = new_random
        self._newest: _Newest | None = None
        self._durable: frozenset[str] = frozenset()
        self._durable_in: str | None = None
        self._failed: list[str] = []
        self.newest_bytes = 0
        self.in_use = InUse()

    def write(
        self,
        pending: PendingCheckpoint[Any],
        parent: Offset,
        *,
        restored_from: CheckpointName | None = None,
        epoch: int = 1,
    ) -> Offset:
        """Make a checkpoint durable and return its offset. The checkpoint becomes visible as a whole.

        Args:
            restored_from: the savepoint that the first checkpoint of a lineage was restored from.
            epoch: the driver's epoch in the parent's lineage; the first driver of a new lineage has 1.
        """
        encoded = self._codec.encode(
            pending.snapshot,
            source=self._source,
            parent=parent.name,
            inline_all=self.store is None,
            savepoint=restored_from,
            epoch=0 if self.store is None else epoch,
        )
        codec = self._codec
        positions = live_positions(pending.snapshot.ledger.live, codec.encode_split, codec.position_names)
        if self.store is None:
            self._check_fits_inline(encoded)
            self.newest_bytes = len(encoded.data)
            return new_offset(pending, positions, inline=msgspec.json.decode(encoded.data))
        if len(encoded.data) > MOST_DOCUMENT_BYTES:
            raise StateLocationError(
                f"the document of checkpoint {encoded.name.checkpoint_id} has {len(encoded.data)} bytes, "
                f"more than {MOST_DOCUMENT_BYTES}",
                remedy="keep the enumerator's bulk state in Segments, and keep fewer splits live from batch "
                "to batch",
            )
        lineage = parent.lineage or self._new_lineage(self.store)
        offset = new_offset(pending, positions, lineage=lineage, name=encoded.name)
        document = decode_document(encoded.data)
        with self.forgotten_if_failing(None if parent.lineage else lineage):
            self._write_segments(self.store, offset, encoded, document)
            self.store.ensure(file_names.checkpoint_file(lineage, encoded.name), encoded.data)
        self._remember(offset, encoded, document)
        self.newest_bytes = len(encoded.data) + sum(document.segment_bytes.values())
        return offset

    def read(self, offset: Offset) -> CheckpointDocument:
        """The document that an offset names.

        Raises:
            MissingStateError, CorruptStateError, IncompatibleStateError: the document is missing, is damaged,
                or does not match this source or library.
        """
        if self._newest is not None and self._newest.offset.name == offset.name is not None:
            return self._newest.document
        if offset.name is None or offset.lineage is None:
            # Python's json has parsed the offset: encoding it again gives the form that was written.
            document = decode_document(msgspec.json.encode(offset.inline))
        else:
            document = self.lineage(offset.lineage).document(offset.name)
        if document.checkpoint_id != offset.checkpoint_id:
            raise CorruptStateError(
                f"the offset belongs to checkpoint {offset.checkpoint_id}, but its document belongs to "
                f"checkpoint {document.checkpoint_id}"
            )
        changed = differences(document.source, self._source, self._options)
        if changed:
            raise IncompatibleStateError(
                "the query's checkpoint was written with other settings:" + as_lines(changed),
                remedy="restore the old settings, or start again with a new checkpoint location",
            )
        self._check_reader(document.source.reader)
        return document

    def _check_reader(self, was: str) -> None:
        """Refuse another reader than before if only the names of files say so."""
        by_names = None if self._options is None else self._options[READER_BY_NAMES]
        if by_names is not None and was not in (ANY_READER, by_names):
            raise IncompatibleStateError(
                f"the query has read its files with reader {was}, and by their names they are now files for "
                f"{by_names}",
                remedy=f'set .option("reader", "{was}") to continue as before, or "{by_names}" to read the '
                "files that come with it",
            )

    def restore(self, offset: Offset, *, with_plan: bool = False) -> Snapshot[Any] | None:
        """The snapshot at an offset; None for the initial offset.

        The plan is read only with ``with_plan``, or if its subtasks report.
        """
        if offset.is_initial:
            return None
        document = self.read(offset)
        self.in_use.add(document.segments)
        self._durable, self._durable_in = document.segments, offset.lineage
        self.newest_bytes = document.stored_bytes
        return self._codec.decode(
            document,
            self.segment_loader(offset, document),
            with_plan=with_plan or document.raw.reports is not ReportDemand.NONE,
        )

    def check_storable(self, snapshot: Snapshot[Any]) -> None:
        """Refuse a snapshot that could not be stored and restored; write nothing."""
        self._codec.check_storable(snapshot, self._source)

    def plans_between(self, start: Offset, end: Offset) -> Iterator[tuple[Offset, CheckpointDocument]]:
        """The documents whose plans make up ``(start, end]``, oldest first (R3).

        Raises:
            CorruptStateError: ``start`` is not an ancestor of ``end``.
        """
        chain: list[tuple[Offset, CheckpointDocument]] = []
        at = end
        while at.checkpoint_id > start.checkpoint_id:
            document = self.read(at)
            chain.append((at, document))
            parent = document.parent
            if parent is None:
                at = INITIAL_OFFSET
                break
            at = Offset(checkpoint_id=parent.checkpoint_id, lineage=end.lineage, name=parent)
        if not chain:
            reached = start.name == end.name
        elif chain[-1][1].parent is None:
            # Inline documents have no name, so ids are compared: this id must follow the start's id, or be
            # the first after a savepoint.
            first = chain[-1][1]
            follows = first.checkpoint_id == start.checkpoint_id + 1
            restored = start.is_initial and first.raw.savepoint is not None
            reached = start.name is None and (follows or restored)
        else:
            reached = at.name == start.name
        if not reached:
            raise CorruptStateError(
                f"checkpoint {start.checkpoint_id} is not an ancestor of {end.checkpoint_id}: "
                "the offsets in the query's checkpoint do not belong together",
                remedy="restore the query's checkpoint and the state location from the same backup",
            )
        yield from reversed(chain)

    def segment_loader(self, offset: Offset, document: CheckpointDocument) -> Callable[[str], bytes]:
        """A function that loads the document's segments from the lineage of ``offset``."""

        def load(name: str) -> bytes:
            if self._newest is not None and name in self._newest.plan:
                return self._newest.plan[name]
            if offset.lineage is None:
                raise MissingStateError(f"segment {name} is not inside the offset")
            return self.lineage(offset.lineage).segment_loader(document)(name)

        return load

    def lineage(self, name: str) -> StoredLineage:
        """The reader of a lineage.

        Raises:
            StateLocationError: the state location is not set.
        """
        if self.store is None:
            raise StateLocationError(
                f"the query's checkpoint refers to lineage {name} in a state location, but "
                "option stateLocation is not set",
                remedy="set stateLocation to the directory that the query was started with, "
                "or to the new place of that directory if it was moved",
            )
        return StoredLineage(self.store, name)

    def _write_segments(
        self, store: Store, offset: Offset, encoded: EncodedDocument, document: CheckpointDocument
    ) -> None:
        """Write the segments that the previous checkpoint does not contain."""
        self.in_use.add(frozenset(encoded.segments))
        durable = self._durable if self._durable_in == offset.lineage else frozenset()
        load = self.segment_loader(offset, document)
        for name, segment in encoded.segments.items():
            if name not in durable:
                store.ensure(file_names.segment_file(str(offset.lineage), name), pack_segment(segment.data))
                segment.stored_by(load)

    def _remember(self, offset: Offset, encoded: EncodedDocument, document: CheckpointDocument) -> None:
        """Keep the plan, which Spark needs next; the bytes of other segments can be loaded again."""
        plan = {item.splits for item in document.raw.plan}
        self._newest = _Newest(
            offset=offset,
            document=document,
            plan={name: segment.data for name, segment in encoded.segments.items() if name in plan},
        )
        for segment in encoded.segments.values():
            segment.forget()
        self.in_use.keep_only(self._durable | document.segments)
        self._durable, self._durable_in = document.segments, offset.lineage

    def _check_fits_inline(self, encoded: EncodedDocument) -> None:
        if len(encoded.data) > self._inline_limit_bytes:
            raise StateLocationError(
                f"the state of source {self._source.uid} has {len(encoded.data)} bytes; without a "
                f"state location at most {self._inline_limit_bytes} bytes fit into Spark's offset "
                "log",
                remedy='set .option("stateLocation", "<checkpointLocation>/flip27") to a '
                "directory that the driver and the executors can write to",
            )

    def _new_lineage(self, store: Store) -> str:
        lineage = file_names.lineage_name(self._source.uid, self._new_random())
        file, source = file_names.source_file(lineage), encode_source(self._source)
        with self.forgotten_if_failing(lineage):
            is_new = store.create(file, source)
            if is_new and self._creates_exclusively:
                store.check_exclusive(file, source)
        if not is_new:
            raise StateLocationError(f"the new lineage {lineage} already exists", remedy="restart the query")
        self._forget_failed(store)
        return lineage

    @contextmanager
    def forgotten_if_failing(self, lineage: str | None) -> Iterator[None]:
        """Remove a new lineage if the block fails: nobody knows it yet, and each try has another one.

        What cannot be removed does no harm, and is removed when another lineage begins. None: this one is not
        new.
        """
        try:
            yield
        except StateError:
            if self.store is not None and lineage is not None:
                self._failed.append(lineage)
                self._forget_failed(self.store)
            raise

    def _forget_failed(self, store: Store) -> None:
        with suppress(StateError):
            while self._failed:
                self._forget(store, self._failed[-1])
                self._failed.pop()

    def _forget(self, store: Store, lineage: str) -> None:
        for folder in file_names.FOLDERS:
            for name in store.list(f"{lineage}/{folder}"):
                store.delete(f"{lineage}/{folder}/{name}")
        store.delete(file_names.claim_file(lineage))
        store.delete(file_names.source_file(lineage))
        store.remove_empty(lineage)


class InUse:
    """Segments that the running coordinator may refer to; clean-up never deletes them.

    This is the only object that the clean-up thread and the coordinator share, hence the lock.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self.lock = threading.Lock()

    def add(self, names: frozenset[str]) -> None:
        """Mark segments as in use; on return no deletion of them is running."""
        with self.lock:
            self._names |= names

    def keep_only(self, names: frozenset[str]) -> None:
        """Mark all other segments as no longer in use."""
        with self.lock:
            self._names &= names

    def __contains__(self, name: str) -> bool:
        return name in self._names
