"""The publication of a query: what it has and lacks, and changes that the log lacks because of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flip27_source.enumerators.postgres.catalog import CatalogTable
from flip27_source.enumerators.postgres.connection import said
from flip27_source.enumerators.postgres.split import TableName
from flip27_source.enumerators.postgres.table_patterns import quoted
from flip27_source.errors import DiscoveryError
from flip27_source.log import LOG

if TYPE_CHECKING:
    from flip27_source.enumerators.postgres.connection import Connection


_NOT_IN_PREREQUISITE_STATE = "55000"

_PUBLICATION = """
SELECT pubviaroot, pubowner::regrole::text, pg_has_role(pubowner, 'USAGE'),
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
          AND NOT coalesce(to_jsonb(t) -> 'attnames' ? a.attname::text, true)),
       current_setting('server_version_num')::int >= 180000 AND EXISTS (SELECT
        FROM pg_attribute a
        JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relname = t.tablename AND n.nspname = t.schemaname AND a.attgenerated <> ''
          AND to_jsonb(t) -> 'attnames' ? a.attname::text)
FROM pg_publication_tables t WHERE t.pubname = %s
"""
_NOT_PUBLISHED = "none"
_TRUNCATED = "truncated"
_IDENTITY = "identity"
_ALTERED = "*"

# ALTER PUBLICATION ... SET writes the publication's row again, and adding a table or a schema writes an entry
# with another oid. SET SCHEMA writes the dependency of the table on its schema again.
# The server refuses SET UNLOGGED only for tables with an entry of their own. It gives a table another TOAST
# table, which TRUNCATE and VACUUM FULL do not. A table without one gets another file; after TRUNCATE, which
# numbers an index right after the table, this is no loss. An ALTER TABLE that writes the rows again for other
# columns is no loss either: the columns are in the name of the mark.
# Another replica identity writes the rows of a partition and of an index again. Building an index without a
# lock (CONCURRENTLY) writes only the index's row, and GRANT only the partition's. If two transactions have
# written the rows of an index in pg_index and pg_class, the index has been altered since it was created.
_MARKS = f"""
WITH p AS (SELECT oid, xmin, puballtables FROM pg_publication WHERE pubname = %(name)s),
t AS (SELECT oid, relnamespace, relkind FROM pg_class WHERE oid = ANY(%(tables)s::bigint[]::oid[])),
m(name, mark) AS (
    SELECT 'publication', p.xmin::text FROM p
    UNION ALL
    SELECT t.oid::text, coalesce(
        (SELECT 'entry ' || r.oid FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = t.oid),
        CASE WHEN p.puballtables THEN 'all' END,
        {{schema}},
        '{_NOT_PUBLISHED}')
    FROM p, t
    UNION ALL
    SELECT concat_ws(' ', t.oid, 'storage', c.oid, (
            SELECT left(md5(string_agg(concat_ws(' ', attnum, atttypid, atttypmod), ',' ORDER BY attnum)), 8)
            FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0)),
        CASE WHEN c.reltoastrelid <> 0 THEN concat_ws(' ', 'toast', c.reltoastrelid)
             ELSE concat_ws(' ', 'file', c.relfilenode, (
                SELECT '{_TRUNCATED}' FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
                WHERE i.indrelid = c.oid AND x.relfilenode::bigint = c.relfilenode::bigint + 1)) END
    FROM p, t, LATERAL (
        SELECT t.oid WHERE t.relkind = 'r'
        UNION ALL
        SELECT relid FROM pg_partition_tree(t.oid) WHERE t.relkind = 'p' AND isleaf) l(oid)
    JOIN pg_class c USING (oid)
    WHERE NOT EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid)
    UNION ALL
    SELECT concat_ws(' ', t.oid, '{_IDENTITY}', c.oid), concat_ws(' ', c.xmin, (
        SELECT string_agg(concat(i.indexrelid, ':', i.xmin,
            CASE WHEN i.xmin::text <> x.xmin::text THEN '{_ALTERED}' END), ' ' ORDER BY x.oid)
        FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
        WHERE i.indrelid = c.oid AND i.indisunique AND NOT i.indisprimary))
    FROM p, t, pg_partition_tree(t.oid) l JOIN pg_class c ON c.oid = l.relid
    WHERE t.relkind = 'p' AND l.isleaf)
SELECT p.oid::bigint, (SELECT jsonb_object_agg(name, mark) FROM m) FROM p
"""
_SCHEMA_MARK = """(
    SELECT concat_ws(' ', 'schema', s.oid, d.xmin)
    FROM pg_publication_namespace s JOIN pg_depend d ON d.refobjid = s.pnnspid
    WHERE s.pnpubid = p.oid AND s.pnnspid = t.relnamespace AND d.refclassid = 'pg_namespace'::regclass
      AND d.classid = 'pg_class'::regclass AND d.objid = t.oid AND d.objsubid = 0)"""
_SCHEMAS_VERSION = 15_00_00


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationMarks:
    """What a publication was: an alteration changes the marks, even if another one takes it back.

    Attributes:
        entries: only in a state of an older release: the oids of tables, each with the oid of its entry.
        marks: of the publication itself, of the query's tables by their oids, of the storage of those without
            an entry of their own, and of partitions with their unique indexes. A mark that is not known yet
            cannot have changed.
    """

    oid: int
    entries: tuple[tuple[int, int], ...] = ()
    marks: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A publication.

    Attributes:
        tables: schema and name of its tables.
        is_via_root: whether the log names partitioned tables instead of their partitions.
        is_owned: whether the connection's role is the owner, or a member of it.
        unpublished: kinds of changes that it does not publish.
        filtered, cut: the tables of which it lacks rows, or columns.
        generated: the tables of which it has generated columns, which the snapshot leaves out.
    """

    name: str
    tables: frozenset[tuple[str, str]]
    is_via_root: bool
    owner: str
    is_owned: bool
    unpublished: tuple[str, ...]
    filtered: frozenset[tuple[str, str]]
    cut: frozenset[tuple[str, str]]
    generated: frozenset[tuple[str, str]]

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
    is_via_root, owner, is_owned, unpublished = row
    tables = connection.execute(_TABLES, [name]).fetchall()
    return Publication(
        name=name,
        tables=frozenset((row[0], row[1]) for row in tables),
        is_via_root=is_via_root,
        owner=owner,
        is_owned=is_owned,
        unpublished=tuple(unpublished),
        filtered=frozenset((row[0], row[1]) for row in tables if row[2]),
        cut=frozenset((row[0], row[1]) for row in tables if row[3]),
        generated=frozenset((row[0], row[1]) for row in tables if row[4]),
    )


def scope_faults(
    publication: Publication, tables: Sequence[CatalogTable], *, is_first: bool = True
) -> Iterator[ScopeFault]:
    """What an existing publication leaves out of the log of these tables, or adds to it.

    Args:
        is_first: whether the query has no state yet.
    """
    name = quoted(publication.name)
    partitioned = [str(table.table) for table in tables if table.is_partitioned]
    if partitioned and not publication.is_via_root:
        yield ScopeFault(
            what=f"has publish_via_partition_root off, and {', '.join(partitioned)} is partitioned: the log "
            "names its partitions",
            remedy=f"ALTER PUBLICATION {name} SET (publish_via_partition_root = true);",
            is_fatal=True,
        )
    names = [table.table for table in tables]
    made = [str(table) for table in names if (table.schema, table.name) in publication.generated]
    if made:
        yield ScopeFault(
            what=f"has generated columns of {', '.join(made)}, which the rows of the snapshot do not have",
            remedy=f"ALTER PUBLICATION {name} SET (publish_generated_columns = none); and leave them out of "
            "its column lists",
            is_fatal=is_first,
        )
    if publication.unpublished:
        kinds = ", ".join(publication.unpublished)
        yield ScopeFault(
            what=f"leaves out every {kinds}: what is read differs from the tables",
            remedy=f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate');",
        )
    for part, cut in (("rows", publication.filtered), ("columns", publication.cut)):
        for table in names:
            if (table.schema, table.name) in cut:
                sql = _listed([table])
                yield ScopeFault(
                    what=f"has only some {part} of {table}; the snapshot has all",
                    remedy=f"ALTER PUBLICATION {name} DROP TABLE {sql}; "
                    f"ALTER PUBLICATION {name} ADD TABLE {sql};",
                )


def check_scope(connection: Connection, name: str, tables: Sequence[CatalogTable], *, is_first: bool) -> None:
    """Warn of what the publication leaves out; a publication that does not exist leaves out nothing."""
    publication = find_publication(connection, name)
    for fault in () if publication is None else scope_faults(publication, tables, is_first=is_first):
        if fault.is_fatal:
            raise DiscoveryError(f"publication {name} {fault.what}", remedy=fault.remedy)
        LOG.warning("publication %s %s", name, fault.what)


def publication_sql(name: str, tables: Sequence[TableName]) -> str:
    """The statement that creates the publication."""
    options = "publish_via_partition_root = true"
    return f"CREATE PUBLICATION {quoted(name)} FOR TABLE {_listed(tables)} WITH ({options})"


def addition_sql(name: str, tables: Sequence[TableName]) -> str:
    """The statement that adds tables to the publication."""
    return f"ALTER PUBLICATION {quoted(name)} ADD TABLE {_listed(tables)}"


def publication_marks(
    connection: Connection, name: str, tables: Iterable[TableName]
) -> PublicationMarks | None:
    """The marks of the publication and of these tables; None if it does not exist."""
    has_schemas = connection.info.server_version >= _SCHEMAS_VERSION
    row = connection.execute(
        _MARKS.format(schema=_SCHEMA_MARK if has_schemas else "NULL"),
        {"name": name, "tables": list({table.oid for table in tables})},
    ).fetchone()
    return None if row is None else PublicationMarks(oid=row[0], marks=row[1])


def ensure_publication(connection: Connection, name: str, tables: Sequence[TableName]) -> list[TableName]:
    """Create the publication, or add the tables that it lacks, and return those that it did not have."""
    from psycopg import errors

    publication = find_publication(connection, name)
    lacking = list(tables) if publication is None else publication.lacks(tables)
    if publication is None:
        sql, refused = publication_sql(name, tables), f"the role may not create the publication {name}"
    else:
        if not lacking:
            return []
        sql = addition_sql(name, lacking)
        refused = f"the role may not add {', '.join(map(str, lacking))} to the publication {name}"
    try:
        connection.execute(sql)
    except errors.InsufficientPrivilege as error:
        raise DiscoveryError(
            f"{refused}: {said(error)}", remedy=f"have the owner of the tables run: {sql};"
        ) from None
    except (
        errors.ObjectNotInPrerequisiteState,
        errors.InvalidParameterValue,
        errors.UndefinedTable,
    ) as error:
        raise DiscoveryError(
            f"the publication {name} cannot have {', '.join(map(str, lacking))}: {said(error)}",
            remedy="start the query again: a table was dropped or set UNLOGGED while tables were listed; set "
            "it LOGGED, or leave it out of the option tables",
        ) from None
    LOG.info("publication of the postgres source: %s", sql)
    return lacking


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


def alterations(
    before: PublicationMarks, now: PublicationMarks | None, tables: Iterable[TableName], *, publication: str
) -> Iterator[str]:
    """What was done to the publication since ``before``, if the log may lack changes because of it.

    Args:
        now: None if the publication does not exist: it may have been altered before it was dropped.
    """
    if now is None or before.oid != now.oid:
        yield (
            f"publication {publication} was dropped{'' if now is None else ' and created again'}; the log "
            "may lack changes, because the publication may have left out tables, rows or columns"
        )
        return
    known = before.marks or {str(oid): f"entry {entry}" for oid, entry in before.entries}
    names = {str(table.oid): table for table in tables}
    reported: set[TableName | None] = set()
    for name, mark in now.marks.items():
        number, _, storage = name.partition(" ")
        last = known.get(name, "" if mark == _NOT_PUBLISHED else mark)
        table = names.get(number)
        if last == mark or table in reported:
            continue
        if table is None:
            loss = (
                f"publication {publication} was altered; the log may lack earlier changes, because the "
                "publication may have left out kinds of changes or named partitions instead of their tables"
            )
        elif storage.startswith(_IDENTITY):
            if not _has_other_identity(last, mark):
                continue
            loss = (
                f"the replica identity of a partition of {table} was altered (USING INDEX, or CLUSTER by it) "
                "for a while; the log may lack the former keys of rows that were changed"
            )
        elif storage:
            if mark.split()[:2] == last.split()[:2] or mark.endswith(_TRUNCATED):
                continue
            loss = (
                f"table {table} was written again (SET UNLOGGED and SET LOGGED, VACUUM FULL, CLUSTER or an "
                "ALTER TABLE); the log lacks changes from while it was unlogged. A publication FOR TABLE "
                "makes the server refuse SET UNLOGGED, except for partitions"
            )
        elif mark == _NOT_PUBLISHED:
            loss = (
                f"table {table} was removed from publication {publication}; the log does not have its "
                "changes since then"
            )
        else:
            loss = (
                f"table {table} was removed from publication {publication} and added again, or its schema, "
                "or its column list or row filter there was changed; the log may lack earlier changes"
            )
        reported.add(table)
        yield loss


def _has_other_identity(before: str, now: str) -> bool:
    """Whether an index may have identified the rows of a partition between two marks of it."""
    (row_before, *indexes_before), (row_now, *indexes_now) = before.split(), now.split()
    known = {index.rstrip(_ALTERED) for index in indexes_before}
    are_gone = known - {index.rstrip(_ALTERED) for index in indexes_now}
    are_new = {index.rstrip(_ALTERED) for index in indexes_now if index.endswith(_ALTERED)} - known
    return row_before != row_now and bool(are_gone or are_new)


def recreated(known: Sequence[TableName], listed: Sequence[TableName]) -> Iterator[str]:
    """The tables that now have the name of another one that was read before."""
    oids = {table.oid for table in known}
    names = {(table.schema, table.name): table.oid for table in known}
    for table in listed:
        former = names.get((table.schema, table.name))
        if table.oid not in oids and former is not None:
            yield (
                f"table {table} was dropped and recreated, or another table has its name now (oid "
                f"{former} before, {table.oid} now); the log has no deletes for the rows of the former table"
            )


def _listed(tables: Sequence[TableName]) -> str:
    """The tables without those that inherit from them: a published table without a key accepts no update."""
    return ", ".join(f"ONLY {quoted(table.schema, table.name)}" for table in tables)
