"""Checks of the tables that a query reads: rights of the role, keys, and rows hidden from the role."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres.catalog import CatalogTable, find_tables
from flip27_source.enumerators.postgres.connection import Connection, bypass_row_security, checked
from flip27_source.enumerators.postgres.table_patterns import quoted
from flip27_source.errors import Flip27Error, some_of
from flip27_source.options import Options
from flip27_source.source_checks import Finding, failed, ok, skipped, warning

_NAMES_SHOWN = 5

_RIGHTS = """
SELECT c.oid::bigint, has_schema_privilege(n.oid, 'USAGE'), row_security_active(c.oid),
       pg_has_role(c.relowner, 'USAGE'), ARRAY(
           SELECT a.attname::text FROM pg_attribute a
           WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
             AND NOT has_column_privilege(c.oid, a.attnum, 'SELECT')
           ORDER BY a.attnum),
       has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY(%s::bigint[]::oid[])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTable:
    """A table, and what the role may do with it.

    Attributes:
        hides_rows: whether row-level security applies to the role.
        is_owned: whether the role owns it, or is a member of the role that does.
        hidden_columns: columns that the role may not select.
        may_select: whether it may select any column.
    """

    catalog: CatalogTable
    may_use_schema: bool
    hides_rows: bool
    is_owned: bool
    hidden_columns: tuple[str, ...]
    may_select: bool

    @property
    def sql(self) -> str:
        return quoted(self.catalog.table.schema, self.catalog.table.name)


def table_findings(
    connection: Connection, options: Options, role: str
) -> Generator[Finding, None, tuple[CheckedTable, ...]]:
    """Yield the findings about the tables, and return the tables; only faulty ones have separate findings."""
    patterns = options[opts.TABLES]
    if patterns is None:
        yield skipped("tables", "not given", "give them with --option tables=public.orders")
        return ()
    try:
        tables: tuple[CheckedTable, ...] = checked(
            options,
            "querying the tables",
            lambda: _with_rights(connection, find_tables(connection, patterns)),
        )
    except Flip27Error as error:
        yield failed("tables", error.what, error.remedy)
        return ()
    bad = 0
    for table in tables:
        faults = list(table_faults(table, role))
        bad += bool(faults)
        yield from faults
    if bad < len(tables):
        names = some_of([str(table.catalog.table) for table in tables], _NAMES_SHOWN)
        good = f"{len(tables) - bad} of {len(tables)}" if bad else str(len(tables))
        yield ok("tables", f"{good} can be read, with a key for their rows: {names}")
    return tables


def table_faults(table: CheckedTable, role: str) -> Iterator[Finding]:
    check, name, schema = f"table {table.catalog.table}", table.sql, quoted(table.catalog.table.schema)
    if not table.may_use_schema:
        yield failed(
            check,
            f"role {role} has no USAGE on schema {schema}",
            f"GRANT USAGE ON SCHEMA {schema} TO {quoted(role)};",
        )
    if table.hidden_columns:
        what = f"columns {', '.join(table.hidden_columns)}" if table.may_select else "it"
        yield failed(
            check, f"role {role} may not select {what}", f"GRANT SELECT ON {name} TO {quoted(role)};"
        )
    if table.hides_rows:
        yield failed(
            check,
            f"row-level security hides rows from role {role}: the snapshot would lack rows that the log has",
            bypass_row_security(quoted(role)),
        )
    yield from identity_faults(table.catalog, name)


def identity_faults(table: CatalogTable, name: str) -> Iterator[Finding]:
    """The faults of the columns that identify a row."""
    check = f"table {table.table}"
    identity = table.replica_identity
    if table.refused is not None:
        what, remedy = table.refused
        yield failed(check, f"it {what}", remedy)
    if identity == "n" or (identity == "d" and not table.identity):
        why = "its primary key is DEFERRABLE" if table.key else "it has no primary key"
        why = "REPLICA IDENTITY is NOTHING" if identity == "n" else why
        remedy = f"ALTER TABLE {name} REPLICA IDENTITY FULL; or ALTER TABLE {name} ADD PRIMARY KEY (...);"
        yield warning(
            check,
            f"{why}: the server refuses every UPDATE and DELETE of it once a publication has it",
            f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT;" if table.key and identity == "n" else remedy,
        )
    if not table.key:
        yield warning(
            check,
            "it has no primary key: the snapshot reads it as one chunk, in one task and one transaction",
            f"ALTER TABLE {name} ADD PRIMARY KEY (...); or ALTER TABLE {name} REPLICA IDENTITY USING INDEX "
            "...;",
        )


def _with_rights(connection: Connection, catalog: Sequence[CatalogTable]) -> tuple[CheckedTable, ...]:
    tables = {table.table.oid: table for table in catalog}
    rights = {
        oid: CheckedTable(
            catalog=tables[oid],
            may_use_schema=may_use_schema,
            hides_rows=hides_rows,
            is_owned=is_owned,
            hidden_columns=tuple(hidden_columns),
            may_select=may_select,
        )
        for oid, may_use_schema, hides_rows, is_owned, hidden_columns, may_select in connection.execute(
            _RIGHTS, [list(tables)]
        )
    }
    return tuple(rights[oid] for oid in tables if oid in rights)
