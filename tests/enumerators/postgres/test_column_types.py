"""PostgreSQL's types as Arrow's: literal types, and types in a server's catalog."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from flip27_source.enumerators.postgres.column_types import (
    COLUMN_TYPE_FIELDS,
    COLUMN_TYPE_JOIN,
    PgType,
    arrow_type,
    numeric_digits,
    pg_type_of,
)
from tests.postgres_server import PostgresServer


def numeric(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("bool", pa.bool_()), ("int2", pa.int16()), ("int4", pa.int32()), ("int8", pa.int64()),
        ("oid", pa.int64()), ("float4", pa.float32()), ("float8", pa.float64()), ("bytea", pa.binary()),
        ("date", pa.date32()), ("timestamp", pa.timestamp("us")),
        ("timestamptz", pa.timestamp("us", "UTC")), ("text", pa.string()), ("jsonb", pa.string()),
        ("money", pa.string()), ("time", pa.string()), ("interval", pa.string()),
        ("int2vector", pa.string()), ("numeric", pa.string()),
    ],
)  # fmt: skip
def test_each_type_and_its_array_type_have_an_arrow_type(name: str, wanted: pa.DataType) -> None:
    assert arrow_type(PgType(name=name)) == wanted
    assert arrow_type(PgType(name=name, is_array=True)) == pa.list_(wanted)


@pytest.mark.parametrize(
    ("precision", "scale", "wanted"),
    [
        (12, 2, pa.decimal128(12, 2)), (38, 0, pa.decimal128(38, 0)), (38, 38, pa.decimal128(38, 38)),
        (1, 1, pa.decimal128(1, 1)), (39, 0, pa.string()), (1000, 500, pa.string()), (2, 5, pa.string()),
        (5, -3, pa.string()), (1000, -1000, pa.string()), (1000, 1000, pa.string()),
    ],
)  # fmt: skip
def test_numeric_is_a_decimal_if_an_arrow_decimal_has_enough_digits(
    precision: int, scale: int, wanted: pa.DataType
) -> None:
    assert numeric_digits(numeric(precision, scale)) == (precision, scale)
    assert arrow_type(PgType(name="numeric", modifier=numeric(precision, scale))) == wanted


def test_a_type_of_another_schema_is_text_whatever_its_name() -> None:
    assert pg_type_of("public", "int4", False, -1, ",") == PgType(name="public.int4")
    assert arrow_type(PgType(name="public.int4")) == pa.string()


def test_a_type_survives_json_and_is_shown_as_in_sql() -> None:
    type = PgType(name="numeric", is_array=True, modifier=numeric(12, 2))

    assert msgspec.json.decode(msgspec.json.encode(type), type=PgType) == type
    assert str(type) == "numeric(12,2)[]"


DEFINITIONS = """
CREATE SCHEMA other;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE other.int4 AS ENUM ('1', '2');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN price AS numeric(12,2) CHECK (VALUE >= 0);
CREATE DOMAIN low_price AS price CHECK (VALUE < 10);
CREATE DOMAIN prices AS numeric(10,1)[];
CREATE DOMAIN many_prices AS price[];
CREATE DOMAIN moods AS mood[];
CREATE TABLE t (
    id bigint PRIMARY KEY, small smallint, b boolean, v varchar(20), c char(3), n numeric, n2 numeric(12,2),
    f real, d double precision, at timestamptz(3), local timestamp, day date, raw bytea, letter "char",
    mood mood, fake other.int4, pair pair, r int4range, j jsonb, boxes box[], ns numeric(5,2)[], ints int[][],
    price price, low_price low_price, prices prices, low_prices low_price[], many_prices many_prices,
    nested prices[], moods moods, vector int2vector, pairs pair[], whole t_shape
);
"""

WANTED = {
    "id": PgType(name="int8"),
    "small": PgType(name="int2"),
    "b": PgType(name="bool"),
    "v": PgType(name="varchar", modifier=24),
    "c": PgType(name="bpchar", modifier=7),
    "n": PgType(name="numeric"),
    "n2": PgType(name="numeric", modifier=numeric(12, 2)),
    "f": PgType(name="float4"),
    "d": PgType(name="float8"),
    "at": PgType(name="timestamptz", modifier=3),
    "local": PgType(name="timestamp"),
    "day": PgType(name="date"),
    "raw": PgType(name="bytea"),
    "letter": PgType(name="char"),
    "mood": PgType(name="public.mood"),
    "fake": PgType(name="other.int4"),
    "pair": PgType(name="public.pair"),
    "r": PgType(name="int4range"),
    "j": PgType(name="jsonb"),
    "boxes": PgType(name="box", is_array=True, delimiter=";"),
    "ns": PgType(name="numeric", is_array=True, modifier=numeric(5, 2)),
    "ints": PgType(name="int4", is_array=True),
    "price": PgType(name="numeric", modifier=numeric(12, 2)),
    "low_price": PgType(name="numeric", modifier=numeric(12, 2)),
    "prices": PgType(name="numeric", is_array=True, modifier=numeric(10, 1)),
    "low_prices": PgType(name="numeric", is_array=True, modifier=numeric(12, 2)),
    "many_prices": PgType(name="numeric", is_array=True, modifier=numeric(12, 2)),
    "nested": PgType(name="_numeric", is_array=True, modifier=numeric(10, 1)),
    "moods": PgType(name="public.mood", is_array=True),
    "vector": PgType(name="int2vector"),
    "pairs": PgType(name="public.pair", is_array=True),
    "whole": PgType(name="public.t_shape"),
}

COLUMNS = f"""
SELECT a.attname, {COLUMN_TYPE_FIELDS}
FROM pg_catalog.pg_attribute a {COLUMN_TYPE_JOIN}
WHERE a.attrelid = 't'::regclass AND a.attnum > 0
"""


def test_the_catalog_query_resolves_domains_and_arrays(server: PostgresServer) -> None:
    with server.database() as database, server.connect(database) as connection:
        connection.execute("CREATE TABLE t_shape (x int)")
        connection.execute(DEFINITIONS)
        connection.execute("ALTER TABLE t ADD gone price[]; ALTER TABLE t DROP gone")
        rows = connection.execute(COLUMNS).fetchall()

    assert {name: pg_type_of(*fields) for name, *fields in rows} == WANTED


def test_types_are_also_found_by_their_oids(postgres: PostgresServer) -> None:
    query = f"""
        SELECT {COLUMN_TYPE_FIELDS}
        FROM unnest(%s::oid[], %s::int4[]) AS a (atttypid, atttypmod) {COLUMN_TYPE_JOIN}
    """
    with postgres.connect() as connection:
        rows = connection.execute(query, ([20, 1231, 999999], [-1, numeric(7, 3), -1])).fetchall()

    assert {pg_type_of(*row) for row in rows} == {
        PgType(name="int8"),
        PgType(name="numeric", is_array=True, modifier=numeric(7, 3)),
    }


def test_a_numeric_with_a_negative_scale_is_text(postgres: PostgresServer) -> None:
    with postgres.database() as database, postgres.connect(database) as connection:
        connection.execute("CREATE TABLE t (hundreds numeric(5,-2), small numeric(3,5))")
        rows = connection.execute(COLUMNS).fetchall()

    types = {name: pg_type_of(*fields) for name, *fields in rows}
    assert {name: numeric_digits(type.modifier) for name, type in types.items()} == {
        "hundreds": (5, -2),
        "small": (3, 5),
    }
    assert {arrow_type(type) for type in types.values()} == {pa.string()}
