"""Reads the files of a case with our readers: each whole, all together, and in ranges."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.search import FileSearch
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import Flip27Error, OptionError
from flip27_source.options import Options
from flip27_source.reader import ReadsRanges
from flip27_source.registry import find_reader
from flip27_source.schemas.source_schema import schema_of
from flip27_source.source import Source
from tests.readers.spark_reading import read_batches

from .case import Case
from .spark_side import Failed, Outcome

T = TypeVar("T")


class RefusedError(Exception):
    """Our reader refuses an option or its value, with an error that says so."""


class BareError(Exception):
    """Our reader failed with an exception that is not a Flip27Error."""


@contextmanager
def machine_in(zone: str) -> Iterator[None]:
    """Set the time zone of this process, which is that of the machine."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


class OurSide:
    """Reads a case with our reader.

    Raises:
        RefusedError: an option of the case is refused.
    """

    def __init__(self, case: Case, folder: Path) -> None:
        self._case = case
        self._kind = find_reader(case.format)
        self._texts = {"path": str(folder), "reader": case.format, **case.options, **case.own_options}
        if any("/" in file.path for file in case.files):
            self._texts["basePath"] = str(folder)
        try:
            self._options = Source.resolve(self._texts, enumerator=FilesEnumerator).options
            search = FileSearch(self._options, may_be_emptied=False, keeps_etag=False)
        except OptionError as error:
            raise RefusedError(str(error)) from None
        found, _ = search.everywhere(None)
        self._splits = {split.path.removeprefix(f"{folder}/"): split for split in found}
        self._schema = pa.schema([])

    @property
    def listed(self) -> Collection[str]:
        """The paths of the files that the enumerator finds."""
        return self._splits.keys()

    def take(self, schema: StructType) -> pa.Schema:
        """Read to this schema from now on, followed by our own columns; return it as an Arrow schema."""
        own = [StructField(name, StringType()) for name in self._case.own_columns]
        self._schema = to_arrow_schema(StructType([*schema.fields, *own]), timezone="UTC")
        return self._schema

    def found_schema(self) -> StructType | Failed:
        """The inferred schema."""
        texts = {"timeZone": self._case.zone, **self._texts}
        schema = outcome(lambda: schema_of(Source.resolve(texts, enumerator=FilesEnumerator)))
        return schema if isinstance(schema, Failed) else from_arrow_schema(schema, prefer_timestamp_ntz=True)

    def whole(self, path: str) -> Outcome:
        """Read one file alone."""
        return self.read([self._splits[path]])

    def together(self, paths: Sequence[str]) -> Outcome:
        """Read files with one reader, in one call."""
        return self.read([self._splits[path] for path in paths])

    def ranges(self, path: str) -> list[FileSplit]:
        """The ranges into which the file is cut; empty if it is not cut."""
        split, kind = self._splits[path], self._kind
        if not (issubclass(kind, ReadsRanges) and kind.can_read_ranges(split.path, self._options)):
            return []
        return cut_ranges(split, self._case.cuts)

    def read(self, splits: Sequence[FileSplit]) -> Outcome:
        """Read splits with a new reader, as a task does."""
        return self._read(splits, self._schema, self._options)

    def read_as(self, path: str, schema: pa.Schema, **options: str) -> Outcome:
        """Read one file to another schema, with more options."""
        resolved = Source.resolve({**self._texts, **options}, enumerator=FilesEnumerator).options
        return self._read([self._splits[path]], schema, resolved)

    def _read(self, splits: Sequence[FileSplit], schema: pa.Schema, options: Options) -> Outcome:
        zone = self._case.zone
        batches = outcome(lambda: read_batches(self._kind(), splits, schema, options, zone))
        return batches if isinstance(batches, Failed) else pa.Table.from_batches(batches, schema=schema)


def outcome(read: Callable[[], T]) -> T | Failed:
    """What ``read`` returns, or its failure with one of our errors."""
    try:
        return read()
    except OptionError as error:
        raise RefusedError(str(error)) from None
    except Flip27Error as error:
        return Failed(str(error))
    except Exception as error:
        raise BareError(f"{type(error).__name__}: {error}"[:500]) from error


def cut_ranges(split: FileSplit, cuts: Sequence[float]) -> list[FileSplit]:
    """The ranges of a file that is cut at these shares of its length; empty if there would be only one."""
    places = sorted({0, *(int(cut * split.length) for cut in cuts)})
    ends = [*places[1:], split.length]
    ranges = [
        replace(split, start=start, end=end) for start, end in zip(places, ends, strict=True) if start < end
    ]
    return ranges if len(ranges) > 1 else []
