"""Random files of ORC, as pyarrow and Spark write them."""

from __future__ import annotations

import datetime as dt
import io
import random
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import orc

from .case import Case
from .line_cases import files_of_a_case
from .tables import OTHER_TYPES, PLAIN, Flat, columnar_case, random_kinds, random_table_file, wanted_columns
from .texts import REGIONS
from .writers import ORC_BY_SPARK, by_spark

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
    count, flat, write, settings = files_of_a_case(rng), _FLAT, _written, _SETTINGS
    if rng.random() < 0.15:
        count, flat, settings = rng.randint(1, 4), list(PLAIN), ORC_BY_SPARK
        write = by_spark("orc", rng.choice(REGIONS))
    kinds = random_kinds(rng, flat, rng.choice((0, 1, 2)))
    old = rng.random() < 0.05
    fitting = {f"v{number}": rng.choice(_FITTING) for number in range(rng.choice((0, 0, 1, 1)))}

    def more(rows: int) -> dict[str, pa.Array]:
        return {
            column: pa.array([make(rng) if rng.random() < 0.9 else None for _ in range(rows)], kind)
            for column, ((kind, _), make) in fitting.items()
        }

    files = [
        random_table_file(rng, f"f{number}.orc", kinds, settings, write, old=old, more=more)
        for number in range(count)
    ]
    stored = {column: kind for column, (_, kind) in kinds.items()}
    columns = wanted_columns(rng, stored)
    columns = (*columns, *((column, rng.choice(OTHER_TYPES)) for column in fitting))
    stored |= {column: kind for column, ((_, kind), _) in fitting.items()}
    return columnar_case(rng, "orc", name, files, columns, stored)


def _written(table: pa.Table, settings: Mapping[str, Any]) -> bytes:
    sink = io.BytesIO()
    orc.write_table(table, sink, **settings)
    return sink.getvalue()
