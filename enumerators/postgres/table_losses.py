"""What the log cannot have of tables that were made anew, or were out of the publication. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from flip27_source.enumerators.postgres.remedies import READ_ANEW
from flip27_source.enumerators.postgres.split import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLoss:
    """Changes of a table that are not in the log."""

    what: str
    remedy: str = READ_ANEW


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationEntries:
    """What a publication has, by numbers that are given out anew when it is put together anew.

    Attributes:
        oid: the number of the publication.
        entries: the numbers of its tables, each with that of the table's entry. Publications of whole
            schemas, and of all tables, have none.
    """

    oid: int
    entries: tuple[tuple[int, int], ...]


def put_back(before: PublicationEntries | None, now: PublicationEntries | None) -> frozenset[int]:
    """The tables that were taken out of the publication and put back."""
    if before is None or now is None or before.oid != now.oid:
        return frozenset()  # another publication: the log itself says what it lacks
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
        listed: the tables that are there now.
        published: schema and name of those in the publication.
        moved: the numbers of those that were taken out of it and put back.
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
            elif table.oid in moved:
                yield TableLoss(
                    what=f"table {table} was taken out of publication {publication} and put back, or its "
                    "columns or rows there were chosen anew; the log may lack changes from before"
                )
        elif name in known_names:
            yield TableLoss(
                what=f"table {table} was made anew (oid {known_names[name]} before, {table.oid} now); the "
                "log does not say that the rows of the former table are gone"
            )
