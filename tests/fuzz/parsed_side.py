"""Reads the files of a case with ``flip27_source.parsed``: each whole, all together, and in ranges.

The text reader reads the lines as in a task; Spark parses those of many files in one DataFrame.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

import flip27_source
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import Flip27Error, OptionError
from flip27_source.options import Options
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.text import TextReader
from flip27_source.spark.line_options import line_options
from tests.readers.spark_reading import split_of

from .case import Case
from .our_side import BareError, RefusedError, cut_ranges
from .spark_side import FAILURES, FILE, JVM_ZONE, Failed, Outcome, failed

_OF_THE_STREAM = ("header", "comment", "lineSep")


class ParsedSide:
    """Reads a case, with the interface of ``OurSide``.

    Raises:
        RefusedError: an option of the case is refused.
    """

    def __init__(self, case: Case, folder: Path, session: SparkSession) -> None:
        self._case = case
        self._spark = session
        self._options = {name: text for name, text in case.options.items() if name != "lineSep"}
        texts = {name: text for name, text in case.options.items() if name in _OF_THE_STREAM}
        try:
            line_options(case.format, self._options)
            self._reading = Options.parse(texts, TextReader.options)
        except OptionError as error:
            raise RefusedError(str(error)) from None
        self._splits = {file.path: split_of(folder / file.path) for file in case.files}
        self._ranges = {
            path: cut_ranges(split, case.cuts) if TextReader.can_read_ranges(path, self._reading) else []
            for path, split in self._splits.items()
        }
        self._wanted = StructType()
        self._read: dict[tuple[FileSplit, ...], Outcome] = {}

    @property
    def listed(self) -> Collection[str]:
        """The paths of all files."""
        return self._splits.keys()

    def take(self, schema: StructType) -> pa.Schema:
        """Read to this schema from now on; return it as an Arrow schema."""
        self._wanted = schema
        self._read = {}
        wholes: list[tuple[FileSplit, ...]] = [(split,) for split in self._splits.values()]
        self._read |= self._outcomes([*wholes, *((p,) for parts in self._ranges.values() for p in parts)])
        return to_arrow_schema(schema, timezone="UTC")

    def found_schema(self) -> StructType | Failed:
        """Not called, because cases of ``parsed`` have a schema."""
        raise AssertionError("a case of parsed has a schema")

    def whole(self, path: str) -> Outcome:
        """Read one file alone."""
        return self.read([self._splits[path]])

    def together(self, paths: Sequence[str]) -> Outcome:
        """Read files with one reader, in one call."""
        return self.read([self._splits[path] for path in paths])

    def ranges(self, path: str) -> list[FileSplit]:
        """The ranges into which the file is cut; empty if it is not cut."""
        return self._ranges[path]

    def read(self, splits: Sequence[FileSplit]) -> Outcome:
        """Read splits with a new text reader. Outcomes are cached."""
        key = tuple(splits)
        if key not in self._read:
            self._read |= self._outcomes([key])
        return self._read[key]

    def _outcomes(self, keys: Sequence[tuple[FileSplit, ...]]) -> Mapping[tuple[FileSplit, ...], Outcome]:
        """Read groups of splits in one job or, if that fails, in one job for each group."""
        keys = list(dict.fromkeys(keys))
        lines = [self._lines(key) for key in keys]
        tables = [
            one.append_column(FILE, pa.repeat(pa.scalar(number, pa.int32()), one.num_rows))
            for number, one in enumerate(lines)
            if isinstance(one, pa.Table)
        ]
        found: dict[tuple[FileSplit, ...], Outcome] = {
            key: one for key, one in zip(keys, lines, strict=True) if isinstance(one, Failed)
        }
        if not tables:
            return found
        try:
            rows = self._parsed(pa.concat_tables(tables))
        except FAILURES as error:
            if len(keys) == 1:
                return {keys[0]: failed(error)}
            return {key: self._outcomes([key])[key] for key in keys}
        numbers = rows.column(FILE).combine_chunks()
        rows = rows.drop_columns([FILE])
        return found | {
            key: rows.filter(pc.equal(numbers, number)) for number, key in enumerate(keys) if key not in found
        }

    def _parsed(self, lines: pa.Table) -> pa.Table:
        self._spark.conf.set("spark.sql.session.timeZone", self._case.zone)
        schema = from_arrow_schema(lines.schema)
        # One chunk, because Spark stops at a batch without rows.
        stream = self._spark.createDataFrame(lines.combine_chunks(), schema=schema)
        try:
            rows = flip27_source.parsed(stream, self._case.format, self._wanted, **self._options)
        except Flip27Error as error:
            raise BareError(f"refused late: {error}") from error
        if rows.columns != [*self._wanted.names, FILE]:
            raise BareError(f"the columns are {rows.columns}")
        with JVM_ZONE.set_to(self._case.jvm_zone, self._spark):
            return rows.toArrow()

    def _lines(self, splits: Sequence[FileSplit]) -> pa.Table | Failed:
        schema = TextReader.default_schema(self._reading)
        reader = TextReader()
        reader.open(SourceReaderContext(options=self._reading, schema=schema, time_zone=self._case.zone))
        try:
            return pa.Table.from_batches(list(reader.read_together(splits)), schema=schema)
        except Flip27Error as error:
            return Failed(str(error))
