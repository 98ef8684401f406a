"""The json reader: reads JSON lines and documents to the same rows as ``spark.read.schema(...).json(...)``.

What lives here: the parts of a reader that the coordinator uses. The coordinator reads no files, and the
import of the parsers takes time, so they are imported where files are read:
:mod:`flip27_source.readers.json_lines.rows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.options import Option, Options
from flip27_source.readers.datetimes.options import DATETIME_OPTIONS
from flip27_source.readers.files.reader import FILE_OPTIONS, LinesReader
from flip27_source.readers.files.spark_options import SPARK_JSON
from flip27_source.readers.files.text_options import CORRUPT_RECORD_COLUMN, MAX_LINE_BYTES, MODE
from flip27_source.readers.json_lines.options import JSON_DIALECT_OPTIONS, JSON_INFERENCE_OPTIONS, MULTI_LINE
from flip27_source.readers.schemas.evolution import INFERENCE_OPTIONS, RESCUED_DATA_COLUMN
from flip27_source.readers.schemas.inference import InfersFileSchema
from flip27_source.source_options import TIME_ZONE


class JsonLinesReader(LinesReader, InfersFileSchema):
    """Reads JSON Lines files like Spark's JSON source, or one document per file with ``multiLine``."""

    options: ClassVar[tuple[Option[Any], ...]] = (
        MODE, CORRUPT_RECORD_COLUMN, TIME_ZONE, MAX_LINE_BYTES, *FILE_OPTIONS, *INFERENCE_OPTIONS,
        MULTI_LINE, RESCUED_DATA_COLUMN, *DATETIME_OPTIONS, *JSON_DIALECT_OPTIONS,
        *JSON_INFERENCE_OPTIONS, *SPARK_JSON,
    )  # fmt: skip

    @classmethod
    def schema_of_files(cls, splits: Sequence[FileSplit], options: Options) -> pa.Schema | None:
        from flip27_source.readers.json_lines.schema import schema_of_sample

        return schema_of_sample(splits, options)

    def prepare(self) -> None:
        from flip27_source.readers.json_lines.rows import JsonRows

        self._rows = JsonRows(self.context, self.constant_names)

    def rows_of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        return self._rows.of(splits)
