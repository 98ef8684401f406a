"""Changes that the log lacks because a table was recreated, or was outside the publication. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from flip27_source.enumerators.postgres.remedies import START_AGAIN
from flip27_source.enumerators.postgres.split import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLoss:
    """Changes of a table that are not in the log."""

    what: str
    remedy: str = START_AGAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationEntries:
    """The tables of a publication, by numbers that change when the publication or an entry is recreated.

    Attributes:
        oid: the oid of the publication.
        entries: the oids of its tables, each with the oid of the table's entry. Publications of whole
            schemas, and of all tables, have no entries.
    """

    oid: int
    entries: tuple[tuple[int, int], ...]


def put_back(before: PublicationEntries | None, now: PublicationEntries | None) -> frozenset[int]:
    """The tables that were removed from the publication and added again."""
    if before is None or now is None or before.oid != now.oid:
        return frozenset()  # another publication: reading the log shows what it lacks
    known = dict(before.entries)
    return frozenset(oid for oid, entry in now.entries if known.get(oid, entry) != entry)


def table_losses(
    known: Sequence[TableName],
    listed: Sequence[TableName],
    published: Collection[tuple[str, str]],
    moved: Collection[int] = (),
    *,
    publication: str,
) -> Iterator[TableLoss]:
    """The losses that the server's tables show.

    Args:
        known: the tables that were read before.
        listed: the tables that exist now.
        published: schema and name of the tables in the publication.
        moved: the oids of the tables that were removed from the publication and added again.
    """
    known_oids = {table.oid for table in known}
    known_names = {(table.schema, table.name): table.oid for table in known}
    for table in listed:
        name = (table.schema, table.name)
        if table.oid in known_oids:
            if name not in published:
                yield TableLoss(
                    what=f"table {table} was removed from publication {publication}; the log does not have "
                    "its changes since then"
                )
            elif table.oid in moved:
                yield TableLoss(
                    what=f"table {table} was removed from publication {publication} and added again, or its "
                    "column list or row filter there was changed; the log may lack earlier changes"
                )
        elif name in known_names:
            yield TableLoss(
                what=f"table {table} was dropped and recreated, or another table has its name now (oid "
                f"{known_names[name]} before, {table.oid} now); the log has no deletes for the rows of the "
                "former table"
            )
