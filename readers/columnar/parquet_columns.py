"""The type conversions for Parquet files: those of Spark's own Parquet source. No I/O."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types

from flip27_source.readers.columnar.conversions import (
    WIDENING,
    Conversion,
    Conversions,
    bits_of_sign_and_value,
)

PARQUET_CONVERSIONS: Conversions = (
    *WIDENING,
    # A date is stored as a number of days.
    Conversion(
        stored=types.is_integer,
        becomes=lambda stored, wanted: bool(types.is_date32(wanted)) and bits_of_sign_and_value(stored) <= 32,
        cast=lambda column, wanted: column.cast(pa.int32()).cast(wanted),
    ),
    Conversion(
        stored=types.is_date32,
        becomes=lambda _, wanted: bool(types.is_signed_integer(wanted) or types.is_float64(wanted)),
        cast=lambda column, wanted: column.cast(pa.int32()).cast(wanted),
    ),
)
