"""Asking a query for a savepoint: its next checkpoint becomes one, to which its readers can add."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import Flip27Error, MissingStateError, StateLocationError
from ..file_systems.paths import canonical_path
from ..snapshots import file_names
from ..snapshots.documents import MOST_DOCUMENT_BYTES, decode_document, timestamp
from ..snapshots.driver_epochs import DriverRecord, DriverWatch
from ..snapshots.file_names import CheckpointName
from ..snapshots.requests import SAVEPOINT, RequestFolder, SavepointRequest, check_target
from ..snapshots.spark_checkpoint import batch_of
from ..snapshots.store import Store, open_store
from .additions import failed_additions
from .format import Savepoint, read_savepoint, savepoint_folder, write_savepoint
from .query_state import checkpoint_names, lineage_of, newest_batch
from .values import CreatedSavepoint, NewestBatch, PendingSavepoint, RequestedSavepoint
from .whole_queries import now_ms

Progress = Callable[[str], None]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_SAID_EVERY_S = 10.0


def request(
    *,
    state: str,
    to: str,
    checkpoint: str | None = None,
    lineage: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> RequestedSavepoint:
    """Ask a query for a savepoint, and do not wait for it.

    It is made at the query's next batch boundary, which for a stopped query is its next start. Its tasks
    are told, and their readers may add files of their own (``context.savepoint_stream``).

    Args:
        state, to, checkpoint, lineage, storage_options: see :func:`create`.

    Raises:
        StateLocationError: the state is not found, or no savepoint can ever be made at the target.
    """
    requests = _folder(state, checkpoint, lineage, storage_options)
    asked = _submitted(requests, to)
    return RequestedSavepoint(request_id=asked.request_id, lineage=asked.lineage, target=asked.target)


def withdraw(
    request_id: str,
    *,
    state: str,
    checkpoint: str | None = None,
    lineage: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> RequestedSavepoint:
    """Take a request for a savepoint back, or forget one that has failed.

    One that is being made already is finished all the same.

    Args:
        request_id: as :func:`request` has it, or the beginning of it.

    Raises:
        StateLocationError: none of that id waits or has failed, or several do.
    """
    requests = _folder(state, checkpoint, lineage, storage_options)
    waiting = _pending(requests)
    matching = [item for item in waiting if item.request_id.startswith(request_id)]
    if len(matching) != 1:
        raise StateLocationError(
            f"{len(matching)} requests {request_id} for a savepoint wait in {requests.location}",
            remedy="it may have been answered or withdrawn; these wait: "
            + (", ".join(item.request_id for item in waiting) or "none"),
        )
    (asked,) = matching
    requests.delete(asked.request_id)
    return RequestedSavepoint(
        request_id=asked.request_id, lineage=requests.lineage, target=asked.target or "unknown"
    )


def pending(
    *,
    state: str,
    checkpoint: str | None = None,
    lineage: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[PendingSavepoint]:
    """The savepoints that a query is asked for: those that wait, then those that could not be made, and why.

    Args:
        state, checkpoint, lineage, storage_options: see :func:`create`.
    """
    return _pending(_folder(state, checkpoint, lineage, storage_options))


def _folder(
    state: str, checkpoint: str | None, lineage: str | None, storage_options: Mapping[str, Any] | None
) -> RequestFolder:
    options = dict(storage_options or {})
    store = open_store(state, options)
    return RequestFolder(store, lineage_of(state, newest_batch(state, checkpoint, options), lineage, store))


def _pending(requests: RequestFolder) -> list[PendingSavepoint]:
    waiting = [
        PendingSavepoint(request_id=item.request_id, lineage=requests.lineage, target=item.target)
        for item in requests.waiting().savepoints
    ]
    failed = [
        PendingSavepoint(
            request_id=item.request_id,
            lineage=requests.lineage,
            target=item.asked,
            error=item.reason,
            failed_at=timestamp(item.failed_ms),
        )
        for item in requests.failed()
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
    """The savepoint that the living driver makes when it is asked; None where there is none to copy instead.

    Raises:
        StateLocationError: it was not made in time.
    """

    def committed() -> NewestBatch | None:
        return newest_batch(state, checkpoint, options)

    store = open_store(state, options)
    batch = committed()
    folder = lineage_of(state, batch, lineage, store)
    watch = DriverWatch(store, folder)
    driver = watch.living()
    if driver is None:
        return None
    progress = progress or _unheard
    made = _Asking(store, folder, to, options, watch, driver, committed, progress).wait(timeout_s)
    if made is None:
        progress("it has made no savepoint: the newest complete checkpoint is copied")
        return None
    return CreatedSavepoint(
        directory=_below(to, made.folder),
        checkpoint_id=made.name.checkpoint_id,
        batch_id=None if batch is None else batch_of(open_store(batch.checkpoint, options), made.name),
        requested=True,
    )


class _Asking:
    """One request of a driver that lives, and what becomes of it."""

    def __init__(
        self,
        store: Store,
        lineage: str,
        to: str,
        options: dict[str, Any],
        watch: DriverWatch,
        driver: DriverRecord,
        committed: Callable[[], NewestBatch | None],
        progress: Progress,
    ) -> None:
        self._store = store
        self._lineage = lineage
        self._to = to
        self._target = open_store(to, options)
        self._watch = watch
        self._driver = f"the driver (process {driver.process} on {driver.host})"
        self._committed = committed
        self._progress = progress
        self._before = frozenset(found.folder for found in self._savepoints())
        self._requests = RequestFolder(store, lineage)
        self._asked = _submitted(self._requests, to)

    def wait(self, timeout_s: float) -> Savepoint | None:
        """The savepoint; None where the driver died or could not make it, and the request is gone."""
        try:
            is_answered = self._is_answered_within(timeout_s)
        except BaseException:
            # Whoever does not wait any longer would not know of the savepoint.
            self._requests.delete(self._asked.request_id)
            raise
        if not is_answered:
            return self._too_late(timeout_s)
        failed = self._requests.failure(self._asked.request_id)
        if failed is not None:
            self._requests.delete(failed.request_id)
            self._progress(f"{self._driver} could not make it: {failed.reason}")
        return self._made()

    def _is_answered_within(self, timeout_s: float) -> bool:
        """Whether the request is gone: answered by the driver or here, or because the driver has ended."""
        begun = said = time.monotonic()
        pause_s = _FIRST_PAUSE_S
        self._progress(f"{self._driver} was asked; waiting for its next batch boundary")
        while self._asked.request_id in self._requests.ids():
            now = time.monotonic()
            if self._is_finished_here():
                return True
            if self._watch.living() is None:
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
        """Whether Spark has committed the batch, so that the savepoint is finished without the driver.

        That hears of it at the query's next trigger, which may be hours away.
        """
        name = self._under_way()
        batch = None if name is None else self._committed()
        if name is None or batch is None or (self._lineage, name) not in batch.named:
            return False
        missing = failed_additions(self._store, self._lineage, name)
        if missing is None:
            write_savepoint(self._store, self._lineage, name, self._target, created_ms=now_ms())
        else:
            self._progress(f"it cannot be finished: {missing}")
        self._requests.delete(self._asked.request_id)
        return True

    def _too_late(self, timeout_s: float) -> Savepoint:
        # Looked at again when it is deleted: the driver may have taken it up in between.
        if self._under_way() is None:
            self._requests.delete(self._asked.request_id)
        name = self._under_way()
        made = self._made()
        if made is not None:
            return made
        if name is not None:
            raise StateLocationError(
                f"checkpoint {name.checkpoint_id} becomes the savepoint, and was not known to be complete "
                f"within {timeout_s:g} s",
                remedy="it is finished at the query's next trigger after that batch, and listed as readable "
                f"then (flip27 savepoint list): {_below(self._to, savepoint_folder(name))}",
            )
        raise StateLocationError(
            f"the savepoint was not made within {timeout_s:g} s: {self._driver} lives and came to no batch "
            "boundary; the request was withdrawn, and nothing was made",
            remedy="give it more time than the trigger's interval (--timeout); or copy the newest complete "
            "checkpoint at once (--copy)",
        )

    def _standing(self) -> str:
        name = self._under_way()
        if name is None:
            return "the request waits for the next batch boundary"
        return f"checkpoint {name.checkpoint_id} becomes the savepoint, its batch is not complete"

    def _under_way(self) -> CheckpointName | None:
        """The checkpoint that is to become the savepoint, where the driver has made one of a request."""
        for name in checkpoint_names(self._store, self._lineage)[:1]:
            file = file_names.checkpoint_file(self._lineage, name)
            try:
                document = decode_document(self._store.read(file, MOST_DOCUMENT_BYTES), name)
            except MissingStateError:
                return None
            if document.target_directory == self._asked.target and savepoint_folder(name) not in self._before:
                return name
        return None

    def _made(self) -> Savepoint | None:
        return max(self._savepoints(but=self._before), key=lambda found: found.name, default=None)

    def _savepoints(self, but: frozenset[str] = frozenset()) -> list[Savepoint]:
        """Those that the driver of the lineage has made in the target, whole."""
        found = []
        for folder in set(self._target.list("")) - but:
            try:
                savepoint = read_savepoint(self._target, folder)
            except Flip27Error:
                continue
            if savepoint.metadata.lineage == self._lineage and savepoint.document.is_savepoint:
                found.append(savepoint)
        return found


def _submitted(requests: RequestFolder, to: str) -> SavepointRequest:
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


def _unheard(_said: str) -> None:
    """Nobody wants to know."""
