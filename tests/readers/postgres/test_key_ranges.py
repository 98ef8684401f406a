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
from tests.readers.postgres.changing import ranges_of

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
    keys = texts("-6", "-5", "8", "9", "10", "100")
    assert ranges_of(rules(["-5"], ["9"], ["10"], types=[kind]), keys).tolist() == [0, 1, 1, 2, 3, 3]


def test_the_largest_bigints_are_compared_exactly() -> None:
    largest = (1 << 63) - 1
    keys = texts(str(largest - 1), str(largest))
    assert ranges_of(rules([str(largest)], types=["bigint"]), keys).tolist() == [0, 1]


@pytest.mark.parametrize("types", [["text"], ["uuid"], ["numeric"], ["integer", "integer"]])
def test_other_keys_are_compared_by_the_server(types: list[str]) -> None:
    keys = [pa.array(["1"], pa.string())] * len(types)
    assert local_ranges(rules(["1"] * len(types), types=types), keys) is None


def test_the_server_and_local_comparison_of_integers_agree(session: psycopg.Connection) -> None:
    ranges, keys = rules(["-5"], ["9"], ["10"], types=["bigint"]), texts("100", "-6", "-5", "8", "9", "10")
    on_server, here = ranges_on_server(session, ranges, keys), ranges_of(ranges, keys)
    assert on_server.tolist() == here.tolist() == [3, 0, 1, 1, 2, 3]


BYTES = 'pg_catalog."C"'
ON_SERVER = {
    "numbers, not texts": (
        rules(["9.5"], ["10"], types=["numeric"]), texts("9", "9.50", "10.0", "1e3", "NaN"), [0, 1, 2, 2, 2]
    ),
    "enums, in the order of their definition": (
        rules(["medium"], types=["size"]), texts("large", "medium", "small"), [1, 1, 0]
    ),
    "the collation of the column": (
        rules(["a"], types=["text"], collation=BYTES), texts("a", "B", "c"), [1, 0, 1]
    ),
    "characters, padded to their length": (
        rules(["abc"], ["abd"], types=["character(5)"]), texts("abb  ", "abc  ", "abd  "), [0, 1, 2]
    ),
    "quotes and braces": (
        rules(['{"a",\\}'], types=["text"], collation=BYTES),
        texts('{"a",\\}', "{", "'; DROP TABLE x; --"), [1, 0, 0],
    ),
    "one column after another": (
        rules(["2", "b"], ["10", "a"], types=["integer", "text"]),
        [*texts("1", "2", "2", "9", "10"), *texts("z", "a", "b", "z", "a")], [0, 0, 1, 1, 2],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("ranges", "keys", "found"), ON_SERVER.values(), ids=ON_SERVER)
def test_the_server_compares_keys_as_their_type_does(
    session: psycopg.Connection, ranges: TableRules, keys: list[pa.Array], found: list[int]
) -> None:
    if ranges.key[0].type == "size":
        session.execute("CREATE TYPE size AS ENUM ('small', 'medium', 'large')")
    assert ranges_on_server(session, ranges, keys).tolist() == found


def test_a_collation_may_call_different_texts_equal(session: psycopg.Connection) -> None:
    try:
        session.execute(
            "CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server is built without ICU")
    ranges = rules(["Bob"], types=["text"], collation="public.anycase")
    assert ranges_on_server(session, ranges, texts("ALICE", "bob", "BOB", "carol")).tolist() == [0, 1, 1, 1]
