"""Reads the files of a case with our readers: each whole, all together, and in ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import Flip27Error, OptionError
from flip27_source.options import Options
from flip27_source.reader import ReadsRanges, ReadsTogether, SourceReaderContext
from flip27_source.registry import find_reader
from flip27_source.schemas.source_schema import schema_of
from flip27_source.source import Source

from .case import Case
from .spark_side import Failed, Outcome

T = TypeVar("T")


class RefusedError(Exception):
    """Our reader refuses an option or its value, with an error that says so."""


class BareError(Exception):
    """Our reader failed with an exception that is not a Flip27Error."""


class OurSide:
    """Reads a case with our reader.

    Raises:
        RefusedError: an option of the case is refused.
    """

    def __init__(self, case: Case, folder: Path) -> None:
        self._case = case
        self._folder = folder
        self._kind = find_reader(case.format)
        texts = {**case.options, **case.own_options}
        if any("/" in file.path for file in case.files):
            texts["basePath"] = str(folder)
        try:
            self._options = Options.parse(texts, self._kind.options)
        except OptionError as error:
            raise RefusedError(str(error)) from None
        self._splits = {file.path: split_of(folder / file.path) for file in case.files}
        self._schema = pa.schema([])

    def take(self, schema: StructType) -> pa.Schema:
        """Read to this schema from now on, followed by our own columns; return it as an Arrow schema."""
        own = [StructField(name, StringType()) for name in self._case.own_columns]
        self._schema = to_arrow_schema(StructType([*schema.fields, *own]), timezone="UTC")
        return self._schema

    def found_schema(self) -> StructType | Failed:
        """The inferred schema."""
        case = self._case
        texts = {"path": str(self._folder), "reader": case.format, "timeZone": case.zone, **case.options}
        source = {**texts, **case.own_options}
        schema = _outcome(lambda: schema_of(Source.resolve(source, enumerator=FilesEnumerator)))
        return schema if isinstance(schema, Failed) else from_arrow_schema(schema, prefer_timestamp_ntz=True)

    def whole(self, path: str) -> Outcome:
        """Read one file alone."""
        return self.read([self._splits[path]])

    def together(self) -> Outcome:
        """Read all files with one reader, in one call."""
        return self.read(list(self._splits.values()))

    def ranges(self, path: str) -> list[FileSplit]:
        """The ranges into which the file is cut; empty if it is not cut."""
        split, kind = self._splits[path], self._kind
        if not (issubclass(kind, ReadsRanges) and kind.can_read_ranges(split.path, self._options)):
            return []
        return cut_ranges(split, self._case.cuts)

    def read(self, splits: Sequence[FileSplit]) -> Outcome:
        """Read splits with a new reader, as a task does."""
        batches = _outcome(lambda: self._batches(splits))
        if isinstance(batches, Failed):
            return batches
        for batch in batches:
            if not batch.schema.equals(self._schema):
                raise BareError(f"a batch has the schema\n{batch.schema}\nand not\n{self._schema}")
            batch.validate()  # not in full, because text that is not UTF-8 is delivered unchanged
        return pa.Table.from_batches(batches, schema=self._schema)

    def _batches(self, splits: Sequence[FileSplit]) -> list[Any]:
        reader = self._kind()
        reader.open(
            SourceReaderContext(options=self._options, schema=self._schema, time_zone=self._case.zone)
        )
        if isinstance(reader, ReadsTogether):
            batches: list[Any] = list(reader.read_together(splits))
        else:
            batches = [batch for split in splits for batch in reader.read(split)]
        reader.close()
        return batches


def _outcome(read: Callable[[], T]) -> T | Failed:
    """What ``read`` returns, or its failure with one of our errors."""
    try:
        return read()
    except OptionError as error:
        raise RefusedError(str(error)) from None
    except Flip27Error as error:
        return Failed(str(error))
    except Exception as error:
        raise BareError(f"{type(error).__name__}: {error}"[:500]) from error


def split_of(path: Path) -> FileSplit:
    """The split that the enumerator would assign for a file."""
    status = path.stat()
    return FileSplit(path=str(path), length=status.st_size, modified_us=status.st_mtime_ns // 1000)


def cut_ranges(split: FileSplit, cuts: Sequence[float]) -> list[FileSplit]:
    """The ranges of a file that is cut at these shares of its length; empty if there would be only one."""
    places = sorted({0, *(int(cut * split.length) for cut in cuts)})
    ends = [*places[1:], split.length]
    ranges = [
        replace(split, start=start, end=end) for start, end in zip(places, ends, strict=True) if start < end
    ]
    return ranges if len(ranges) > 1 else []
