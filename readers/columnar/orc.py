"""The orc reader: stripes of ORC files as Arrow batches.

This module selects the stripes of a split and handles ORC's calendar and time zones. ``named_columns``
converts the columns of a file to those of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
from pyarrow import types

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SplitReadError
from flip27_source.event_time import EventTimeRange
from flip27_source.options import Option, Options
from flip27_source.reader import KnowsEventTimes, ReadsEventTimeBuckets
from flip27_source.readers.columnar.conversions import refuse_dates_of_hive
from flip27_source.readers.columnar.named_columns import NO_COLUMN
from flip27_source.readers.columnar.orc_columns import instants_in, orc_conversions, refuse_spoiled_times
from flip27_source.readers.columnar.orc_times import times_in_tail
from flip27_source.readers.columnar.reader import (
    COLUMNAR_OPTIONS,
    ColumnarReader,
    names_to_read,
    parts_in_range,
)
from flip27_source.readers.files.input import Fetched, opened_by_arrow, reading
from flip27_source.readers.files.spark_options import SPARK_ORC
from flip27_source.readers.schemas.merging import spark_type, with_leaves
from flip27_source.source_options import TIME_ZONE
from flip27_source.time_zones import java_zone

_SPARK_TYPE = b"spark.sql.catalyst.type"


class OrcReader(KnowsEventTimes, ReadsEventTimeBuckets, ColumnarReader):
    """Reads the rows of ORC files as Spark's own source does for a given schema.

    Columns are matched by position if all names are those of old Hive (``_col0``).
    """

    options: ClassVar[tuple[Option[Any], ...]] = (TIME_ZONE, *COLUMNAR_OPTIONS, *SPARK_ORC)

    @classmethod
    def stored_schema(cls, split: FileSplit, options: Options) -> pa.Schema:
        """The schema in the footer. Timestamps are instants, unless Spark marked them as timestamp_ntz."""
        from pyarrow import orc

        with reading(split.path, options), opened_by_arrow(split, options) as source:
            return pa.schema(map(_field_of_spark, orc.ORCFile(source).schema))

    @classmethod
    def event_times(cls, split: FileSplit, column: str, options: Options) -> EventTimeRange | None:
        from pyarrow import orc

        zone, by_instants = options[TIME_ZONE], options.get("eventTimeBucket") is not None
        with reading(split.path, options), opened_by_arrow(split, options) as source:
            tail = orc.ORCFile(source).reader.serialized_file_tail()
        return times_in_tail(
            split.path, tail, column, None if zone is None else java_zone(zone), by_instants=by_instants
        )

    def prepare(self) -> None:
        self._zone = self.context.options[TIME_ZONE] or self.context.time_zone
        self.conversions = orc_conversions(self._zone)
        super().prepare()

    def rows_of_file(self, split: FileSplit, fetched: Fetched | None) -> Iterator[pa.RecordBatch]:
        from pyarrow import orc  # imported late because it is as large as the rest of a reader

        with opened_by_arrow(split, self.context.options, fetched) as source:
            file = orc.ORCFile(source)
            stored = file.schema
            named = self._named(pa.schema(map(_field_of_spark, stored)))
            names = named.names
            columns = self.columns_of(split.path, names, lambda: named)
            to_read = dict.fromkeys(names_to_read(split, columns, names))
            positions = [at for name in to_read for at in named.get_all_field_indices(name)]
            if not positions:
                yield from columns.without_columns(_rows(file, split))
                return
            local = {
                at: _with_local_times(field)
                for at, field in enumerate(stored)
                if any(map(_is_local_time, _leaves(field)))
            }
            # Arrow reads only one of the columns of a name, unless it reads all columns.
            has_twins = len({stored.names[at] for at in positions}) < len(positions)
            wanted = None if has_twins else [stored.names[at] for at in positions]
            for number in parts_in_range(file.nstripes, split):
                stripe = _stripe(file, number, wanted, split.path)
                found = ((at, stripe.column(at if has_twins else stored.names[at])) for at in positions)
                arrays = [column.cast(local[at]) if at in local else column for at, column in found]
                batch = pa.RecordBatch.from_arrays(arrays, names=[names[at] for at in positions])
                if split.bucket:
                    converted = partial(instants_in, zone=split.bucket.zone or "UTC")
                    batch = split.bucket.rows_of(batch, split.path, converted=converted)
                yield columns.batch(batch, self._checked)

    def _checked(self, column: pa.Array) -> pa.Array:
        return refuse_spoiled_times(refuse_dates_of_hive(column), self._zone)

    def _named(self, stored: pa.Schema) -> pa.Schema:
        """The columns of a file, renamed as in the schema if they are matched by position."""
        own = [name for name in self._evolution.schema.names if name != NO_COLUMN.name][: len(stored)]
        by_position = stored.names and all(name.startswith("_col") for name in stored.names)
        names = [*own, *stored.names[len(own) :]] if by_position else stored.names
        return pa.schema([field.with_name(name) for field, name in zip(stored, names, strict=True)])


def _field_of_spark(field: pa.Field) -> pa.Field:
    return field.with_type(_with_local_times(field, partial(spark_type, naive_is_utc=True)))


def _with_local_times(
    field: pa.Field, other: Callable[[pa.DataType], pa.DataType] = lambda leaf: leaf
) -> pa.DataType:
    """The type of a column, with the local times that Spark stores as microseconds and marks in the metadata.

    Args:
        other: returns the type of any other leaf.
    """
    leaves = _leaves(field)

    def of(leaf: pa.DataType) -> pa.DataType:
        return pa.timestamp("us") if _is_local_time(next(leaves)) else other(leaf)

    return with_leaves(field.type, of)


def _is_local_time(leaf: pa.Field) -> bool:
    return (leaf.metadata or {}).get(_SPARK_TYPE) == b"timestamp_ntz" and types.is_int64(leaf.type)


def _leaves(field: pa.Field) -> Iterator[pa.Field]:
    """The leaves of a column, in the order of ``with_leaves``."""
    kind = field.type
    if not (types.is_struct(kind) or types.is_map(kind) or types.is_list(kind)):
        yield field
        return
    for number in range(kind.num_fields):
        yield from _leaves(kind.field(number))


def _stripe(file: Any, number: int, names: list[str] | None, path: str) -> pa.RecordBatch:
    try:
        return file.read_stripe(number, names)
    except pa.ArrowInvalid as error:
        if "out of range for nanosecond" not in str(error):
            raise
        # The file is not damaged, so ignoreCorruptFiles must not skip it.
        raise SplitReadError(
            f"{path}: Arrow cannot read ORC timestamps before 1677 or after 2262: {error}",
            remedy="remove the column from the schema, or write the file as Parquet",
        ) from None


def _rows(file: Any, split: FileSplit) -> int:
    """The number of rows of the split, counted without reading columns if it is a whole file."""
    if split.is_whole:
        return int(file.nrows)
    # Only a column shows how many rows a stripe has. The rows must be those of the same stripes as with
    # columns, because a restart may change the schema while other ranges of the file wait.
    first = file.schema.names[:1]
    return sum(
        _stripe(file, number, first, split.path).num_rows for number in parts_in_range(file.nstripes, split)
    )
