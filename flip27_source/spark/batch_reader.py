"""Flip27BatchReader: ``spark.read.format("flip27")``, which reads a source once to its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.snapshots.offsets import INITIAL_OFFSET
from flip27_source.snapshots.store import MemoryStore

from .task import SubtaskPartition, read_partition
from .versions import PUSHES_FILTERS, arrow_schema

if TYPE_CHECKING:
    from .data_source import Flip27DataSource
    from .pushed_filters import PushedFilters


class Flip27BatchReader(DataSourceReader):
    """Plans one checkpoint with all available splits, and discards its state."""

    def __init__(self, data_source: Flip27DataSource, schema: StructType) -> None:
        self._data_source = data_source
        self._schema = arrow_schema(schema)
        self._pushed: PushedFilters | None = None
        if PUSHES_FILTERS:
            from .pushed_filters import PushedFilters

            self._pushed = PushedFilters(schema)
            self.pushFilters = self._pushed  # type: ignore[method-assign] # a method of Spark's

    def partitions(self) -> Sequence[InputPartition]:
        source = self._data_source.source()
        if self._pushed is not None:
            source = self._pushed.applied_to(source, self._schema)
        holder = CoordinatorHolder(source, Boundedness.BOUNDED, store=MemoryStore(), one_batch=True)
        try:
            start = INITIAL_OFFSET.to_json()
            end = holder.latest_offset(start, None)
            return [SubtaskPartition(planned) for planned in holder.plan(start, end)]
        finally:
            holder.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one partition; called on executors."""
        return read_partition(self._data_source.source(), self._schema, partition)
