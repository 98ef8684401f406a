"""What the log cannot have of tables that were made anew, or were out of the publication. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from flip27_source.enumerators.postgres.split import TableName

_START_ANEW = "start with a new stateLocation, whose snapshot has the rows of today"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLoss:
    """Changes of a table that are not in the log."""

    what: str
    remedy: str = _START_ANEW


def table_losses(
    known: Sequence[TableName],
    listed: Sequence[TableName],
    published: Collection[tuple[str, str]],
    *,
    publication: str,
) -> Iterator[TableLoss]:
    """The losses that the server's tables show.

    Args:
        known: the tables that were read before.
        listed: the tables that are there now.
        published: schema and name of those in the publication.
    """
    known_oids = {table.oid for table in known}
    known_names = {(table.schema, table.name): table.oid for table in known}
    for table in listed:
        name = (table.schema, table.name)
        if table.oid in known_oids:
            if name not in published:
                yield TableLoss(
                    what=f"table {table} was taken out of publication {publication}; the log does not have "
                    "its changes since then"
                )
        elif name in known_names:
            yield TableLoss(
                what=f"table {table} was made anew (oid {known_names[name]} before, {table.oid} now); the "
                "log does not say that the rows of the former table are gone"
            )
