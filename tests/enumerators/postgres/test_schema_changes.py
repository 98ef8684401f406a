"""Tables that change while they are read, or before their unchanged values are read."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from flip27_source.enumerators.postgres.catalog import find_tables
from flip27_source.enumerators.postgres.chunks import cuts
from flip27_source.enumerators.postgres.connection import START_AGAIN
from flip27_source.enumerators.postgres.table_patterns import table_patterns
from flip27_source.errors import DiscoveryError, NewColumnsError, SchemaError, SplitReadError
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.deadline import until
from tests.enumerators.postgres.database import Running
from tests.enumerators.postgres.faults import OTHER, FaultyShop, caught_up, has_read, planned, running
from tests.enumerators.postgres.reading import Query, query
from tests.postgres_server import PostgresServer


def values(engine: MicroBatchEngine, *columns: str) -> list[tuple[object, ...]]:
    """Return these columns of all changes after the snapshot, in order."""
    at = [engine.schema.names.index(column) for column in columns]
    op = engine.schema.names.index("_op")
    order = [engine.schema.names.index(name) for name in ("_lsn", "_seq")]
    rows = sorted(engine.rows, key=lambda row: tuple(row[place] for place in order))
    return [tuple(row[place] for place in at) for row in rows if row[op] != "r"]


def grown(shop: FaultyShop, engine: MicroBatchEngine) -> MicroBatchEngine:
    """Let the query stop at new columns; return it loaded again with them, and caught up."""
    schema = engine.schema
    with pytest.raises(
        NewColumnsError, match=r"table public\.orders has columns that the schema does not have"
    ):
        caught_up(engine)
    other = shop.engine(after=engine)
    assert other.schema != schema
    return caught_up(other)


def test_a_new_column_stops_the_query_once_and_is_read_after_the_restart(shop: FaultyShop) -> None:
    engine = shop.read()
    shop.execute(
        "INSERT INTO orders VALUES (11, 'before')", "ALTER TABLE orders ADD price numeric(10, 2) DEFAULT 3",
        "INSERT INTO orders VALUES (12, 'after', 7.5)",
    )  # fmt: skip
    engine = grown(shop, engine)
    assert engine.schema.field("price").type == pa.decimal128(10, 2)
    found = engine.batches[-1].to_arrow(engine.schema).select(["id", "name", "price"]).to_pylist()
    assert [(row["id"], None if row["price"] is None else str(row["price"])) for row in found] == [
        (11, None), (12, "7.50"),
    ]  # fmt: skip


def test_a_new_column_within_a_transaction_has_null_before_it_and_values_after_it(shop: FaultyShop) -> None:
    engine = shop.read()
    shop.execute(
        "BEGIN", "INSERT INTO orders VALUES (11, 'a')", "ALTER TABLE orders ADD price int, DROP name",
        "INSERT INTO orders VALUES (12, 5)", "COMMIT",
    )  # fmt: skip
    engine = grown(shop, engine)
    names = engine.schema.names
    last = [dict(zip(names, row, strict=True)) for row in engine.batches[-1].rows]
    assert [(row["id"], row["name"], row["price"]) for row in last] == [(11, "a", None), (12, None, 5)]


def test_a_column_that_is_added_between_the_start_and_the_first_chunk_stops_the_query(
    shop: FaultyShop,
) -> None:
    engine = shop.engine()
    shop.execute("ALTER TABLE orders ADD price int DEFAULT 5")
    engine = grown(shop, engine)
    names = engine.schema.names
    assert {row[names.index("price")] for row in engine.rows} == {5}
    assert len(engine.rows) == 10


@pytest.mark.parametrize("change", ["ADD price int DEFAULT 5", "ALTER id TYPE bigint"])
def test_a_table_that_changes_between_two_chunks_loses_no_row(shop: FaultyShop, change: str) -> None:
    engine = has_read(shop.engine(maxRowsPerTrigger="4"), 4)
    shop.execute(f"ALTER TABLE orders {change}")
    engine = grown(shop, engine) if "ADD" in change else caught_up(engine)
    assert sorted(row[0] for row in engine.rows) == list(range(1, 11))


def test_a_table_that_is_rewritten_while_a_chunk_begins_loses_no_row(shop: FaultyShop) -> None:
    engine = planned(shop.engine())
    # A snapshot that is older than the rewritten table sees it empty.
    shop.execute("BEGIN", "ALTER TABLE orders ALTER id TYPE bigint")
    with shop.session() as other:
        batch = Running(engine.run_batch)
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'flip27 chunk%%'"
            " AND datname = current_database() AND wait_event_type = 'Lock'"
        )
        until(lambda: other.execute(waiting).fetchone() == (1,), lambda: "no chunk waits")
        shop.execute("COMMIT")
        batch.result()
    assert sorted(row[0] for row in engine.rows) == list(range(1, 11))


def test_new_columns_can_be_left_out(shop: FaultyShop) -> None:
    engine = shop.read(onSchemaChange="ignore")
    shop.execute("ALTER TABLE orders ADD price int", "INSERT INTO orders VALUES (11, 'x', 5)")
    caught_up(engine)
    assert values(engine, "id", "name") == [(11, "x")]


@pytest.mark.parametrize(
    ("change", "row", "said"),
    [("ADD price int", "(11, 'x', 5)", "it also has price"), ("DROP name", "(11)", "it has no name")],
)
def test_new_and_dropped_columns_can_be_refused(shop: FaultyShop, change: str, row: str, said: str) -> None:
    engine = shop.read(onSchemaChange="fail")
    shop.execute(f"ALTER TABLE orders {change}", f"INSERT INTO orders VALUES {row}")
    with pytest.raises(SplitReadError, match=said):
        caught_up(engine)
    assert values(engine, "id") == []


def test_with_a_users_schema_new_columns_are_left_out_and_do_not_stop_the_query(shop: FaultyShop) -> None:
    schema = pa.schema([("id", pa.int64()), ("_op", pa.string()), ("_lsn", pa.int64()), ("_seq", pa.int64())])
    for mode in ("evolve", "fail"):
        engine = shop.read(schema, onSchemaChange=mode, uid=f"of_{mode}")
        shop.execute(f"ALTER TABLE orders ADD {mode} int", "INSERT INTO orders(id) VALUES (11)")
        caught_up(engine)
        assert values(engine, "id") == [(11,)]
        shop.execute("DELETE FROM orders WHERE id = 11")
        engine.stop()


def test_json_formats_have_new_columns_at_once(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine(changeFormat="envelope"))
    shop.execute("ALTER TABLE orders ADD price int", "INSERT INTO orders VALUES (11, 'x', 5)")
    caught_up(engine)
    after = engine.rows[-1][engine.schema.names.index("after")]
    assert after == '{"id":11,"name":"x","price":5}'


def test_json_formats_have_values_of_types_that_are_newer_than_the_query(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine(changeFormat="envelope"))
    shop.execute(
        "CREATE TYPE mood AS ENUM ('sad')", "CREATE DOMAIN price AS int",
        "ALTER TABLE orders ADD mood mood, ADD moods mood[], ADD price price",
        "ALTER TYPE mood ADD VALUE 'calm'", "INSERT INTO orders VALUES (11, 'x', 'calm', '{sad,calm}', 5)",
    )  # fmt: skip
    caught_up(engine)
    after = engine.rows[-1][engine.schema.names.index("after")]
    assert after == '{"id":11,"name":"x","mood":"calm","moods":["sad","calm"],"price":5}'


def test_json_formats_have_the_present_key_at_once(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine(changeFormat="envelope"))
    without = "ALTER TABLE orders DROP CONSTRAINT orders_pkey"
    shop.execute(
        without, "ALTER TABLE orders RENAME id TO number", "ALTER TABLE orders ADD PRIMARY KEY (number)",
        "INSERT INTO orders VALUES (11, 'x')",
    )  # fmt: skip
    caught_up(engine)
    shop.execute(
        without, "ALTER TABLE orders ADD part int DEFAULT 0",
        "ALTER TABLE orders ADD PRIMARY KEY (number, part)", "INSERT INTO orders VALUES (12, 'y', 8)",
    )  # fmt: skip
    caught_up(engine)
    keys = [row[engine.schema.names.index("key")] for row in engine.rows[-2:]]
    assert keys == ['{"number":11}', '{"number":12,"part":8}']


def test_a_renamed_column_counts_as_a_dropped_and_a_new_column(shop: FaultyShop) -> None:
    engine = shop.read()
    shop.execute("ALTER TABLE orders RENAME name TO title", "INSERT INTO orders VALUES (11, 'x')")
    engine = grown(shop, engine)
    assert values(engine, "id", "name", "title")[-1] == (11, None, "x")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("_op", "has the column _op, .* together with the column _op of the change"),
        ("_Table", "has the column _Table, .* together with the column _table of the change"),
        ("Name", "has the column Name, .* together with its column name"),
    ],
)
def test_names_that_spark_takes_for_one_are_refused_unless_the_schema_leaves_them_out(
    shop: FaultyShop, name: str, said: str
) -> None:
    shop.execute(f"ALTER TABLE orders ADD \"{name}\" text DEFAULT 'theirs'")
    with pytest.raises(SchemaError, match=rf"table public\.orders {said}(?s:.)*changeFormat=envelope"):
        shop.engine()
    engine = shop.engine(pa.schema([("id", pa.int32()), ("name", pa.string()), ("_op", pa.string())]))
    caught_up(engine)
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    caught_up(engine)
    assert sorted(engine.rows)[-2:] == [(10, "n10", "r"), (11, "x", "c")]


def test_a_column_keeps_its_type_when_the_tables_type_changes_if_each_value_fits(shop: FaultyShop) -> None:
    engine = shop.read()
    shop.execute("ALTER TABLE orders ALTER id TYPE bigint", "INSERT INTO orders VALUES (11, 'x')")
    caught_up(engine)
    assert engine.schema.field("id").type == pa.int32()
    assert values(engine, "id") == [(11,)]
    shop.execute("INSERT INTO orders VALUES (5000000000, 'x')")
    with pytest.raises(SplitReadError, match=r"column id .*5000000000"):
        caught_up(engine)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE orders DROP CONSTRAINT orders_pkey", "ALTER TABLE orders RENAME id TO number",
        "DROP TABLE orders",
    ],
)  # fmt: skip
def test_a_change_of_the_key_is_delivered_by_the_key_that_the_table_had(
    shop: FaultyShop, statement: str
) -> None:
    shop.execute(OTHER, *(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in ("orders", "other")))
    engine = shop.read(tables="public.*", onSchemaChange="ignore")
    running(engine)
    for number in (11, 12, 13):  # ends the snapshot, whose bounds have the key too
        shop.execute(f"INSERT INTO orders VALUES ({number}, 'x')")
        has_read(engine, number)
    shop.execute("UPDATE orders SET id = 101 WHERE id = 1", statement)
    caught_up(engine)
    assert shop.changes(engine)[3:] == [("d", 1, "n1"), ("c", 101, "n1")]


@pytest.mark.parametrize("change", ["DROP CONSTRAINT orders_pkey", "RENAME id TO number"])
def test_a_batch_that_is_repeated_after_the_key_was_altered_has_the_same_changes(
    shop: FaultyShop, change: str
) -> None:
    shop.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
    engine = running(shop.read(onSchemaChange="ignore"))
    for number in (11, 12, 13):  # ends the snapshot, whose bounds have the key too
        shop.execute(f"INSERT INTO orders VALUES ({number}, 'x')")
        has_read(engine, number)
    shop.execute("UPDATE orders SET id = 101 WHERE id = 1", "DELETE FROM orders WHERE id = 2")
    planned(engine, available_now=False)
    with pytest.raises(Crashed):
        engine.run_batch(crash_at=Step.SINK_WRITTEN)
    before = engine.batches[-1].rows
    shop.execute(f"ALTER TABLE orders {change}")
    engine.restart()
    engine.run_batch()
    assert engine.batches[-1].rows == before
    assert shop.changes(engine)[3:] == [("d", 1, "n1"), ("c", 101, "n1"), ("d", 2, "n2")]


KEYED = (
    "CREATE TABLE orders (id int PRIMARY KEY, v text NOT NULL)",
    "CREATE UNIQUE INDEX orders_v ON orders (v)",
    "INSERT INTO orders SELECT i, 'v' || i FROM generate_series(1, 9) i",
)


@pytest.mark.parametrize(
    "statement", ["DELETE FROM orders WHERE id = 1", "UPDATE orders SET id = 101 WHERE id = 1"]
)
def test_rows_that_the_log_identifies_by_other_columns_than_the_chunks_are_refused(
    postgres: PostgresServer, statement: str
) -> None:
    with query(postgres, *KEYED, maxRowsPerTrigger="3", parallelism="1") as orders:
        orders.until_rows(3)
        orders.execute("ALTER TABLE orders REPLICA IDENTITY USING INDEX orders_v", statement)
        with pytest.raises(SplitReadError, match=r"public\.orders by v, and the chunks .* by id"):
            orders.read_all()


MOVED = "ALTER TABLE orders DROP CONSTRAINT orders_pkey, ADD PRIMARY KEY (v)"


@pytest.mark.parametrize("row", ["1", "9"], ids=["in a chunk that is read", "in a chunk that is left"])
@pytest.mark.parametrize(
    "statement", ["DELETE FROM orders WHERE id = {}", "UPDATE orders SET v = '-' WHERE id = {}"]
)
def test_no_change_is_lost_when_the_primary_key_moves_to_another_column_in_mid_snapshot(
    postgres: PostgresServer, statement: str, row: str
) -> None:
    with query(postgres, *KEYED, maxRowsPerTrigger="3", parallelism="1") as orders:
        orders.until_rows(3)
        orders.execute(MOVED, statement.format(row))
        with pytest.raises(SplitReadError, match=r"public\.orders by v, and the chunks .* by id") as refused:
            orders.read_all()
        assert (refused.value.remedy or "").startswith(START_AGAIN)


DELETED = ("DELETE FROM orders WHERE id = 1", "DELETE FROM orders WHERE id = 9")


@pytest.mark.parametrize(
    "statements",
    [[*DELETED, MOVED], ["ALTER TABLE orders REPLICA IDENTITY FULL", MOVED, *DELETED]],
    ids=["before it moves", "of whole rows"],
)
def test_a_key_that_moves_in_mid_snapshot_does_no_harm_to_deletes_whose_log_has_the_former_key(
    postgres: PostgresServer, statements: list[str]
) -> None:
    with query(postgres, *KEYED, maxRowsPerTrigger="3", parallelism="1") as orders:
        orders.until_rows(3)
        orders.execute(*statements)
        orders.read_all()
        orders.check_copy()


def test_a_key_that_is_widened_while_bounds_are_searched_has_ascending_bounds(shop: FaultyShop) -> None:
    shop.execute("CREATE TABLE codes (id varchar(2) PRIMARY KEY)")
    (table,) = find_tables(shop.control, table_patterns("public.codes"))
    shop.execute(
        "ALTER TABLE codes ALTER id TYPE varchar(9)",
        "INSERT INTO codes SELECT 'a1' || i FROM generate_series(1000, 1009) i",
    )
    times = iter(range(9))
    found = cuts(
        shop.control, [(table.table, table.key, None)], rows=4, filter_sql=None,
        has_time=lambda: next(times, None) is not None,
    )  # fmt: skip
    assert [cut.bounds for cut in found] == [((("a11004",), 4), (("a11008",), 4))]


@pytest.mark.parametrize(
    ("change", "now"), [("RENAME id TO number", "missing"), ("ALTER id TYPE text", "text")]
)
def test_a_table_whose_key_is_altered_while_it_is_cut_is_refused(
    shop: FaultyShop, change: str, now: str
) -> None:
    (table,) = find_tables(shop.control, table_patterns("orders"))
    shop.execute(f"ALTER TABLE orders {change}")
    uncut = [(table.table, table.key, ("3",))]
    said = f"the column id of table public.orders was integer when .*, and is {now}.* now"
    with pytest.raises(DiscoveryError, match=said):
        list(cuts(shop.control, uncut, rows=4, filter_sql=None, has_time=lambda: True))


@pytest.mark.parametrize("altered", ['text COLLATE "C"', "varchar"])
@pytest.mark.parametrize(("before", "named"), [("int", "integer"), ('text COLLATE "POSIX"', "text")])
def test_rows_of_chunks_whose_key_got_another_order_are_refused(
    postgres: PostgresServer, before: str, named: str, altered: str
) -> None:
    with query(
        postgres,
        f"CREATE TABLE orders (id {before} PRIMARY KEY, v text)",
        "INSERT INTO orders SELECT i, 'v' FROM generate_series(1, 9) i",
        maxRowsPerTrigger="3",
        parallelism="1",
    ) as orders:
        orders.until_rows(3)
        orders.execute(f"ALTER TABLE orders ALTER id TYPE {altered}")
        with pytest.raises(SplitReadError, match=rf"id of table public\.orders was {named}.*, and is "):
            orders.read_all()


@pytest.mark.parametrize("read", [3, 9])
@pytest.mark.parametrize(
    ("statements", "now"),
    [
        (["ALTER TYPE size RENAME VALUE 'z' TO 'Z'"], "is 'Z' now"),
        # Each text is still a value, with another place in the order.
        ([f"ALTER TYPE size RENAME VALUE {value}" for value in ("'z' TO '-'", "'r' TO 'z'", "'-' TO 'r'")],
         "is 'r' now"),
        (["ALTER TYPE size RENAME TO old_size",
          "CREATE TYPE size AS ENUM ('r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z')",
          "ALTER TABLE orders ALTER id TYPE size USING id::text::size", "DROP TYPE old_size"],
         "no longer exists"),
    ],
    ids=["renamed", "swapped", "replaced"],
)  # fmt: skip
def test_a_key_whose_enum_is_altered_before_the_snapshot_is_complete_is_refused(
    postgres: PostgresServer, statements: list[str], now: str, read: int
) -> None:
    with query(
        postgres,
        "CREATE TYPE size AS ENUM ('z', 'y', 'x', 'w', 'v', 'u', 't', 's', 'r')",
        "CREATE TABLE orders (id size PRIMARY KEY, v text)",
        "INSERT INTO orders SELECT unnest(enum_range(NULL::size)), 'v'",
        maxRowsPerTrigger="3",
        parallelism="1",
    ) as orders:
        orders.until_rows(3)
        orders.execute("ALTER TYPE size ADD VALUE 'new' BEFORE 'y'", "UPDATE orders SET v = 'w'")
        orders.until_rows(read)
        orders.execute(*statements)
        with pytest.raises(SplitReadError, match=rf"the value 'z' of the enum size, .* id, {now}") as refused:
            orders.read_all()
        assert (refused.value.remedy or "").startswith(START_AGAIN)


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER DATABASE {name} SET search_path = app"],
        ["ALTER DATABASE {name} SET search_path = ''"],
        ["CREATE TYPE app.size AS ENUM ('r')", "ALTER DATABASE {name} SET search_path = app, public"],
        ["ALTER TYPE size SET SCHEMA app", 'ALTER TYPE app.size RENAME TO "Its %size"'],
    ],
    ids=["another search_path", "empty search_path", "another type of the name", "another name and schema"],
)
def test_the_type_of_a_key_is_found_whatever_its_name_is_by_now(
    postgres: PostgresServer, statements: list[str]
) -> None:
    with query(
        postgres,
        "CREATE SCHEMA app",
        "CREATE TYPE size AS ENUM ('z', 'y', 'x', 'w', 'v', 'u', 't', 's', 'r')",
        "CREATE TABLE orders (id size PRIMARY KEY, v text)",
        "INSERT INTO orders SELECT unnest(enum_range(NULL::size)), 'v'",
        maxRowsPerTrigger="3",
        parallelism="1",
    ) as orders:
        orders.until_rows(3)
        orders.execute(*(statement.format(name=orders.name) for statement in statements))
        orders.write("UPDATE orders SET v = 'w' WHERE id IN ('z', 'w', 'r')")
        orders.check_copy()


def test_the_chunk_of_a_key_that_got_more_digits_is_found(postgres: PostgresServer) -> None:
    with query(
        postgres,
        "CREATE TABLE orders (id numeric(4, 1) PRIMARY KEY, v text)",
        "INSERT INTO orders SELECT i, 'v' FROM generate_series(1, 9) i",
        maxRowsPerTrigger="3",
        parallelism="1",
    ) as orders:
        orders.until_rows(3)
        orders.execute(
            "ALTER TABLE orders ALTER id TYPE numeric(6, 3)", "INSERT INTO orders VALUES (3.96, 'new')"
        )
        orders.read_all()
        assert ("c", "3.960") in orders.ops()


def test_old_rows_get_more_columns_when_the_replica_identity_becomes_full(shop: FaultyShop) -> None:
    engine = shop.read()
    assert engine.schema.field("_before").type == pa.struct([("id", pa.int32())])
    shop.execute("ALTER TABLE orders REPLICA IDENTITY FULL", "DELETE FROM orders WHERE id = 1")
    engine = grown(shop, engine)
    assert values(engine, "_before") == [({"id": 1, "name": "n1"},)]


def test_a_column_whose_name_differs_only_in_case_is_not_silently_null(shop: FaultyShop) -> None:
    schema = pa.schema([("ID", pa.int32()), ("_op", pa.string())])
    with pytest.raises(SplitReadError, match=r"the schema has a column ID, but table public\.orders has id"):
        caught_up(shop.engine(schema))


def test_a_new_column_that_a_dataframe_cannot_distinguish_from_another_is_refused(shop: FaultyShop) -> None:
    engine = shop.read()
    shop.execute('ALTER TABLE orders ADD "Name" text', "INSERT INTO orders VALUES (11, 'x', 'y')")
    with pytest.raises(SplitReadError, match="cannot have together with name"):
        caught_up(engine)


def test_an_unchanged_large_value_stays_marked_when_a_column_is_added(shop: FaultyShop) -> None:
    shop.execute("ALTER TABLE orders ALTER name SET STORAGE EXTERNAL")
    shop.execute("UPDATE orders SET name = repeat('x', 5000) WHERE id = 1")
    engine = shop.read()
    shop.execute("ALTER TABLE orders ADD price int", "UPDATE orders SET price = 5 WHERE id = 1")
    engine = grown(shop, engine)
    row = dict(zip(engine.schema.names, engine.rows[-1], strict=True))
    assert (row["id"], row["name"], row["_unchanged"], row["price"]) == (1, None, ["name"], 5)


def test_the_large_value_of_a_row_whose_key_was_renamed_in_its_enum_stays_marked(shop: FaultyShop) -> None:
    shop.execute(
        "CREATE TYPE size AS ENUM ('s', 'm')",
        "CREATE TABLE boxes (id size PRIMARY KEY, name text STORAGE EXTERNAL, price int)",
        "INSERT INTO boxes SELECT unnest(enum_range(NULL::size)), repeat('x', 5000)",
    )
    engine = caught_up(shop.engine(tables="public.boxes", unchangedValues="read"))
    shop.execute("UPDATE boxes SET price = 5", "ALTER TYPE size RENAME VALUE 'm' TO 'M'")
    caught_up(engine)
    assert values(engine, "id", "name", "_unchanged") == [("s", "x" * 5000, None), ("m", None, ["name"])]


def test_generated_columns_are_in_neither_chunks_nor_changes(shop: FaultyShop) -> None:
    shop.execute("ALTER TABLE orders ADD twice int GENERATED ALWAYS AS (id * 2) STORED")
    engine = shop.read()
    assert "twice" not in engine.schema.names
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    caught_up(engine)
    assert values(engine, "id") == [(11,)]


def test_values_of_a_dropped_type_are_the_texts_in_the_log(shop: FaultyShop) -> None:
    shop.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')", "ALTER TABLE orders ADD mood mood")
    engine = shop.read()
    shop.execute("INSERT INTO orders VALUES (11, 'x', 'happy')", "ALTER TABLE orders DROP mood")
    shop.execute("DROP TYPE mood", "INSERT INTO orders VALUES (12, 'y')")
    caught_up(engine)
    assert values(engine, "id", "mood") == [(11, "happy"), (12, None)]


def test_values_of_a_dropped_type_that_are_not_text_are_refused(shop: FaultyShop) -> None:
    shop.execute("CREATE DOMAIN price AS int", "ALTER TABLE orders ADD price price")
    engine = shop.read()
    shop.execute(
        "INSERT INTO orders VALUES (11, 'x', 5)", "ALTER TABLE orders DROP price", "DROP DOMAIN price"
    )
    with pytest.raises(
        SplitReadError, match=r"column price of public\.orders has a type that has since been dropped"
    ):
        caught_up(engine)


@pytest.mark.parametrize("change_format", ["envelope", "debezium"])
def test_in_json_formats_values_of_a_dropped_type_are_strings(
    shop: FaultyShop, change_format: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN price AS int",
        "ALTER TABLE orders ADD mood mood, ADD price price",
    )
    engine = caught_up(shop.engine(changeFormat=change_format, snapshot="never"))
    shop.execute(
        "INSERT INTO orders VALUES (11, 'x', 'sad', 5)",
        "INSERT INTO orders VALUES (12, 'x', 'sad', 6)",
        "CREATE TYPE mood_2 AS ENUM ('sad', 'happy', 'calm')",
        "ALTER TABLE orders ALTER mood TYPE mood_2 USING mood::text::mood_2, ALTER price TYPE int",
        "DROP TYPE mood",
        "DROP DOMAIN price",
        "INSERT INTO orders VALUES (13, 'x', 'calm', 7)",
    )
    caught_up(engine)
    name = "after" if change_format == "envelope" else "value"
    found = [json.loads(row[engine.schema.names.index(name)]) for row in engine.rows]
    rows = found if change_format == "envelope" else [value["after"] for value in found]
    assert [(row["id"], row["mood"], row["price"]) for row in rows] == [
        (11, "sad", "5"), (12, "sad", "6"), (13, "calm", 7),
    ]  # fmt: skip
    said = [record.getMessage() for record in caplog.records if "has since been dropped" in record.message]
    assert ["column mood" in text for text in said] == [True, False]
    assert all("its values are strings" in text for text in said)


SHOP = (
    "CREATE TABLE orders (id int PRIMARY KEY, v text, note text, place int)",
    "ALTER TABLE orders ALTER note SET STORAGE EXTERNAL",
    "INSERT INTO orders SELECT i, 'old', repeat('n', 5000) FROM generate_series(1, 3) i",
)
COLUMNS = ("id", "v", "note")
NOTE = "n" * 5000


def test_keys_that_a_constraint_of_their_domain_does_not_check_are_read_and_followed(
    postgres: PostgresServer,
) -> None:
    with query(
        postgres,
        "CREATE DOMAIN code AS text",
        "CREATE DOMAIN number AS code",
        "CREATE TABLE orders (id number PRIMARY KEY, v text, note text STORAGE EXTERNAL)",
        "INSERT INTO orders SELECT 'k' || i, 'old', repeat('n', 5000) FROM generate_series(1, 9) i",
        columns=COLUMNS,
        maxRowsPerTrigger="3",
        parallelism="1",
        unchangedValues="read",
    ) as orders:
        orders.until_rows(3)
        orders.execute("UPDATE orders SET v = 'new'", "ALTER DOMAIN code ADD CHECK (value ~ '^K') NOT VALID")
        orders.read_all()
        orders.check_copy()


def last_change(orders: Query) -> tuple[object, ...]:
    """Return the id, v, note, operation and unchanged columns of the newest change."""
    change = orders.changes[-1]
    return tuple(change[name] for name in (*COLUMNS, "_op", "_unchanged"))


def test_values_of_a_renamed_table_are_read_under_its_new_name(postgres: PostgresServer) -> None:
    with query(postgres, *SHOP, tables="public.*", columns=COLUMNS, unchangedValues="read") as orders:
        orders.read_all()
        orders.write("UPDATE orders SET v = 'new' WHERE id = 2", "ALTER TABLE orders RENAME TO sales")
        assert last_change(orders) == ("2", "new", NOTE, "u", None)


def test_values_are_not_read_from_another_table_that_has_taken_the_name(postgres: PostgresServer) -> None:
    read = {"unchangedValues": "read", "onDataLoss": "report"}
    with query(postgres, *SHOP, tables="public.*", columns=COLUMNS, **read) as orders:
        orders.read_all()
        orders.write(
            "UPDATE orders SET v = 'new' WHERE id = 2",
            "ALTER TABLE orders RENAME TO sales",
            "CREATE TABLE orders (id int PRIMARY KEY, v text, note text)",
            "INSERT INTO orders VALUES (2, 'other', 'of another table')",
        )
        of_two = [change for change in orders.changes if change["id"] == "2" and change["v"] == "new"]
        assert [(change["_op"], change["note"]) for change in of_two] == [("u", NOTE)]


@pytest.mark.parametrize(
    "later",
    [
        "ALTER TABLE orders DROP COLUMN note",
        "ALTER TABLE orders RENAME COLUMN note TO remark",
        "ALTER TABLE orders ALTER note TYPE bytea USING note::bytea",
        "ALTER TABLE orders RENAME COLUMN id TO number",
        "ALTER TABLE orders ALTER id TYPE text",
        "DROP TABLE orders",
    ],
)
def test_a_value_that_the_table_no_longer_has_stays_unchanged(postgres: PostgresServer, later: str) -> None:
    with query(postgres, *SHOP, tables="public.*", columns=COLUMNS, unchangedValues="read") as orders:
        orders.read_all()
        orders.execute("CREATE TABLE other (id int PRIMARY KEY)", "UPDATE orders SET v = 'new' WHERE id = 2")
        orders.write(later)
        assert last_change(orders) == ("2", "new", None, "u", ["note"])


def test_the_values_of_a_new_key_are_read_from_a_renamed_table(postgres: PostgresServer) -> None:
    with query(postgres, *SHOP, tables="public.*", columns=COLUMNS) as orders:
        orders.read_all()
        orders.write("UPDATE orders SET id = 20 WHERE id = 2", "ALTER TABLE orders RENAME TO sales")
        assert last_change(orders) == ("20", "old", NOTE, "c", None)


def test_values_are_not_read_from_rows_of_inheriting_tables(postgres: PostgresServer) -> None:
    child = "CREATE TABLE child () INHERITS (orders)"
    with query(postgres, SHOP[0], child, *SHOP[1:], columns=COLUMNS, unchangedValues="read") as orders:
        orders.execute("INSERT INTO child VALUES (2, 'child', 'of the child')")
        orders.read_all()
        orders.execute("UPDATE child SET v = 'not published'")
        orders.write("UPDATE ONLY orders SET v = 'new' WHERE id = 2")
        assert last_change(orders) == ("2", "new", NOTE, "u", None)


@pytest.mark.parametrize(("first", "then"), [("envelope", "typed"), ("typed", "envelope")])
def test_another_change_format_is_refused_with_a_way_out(shop: FaultyShop, first: str, then: str) -> None:
    engine = shop.read(changeFormat=first)
    shop.execute("DELETE FROM orders")
    other = shop.engine(after=engine, changeFormat=then)
    with pytest.raises(SchemaError, match="start a query with a new checkpoint and stateLocation"):
        caught_up(other)
