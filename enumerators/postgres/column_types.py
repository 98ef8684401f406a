"""The Arrow types of PostgreSQL types, and the SQL that gets the type of a column from the catalog.

Pure. Values are converted in `readers.postgres.values`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from flip27_source.schemas.new_columns import MOST_DIGITS

COLUMN_TYPE_JOIN = """
CROSS JOIN LATERAL (
  WITH RECURSIVE step (oid, modifier, is_array, delimiter, depth) AS (
    SELECT a.atttypid, a.atttypmod, false, ','::pg_catalog."char", 0
    UNION ALL
    SELECT CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.typelem END,
           CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE s.modifier END,
           s.is_array OR t.typtype <> 'd',
           CASE t.typtype WHEN 'd' THEN s.delimiter ELSE t.typdelim END,
           s.depth + 1
    FROM step s
    JOIN pg_catalog.pg_type t ON t.oid = s.oid
    LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
    WHERE t.typtype = 'd' OR (e.oid IS NOT NULL AND NOT s.is_array)
  )
  SELECT n.nspname AS type_schema, t.typname AS type_name, s.is_array, s.modifier, s.delimiter
  FROM step s
  JOIN pg_catalog.pg_type t ON t.oid = s.oid
  JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
  ORDER BY s.depth DESC
  LIMIT 1
) AS column_type
"""
"""Joins to each row of ``a``, which has ``atttypid`` and ``atttypmod``, the type that its values have: the
base type of a domain, and the element type of an array. For PostgreSQL 13 and later.

``a`` is ``pg_catalog.pg_attribute``, or oids from elsewhere: ``unnest(%s::oid[], %s::int4[]) AS a
(atttypid, atttypmod)``. A type that does not exist (that of a dropped column is 0) gives no row.
"""

COLUMN_TYPE_FIELDS = (
    "column_type.type_schema, column_type.type_name, column_type.is_array, column_type.modifier, "
    "column_type.delimiter"
)
"""What to select after ``COLUMN_TYPE_JOIN``: the arguments of ``pg_type_of``, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PgType:
    """A type without domains around it.

    Attributes:
        name: the name in ``pg_catalog``, such as ``int4`` or ``timestamptz``; with the schema in front if the
            type is in another schema, such as ``public.mood``. For an array the name of the element's type.
        modifier: ``atttypmod``: for ``numeric`` its precision and scale; -1 if there is none.
        delimiter: the character between the elements of an array.
    """

    name: str
    is_array: bool = False
    modifier: int = -1
    delimiter: str = ","

    def __str__(self) -> str:
        digits = numeric_digits(self.modifier) if self.name == "numeric" else None
        name = self.name if digits is None else f"numeric({digits[0]},{digits[1]})"
        return f"{name}[]" if self.is_array else name


def pg_type_of(schema: str, name: str, is_array: bool, modifier: int, delimiter: str | bytes) -> PgType:
    """The type in a row of ``COLUMN_TYPE_FIELDS``."""
    return PgType(
        name=name if schema == "pg_catalog" else f"{schema}.{name}",
        is_array=is_array,
        modifier=modifier,
        # Drivers give the type "char" as bytes or as text.
        delimiter=delimiter.decode() if isinstance(delimiter, bytes) else delimiter,
    )


def arrow_type(type: PgType) -> pa.DataType:
    """The type of a column unless the user's schema sets another; string if Arrow has no equivalent type."""
    value = _value_type(type)
    return pa.list_(value) if type.is_array else value


def numeric_digits(modifier: int) -> tuple[int, int] | None:
    """Precision and scale of a ``numeric``; None if it has none."""
    if modifier < 4:
        return None
    packed = modifier - 4
    # Since PostgreSQL 15 the scale is eleven bits with a sign; older scales, up to 1000, have the same bits.
    return packed >> 16 & 0xFFFF, (packed & 0x7FF ^ 0x400) - 0x400


def _value_type(type: PgType) -> pa.DataType:
    if type.name == "numeric":
        digits = numeric_digits(type.modifier)
        if digits is None or digits[0] > MOST_DIGITS or not 0 <= digits[1] <= digits[0]:
            return pa.string()
        return pa.decimal128(*digits)
    return _ARROW_TYPES.get(type.name, pa.string())


_ARROW_TYPES = {
    "bool": pa.bool_(),
    "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "oid": pa.int64(),
    "float4": pa.float32(), "float8": pa.float64(),
    "bytea": pa.binary(),
    "date": pa.date32(), "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
}  # fmt: skip
