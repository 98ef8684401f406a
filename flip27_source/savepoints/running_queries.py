"""Savepoints that a running query takes: its next checkpoint becomes one, and its readers can add files."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import Flip27Error, StateLocationError
from ..file_systems.paths import canonical_path
from ..snapshots.documents import timestamp
from ..snapshots.driver_condition import DriverWatch
from ..snapshots.driver_epochs import Driver
from ..snapshots.file_names import CheckpointName
from ..snapshots.request_mailbox import SAVEPOINT, Mailbox, SavepointRequest, check_target
from ..snapshots.spark_checkpoint import batch_of
from ..snapshots.store import Store, open_store
from ..snapshots.stored_lineage import StoredLineage
from .format import Savepoint, read_savepoint, savepoint_folder, write_savepoint
from .query_state import NewestBatch, lineage_of, newest_batch, state_store
from .requested_savepoints import failed_additions
from .whole_queries import now_ms

Progress = Callable[[str], None]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_SAID_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedSavepoint:
    """A savepoint that was created.

    Attributes:
        directory: its directory, for ``.option("savepoint", ...)``.
        checkpoint_id: its checkpoint.
        batch_id: Spark's batch that ends with this checkpoint; None if Spark's checkpoint is not
            known. A copy then contains the newest checkpoint that is known to be complete.
        requested: whether the running query took it at a batch boundary and notified its readers; False
            for a copy of an existing checkpoint.
    """

    directory: str
    checkpoint_id: int
    batch_id: int | None
    requested: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSavepoint:
    """A savepoint that was requested.

    Attributes:
        request_id: id of the request, a file that waits in the lineage until it is answered.
        lineage: the directory of the lineage, in the state location.
        target: the directory in which the savepoint gets its own directory.
    """

    request_id: str
    lineage: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSavepoint:
    """A requested savepoint that does not exist yet.

    Attributes:
        request_id, lineage, target: as in RequestedSavepoint.
        error: why the request failed; None while it waits.
        failed_at: when it failed; None while it waits.
    """

    request_id: str
    lineage: str
    target: str
    error: str | None = None
    failed_at: dt.datetime | None = None

    @property
    def withdrawn(self) -> str:
        """A sentence about its withdrawal."""
        why = "" if self.error is None else f", which had failed: {self.error}"
        return f"withdrawn: {self.request_id}, a savepoint in {self.target or 'unknown'}{why}"


def request(
    *,
    state: str,
    to: str,
    checkpoint: str | None = None,
    lineage: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> RequestedSavepoint:
    """Request a savepoint from a query, without waiting for it.

    The query takes it at its next batch boundary; a stopped query takes it at its next start. Its tasks are
    notified, and their readers may add files (``context.savepoint_stream``).

    Args:
        state, to, checkpoint, lineage, storage_options: see :func:`create`.

    Raises:
        StateLocationError: the state is not found, or the target is invalid.
    """
    requests = _mailbox(state, checkpoint, lineage, storage_options)
    asked = _submitted(requests, to)
    return RequestedSavepoint(request_id=asked.request_id, lineage=asked.lineage, target=asked.target)


def withdraw(
    request_id: str,
    *,
    state: str,
    checkpoint: str | None = None,
    lineage: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> PendingSavepoint:
    """Withdraw a request for a savepoint, or delete a failed request; returns the request.

    Args:
        request_id: the id from :func:`request`, or its beginning.

    Raises:
        StateLocationError: no waiting or failed request has that id, or several have.
    """
    mailbox = _mailbox(state, checkpoint, lineage, storage_options)
    existing = {item.request_id: item for item in _pending(mailbox)}
    return existing[mailbox.withdraw(request_id, existing, StateLocationError)]


def pending(
    *,
    state: str,
    checkpoint: str | None = None,
    lineage: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[PendingSavepoint]:
    """The requested savepoints of a query: waiting requests, then failed ones with the reason.

    Args:
        state, checkpoint, lineage, storage_options: see :func:`create`.
    """
    return _pending(_mailbox(state, checkpoint, lineage, storage_options))


def _mailbox(
    state: str, checkpoint: str | None, lineage: str | None, storage_options: Mapping[str, Any] | None
) -> Mailbox:
    options = dict(storage_options or {})
    store = state_store(state, options)
    return Mailbox(store, lineage_of(state, newest_batch(state, checkpoint, options), lineage, store))


def _pending(mailbox: Mailbox) -> list[PendingSavepoint]:
    waiting = [
        PendingSavepoint(request_id=item.request_id, lineage=mailbox.lineage, target=item.target)
        for item in mailbox.waiting().savepoints
    ]
    failed = [
        PendingSavepoint(
            request_id=item.request_id,
            lineage=mailbox.lineage,
            target=item.asked,
            error=item.reason,
            failed_at=timestamp(item.failed_ms),
        )
        for item in mailbox.failed()
        if item.kind == SAVEPOINT
    ]
    return waiting + failed


def made_by_driver(
    state: str,
    to: str,
    checkpoint: str | None,
    lineage: str | None,
    options: dict[str, Any],
    timeout_s: float,
    progress: Progress | None,
) -> CreatedSavepoint | None:
    """Request a savepoint from the query's driver; None if the caller must copy a checkpoint instead.

    Raises:
        StateLocationError: the driver did not take the savepoint in time.
    """

    def committed() -> NewestBatch | None:
        return newest_batch(state, checkpoint, options)

    store = state_store(state, options)
    batch = committed()
    folder = lineage_of(state, batch, lineage, store)
    watch = DriverWatch()
    driver = watch.living(store, folder)
    if driver is None:
        return None
    progress = progress or (lambda _said: None)
    made = _PendingRequest(store, folder, to, options, watch, driver, committed, progress).wait(timeout_s)
    if made is None:
        progress("the driver took no savepoint: copying the newest complete checkpoint")
        return None
    return CreatedSavepoint(
        directory=_below(to, made.folder),
        checkpoint_id=made.name.checkpoint_id,
        batch_id=None if batch is None else batch_of(open_store(batch.checkpoint, options), made.name),
        requested=True,
    )


class _PendingRequest:
    """One request to a driver that is alive, and its outcome."""

    def __init__(
        self,
        store: Store,
        lineage: str,
        to: str,
        options: dict[str, Any],
        watch: DriverWatch,
        driver: Driver,
        committed: Callable[[], NewestBatch | None],
        progress: Progress,
    ) -> None:
        self._store = store
        self._lineage = lineage
        self._to = to
        self._target = open_store(to, options)
        self._watch = watch
        self._driver = f"the driver ({driver.who})"
        self._committed = committed
        self._progress = progress
        self._before = frozenset(found.folder for found in self._savepoints())
        self._requests = Mailbox(store, lineage)
        self._asked = _submitted(self._requests, to)

    def wait(self, timeout_s: float) -> Savepoint | None:
        """The savepoint; None if the driver died or failed, and the request was deleted."""
        try:
            is_answered = self._is_answered_within(timeout_s)
        except BaseException:
            # The caller stops waiting and would not learn of the savepoint.
            self._requests.delete(self._asked.request_id)
            raise
        if not is_answered:
            return self._too_late(timeout_s)
        failed = self._requests.failure(self._asked.request_id)
        if failed is not None:
            self._requests.delete(failed.request_id)
            self._progress(f"{self._driver} could not take the savepoint: {failed.reason}")
        return self._made()

    def _is_answered_within(self, timeout_s: float) -> bool:
        """Whether the request was answered, by the driver or here, or deleted because the driver ended."""
        begun = said = time.monotonic()
        pause_s = _FIRST_PAUSE_S
        self._progress(f"{self._driver} has the request; waiting for its next batch boundary")
        while self._asked.request_id in self._requests.ids():
            now = time.monotonic()
            if self._is_finished_here():
                return True
            if self._watch.living(self._store, self._lineage) is None:
                self._requests.delete(self._asked.request_id)
                self._progress(f"{self._driver} has ended")
                return True
            if now - begun >= timeout_s:
                return False
            if now - said >= _SAID_EVERY_S:
                said = now
                self._progress(f"{now - begun:.0f} s: {self._standing()}")
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
        return True

    def _is_finished_here(self) -> bool:
        """Whether Spark has committed the batch, so that this process can finish the savepoint.

        The driver learns of the commit at the query's next trigger, which may be hours away.
        """
        name = self._under_way()
        batch = None if name is None else self._committed()
        if name is None or batch is None or (self._lineage, name) not in batch.named:
            return False
        missing = failed_additions(self._store, self._lineage, name)
        if missing is None:
            write_savepoint(self._store, self._lineage, name, self._target, created_ms=now_ms())
        else:
            self._progress(f"the savepoint cannot be finished: {missing}")
        self._requests.delete(self._asked.request_id)
        return True

    def _too_late(self, timeout_s: float) -> Savepoint:
        # Checked again after the deletion: the driver may have started the savepoint in between.
        if self._under_way() is None:
            self._requests.delete(self._asked.request_id)
        name = self._under_way()
        made = self._made()
        if made is not None:
            return made
        if name is not None:
            raise StateLocationError(
                f"checkpoint {name.checkpoint_id}, which becomes the savepoint, was not known to be complete "
                f"within {timeout_s:g} s",
                remedy="the query finishes the savepoint at its next trigger after that batch; then it is "
                f"readable (flip27 savepoint list): {_below(self._to, savepoint_folder(name))}",
            )
        raise StateLocationError(
            f"the savepoint was not taken within {timeout_s:g} s: {self._driver} is alive but reached no "
            "batch boundary; the request was withdrawn, and nothing was created",
            remedy="set a timeout longer than the trigger's interval (--timeout); or copy the newest "
            "complete checkpoint at once (--copy)",
        )

    def _standing(self) -> str:
        name = self._under_way()
        if name is None:
            return "the request waits for the next batch boundary"
        return f"checkpoint {name.checkpoint_id} becomes the savepoint; its batch is not complete yet"

    def _under_way(self) -> CheckpointName | None:
        """The checkpoint that becomes the savepoint; None if the driver has not started the request."""
        lineage = StoredLineage(self._store, self._lineage)
        name = lineage.line().newest
        document = None if name is None else lineage.document_if_there(name)
        if name is None or document is None or savepoint_folder(name) in self._before:
            return None
        return name if document.raw.target == self._asked.target else None

    def _made(self) -> Savepoint | None:
        return max(self._savepoints(but=self._before), key=lambda found: found.name, default=None)

    def _savepoints(self, but: frozenset[str] = frozenset()) -> list[Savepoint]:
        """The complete savepoints in the target that this lineage's driver has taken.

        A fork has another state location, but the same lineage's name and perhaps the same target.
        """
        savepoints, names = [], StoredLineage(self._store, self._lineage).names()
        for folder in set(self._target.list("")) - but:
            try:
                savepoint = read_savepoint(self._target, folder)
            except Flip27Error:
                continue
            is_own = savepoint.metadata.lineage == self._lineage and savepoint.name in names
            if is_own and savepoint.document.raw.kind == "savepoint":
                savepoints.append(savepoint)
        return savepoints


def _submitted(requests: Mailbox, to: str) -> SavepointRequest:
    check_target(to)
    asked = SavepointRequest(
        request_id=str(uuid.uuid4()),
        lineage=requests.lineage,
        target=canonical_path(to),
        requested_ms=now_ms(),
    )
    requests.submit(asked)
    return asked


def _below(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"
