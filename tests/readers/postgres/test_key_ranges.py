"""The chunk to which a key belongs, by comparing numbers here or keys on the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
import pyarrow as pa
import pytest

from flip27_source.enumerators.postgres.chunk_transactions import RowRule
from flip27_source.enumerators.postgres.split import KeyColumn, TableName, TableRules
from flip27_source.readers.postgres.window_delivery import local_ranges, ranges_on_server
from tests.postgres_server import PostgresServer

ORDERS = TableName(oid=16_400, schema="public", name="orders")


def rules(*bounds: Sequence[str], types: Sequence[str], collation: str | None = None) -> TableRules:
    """The rules of the ranges between these bounds, for a key with these types."""
    return TableRules(
        table=ORDERS,
        key=tuple(KeyColumn(name=f"k{i}", type=kind, collation=collation) for i, kind in enumerate(types)),
        bounds=tuple(tuple(bound) for bound in bounds),
        rules=tuple(RowRule(snapshot=f"{i + 1}:{i + 1}:") for i in range(len(bounds) + 1)),
    )


def texts(*values: str) -> list[pa.Array]:
    return [pa.array(values, pa.string())]


@pytest.fixture(scope="module")
def session(postgres: PostgresServer) -> Iterator[psycopg.Connection]:
    with postgres.database() as database, postgres.connect(database) as session:
        yield session


@pytest.mark.parametrize("kind", ["smallint", "integer", "bigint"])
def test_integers_are_compared_as_numbers(kind: str) -> None:
    found = local_ranges(rules(["-5"], ["9"], ["10"], types=[kind]), texts("-6", "-5", "8", "9", "10", "100"))
    assert found is not None
    assert found.tolist() == [0, 1, 1, 2, 3, 3]


def test_the_largest_bigints_are_compared_exactly() -> None:
    largest = (1 << 63) - 1
    found = local_ranges(rules([str(largest)], types=["bigint"]), texts(str(largest - 1), str(largest)))
    assert found is not None
    assert found.tolist() == [0, 1]


@pytest.mark.parametrize("types", [["text"], ["uuid"], ["numeric"], ["integer", "integer"]])
def test_other_keys_are_compared_by_the_server(types: list[str]) -> None:
    keys = [pa.array(["1"], pa.string())] * len(types)
    assert local_ranges(rules(["1"] * len(types), types=types), keys) is None


def test_the_server_and_local_comparison_of_integers_agree(session: psycopg.Connection) -> None:
    found = rules(["-5"], ["9"], ["10"], types=["bigint"])
    keys = texts("100", "-6", "-5", "8", "9", "10")
    local = local_ranges(found, keys)
    assert local is not None
    assert ranges_on_server(session, found, keys).tolist() == local.tolist() == [3, 0, 1, 1, 2, 3]


def test_numerics_are_not_compared_as_texts(session: psycopg.Connection) -> None:
    found = rules(["9.5"], ["10"], types=["numeric"])
    assert ranges_on_server(session, found, texts("9", "9.50", "10.0", "1e3", "NaN")).tolist() == [
        0,
        1,
        2,
        2,
        2,
    ]


def test_enums_are_compared_in_the_order_of_their_definition(session: psycopg.Connection) -> None:
    session.execute("CREATE TYPE size AS ENUM ('small', 'medium', 'large')")
    found = rules(["medium"], types=["size"])
    assert ranges_on_server(session, found, texts("large", "medium", "small")).tolist() == [1, 1, 0]


def test_texts_are_compared_by_the_collation_of_the_column(session: psycopg.Connection) -> None:
    by_bytes = rules(["a"], types=["text"], collation='pg_catalog."C"')
    assert ranges_on_server(session, by_bytes, texts("a", "B", "c")).tolist() == [1, 0, 1]


def test_a_collation_may_call_different_texts_equal(session: psycopg.Connection) -> None:
    try:
        session.execute(
            "CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server is built without ICU")
    found = rules(["Bob"], types=["text"], collation="public.anycase")
    assert ranges_on_server(session, found, texts("ALICE", "bob", "BOB", "carol")).tolist() == [0, 1, 1, 1]


def test_the_columns_of_a_key_are_compared_one_after_another(session: psycopg.Connection) -> None:
    found = rules(["2", "b"], ["10", "a"], types=["integer", "text"])
    keys = [
        pa.array(["1", "2", "2", "9", "10"], pa.string()),
        pa.array(["z", "a", "b", "z", "a"], pa.string()),
    ]
    assert ranges_on_server(session, found, keys).tolist() == [0, 0, 1, 1, 2]


def test_keys_of_type_character_are_padded_to_their_length(session: psycopg.Connection) -> None:
    found = rules(["abc"], ["abd"], types=["character(5)"])
    assert ranges_on_server(session, found, texts("abb  ", "abc  ", "abd  ")).tolist() == [0, 1, 2]


def test_keys_may_have_quotes_and_braces(session: psycopg.Connection) -> None:
    found = rules(['{"a",\\}'], types=["text"], collation='pg_catalog."C"')
    assert ranges_on_server(session, found, texts('{"a",\\}', "{", "'; DROP TABLE x; --")).tolist() == [
        1,
        0,
        0,
    ]
