"""The libraries that write Parquet and ORC files of cases. Each function returns the content of a file."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import arro3.io
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from .spark_side import JVM_ZONE, small_jobs

Write = Callable[[pa.Table, Mapping[str, Any]], bytes]

VARIANT = "variant"
"""The column of JSON texts that Spark writes as variants."""
VARIANTS = tuple('1 "a" {"a":1,"b":"x"} {"a":2,"b":null} {"a":"text"} [1,{"a":2}] null 1.5 {}'.split())

BY_PYARROW: Mapping[str, tuple[Any, ...]] = {
    "compression": ("none", "gzip", "zstd", "lz4", "brotli"), "use_dictionary": (False,),
    "data_page_version": ("2.0",), "version": ("1.0", "2.4", "2.6"),
    "use_deprecated_int96_timestamps": (True,), "store_schema": (False,), "write_page_index": (True,),
    "data_page_size": (1, 64), "store_decimal_as_integer": (True,), "row_group_size": (1, 2, 5),
    "empty_groups": (True,), "write_statistics": (False,), "use_byte_stream_split": (True,),
}  # fmt: skip
BY_DUCKDB: Mapping[str, tuple[Any, ...]] = {
    "compression": ("uncompressed", "gzip", "zstd", "lz4_raw", "brotli"), "parquet_version": ("v2",),
    "row_group_size": (2048,), "write_bloom_filter": (False,),
}  # fmt: skip
BY_ARROW_RS: Mapping[str, tuple[Any, ...]] = {
    "compression": ("uncompressed", "snappy", "gzip(6)", "zstd(3)", "lz4_raw", "brotli(1)"),
    "dictionary_enabled": (False,),
    "data_page_row_count_limit": (1, 3), "data_page_size_limit": (1, 64), "write_batch_size": (1, 2),
    "max_row_group_size": (1, 2, 5), "writer_version": ("parquet_2_0",), "skip_arrow_metadata": (True,),
    "bloom_filter_enabled": (True,),
}  # fmt: skip
PARQUET_BY_SPARK: Mapping[str, tuple[Any, ...]] = {
    "compression": ("none", "gzip", "zstd", "lz4", "lz4_raw"), "parquet.page.size": ("64", "256"),
    "parquet.page.row.count.limit": ("1", "3"), "parquet.writer.version": ("v2",),
    "parquet.enable.dictionary": ("false",), "parquet.block.size": ("64",),
    "spark.sql.parquet.outputTimestampType": ("INT96", "TIMESTAMP_MILLIS", "TIMESTAMP_MICROS"),
    "spark.sql.parquet.writeLegacyFormat": ("true",), "spark.sql.variant.writeShredding.enabled": ("false",),
}  # fmt: skip
ORC_BY_SPARK: Mapping[str, tuple[Any, ...]] = {
    "compression": ("none", "snappy", "zlib", "zstd", "lz4", "lzo"), "orc.stripe.size": ("64",),
    "orc.row.index.stride": ("1000",), "orc.dictionary.key.threshold": ("1.0",),
}  # fmt: skip


def by_pyarrow(table: pa.Table, settings: Mapping[str, Any]) -> bytes:
    """A Parquet file."""
    keep = {name: value for name, value in settings.items() if name not in ("row_group_size", "empty_groups")}
    if keep.get("use_byte_stream_split"):
        keep |= {"use_dictionary": False}
        keep["use_byte_stream_split"] = [
            field.name
            for field in table.schema
            if pa.types.is_float32(field.type) or pa.types.is_float64(field.type)
        ]
    if keep.get("version") in ("1.0", "2.4"):
        keep["coerce_timestamps"] = "us"
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, allow_truncated_timestamps=True, **keep) as writer:
        if settings.get("empty_groups"):
            writer.write_table(table.slice(0, 0))
        writer.write_table(table, row_group_size=settings.get("row_group_size"))
        if settings.get("empty_groups"):
            writer.write_table(table.slice(0, 0))
    return sink.getvalue()


def by_duckdb(table: pa.Table, settings: Mapping[str, Any]) -> bytes:
    """A Parquet file."""
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(config={"threads": 1}) as database:
        database.register("written", table)
        options = "".join(f", {name} {value!r}" for name, value in settings.items())
        database.execute(f"COPY written TO '{folder}/file' (FORMAT parquet{options})")
        return Path(folder, "file").read_bytes()


def by_arrow_rs(table: pa.Table, settings: Mapping[str, Any]) -> bytes:
    """A Parquet file."""
    sink = io.BytesIO()
    arro3.io.write_parquet(table, sink, **settings)
    return sink.getvalue()


def by_spark(format_name: str, jvm_zone: str = "UTC") -> Write:
    """A writer of Parquet or ORC files, in a zone of the JVM, which ORC files contain."""

    def write(table: pa.Table, settings: Mapping[str, Any]) -> bytes:
        spark = small_jobs(SparkSession.active())
        options = {name: value for name, value in settings.items() if not name.startswith("spark.")}
        for name in settings.keys() - options.keys():
            spark.conf.set(name, settings[name])
        for old in ("datetimeRebaseModeInWrite", "int96RebaseModeInWrite"):
            spark.conf.set(f"spark.sql.parquet.{old}", "CORRECTED")
        rows = spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))
        if VARIANT in table.column_names:
            rows = rows.selectExpr(f"* EXCEPT ({VARIANT})", f"parse_json({VARIANT}) AS {VARIANT}")
        with tempfile.TemporaryDirectory() as folder, JVM_ZONE.set_to(jvm_zone, spark):
            rows.coalesce(1).write.format(format_name).options(**options).save(f"{folder}/files")
            return next(Path(folder, "files").glob("part-*")).read_bytes()

    return write
