"""Failures of tasks: why a batch could not be read, for people who look at the state.

Spark tells a source that its query has ended, and not why. So a task that fails writes why, if it can.
Nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

import msgspec

from ..access_errors import PERMISSION, cause_of_failed_access
from ..errors import CorruptStateError, MissingStateError, StateError
from ..values.stored_json import decode_json
from . import file_names
from .file_names import CheckpointName
from .store import Store
from .stored_lineage import StoredLineage

_MOST_KEPT = 4
"""Of one subtask: Spark tries a task four times."""
_MOST_READ = 32
"""Of how many failures of subtasks that have reported it is looked up whether they were to read again."""


class TaskFailure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A failed attempt of a task.

    Attributes:
        at_ms: by the clock of its host. epoch: its driver's.
        again: whether it read again what an attempt before it had read and reported.
    """

    at_ms: int
    epoch: int = 0
    subtask: int
    attempt: int
    host: str
    error: str
    remedy: str | None = None
    again: bool = False


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
    """The newest failure of a task of a document's batch; None if none is kept, or it cannot be read.

    Args:
        epoch: of the driver; the failures of earlier ones do not count.
        reported: subtasks whose splits are read, whichever of their attempts have failed, unless these were
            to read them again.

    Raises:
        StateError: the store does not answer; that tasks of another user have left what is closed to this one
            hides nothing else.
    """
    try:
        found = _failures(store, lineage, name)[::-1]
        of_others = [item for item in found if item[1] not in reported]
        # Failures to read again are newer than the reports.
        of_reported = [item for item in found if item[1] in reported][:_MOST_READ]
        for _, subtask, file in (*of_others, *of_reported):
            with suppress(MissingStateError, CorruptStateError, msgspec.MsgspecError):
                failure = decode_json(store.read(file), TaskFailure)
                if failure.epoch >= epoch and (failure.again or subtask not in reported):
                    return failure
    except StateError as error:
        if cause_of_failed_access(error) is not PERMISSION:
            raise
    return None


def _failures(store: Store, lineage: str, name: CheckpointName) -> list[tuple[int, int, str]]:
    """Time, subtask and file of each failure, the newest last."""
    files = StoredLineage(store, lineage).listed(file_names.FAILURES)
    parsed = ((file_names.parse_failed_task(file), file) for file in files)
    return sorted(
        (of[2], of[1], f"{lineage}/{file_names.FAILURES}/{file}")
        for of, file in parsed
        if of is not None and of[0] == name
    )
