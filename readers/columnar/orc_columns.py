"""The type conversions for ORC files: those that Spark's ORC reader does without losing data.

Spark also rounds, truncates, and replaces values that do not fit by null. Such conversions are not
supported, and a value that does not fit is an error. No I/O.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flip27_source.readers.columnar.parquet_columns import WIDENING, Conversion, Conversions, checked_cast

_MOST_DIGITS = 38
_LONG_DIGITS = 19


def _is_number(_: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(types.is_signed_integer(wanted) or types.is_floating(wanted))


def _is_decimal(_: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(types.is_decimal(wanted))


def _is_string(_: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(types.is_string(wanted))


def _as_decimal(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    # Arrow casts a number only to a decimal that can hold every value of the number's type.
    digits = min(_LONG_DIGITS + wanted.scale, _MOST_DIGITS)
    return column.cast(pa.int64()).cast(pa.decimal128(digits, wanted.scale)).cast(wanted)


def _as_word(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return pc.if_else(column, pa.scalar("TRUE", wanted), pa.scalar("FALSE", wanted))


def _as_hexadecimal(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    values = column.to_pylist()
    return pa.array([None if value is None else value.hex(" ") for value in values], wanted)


def _is_binary(stored: pa.DataType) -> bool:
    return bool(
        types.is_binary(stored) or types.is_large_binary(stored) or types.is_fixed_size_binary(stored)
    )


ORC_CONVERSIONS: Conversions = (
    Conversion(
        stored=types.is_boolean,
        becomes=_is_number,
        cast=lambda column, wanted: checked_cast(column.cast(pa.int8()), wanted),
    ),
    Conversion(
        stored=types.is_boolean,
        becomes=_is_decimal,
        cast=lambda column, wanted: _as_decimal(column.cast(pa.int8()), wanted),
    ),
    Conversion(stored=types.is_boolean, becomes=_is_string, cast=_as_word),
    Conversion(stored=types.is_signed_integer, becomes=_is_number),
    Conversion(stored=types.is_signed_integer, becomes=_is_decimal, cast=_as_decimal),
    Conversion(stored=types.is_signed_integer, becomes=_is_string),
    Conversion(stored=_is_binary, becomes=_is_string, cast=_as_hexadecimal),
    *WIDENING,
)
