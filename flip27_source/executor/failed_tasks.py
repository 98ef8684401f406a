"""Failed tasks: what a task that fails leaves for people, if the state location can be written."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

from ..errors import kept_parts
from ..file_systems.secrets_in_texts import Hidden
from ..log import LOG
from ..reader import SourceReaderContext
from ..snapshots import file_names
from ..snapshots.planned_subtask import PlannedSubtask
from ..snapshots.store import LocalStore, open_store
from ..snapshots.task_failures import TaskFailure, keep_failure
from ..source import Source
from ..source_options import STATE_LOCATION
from .split_read import Item

_PATIENCE_S = 5.0
"""How long a failing task waits until its failure is stored."""


def recorded(
    source: Source, planned: PlannedSubtask, context: SourceReaderContext, items: Iterator[Item]
) -> Iterator[Item]:
    """The items; an error that ends them is stored before it is raised."""
    try:
        yield from items
    except Exception as error:
        writing = threading.Thread(target=_keep, args=(source, planned, context, error), daemon=True)
        writing.start()
        writing.join(_PATIENCE_S)
        raise


def _keep(source: Source, planned: PlannedSubtask, context: SourceReaderContext, error: Exception) -> None:
    document, location = planned.document, source.options[STATE_LOCATION]
    if document is None or location is None:
        return
    storage = source.options.with_prefix("storage.")
    hidden = Hidden(storage)
    what, remedy = kept_parts(error)
    failure = TaskFailure(
        at_ms=time.time_ns() // 1_000_000,
        subtask=context.subtask_id,
        attempt=context.attempt_number,
        host=socket.gethostname(),
        error=hidden.in_text(what),
        remedy=remedy and hidden.in_text(remedy),
    )
    lineage, name = document
    try:
        store = open_store(location, storage) if planned.state is None else LocalStore(planned.state)
        # A path may name another disk on another host; nothing may be left there.
        if not isinstance(store, LocalStore) or store.has(file_names.checkpoint_file(lineage, name)):
            keep_failure(store, lineage, name, failure)
    except Exception as failed:  # noqa: BLE001 - the task fails anyway, with its own error
        LOG.info("the failure of a task cannot be stored: %s", hidden.in_text(str(failed)))
