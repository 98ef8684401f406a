"""A batch read without Spark: what ``spark.read`` plans and reads."""

from __future__ import annotations

import pyarrow as pa

from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.executor.subtask import read_subtask
from flip27_source.reader import SourceReaderContext
from flip27_source.snapshots.offsets import INITIAL_OFFSET
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.snapshots.store import MemoryStore
from flip27_source.testing import SourceUnderTest
from flip27_source.testing.inline_environment import inline_environment
from flip27_source.testing.spark_side import Row, rows_of


class BatchRead:
    """A batch read whose tasks have been planned."""

    def __init__(self, options: dict[str, str], schema: pa.Schema | None = None) -> None:
        given = SourceUnderTest(options=options, schema=schema)
        self._source, self._store = given.resolve(), MemoryStore()
        environment = inline_environment()
        holder = CoordinatorHolder(
            self._source, Boundedness.BOUNDED, store=self._store, environment=environment, one_batch=True
        )
        start = INITIAL_OFFSET.to_json()
        try:
            self.tasks = holder.plan(start, holder.latest_offset(start, None))
        finally:
            holder.close()
        self._context = SourceReaderContext(options=self._source.options, schema=given.arrow_schema())

    def rows_of_task(self, task: PlannedSubtask) -> list[Row]:
        """Return the rows that the task reads."""
        items = read_subtask(self._source, task, self._context, self._store)
        return [row for item in items for row in rows_of(item)]

    def rows(self) -> list[Row]:
        """Return the rows that all tasks read."""
        return [row for task in self.tasks for row in self.rows_of_task(task)]
