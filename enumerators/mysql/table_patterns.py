"""Names of tables as MariaDB writes them. Pure."""

from __future__ import annotations

from flip27_source.enumerators.table_patterns import TableNames

_names = TableNames(
    quote="`",
    schema=None,
    folds=False,
    expected="names such as orders, shop.orders, shop.* or shop.`a.b` are expected, and -shop.log_* for "
    "tables to leave out",
)
table_patterns, quoted = _names.patterns, _names.quoted
