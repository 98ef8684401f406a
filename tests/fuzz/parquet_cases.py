"""Random files of Parquet, written by pyarrow."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .case import Case, TableFile
from .csv_cases import files_of_a_case, random_cuts
from .folders import in_folders
from .tables import PLAIN, RARE, Flat, random_column, random_types, wanted_columns

_SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "compression": ("none", "gzip", "zstd", "lz4"),
    "use_dictionary": (False,),
    "data_page_version": ("2.0",),
    "version": ("1.0", "2.4", "2.6"),
    "use_deprecated_int96_timestamps": (True,),
    "store_schema": (False,),
    "write_page_index": (True,),
    "data_page_size": (1, 64),
    "store_decimal_as_integer": (True,),
    "row_group_size": (1, 2, 5),
    "empty_groups": (True,),
    "write_statistics": (False,),
    "use_byte_stream_split": (True,),
}
_ONLY_PARQUET: tuple[Flat, ...] = (
    (pa.timestamp("ns", "UTC"), "timestamp"), (pa.timestamp("ns"), "timestamp_ntz"), (pa.null(), "int"),
    (pa.decimal128(9, 0), "decimal(9,0)"), (pa.time64("us"), "bigint"), (pa.float16(), "float"),
)  # fmt: skip


def parquet_case(rng: random.Random, name: str) -> Case:
    """Make a random case."""
    flat = [*PLAIN, *PLAIN, *RARE, *(_ONLY_PARQUET if rng.random() < 0.2 else ())]
    kinds = {f"c{number}": random_types(rng, flat, 2) for number in range(rng.choice((1, 2, 3, 5, 8)))}
    old = rng.random() < 0.05
    files = tuple(_file(rng, number, kinds, old) for number in range(files_of_a_case(rng)))
    columns = wanted_columns(rng, {column: kind for column, (_, kind) in kinds.items()})
    stored = {column: "none" if _is_none_of_spark(held) else kind for column, (held, kind) in kinds.items()}
    options, own, schema = {}, {}, columns
    if rng.random() < 0.08:
        options, own, schema = {"mergeSchema": "true"}, {"samplingFiles": "100"}, None
    case = Case(
        format="parquet", name=name, files=files, columns=schema, options=options, own_options=own,
        cuts=random_cuts(rng),
        stored=stored,
        zone=rng.choice(("UTC", "UTC", "Europe/Berlin", "America/New_York")),
    )  # fmt: skip
    return in_folders(rng, case) if rng.random() < 0.1 else case


def _is_none_of_spark(kind: pa.DataType) -> bool:
    """Whether Spark has no type that corresponds to the type of a column."""
    return kind in [held for held, _ in _ONLY_PARQUET if not pa.types.is_decimal(held)] or any(
        _is_none_of_spark(kind.field(number).type) for number in range(kind.num_fields)
    )


def _file(rng: random.Random, number: int, kinds: Mapping[str, Flat], old: bool) -> TableFile:
    rows = rng.choice((0, 1, 1, 2, 5, 12, 30))
    names = list(kinds)
    if rng.random() < 0.15:
        rng.shuffle(names)
    if rng.random() < 0.1 and len(names) > 1:
        names.pop()
    table = pa.table({name: random_column(rng, kinds[name][0], rows, old=old) for name in names})
    chosen = rng.sample(sorted(_SETTINGS), rng.choice((0, 1, 2, 3, 5)))
    settings = {setting: rng.choice(_SETTINGS[setting]) for setting in chosen}
    return TableFile(path=f"f{number}.parquet", rows=table, write=_written, settings=settings)


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
