"""The former name of `column_types`, which was a name of Python's own; removed once nothing imports it."""

from flip27_source.enumerators.postgres.column_types import (
    COLUMN_TYPE_FIELDS,
    COLUMN_TYPE_JOIN,
    PgType,
    arrow_type,
    pg_type_of,
)

__all__ = ["COLUMN_TYPE_FIELDS", "COLUMN_TYPE_JOIN", "PgType", "arrow_type", "pg_type_of"]
