"""For every type of a real server, its texts are converted to the values that were inserted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from flip27_source.enumerators.postgres.column_types import (
    COLUMN_TYPE_FIELDS,
    COLUMN_TYPE_JOIN,
    PgType,
    arrow_type,
    pg_type_of,
)
from flip27_source.errors import SplitReadError
from flip27_source.readers.postgres.chunk_rows import csv_batch
from flip27_source.readers.postgres.values import ValueConverter
from tests.postgres_server import PostgresServer, postgres_server

SETTINGS = {
    "DateStyle": "ISO,MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
}
NAN, INF = float("nan"), float("inf")
D = Decimal

TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'so so');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN price AS numeric(12,2) CHECK (VALUE >= 0);
CREATE DOMAIN cheap AS price CHECK (VALUE < 10);
CREATE DOMAIN tags AS text[];
"""

CASES: list[tuple[str, list[str], list[Any]]] = [
    ("boolean", ["true", "false"], [True, False]),
    ("smallint", ["-32768", "32767"], [-32768, 32767]),
    ("integer", ["-2147483648", "2147483647"], [-(2**31), 2**31 - 1]),
    ("bigint", ["-9223372036854775808", "9223372036854775807"], [-(2**63), 2**63 - 1]),
    ("oid", ["0", "4294967295"], [0, 2**32 - 1]),
    ("real", ["0.1", "'NaN'", "'-Infinity'", "3.4028235e38", "1e-45", "1e6", "123456792"],
     [0.10000000149011612, NAN, -INF, 3.4028234663852886e38, 1.401298464324817e-45, 1e6, 123456792.0]),
    ("double precision",
     ["0.1", "'NaN'", "'Infinity'", "1.7976931348623157e308", "4.9e-324", "1e15", "1e16", "'-0'"],
     [0.1, NAN, INF, 1.7976931348623157e308, 5e-324, 1e15, 1e16, -0.0]),
    ("numeric(12,2)", ["1.5", "-9999999999.99", "0", "1.005"],
     [D("1.50"), D("-9999999999.99"), D("0.00"), D("1.01")]),
    ("numeric(38,0)", ["9" * 38], [D("9" * 38)]),
    ("numeric(38,38)", ["-0." + "9" * 38], [D("-0." + "9" * 38)]),
    ("numeric(3,3)", ["0.001"], [D("0.001")]),
    ("numeric", ["1.50", "'NaN'", "'-Infinity'", "1e40", "1e-20"],
     ["1.50", "NaN", "-Infinity", "1" + "0" * 40, "0." + "0" * 19 + "1"]),
    ("numeric(60,10)", ["1"], ["1.0000000000"]),
    ("text", ["''", "'a'", "'NULL'", "E'a\\n\"b\",\\\\N'", "'\U0001f600'"],
     ["", "a", "NULL", 'a\n"b",\\N', "\U0001f600"]),
    ("varchar(5)", ["'abc'", "'  '"], ["abc", "  "]),
    ("char(3)", ["'a'"], ["a  "]),
    ('"char"', ["'x'", "''"], ["x", ""]),
    ("name", ["'orders'"], ["orders"]),
    ("bytea", [r"'\x'", r"'\x00ff5c'", "'abc'"], [b"", b"\x00\xff\\", b"abc"]),
    ("date", ["'2024-02-29'", "'0001-01-01'", "'9999-12-31'"], [date(2024, 2, 29), date.min, date.max]),
    ("timestamp",
     ["'2024-02-29 12:00:00'", "'0001-01-01'", "'9999-12-31 23:59:59.999999'", "'1969-12-31 23:59:59.5'"],
     [datetime(2024, 2, 29, 12), datetime.min, datetime.max, datetime(1969, 12, 31, 23, 59, 59, 500000)]),
    ("timestamp(0)", ["'2024-02-29 23:59:59.9'"], [datetime(2024, 3, 1)]),
    ("timestamptz",
     ["'2024-02-29 12:00:00.000001+05:30'", "'1890-01-01 00:00:00+05:30:15'", "'0001-01-01 00:00:00+00'"],
     [datetime(2024, 2, 29, 6, 30, 0, 1, tzinfo=UTC), datetime(1889, 12, 31, 18, 29, 45, tzinfo=UTC),
      datetime.min.replace(tzinfo=UTC)]),
    ("time", ["'24:00:00'", "'01:02:03.4'"], ["24:00:00", "01:02:03.4"]),
    ("timetz", ["'01:02:03+05:30'", "'24:00:00+00'"], ["01:02:03+05:30", "24:00:00+00"]),
    ("interval", ["'1 year -2 days 3 hours'"], ["1 year -2 days +03:00:00"]),
    ("money", ["1234.5", "'-92233720368547758.08'"], ["$1,234.50", "-$92,233,720,368,547,758.08"]),
    ("bit(3)", ["B'101'"], ["101"]),
    ("bit varying", ["B'1'", "B''"], ["1", ""]),
    ("uuid", ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"], ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    ("json", ["'{\"a\":  1}'", "'null'"], ['{"a":  1}', "null"]),
    ("jsonb", ["'{\"a\":  1}'"], ['{"a": 1}']),
    ("inet", ["'10.0.0.1/8'", "'::1'"], ["10.0.0.1/8", "::1"]),
    ("cidr", ["'10.0.0.0/8'"], ["10.0.0.0/8"]),
    ("macaddr", ["'08-00-2b-01-02-03'"], ["08:00:2b:01:02:03"]),
    ("macaddr8", ["'08-00-2b-01-02-03-04-05'"], ["08:00:2b:01:02:03:04:05"]),
    ("int4range", ["'[1,3]'", "'empty'"], ["[1,4)", "empty"]),
    ("tstzrange", ["'[2024-01-01,)'"], ['["2024-01-01 00:00:00+00",)']),
    ("point", ["'(1,2)'"], ["(1,2)"]),
    ("tsvector", ["'b a'"], ["'a' 'b'"]),
    ("pg_lsn", ["'16/B374D848'"], ["16/B374D848"]),
    ("mood", ["'so so'"], ["so so"]),
    ("pair", ["ROW(1, 'a \"b\"')", "ROW(NULL, '')"], ['(1,"a ""b""")', '(,"")']),
    ("price", ["1"], [D("1.00")]),
    ("cheap", ["9.99"], [D("9.99")]),
    ("int2vector", ["'1 2 3'"], ["1 2 3"]),
    ("integer[]", ["'{}'", "'{1,NULL,3}'", "'[2:3]={1,2}'"], [[], [1, None, 3], [1, 2]]),
    ("text[]", ["ARRAY['a', NULL, 'NULL', '', 'x,y', '{}', 'q\"', E'\\\\', ' ', E'\\n', 'é']"],
     [["a", None, "NULL", "", "x,y", "{}", 'q"', "\\", " ", "\n", "é"]]),
    ("boolean[]", ["'{t,NULL,f}'"], [[True, None, False]]),
    ("bytea[]", [r"ARRAY['\x00ff'::bytea, '\x', NULL]"], [[b"\x00\xff", b"", None]]),
    ("double precision[]", ["'{1.5,NaN,-Infinity}'"], [[1.5, NAN, -INF]]),
    ("numeric(5,1)[]", ["'{1.25,NULL}'"], [[D("1.3"), None]]),
    ("date[]", ["'{2024-02-29}'"], [[date(2024, 2, 29)]]),
    ("timestamp[]", ["'{2024-02-29 12:00:00.5}'"], [[datetime(2024, 2, 29, 12, 0, 0, 500000)]]),
    ("timestamptz[]", ["'{2024-02-29 12:00:00+02}'"], [[datetime(2024, 2, 29, 10, tzinfo=UTC)]]),
    ("timetz[]", ["'{24:00:00+00,NULL}'"], [["24:00:00+00", None]]),
    ("jsonb[]", ["ARRAY['{\"a\": [1, \"b\"]}'::jsonb]"], [['{"a": [1, "b"]}']]),
    ("box[]", ["'{(1,1),(0,0);(3,4),(1,2)}'"], [["(1,1),(0,0)", "(3,4),(1,2)"]]),
    ("mood[]", ["ARRAY['so so', 'sad']::mood[]"], [["so so", "sad"]]),
    ("pair[]", ["ARRAY[ROW(1, 'a b')::pair]"], [['(1,"a b")']]),
    ("price[]", ["'{1,2.5}'"], [[D("1.00"), D("2.50")]]),
    ("tags", ["'{a,\"b c\"}'"], [["a", "b c"]]),
]  # fmt: skip
"""Types, the inserted SQL expressions, and the expected values."""

REFUSED = [
    ("numeric(12,2)", "'NaN'"), ("date", "'infinity'"), ("date", "'0044-03-15 BC'"),
    ("date", "'10000-01-01'"), ("timestamp", "'-infinity'"), ("timestamp", "'0044-03-15 12:00 BC'"),
    ("timestamp", "'294276-12-31 23:59:59'"), ("timestamptz", "'infinity'"),
    ("timestamptz", "'10000-01-01 00:00:00+00'"), ("timestamptz", "'0001-01-01 00:00:00+01'"),
    ("integer[]", "'{{1,2},{3,4}}'"), ("date[]", "'{2024-01-01,infinity}'"),
]  # fmt: skip
"""Types, and values that the corresponding Arrow type cannot hold."""


@pytest.fixture(scope="module", params=[16, 18])
def server(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[PostgresServer]:
    if request.param == postgres.version:
        yield postgres
        return
    with postgres_server(request.param) as older:
        yield older


@pytest.fixture(scope="module")
def connection(server: PostgresServer) -> Iterator[psycopg.Connection]:
    options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    with server.database() as database, server.connect(database, options=options) as connection:
        connection.execute(TYPES)
        yield connection


def column_type(connection: psycopg.Connection) -> PgType:
    row = connection.execute(
        f"SELECT {COLUMN_TYPE_FIELDS} FROM pg_attribute a {COLUMN_TYPE_JOIN} "
        "WHERE a.attrelid = 't'::regclass AND a.attname = 'x'"
    ).fetchone()
    assert row is not None
    return pg_type_of(*row)


def insert(connection: psycopg.Connection, type: str, literals: list[str]) -> None:
    rows = ", ".join(f"({literal})" for literal in literals)
    connection.execute("DROP TABLE IF EXISTS t")
    connection.execute(f"CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, x {type})")
    connection.execute(f"INSERT INTO t (x) VALUES {rows}")


def copied(connection: psycopg.Connection) -> pa.Array:
    with connection.cursor().copy("COPY (SELECT x FROM t ORDER BY id) TO STDOUT (FORMAT csv)") as copy:
        return csv_batch(b"".join(copy), ["x"]).column(0)


@pytest.mark.parametrize(("type", "literals", "values"), CASES, ids=[case[0] for case in CASES])
def test_a_value_is_read_as_it_was_inserted(
    connection: psycopg.Connection, type: str, literals: list[str], values: list[Any]
) -> None:
    insert(connection, type, [*literals, "NULL"])
    kind = column_type(connection)
    converter = ValueConverter(column="x", type=kind, target=arrow_type(kind))

    found = converter.convert(copied(connection), where="public.t")

    found.validate(full=True)
    assert repr(in_utc(found.to_pylist())) == repr([*values, None])
    assert found.type == arrow_type(kind)


def in_utc(values: Any) -> Any:
    """The values with the UTC of the standard library instead of pyarrow's time zone."""
    if isinstance(values, list):
        return [in_utc(value) for value in values]
    return values.astimezone(UTC) if isinstance(values, datetime) and values.tzinfo else values


@pytest.mark.parametrize(("type", "literal"), REFUSED)
def test_a_value_that_arrow_cannot_represent_is_refused_and_can_be_read_as_text(
    connection: psycopg.Connection, type: str, literal: str
) -> None:
    insert(connection, type, [literal])
    kind = column_type(connection)
    texts = copied(connection)

    with pytest.raises(SplitReadError, match=r"public\.t: the column x has the value"):
        ValueConverter(column="x", type=kind, target=arrow_type(kind)).convert(texts, where="public.t")
    as_text = ValueConverter(column="x", type=kind, target=pa.string()).convert(texts, where="public.t")
    assert as_text.equals(texts)


@pytest.mark.parametrize("zone", ["Africa/Monrovia", "Asia/Kolkata", "America/Denver", "Pacific/Kiritimati"])
def test_instants_are_the_same_in_every_time_zone(connection: psycopg.Connection, zone: str) -> None:
    insert(connection, "timestamptz", ["'1890-06-01 12:00:00.25+00'", "'2024-02-29 00:00:00+00'"])
    with connection.transaction():
        connection.execute(f"SET LOCAL TimeZone = '{zone}'")
        texts = copied(connection)

    found = ValueConverter(column="x", type=PgType(name="timestamptz"), target=pa.timestamp("us", "UTC"))

    assert not texts[0].as_py().endswith("+00")
    assert in_utc(found.convert(texts, where="public.t").to_pylist()) == [
        datetime(1890, 6, 1, 12, 0, 0, 250000, tzinfo=UTC), datetime(2024, 2, 29, tzinfo=UTC),
    ]  # fmt: skip
