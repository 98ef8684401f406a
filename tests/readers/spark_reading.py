"""Reads the same files with Spark and with our readers, to compare the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.options import Options
from flip27_source.reader import ReadsTogether, SourceReaderContext, SplitReader
from flip27_source.schemas.ddl import parse_columns


def split_of(path: Path, start: int = 0, end: int | None = None) -> FileSplit:
    """The split that the files enumerator would assign for ``path``."""
    status = path.stat()
    return FileSplit(
        path=str(path), length=status.st_size, modified_us=status.st_mtime_ns // 1000, start=start, end=end
    )


def arrow_schema(schema: StructType | str) -> pa.Schema:
    """The schema that a reader gets for a Spark schema."""
    return parse_columns(schema) if isinstance(schema, str) else to_arrow_schema(schema, timezone="UTC")


def read_batches(
    reader: SplitReader[FileSplit],
    splits: Iterable[FileSplit],
    schema: pa.Schema,
    options: Mapping[str, str] | None = None,
    time_zone: str = "UTC",
) -> list[pa.RecordBatch]:
    """Read ``splits`` with ``reader``, and check that the batches have exactly ``schema``."""
    parsed = Options.parse(options or {}, type(reader).options)
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
