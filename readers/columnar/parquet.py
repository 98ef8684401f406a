"""The parquet reader: row groups of Parquet files as Arrow batches.

This module selects the row groups of a split and the columns to read. ``named_columns`` converts the columns
of a file to those of the schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SplitReadError
from flip27_source.event_time import EventTimeBucket, EventTimeRange
from flip27_source.file_systems.paths import local_path
from flip27_source.options import Option, Options
from flip27_source.reader import KnowsEventTimes, ReadsEventTimeBuckets
from flip27_source.readers.columnar.conversions import (
    WIDENING,
    Conversion,
    Conversions,
    bits_of_sign_and_value,
    refuse_dates_of_spark_2,
    to,
)
from flip27_source.readers.columnar.parquet_footer import with_plain_lists
from flip27_source.readers.columnar.parquet_times import times_in_footer, times_of_groups
from flip27_source.readers.columnar.reader import COLUMNAR_OPTIONS, ColumnarReader, is_in_range, names_to_read
from flip27_source.readers.files.input import WITHOUT_IT, Fetched, open_raw, opened_by_arrow, reading
from flip27_source.readers.files.spark_options import SPARK_PARQUET
from flip27_source.readers.schemas.merging import with_leaves
from flip27_source.source_options import TIME_ZONE
from flip27_source.time_zones import java_zone

_BATCH_ROWS = 1 << 18
_BATCH_BYTES = 32 << 20
_LEGACY_KEYS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


PARQUET_CONVERSIONS: Conversions = (
    # As in Spark, bytes become text without a check, as they do in a column of text.
    to(types.is_string, types.is_binary, lambda column, target: column.view(target)),
    *WIDENING,
    # A date is stored as a number of days.
    Conversion(
        stored=types.is_integer,
        becomes=lambda stored, target: bool(types.is_date32(target)) and bits_of_sign_and_value(stored) <= 32,
        cast=lambda column, target: column.cast(pa.int32()).cast(target),
    ),
    to(
        lambda kind: types.is_signed_integer(kind) or types.is_float64(kind),
        types.is_date32,
        lambda column, target: column.cast(pa.int32()).cast(target),
    ),
)


class ParquetReader(KnowsEventTimes, ReadsEventTimeBuckets, ColumnarReader):
    """Reads the rows of Parquet files as Spark's own source does for a given schema.

    A range of a file holds the row groups whose middle is in the range, as in parquet-mr.
    """

    options: ClassVar[tuple[Option[Any], ...]] = (*COLUMNAR_OPTIONS, *SPARK_PARQUET)
    null_type = pa.int32()  # as in Spark, which uses the stored type of such a column
    conversions = PARQUET_CONVERSIONS

    @classmethod
    def stored_schema(cls, split: FileSplit, options: Options) -> pa.Schema:
        with reading(split.path, options), _opened(split, options) as parquet:
            return _stored(parquet)

    @classmethod
    def event_times(cls, split: FileSplit, column: str, options: Options) -> EventTimeRange | None:
        zone = java_zone(options[TIME_ZONE] or "UTC")
        with reading(split.path, options), _opened(split, options) as parquet:
            metadata = parquet.metadata
        return times_in_footer(
            split.path, metadata, column, zone, by_instants=options.get("eventTimeBucket") is not None
        )

    def rows_of_file(self, split: FileSplit, fetched: Fetched | None) -> Iterator[pa.RecordBatch]:
        with _opened(split, self.context.options, fetched) as parquet:
            names = parquet.schema_arrow.names
            columns = self.columns_of(split.path, names, lambda: _stored(parquet))
            metadata = parquet.metadata.metadata or {}
            has_old_calendar = any(key in metadata for key in _LEGACY_KEYS)
            prepare = refuse_dates_of_spark_2 if has_old_calendar else None
            wanted = names_to_read(split, columns, names)
            for group, bucket in _row_groups_of(parquet.metadata, split):
                if not wanted:
                    yield from columns.without_columns(parquet.metadata.row_group(group).num_rows)
                    continue
                for stored in _batches(parquet, split.path, wanted, group):
                    rows = bucket.rows_of(stored, split.path) if bucket else stored
                    yield columns.batch(rows, prepare)


def _stored(parquet: pq.ParquetFile) -> pa.Schema:
    """The schema in the footer; INT96 columns are instants."""
    leaves = (parquet.schema.column(number) for number in range(len(parquet.schema)))

    def leaf(kind: pa.DataType) -> pa.DataType:
        return pa.timestamp("us", "UTC") if next(leaves).physical_type == "INT96" else kind

    return pa.schema([field.with_type(with_leaves(field.type, leaf)) for field in parquet.schema_arrow])


@contextmanager
def _opened(split: FileSplit, options: Options, fetched: Fetched | None = None) -> Iterator[pq.ParquetFile]:
    is_at_hand = fetched is not None or local_path(split.path) is not None
    opened = opened_by_arrow(split, options, fetched) if is_at_hand else open_raw(split, options)
    with opened as source, _parquet_file(split.path, source, pre_buffer=not is_at_hand) as parquet:
        yield parquet


def _parquet_file(path: str, source: Any, *, pre_buffer: bool) -> pq.ParquetFile:
    how: dict[str, Any] = {"coerce_int96_timestamp_unit": "us", "pre_buffer": pre_buffer}
    try:
        return pq.ParquetFile(source, **how)
    except pa.ArrowInvalid:
        footer = with_plain_lists(source)
        if footer is None:
            raise
    try:
        return pq.ParquetFile(source, metadata=pq.read_metadata(pa.BufferReader(footer)), **how)
    except pa.ArrowException as error:
        # The footer is not damaged, so ignoreCorruptFiles must not skip the file.
        raise SplitReadError(
            f"{path}: Arrow cannot read the schema in its footer: {error}",
            remedy="write the file with another schema or with another library, or move it out of the "
            "source's path",
        ) from None


def _row_groups_of(
    metadata: pq.FileMetaData, split: FileSplit
) -> Iterator[tuple[int, EventTimeBucket | None]]:
    """The row groups of the split, each with the bucket of its rows; None: all of them."""
    if not split.bucket:
        yield from ((group, None) for group in _row_groups(metadata, split))
        return
    for group, times in enumerate(times_of_groups(metadata, split.bucket)):
        bucket = split.bucket if times is None else split.bucket.of_part(times)
        if bucket is not None:
            yield group, bucket


def _row_groups(metadata: pq.FileMetaData, split: FileSplit) -> Iterator[int]:
    """The row groups whose middle is in the range of the split; empty row groups may have no offset."""
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        if row_group.num_columns == 0:
            continue
        columns = [row_group.column(index) for index in range(row_group.num_columns)]
        first = columns[0]
        offsets = (first.dictionary_page_offset, first.data_page_offset)
        start = min((offset for offset in offsets if offset), default=0)
        middle = start + sum(column.total_compressed_size for column in columns) // 2
        if is_in_range(split, middle):
            yield group


_ROWS_ARE_MISSING = ("child array invalid", "Struct child array")
"""Arrow's messages when one column of a struct has fewer values than another after an empty page."""

_DIFFERENCES_END = ("InitHeader EOF", "InitBlock EOF", "delta bit width larger than integer bit width")
"""Arrow's messages when differences of integers are not as long as it expects: in damaged files, and in good
ones whose column of 32 bits has differences of 64, as DuckDB writes them."""


def _batches(
    parquet: pq.ParquetFile, path: str, names: Sequence[str], group: int
) -> Iterator[pa.RecordBatch]:
    """The columns of one row group that are to be read."""
    row_group = parquet.metadata.row_group(group)
    row_bytes = row_group.total_byte_size // max(row_group.num_rows, 1) + 1
    rows = max(min(_BATCH_ROWS, _BATCH_BYTES // row_bytes), 1)
    returned = 0
    try:
        for batch in parquet.iter_batches(rows, row_groups=[group], columns=names, use_threads=False):
            returned += batch.num_rows
            yield batch
    except pa.ArrowInvalid as error:
        if not any(text in str(error) for text in _ROWS_ARE_MISSING):
            raise
        raise _rows_lost(path, f"Arrow returns no row of row group {group}: {error}") from None
    except OSError as error:
        is_of_differences = any(text in str(error) for text in _DIFFERENCES_END)
        if not is_of_differences or not _has_short_differences(row_group, names):
            raise
        # The file need not be damaged, so ignoreCorruptFiles must not skip it.
        raise SplitReadError(
            f"{path}: Arrow cannot decode differences of 64 bits in a column of 32 bits: {error}",
            remedy="use native reads; write files with another library or Parquet version (DuckDB: "
            f"PARQUET_VERSION V1), and {WITHOUT_IT}",
        ) from None
    if returned != row_group.num_rows:
        problem = f"Arrow returns {returned} of the {row_group.num_rows} rows of row group {group}"
        raise _rows_lost(path, problem)


def _has_short_differences(row_group: pq.RowGroupMetaData, names: Sequence[str]) -> bool:
    leaves = map(row_group.column, range(row_group.num_columns))
    return any(
        leaf.physical_type == "INT32"
        and "DELTA_BINARY_PACKED" in leaf.encodings
        and any(leaf.path_in_schema == name or leaf.path_in_schema.startswith(f"{name}.") for name in names)
        for leaf in leaves
    )


def _rows_lost(path: str, problem: str) -> SplitReadError:
    """The error for rows that Arrow loses after an empty page.

    The file is not damaged, so ignoreCorruptFiles must not skip it.
    """
    return SplitReadError(
        f"{path}: {problem}",
        remedy="write the file again with larger pages or with another library, or move it out of the "
        "source's path",
    )
