"""Random files of Parquet, as pyarrow, DuckDB, arrow-rs and Spark write them."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa

from .case import Case
from .line_cases import files_of_a_case
from .tables import PLAIN, RARE, Flat, columnar_case, random_kinds, random_table_file, wanted_columns
from .writers import (
    BY_ARROW_RS,
    BY_DUCKDB,
    BY_PYARROW,
    PARQUET_BY_SPARK,
    VARIANT,
    VARIANTS,
    by_arrow_rs,
    by_duckdb,
    by_pyarrow,
    by_spark,
)

_ONLY_PARQUET: tuple[Flat, ...] = (
    (pa.timestamp("ns", "UTC"), "timestamp"), (pa.timestamp("ns"), "timestamp_ntz"), (pa.null(), "int"),
    (pa.decimal128(9, 0), "decimal(9,0)"), (pa.time64("us"), "bigint"), (pa.float16(), "float"),
)  # fmt: skip


def parquet_case(rng: random.Random, name: str) -> Case:
    """Make a random case."""
    flat = [*PLAIN, *PLAIN, *RARE, *(_ONLY_PARQUET if rng.random() < 0.2 else ())]
    count, write, settings = files_of_a_case(rng), by_pyarrow, BY_PYARROW
    match rng.choice(("pyarrow", "pyarrow", "pyarrow", "pyarrow", "DuckDB", "arrow-rs", "arrow-rs", "Spark")):
        case "DuckDB":
            flat = [*PLAIN, *RARE[:-1]]
            write, settings = by_duckdb, BY_DUCKDB
        case "arrow-rs":
            flat = [*PLAIN, *RARE]
            write, settings = by_arrow_rs, BY_ARROW_RS
        case "Spark":
            flat, count = list(PLAIN), rng.randint(1, 4)
            write, settings = by_spark("parquet"), PARQUET_BY_SPARK
    kinds = random_kinds(rng, flat, 2)
    old = rng.random() < 0.05
    has_variants = settings is PARQUET_BY_SPARK and rng.random() < 0.5

    def more(rows: int) -> dict[str, pa.Array]:
        texts = [rng.choice((None, *VARIANTS)) for _ in range(rows)]
        return {VARIANT: pa.array(texts, pa.string())} if has_variants else {}

    files = [
        random_table_file(
            rng,
            f"f{number}.parquet",
            kinds,
            settings,
            write,
            old=old,
            most_settings=(0, 1, 2, 3, 5),
            more=more,
        )
        for number in range(count)
    ]
    columns = wanted_columns(rng, {column: kind for column, (_, kind) in kinds.items()})
    columns = (*columns, (VARIANT, "struct<value:binary,metadata:binary>")) if has_variants else columns
    stored = {column: "none" if _is_none_of_spark(held) else kind for column, (held, kind) in kinds.items()}
    case = columnar_case(rng, "parquet", name, files, columns, stored)
    if not has_variants:
        return case
    # PySpark cannot return null variants as Arrow data, so both sides read their bytes.
    as_structs = {"spark.sql.parquet.ignoreVariantAnnotation": "true"}
    return replace(case, columns=columns, options={}, own_options={}, settings_of_spark=as_structs)


def _is_none_of_spark(kind: pa.DataType) -> bool:
    """Whether Spark has no type that corresponds to the type of a column."""
    return kind in [held for held, _ in _ONLY_PARQUET if not pa.types.is_decimal(held)] or any(
        _is_none_of_spark(kind.field(number).type) for number in range(kind.num_fields)
    )
