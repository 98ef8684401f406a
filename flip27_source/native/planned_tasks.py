"""The files of a batch, from the tasks that Spark has planned for its rows, without running the tasks.

A task of ``reader=splits`` returns what the coordinator has put into it, and a Python task takes some 0.1 s,
however little it does. PySpark has no function that returns the planned tasks, so this module reads them from
the JVM of Spark's driver. The tasks do run if that JVM is out of reach (Spark Connect), if the query or the
function's caller changes the rows, or if the tasks do more than return rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from flip27_source.contract_version import contract_version
from flip27_source.enumerators.files.split import SPLIT_VERSION, FileSplit
from flip27_source.log import LOG
from flip27_source.options import Options
from flip27_source.readers.files.unchanged import changed_files
from flip27_source.segment import Segment
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.spark.task import SubtaskPartition

from .planned_files import PlannedFiles

_EXECUTION = "spark.sql.execution.id"
_ONLY_A_SCAN = "StreamingDataSourceV2ScanRelation"
_ROWS = "numOutputRows"


def files_without_tasks(rows: DataFrame, options: Options) -> PlannedFiles | None:
    """The files that the tasks of a batch would return; None if the tasks have to run.

    As in the tasks, each file must be as it was discovered; if one is not, the tasks run and handle it.

    Args:
        rows: the frame that foreachBatch passes.
        options: with ``storage.*``, to check the files.
    """
    scan = _scan_of(rows)
    if scan is None:
        return None
    files: list[FileSplit] = []
    planned: PlannedSubtask | None = None
    for planned in _planned_in(scan):
        files_of_task = _files_in(planned)
        if files_of_task is None:
            return None
        files += files_of_task
    if files and any(changed_files(files, options)):
        return None
    scan.metrics().apply(_ROWS).add(len(files))  # Spark shows them in progress events
    return PlannedFiles.whole(files, planned=planned)


def _scan_of(rows: DataFrame) -> Any | None:
    """The only node of the batch's plan, in Spark's driver; None if there are others, or no access to it."""
    try:
        session = rows.sparkSession
        number = session.sparkContext.getLocalProperty(_EXECUTION)
        jvm: Any = session._jvm
        if number is None:
            return None
        batch = jvm.org.apache.spark.sql.execution.SQLExecution.getQueryExecution(int(number))
        if batch.optimizedPlan().getClass().getSimpleName() != _ONLY_A_SCAN:
            return None
        frame: Any = rows._jdf
        if not frame.queryExecution().logical().rdd().equals(batch.toRdd()):
            return None
        return batch.executedPlan().collectLeaves().head()
    except Exception as error:  # noqa: BLE001 - no JVM, or another version of Spark
        LOG.debug("the plan of the batch is not accessible: %s", error)
        return None


def _planned_in(scan: Any) -> Iterator[PlannedSubtask | None]:
    """What the coordinator has put into each task; None for a partition that is not the coordinator's."""
    partitions = scan.inputPartitions()
    for index in range(partitions.size()):
        # The bytes that the coordinator has given to Spark, for its tasks to unpickle.
        partition = pickle.loads(partitions.apply(index).pickedPartition())  # noqa: S301
        yield partition.planned if isinstance(partition, SubtaskPartition) else None


def _files_in(planned: PlannedSubtask | None) -> list[FileSplit] | None:
    """The splits of a task; None if the task does more than return them as rows."""
    if (
        planned is None
        or planned.contract != contract_version()
        or planned.split_version != SPLIT_VERSION
        or planned.events
        or planned.report is not None
        or planned.savepoint is not None
    ):
        return None
    return Segment("splits", data=planned.splits).values(FileSplit)
