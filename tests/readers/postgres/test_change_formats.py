"""Tables of different shapes as JSON, from the snapshot and the log of a real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flip27_source.enumerators.postgres.schema import DEBEZIUM_SCHEMA, ENVELOPE_SCHEMA
from flip27_source.enumerators.postgres.split import TableChunk, TableName
from flip27_source.readers.postgres.chunk_rows import chunk_texts, open_chunk
from flip27_source.readers.postgres.debezium_rows import DebeziumRows
from flip27_source.readers.postgres.delivered_changes import rows_of_chunk
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.postgres.database import TestedDatabase, new_database
from tests.postgres_server import PostgresServer

TABLES = """
CREATE TABLE orders (id int8 PRIMARY KEY, price numeric(8,2), note text, tags text[]);
ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
CREATE TABLE "Parts, all" (
    model text, number int2, weight float8, seen timestamptz, PRIMARY KEY (number, model)
);
ALTER TABLE "Parts, all" REPLICA IDENTITY FULL;
CREATE TABLE readings (at timestamp(3), bytes bytea, state bit(3));
ALTER TABLE readings REPLICA IDENTITY NOTHING;
"""
LONG = "".join(chr(97 + number % 26) for number in range(5000))


HOSTILE = {
    "DateStyle": "German", "TimeZone": "Asia/Kolkata", "IntervalStyle": "iso_8601",
    "extra_float_digits": "-3", "bytea_output": "escape",
}  # fmt: skip
"""Settings with which other sessions of the database write texts that nobody reads back unchanged."""


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[TestedDatabase]:
    """A database with three tables, whose sessions have odd settings unless they set their own."""
    with new_database(postgres, TABLES) as database:
        database.execute(*(f"ALTER DATABASE {database.name} SET {n} = '{v}'" for n, v in HOSTILE.items()))
        yield database


@contextmanager
def running(
    database: TestedDatabase, location: Path, **options: str
) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Open a query; yield a function that returns the new rows, by name and in the order of the log."""
    given = {"tables": "public.*", "stateLocation": str(location), **options}
    engine = MicroBatchEngine(database.server.options(database.name, **given))
    done = 0

    def new_rows() -> list[dict[str, Any]]:
        nonlocal done
        engine.restart(available_now=True)
        engine.process_all_available()
        rows = [dict(zip(engine.schema.names, row, strict=True)) for row in engine.rows[done:]]
        done += len(rows)
        return sorted(rows, key=lambda row: (row["_lsn"], row["_seq"]))

    try:
        yield new_rows
    finally:
        engine.stop()


def short(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def write(connection: psycopg.Connection, order: int, part: int) -> None:
    moment = "2024-01-31 12:00:00.5+02"
    with connection.transaction():
        connection.execute("INSERT INTO orders VALUES (%s, 1.50, %s, '{a,NULL}')", [order, LONG])
        connection.execute("""INSERT INTO "Parts, all" VALUES ('m"1', %s, 'NaN', %s)""", [part, moment])
        connection.execute("INSERT INTO readings VALUES ('2024-01-31 12:00:00.25', '\\x00ff', '101')")


def write_and_change(connection: psycopg.Connection) -> None:
    """Insert the rows of the snapshot again with other keys, so that the log has them, and change them."""
    write(connection, 2, 8)
    with connection.transaction():
        connection.execute("UPDATE orders SET price = 2 WHERE id = 2")
        connection.execute("""UPDATE "Parts, all" SET weight = 0.1 WHERE number = 8""")
    with connection.transaction():
        connection.execute("UPDATE orders SET id = 3, note = '' WHERE id = 2")
        connection.execute("""DELETE FROM "Parts, all" WHERE number = 8""")
        connection.execute("TRUNCATE readings")


def test_tables_of_different_shapes_are_read_as_envelopes(database: TestedDatabase, tmp_path: Path) -> None:
    connection = database.control
    write(connection, 1, 7)
    with running(database, tmp_path, changeFormat="envelope") as new_rows:
        first = new_rows()
        write_and_change(connection)
        second = new_rows()
    assert list(first[0]) == ENVELOPE_SCHEMA.names
    order = '{{"id":{0},"price":"{1}","note":"' + LONG + '","tags":["a",null]}}'
    part = '{{"model":"m\\"1","number":{0},"weight":{1},"seen":"2024-01-31 10:00:00.5+00"}}'
    part_key = '{{"model":"m\\"1","number":{0}}}'
    reading = '{"at":"2024-01-31 12:00:00.25","bytes":"AP8=","state":"101"}'
    names = ("table", "op", "key", "before", "after", "unchanged")
    assert sorted((short(row, *names) for row in first), key=lambda row: row[0]) == [
        ("public.Parts, all", "r", part_key.format(7), None, part.format(7, '"NaN"'), None),
        ("public.orders", "r", '{"id":1}', None, order.format(1, "1.50"), None),
        ("public.readings", "r", None, None, reading, None),
    ]
    new, old = part.format(8, "0.1"), part.format(8, '"NaN"')
    moved = '{"id":3,"price":"2.00","note":"","tags":["a",null]}'
    assert [short(row, *names) for row in second] == [
        ("public.orders", "c", '{"id":2}', None, order.format(2, "1.50"), None),
        ("public.Parts, all", "c", part_key.format(8), None, old, None),
        ("public.readings", "c", None, None, reading, None),
        ("public.orders", "u", '{"id":2}', None, '{"id":2,"price":"2.00","tags":["a",null]}', ["note"]),
        ("public.Parts, all", "u", part_key.format(8), old, new, None),
        ("public.orders", "d", '{"id":2}', '{"id":2}', None, None),
        ("public.orders", "c", '{"id":3}', '{"id":2}', moved, None),
        ("public.Parts, all", "d", part_key.format(8), new, None, None),
        ("public.readings", "t", None, None, None, None),
    ]
    assert [short(row, "_seq") for row in second] == [(1,), (2,), (3,), (1,), (2,), (1,), (1,), (2,), (3,)]


def test_tables_of_different_shapes_are_read_as_debezium_values(
    database: TestedDatabase, tmp_path: Path
) -> None:
    connection = database.control
    write(connection, 1, 7)
    with running(database, tmp_path, changeFormat="debezium", topicPrefix="live") as new_rows:
        first = new_rows()
        write_and_change(connection)
        second = new_rows()
    assert list(first[0]) == DEBEZIUM_SCHEMA.names
    order = {"id": 1, "price": "1.50", "note": LONG, "tags": ["a", None]}
    part = {"model": 'm"1', "number": 7, "weight": "NaN", "seen": "2024-01-31T10:00:00.500000Z"}
    reading = {"at": 1_706_702_400_250, "bytes": "AP8=", "state": "BQ=="}
    found = {row["table"]: json.loads(row["value"]) for row in first}
    assert {table: value["after"] for table, value in found.items()} == {
        "public.orders": order,
        "public.Parts, all": part,
        "public.readings": reading,
    }
    source = found["public.Parts, all"]["source"]
    assert short(source, "name", "snapshot", "db", "schema", "table") == (
        "live", "true", database.name, "public", "Parts, all",
    )  # fmt: skip

    hidden = "__debezium_unavailable_value"
    values = [json.loads(row["value"]) for row in second]
    assert [short(value["source"], "table") + short(value, "op", "before", "after") for value in values] == [
        ("orders", "c", None, order | {"id": 2}),
        ("Parts, all", "c", None, part | {"number": 8}),
        ("readings", "c", None, reading),
        ("orders", "u", None, order | {"id": 2, "price": "2.00", "note": hidden}),
        ("Parts, all", "u", part | {"number": 8}, part | {"number": 8, "weight": 0.1}),
        ("orders", "d", {"id": 2, "price": None, "note": None, "tags": None}, None),
        ("orders", "c", None, order | {"id": 3, "price": "2.00", "note": ""}),
        ("Parts, all", "d", part | {"number": 8, "weight": 0.1}, None),
        ("readings", "t", None, None),
    ]
    part_key = '{"model":"m\\"1","number":8}'
    assert [row["key"] for row in second[:4]] == ['{"id":2}', part_key, None, '{"id":2}']
    for row, value in zip(second, values, strict=True):
        assert value["source"]["lsn"] == row["_lsn"]
        assert json.loads(value["source"]["sequence"]) == [str(row["_lsn"]), str(row["_seq"])]
        assert value["source"]["txId"] == row["_xid"] & 0xFFFFFFFF


def test_every_type_has_the_same_json_in_the_snapshot_and_in_the_log(
    database: TestedDatabase, tmp_path: Path
) -> None:
    connection = database.control
    connection.execute("CREATE EXTENSION IF NOT EXISTS hstore; CREATE EXTENSION IF NOT EXISTS ltree")
    connection.execute("CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN score AS numeric(5,1)")
    values = {
        "bool": "true", "int2": "-5", "oid": "4294967295", "float4": "0.1", "float8": "'-Infinity'",
        "numeric": "'NaN'", "numeric(20,3)": "12345678901234567.125", "score": "7", "money": "1234.5",
        "bytea": "'\\x00ff'", "date": "'0044-03-15 BC'", "time(2)": "'24:00:00'",
        "timetz": "'01:02:03.4+05:30'", "timestamp": "'infinity'", "timestamp(0)": "'2024-02-29 23:59:59.6'",
        "timestamptz": "'9999-12-31 23:00-05'",
        "interval": "'1 year -2 days 3.5 s'", "json": """'{"a" : [1, "\\u00fc\\n"]}'""", "jsonb": "'[null]'",
        "mood": "'happy'", "varchar(64)": "'NULL'",
        "hstore": """'a=>1, "b\\"c"=>NULL'""", "point": "'(1.5,-2)'", "varbit": "'101'",
        "tsvector": "'b a'", "ltree": "'Top.Science'",
        "int4range": "'[1,5)'", "inet": "'::1/128'", "uuid": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        "int8[]": "'{{1,2},{3,NULL}}'", "ltree[]": "'{Top.Science,NULL}'",
        "mood[]": "'{sad,NULL}'",
        "jsonb[]": """array['{"a": "\\""}'::jsonb]""",
        "timestamptz[]": "'{2024-01-31 12:00+00,-infinity}'", "text": "E'\\x01 \\\\ \" \\u2028 ü'",
    }  # fmt: skip
    columns = ", ".join(f'"c{n}" {kind}' for n, kind in enumerate(values))
    connection.execute(f"CREATE TABLE every (id int PRIMARY KEY, {columns})")
    row = f"INSERT INTO every VALUES (%s, {', '.join(values.values())})"
    nulls = f"INSERT INTO every VALUES (%s{', NULL' * len(values)})"

    for change_format, column in (("envelope", "after"), ("debezium", "value")):
        connection.execute("TRUNCATE every")
        connection.execute(row.replace("%s", "1"))
        connection.execute(nulls.replace("%s", "2"))
        given = {"tables": "public.every", "slotName": f"every_{change_format}"}
        location = tmp_path / change_format
        with running(database, location, changeFormat=change_format, **given) as new_rows:
            first = new_rows()
            connection.execute(row.replace("%s", "3"))
            connection.execute(nulls.replace("%s", "4"))
            second = new_rows()

        rows = [json.loads(found[column]) for found in [*first, *second]]
        rows = [row["after"] if column == "value" else row for row in rows]
        seen = {row["id"]: row for row in rows}
        assert sorted(seen) == [1, 2, 3, 4]
        assert seen[1] | {"id": 3} == seen[3]
        assert seen[2] | {"id": 4} == seen[4]
        assert None not in seen[1].values()
        assert set(seen[2].values()) == {2, None}


def test_types_of_the_same_name_in_two_schemas_are_different_types(
    database: TestedDatabase, tmp_path: Path
) -> None:
    database.execute(
        "CREATE SCHEMA art",
        "CREATE TYPE public.kind AS ENUM ('oil', 'ink'); CREATE DOMAIN art.kind AS int",
        """CREATE TYPE art."Size.of" AS ENUM ('small', 'Large'); CREATE DOMAIN public."Size.of" AS int""",
        """CREATE TABLE pictures (id int PRIMARY KEY, kind public.kind, size art."Size.of")""",
        """CREATE TABLE art.pictures (id int PRIMARY KEY, kind art.kind, size public."Size.of")""",
    )
    rows = ["INSERT INTO pictures VALUES (%s, 'ink', 'Large')", "INSERT INTO art.pictures VALUES (%s, 7, 8)"]
    for change_format, column in (("envelope", "after"), ("debezium", "value")):
        database.execute("TRUNCATE pictures, art.pictures", *(row % 1 for row in rows))
        given = {"tables": "pictures, art.pictures", "slotName": f"pictures_{change_format}"}
        with running(database, tmp_path / change_format, changeFormat=change_format, **given) as new_rows:
            first = new_rows()
            database.execute(*(row % 2 for row in rows))
            found = [(row["table"], json.loads(row[column])) for row in [*first, *new_rows()]]
        after = [(table, row.get("after", row)) for table, row in found]
        assert sorted(after, key=lambda one: (one[0], one[1]["id"])) == [
            ("art.pictures", {"id": 1, "kind": 7, "size": 8}),
            ("art.pictures", {"id": 2, "kind": 7, "size": 8}),
            ("public.pictures", {"id": 1, "kind": "ink", "size": "Large"}),
            ("public.pictures", {"id": 2, "kind": "ink", "size": "Large"}),
        ]


@pytest.mark.parametrize("key", ["uuid DEFAULT gen_random_uuid()", "serial"])
def test_unchanged_values_of_any_type_are_read_from_the_table(
    database: TestedDatabase, tmp_path: Path, key: str
) -> None:
    database.execute("CREATE EXTENSION hstore")
    large = {
        "text": "repeat('long', 2000)", "jsonb": """('{"a": "' || repeat('j', 5000) || '"}')::jsonb""",
        "hstore": "hstore('a', repeat('h', 5000))", "text[]": "array_fill('t\"'::text, ARRAY[3000])",
        "int[]": "array_fill(7, ARRAY[3000])", "bytea": "decode(repeat('00ff', 3000), 'hex')",
        "numeric": "repeat('12345678', 1000)::numeric", "char(3000)": "repeat('blank', 500)",
    }  # fmt: skip
    columns = ", ".join(f"c{number} {kind} STORAGE EXTERNAL" for number, kind in enumerate(large))
    database.execute(
        f"CREATE TABLE large (id {key} PRIMARY KEY, n int, {columns})",
        f"INSERT INTO large VALUES (DEFAULT, 1, {', '.join(large.values())})",
    )
    given = {"tables": "large", "changeFormat": "debezium", "unchangedValues": "read"}
    with running(database, tmp_path, **given) as new_rows:
        (first,) = new_rows()
        database.execute("UPDATE large SET n = 2")
        (second,) = new_rows()
    before, after = (json.loads(row["value"])["after"] for row in (first, second))
    assert after == before | {"n": 2}
    assert len(second["value"]) > 50_000


def test_a_chunk_of_narrow_rows_is_read_in_blocks_that_stay_small_as_json(database: TestedDatabase) -> None:
    connection = database.control
    connection.execute(
        "CREATE TABLE narrow AS SELECT (i %% 10)::int2 AS n FROM generate_series(1, %s) i", [300_000]
    )
    oid = database.one("SELECT 'narrow'::regclass::oid::int8")
    table = TableName(oid=oid, schema="public", name="narrow")
    chunk = TableChunk(table=table, key=(), lower=None, upper=None, lsn=0, horizon=0)
    rows = DebeziumRows(DEBEZIUM_SCHEMA, database="d", topic_prefix="p")
    opened = open_chunk(connection, chunk, timeout_s=0)
    types = {column.name: column.type for column in opened.columns}
    batches = [
        rows.batch(rows_of_chunk(chunk.table, texts, rows=count, lsn=0), types, key=[])
        for count, texts in chunk_texts(connection, opened, rows.columns_read, None)
    ]
    assert sum(batch.num_rows for batch in batches) == 300_000
    assert max(batch.nbytes for batch in batches) < 100 << 20
    digits = [json.loads(v)["after"]["n"] for batch in batches for v in batch["value"].to_pylist()[-3:]]
    assert digits == [0, 1, 2, 2, 3, 4, 8, 9, 0]
