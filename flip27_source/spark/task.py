"""The executor side: runs one subtask inside a Spark task."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from flip27_source.errors import OptionError
from flip27_source.log import apply_log_level, set_ids_of_records
from flip27_source.pandas_on_demand import import_pandas_on_demand
from flip27_source.reader import SourceReaderContext
from flip27_source.source_options import TIME_ZONE
from flip27_source.time_zones import java_zone

if TYPE_CHECKING:
    import pyarrow as pa

    from flip27_source.snapshots.planned_subtask import PlannedSubtask
    from flip27_source.source import Source

_SESSION_TIME_ZONE = "spark.sql.session.timeZone"
_IDS = {"batch_id": "streaming.sql.batchId", "query_id": "sql.streaming.queryId"}  # IDS_OF_SPARK


class SubtaskPartition(InputPartition):
    """A planned subtask, as sent by Spark."""

    def __init__(self, planned: PlannedSubtask) -> None:
        self.planned = planned


def read_partition(
    source: Source, schema: pa.Schema, partition: InputPartition
) -> Iterator[pa.RecordBatch | tuple[Any, ...]]:
    """The rows of a partition; none for the empty partition that Spark adds."""
    # Imported here because the planning process imports this module and never reads.
    from flip27_source.executor.failed_tasks import recorded
    from flip27_source.executor.subtask import read_subtask

    import_pandas_on_demand()
    apply_log_level()
    _freeze_garbage_collector()
    if not isinstance(partition, SubtaskPartition):
        return iter(())
    task = TaskContext.get()
    set_ids_of_records(_ids_of(task))
    context = SourceReaderContext(
        options=source.options,
        schema=schema,
        time_zone=source.options[TIME_ZONE] or _session_time_zone(task),
        subtask_id=partition.planned.subtask_id,
        checkpoint_id=partition.planned.checkpoint_id,
        attempt_number=task.attemptNumber() if task is not None else 0,
    )
    planned = partition.planned
    return recorded(source, planned, context, read_subtask(source, planned, context))


def _ids_of(task: TaskContext | None) -> dict[str, str]:
    """What records of the log and spans name the batch by, where Spark shows it."""
    named = {name: task.getLocalProperty(key) if task is not None else None for name, key in _IDS.items()}
    return {name: value for name, value in named.items() if value is not None}


def _freeze_garbage_collector() -> None:
    """Exclude imported modules from garbage collection, once per worker process.

    Spark's daemon collects garbage after every task. Without this, that is half of a small task's time.
    """
    if gc.get_freeze_count() == 0:
        gc.collect()
        gc.freeze()


def _session_time_zone(task: TaskContext | None) -> str:
    named = task.getLocalProperty(_SESSION_TIME_ZONE) if task is not None else None
    return named or _system_time_zone()


def _system_time_zone() -> str:
    """The name of this machine's time zone; Spark tells tasks the session's zone only if it is set."""
    for name in (os.environ.get("TZ", "").lstrip(":"), os.path.realpath("/etc/localtime")):
        name = name.partition("zoneinfo/")[2] or name
        with contextlib.suppress(OptionError):
            java_zone(name)
            return name
    return "UTC"
