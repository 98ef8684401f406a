"""The parquet reader: row groups of Parquet files as Arrow batches.

Which row groups a split holds and which columns are wanted is decided here; how a column of a file
becomes the column of the schema is in ``parquet_columns``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flip27_source.enumerators.file_split import FileSplit
from flip27_source.errors import SchemaError
from flip27_source.file_systems import local_path
from flip27_source.options import Options
from flip27_source.reader import ReadsRanges, SourceReaderContext, SplitReader
from flip27_source.readers.file_input import check_length, open_raw, reading
from flip27_source.readers.parquet_columns import MismatchError, converted, nulls, refuse_old_calendar

_BATCH_ROWS = 1 << 18
_BATCH_BYTES = 32 << 20
_LEGACY_KEYS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True, slots=True)
class _File:
    """An open file and where its columns are: ``columns`` holds the file's name for each wanted field."""

    path: str
    parquet: pq.ParquetFile
    columns: tuple[str | None, ...]
    may_hold_old_calendar: bool


class ParquetReader(SplitReader[FileSplit], ReadsRanges):
    """Gives the rows of Parquet files, as Spark's own source does for a given schema.

    Columns are found by name without regard to case; missing ones are null, others are not read.
    A range of a file holds the row groups whose middle lies in it, as in parquet-mr.
    """

    @classmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        """Always: by row groups."""
        return True

    def open(self, context: SourceReaderContext) -> None:
        """Keep the context; it always has a schema, so nothing is inferred."""
        super().open(context)
        self._schema = context.schema

    def read(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the split's row groups."""
        if split.length == 0:
            return
        path = split.path
        with reading(path, self.context.options), _opened(self, split) as parquet:
            file = self._described(path, parquet)
            for group in _row_groups(parquet.metadata, split):
                for columns in _batches(file, group):
                    yield self._batch(file, columns)

    def _described(self, path: str, parquet: pq.ParquetFile) -> _File:
        stored: dict[str, list[str]] = {}
        for name in parquet.schema_arrow.names:
            stored.setdefault(name.lower(), []).append(name)
        columns: list[str | None] = []
        for field in self._schema:
            names = stored.get(field.name.lower(), [])
            if len(names) > 1:
                raise SchemaError(
                    f"{path}: column {field.name} is there more than once: {', '.join(names)}",
                    remedy="leave the column out of the schema, or write the file with distinct names",
                )
            columns.append(names[0] if names else None)
        metadata = parquet.metadata.metadata or {}
        return _File(path, parquet, tuple(columns), any(key in metadata for key in _LEGACY_KEYS))

    def _batch(self, file: _File, stored: pa.RecordBatch) -> pa.RecordBatch:
        if stored.schema.equals(self._schema) and not file.may_hold_old_calendar:
            return stored.replace_schema_metadata(None)
        arrays = []
        for field, name in zip(self._schema, file.columns, strict=True):
            try:
                if name is None:
                    arrays.append(nulls(stored.num_rows, field))
                    continue
                column = stored.column(name)
                if file.may_hold_old_calendar:
                    refuse_old_calendar(column)
                arrays.append(converted(column, field))
            except MismatchError as mismatch:
                raise SchemaError(
                    f"{file.path}: column {field.name}: {mismatch}",
                    remedy="give the column a type in the schema that holds what the files hold",
                ) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


@contextmanager
def _opened(reader: ParquetReader, split: FileSplit) -> Iterator[pq.ParquetFile]:
    # A local file is opened by Arrow itself: reads do not go through Python then.
    local = local_path(split.path)
    options: dict[str, Any] = {"coerce_int96_timestamp_unit": "us"}
    if local is not None:
        with pa.OSFile(local, "rb") as source:
            check_length(split, source.size())
            with pq.ParquetFile(source, pre_buffer=False, **options) as parquet:
                yield parquet
        return
    with (
        open_raw(split.path, reader.context.options) as stream,
        pq.ParquetFile(stream, pre_buffer=True, **options) as parquet,
    ):
        check_length(split, stream.seek(0, 2))
        yield parquet


def _row_groups(metadata: pq.FileMetaData, split: FileSplit) -> Iterator[int]:
    """The row groups whose middle lies in the range of the split."""
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        if row_group.num_columns == 0:
            continue
        columns = [row_group.column(index) for index in range(row_group.num_columns)]
        first = columns[0]
        offsets = (first.dictionary_page_offset, first.data_page_offset)
        start = min(offset for offset in offsets if offset)
        middle = start + sum(column.total_compressed_size for column in columns) // 2
        if split.start <= middle and (split.end is None or middle < split.end):
            yield group


def _batches(file: _File, group: int) -> Iterator[pa.RecordBatch]:
    """The wanted columns of one row group."""
    row_group = file.parquet.metadata.row_group(group)
    wanted = [name for name in file.columns if name is not None]
    if not wanted:
        yield from _rows_without_columns(row_group.num_rows)
        return
    row_bytes = row_group.total_byte_size // max(row_group.num_rows, 1) + 1
    rows = max(min(_BATCH_ROWS, _BATCH_BYTES // row_bytes), 1)
    yield from file.parquet.iter_batches(rows, row_groups=[group], columns=wanted, use_threads=False)


def _rows_without_columns(rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, _BATCH_ROWS):
        placeholder = pa.nulls(min(_BATCH_ROWS, rows - start))
        yield pa.RecordBatch.from_arrays([placeholder], names=[""])
