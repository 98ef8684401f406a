"""FileReader: the base class of all readers of files.

A reader returns the rows of some files. This class adds columns from the path and the metadata of a file
(see ``file_columns``), and makes batches that suit Spark. What must not live here: formats.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, Self

import pyarrow as pa

from flip27_source.enumerators.files.readers_by_name import reader_for
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import AccessError, DataLossError, OptionError, SchemaError, SplitReadError
from flip27_source.options import Option, Options
from flip27_source.reader import (
    KnowsConstants,
    ReadsEventTimeBuckets,
    ReadsRanges,
    ReadsTogether,
    SourceReaderContext,
    SplitReader,
)
from flip27_source.readers.files.base_paths import BASE_PATH
from flip27_source.readers.files.file_columns import INCLUDE_METADATA, FileColumns, constants_of
from flip27_source.readers.files.input import IGNORE_CORRUPT_FILES, IGNORED_BY, forget_listings, is_compressed
from flip27_source.readers.files.text_options import WholeFilesOption
from flip27_source.registry import find_reader
from flip27_source.schemas.ddl import columns_text

FILE_OPTIONS: tuple[Option[Any], ...] = (INCLUDE_METADATA, BASE_PATH, IGNORE_CORRUPT_FILES)
"""Options of every reader of files."""

ENOUGH_ROWS = 8_192
ENOUGH_BYTES = 4 << 20
MOST_ROWS = 1 << 18


class FileReader(SplitReader[FileSplit], ReadsTogether[FileSplit], KnowsConstants[FileSplit]):
    """A reader of files; derived classes define ``prepare`` and ``rows_of``."""

    options: ClassVar[tuple[Option[Any], ...]] = FILE_OPTIONS
    ignored_by: ClassVar[tuple[str, ...]] = IGNORED_BY
    placeholder: ClassVar[pa.Field] = pa.field("value", pa.string())
    """The column to request from the format if all columns of the schema come from elsewhere."""
    constants_of = staticmethod(constants_of)

    constant_names: tuple[str, ...] = ()
    """Columns of the whole schema that this reader does not fill: they are constant for each file."""

    @abstractmethod
    def prepare(self) -> None:
        """Called once before the first ``rows_of``; ``context.schema`` has the columns to return."""

    @abstractmethod
    def rows_of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        """The rows of ``splits``, in order, with the columns of ``context.schema``; batches of any size.

        Constant columns that they have too are replaced.
        """

    def open(self, context: SourceReaderContext) -> None:
        """Keep the context. The first path determines the columns that the format must return."""
        super().open(context)
        forget_listings()
        self._file_columns = FileColumns(context)
        self._readers: dict[tuple[str, ...], Self] = {}

    def read(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        return self.read_together([split])

    def read_together(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        for split in splits:
            if not split.is_whole:
                self._check_range(split)
        with suggesting(type(self), splits):
            yield from spark_sized(self._rows_of_groups(splits))

    def _rows_of_groups(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        for constants, group in self._file_columns.groups(splits):
            reader = self._reader_without(constants.names)
            if constants.names:
                yield from map(constants.added, reader.rows_of(group))
            else:
                yield from reader.rows_of(group)

    def _check_range(self, split: FileSplit) -> None:
        """Refuse options that need whole files while ranges wait from a run with other options."""
        options = self.context.options
        if split.bucket:
            check_bucket(split, type(self))
            return
        if isinstance(self, ReadsRanges) and self.can_read_ranges(split.path, options):
            return
        named = next(_that_need_whole_files(self.options, options), "reader")
        raise OptionError(
            f"{split.path} cannot be read from byte {split.start} to {split.end}, because the option {named} "
            "needs whole files",
            remedy=f"set {named} to its former value until the waiting ranges are read",
        )

    def _reader_without(self, names: tuple[str, ...]) -> Self:
        """The reader of the other columns: this reader, or one of its class with a smaller schema."""
        reader = self._readers.get(names)
        if reader is None:
            reader = self
            if names:
                fields = [field for field in self.context.schema if field.name not in names]
                schema = pa.schema(fields or [self.placeholder])
                reader = type(self)()
                reader.context = replace(self.context, schema=schema)
                reader.constant_names = names
            reader.prepare()
            self._readers[names] = reader
        return reader


@contextmanager
def suggesting(reader: type[Any], splits: Sequence[FileSplit]) -> Iterator[None]:
    """Add to the error of a file that another reader reads files with such names."""
    try:
        yield
    except (AccessError, DataLossError):
        raise
    except (SplitReadError, SchemaError) as error:
        path = next((split.path for split in splits if split.path in error.what), "")
        name = reader_for(path)
        if name is None or issubclass(reader, find_reader(name)):
            raise
        advice = f'set .option("reader", "{name}"), which reads files with such names'
        raise error.advised(advice) from None


class LinesReader(FileReader, ReadsRanges):
    """A reader of files that are cut into ranges at the ends of lines."""

    @classmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        """False for compressed files, because ranges are byte positions, and for other ends of rows."""
        return not is_compressed(path) and not any(_that_need_whole_files(cls.options, options))


def _that_need_whole_files(declared: Iterable[Option[Any]], options: Options) -> Iterator[str]:
    for option in declared:
        if isinstance(option, WholeFilesOption) and options[option] != option.default:
            yield option.name


def check_bucket(split: FileSplit, reader: type[Any]) -> None:
    """Refuse a reader that would deliver all rows of the file for each of its buckets."""
    if not issubclass(reader, ReadsEventTimeBuckets):
        raise OptionError(
            f"{split.path} was cut by eventTimeBucket, and {reader.__name__} cannot read one bucket of event "
            "times",
            remedy="set the former reader until the waiting buckets are read",
        )


def check_columns(reader: str, schema: pa.Schema, known: pa.Schema) -> None:
    """Check that a schema has only some of the columns of a reader whose columns are fixed."""
    for field in schema:
        index = known.get_field_index(field.name)
        if index < 0 or known.field(index).type != field.type:
            raise SchemaError(
                f"the {reader} reader does not have a column {field.name} of type {field.type}",
                remedy=f"remove the schema, or use some of these columns: {columns_text(known)}",
            )


def spark_sized(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order; small adjacent batches are joined, and large batches are cut.

    Each batch costs Spark more than some rows. Batches without rows are left out.
    """
    small: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in chain.from_iterable(map(_cut, batches)):
        if _is_enough(batch.num_rows, batch.nbytes):
            yield from _one(small)
            yield batch
            small, rows, size = [], 0, 0
            continue
        small.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if _is_enough(rows, size):
            yield from _one(small)
            small, rows, size = [], 0, 0
    yield from _one(small)


def _cut(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    if 0 < batch.num_rows <= MOST_ROWS:
        return [batch]
    return (batch.slice(at, MOST_ROWS) for at in range(0, batch.num_rows, MOST_ROWS))


def _is_enough(rows: int, size: int) -> bool:
    return rows >= ENOUGH_ROWS or size >= ENOUGH_BYTES


def _one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    return [pa.Table.from_batches(batches).combine_chunks().to_batches()[0]]
