"""ColumnarReader: the base class of readers of files that store the names and types of their columns.

What must not live here: a single format, and the conversion of columns (``named_columns``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.options import Option, Options
from flip27_source.reader import ReadsRanges
from flip27_source.readers.columnar.conversions import WIDENING, Conversions
from flip27_source.readers.columnar.named_columns import NO_COLUMN, NamedColumns, RescuedColumns
from flip27_source.readers.files.input import Fetched, reading
from flip27_source.readers.files.read_ahead import fetched_ahead
from flip27_source.readers.files.reader import FILE_OPTIONS, FileReader
from flip27_source.readers.schemas.evolution import (
    INFERENCE_OPTIONS,
    RESCUED_DATA_COLUMN,
    SCHEMA_HINTS,
    SchemaEvolution,
)
from flip27_source.readers.schemas.inference import InfersFileSchema, of_spark
from flip27_source.readers.schemas.merging import merged, without_null_type

COLUMNAR_OPTIONS: tuple[Option[Any], ...] = (*FILE_OPTIONS, *INFERENCE_OPTIONS, RESCUED_DATA_COLUMN)


class ColumnarReader(FileReader, InfersFileSchema, ReadsRanges):
    """Reads the rows of files part by part: row groups, stripes, record batches or blocks.

    Columns are matched by name without regard to case. Missing columns are null; extra columns are not read.
    Each part belongs to one range of the file.
    """

    options: ClassVar[tuple[Option[Any], ...]] = COLUMNAR_OPTIONS
    placeholder = NO_COLUMN
    null_type: ClassVar[pa.DataType] = pa.string()
    """The type of a column that has the null type in all files."""
    conversions: Conversions = WIDENING

    @classmethod
    @abstractmethod
    def stored_schema(cls, split: FileSplit, options: Options) -> pa.Schema:
        """The schema stored in a file, with Arrow's or Spark's types."""

    @abstractmethod
    def rows_of_file(self, split: FileSplit, fetched: Fetched | None) -> Iterator[pa.RecordBatch]:
        """The rows of one split, which is not empty; errors of the file system are converted by the caller.

        Args:
            fetched: the content of the file if it is fetched ahead.
        """

    @classmethod
    def schema_of_files(cls, splits: Sequence[FileSplit], options: Options) -> pa.Schema | None:
        schemas = ((split.path, of_spark(split.path, cls.stored_schema(split, options))) for split in splits)
        return without_null_type(merged(schemas, options[SCHEMA_HINTS]), cls.null_type)

    @classmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        """Always True: ranges are read by parts."""
        return True

    def prepare(self) -> None:
        context = self.context
        self._evolution = SchemaEvolution.of(context.schema, context.options, self.constant_names)

    def rows_of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        options = self.context.options
        for split, fetched in fetched_ahead(splits, options):
            if split.length:
                with reading(split.path, options):
                    yield from self.rows_of_file(split, fetched)

    def columns_of(self, path: str, names: Sequence[str], stored: Callable[[], pa.Schema]) -> NamedColumns:
        """The columns of a file, with rescued data if the schema has a column for it.

        Args:
            names: the column names of the file.
            stored: gives the schema of the file; called only if the evolution must detect other columns.
        """
        schema, evolution = self.context.schema, self._evolution
        if evolution.is_strict:
            file_schema = stored()
            new = evolution.new_columns(of_spark(path, file_schema)) if evolution.looks_for_columns else ()
            if len(new):
                raise evolution.refusal(without_null_type(new, self.null_type), path)
            if evolution.rescued_at is not None:
                return RescuedColumns(path, schema, evolution, file_schema, self.conversions)
        return NamedColumns(path, schema, names, self.conversions)


def names_to_read(split: FileSplit, columns: NamedColumns, names: Sequence[str]) -> list[str]:
    """The file's names of the columns to read: those of the schema, and the one that tells a row's bucket."""
    needed = split.bucket.name_among(names) if split.bucket else None
    wanted = columns.names_to_read
    return wanted if needed is None or needed in wanted else [*wanted, needed]


def is_in_range(split: FileSplit, position: int) -> bool:
    """True if a byte of the file belongs to the range of the split."""
    return split.start <= position and (split.end is None or position < split.end)


def parts_in_range(count: int, split: FileSplit) -> Iterator[int]:
    """The numbers of the parts that belong to the range, for formats that do not store their positions.

    The parts are taken as equally long; each belongs to exactly one range: the one with its middle.
    """
    for number in range(count):
        if is_in_range(split, split.length * (2 * number + 1) // (2 * count)):
            yield number
