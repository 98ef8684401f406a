"""Names of tables as PostgreSQL writes them. Pure."""

from __future__ import annotations

from flip27_source.enumerators.table_patterns import TableNames, TablePattern, matched

__all__ = [
    "TablePattern", "matched", "quoted", "quoted_with_parameters", "table_patterns", "with_parameters",
]  # fmt: skip

_names = TableNames(
    quote='"',
    schema="public",
    folds=True,
    expected='names such as public.orders, public.* or public."Orders" are expected, and -public.log_* for '
    "tables to leave out",
)
table_patterns, quoted = _names.patterns, _names.quoted


def quoted_with_parameters(*names: str) -> str:
    """A name for SQL with parameters, in which psycopg takes % for the start of a placeholder."""
    return with_parameters(quoted(*names))


def with_parameters(sql: str) -> str:
    """SQL without parameters, as a part of SQL with parameters."""
    return sql.replace("%", "%%")
