"""Meter: counts the rows and bytes that a subtask passes to Spark."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from ..errors import OptionError
from .split_read import Item


class Meter:
    """Rows, bytes of Arrow data, and the largest event time if an event time column is set."""

    def __init__(self, event_time_column: str | None = None) -> None:
        self._column = event_time_column
        self._latest: Any = None
        self.rows = 0
        self.bytes = 0

    def count(self, item: Item) -> None:
        """Count a batch or a row."""
        if not isinstance(item, pa.RecordBatch):
            self.rows += 1
            return
        self.rows += item.num_rows
        self.bytes += item.nbytes
        if self._column is not None:
            self._look_at(item, self._column)

    @property
    def max_event_time(self) -> str | None:
        """The largest event time, ISO 8601; None if no event time was found."""
        if isinstance(self._latest, dt.datetime):
            return self._latest.isoformat(timespec="microseconds")
        return None if self._latest is None else str(self._latest)

    def _look_at(self, batch: pa.RecordBatch, column: str) -> None:
        import pyarrow.compute as pc  # imported here because the import is slow

        index = batch.schema.get_field_index(column)
        kind = batch.schema.field(index).type if index >= 0 else None
        if kind is None or not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            raise OptionError(
                f"eventTimeColumn is {column!r}, but the columns with times are "
                f"{[f.name for f in batch.schema if pa.types.is_temporal(f.type)]}",
                remedy="set eventTimeColumn to a column of type timestamp or date",
            )
        largest = pc.max(batch.column(index)).as_py()
        if largest is not None and (self._latest is None or largest > self._latest):
            self._latest = largest
