"""Meter: counts the rows and bytes that a subtask passes to Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..errors import OptionError
from ..event_time import microseconds_of
from ..schemas.column_names import place_of_name
from .split_read import Item


class Meter:
    """Counts rows and bytes of Arrow data, and finds the largest time in the event time column, if set."""

    def __init__(self, event_time_column: str | None = None, schema: pa.Schema | None = None) -> None:
        """``schema``: the columns of rows that are tuples."""
        self._column = event_time_column
        self._schema = schema
        self._place: int | None = None
        self._kind: pa.DataType | None = None
        self._latest: int | None = None
        self.rows = 0
        self.bytes = 0

    def count(self, item: Item) -> None:
        if not isinstance(item, pa.RecordBatch):
            self.rows += 1
            if self._column is not None:
                self._look_at_row(item, self._column)
            return
        self.rows += item.num_rows
        self.bytes += item.nbytes
        if self._column is not None:
            self._look_at(item, self._column)

    @property
    def max_event_time(self) -> str | None:
        """The largest event time, ISO 8601; None if there is none, or if its year is not in 1 to 9999."""
        try:
            latest = pa.scalar(self._latest, self._kind).as_py()
        except (OverflowError, ValueError):
            return None
        if isinstance(latest, dt.datetime):
            return latest.isoformat(timespec="microseconds")
        return None if latest is None else str(latest)

    def _look_at(self, batch: pa.RecordBatch, column: str) -> None:
        import pyarrow.compute as pc  # imported here because the import is slow

        times = batch.column(_place_of(column, batch.schema))
        self._kind = times.type
        # The number, because a column may contain times that Python's datetime cannot represent.
        self._keep(pc.max(times).value)

    def _look_at_row(self, row: Sequence[Any], column: str) -> None:
        if self._place is None:
            schema = pa.schema([]) if self._schema is None else self._schema
            self._place = _place_of(column, schema)
            self._kind = schema.field(self._place).type
        if self._place < len(row):
            self._keep(_number_of(row[self._place], self._kind))

    def _keep(self, time: int | None) -> None:
        if time is not None and (self._latest is None or time > self._latest):
            self._latest = time


def _place_of(column: str, schema: pa.Schema) -> int:
    place = place_of_name(column, schema.names)
    kind = None if place is None else schema.field(place).type
    if place is None or not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise OptionError(
            f"eventTimeColumn is {column!r}, but the columns with times are "
            f"{[f.name for f in schema if pa.types.is_temporal(f.type)]}",
            remedy="set eventTimeColumn to a column of type timestamp or date",
        )
    return place


_FIRST_DAY = dt.date(1970, 1, 1).toordinal()
_AFTER_ALL_TIMES = 2**63 - 1


def _number_of(value: Any, kind: pa.DataType) -> int | None:
    """A time in a tuple as Arrow's number, as Spark interprets it; None if Spark will refuse the value."""
    if pa.types.is_date(kind):
        is_date = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
        return value.toordinal() - _FIRST_DAY if is_date else None
    if not isinstance(value, dt.datetime):
        return None
    if kind.tz is None:
        return microseconds_of(value.replace(tzinfo=dt.UTC))
    try:
        # Spark interprets a time without a zone in the time zone of the machine.
        aware = value.astimezone() if value.tzinfo is None else value
    except (OverflowError, ValueError):  # on the first or last day that datetime can represent
        return None if value.year == dt.MINYEAR else _AFTER_ALL_TIMES
    return microseconds_of(aware)
