"""The arrow reader: record batches of Arrow IPC files (including Feather version 2) and streams.

``named_columns`` converts the columns of a file to those of the schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyarrow import ipc

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.options import Option, Options
from flip27_source.reader import ReadsRanges
from flip27_source.readers.columnar.named_columns import (
    NO_COLUMN,
    NamedColumns,
    middle_of_part,
    rows_without_columns,
)
from flip27_source.readers.columnar.rescued_columns import columns_of
from flip27_source.readers.files.input import Fetched, damaged, opened_by_arrow, reading
from flip27_source.readers.files.read_ahead import fetched_ahead
from flip27_source.readers.files.reader import FILE_OPTIONS, FileReader
from flip27_source.readers.schemas.evolution import SchemaEvolution
from flip27_source.readers.schemas.inference import InfersFromFooters
from flip27_source.readers.schemas.options import INFERENCE_OPTIONS, RESCUED_DATA_COLUMN

_BATCH_ROWS = 1 << 18
_MAGIC = b"ARROW1"
_FEATHER_1 = b"FEA1"


class ArrowReader(FileReader, InfersFromFooters, ReadsRanges):
    """Reads the rows of Arrow IPC files and streams with any file extension.

    Columns are matched as with Parquet. Each record batch of a file belongs to one range of the file. A
    stream can only be read from its start, so all its batches belong to the first range.
    """

    options: ClassVar[tuple[Option[Any], ...]] = (*FILE_OPTIONS, *INFERENCE_OPTIONS, RESCUED_DATA_COLUMN)
    placeholder = NO_COLUMN

    @classmethod
    def stored_schema(cls, split: FileSplit, options: Options) -> pa.Schema:
        """The schema of the file's batches."""
        with reading(split.path, options), opened_by_arrow(split, options) as source:
            opened = ipc.open_file if _is_file(source, split) else ipc.open_stream
            with opened(source) as batches:
                return batches.schema

    @classmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        """Always True: ranges are read by record batches."""
        return True

    def prepare(self) -> None:
        """Prepare the handling of columns that the schema does not have."""
        self._evolution = SchemaEvolution.of(self.context.schema, self.context.options, self.constant_names)

    def rows_of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the splits' record batches."""
        for split, fetched in fetched_ahead(splits, self.context.options):
            if split.length:
                yield from self._rows(split, fetched)

    def _rows(self, split: FileSplit, fetched: Fetched | None) -> Iterator[pa.RecordBatch]:
        options = self.context.options
        with reading(split.path, options), opened_by_arrow(split, options, fetched) as source:
            batches = (_of_file if _is_file(source, split) else _of_stream)(source, split)
            columns: NamedColumns | None = None
            for stored in batches:
                if columns is None:
                    columns = self._columns(split.path, stored.schema)
                stored.validate(full=True)
                if not columns.wanted:
                    for empty in rows_without_columns(stored.num_rows):
                        yield columns.batch(empty)
                    continue
                stored = stored.select(list(dict.fromkeys(columns.wanted)))
                for at in range(0, stored.num_rows, _BATCH_ROWS):
                    yield columns.batch(stored.slice(at, _BATCH_ROWS))

    def _columns(self, path: str, stored: pa.Schema) -> NamedColumns:
        return columns_of(path, self.context.schema, self._evolution, stored.names, lambda: stored)


def _is_file(source: Any, split: FileSplit) -> bool:
    """True for an IPC file, False for a stream."""
    start = bytes(source.read(len(_MAGIC)))
    source.seek(0)
    if start.startswith(_FEATHER_1):
        raise damaged(split.path, "it is a Feather file of version 1; write the file as version 2")
    return start == _MAGIC


def _of_file(source: Any, split: FileSplit) -> Iterator[pa.RecordBatch]:
    with ipc.open_file(source) as file:
        count = file.num_record_batches
        for number in range(count):
            middle = middle_of_part(number, count, split.length)
            if split.start <= middle and (split.end is None or middle < split.end):
                yield file.get_batch(number)


def _of_stream(source: Any, split: FileSplit) -> Iterator[pa.RecordBatch]:
    if split.start:
        return
    with ipc.open_stream(source) as stream:
        while True:
            position = source.tell()
            try:
                yield stream.read_next_batch()
            except StopIteration:
                break
            except (pa.ArrowInvalid, OSError) as error:
                raise damaged(split.path, f"byte {position}: {error}") from None
        # Without the end mark, batches may be missing.
        if position == split.length or source.tell() != split.length:
            raise damaged(split.path, f"byte {position}: no end mark of the stream, or data after it")
