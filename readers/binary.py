"""The binary reader: one row per file with its content, like ``spark.read.format("binaryFile")``.

Compressed files are not decompressed. Empty files return no row, as in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.file_systems.paths import local_path, with_percents
from flip27_source.options import Options
from flip27_source.readers.files.file_columns import with_metadata
from flip27_source.readers.files.input import MOST_BYTES, Fetched, read_whole, too_large
from flip27_source.readers.files.read_ahead import fetched_ahead
from flip27_source.readers.files.reader import FileReader, check_columns
from flip27_source.values.times import datetime_or_none

_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("modificationTime", pa.timestamp("us", tz="UTC")),
        pa.field("length", pa.int64()),
        pa.field("content", pa.binary()),
    ]
)
_BATCH_BYTES = 16 << 20


class BinaryReader(FileReader):
    """Reads each file as one row: path, modificationTime, length and content."""

    placeholder = pa.field("length", pa.int64())

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        """Spark's schema: ``path string, modificationTime timestamp, length long, content binary``."""
        return with_metadata(_SCHEMA, options)

    def prepare(self) -> None:
        """Check that the schema has only these columns; some may be missing."""
        check_columns("binary", self.context.schema, _SCHEMA)

    def rows_of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, Any]] = []
        size = 0
        fetched_with: Iterator[tuple[FileSplit, Fetched | None]] = ((split, None) for split in splits)
        if "content" in self.context.schema.names:
            fetched_with = fetched_ahead(splits, self.context.options)
        for split, fetched in fetched_with:
            if split.length == 0:
                continue
            row = self._row(split, fetched)
            length = row["length"]
            if rows and size + length > _BATCH_BYTES:
                yield self._batch(rows)
                rows, size = [], 0
            rows.append(row)
            size += length
        if rows:
            yield self._batch(rows)

    def _batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(rows, schema=self.context.schema)

    def _row(self, split: FileSplit, fetched: Fetched | None) -> dict[str, Any]:
        if split.length > MOST_BYTES:
            raise too_large(split)
        local, content = local_path(split.path), None
        if "content" in self.context.schema.names:
            content = read_whole(split, self.context.options) if fetched is None else fetched.result()
        return {
            # Spark shows a local path as a URI.
            "path": split.path if local is None else f"file:{with_percents(local)}",
            # Spark shows milliseconds, the precision of Java's file systems.
            "modificationTime": datetime_or_none(split.modified_us // 1000),
            "length": split.length if content is None else len(content),
            "content": content,
        }
