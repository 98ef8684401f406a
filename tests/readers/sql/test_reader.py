"""The sql reader: columns and their types in every database, and what cannot be read."""

from __future__ import annotations

import datetime as dt
import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from flip27_source.errors import (
    DiscoveryError,
    Flip27Error,
    NewColumnsError,
    OptionError,
    SchemaError,
    SplitReadError,
)
from flip27_source.testing import MicroBatchEngine, SourceUnderTest, run
from tests.enumerators.sql.shops import DAY, ORDERS, Shop, batches_of, common, of_postgres, polled
from tests.postgres_server import PostgresServer

Engine = Callable[..., MicroBatchEngine]

UTC_TIMESTAMP = pa.timestamp("us", "UTC")


def rows(options: dict[str, str], schema: pa.Schema | None = None) -> list[dict[str, Any]]:
    return [row for batch in run(options, schema=schema) for row in batch.to_pylist()]


def schema_of(options: dict[str, str]) -> pa.Schema:
    return SourceUnderTest(options=options).arrow_schema()


def column(options: dict[str, str], kind: pa.DataType, name: str = "value") -> list[Any]:
    found = rows(options, pa.schema([("id", pa.int64()), (name, kind)]))
    return [row[name] for row in found]


def test_columns_chosen_by_the_user_are_read_and_cast(shop: Shop) -> None:
    shop.insert(ORDERS[:2])
    schema = pa.schema([("AMOUNT", pa.decimal128(6, 2)), ("updated_at", UTC_TIMESTAMP), ("id", pa.string())])
    at = dt.datetime(2024, 5, 1, 8, tzinfo=dt.UTC)
    assert rows(shop.options, schema) == [
        {"AMOUNT": Decimal("7.50"), "updated_at": at, "id": "1"},
        {"AMOUNT": Decimal("2.00"), "updated_at": at, "id": "2"},
    ]


def test_the_schema_of_an_empty_table_is_found_too(shop: Shop) -> None:
    time = pa.string() if "shop.db" in shop.options["uri"] else pa.timestamp("us")
    found = schema_of(shop.options)
    assert found == pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("updated_at", time)])


def test_rows_are_in_cursor_order_even_if_the_cursor_is_read_as_text(shop: Shop) -> None:
    shop.insert([(number, 1.0, f"{DAY} 08:00:00") for number in (9, 10, 11)])
    schema = pa.schema([("id", pa.string())])
    assert [row["id"] for row in rows(shop.with_options(cursorColumns="id"), schema)] == ["9", "10", "11"]


def test_with_append_only_a_row_added_to_or_deleted_from_a_range_stops_the_query(
    shop: Shop, flip27_engine: Engine
) -> None:
    shop.insert(ORDERS)
    options = shop.with_options(appendOnly="true", partitionRows="3", maxRowsPerTrigger="3")
    engine = flip27_engine(options)
    assert engine.run_batch() is not None
    shop.execute("DELETE FROM orders WHERE id = 5")
    with pytest.raises(SplitReadError, match=r"has 2 rows; it had 3 when it was found.*appendOnly"):
        engine.run_batch()


def test_a_row_that_moves_after_its_range_was_planned_is_read_with_its_new_cursor(
    shop: Shop, flip27_engine: Engine
) -> None:
    shop.insert(ORDERS)
    engine = flip27_engine(shop.with_options(partitionRows="3", maxRowsPerTrigger="3"))
    assert engine.run_batch() is not None
    shop.execute(f"UPDATE orders SET updated_at = '{DAY} 12:00:00' WHERE id = 5")
    assert polled(engine) == [[4, 6], [5]]


def test_a_dropped_column_is_named(shop: Shop, flip27_engine: Engine) -> None:
    shop.insert(ORDERS)
    engine = flip27_engine(SourceUnderTest(options=shop.options, schema=schema_of(shop.options)))
    batches_of(engine)
    shop.execute("ALTER TABLE orders DROP COLUMN amount")
    shop.execute(f"INSERT INTO orders (id, updated_at) VALUES (7, '{DAY} 12:00:00')")
    with pytest.raises(SplitReadError, match="table orders has no column 'amount'; it has id, updated_at"):
        polled(engine)


def test_a_dropped_cursor_column_is_named(shop: Shop, flip27_engine: Engine) -> None:
    shop.insert(ORDERS)
    engine = flip27_engine(shop.with_options(discoveryRetries="0"))
    batches_of(engine)
    shop.execute("ALTER TABLE orders RENAME COLUMN updated_at TO changed_at")
    with pytest.raises(DiscoveryError, match="updated_at"):
        polled(engine)


def test_a_new_column_is_recorded_and_read_after_a_restart(
    shop: Shop, flip27_engine: Engine, tmp_path: Path
) -> None:
    shop.insert(ORDERS[:2])
    options = shop.with_options(stateLocation=str(tmp_path / "state"), schemaEvolutionMode="addNewColumns")
    engine = flip27_engine(options)
    batches_of(engine)
    shop.execute("ALTER TABLE orders ADD COLUMN note VARCHAR(9)")
    shop.execute(f"INSERT INTO orders VALUES (7, 1.0, '{DAY} 12:00:00', 'new')")
    with pytest.raises(NewColumnsError, match=r"table orders has columns .*: note string"):
        polled(engine)
    assert rows(options)[-1]["note"] == "new"


@pytest.mark.parametrize("with_adbc", [True, False], ids=["adbc", "sqlalchemy"])
def test_a_new_column_that_differs_from_another_one_only_in_case_stops_the_query(
    postgres: PostgresServer, flip27_engine: Engine, with_adbc: bool
) -> None:
    with postgres.database() as name, postgres.connect(name) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id, 'a' AS note")
        more = {"schemaEvolutionMode": "addNewColumns", "onSplitError": "ignore"}
        options = of_postgres(postgres, name, with_adbc=with_adbc, table="t", cursorColumns="id", **more)
        engine = flip27_engine(options, schema=schema_of(options))
        assert batches_of(engine) == [[1]]
        connection.execute('ALTER TABLE t ADD COLUMN "Note" text')
        connection.execute("INSERT INTO t VALUES (2, 'b', 'B')")
        with pytest.raises(
            OptionError, match="table t has the columns note and Note, which Spark takes for one"
        ):
            polled(engine)
        engine.restart(options={"schemaEvolutionMode": "none"})
        assert batches_of(engine) == [[2]]


@pytest.fixture
def wide(postgres: PostgresServer) -> Iterator[Callable[..., dict[str, str]]]:
    """Yield a function that creates a PostgreSQL table with a column of a type and a value in it.

    The function returns the options of a query that reads the table.
    """
    with postgres.database() as name, postgres.connect(name) as connection:
        number = iter(range(100))

        def made(kind: str, value: str, **more: Any) -> dict[str, str]:
            table = f"t{next(number)}"
            connection.execute(f"CREATE TABLE {table} (id int, value {kind})")
            connection.execute(f"INSERT INTO {table} VALUES (1, {value}), (2, NULL)")
            return of_postgres(postgres, name, table=table, cursorColumns="id", **more)

        yield made


TYPES_OF_POSTGRESQL = [
    ("boolean", "true", pa.bool_(), True),
    ("smallint", "-7", pa.int16(), -7),
    ("int", "7", pa.int32(), 7),
    ("bigint", "9223372036854775807", pa.int64(), 2**63 - 1),
    ("oid", "4294967295", pa.int64(), 2**32 - 1),
    ("real", "1.5", pa.float32(), 1.5),
    ("double precision", "'NaN'", pa.float64(), None),
    ("numeric(10,2)", "12.34", pa.decimal128(10, 2), Decimal("12.34")),
    ("numeric(38,38)", "0.00000000000000000000000000000000000001", pa.decimal128(38, 38), Decimal("1E-38")),
    ("numeric", "123456789012345678901234567890123456789012", pa.string(),
     "123456789012345678901234567890123456789012"),
    ("numeric(4,-2)", "1200", pa.string(), "1200"),
    ("text", "'é'", pa.string(), "é"),
    ("varchar(3)", "'abc'", pa.string(), "abc"),
    ("bytea", r"'\x00ff'", pa.binary(), b"\x00\xff"),
    ("date", "'2024-02-29'", pa.date32(), dt.date(2024, 2, 29)),
    ("timestamp", "'2024-02-29 01:02:03.000004'", pa.timestamp("us"), dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
    ("timestamptz", "'2024-02-29 01:02:03+02'", UTC_TIMESTAMP,
     dt.datetime(2024, 2, 28, 23, 2, 3, tzinfo=dt.UTC)),
    ("time", "'01:02:03'", pa.string(), "01:02:03"),
    ("timetz", "'01:02:03+01'", pa.string(), "01:02:03+01"),
    ("interval", "'1 mon 2 days'", pa.string(), "1 mon 2 days"),
    ("uuid", "'93b617e2-e831-44c0-a82a-0f0a818bcb0e'", pa.string(), "93b617e2-e831-44c0-a82a-0f0a818bcb0e"),
    ("json", "'{\"a\":  1}'", pa.string(), '{"a":  1}'),
    ("jsonb", "'{\"a\":  1}'", pa.string(), '{"a": 1}'),
    ("inet", "'10.0.0.1'", pa.string(), "10.0.0.1"),
    ("macaddr", "'08:00:2b:01:02:03'", pa.string(), "08:00:2b:01:02:03"),
    ("money", "'1.5'", pa.string(), "$1.50"),
    ("bit(3)", "B'101'", pa.string(), "101"),
    ("int4range", "'[1,5)'", pa.string(), "[1,5)"),
    ("pg_lsn", "'0/1'", pa.string(), "0/1"),
    ("int[]", "'{1,NULL}'", pa.list_(pa.int32()), [1, None]),
    ("text[]", "'{a,b}'", pa.list_(pa.string()), ["a", "b"]),
    ("numeric(5,2)[]", "'{1.50}'", pa.string(), "{1.50}"),
    ("uuid[]", "'{93b617e2-e831-44c0-a82a-0f0a818bcb0e}'", pa.string(),
     "{93b617e2-e831-44c0-a82a-0f0a818bcb0e}"),
    ("oid[]", "'{4294967295}'", pa.string(), "{4294967295}"),
    ("money[]", "'{$1.50}'", pa.string(), "{$1.50}"),
]  # fmt: skip


def test_each_type_of_postgresql_is_read(postgres: PostgresServer) -> None:
    names = [f"c{number}" for number in range(len(TYPES_OF_POSTGRESQL))]
    columns = [f"{name} {kind}" for name, (kind, *_) in zip(names, TYPES_OF_POSTGRESQL, strict=True)]
    values = [value for _, value, _, _ in TYPES_OF_POSTGRESQL]
    with postgres.database() as database, postgres.connect(database) as connection:
        connection.execute(f"CREATE TABLE t (id int, {', '.join(columns)})")
        connection.execute(f"INSERT INTO t VALUES (1, {', '.join(values)})")
        connection.execute("INSERT INTO t VALUES (2)")
        options = of_postgres(postgres, database, table="t", cursorColumns="id")
        schema = schema_of(options)
        first, second = rows(options)
    for name, (kind, _, arrow, found) in zip(names, TYPES_OF_POSTGRESQL, strict=True):
        assert schema.field(name).type == arrow, kind
        assert second[name] is None, kind
        if kind == "double precision":
            assert math.isnan(first[name])
        elif kind == "money":
            assert "1.50" in first[name]
        else:
            assert first[name] == found, kind


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("numeric(10,2)", "12.30", "12.30"),
        ("timestamptz", "'2024-02-29 01:02:03.5+02'", "2024-02-28 23:02:03.5+00"),
        ("date", "'infinity'", "infinity"),
        ("timestamp", "'4713-01-01 00:00:00 BC'", "4713-01-01 00:00:00 BC"),
        ("bytea", r"'\x00ff'", r"\x00ff"),
        ("int[]", "'{{1,2},{3,4}}'", "{{1,2},{3,4}}"),
    ],
)
def test_every_type_can_be_read_as_text(
    wide: Callable[..., dict[str, str]], kind: str, value: str, text: str
) -> None:
    assert column(wide(kind, value), pa.string()) == [text, None]


@pytest.mark.parametrize(
    ("kind", "value", "arrow"),
    [
        ("timestamp", "'infinity'", pa.timestamp("us")),
        ("timestamptz", "'-infinity'", UTC_TIMESTAMP),
        ("timestamp", "'0044-03-15 00:00:00 BC'", pa.timestamp("us")),
        ("date", "'infinity'", pa.date32()),
        ("date", "'10000-01-01'", pa.date32()),
        ("numeric(10,2)", "'NaN'", pa.decimal128(10, 2)),
        ("numeric(10,2)", "12.34", pa.decimal128(10, 1)),
        ("text", "'abc'", pa.int64()),
        ("bigint", "4294967296", pa.int32()),
        ("bigint", "1714550400", UTC_TIMESTAMP),
        ("timestamp", "'2024-05-01 08:00:00'", pa.int64()),
        ("double precision", "1e300", pa.float32()),
        ("timestamp[]", "'{infinity}'", pa.list_(pa.timestamp("us"))),
        ("timestamptz[]", "'{-infinity}'", pa.list_(UTC_TIMESTAMP)),
        ("date[]", "'{infinity}'", pa.list_(pa.date32())),
        ("int[]", "'{{1,2},{3,4}}'", pa.list_(pa.int32())),
        ("int[]", "'[0:1]={1,2}'", pa.list_(pa.int32())),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_that_names_the_column(
    wide: Callable[..., dict[str, str]], kind: str, value: str, arrow: pa.DataType
) -> None:
    with pytest.raises(SplitReadError, match=r"(?s)column value .* (such as|the type) string"):
        column(wide(kind, value), arrow)


@pytest.mark.parametrize("with_adbc", [True, False], ids=["adbc", "sqlalchemy"])
def test_no_cast_rounds_a_decimal_or_a_whole_number(
    wide: Callable[..., dict[str, str]], with_adbc: bool
) -> None:
    cents, floating, double = pa.decimal128(10, 2), pa.float32(), pa.float64()
    for kind, value, arrow in [
        ("double precision", "0.125", cents),
        ("double precision", "1234567.891", cents),
        ("real", "0.125", cents),
        ("double precision[]", "'{1, 0.125}'", pa.list_(cents)),
        ("double precision", "16777217", floating),
        ("numeric(20,0)", "12345678901234567891", double),
        ("numeric(20,1)", "16777217.0", floating),
        ("text", "'9007199254740993'", double),
        ("text", "'16777217'", floating),
        ("numeric(20,0)", "1000000000000000000", floating),
        ("text", "'1000000000000000000'", floating),
        ("numeric(24,0)", "100000000000000000000000", double),
        ("text", "'1e400'", double),
    ]:
        with pytest.raises(SplitReadError, match=r"(?s)column value .* (such as|the type) string"):
            column(wide(kind, value, with_adbc=with_adbc), arrow)


@pytest.mark.parametrize("with_adbc", [True, False], ids=["adbc", "sqlalchemy"])
def test_float_and_double_have_the_nearest_value_of_a_fraction_and_whole_numbers_that_they_can_hold(
    wide: Callable[..., dict[str, str]], with_adbc: bool
) -> None:
    cents, floating, double = pa.decimal128(10, 2), pa.float32(), pa.float64()
    for kind, value, arrow, found in [
        ("double precision", "0.1", cents, Decimal("0.10")),
        ("real", "0.1", cents, Decimal("0.10")),
        ("double precision", "1e7", cents, Decimal("10000000.00")),
        ("double precision", "0.1", floating, 0.10000000149011612),
        ("real", "123456789", floating, 123456792.0),
        ("double precision", "1.23456789e30", floating, 1.2345678918272927e30),
        ("double precision", "'Infinity'", floating, math.inf),
        ("numeric(30,20)", "0.12345678901234567890", double, 0.12345678901234568),
        ("numeric(23,0)", "10000000000000000000000", double, 1e22),
        ("numeric(20,0)", "1152921504606846976", floating, 2.0**60),
        ("text", "'9007199254740992'", double, 2.0**53),
        ("text", "'1.5e300'", double, 1.5e300),
        ("text", "'-inf'", double, -math.inf),
    ]:
        assert column(wide(kind, value, with_adbc=with_adbc), arrow) == [found, None], (kind, value)


@pytest.mark.parametrize("with_adbc", [True, False], ids=["adbc", "sqlalchemy"])
@pytest.mark.parametrize(
    ("kind", "value", "arrow", "found"),
    [
        ("date", "'2024-05-01'", UTC_TIMESTAMP, dt.datetime(2024, 5, 1, 4, tzinfo=dt.UTC)),
        ("timestamptz", "'2024-05-01 02:00:00+00'", pa.date32(), dt.date(2024, 4, 30)),
        ("timestamp[]", "'{2024-05-01 08:00:00}'", pa.list_(UTC_TIMESTAMP),
         [dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)]),
    ],
)  # fmt: skip
def test_times_are_cast_in_the_time_zone_of_the_session_on_every_level(
    wide: Callable[..., dict[str, str]],
    kind: str,
    value: str,
    arrow: pa.DataType,
    found: Any,
    with_adbc: bool,
) -> None:
    options = wide(kind, value, with_adbc=with_adbc, timeZone="America/New_York")
    assert column(options, arrow) == [found, None]


def test_columns_read_through_sqlalchemy_have_the_declared_types(postgres: PostgresServer) -> None:
    with postgres.database() as name, postgres.connect(name) as connection:
        connection.execute(
            "CREATE TABLE t (id bigint, n numeric(8,3), at timestamptz, d date, j jsonb, u uuid, b bytea, "
            "i interval)"
        )
        connection.execute(
            "INSERT INTO t VALUES (1, 1.5, '2024-05-01 08:00+02', '2024-05-01', '{\"a\": 1}', "
            "'93b617e2-e831-44c0-a82a-0f0a818bcb0e', decode('00', 'hex'), '1 day'), "
            "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
        )
        options = of_postgres(postgres, name, with_adbc=False, table="t", cursorColumns="id")
        first, second = rows(options)
    assert first == {
        "id": 1, "n": Decimal("1.500"), "at": dt.datetime(2024, 5, 1, 6, tzinfo=dt.UTC),
        "d": dt.date(2024, 5, 1), "j": '{"a": 1}', "u": "93b617e2-e831-44c0-a82a-0f0a818bcb0e", "b": b"\x00",
        "i": "1 day",
    }  # fmt: skip
    assert set(second.values()) == {2, None}


@pytest.mark.parametrize("with_adbc", [True, False], ids=["adbc", "sqlalchemy"])
def test_infinity_among_numerics_is_a_text(with_adbc: bool, postgres: PostgresServer) -> None:
    with postgres.database() as name, postgres.connect(name) as connection:
        connection.execute("CREATE TABLE t (id bigint, n numeric, many numeric[])")
        connection.execute("INSERT INTO t VALUES (1, 'Infinity', '{1.5,-Infinity}'), (2, 1.50, '{}')")
        options = of_postgres(postgres, name, with_adbc=with_adbc, table="t", cursorColumns="id")
        assert rows(options) == [
            {"id": 1, "n": "Infinity", "many": "{1.5,-Infinity}"}, {"id": 2, "n": "1.50", "many": "{}"},
        ]  # fmt: skip
        del options["table"]
        found = rows({**options, "query": "SELECT id, n FROM t"})
        assert [row["n"] for row in found] == ["Infinity", "1.50"]


@pytest.mark.parametrize("driver", ["adbc", "psycopg", "psycopg2"])
def test_texts_of_postgresql_are_read_unchanged_whatever_the_encoding_of_the_database(
    postgres: PostgresServer, driver: str
) -> None:
    with postgres.database(encoding="LATIN1") as name, postgres.connect(name) as connection:
        connection.execute("CREATE TABLE t AS SELECT 'Müller' AS id, 'Ã©' AS \"näme\"")
        options = of_postgres(postgres, name, with_adbc=driver == "adbc", table="t", cursorColumns="id")
        options["uri"] = options["uri"].replace("+psycopg:", f"+{driver}:")
        assert rows(options) == [{"id": "Müller", "näme": "Ã©"}]


@pytest.mark.parametrize("with_adbc", [True, False], ids=["adbc", "sqlalchemy"])
def test_texts_that_are_not_utf_8_are_refused_and_can_be_read_as_bytes(
    postgres: PostgresServer, with_adbc: bool
) -> None:
    with postgres.database(encoding="SQL_ASCII") as name, postgres.connect(name) as connection:
        connection.execute(r"CREATE TABLE t AS SELECT 1 AS id, E'M\374ller' AS name")
        options = of_postgres(postgres, name, with_adbc=with_adbc, cursorColumns="id", discoveryRetries="0")
        with pytest.raises(Flip27Error, match=r"(?s)invalid byte sequence.*convert_to"):
            rows(options | {"table": "t"}, pa.schema([("name", pa.string())]))
        del options["table"]
        query = "SELECT id, convert_to(name, 'SQL_ASCII') AS name FROM t"
        assert rows(options | {"query": query}) == [{"id": 1, "name": b"M\xfcller"}]


def test_each_type_of_duckdb_is_read(tmp_path: Path) -> None:
    file = str(tmp_path / "types.duckdb")
    with duckdb.connect(file) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT 1::UTINYINT AS id, 2::UBIGINT AS u, 3::HUGEINT AS h,"
            " 'a'::ENUM('a', 'b') AS e,"
            " TIME '01:02:03' AS t, INTERVAL 1 DAY AS i, uuid '93b617e2-e831-44c0-a82a-0f0a818bcb0e' AS g,"
            " TIMESTAMPTZ '2024-05-01 08:00:00+02' AS z, TIMESTAMP_S '2024-05-01 08:00:00' AS s,"
            " [1::UTINYINT] AS l,"
            " {'a': 1, 'b': 'x'} AS r, MAP {'k': 2} AS m,"
            " 340282366920938463463374607431768211455::UHUGEINT AS uh, ['0101'::BIT] AS bits"
        )
    options = common(file, "duckdb", table="t", cursorColumns="id")
    assert rows(options) == [
        {
            "id": 1, "u": Decimal(2), "h": Decimal(3), "e": "a", "t": "01:02:03", "i": "1 day",
            "g": "93b617e2-e831-44c0-a82a-0f0a818bcb0e", "z": dt.datetime(2024, 5, 1, 6, tzinfo=dt.UTC),
            "s": dt.datetime(2024, 5, 1, 8), "l": [1], "r": {"a": 1, "b": "x"}, "m": [("k", 2)],
            "uh": "340282366920938463463374607431768211455", "bits": "[0101]",
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        "170141183460469231731687303715884105727::HUGEINT",
        "[TIMESTAMP 'infinity']",
        "{'at': TIMESTAMP 'infinity'}",
        "MAP {'at': TIMESTAMP '-infinity'}",
        "TIMESTAMP_S '20000-01-01 00:00:00'",
        "TIMESTAMP_NS 'infinity'",
    ],
)
def test_a_value_of_duckdb_that_spark_lacks_is_an_error_that_names_the_column(
    tmp_path: Path, value: str
) -> None:
    file = str(tmp_path / "wide.duckdb")
    with duckdb.connect(file) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT 1 AS id, {value} AS value")
    with pytest.raises(SplitReadError, match=r"(?s)column value of table t .* does not fit .*such as string"):
        rows(common(file, "duckdb", table="t", cursorColumns="id"))


@pytest.fixture
def loose(tmp_path: Path) -> Iterator[Callable[..., dict[str, str]]]:
    """Yield a function that creates a table in SQLite with these rows; it returns the options of a query."""
    file = tmp_path / "loose.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")

        def made(column: str, *values: Any) -> dict[str, str]:
            connection.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {column})")
            connection.executemany("INSERT INTO t VALUES (?, ?)", enumerate(values))
            return common(str(file), "sqlite", table="t", cursorColumns="id")

        yield made


Loose = Callable[..., dict[str, str]]


@pytest.mark.parametrize("uri", ["{}", "sqlite:///{}"])
def test_the_name_of_a_table_may_contain_a_dot(sqlite: Shop, uri: str) -> None:
    sqlite.execute('CREATE TABLE "a.""t" (id INTEGER, value BLOB)')
    sqlite.execute("CREATE TABLE t (id INTEGER, value TEXT)")
    sqlite.execute("""CREATE TABLE '"t' (id INTEGER, value TEXT)""")
    options = sqlite.with_options(table='"a.""t"', cursorColumns="id", uri=uri.format(sqlite.options["uri"]))
    if "://" in options["uri"]:
        del options["driver"]
    assert schema_of(options).field("value").type == pa.binary()


@pytest.mark.parametrize(("created", "given"), [("orders", "PUBLIC.Orders"), ("ÜBUNG", "ÜBUNG")])
def test_the_name_of_a_postgresql_table_may_be_in_another_case_except_for_letters_that_are_not_ascii(
    postgres: PostgresServer, created: str, given: str
) -> None:
    with postgres.database() as name, postgres.connect(name) as connection:
        connection.execute(f"CREATE TABLE {created} (id bigint, price numeric(10, 2))")
        options = of_postgres(postgres, name, with_adbc=False, table=given, cursorColumns="id")
        assert schema_of(options) == pa.schema([("id", pa.int64()), ("price", pa.decimal128(10, 2))])


def test_a_generated_column_of_sqlite_has_its_declared_type(sqlite: Shop) -> None:
    columns = "id INTEGER, name TEXT AS (nullif('n' || id, 'n1')), half REAL AS (nullif(id, 1) / 2.0) STORED"
    sqlite.execute(f"CREATE TABLE made ({columns})")
    sqlite.execute("INSERT INTO made VALUES (1)")
    found = schema_of(sqlite.with_options(table="made", cursorColumns="id"))
    assert found == pa.schema([("id", pa.int64()), ("name", pa.string()), ("half", pa.float64())])


def test_a_sqlite_column_may_begin_with_thousands_of_nulls_before_its_first_text(loose: Loose) -> None:
    notes = [None] * 3000 + ["x"] * 1000
    assert [row["note"] for row in rows(loose("note TEXT", *notes))] == notes


def test_a_sqlite_column_may_begin_with_nulls_in_a_range_that_one_cursor_makes_large(loose: Loose) -> None:
    options = loose("note TEXT", *[None] * 66_000, "x")
    del options["table"]
    options |= {"query": "SELECT *, 1 AS at FROM t", "cursorColumns": "at", "partitionRows": "1000"}
    assert column(options, pa.string(), "note") == [None] * 66_000 + ["x"]


def test_sqlite_values_of_another_type_than_the_column_are_named(loose: Loose) -> None:
    options = loose("amount", 1.5, "two")
    with pytest.raises(Flip27Error, match="amount"):
        rows(options, pa.schema([("id", pa.int64()), ("amount", pa.float64())]))
    assert column(options, pa.string(), "amount") == ["1.5", "two"]


def test_sqlite_fractions_among_texts_keep_all_digits(loose: Loose) -> None:
    options = loose("amount", 1.234567890123, "7")
    assert column(options, pa.string(), "amount") == ["1.234567890123", "7"]
    assert column(options, pa.decimal128(20, 12), "amount") == [Decimal("1.234567890123"), Decimal(7)]
    with pytest.raises(SplitReadError, match="both fractions and texts"):
        column(options, pa.float64(), "amount")


def test_a_sqlite_text_that_is_not_utf_8_is_an_error_unless_its_bytes_are_wanted(
    sqlite: Shop, flip27_engine: Engine
) -> None:
    sqlite.execute("CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT)")
    sqlite.execute("INSERT INTO names VALUES (1, 'ok'), (2, CAST(X'4DFC6C6C6572' AS TEXT))")
    options = sqlite.with_options(table="names", cursorColumns="id", discoveryRetries="0")
    with pytest.raises(SplitReadError, match=r"column name of table names.*UTF8(?s:.)*such as binary"):
        rows(options)
    assert column(options, pa.binary(), "name") == [b"ok", b"M\xfcller"]
    engine = flip27_engine(options | {"cursorColumns": "name"})
    with pytest.raises(DiscoveryError, match=r"decode byte 0xfc(?s:.)*correct the texts that are not UTF-8"):
        batches_of(engine)


@pytest.mark.parametrize("driver", ["sqlite", None])
def test_sqlite_numbers_among_blobs_keep_all_digits(loose: Loose, driver: str | None) -> None:
    options = by(driver, loose("value BLOB", 0.123456789, 2**63 - 1, "a", b"\xff"))
    found = [b"0.123456789", b"9223372036854775807", b"a", b"\xff"]
    assert [row["value"] for row in rows(options)] == found


@pytest.mark.parametrize("driver", ["sqlite", None])
@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (pa.binary(), [b"1.5", b"7"]),
        (pa.string(), ["1.5", "7"]),
        (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("7.00")]),
    ],
)
def test_sqlite_integers_and_fractions_are_read_as_other_types(
    loose: Loose, kind: pa.DataType, found: list[Any], driver: str | None
) -> None:
    options = by(driver, loose("value", 1.5, 7))
    assert column(options, kind) == found
    only = options | {"query": "SELECT * FROM t WHERE id = 1"}
    del only["table"]
    assert column(only, kind) == found[1:]


def by(driver: str | None, options: dict[str, str]) -> dict[str, str]:
    """Return the options of a table in SQLite for a driver of ADBC, or for SQLAlchemy."""
    if driver is None:
        options["uri"] = f"sqlite:///{options['uri']}"
        del options["driver"]
    return options


@pytest.mark.parametrize("driver", ["sqlite", None])
@pytest.mark.parametrize("declared", ["", " ANY", " NUMERIC", " UUID", " JSON"])
@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([b"\xff\x00", b"a"], pa.binary()),
        ([7, 8], pa.int64()),
        ([1.5, 7], pa.float64()),
        (["x", "y"], pa.string()),
    ],
)
def test_a_sqlite_column_whose_declaration_implies_no_type_has_the_type_of_its_values(
    loose: Loose, declared: str, values: list[Any], kind: pa.DataType, driver: str | None
) -> None:
    options = by(driver, loose(f"value{declared}", *values))
    assert schema_of(options).field("value").type == kind
    assert [row["value"] for row in rows(options)] == values


@pytest.mark.parametrize("driver", ["sqlite", None])
def test_a_sqlite_column_whose_first_rows_have_no_value_is_a_string_if_its_declaration_implies_no_type(
    loose: Loose, driver: str | None
) -> None:
    options = by(driver, loose("value", *[None] * 1000, "x", 1))
    assert schema_of(options).field("value").type == pa.string()
    assert column(options, pa.string())[-2:] == ["x", "1"]
    empty = options | {"query": "SELECT * FROM t WHERE id < 0"}
    del empty["table"]
    assert schema_of(empty).field("value").type == pa.string()


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("BOOLEAN", pa.bool_()),
        ("DATE", pa.date32()),
        ("DATETIME", pa.timestamp("us")),
        ("DATETIME(6)", pa.timestamp("us")),
        ("TIMESTAMP", pa.timestamp("us")),
        ("DECIMAL(10,2)", pa.decimal128(10, 2)),
    ],
)
def test_declarations_that_imply_no_type_of_sqlite_have_their_types_by_sqlalchemy(
    loose: Loose, declared: str, kind: pa.DataType
) -> None:
    assert schema_of(by(None, loose(f"value {declared}"))).field("value").type == kind


@pytest.mark.parametrize("driver", ["sqlite", None])
@pytest.mark.parametrize("value", [1.5, 2, 2**40, math.inf])
def test_a_sqlite_number_other_than_0_and_1_is_no_boolean(
    loose: Loose, value: float, driver: str | None
) -> None:
    options = by(driver, loose("value BOOLEAN", 0, 1, 1.0, None, value))
    valid = options | {"query": "SELECT * FROM t WHERE id < 4"}
    del valid["table"]
    assert column(valid, pa.bool_()) == [False, True, True, None]
    null = options | {"query": "SELECT * FROM t WHERE id = 3"}
    del null["table"]
    assert column(null, pa.bool_()) == [None]
    with pytest.raises(SplitReadError, match=r"does not fit the type bool: \S+ is neither 0 nor 1"):
        column(options, pa.bool_())


@pytest.mark.parametrize("driver", ["sqlite", None])
def test_a_sqlite_blob_that_is_read_as_string_is_its_text(loose: Loose, driver: str | None) -> None:
    options = by(driver, loose("value TEXT", "a", b"b", b"\xff"))
    valid = options | {"query": "SELECT * FROM t WHERE id < 2"}
    del valid["table"]
    assert column(valid, pa.string()) == ["a", "b"]
    with pytest.raises(SplitReadError, match="column value of table t has a value that does not fit"):
        column(options, pa.string())


def test_a_value_that_does_not_fit_ends_the_result_before_the_connection(
    loose: Loose, caplog: pytest.LogCaptureFixture
) -> None:
    options = by(None, loose("value TEXT", b"\xff"))
    with pytest.raises(SplitReadError, match="column value of table t has a value that does not fit"):
        column(options, pa.string())
    assert caplog.messages == []


@pytest.mark.parametrize("driver", ["sqlite", None])
def test_infinity_of_sqlite_is_read_as_its_text(loose: Loose, driver: str | None) -> None:
    options = by(driver, loose("value", math.inf, -math.inf, -(2**63), 1e308, "9e999"))
    found = ["Inf", "-Inf", "-9223372036854775808", "1.0e+308", "9e999"]
    assert column(options, pa.string()) == found
    assert column(options, pa.binary()) == [text.encode() for text in found]


@pytest.mark.parametrize("driver", ["sqlite", None])
def test_sqlite_integers_among_fractions_keep_all_digits(loose: Loose, driver: str | None) -> None:
    options = by(driver, loose("n", 2**53 + 1, 2.0, 2**63 - 1))
    assert column(options, pa.int64(), "n") == [2**53 + 1, 2, 2**63 - 1]
    with pytest.raises(
        SplitReadError, match="column n of table t has a value that does not fit the type double"
    ):
        column(options, pa.float64(), "n")


def test_times_without_a_zone_are_in_the_time_zone_of_the_session(loose: Loose) -> None:
    options = loose("value TEXT", "2024-05-01 08:00:00")
    assert column(options, UTC_TIMESTAMP) == [dt.datetime(2024, 5, 1, 8, tzinfo=dt.UTC)]
    assert column(options, pa.timestamp("us")) == [dt.datetime(2024, 5, 1, 8)]


def test_times_in_a_clock_change_are_read_as_by_the_other_readers(loose: Loose) -> None:
    options = loose("value TEXT", "2026-10-25 02:30:00", "2026-03-29 02:30:00", "2026-01-01 00:00:00")
    found = column(options | {"timeZone": "Europe/Berlin"}, UTC_TIMESTAMP)
    assert [time.isoformat() for time in found] == [
        "2026-10-25T00:30:00+00:00", "2026-03-29T01:30:00+00:00", "2025-12-31T23:00:00+00:00",
    ]  # fmt: skip
    in_chicago = column(options | {"timeZone": "CST"}, UTC_TIMESTAMP)
    assert in_chicago[2].isoformat() == "2026-01-01T06:00:00+00:00"
    by_offset = column(options | {"timeZone": "GMT+1"}, UTC_TIMESTAMP)
    assert by_offset[2].isoformat() == "2025-12-31T23:00:00+00:00"


def test_column_names_may_contain_quotes_and_blanks_and_be_keywords(shop: Shop) -> None:
    shop.execute('CREATE TABLE odd ("select" BIGINT, "a ""b" VARCHAR(9), "Mixed" VARCHAR(9))')
    shop.execute("INSERT INTO odd VALUES (1, 'x', 'y'), (2, ':z %s', '%')")
    options = shop.with_options(table="odd", cursorColumns="select")
    assert [tuple(row.values()) for row in rows(options)] == [(1, "x", "y"), (2, ":z %s", "%")]


def test_a_missing_table_has_no_schema(shop: Shop) -> None:
    with pytest.raises(SchemaError, match=r"(?s)no_orders.*check options table, query"):
        schema_of(shop.with_options(table="no_orders"))
