"""The publication of a query: what it has and lacks, and changes that the log lacks because of it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flip27_source.enumerators.postgres.catalog import CatalogTable
from flip27_source.enumerators.postgres.split import TableName
from flip27_source.enumerators.postgres.table_patterns import quoted
from flip27_source.errors import DiscoveryError

if TYPE_CHECKING:
    from flip27_source.enumerators.postgres.connection import Connection

_log = logging.getLogger(__name__)

_NOT_IN_PREREQUISITE_STATE = "55000"

_PUBLICATION = """
SELECT oid::bigint, pubviaroot, pubowner::regrole::text, pg_has_role(pubowner, 'USAGE'),
       array_remove(ARRAY[
           CASE WHEN NOT pubinsert THEN 'insert' END, CASE WHEN NOT pubupdate THEN 'update' END,
           CASE WHEN NOT pubdelete THEN 'delete' END, CASE WHEN NOT pubtruncate THEN 'truncate' END], NULL)
FROM pg_publication WHERE pubname = %s
"""
# Row filters and column lists are new in PostgreSQL 15.
_TABLES = """
SELECT t.schemaname, t.tablename, to_jsonb(t) ->> 'rowfilter' IS NOT NULL,
       EXISTS (SELECT
        FROM pg_attribute a
        JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relname = t.tablename AND n.nspname = t.schemaname
          AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
          AND NOT coalesce(to_jsonb(t) -> 'attnames' ? a.attname::text, true))
FROM pg_publication_tables t WHERE t.pubname = %s
"""
_ENTRIES = """
SELECT prrelid::bigint, oid::bigint FROM pg_publication_rel WHERE prpubid = %s::bigint::oid ORDER BY prrelid
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationEntries:
    """The tables of a publication, by numbers that change when the publication or an entry is recreated.

    Attributes:
        entries: the oids of its tables, each with the oid of the table's entry. Publications of whole
            schemas, and of all tables, have no entries.
    """

    oid: int
    entries: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A publication.

    Attributes:
        tables: schema and name of its tables.
        is_via_root: whether the log names partitioned tables instead of their partitions.
        is_owned: whether the connection's role is the owner, or a member of it.
        unpublished: kinds of changes that it does not publish.
        filtered, cut: the tables of which it lacks rows, or columns.
    """

    name: str
    entries: PublicationEntries
    tables: frozenset[tuple[str, str]]
    is_via_root: bool
    owner: str
    is_owned: bool
    unpublished: tuple[str, ...]
    filtered: frozenset[tuple[str, str]]
    cut: frozenset[tuple[str, str]]

    def lacks(self, tables: Sequence[TableName]) -> list[TableName]:
        """Those of the tables that it does not have."""
        return [table for table in tables if (table.schema, table.name) not in self.tables]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeFault:
    """What a publication leaves out of the log.

    Attributes:
        is_fatal: whether the log cannot be read with the publication.
    """

    what: str
    remedy: str
    is_fatal: bool = False


def find_publication(connection: Connection, name: str) -> Publication | None:
    row = connection.execute(_PUBLICATION, [name]).fetchone()
    if row is None:
        return None
    oid, is_via_root, owner, is_owned, unpublished = row
    tables = connection.execute(_TABLES, [name]).fetchall()
    return Publication(
        name=name,
        entries=PublicationEntries(oid=oid, entries=tuple(connection.execute(_ENTRIES, [oid]).fetchall())),
        tables=frozenset((schema, table) for schema, table, _, _ in tables),
        is_via_root=is_via_root,
        owner=owner,
        is_owned=is_owned,
        unpublished=tuple(unpublished),
        filtered=frozenset((schema, table) for schema, table, is_filtered, _ in tables if is_filtered),
        cut=frozenset((schema, table) for schema, table, _, is_cut in tables if is_cut),
    )


def scope_faults(publication: Publication, tables: Sequence[CatalogTable]) -> Iterator[ScopeFault]:
    """What an existing publication leaves out of the log of these tables."""
    name = quoted(publication.name)
    partitioned = [str(table.table) for table in tables if table.is_partitioned]
    if partitioned and not publication.is_via_root:
        yield ScopeFault(
            what=f"has publish_via_partition_root off, and {', '.join(partitioned)} is partitioned: the log "
            "names its partitions",
            remedy=f"ALTER PUBLICATION {name} SET (publish_via_partition_root = true);",
            is_fatal=True,
        )
    if publication.unpublished:
        kinds = ", ".join(publication.unpublished)
        yield ScopeFault(
            what=f"leaves out every {kinds}: what is read differs from the tables",
            remedy=f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate');",
        )
    for part, cut in (("rows", publication.filtered), ("columns", publication.cut)):
        for table in (table.table for table in tables):
            if (table.schema, table.name) in cut:
                sql = quoted(table.schema, table.name)
                yield ScopeFault(
                    what=f"has only some {part} of {table}; the snapshot has all",
                    remedy=f"ALTER PUBLICATION {name} DROP TABLE {sql}; "
                    f"ALTER PUBLICATION {name} ADD TABLE {sql};",
                )


def check_scope(connection: Connection, name: str, tables: Sequence[CatalogTable]) -> None:
    """Warn of what the publication leaves out; a publication that does not exist leaves out nothing."""
    publication = find_publication(connection, name)
    for fault in () if publication is None else scope_faults(publication, tables):
        if fault.is_fatal:
            raise DiscoveryError(f"publication {name} {fault.what}", remedy=fault.remedy)
        _log.warning("publication %s %s", name, fault.what)


def publication_sql(name: str, tables: Sequence[TableName]) -> str:
    """The statement that creates the publication."""
    options = "publish_via_partition_root = true"
    return f"CREATE PUBLICATION {quoted(name)} FOR TABLE {_listed(tables)} WITH ({options})"


def publication_entries(connection: Connection, name: str) -> PublicationEntries | None:
    publication = find_publication(connection, name)
    return None if publication is None else publication.entries


def ensure_publication(connection: Connection, name: str, tables: Sequence[TableName]) -> None:
    """Create the publication, or add the tables that it lacks."""
    import psycopg

    publication = find_publication(connection, name)
    if publication is None:
        sql, refused = publication_sql(name, tables), f"the role may not create the publication {name}"
    else:
        lacking = publication.lacks(tables)
        if not lacking:
            return
        sql = f"ALTER PUBLICATION {quoted(name)} ADD TABLE {_listed(lacking)}"
        refused = f"the role may not add {_listed(lacking)} to the publication {name}"
    try:
        connection.execute(sql)
    except psycopg.errors.InsufficientPrivilege as error:
        raise DiscoveryError(
            f"{refused}: {error.diag.message_primary}", remedy=f"have the owner of the tables run: {sql};"
        ) from None
    _log.info("publication of the postgres source: %s", sql)


@contextmanager
def publication_gaps(connection: Connection) -> Iterator[list[str]]:
    """The server's warnings about missing publications, in a list that grows while the connection is used.

    Since PostgreSQL 18 a peek only warns that the publication was missing when changes were made, and leaves
    these changes out; in older versions the peek fails. The session must not hide warnings
    (``client_min_messages``).
    """
    warnings: list[str] = []

    def notice(diagnostic: Any) -> None:
        if diagnostic.sqlstate == _NOT_IN_PREREQUISITE_STATE:
            warnings.append(str(diagnostic.message_primary))

    connection.add_notice_handler(notice)
    try:
        yield warnings
    finally:
        connection.remove_notice_handler(notice)


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
) -> Iterator[str]:
    """The changes that the log does not have, as the server's tables show.

    Args:
        known: the tables that were read before.
        published: schema and name of the tables in the publication.
        moved: the oids of the tables that were removed from the publication and added again.
    """
    known_oids = {table.oid for table in known}
    known_names = {(table.schema, table.name): table.oid for table in known}
    for table in listed:
        name = (table.schema, table.name)
        if table.oid in known_oids:
            if name not in published:
                yield (
                    f"table {table} was removed from publication {publication}; the log does not have its "
                    "changes since then"
                )
            elif table.oid in moved:
                yield (
                    f"table {table} was removed from publication {publication} and added again, or its "
                    "column list or row filter there was changed; the log may lack earlier changes"
                )
        elif name in known_names:
            yield (
                f"table {table} was dropped and recreated, or another table has its name now (oid "
                f"{known_names[name]} before, {table.oid} now); the log has no deletes for the rows of the "
                "former table"
            )


def _listed(tables: Sequence[TableName]) -> str:
    return ", ".join(quoted(table.schema, table.name) for table in tables)
