"""Flip27StreamReader: passes Spark's streaming calls to the coordinator's holder.

Spark creates this object twice for a query: in the coordinator process, which serves offsets and
partitions, and in a planning process, whose pickled copy reads on executors. The holder is therefore
created at the first call that only the coordinator receives, and is never pickled.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from functools import cached_property
from types import FrameType
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from flip27_source.coordination.batch_limits import UNLIMITED, are_limited
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import OptionError
from flip27_source.pandas_on_demand import import_pandas_on_demand
from flip27_source.source_options import AVAILABLE_NOW, MAX_ROWS_PER_TRIGGER

from .short_errors import shortly
from .task import SubtaskPartition, read_partition
from .versions import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow, arrow_schema

if TYPE_CHECKING:
    from flip27_source.driver.holder import CoordinatorHolder
    from flip27_source.source import Source

    from .data_source import Flip27DataSource


MOST_ROWS = 2**62
"""A limit that Spark has to pass and the source does not apply."""


class Flip27StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The adapter between Spark's DataSourceStreamReader and a CoordinatorHolder."""

    _boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    _holder: CoordinatorHolder | None = None
    _position: dict[str, Any] | None = None
    """Where the next batch starts, for a Spark that does not say so (before 4.2)."""

    def __init__(self, data_source: Flip27DataSource, schema: StructType) -> None:
        self._data_source = data_source
        self._schema = arrow_schema(schema)

    def __getstate__(self) -> dict[str, Any]:
        return {"_data_source": self._data_source, "_schema": self._schema}

    @cached_property
    def _source(self) -> Source:
        """Resolved on demand: the planning process does not need it, and its imports take time."""
        return self._data_source.source()

    def prepareForTriggerAvailableNow(self) -> None:
        """The run reads only the data that exists now."""
        self._boundedness = Boundedness.BOUNDED

    def getDefaultReadLimit(self) -> ReadLimit:
        """A limit that Spark passes back: it tells a normal trigger from one for all available data."""
        options = self._source.options
        return (
            ReadMaxRows(options[MAX_ROWS_PER_TRIGGER] or MOST_ROWS)
            if are_limited(options)
            else ReadAllAvailable()
        )

    def initialOffset(self) -> dict[str, Any]:
        """A constant: Spark does not store the start of batch 0, and calls this again at a replay."""
        from flip27_source.snapshots.offsets import INITIAL_OFFSET

        return INITIAL_OFFSET.to_json()

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The offset of the next checkpoint, which is durable; ``start`` if nothing is new."""
        # None for all available data; otherwise the holder applies the limits of the options.
        limits = None if isinstance(limit or self.getDefaultReadLimit(), ReadAllAvailable) else UNLIMITED
        start = start or self._position or self.initialOffset()
        self._position = shortly(lambda: self._coordinating().latest_offset(start, limits), OptionError)
        return self._position

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The backlog, for progress events."""
        return self._coordinating().report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The recorded plan between two offsets; the same at every call.

        A restarted Spark before 4.2 calls this with the end of its log twice, which tells the position.
        """
        self._position = end
        return [SubtaskPartition(planned) for planned in self._coordinating().plan(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one partition; called on executors, on a pickled copy of this object."""
        return read_partition(self._source, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """The batch that ends at ``end`` is in Spark's commit log."""
        self._coordinating().commit(end)

    def stop(self) -> None:
        """The run ends; Spark does not always call this."""
        if self._holder is not None:
            self._holder.close()

    def _coordinating(self) -> CoordinatorHolder:
        if self._holder is None:
            from flip27_source.driver.holder import CoordinatorHolder
            from flip27_source.log import apply_log_level

            import_pandas_on_demand()
            apply_log_level()
            if self._source.options[AVAILABLE_NOW]:
                self.prepareForTriggerAvailableNow()
            self._holder = CoordinatorHolder(self._source, self._boundedness)
            _stop_on_sigterm()
        return self._holder


def _stop_on_sigterm() -> None:
    """Exit on SIGTERM: Spark ends the coordinator process by two SIGTERMs, without calling ``stop``."""

    def end(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(0)

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)
