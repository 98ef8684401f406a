"""The arrow reader: record batches of Arrow IPC files (including Feather version 2) and streams.

``named_columns`` converts the columns of a file to those of the schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.options import Options
from flip27_source.readers.columnar.named_columns import NamedColumns
from flip27_source.readers.columnar.reader import ColumnarReader, parts_in_range
from flip27_source.readers.files.input import Fetched, damaged, opened_by_arrow, reading

_MAGIC = b"ARROW1"
_FEATHER_1 = b"FEA1"


class ArrowReader(ColumnarReader):
    """Reads the rows of Arrow IPC files and streams with any file extension.

    A stream can only be read from its start, so all its record batches belong to the first range.
    """

    @classmethod
    def stored_schema(cls, split: FileSplit, options: Options) -> pa.Schema:
        with reading(split.path, options), opened_by_arrow(split, options) as source:
            opened = ipc.open_file if _is_file(source, split) else ipc.open_stream
            with opened(source) as batches:
                return batches.schema

    def rows_of_file(self, split: FileSplit, fetched: Fetched | None) -> Iterator[pa.RecordBatch]:
        with opened_by_arrow(split, self.context.options, fetched) as source:
            batches = (_of_file if _is_file(source, split) else _of_stream)(source, split)
            columns: NamedColumns | None = None
            for stored in batches:
                if columns is None:
                    schema = stored.schema
                    columns = self.columns_of(split.path, schema.names, lambda: schema)  # noqa: B023 - called at once
                stored.validate(full=True)
                if columns.names_to_read:
                    names = dict.fromkeys(columns.names_to_read)
                    at = [index for name in names for index in stored.schema.get_all_field_indices(name)]
                    yield columns.batch(stored.select(at))
                else:
                    yield from columns.without_columns(stored.num_rows)


def _is_file(source: Any, split: FileSplit) -> bool:
    """True for an IPC file, False for a stream."""
    start = bytes(source.read(len(_MAGIC)))
    source.seek(0)
    if start.startswith(_FEATHER_1):
        raise damaged(split.path, "it is a Feather file of version 1; write the file as version 2")
    return start == _MAGIC


def _of_file(source: Any, split: FileSplit) -> Iterator[pa.RecordBatch]:
    with ipc.open_file(source) as file:
        for number in parts_in_range(file.num_record_batches, split):
            yield file.get_batch(number)


def _of_stream(source: Any, split: FileSplit) -> Iterator[pa.RecordBatch]:
    with ipc.open_stream(source) as stream:
        # Later ranges open the file too, because one that is no stream, such as a damaged file, must fail.
        if split.start:
            return
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
