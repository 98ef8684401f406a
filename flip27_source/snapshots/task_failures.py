"""Failures of tasks and batches: why a query has ended, for people who look at the state.

Spark tells a source that its query has ended, and not why. So whoever knows it writes it, if it can.
Nothing depends on it.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from ..access_errors import PERMISSION, cause_of_failed_access, parts_of_spark, without_frames
from ..errors import CorruptStateError, MissingStateError, StateError, kept_parts
from ..file_systems.secrets_in_texts import Hidden
from ..file_systems.url_credentials import masked
from ..log import LOG
from ..values.stored_json import decode_json
from . import file_names
from .driver_epochs import listed_drivers
from .file_names import CheckpointName
from .store import LocalStore, Store
from .stored_lineage import StoredLineage

_MOST_KEPT = 4
"""Of one subtask: Spark tries a task four times."""
_MOST_READ = 32
"""Of how many failures of subtasks that have reported it is looked up whether they were to read again."""
_PATIENCE_S = 5.0
"""How long whoever fails waits until its failure is stored."""


class TaskFailure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why an attempt of a task has failed, or a batch as a whole.

    Attributes:
        at_ms: by the clock of its host.
        epoch: its driver's.
        subtask: None if the batch was ended by something else than a task of the source.
        again: whether the attempt read again what one before it had read and reported.
    """

    at_ms: int
    epoch: int = 0
    subtask: int | None = None
    attempt: int = 0
    host: str
    error: str
    remedy: str | None = None
    again: bool = False


def at_batch(
    open_state: Callable[[], Store],
    document: tuple[str, CheckpointName],
    secrets: Mapping[str, Any],
    act: Callable[[Store, str, CheckpointName], None],
) -> None:
    """Act on what the state has of a batch, and wait for it a while: no state may hold whoever fails.

    Args:
        open_state: opens the state location.
        document: lineage and document of the batch.
        secrets: options whose credentials are masked in what is logged.
    """

    def on_thread() -> None:
        with only_logged("a batch", secrets):
            store = open_state()
            # A path may name another disk on another host; nothing may be left there.
            if not isinstance(store, LocalStore) or store.has(file_names.checkpoint_file(*document)):
                act(store, *document)

    thread = threading.Thread(target=on_thread, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # the process may not have more threads
        LOG.info("the state does not have why a batch has failed: %s", error)
    else:
        thread.join(_PATIENCE_S)


@contextmanager
def only_logged(of: str, secrets: Mapping[str, Any], level: int = logging.INFO) -> Iterator[None]:
    """Log an error, without secrets: nothing depends on whether the failure of ``of`` is stored."""
    try:
        yield
    except Exception as failed:  # noqa: BLE001 - as above
        said = Hidden(secrets).in_text(str(failed))
        LOG.log(level, "the state does not have why %s has failed: %s", of, said)


def keep_error(
    store: Store,
    lineage: str,
    name: CheckpointName,
    *,
    error: BaseException | str,
    secrets: Mapping[str, Any],
    epoch: int | None = None,
    subtask: int | None = None,
    attempt: int = 0,
    again: bool = False,
    unless: Callable[[], bool] = lambda: False,
) -> None:
    """Store why the batch of a document, or an attempt of a task of it, has failed.

    Args:
        error: or the text of the exception with which Spark has ended the query. It is not stored if
            something is that says it better: the failure of a task that it quotes, or one of the batch.
        secrets: options whose credentials are masked, by name.
        epoch: the driver's; None for the newest one.
        subtask, attempt, again: as in :class:`TaskFailure`.
        unless: whether the newest driver may already be that of a later run.

    Raises:
        StateError: the store cannot be read or written.
    """
    hide = Hidden(secrets).in_text
    epoch = listed_drivers(store, lineage).newest if epoch is None else epoch
    if unless():
        return
    if isinstance(error, str):
        said = masked(hide(without_frames(error)))
        known = _known(store, lineage, name, epoch)
        if any(failure.subtask is None or failure.error in said for failure in known):
            return
        what, remedy = parts_of_spark(said)
    else:
        what, remedy = kept_parts(error, lambda text: hide(without_frames(text)))
    failure = TaskFailure(
        at_ms=time.time_ns() // 1_000_000,
        epoch=epoch,
        subtask=subtask,
        attempt=attempt,
        host=socket.gethostname(),
        error=what,
        remedy=remedy,
        again=again,
    )
    keep_failure(store, lineage, name, failure)


def keep_failure(store: Store, lineage: str, name: CheckpointName, failure: TaskFailure) -> None:
    """Store a failure of the batch of a document, and forget older ones of the same subtask.

    Raises:
        StateError: the store cannot be read or written.
    """
    older = [
        (at, file) for at, subtask, file in _failures(store, lineage, name) if subtask == failure.subtask
    ]
    # The clocks of hosts differ.
    at_ms = max([failure.at_ms, *(at + 1 for at, _ in older)])
    file = file_names.failed_task_file(lineage, name, failure.subtask, at_ms)
    store.create(file, msgspec.json.encode(failure, order="sorted"))
    for _, file in older[: 1 - _MOST_KEPT]:
        store.delete(file)


def forget_failures(store: Store, lineage: str, name: CheckpointName, subtask: int) -> None:
    """Forget the failures of a subtask of a document's batch: an attempt has read all its splits.

    Raises:
        StateError: the store cannot be read or written.
    """
    for _, failed, file in _failures(store, lineage, name):
        if failed == subtask:
            store.delete(file)


def newest_failure(
    store: Store, lineage: str, name: CheckpointName, epoch: int, reported: Collection[int]
) -> TaskFailure | None:
    """The newest failure of a document's batch, or else of a task; None if none is kept, or can be read.

    Args:
        epoch: of the driver; the failures of earlier ones do not count.
        reported: subtasks whose splits are read, whichever of their attempts have failed, unless these were
            to read them again.

    Raises:
        StateError: the store does not answer; that tasks of another user have left what is closed to this one
            hides nothing else.
    """
    try:
        return next(_known(store, lineage, name, epoch, reported), None)
    except StateError as error:
        if cause_of_failed_access(error) is not PERMISSION:
            raise
    return None


def _known(
    store: Store, lineage: str, name: CheckpointName, epoch: int, reported: Collection[int] = ()
) -> Iterator[TaskFailure]:
    """The failures that count and can be read, those of the whole batch first, each with the newest first."""
    found = _failures(store, lineage, name)[::-1]
    counting = sorted((of for of in found if of[1] not in reported), key=lambda of: of[1] is not None)
    # Failures to read again are newer than the reports.
    again = [of for of in found if of[1] in reported][:_MOST_READ]
    for _, subtask, file in (*counting, *again):
        with suppress(MissingStateError, CorruptStateError, msgspec.MsgspecError):
            failure = decode_json(store.read(file), TaskFailure)
            if failure.epoch >= epoch and (failure.again or subtask not in reported):
                yield failure


def _failures(store: Store, lineage: str, name: CheckpointName) -> list[tuple[int, int | None, str]]:
    """Time, subtask and file of each failure, the newest last."""
    files = StoredLineage(store, lineage).listed(file_names.FAILURES)
    parsed = ((file_names.parse_failed_task(file), file) for file in files)
    found = (
        (of[2], of[1], f"{lineage}/{file_names.FAILURES}/{file}")
        for of, file in parsed
        if of is not None and of[0] == name
    )
    return sorted(found, key=lambda failure: (failure[0], failure[2]))
