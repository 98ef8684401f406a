"""Requests: the edits and savepoints requested of a running query, until their files are deleted.

An edit is applied at the next batch boundary. Its request is deleted when the checkpoint that applied it is
complete; until then documents name the request, so that the edit is applied exactly once even after a crash:
a restart from the state before the edit applies it again, a restart from the edited state does not (KIP-875).
A savepoint request turns the next checkpoint into a savepoint: the coordinator and the subtasks are notified
(FLINK-5777), and the checkpoint is copied to its target once it is complete.

No request stops the query, whatever it contains: a request that cannot be read or carried out is marked as
failed or refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..access_errors import may_pass
from ..coordination.checkpoints import CheckpointMetadata, Snapshot
from ..coordination.edit_effects import Edited, Editing
from ..coordination.edit_values import AppliedEdit, EditRequest
from ..edits.engine import EditEngine, StateAfter
from ..errors import EditError, IncompatibleStateError, StateError, kept_words, said_of
from ..file_systems.secrets_in_texts import Hidden
from ..log import LOG
from ..savepoints.requested_savepoints import RequestedSavepoints
from ..snapshots.checkpoint_files import CheckpointStorage
from ..snapshots.codec import SnapshotCodec
from ..snapshots.offsets import INITIAL_OFFSET, Offset
from ..snapshots.request_mailbox import SAVEPOINT, Mailbox, SavepointRequest, WaitingRequests
from ..snapshots.store import Store
from ..spans import part_of_current

MAX_FAILED_READS = 3
"""After this number of failed reads a request is marked as failed; a single read may fail because of the
network."""
_MOST_PASSED = 360
"""Over how many looks an edit is passed whose state cannot be read: each try discards begun discovery."""


class Requests:
    """The requests of one source. Used on the coordinator's thread, except for :meth:`poll`.

    Args:
        store: where requests are stored; None if the source takes no requests.
        check: raises StaleDriverError if another driver has taken over: that one answers the requests.
    """

    def __init__(
        self,
        store: Store | None,
        editing: Editing[Any],
        storage: CheckpointStorage,
        codec: SnapshotCodec,
        savepoints: RequestedSavepoints,
        storage_options: Mapping[str, Any],
        now_ms: Callable[[], int],
        check: Callable[[], None],
    ) -> None:
        self._store = store
        self._engine = EditEngine(editing, codec)
        self._storage = storage
        self._savepoints = savepoints
        self._hidden = Hidden(storage_options)
        self._now_ms = now_ms
        self._check = check
        self._folder: Mailbox | None = None
        self._at = INITIAL_OFFSET
        self._left_alone: frozenset[str] = frozenset()
        self._unread: Counter[str] = Counter()
        self._edits_due: tuple[EditRequest, ...] = ()
        # An edit whose state cannot be read, over how many looks it is passed, and how many are left.
        self._waiting = ("", 0, 0)
        # Outcomes of edits that the next checkpoint records.
        self._applied: tuple[AppliedEdit, ...] = ()
        # Edits of the newest checkpoint, until it is known that they were not withdrawn.
        self._written: tuple[AppliedEdit, ...] = ()
        # Edits that are already in the state; a ``poll`` that started earlier may find them again.
        self._edited: set[str] = set()
        # Edits that checkpoints have recorded and whose request files may still exist.
        self._undeleted: set[str] = set()
        self._savepoints_due: tuple[SavepointRequest, ...] = ()
        self._answered: set[str] = set()
        # Savepoint requests that the pending checkpoint answers.
        self._under_way: frozenset[str] = frozenset()

    @property
    def are_taken(self) -> bool:
        """Whether the source takes requests."""
        return self._store is not None

    def restored_at(self, offset: Offset, metadata: CheckpointMetadata | None) -> None:
        """A coordinator starts at an offset whose document has this metadata: look for requests."""
        self._go_to(offset)
        # The edits in a savepoint belong to the query that the savepoint was taken from.
        known = None if offset.is_initial else metadata
        named = known or CheckpointMetadata(checkpoint_id=0, timestamp_ms=0)
        self._undeleted = {*named.answered, *(edit.request_id for edit in named.edits)}
        self._edited = set(self._undeleted)
        self._edits_due, self._applied, self._written = (), (), ()
        self._under_way = frozenset()
        self.found(self.poll(), None)

    def poll(self) -> WaitingRequests | None:
        """All requests that can be read; None if they cannot be listed. Runs on any thread."""
        folder = self._folder
        if folder is None:
            return None
        try:
            found = folder.waiting()
            self._sort_out(folder, found)
        except Exception as error:  # noqa: BLE001 - no file among the requests may stop the query
            LOG.warning("requests cannot be listed; this is tried again later: %s", error)
            return None
        return found

    def found(self, requests: WaitingRequests | None, error: BaseException | None) -> None:
        """Take over the result of :meth:`poll`."""
        if error is not None:
            raise error
        edits = () if requests is None else requests.edits
        savepoints = () if requests is None else requests.savepoints
        due = tuple(item for item in edits if item.request_id not in self._edited)
        waiting, passed, left = self._waiting
        if due and due[0].request_id == waiting and left:
            self._waiting, due = (waiting, passed, left - 1), ()
        self._edits_due = due
        self._savepoints_due = tuple(item for item in savepoints if item.request_id not in self._answered)

    def has_edits(self) -> bool:
        """Whether there are edits to apply, not counting those that have been withdrawn."""
        self._edits_due = self._still_there(self._edits_due)
        return bool(self._edits_due)

    def apply_edits(self, standing: Snapshot[Any], state_after: StateAfter) -> Snapshot[Any]:
        """The state with all edits applied, in the order of their requests.

        An edit that fails is refused: if it stopped the query, it would stop it at every restart. Only if the
        state that it needs cannot be read for a while, it and those after it wait: for the next look, and
        then for ever more of them.
        """
        for request in self._edits_due:
            try:
                edited = self._apply(request, standing, state_after)
            except Exception as error:  # noqa: BLE001 - the reason is in the history
                if may_pass(error):
                    waiting, passed, _ = self._waiting
                    passed = min(2 * passed + 1, _MOST_PASSED) if waiting == request.request_id else 0
                    self._waiting = (request.request_id, passed, passed)
                    LOG.warning(
                        "edit %s cannot be applied; this is tried again later: %s",
                        request.request_id, self._reason(error),
                    )  # fmt: skip
                    break
                outcome = AppliedEdit.of(request, refused=self._reason(error))
            else:
                standing = edited.snapshot
                outcome = AppliedEdit.of(
                    request,
                    changed=edited.changed,
                    left_alone=edited.left_alone,
                    dropped_actions=edited.dropped_actions,
                )
            LOG.warning(
                "edit %s (%s, requested by %s: %s) changed %d splits and left %d unchanged%s",
                request.operation, request.request_id, request.who, request.why, outcome.splits,
                outcome.left_alone_count, "" if outcome.refused is None else f": {outcome.refused}",
            )  # fmt: skip
            self._applied += (outcome,)
        self._edited |= {outcome.request_id for outcome in self._applied}
        self._edits_due = ()
        return standing

    def _apply(self, request: EditRequest, standing: Snapshot[Any], state_after: StateAfter) -> Edited[Any]:
        lineage, at = self._at.lineage, self._at.name
        if lineage is None or at is None:
            raise EditError("the source has no checkpoint yet", remedy="submit the edit again later")
        edited = self._engine.apply(request, standing, self._storage.lineage(lineage), at, state_after)
        self._storage.check_storable(edited.snapshot)
        return edited

    def refuse_edits(self, error: Exception) -> None:
        """Refuse all edits of this batch boundary: the query cannot continue from the edited state."""
        why = f"the query cannot continue from the edited state: {self._reason(error)}"
        LOG.error("the edits of this batch boundary are refused: %s", why)
        self._applied = tuple(
            item if item.refused is not None else AppliedEdit.of(item, refused=why) for item in self._applied
        )

    def next_checkpoint(self, checkpoint_id: int) -> CheckpointMetadata:
        """The metadata of the next checkpoint: the applied edits, and the requested savepoint."""
        metadata = CheckpointMetadata(
            checkpoint_id=checkpoint_id,
            timestamp_ms=self._now_ms(),
            edits=self._applied,
            answered=tuple(sorted(self._undeleted)),
        )
        self._savepoints_due = self._still_there(self._savepoints_due)
        while self._savepoints_due:
            target = self._savepoints_due[0].target
            wanted = [item for item in self._savepoints_due if item.target == target]
            problem = self._savepoints.problem_with(target)
            if problem is None:
                self._under_way = frozenset(item.request_id for item in wanted)
                return replace(metadata, is_savepoint=True, target_directory=target)
            self._answer(wanted, problem)
        return metadata

    def written(self, offset: Offset) -> None:
        """A checkpoint is durable and records the applied edits."""
        self._go_to(offset)
        self._undeleted |= {edit.request_id for edit in self._applied}
        self._written, self._applied = self._applied, ()

    def was_withdrawn(self) -> bool:
        """Whether an edit of the newest checkpoint was withdrawn before the checkpoint was durable.

        A requester looks for such a checkpoint after the withdrawal: it is found, or this returns True.
        """
        written, self._written = self._written, ()
        return self._still_there(written) != written

    def completed(self, metadata: CheckpointMetadata, offset: Offset) -> None:
        """The checkpoint at an offset is complete; an earlier run may have completed it before."""
        self._delete_recorded()
        self._finish_savepoint(metadata, offset)

    def _delete_recorded(self) -> None:
        """Delete the requests for edits that complete checkpoints have applied."""
        for request_id in sorted(self._undeleted):
            assert self._folder is not None
            try:
                self._folder.delete(request_id)
            except StateError as error:
                LOG.warning("an applied request cannot be deleted yet; this is tried again later: %s", error)
            else:
                self._undeleted.discard(request_id)

    def _finish_savepoint(self, metadata: CheckpointMetadata, offset: Offset) -> None:
        """If a complete checkpoint is a savepoint, copy it. A failed copy is not retried.

        Without a request it was taken before, by this driver or by the requester, or it was withdrawn: if it
        is not there, the user has deleted it.
        """
        target = metadata.target_directory
        if target is None or offset.lineage is None or offset.name is None:
            return
        # After a restart the requests that the checkpoint answers are no longer known: their target and time
        # identify them.
        answered = tuple(
            item
            for item in self._savepoints_due
            if item.request_id in self._under_way
            or (item.target == target and item.requested_ms <= metadata.timestamp_ms)
        )
        self._under_way = frozenset()
        if not self._still_there(answered):
            return
        problem: Exception | None = None
        try:
            with part_of_current("savepoint"):
                self._savepoints.make(target, offset.lineage, offset.name, metadata.timestamp_ms)
        except Exception as error:  # noqa: BLE001 - whatever it is, the query continues
            problem = error
        self._answer(answered, problem)

    def _go_to(self, offset: Offset) -> None:
        """Move to an offset and to the folder of its lineage, which exists from the first checkpoint on."""
        self._at = offset
        lineage = offset.lineage
        if self._store is None or lineage is None:
            self._folder = None
        elif self._folder is None or self._folder.lineage != lineage:
            self._folder = Mailbox(self._store, lineage)

    def _still_there(self, requests: tuple[Any, ...]) -> tuple[Any, ...]:
        if not requests or self._folder is None:
            return requests
        try:
            there = set(self._folder.ids())
        except StateError as error:
            LOG.warning("requests cannot be listed; this is tried again later: %s", error)
            there = set()
        return tuple(item for item in requests if item.request_id in there)

    def _answer(self, requests: Iterable[SavepointRequest], problem: Exception | None) -> None:
        """Delete these requests; if there is a problem, mark them as failed first."""
        answered = {item.request_id for item in requests}
        if answered:
            self._check()
        self._answered |= answered
        self._savepoints_due = tuple(item for item in self._savepoints_due if item.request_id not in answered)
        for request in requests:
            assert self._folder is not None
            try:
                if problem is not None:
                    LOG.error("the savepoint requested in %s could not be taken: %s", request.target, problem)
                    self._mark(
                        self._folder,
                        request.request_id,
                        SAVEPOINT,
                        request.target,
                        said_of(problem, self._hidden.in_text),
                    )
                self._folder.forget(request.request_id)
            except StateError as error:
                LOG.warning("an answered request could not be deleted: %s", error)

    def _sort_out(self, folder: Mailbox, found: WaitingRequests) -> None:
        """Mark invalid and repeatedly unreadable requests as failed; keep requests of newer versions."""
        newer = {name: e for name, e in found.damaged.items() if isinstance(e, IncompatibleStateError)}
        for request_id in newer.keys() - self._left_alone:
            LOG.warning("a request is ignored: %s", newer[request_id])
        self._left_alone = frozenset(newer)
        self._unread = Counter({name: self._unread[name] + 1 for name in found.unread})
        for request_id, error in (found.damaged | found.unread).items():
            if request_id not in newer and self._unread.get(request_id, MAX_FAILED_READS) >= MAX_FAILED_READS:
                LOG.warning("a request is marked as failed: %s", error)
                try:
                    self._check()
                    self._mark(folder, request_id, "", "", str(error))
                except StateError as failure:
                    LOG.warning(
                        "a request cannot be marked as failed; this is tried again later: %s", failure
                    )

    def _mark(self, folder: Mailbox, request_id: str, kind: str, asked: str, reason: str) -> None:
        folder.fail(
            request_id, kind=kind, asked=asked, reason=self._hidden.in_text(reason), now_ms=self._now_ms()
        )

    def _reason(self, error: Exception) -> str:
        return kept_words(said_of(error, self._hidden.in_text))
