"""Failed tasks: what a task that fails leaves for people, if the state location can be written."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from ..errors import kept_parts
from ..file_systems.secrets_in_texts import hidden_of_store
from ..log import LOG
from ..reader import SourceReaderContext
from ..snapshots import file_names
from ..snapshots.file_names import CheckpointName
from ..snapshots.planned_subtask import PlannedSubtask
from ..snapshots.store import LocalStore, Store, open_store
from ..snapshots.task_failures import TaskFailure, forget_failures, keep_failure
from ..source import Source
from ..source_options import STATE_LOCATION
from .split_read import Item

_PATIENCE_S = 5.0
"""How long a failing task waits until its failure is stored."""
READ_BEFORE = "An attempt before this one had read all splits of this task."
"""A note in the error of an attempt that has found a report."""


def recorded(
    source: Source, planned: PlannedSubtask, context: SourceReaderContext, items: Iterator[Item]
) -> Iterator[Item]:
    """The items; an error that ends them is stored, until another attempt has read them all."""
    try:
        yield from items
    except Exception as error:
        _soon(_keep, source, planned, context, error)
        raise
    if context.attempt_number:
        _soon(_at_state, source, planned, partial(forget_failures, subtask=context.subtask_id))


def _soon(act: Callable[..., None], *given: object) -> None:
    """Act, and wait for it a while: no state may hold a task."""
    thread = threading.Thread(target=act, args=given, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # the process may not have more threads
        LOG.info("the state does not have whether a task has failed: %s", error)
    else:
        thread.join(_PATIENCE_S)


def _keep(source: Source, planned: PlannedSubtask, context: SourceReaderContext, error: Exception) -> None:
    what, remedy = kept_parts(error, hidden_of_store(source.options).in_text)
    failure = TaskFailure(
        at_ms=time.time_ns() // 1_000_000,
        epoch=planned.epoch,
        subtask=context.subtask_id,
        attempt=context.attempt_number,
        host=socket.gethostname(),
        error=what,
        remedy=remedy,
        again=READ_BEFORE in getattr(error, "__notes__", ()),
    )
    _at_state(source, planned, partial(keep_failure, failure=failure))


def _at_state(
    source: Source, planned: PlannedSubtask, act: Callable[[Store, str, CheckpointName], None]
) -> None:
    """Act on what the state has of the batch of a task, if it can be reached from here."""
    document, location = planned.document, source.options[STATE_LOCATION]
    if document is None or location is None:
        return
    lineage, name = document
    try:
        store = (
            open_store(location, source.options.with_prefix("storage."))
            if planned.state is None
            else LocalStore(planned.state)
        )
        # A path may name another disk on another host; nothing may be left there.
        if not isinstance(store, LocalStore) or store.has(file_names.checkpoint_file(lineage, name)):
            act(store, lineage, name)
    except Exception as failed:  # noqa: BLE001 - whether the task fails does not depend on it
        said = hidden_of_store(source.options).in_text(str(failed))
        LOG.info("the state does not have whether a task has failed: %s", said)
