"""Tables of every shape: keys of all kinds, replica identities, partitions, odd names, many columns."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from flip27_source.enumerators.postgres.check import findings
from flip27_source.errors import DiscoveryError
from flip27_source.source_checks import Status
from tests.enumerators.postgres.reading import query
from tests.postgres_server import PostgresServer

WRITES = (
    "UPDATE {table} SET v = 'new' WHERE {key} IN (SELECT {key} FROM {table} ORDER BY {key} OFFSET 2 LIMIT 2)",
    "DELETE FROM {table} WHERE {key} = (SELECT {key} FROM {table} ORDER BY {key} OFFSET 4 LIMIT 1)",
)


@dataclass(frozen=True)
class Key:
    """A key of one column.

    Attributes:
        type: SQL for its type and collation.
        values: SQL for the nine values that are inserted before the query starts.
        later: SQL for two values that are inserted while it runs.
        setup: statements that run before the table is made.
    """

    type: str
    values: str
    later: str
    setup: tuple[str, ...] = ()


LARGE = "(SELECT string_agg(md5(i::text || '-' || j), '') FROM generate_series(1, 75) j)"
"""2,400 characters that cannot be compressed: PostgreSQL stores them outside of the row."""

KEYS = {
    "int": Key("int", "SELECT i FROM generate_series(-4, 4) i", "VALUES (100), (-100)"),
    "uneven bigint": Key(
        "bigint", "VALUES (1), (2), (3), (10), (1000000000), (1000000001), (9223372036854775806), (-7), "
        "(-9223372036854775808)", "VALUES (9223372036854775807), (0)",
    ),
    "smallint": Key("smallint", "SELECT i FROM generate_series(1, 9) i", "VALUES (32767), (0)"),
    "text": Key(
        'text COLLATE "ucs_basic"',
        "VALUES ('a'), ('B'), ('ä'), (''), ('a b'), ('''quoted'''), ('{1,2}'), ('\\'), ('NULL')",
        "VALUES ('Z'), ('zz')",
    ),
    "varchar": Key("varchar(5)", "SELECT 'k' || i FROM generate_series(1, 9) i", "VALUES ('k10'), ('a')"),
    "characters": Key("char(4)", "SELECT 'k' || i FROM generate_series(1, 9) i", "VALUES ('k10'), ('a')"),
    "bits": Key("bit(4)", "SELECT i::bit(4) FROM generate_series(1, 9) i", "VALUES (B'1111'), (B'0000')"),
    "uuid": Key(
        "uuid", "SELECT md5(i::text)::uuid FROM generate_series(1, 9) i",
        "SELECT md5(i::text)::uuid FROM generate_series(10, 11) i",
    ),
    "numeric": Key("numeric(12, 4)", "SELECT i * 3.5 FROM generate_series(-4, 4) i", "VALUES (99), (0.0001)"),
    "numeric without a scale": Key(
        "numeric", "VALUES (1), (2.50), ('-Infinity'), (1e30), (-1e-30), ('NaN'), (7), (8), (9)",
        "VALUES (numeric 'Infinity'), (0)",
    ),
    "double precision": Key(
        "double precision",
        "VALUES ('-Infinity'), (0.1), (1e300), (-1e-300), ('Infinity'), (2), (3), (4), (5)",
        "VALUES (double precision 'NaN'), (0)",
    ),
    "date": Key(
        "date", "SELECT date '2024-02-27' + i FROM generate_series(1, 9) i",
        "VALUES (date 'infinity'), (date '0044-03-15 BC')",
    ),
    "timestamptz": Key(
        "timestamptz", "SELECT timestamptz '2024-03-31 00:30Z' + i * interval '1 hour 1 microsecond' "
        "FROM generate_series(1, 9) i", "VALUES (timestamptz 'infinity'), (timestamptz '1999-01-01Z')",
    ),
    "bytea": Key(
        "bytea", "SELECT decode(md5(i::text), 'hex') FROM generate_series(1, 9) i",
        "VALUES ('\\x'::bytea), ('\\xff'::bytea)",
    ),
    "enum": Key(
        "size", "SELECT unnest(enum_range('z'::size, 'r'::size))", "VALUES ('q'::size), ('p'::size)",
        setup=("CREATE TYPE size AS ENUM ('z', 'y', 'x', 'w', 'v', 'u', 't', 's', 'r', 'q', 'p')",),
    ),
    "domain": Key(
        "number", "SELECT i FROM generate_series(1, 9) i", "VALUES (10), (11)",
        setup=("CREATE DOMAIN number AS int CHECK (value > 0)",),
    ),
    "large text": Key(
        "text", f"SELECT {LARGE} FROM generate_series(1, 9) i",
        f"SELECT {LARGE} FROM generate_series(10, 11) i",
    ),
}  # fmt: skip


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_key_of_any_type_is_cut_into_chunks_and_followed(postgres: PostgresServer, key: Key) -> None:
    writes = [statement.format(table="orders", key="id") for statement in WRITES]
    with query(
        postgres, *key.setup,
        f"CREATE TABLE orders (id {key.type} PRIMARY KEY, v text, filler text)",
        # PostgreSQL can neither compress nor move filler, and stores a large key outside of the row.
        "ALTER TABLE orders ALTER filler SET STORAGE PLAIN",
        f"INSERT INTO orders SELECT column1, 'old', '' FROM ({key.values}) AS given (column1)",
        maxRowsPerTrigger="3", parallelism="1",
    ) as orders:  # fmt: skip
        later = f"INSERT INTO orders SELECT column1, 'later', '' FROM ({key.later}) AS given (column1)"
        orders.write_among_chunks(*writes, later=(later, *writes))


EMPTY_PATH = """DO $$ BEGIN
EXECUTE format('ALTER DATABASE %I SET search_path = %L', current_database(), '');
END $$"""


@pytest.mark.parametrize(
    ("kind", "key", "more"), [("ext.code", ("id",), ()), ("ext.ltree", ("n", "id"), (EMPTY_PATH,))]
)
def test_a_key_whose_type_belongs_to_an_extension_outside_the_search_path_is_read_and_followed(
    postgres: PostgresServer, kind: str, key: tuple[str, ...], more: tuple[str, ...]
) -> None:
    with query(
        postgres,
        "CREATE SCHEMA ext",
        "CREATE EXTENSION citext SCHEMA ext",
        "CREATE EXTENSION ltree SCHEMA ext",
        "CREATE DOMAIN ext.code AS ext.citext",
        f"CREATE TABLE orders (id {kind}, n int, v text, note text, PRIMARY KEY ({', '.join(key)}))",
        "ALTER TABLE orders ALTER note SET STORAGE EXTERNAL",
        f"INSERT INTO orders SELECT (chr(107 - 32 * (i % 2)) || i)::{kind}, i % 2, 'old', repeat('n', 5000) "
        "FROM generate_series(1, 9) i",
        *more,
        columns=("id", "n", "v", "note"), key=key, maxRowsPerTrigger="3", parallelism="1",
        unchangedValues="read",
    ) as orders:  # fmt: skip
        orders.write_among_chunks(
            "UPDATE orders SET v = 'new' WHERE id::text IN ('K3', 'K7')",
            "DELETE FROM orders WHERE id::text = 'K5'",
            later=["UPDATE orders SET v = 'newer' WHERE n = 1", "DELETE FROM orders WHERE id::text = 'k4'"],
        )
        assert not any(change["_unchanged"] for change in orders.changes)


def test_a_table_with_a_key_of_several_columns_is_read_and_followed(postgres: PostgresServer) -> None:
    with query(
        postgres,
        "CREATE TABLE orders (v text, b text, a int, PRIMARY KEY (a, b))",
        "INSERT INTO orders SELECT 'old', j::text, i FROM generate_series(1, 4) i, generate_series(1, 4) j",
        columns=("a", "b", "v"), key=("a", "b"), maxRowsPerTrigger="3", parallelism="1",
    ) as orders:  # fmt: skip
        orders.write_among_chunks(
            "UPDATE orders SET v = 'new' WHERE b = '3'",
            "UPDATE orders SET a = a + 10 WHERE b = '2'",
            later=[
                "DELETE FROM orders WHERE a = 1",
                "UPDATE orders SET b = 'x' || b WHERE a = 3",
                "INSERT INTO orders VALUES ('later', '1', 1), ('later', '9', 2)",
            ],
        )


@pytest.mark.parametrize(
    "identity",
    [
        ("ALTER TABLE orders ADD PRIMARY KEY (b, a) INCLUDE (v)",),
        (
            "CREATE UNIQUE INDEX orders_ab ON orders (b, a) INCLUDE (v)",
            "ALTER TABLE orders REPLICA IDENTITY USING INDEX orders_ab",
        ),
    ],
    ids=["primary key", "replica identity"],
)
def test_columns_that_an_index_includes_are_not_part_of_the_key(
    postgres: PostgresServer, identity: tuple[str, ...]
) -> None:
    with query(
        postgres,
        "CREATE TABLE orders (a int NOT NULL, b int NOT NULL, v text)",
        *identity,
        "INSERT INTO orders SELECT i, 100 - i, CASE WHEN i % 2 = 0 THEN 'old' END "
        "FROM generate_series(1, 20) i",
        columns=("a", "b", "v"), key=("a", "b"), maxRowsPerTrigger="3", parallelism="1",
    ) as orders:  # fmt: skip
        orders.write_among_chunks(
            "UPDATE orders SET v = NULL WHERE a IN (2, 12, 18)",
            "DELETE FROM orders WHERE a IN (5, 16)",
            later=[
                "UPDATE orders SET v = 'new' WHERE a IN (3, 4, 20)",
                "UPDATE orders SET v = 'last' WHERE v IS NULL",
            ],
        )


@pytest.mark.parametrize("identity", ["FULL", "USING INDEX orders_code"])
def test_a_table_whose_replica_identity_is_not_its_primary_key_is_followed(
    postgres: PostgresServer, identity: str
) -> None:
    with query(
        postgres,
        "CREATE TABLE orders (id int PRIMARY KEY, code text NOT NULL, v text, note text)",
        "CREATE UNIQUE INDEX orders_code ON orders (code)",
        "ALTER TABLE orders ALTER note SET STORAGE EXTERNAL",
        f"ALTER TABLE orders REPLICA IDENTITY {identity}",
        "INSERT INTO orders SELECT i, 'c' || 10 - i, 'old', repeat('n', 5000) FROM generate_series(1, 9) i",
        columns=("id", "code", "v", "note"), key=("id",) if identity == "FULL" else ("code",),
        maxRowsPerTrigger="3", parallelism="1",
    ) as orders:  # fmt: skip
        orders.write_among_chunks(
            "UPDATE orders SET v = 'new' WHERE id IN (2, 5)",
            "UPDATE orders SET id = id + 100 WHERE id IN (3, 9)",
            later=[
                "UPDATE orders SET code = 'moved' WHERE id = 7",
                "DELETE FROM orders WHERE id = 1",
                "UPDATE orders SET v = 'newer', id = 200 WHERE code = 'moved'",
            ],
        )
        values_not_logged = {name for change in orders.changes for name in change["_unchanged"] or ()}
        assert values_not_logged == (set() if identity == "FULL" else {"note"})


@pytest.mark.parametrize("identity", ["NOTHING", "DEFAULT"])
def test_a_table_without_an_identity_is_followed_while_rows_are_only_inserted(
    postgres: PostgresServer, identity: str
) -> None:
    with query(
        postgres,
        "CREATE TABLE orders (id int, v text)",
        f"ALTER TABLE orders REPLICA IDENTITY {identity}",
        "INSERT INTO orders SELECT i / 2, 'old' FROM generate_series(1, 9) i",
        key=(),
    ) as orders:
        orders.until_planned()
        orders.execute("INSERT INTO orders VALUES (1, 'among'), (1, 'among')")
        orders.engine.run_batch()
        orders.write("INSERT INTO orders VALUES (1, 'behind'), (NULL, NULL)")
        assert sorted(orders.inserted().elements(), key=repr) == sorted(
            ((key or None, value or None) for key, value in orders.table("orders")), key=repr
        )


def test_a_table_without_a_key_is_followed_if_the_log_has_its_full_rows(postgres: PostgresServer) -> None:
    with query(
        postgres,
        "CREATE TABLE orders (id int, v text)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "INSERT INTO orders SELECT i, 'old' FROM generate_series(1, 9) i",
    ) as orders:
        orders.write_among_chunks(
            "UPDATE orders SET v = 'new' WHERE id = 3",
            "DELETE FROM orders WHERE id = 4",
            later=["INSERT INTO orders VALUES (10, 'later')", "DELETE FROM orders WHERE id = 10"],
        )


def test_names_may_contain_quotes_dots_commas_and_capitals(postgres: PostgresServer) -> None:
    schema, table, key = '"My ""Shop"" テスト🛒"', r'"Or.de,rs\café"', '"I ""d"" %s"'
    name = f"{schema}.{table}"
    with query(
        postgres,
        f"CREATE SCHEMA {schema}",
        f'CREATE TABLE {name} ({key} int PRIMARY KEY, "v, %" text, "\'名前\'" text)',
        f"INSERT INTO {name} SELECT i, 'old', '旧' FROM generate_series(1, 9) i",
        tables=name, columns=('I "d" %s', "v, %", "'名前'"), key=('I "d" %s',),
        maxRowsPerTrigger="3", parallelism="1",
    ) as orders:  # fmt: skip
        orders.write_among_chunks(
            f"UPDATE {name} SET \"v, %\" = 'new', \"'名前'\" = '名' WHERE {key} IN (2, 8)",
            later=[f"DELETE FROM {name} WHERE {key} = 5", f"UPDATE {name} SET {key} = 100 WHERE {key} = 1"],
        )
        assert {change["_table"] for change in orders.changes} == {'My "Shop" テスト🛒.Or.de,rs\\café'}


def test_a_partitioned_table_is_one_table(postgres: PostgresServer) -> None:
    with query(
        postgres,
        "CREATE TABLE orders (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE orders_a PARTITION OF orders FOR VALUES FROM (0) TO (5)",
        "CREATE TABLE orders_b PARTITION OF orders FOR VALUES FROM (5) TO (100)",
        "INSERT INTO orders SELECT i, 'old' FROM generate_series(1, 9) i",
        maxRowsPerTrigger="3", parallelism="1",
    ) as orders:  # fmt: skip
        orders.write_among_chunks(
            "UPDATE orders SET v = 'new' WHERE id IN (2, 8)",
            "UPDATE orders SET id = 50 WHERE id = 3",
            later=[
                "DELETE FROM orders WHERE id = 6",
                "CREATE TABLE orders_c PARTITION OF orders FOR VALUES FROM (100) TO (200)",
                "INSERT INTO orders VALUES (150, 'in a new partition')",
            ],
        )
        assert {change["_table"] for change in orders.changes} == {"public.orders"}


def test_an_option_that_leaves_out_every_table_is_an_error(postgres: PostgresServer) -> None:
    with (
        query(
            postgres, "CREATE TABLE orders (id int PRIMARY KEY, v text)", tables="order*, -orders"
        ) as orders,
        pytest.raises(
            DiscoveryError, match=r"tables has order\*, -orders, and the database has no such table"
        ),
    ):
        orders.until_planned()


def test_the_error_for_a_partition_says_to_name_its_table(postgres: PostgresServer) -> None:
    with (
        query(
            postgres,
            "CREATE TABLE orders (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
            "CREATE TABLE orders_a PARTITION OF orders DEFAULT",
            tables="orders_a",
        ) as orders,
        pytest.raises(DiscoveryError, match=r"has orders_a.*\n.*of a partition, name the partitioned table"),
    ):
        orders.until_planned()


def test_partitions_may_have_another_replica_identity_than_their_table(postgres: PostgresServer) -> None:
    with query(
        postgres,
        "CREATE TABLE orders (id int PRIMARY KEY, v text, note text) PARTITION BY RANGE (id)",
        "CREATE TABLE orders_a PARTITION OF orders FOR VALUES FROM (0) TO (100)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "ALTER TABLE orders_a ALTER note SET STORAGE EXTERNAL",
        "INSERT INTO orders SELECT i, 'old', repeat('n', 5000) FROM generate_series(1, 9) i",
        columns=("id", "v", "note"), maxRowsPerTrigger="3", parallelism="1",
    ) as orders:  # fmt: skip
        orders.write_among_chunks(
            "UPDATE orders SET v = 'new' WHERE id IN (2, 8)",
            "UPDATE orders SET id = id + 20 WHERE id IN (3, 7)",
            later=[
                "UPDATE orders SET v = 'newer' WHERE id IN (5, 23)",
                "UPDATE orders SET id = id + 40 WHERE id IN (1, 27)",
            ],
        )


PARTED = "CREATE TABLE orders (id int PRIMARY KEY, v text NOT NULL) PARTITION BY RANGE (id)"
REFUSED = {
    "whole rows, and a primary key that is checked at the commit": (
        (
            "CREATE TABLE orders (id int PRIMARY KEY DEFERRABLE, v text)",
            "ALTER TABLE orders REPLICA IDENTITY FULL",
        ),
        "has a DEFERRABLE primary key",
    ),
    "a partition whose rows the log identifies by other columns": (
        (
            PARTED, "CREATE TABLE part PARTITION OF orders DEFAULT", "CREATE UNIQUE INDEX part_v ON part (v)",
            "ALTER TABLE part REPLICA IDENTITY USING INDEX part_v",
        ),
        "has the partition part, whose rows the log identifies by v instead of id",
    ),
    "a partition that is not in the log": (
        (PARTED, "CREATE UNLOGGED TABLE part PARTITION OF orders DEFAULT"),
        "has the partition part, which is UNLOGGED",
    ),
    "a foreign partition": (
        (
            PARTED.replace(" PRIMARY KEY", ""), "CREATE EXTENSION file_fdw",
            "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
            "CREATE FOREIGN TABLE part PARTITION OF orders DEFAULT SERVER files OPTIONS (filename '/nil')",
        ),
        "has the partition part, which is a foreign table",
    ),
    "a generated column": (
        ("CREATE TABLE orders (v text, id int PRIMARY KEY GENERATED ALWAYS AS (length(v)) STORED)",),
        "has a key with the generated column id",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("statements", "said"), REFUSED.values(), ids=REFUSED)
def test_a_table_whose_changes_cannot_be_followed_is_refused_by_the_query_and_the_check(
    postgres: PostgresServer, statements: tuple[str, ...], said: str
) -> None:
    with query(postgres, *statements) as orders:
        with pytest.raises(DiscoveryError, match=f"public.orders {said}"):
            orders.until_planned()
        found = [
            item.found for item in findings(orders.engine.source.options) if item.status is Status.FAILED
        ]
        assert [said in item for item in found] == [True]


def test_a_pattern_leaves_out_what_the_log_does_not_have(postgres: PostgresServer) -> None:
    with query(
        postgres,
        "CREATE TABLE orders (id int PRIMARY KEY, v text)",
        "INSERT INTO orders VALUES (1, 'old')",
        "CREATE VIEW listed AS SELECT * FROM orders",
        "CREATE MATERIALIZED VIEW stored AS SELECT * FROM orders",
        "CREATE UNLOGGED TABLE fleeting AS SELECT * FROM orders",
        tables="public.*",
    ) as orders:
        orders.read_all()
        orders.write("UPDATE orders SET v = 'new'", "REFRESH MATERIALIZED VIEW stored")
        assert [(change["_op"], change["_table"]) for change in orders.changes] == [
            ("r", "public.orders"),
            ("u", "public.orders"),
        ]


def test_tables_of_a_pattern_can_be_left_out(postgres: PostgresServer) -> None:
    names = ("orders", "log", "log_2024")
    with query(
        postgres,
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in names),
        *(f"INSERT INTO {name} VALUES (1, 'old')" for name in names),
        "CREATE PUBLICATION every FOR ALL TABLES",
        tables="public.*, -log*", publication="every",
    ) as orders:  # fmt: skip
        orders.read_all()
        orders.write(
            *(f"INSERT INTO {name} VALUES (2, 'new')" for name in names),
            "CREATE TABLE log_2025 (id int PRIMARY KEY, v text)",
            "INSERT INTO log_2025 VALUES (1, 'new')",
        )
        found = [(change["_table"], change["_op"], change["id"]) for change in orders.changes]
        assert found == [("public.orders", "r", "1"), ("public.orders", "c", "2")]


def test_a_table_with_the_greatest_possible_number_of_columns_is_followed(postgres: PostgresServer) -> None:
    names = [f"c{number}" for number in range(1598)]
    with query(
        postgres,
        f"CREATE TABLE orders (id int PRIMARY KEY, v text, {', '.join(f'{name} bool' for name in names)})",
        "INSERT INTO orders (id, v, c0, c1597) SELECT i, 'old', true, false FROM generate_series(1, 9) i",
        columns=("id", "v", *names),
    ) as orders:
        orders.until_planned()
        orders.execute("UPDATE orders SET c1596 = true WHERE id = 4")
        orders.engine.run_batch()
        orders.write("DELETE FROM orders WHERE id = 5")
        # The table has a bool as t or f; the copy may have it as true or false.
        words = {"t": "t", "f": "f", "true": "t", "false": "f", "": None}
        copied = [(row[0], *(words.get(value or "", value) for value in row[1:])) for row in orders.copy()]
        assert copied == [tuple(value or None for value in row) for row in orders.table("orders")]


def test_an_empty_table_is_followed_from_its_first_row(postgres: PostgresServer) -> None:
    with query(postgres, "CREATE TABLE orders (id int PRIMARY KEY, v text)") as orders:
        orders.read_all()
        assert orders.ops() == []
        orders.write("INSERT INTO orders VALUES (1, 'first')")
        assert orders.ops() == [("c", "1")]


def test_a_condition_filters_the_rows_of_the_snapshot_but_not_the_changes_in_the_log(
    postgres: PostgresServer,
) -> None:
    with query(
        postgres,
        "CREATE TABLE orders (id int PRIMARY KEY, v text)",
        "INSERT INTO orders SELECT i, CASE WHEN i % 2 = 0 THEN '100%' ELSE 'odd' END FROM "
        "generate_series(1, 20) i",
        snapshotWhere="v LIKE '100%' OR id = 3 -- a comment",
    ) as orders:
        orders.read_all()
        assert sorted(int(key or 0) for _, key in orders.ops()) == [2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20]
        orders.write("UPDATE orders SET v = 'new' WHERE id IN (1, 2)")
        assert orders.ops()[11:] == [("u", "1"), ("u", "2")]


@pytest.mark.parametrize("table", ['"My %orders"', 'public."My %orders"'])
def test_a_condition_for_the_snapshot_may_contain_the_name_of_the_table(
    postgres: PostgresServer, table: str
) -> None:
    with query(
        postgres,
        'CREATE TABLE "My %orders" (id int PRIMARY KEY, v text)',
        "CREATE TABLE wanted (id int, v text)",
        """INSERT INTO "My %orders" SELECT i, 'old' FROM generate_series(1, 40) i""",
        "INSERT INTO wanted SELECT i, 'wanted' FROM generate_series(2, 40, 2) i",
        tables='"My %orders"',
        snapshotWhere=f"EXISTS (SELECT FROM wanted WHERE id = {table}.id)",
    ) as orders:
        orders.batches()
        assert sorted(int(key or 0) for _, key in orders.ops()) == list(range(2, 41, 2))


def test_a_condition_for_the_snapshot_may_differ_from_table_to_table(postgres: PostgresServer) -> None:
    with query(
        postgres,
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in ("orders", "parts", "staff")),
        *(
            f"INSERT INTO {name} SELECT i, '{name}' FROM generate_series(1, 9) i"
            for name in ("orders", "parts", "staff")
        ),
        tables="orders, parts, staff",
        snapshotWhere="CASE tableoid WHEN 'orders'::regclass THEN id > 7 "
        "WHEN 'parts'::regclass THEN id < 2 ELSE true END",
    ) as orders:  # fmt: skip
        orders.read_all()
        found = sorted((change["_table"], change["id"]) for change in orders.changes)
        assert found == [
            ("public.orders", "8"), ("public.orders", "9"), ("public.parts", "1"),
            *(("public.staff", str(number)) for number in range(1, 10)),
        ]  # fmt: skip


def test_a_row_that_a_trigger_changes_is_delivered_as_it_is_stored(postgres: PostgresServer) -> None:
    with query(
        postgres,
        "CREATE TABLE orders (id int PRIMARY KEY, v text, words tsvector)",
        "CREATE FUNCTION words() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN NEW.words := to_tsvector(''simple'', NEW.v); RETURN NEW; END'",
        "CREATE TRIGGER words BEFORE INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION words()",
        "INSERT INTO orders VALUES (1, 'a cup'), (2, 'a jug')",
        columns=("id", "v", "words"),
    ) as orders:
        orders.read_all()
        orders.write("INSERT INTO orders VALUES (3, 'the pan')", "UPDATE orders SET v = 'a mug' WHERE id = 2")
        assert orders.ops("words") == [
            ("r", "'a':1 'cup':2"), ("r", "'a':1 'jug':2"), ("c", "'pan':2 'the':1"), ("u", "'a':1 'mug':2"),
        ]  # fmt: skip


def test_unchanged_values_are_read_from_the_table_by_a_key_of_type_character(
    postgres: PostgresServer,
) -> None:
    with query(
        postgres,
        'CREATE TABLE "100 %" (id char(6) PRIMARY KEY, "v %" text, note text)',
        'ALTER TABLE "100 %" ALTER note SET STORAGE EXTERNAL',
        """INSERT INTO "100 %" SELECT 'key' || i, 'old', repeat('n', 5000) FROM generate_series(1, 9) i""",
        tables='"100 %"', columns=("id", "v %", "note"), unchangedValues="read",
    ) as orders:  # fmt: skip
        orders.read_all()
        orders.write("""UPDATE "100 %" SET "v %" = 'new'""")
        orders.check_copy()
        assert not any(change["_unchanged"] for change in orders.changes)
