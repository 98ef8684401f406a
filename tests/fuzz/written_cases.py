"""Random files of Arrow IPC and Avro. Spark cannot read them here: the rows must be those written."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from .avro_files import avro_bytes
from .case import Case, TableFile
from .line_cases import files_of_a_case, random_cuts
from .tables import PLAIN, RARE, Flat, random_kinds, random_table_file, wanted_columns

_ARROW_TYPES = (*PLAIN, *PLAIN, *(kind for kind in RARE if not pa.types.is_dictionary(kind[0])))
_ARROW_SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "stream": (True,),
    "compression": ("lz4", "zstd"),
    "rows_per_batch": (1, 2, 5),
    "empty_batch": (True,),
}
_AVRO_TYPES: tuple[Flat, ...] = (
    (pa.bool_(), "boolean"), (pa.int32(), "int"), (pa.int64(), "bigint"), (pa.float32(), "float"),
    (pa.float64(), "double"), (pa.string(), "string"), (pa.binary(), "binary"), (pa.binary(4), "binary"),
    (pa.date32(), "date"), (pa.timestamp("us", "UTC"), "timestamp"), (pa.timestamp("ms", "UTC"), "timestamp"),
    (pa.timestamp("us"), "timestamp_ntz"), (pa.decimal128(9, 2), "decimal(9,2)"),
    (pa.decimal128(38, 10), "decimal(38,10)"),
)  # fmt: skip
_AVRO_SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "codec": ("deflate", "bzip2", "xz", "snappy", "zstandard"),
    "sync_interval": (1, 30, 100),
    "null_last": (True,),
    "ignored_logical_types": (True,),
}


def arrow_case(rng: random.Random, name: str) -> Case:
    """Make a random case of Arrow IPC files."""
    return _written_case(rng, "arrow", name, _ARROW_TYPES, _ARROW_SETTINGS, _arrow_bytes)


def avro_case(rng: random.Random, name: str) -> Case:
    """Make a random case of Avro files."""
    return _written_case(
        rng, "avro", name, _AVRO_TYPES, _AVRO_SETTINGS, lambda table, settings: avro_bytes(table, **settings)
    )


def _written_case(
    rng: random.Random,
    format_name: str,
    name: str,
    flat: Sequence[Flat],
    settings: Mapping[str, tuple[Any, ...]],
    write: Callable[[pa.Table, Mapping[str, Any]], bytes],
) -> Case:
    kinds = random_kinds(rng, flat, 2)
    files = tuple(
        random_table_file(rng, f"f{number}.{format_name}", kinds, settings, write, old=True)
        for number in range(files_of_a_case(rng))
    )
    columns = wanted_columns(rng, {column: kind for column, (_, kind) in kinds.items()}, others=())
    return Case(
        format=format_name, name=name, files=files, columns=columns, cuts=random_cuts(rng),
        truth=rows_written,
    )  # fmt: skip


def rows_written(case: Case, schema: pa.Schema) -> dict[str, pa.Table]:
    """The tables of the files in the schema. Names match regardless of case; missing columns are null."""
    tables = {}
    for file in case.files:
        assert isinstance(file, TableFile)
        own = {name.lower(): name for name in file.rows.column_names}
        columns = [
            file.rows.column(own[field.name.lower()]).cast(field.type)
            if field.name.lower() in own
            else pa.nulls(file.rows.num_rows, field.type)
            for field in schema
        ]
        tables[file.path] = pa.table(columns, schema=schema)
    return tables


def _arrow_bytes(table: pa.Table, settings: Mapping[str, Any]) -> bytes:
    sink = io.BytesIO()
    options = ipc.IpcWriteOptions(compression=settings.get("compression"))
    opened = ipc.new_stream if settings.get("stream") else ipc.new_file
    with opened(sink, table.schema, options=options) as writer:
        if settings.get("empty_batch"):
            writer.write_table(table.slice(0, 0))
            writer.write_batch(pa.RecordBatch.from_pylist([], schema=table.schema))
        writer.write_table(table, max_chunksize=settings.get("rows_per_batch"))
    return sink.getvalue()
