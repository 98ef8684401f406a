"""The span of a task, and the ids of the task in the records of the log."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..log import ids_of_records, set_ids_of_records
from ..reader import SourceReaderContext
from ..snapshots.planned_subtask import PlannedSubtask
from ..source import Source
from ..span_sender import sender
from ..spans import Span
from .meter import Meter
from .split_read import Item

IDS_OF_SPARK = ("batch_id", "query_id")
"""The ids by which Spark names the batch of a task; they are set before the task is read."""


def traced(
    source: Source, planned: PlannedSubtask, context: SourceReaderContext, rows: Iterator[Item]
) -> Iterator[Item]:
    """The rows of a task; its span ends with them, if option ``tracing`` is true."""
    outer = ids_of_records()
    ids = {
        **{name: value for name, value in outer.items() if name in IDS_OF_SPARK},
        "source": source.uid,
        "checkpoint": planned.checkpoint_id,
        "subtask": planned.subtask_id,
        "attempt": context.attempt_number,
    }
    try:
        if planned.traceparent is None:
            set_ids_of_records(ids)
            yield from rows
            return
        span = Span.within(planned.traceparent, "task", **ids)
        set_ids_of_records({**ids, "trace_id": span.trace_id, "span_id": span.span_id})
        yield from _measured(span, rows)
    finally:
        set_ids_of_records(outer)


def _measured(span: Span, rows: Iterator[Item]) -> Iterator[Item]:
    meter = Meter()
    error: BaseException | None = None
    is_complete = False
    try:
        for item in rows:
            meter.count(item)
            yield item
        is_complete = True
    except GeneratorExit:  # Spark needs no more rows, or gives the task up
        raise
    except BaseException as raised:
        error = raised
        raise
    finally:
        span.attributes |= {"rows": meter.rows, "bytes": meter.bytes, "complete": is_complete}
        span.end(error)
        # Spark's worker ends with a task that fails, and with every task if workers are not reused.
        if error is not None or "SPARK_REUSE_WORKER" not in os.environ:
            sender().flush()
