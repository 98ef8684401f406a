"""Clean-up: deletes the files of a lineage that can never be reached again (R10); plans first, then deletes.

Clean-up keeps the newest ``retained`` ancestors of the committed checkpoint (and that checkpoint itself),
all documents newer than the oldest of these, and every segment that a kept document names.
It deletes a segment that no document names only when a second clean-up in a row finds it, because its
document may be about to be written. Reports and failures are deleted after their documents. A damaged
document stops the clean-up only while it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ..errors import CorruptStateError, StateError
from ..log import LOG
from . import file_names
from .checkpoint_files import InUse
from .file_names import CheckpointName
from .linked_folders import Deletion
from .store import Store
from .stored_lineage import StoredLineage


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """What to delete: documents, then segments; the next clean-up checks ``suspects``.

    Documents beside the line go first: what is left of a clean-up that is killed is the line.
    """

    documents: tuple[CheckpointName, ...] = ()
    segments: tuple[str, ...] = ()
    suspects: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDocument:
    """The parts of a document that clean-up needs."""

    parent: CheckpointName | None
    segments: frozenset[str] = field(default_factory=frozenset)


def plan_cleanup(
    *,
    committed: CheckpointName,
    documents: Mapping[CheckpointName, KnownDocument],
    segments: Iterable[str],
    retained: int,
    suspects: frozenset[str] = frozenset(),
) -> CleanupPlan:
    """Plan the clean-up of a lineage with these documents and segments. Pure."""
    kept_line = _kept_line(committed, documents.get, retained)
    if not kept_line:
        return CleanupPlan(suspects=suspects)
    oldest = kept_line[-1].checkpoint_id
    doomed = sorted((name for name in documents if name.checkpoint_id < oldest), reverse=True)
    line = frozenset(_kept_line(committed, documents.get, len(documents)))
    kept = [known for name, known in documents.items() if name.checkpoint_id >= oldest]
    reachable = frozenset[str]().union(*(known.segments for known in kept))
    named = frozenset[str]().union(*(known.segments for known in documents.values()))
    there = frozenset(segments)
    unnamed = there - named
    # A segment that only doomed documents name is deleted now, an unnamed one when it is found again.
    gone = ((there & named) | (unnamed & suspects)) - reachable
    return CleanupPlan(
        documents=tuple(sorted(doomed, key=line.__contains__)),
        segments=tuple(sorted(gone)),
        suspects=unnamed - gone,
    )


def _kept_line(
    committed: CheckpointName, find: Callable[[CheckpointName], KnownDocument | None], retained: int
) -> list[CheckpointName]:
    """The committed checkpoint and its newest ancestors, at most ``retained`` in total."""
    line: list[CheckpointName] = []
    at: CheckpointName | None = committed
    while at is not None and len(line) < retained and (known := find(at)) is not None:
        line.append(at)
        at = known.parent
    return line


class Cleaner:
    """Cleans one lineage, off the batch path: one call at a time, on any one thread.

    Args:
        check: raises StaleDriverError if another driver has taken over: a file that this driver no longer
            needs may be one that the other driver uses again.
    """

    def __init__(
        self, store: Store, lineage: str, retained: int, in_use: InUse, check: Callable[[], None]
    ) -> None:
        self.store = store
        self.lineage = lineage
        self.retained = retained
        self._in_use = in_use
        self._check = check
        self._stored = StoredLineage(store, lineage)
        self._deletion = Deletion(store)
        self._known: dict[CheckpointName, KnownDocument] = {}
        self._suspects: frozenset[str] = frozenset()

    def clean(self, committed: CheckpointName) -> CleanupPlan:
        """Delete the files that the retained checkpoints cannot reach, and return the plan."""
        segments = self._stored.listed(file_names.SEGMENTS)
        plan = plan_cleanup(
            committed=committed,
            documents=self._documents(committed),
            segments=segments,
            retained=self.retained,
            suspects=self._suspects,
        )
        self._suspects = plan.suspects
        self._check()
        for name in plan.documents:
            if not self._deletion.delete(file_names.checkpoint_file(self.lineage, name)):
                return CleanupPlan()  # the document stays, and so do the segments that it names
            self._known.pop(name, None)
        self._check()
        for segment in plan.segments:
            with self._in_use.lock:
                if segment not in self._in_use:
                    self._deletion.delete(file_names.segment_file(self.lineage, segment))
        for folder in file_names.FOLDERS:
            try:
                if folder in (file_names.REPORTS, file_names.FAILURES):
                    self._clean_reports(folder, committed.checkpoint_id)
                self.store.remove_abandoned(f"{self.lineage}/{folder}")
            except StateError as error:  # an executor of another user may have made it
                LOG.warning("clean-up passes over a folder of the state location: %s", error)
        return plan

    def _clean_reports(self, folder: str, committed_id: int) -> None:
        """Delete reports or failures whose document no longer exists."""
        oldest = min((name.checkpoint_id for name in self._known), default=committed_id)
        for file_name in self._stored.listed(folder):
            name = file_names.belongs_to(file_name)
            if name is not None and name.checkpoint_id < min(oldest, committed_id):
                self._deletion.delete(f"{self.lineage}/{folder}/{file_name}")

    def _documents(self, committed: CheckpointName) -> dict[CheckpointName, KnownDocument]:
        """The documents of the lineage; one that is damaged and will not be kept names no segments.

        Raises:
            CorruptStateError: a document that will be kept is damaged.
        """
        names = self._stored.names()
        self._known = {name: known for name, known in self._known.items() if name in names}
        line = _kept_line(committed, lambda name: self._read(name) if name in names else None, self.retained)
        oldest = line[-1].checkpoint_id if line else 0
        damaged: dict[CheckpointName, KnownDocument] = {}
        for name in sorted(names):
            try:
                self._read(name)
            except CorruptStateError:
                if name.checkpoint_id >= oldest:
                    raise
                damaged[name] = KnownDocument(parent=None)
        return self._known | damaged

    def _read(self, name: CheckpointName) -> KnownDocument:
        if name not in self._known:
            document = self._stored.document(name)
            self._known[name] = KnownDocument(parent=document.parent, segments=document.segments)
        return self._known[name]
