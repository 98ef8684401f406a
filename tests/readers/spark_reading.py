"""Reads the same files with Spark and with our readers, and compares the rows exactly."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.options import Options
from flip27_source.reader import ReadsTogether, SourceReaderContext, SplitReader
from flip27_source.schemas.ddl import parse_columns
from flip27_source.spark import versions
from tests.readers.formats import READERS


def split_of(path: Path, start: int = 0, end: int | None = None) -> FileSplit:
    """The split that the files enumerator would assign for ``path``."""
    status = path.stat()
    return FileSplit(
        path=str(path), length=status.st_size, modified_us=status.st_mtime_ns // 1000, start=start, end=end
    )


def ranges_of(path: Path, starts: Iterable[int]) -> list[FileSplit]:
    """The file as ranges that begin at 0 and at these positions."""
    places = sorted({0, *starts})
    return [split_of(path, start, end) for start, end in zip(places, [*places[1:], None], strict=True)]


def arrow_schema(schema: StructType | str) -> pa.Schema:
    """The schema that a reader gets for a Spark schema."""
    return parse_columns(schema) if isinstance(schema, str) else versions.arrow_schema(schema)


def read_batches(
    reader: SplitReader[FileSplit],
    splits: Iterable[FileSplit],
    schema: pa.Schema,
    options: Mapping[str, str] | Options | None = None,
    time_zone: str = "UTC",
) -> list[pa.RecordBatch]:
    """Read ``splits`` with ``reader``, and check that the batches have exactly ``schema``."""
    parsed = options if isinstance(options, Options) else Options.parse(options or {}, type(reader).options)
    reader.open(SourceReaderContext(options=parsed, schema=schema, time_zone=time_zone))
    batches: list[Any] = []
    if isinstance(reader, ReadsTogether):
        batches.extend(reader.read_together(list(splits)))
    else:
        for split in splits:
            batches.extend(reader.read(split))
    reader.close()
    for batch in batches:
        assert batch.schema.equals(schema), f"{batch.schema}\n  is not\n{schema}"
        batch.validate()  # not in full, because text that is not UTF-8 is delivered unchanged
    return batches


def read_table(
    reader: SplitReader[FileSplit],
    paths: Iterable[Path],
    schema: StructType | str | pa.Schema,
    options: Mapping[str, str] | None = None,
    time_zone: str = "UTC",
) -> pa.Table:
    """Read whole files with ``reader`` to one table."""
    wanted = schema if isinstance(schema, pa.Schema) else arrow_schema(schema)
    return pa.Table.from_batches(
        read_batches(reader, map(split_of, paths), wanted, options, time_zone), schema=wanted
    )


def as_dataframe(spark: SparkSession, table: pa.Table, schema: StructType | str) -> DataFrame:
    """The table as a DataFrame, converted as from a Python data source."""
    return spark.createDataFrame(table, schema=schema)


def assert_same_as_spark(
    spark: SparkSession,
    name: str,
    paths: Path | Sequence[Path],
    schema: StructType | str | None = None,
    options: Mapping[str, str] | None = None,
    time_zone: str = "UTC",
    *,
    any_order: bool = False,
) -> pa.Table:
    """Check that our rows of some files are Spark's rows, and return them.

    Args:
        name: the reader, and Spark's format.
        schema: by default the one that Spark finds in the files.
        any_order: the order of the rows may differ.
    """
    spark.conf.set("spark.sql.session.timeZone", time_zone)
    paths = [paths] if isinstance(paths, Path) else list(paths)
    reader = spark.read.format(name).options(**(options or {}))
    if schema is None:
        schema = reader.load(list(map(str, paths))).schema
    theirs = reader.schema(schema).load(list(map(str, paths))).coalesce(1).toArrow()
    ours = read_table(READERS[name](), paths, schema, options, time_zone)
    our_rows, their_rows = exact_rows(ours), exact_rows(theirs)
    if any_order:
        our_rows, their_rows = sorted(our_rows, key=repr), sorted(their_rows, key=repr)
    # Only the first rows that differ, which would be hard to find in whole tables.
    differences = [pair for pair in zip(our_rows, their_rows, strict=False) if pair[0] != pair[1]]
    assert differences[:5] == []
    assert len(our_rows) == len(their_rows)
    return ours


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A file that Spark and our reader of a format read."""

    spark: SparkSession
    format: str
    path: Path

    def same_as_spark(
        self, content: bytes, schema: str, options: Mapping[str, str] | None = None, time_zone: str = "UTC"
    ) -> pa.Table:
        """Write the file, and check that our rows are Spark's."""
        self.path.write_bytes(content)
        return assert_same_as_spark(self.spark, self.format, self.path, schema, options, time_zone)


def exact_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows in a form that compares exactly, also for NaN, -0.0, text that is not UTF-8, and any year."""
    return list(zip(*map(cells, table.columns), strict=True))


def cells(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column, in a form that compares exactly."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    if types.is_nested(kind):
        return _nested(pa.concat_arrays([column[:0], column]))
    if types.is_string(kind):
        return column.view(pa.binary()).to_pylist()
    if types.is_timestamp(kind):
        return column.view(pa.int64()).to_pylist()
    if types.is_date32(kind):
        return column.view(pa.int32()).to_pylist()
    if types.is_floating(kind):
        return [None if value is None else _float(value) for value in column.to_pylist()]
    return column.to_pylist()


def _nested(column: pa.Array) -> list[Any]:
    kind, valid = column.type, column.is_valid().to_pylist()
    if types.is_struct(kind):
        children = [cells(column.field(number)) for number in range(kind.num_fields)]
        rows: list[Any] = list(zip(*children, strict=True)) if children else [()] * len(column)
        return [row if there else None for row, there in zip(rows, valid, strict=True)]
    if types.is_map(kind):
        items: list[Any] = list(zip(cells(column.keys), cells(column.items), strict=True))
    else:
        items = cells(column.values)
    ends = column.offsets.to_pylist()
    return [items[ends[row] : ends[row + 1]] if valid[row] else None for row in range(len(column))]


def _float(value: float) -> str:
    # The bits distinguish 0.0 from -0.0; those of NaN have no meaning.
    return "NaN" if value != value else f"{value!r} ({struct.pack('>d', value).hex()})"  # noqa: PLR0124
