"""Which bounds of which tables a poll of the server finds.

What must not live here: the SQL, which is in :mod:`.chunks`, and the bounds found so far, which the assigner
has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from flip27_source.enumerators.postgres.assigner import Cut, Key
from flip27_source.enumerators.postgres.catalog import table_of
from flip27_source.enumerators.postgres.chunks import CTID, block_bounds, next_bound
from flip27_source.enumerators.postgres.split import KeyColumn, TableName

if TYPE_CHECKING:
    from flip27_source.enumerators.postgres.connection import Connection


Uncut = tuple[TableName, tuple[KeyColumn, ...], Key | None]
"""A table of which bounds are missing, its key, and its last bound."""


def cuts(
    connection: Connection,
    tables: Iterable[Uncut],
    *,
    rows: int,
    filter_sql: str | None,
    has_time: Callable[[], bool],
) -> Iterator[Cut]:
    """The next bounds of the tables, as long as there is time; each chunk has ``rows`` rows.

    A table for which no time is left has no cut: whether bounds follow is not known.
    """
    for table, key, lower in tables:
        if key == (CTID,):
            places = tuple((bound, rows) for bound in block_bounds(connection, table, rows=rows))
            yield Cut(oid=table.oid, lower=lower, bounds=places, is_end=True)
            continue
        bounds: list[tuple[Key, int]] = []
        bound = lower
        present = table_of(connection, table.oid)
        is_end = present is None
        while present is not None and not is_end and has_time():
            bound = next_bound(connection, present, key, bound, rows=rows, filter_sql=filter_sql)
            if bound is None:
                is_end = True
            else:
                bounds.append((bound, rows))
        if bounds or is_end:
            yield Cut(oid=table.oid, lower=lower, bounds=tuple(bounds), is_end=is_end)
