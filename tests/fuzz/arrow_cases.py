"""Random files of Arrow IPC. Spark has no reader for them: the rows must be those that were written."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from .case import Case, TableFile
from .csv_cases import files_of_a_case, random_cuts
from .tables import PLAIN, RARE, Flat, random_column, random_types, wanted_columns

_SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "stream": (True,),
    "compression": ("lz4", "zstd"),
    "rows_per_batch": (1, 2, 5),
    "empty_batch": (True,),
}


def arrow_case(rng: random.Random, name: str) -> Case:
    """Make a random case."""
    flat = [*PLAIN, *PLAIN, *(kind for kind in RARE if not pa.types.is_dictionary(kind[0]))]
    kinds = {f"c{number}": random_types(rng, flat, 2) for number in range(rng.choice((1, 2, 3, 5, 8)))}
    files = tuple(_file(rng, number, kinds) for number in range(files_of_a_case(rng)))
    columns = wanted_columns(rng, {column: kind for column, (_, kind) in kinds.items()}, others=())
    return Case(
        format="arrow", name=name, files=files, columns=columns, cuts=random_cuts(rng), truth=rows_written,
        zone=rng.choice(("UTC", "UTC", "Europe/Berlin")),
    )  # fmt: skip


def rows_written(case: Case, schema: pa.Schema) -> dict[str, pa.Table]:
    """The tables of the files in the schema. Names match regardless of case; missing columns are null."""
    found = {}
    for file in case.files:
        assert isinstance(file, TableFile)
        own = {name.lower(): name for name in file.rows.column_names}
        columns = [
            file.rows.column(own[field.name.lower()]).cast(field.type)
            if field.name.lower() in own
            else pa.nulls(file.rows.num_rows, field.type)
            for field in schema
        ]
        found[file.path] = pa.table(columns, schema=schema)
    return found


def _file(rng: random.Random, number: int, kinds: Mapping[str, Flat]) -> TableFile:
    rows = rng.choice((0, 1, 1, 2, 5, 12, 30))
    names = list(kinds)
    if rng.random() < 0.15:
        rng.shuffle(names)
    if rng.random() < 0.1 and len(names) > 1:
        names.pop()
    table = pa.table({name: random_column(rng, kinds[name][0], rows, old=True) for name in names})
    chosen = rng.sample(sorted(_SETTINGS), rng.choice((0, 1, 2)))
    settings = {setting: rng.choice(_SETTINGS[setting]) for setting in chosen}
    return TableFile(path=f"f{number}.arrow", rows=table, write=_written, settings=settings)


def _written(table: pa.Table, settings: Mapping[str, Any]) -> bytes:
    sink = io.BytesIO()
    options = ipc.IpcWriteOptions(compression=settings.get("compression"))
    opened = ipc.new_stream if settings.get("stream") else ipc.new_file
    with opened(sink, table.schema, options=options) as writer:
        if settings.get("empty_batch"):
            writer.write_table(table.slice(0, 0))
            writer.write_batch(pa.RecordBatch.from_pylist([], schema=table.schema))
        writer.write_table(table, max_chunksize=settings.get("rows_per_batch"))
    return sink.getvalue()
