"""Random files of ORC, written by pyarrow."""

from __future__ import annotations

import datetime as dt
import io
import random
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import orc

from .case import Case, TableFile
from .csv_cases import files_of_a_case, random_cuts
from .folders import in_folders
from .tables import OTHER_TYPES, PLAIN, Flat, random_column, random_types, wanted_columns

_SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "compression": ("uncompressed", "snappy", "zlib", "zstd", "lz4"),
    "batch_size": (1, 2, 5),
    "stripe_size": (1, 100),
    "dictionary_key_size_threshold": (1.0,),
    "row_index_stride": (1000,),
    "compression_strategy": ("compression",),
    "file_version": ("0.11",),
}
# Spark's ORC reader treats all timestamps as instants, whatever their type in Arrow.
_FLAT = [(kind, "timestamp" if pa.types.is_timestamp(kind) else name) for kind, name in PLAIN]
_FLAT = [(kind, name) for kind, name in _FLAT if not (pa.types.is_timestamp(kind) and kind.tz is None)]
_Make = Callable[[random.Random], Any]
_FITTING: tuple[tuple[Flat, _Make], ...] = (
    ((pa.int64(), "bigint"), lambda rng: rng.randint(0, 1)),
    *(
        (flat, make)
        for flat in ((pa.float32(), "float"), (pa.float64(), "double"))
        for make in (
            lambda rng: rng.randint(0, 1),
            lambda rng: rng.randint(-100, 100),
            lambda rng: rng.randint(-1000, 1000) / 4,
        )
    ),
    *(
        ((pa.decimal128(18, 6), "decimal(18,6)"), make)
        for make in (
            lambda rng: Decimal(rng.randint(0, 1)),
            lambda rng: Decimal(rng.randint(-100, 100)),
            lambda rng: Decimal(rng.randint(-9999, 9999)) / 10,
        )
    ),
    *(
        ((pa.string(), "string"), make)
        for make in (
            lambda rng: str(rng.randint(0, 1)),
            lambda rng: f"{rng.choice(('', '', '+', '-'))}{rng.randint(0, 100)}",
            lambda rng: f"{rng.choice(('', ' '))}{rng.randint(-999, 999) / 10}{rng.choice(('', ' ', 'e1'))}",
            lambda rng: str(_EPOCH + dt.timedelta(days=rng.randint(-20_000, 20_000)))[:10],
            lambda rng: str(_EPOCH + dt.timedelta(milliseconds=rng.randint(-(10**12), 10**12))),
        )
    ),
    *(
        ((pa.timestamp("us"), "timestamp"), make)
        for make in (
            lambda rng: _EPOCH + dt.timedelta(days=rng.randint(-20_000, 20_000)),
            lambda rng: _EPOCH + dt.timedelta(seconds=rng.randint(-(10**9), 10**9)),
        )
    ),
)
"""Columns with values that another type can also hold: numbers without a fraction, texts that are dates."""
_EPOCH = dt.datetime(1970, 1, 1)


def orc_case(rng: random.Random, name: str) -> Case:
    """Make a random case."""
    depth = rng.choice((0, 1, 2))
    kinds = {f"c{number}": random_types(rng, _FLAT, depth) for number in range(rng.choice((1, 2, 3, 5, 8)))}
    old = rng.random() < 0.05
    fitting = {f"v{number}": rng.choice(_FITTING) for number in range(rng.choice((0, 0, 1, 1)))}
    files = tuple(_file(rng, number, kinds, fitting, old) for number in range(files_of_a_case(rng)))
    stored = {column: kind for column, (_, kind) in kinds.items()}
    columns = wanted_columns(rng, stored)
    columns = (*columns, *((column, rng.choice(OTHER_TYPES)) for column in fitting))
    stored |= {column: kind for column, ((_, kind), _) in fitting.items()}
    options, own, schema = {}, {}, columns
    if rng.random() < 0.08:
        options, own, schema = {"mergeSchema": "true"}, {"samplingFiles": "100"}, None
    case = Case(
        format="orc", name=name, files=files, columns=schema, options=options, own_options=own,
        cuts=random_cuts(rng),
        stored=stored,
    )  # fmt: skip
    return in_folders(rng, case) if rng.random() < 0.1 else case


def _file(
    rng: random.Random,
    number: int,
    kinds: Mapping[str, Flat],
    fitting: Mapping[str, tuple[Flat, _Make]],
    old: bool,
) -> TableFile:
    rows = rng.choice((0, 1, 1, 2, 5, 12, 30))
    names = list(kinds)
    if rng.random() < 0.15:
        rng.shuffle(names)
    if rng.random() < 0.1 and len(names) > 1:
        names.pop()
    columns = {name: random_column(rng, kinds[name][0], rows, old=old) for name in names}
    for name, ((kind, _), make) in fitting.items():
        columns[name] = pa.array([make(rng) if rng.random() < 0.9 else None for _ in range(rows)], kind)
    table = pa.table(columns)
    chosen = rng.sample(sorted(_SETTINGS), rng.choice((0, 1, 2)))
    settings = {setting: rng.choice(_SETTINGS[setting]) for setting in chosen}
    return TableFile(path=f"f{number}.orc", rows=table, write=_written, settings=settings)


def _written(table: pa.Table, settings: Mapping[str, Any]) -> bytes:
    sink = io.BytesIO()
    orc.write_table(table, sink, **settings)
    return sink.getvalue()
