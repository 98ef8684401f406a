"""Random files of Parquet, written by pyarrow."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .case import Case
from .line_cases import files_of_a_case
from .tables import PLAIN, RARE, Flat, columnar_case, random_kinds, random_table_file, wanted_columns

_SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "compression": ("none", "gzip", "zstd", "lz4"), "use_dictionary": (False,),
    "data_page_version": ("2.0",), "version": ("1.0", "2.4", "2.6"),
    "use_deprecated_int96_timestamps": (True,), "store_schema": (False,), "write_page_index": (True,),
    "data_page_size": (1, 64), "store_decimal_as_integer": (True,), "row_group_size": (1, 2, 5),
    "empty_groups": (True,), "write_statistics": (False,), "use_byte_stream_split": (True,),
}  # fmt: skip
_ONLY_PARQUET: tuple[Flat, ...] = (
    (pa.timestamp("ns", "UTC"), "timestamp"), (pa.timestamp("ns"), "timestamp_ntz"), (pa.null(), "int"),
    (pa.decimal128(9, 0), "decimal(9,0)"), (pa.time64("us"), "bigint"), (pa.float16(), "float"),
)  # fmt: skip


def parquet_case(rng: random.Random, name: str) -> Case:
    """Make a random case."""
    flat = [*PLAIN, *PLAIN, *RARE, *(_ONLY_PARQUET if rng.random() < 0.2 else ())]
    kinds = random_kinds(rng, flat, 2)
    old = rng.random() < 0.05
    files = [
        random_table_file(
            rng, f"f{number}.parquet", kinds, _SETTINGS, _written, old=old, most_settings=(0, 1, 2, 3, 5)
        )
        for number in range(files_of_a_case(rng))
    ]
    columns = wanted_columns(rng, {column: kind for column, (_, kind) in kinds.items()})
    stored = {column: "none" if _is_none_of_spark(held) else kind for column, (held, kind) in kinds.items()}
    return columnar_case(rng, "parquet", name, files, columns, stored)


def _is_none_of_spark(kind: pa.DataType) -> bool:
    """Whether Spark has no type that corresponds to the type of a column."""
    return kind in [held for held, _ in _ONLY_PARQUET if not pa.types.is_decimal(held)] or any(
        _is_none_of_spark(kind.field(number).type) for number in range(kind.num_fields)
    )


def _written(table: pa.Table, settings: Mapping[str, Any]) -> bytes:
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
