"""Queries of PostgreSQL's catalog about tables: their names, keys, columns and replica identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flip27_source.enumerators.postgres.column_types import (
    COLUMN_TYPE_FIELDS,
    COLUMN_TYPE_JOIN,
    PgType,
    pg_type_of,
)
from flip27_source.enumerators.postgres.connection import START_AGAIN, Connection, row_of
from flip27_source.enumerators.postgres.split import KeyColumn, TableName
from flip27_source.enumerators.postgres.table_patterns import (
    TablePattern,
    matched,
    quoted_with_parameters,
    with_parameters,
)
from flip27_source.errors import DiscoveryError

# Without partitions: with publish_via_partition_root, they belong to their partitioned table.
# The columns that an index INCLUDEs are the last in indkey, and not part of its key. Its first index is 0.
_TABLES = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind = 'p', c.relreplident,
       coalesce((p.indkey::int2[])[0:p.indnkeyatts - 1], '{}'),
       coalesce((r.indkey::int2[])[0:r.indnkeyatts - 1], '{}'), coalesce(NOT p.indimmediate, false)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_index p ON p.indrelid = c.oid AND p.indisprimary
LEFT JOIN pg_index r ON r.indrelid = c.oid AND r.indisreplident
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%'
ORDER BY n.nspname, c.relname
"""
# The values of an enum, also of one in a domain or in an array.
_LABELS = """
WITH RECURSIVE step (oid) AS (
    SELECT {type}
    UNION SELECT unnest(ARRAY[t.typbasetype, t.typelem]) FROM step JOIN pg_type t USING (oid))
SELECT jsonb_object_agg(e.oid, e.enumlabel) FROM step JOIN pg_enum e ON e.enumtypid = step.oid
"""
# The type of a domain's values. A cast to the domain would refuse keys that its constraints do not check (NOT
# VALID).
_BASE = """(
WITH RECURSIVE step (oid, base) AS (
    SELECT oid, typbasetype FROM pg_type WHERE oid = {type}
    UNION SELECT t.oid, t.typbasetype FROM step JOIN pg_type t ON t.oid = step.base)
SELECT oid FROM step WHERE base = 0)"""
# The type is without a length or a scale, which a cast would cut the keys to: it may be widened at any time.
# With -1, character and bit have names that keep every character.
_KEY_COLUMNS = f"""
SELECT a.attname, a.attgenerated <> '', format_type({_BASE.format(type="a.atttypid")}, -1),
       CASE WHEN a.attcollation = 0 THEN NULL
       ELSE (SELECT quote_ident(n.nspname) || '.' || quote_ident(l.collname)
             FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace
             WHERE l.oid = a.attcollation) END,
       ({_LABELS.format(type="a.atttypid")}),
       CASE WHEN t.typnamespace <> 'pg_catalog'::regnamespace THEN t.oid::bigint END
FROM unnest(%s::int2[]) WITH ORDINALITY k(number, place)
JOIN pg_attribute a ON a.attrelid = %s::bigint::oid AND a.attnum = k.number
JOIN pg_type t ON t.oid = a.atttypid
ORDER BY k.place
"""
_TYPE_NAMES = f"""
SELECT t.oid::bigint, format_type({_BASE.format(type="t.oid")}, -1)
FROM pg_type t WHERE t.oid = ANY(%s::bigint[]::oid[])
"""
# Schemas that the search_path lacks become its last ones: every other name means what it meant.
_FIND_OPERATORS = """
WITH RECURSIVE step (oid) AS (
    SELECT unnest(%s::bigint[]::oid[])
    UNION SELECT unnest(ARRAY[t.typbasetype, t.typelem]) FROM step JOIN pg_type t USING (oid))
SELECT set_config('search_path', concat_ws(', ', nullif(current_setting('search_path'), ''),
                                           string_agg(DISTINCT quote_ident(n.nspname), ', ')), false)
FROM step
JOIN pg_opclass c ON c.opcintype = step.oid AND c.opcdefault
JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'btree'
JOIN pg_amop p ON p.amopfamily = c.opcfamily AND c.opcintype = ALL (ARRAY[p.amoplefttype, p.amoprighttype])
JOIN pg_operator o ON o.oid = p.amopopr
JOIN pg_namespace n ON n.oid = o.oprnamespace
WHERE n.nspname <> ALL (current_schemas(true)) AND has_schema_privilege(n.oid, 'USAGE')
HAVING count(*) > 0
"""
_NUMBERS = """
SELECT array_agg(attnum) FROM pg_attribute
WHERE attrelid = %s::bigint::oid AND attname = ANY(%s) AND NOT attisdropped
"""
# Why the log does not have a partition, and the columns by which it identifies old rows of the partition, if
# these are not whole rows.
_PARTITIONS = """
SELECT c.relname,
       CASE WHEN c.relkind = 'f' THEN 'a foreign table' WHEN c.relpersistence <> 'p' THEN 'UNLOGGED' END,
       (SELECT array_agg(a.attname::text) FROM unnest((i.indkey::int2[])[0:i.indnkeyatts - 1]) k(number)
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number)
FROM pg_partition_tree(%s::bigint::oid::regclass) l JOIN pg_class c ON c.oid = l.relid
LEFT JOIN pg_index i ON i.indrelid = c.oid
 AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END
WHERE l.isleaf ORDER BY c.relname
"""
# The log does not have generated columns, so the snapshot leaves them out too.
_COLUMNS = f"""
SELECT a.attname, {COLUMN_TYPE_FIELDS}
FROM pg_catalog.pg_attribute a {COLUMN_TYPE_JOIN}
WHERE a.attrelid = %s::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attnum
"""
_CURRENT_COLUMNS = f"""
SELECT attname, atttypid::bigint,
       format_type(t.oid, CASE WHEN t.oid = atttypid THEN atttypmod ELSE -1 END),
       CASE WHEN t.typtype = 'e' THEN t.oid::bigint END
FROM pg_attribute JOIN pg_type t ON t.oid = {_BASE.format(type="atttypid")}
WHERE attrelid = %s::bigint::oid AND attnum > 0 AND NOT attisdropped
"""
_TYPES = f"""
SELECT a.atttypid::bigint, a.atttypmod, {COLUMN_TYPE_FIELDS}
FROM unnest(%s::bigint[]::oid[], %s::int4[]) AS a (atttypid, atttypmod) {COLUMN_TYPE_JOIN}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogColumn:
    """A column that the log has."""

    name: str
    type: PgType


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentColumn:
    """A column that a table has now, which may differ from the column of the same name in the log.

    Attributes:
        type: SQL for the type, with its length; of a domain its base type.
        enum_oid: the number of the type if it is an enum, also in a domain.
    """

    type_oid: int
    type: str
    enum_oid: int | None

    def cast(self, text: str) -> str:
        """SQL with parameters for a text as a value of the column; null if its enum no longer has it."""
        if self.enum_oid is not None:
            values = f"SELECT enumlabel::text FROM pg_enum WHERE enumtypid = {self.enum_oid}::oid"
            text = f"({values} AND enumlabel = {text})"
        return f"CAST({text} AS {with_parameters(self.type)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """A table as the catalog has it.

    Attributes:
        key: the columns that identify a row in the log and in the table: those of the replica identity's
            index, otherwise those of the primary key. A table without them is read as one chunk.
        replica_identity: d (default), n (nothing), f (full) or i (index).
        identity: the names of the columns that an old row has in the log; empty with ``n``, with ``d`` if
            there is no primary key, and with ``f``, where an old row has all columns.
        refused: why changes of its rows cannot be followed, and what to do; None if they can.
    """

    table: TableName
    key: tuple[KeyColumn, ...]
    replica_identity: str
    identity: tuple[str, ...]
    is_partitioned: bool = False
    refused: tuple[str, str] | None = None


def find_tables(connection: Connection, patterns: Sequence[TablePattern]) -> list[CatalogTable]:
    """The tables that the patterns name, by schema and name."""
    tables = connection.execute(_TABLES).fetchall()
    rows = [row for row in tables if matched(patterns, row[1], row[2])]
    for pattern in patterns:
        if pattern.is_name and not any(pattern.matches(row[1], row[2]) for row in tables):
            raise DiscoveryError(
                f"option tables has {pattern.text}, and the database has no such table",
                remedy="correct the name (names with capitals are quoted; of a partition, name the "
                "partitioned table; the table may have been dropped or renamed; views, unlogged and "
                "temporary tables have no log), or grant the role USAGE on the schema",
            )
    if not rows:
        raise DiscoveryError(
            f"option tables has {', '.join(pattern.text for pattern in patterns)}, and the database has no "
            "such table",
            remedy="correct the pattern, or grant the role USAGE on the schema",
        )
    return [_catalog_table(connection, *row) for row in rows]


def is_wanted(
    listed: Sequence[CatalogTable], patterns: tuple[TablePattern, ...] | None
) -> Callable[[TableName], bool]:
    """Whether the option has a table, by the tables that it lists now.

    Also by name, because the log may still have changes of a dropped table.
    """
    oids = {table.table.oid for table in listed}
    return lambda table: table.oid in oids or matched(patterns or (), table.schema, table.name)


def find_table(connection: Connection, oid: int) -> CatalogTable | None:
    """The table with this oid; None if it was dropped."""
    rows = (row for row in connection.execute(_TABLES) if row[0] == oid)
    return next((_catalog_table(connection, *row) for row in rows), None)


def table_of(connection: Connection, oid: int) -> TableName | None:
    """The table with this oid under its current name; None if it was dropped."""
    row = connection.execute(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.oid = %s::bigint::oid",
        [oid],
    ).fetchone()
    return None if row is None else TableName(oid=oid, schema=row[0], name=row[1])


def own_rows(connection: Connection, table: TableName) -> str:
    """The table as SQL, without the rows of tables that inherit from it, which the log has under other names.

    A partitioned table includes the rows of its partitions.
    """
    row = connection.execute(
        "SELECT relkind = 'p' FROM pg_class WHERE oid = %s::bigint::oid", [table.oid]
    ).fetchone()
    named = quoted_with_parameters(table.schema, table.name)
    return named if row is not None and row[0] else f"ONLY {named}"


def columns_of(connection: Connection, oid: int) -> list[CatalogColumn]:
    """The columns of a table that the log has, in their order."""
    rows = connection.execute(_COLUMNS, [oid])
    return [CatalogColumn(name=row[0], type=pg_type_of(*row[1:])) for row in rows]


def present_columns(connection: Connection, oid: int, names: Sequence[str]) -> dict[str, KeyColumn]:
    """Those of these columns that the table has now, by name, to compare them with a key of before."""
    ((numbers,),) = connection.execute(_NUMBERS, [oid, list(names)]).fetchall()
    return {column.name: column for column, _ in _key_columns(connection, oid, numbers or ())}


def find_operators(connection: Connection, type_oids: Sequence[int]) -> None:
    """Let this session find the operators of these types, also those of an extension."""
    connection.execute(_FIND_OPERATORS, [list(type_oids)])


def present_key(connection: Connection, key: Sequence[KeyColumn]) -> tuple[KeyColumn, ...]:
    """The key with the present names of its types, which this session can compare from now on."""
    oids = [column.type_oid for column in key if column.type_oid is not None]
    if not oids:
        return tuple(key)
    find_operators(connection, oids)
    names: dict[int | None, str] = dict(connection.execute(_TYPE_NAMES, [oids]).fetchall())
    return tuple(replace(column, type=names.get(column.type_oid, column.type)) for column in key)


def renamed_label(connection: Connection, key: Sequence[KeyColumn]) -> str | None:
    """What became of a value of an enum in a key since the table was cut, if its text is now another.

    A text that is compared with the key would mean another value, or none.
    """
    for column in key:
        if column.labels:
            (found,) = row_of(connection, _LABELS.format(type="to_regtype(%s)::oid"), [column.type])
            for oid, label in column.labels.items():
                now = (found or {}).get(oid)
                if now != label:
                    became = "no longer exists" if now is None else f"is {now!r} now"
                    return (
                        f"the value {label!r} of the enum {column.type}, the type of its key's column "
                        f"{column.name}, {became}: it was altered before the snapshot was complete"
                    )
    return None


def current_columns(connection: Connection, oid: int) -> dict[str, CurrentColumn]:
    """The columns that the table has now, by name; empty if it was dropped."""
    rows = connection.execute(_CURRENT_COLUMNS, [oid])
    return {row[0]: CurrentColumn(type_oid=row[1], type=row[2], enum_oid=row[3]) for row in rows}


def types_of(connection: Connection, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], PgType]:
    """The types for these oids and modifiers, which are those of the log's relation messages."""
    oids, modifiers = [oid for oid, _ in pairs], [modifier for _, modifier in pairs]
    rows = connection.execute(_TYPES, [oids, modifiers])
    return {(row[0], row[1]): pg_type_of(*row[2:]) for row in rows}


def _catalog_table(
    connection: Connection,
    oid: int,
    schema: str,
    name: str,
    is_partitioned: bool,
    identity: str,
    primary: Sequence[int],
    replica: Sequence[int],
    is_deferrable: bool,
) -> CatalogTable:
    numbers = replica if identity == "i" else primary
    # The log does not identify rows by a deferrable primary key.
    identifies = identity == "i" or (identity == "d" and not is_deferrable)
    columns = _key_columns(connection, oid, numbers)
    key = tuple(column for column, _ in columns)
    names = tuple(column.name for column in key)
    generated = [column.name for column, is_generated in columns if is_generated]
    refused = None
    if is_deferrable and identity == "f":
        what = "has a DEFERRABLE primary key: in a transaction, the log has different rows with the same key"
        refused = (what, "make the key NOT DEFERRABLE, or set REPLICA IDENTITY USING INDEX of a unique index")
    elif generated:
        what = f"has a key with the generated column {generated[0]}, which the log does not have"
        refused = (what, "set REPLICA IDENTITY USING INDEX of a unique index without generated columns")
    elif is_partitioned:
        for partition, why_not, listed in connection.execute(_PARTITIONS, [oid]):
            if why_not is not None:
                what = f"has the partition {partition}, which is {why_not}: the log does not have its changes"
                refused = (what, f"set {partition} LOGGED or detach it, and {START_AGAIN}")
            elif names and listed is not None and set(listed) != set(names):
                what = (
                    f"has the partition {partition}, whose rows the log identifies by {', '.join(listed)} "
                    f"instead of {', '.join(names)}"
                )
                refused = (what, f"set REPLICA IDENTITY DEFAULT or FULL for the partition {partition}")
    return CatalogTable(
        table=TableName(oid=oid, schema=schema, name=name),
        key=key,
        replica_identity=identity,
        identity=names if identifies else (),
        is_partitioned=is_partitioned,
        refused=refused,
    )


def _key_columns(connection: Connection, oid: int, numbers: Sequence[int]) -> list[tuple[KeyColumn, bool]]:
    """Columns by their numbers, each with whether it is generated."""
    rows = connection.execute(_KEY_COLUMNS, [list(numbers), oid]).fetchall() if numbers else []
    return [
        (KeyColumn(name=name, type=kind, collation=collation, labels=labels, type_oid=type_oid), is_generated)
        for name, is_generated, kind, collation, labels, type_oid in rows
    ]
