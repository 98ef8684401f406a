"""Names of tables as MariaDB writes them. Pure."""

from __future__ import annotations

from flip27_source.enumerators.table_patterns import TableNames

table_patterns = TableNames(
    quote="`",
    schema=None,
    folds=False,
    expected="names such as orders, shop.orders, shop.* or shop.`a.b` are expected, and -shop.log_* for "
    "tables to leave out",
).patterns


def quoted(*names: str) -> str:
    """A name, with its database in front if there is one, as SQL."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)
