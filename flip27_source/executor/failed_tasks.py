"""Failed tasks: what a task that fails leaves for people, if the state location can be written."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..reader import SourceReaderContext
from ..snapshots.planned_subtask import PlannedSubtask
from ..snapshots.store import LocalStore, Store, open_store
from ..snapshots.task_failures import at_batch, forget_failures, keep_error
from ..source import Source
from ..source_options import STATE_LOCATION
from .split_read import Item

READ_BEFORE = "An attempt before this one had read all splits of this task."
"""A note in the error of an attempt that has found a report."""


def recorded(
    source: Source, planned: PlannedSubtask, context: SourceReaderContext, items: Iterator[Item]
) -> Iterator[Item]:
    """The items; an error that ends them is stored, until another attempt has read them all."""
    document, location = planned.document, source.options[STATE_LOCATION]
    if document is None or location is None:
        yield from items
        return

    storage = source.options.with_prefix("storage.")

    def state() -> Store:
        return open_store(location, storage) if planned.state is None else LocalStore(planned.state)

    subtask, attempt = context.subtask_id, context.attempt_number
    keep = partial(keep_error, secrets=storage, epoch=planned.epoch, subtask=subtask, attempt=attempt)
    try:
        yield from items
    except Exception as error:
        again = READ_BEFORE in getattr(error, "__notes__", ())
        at_batch(state, document, storage, partial(keep, error=error, again=again))
        raise
    if attempt:
        at_batch(state, document, storage, partial(forget_failures, subtask=subtask))
