"""Unchanged large values are read from the table in parts that fit into memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flip27_source.readers.postgres.delivered_changes import DeliveredChanges
from flip27_source.readers.postgres.unchanged_values import PART_BYTES, with_values_read
from tests.postgres_server import PostgresServer
from tests.readers.postgres.changing import changed
from tests.readers.postgres.pgoutput_messages import UNCHANGED, relation, update

MB = 1 << 20


def updates(oid: int, *ids: int) -> DeliveredChanges:
    """Updates of these rows, which do not change the column ``name``."""
    table = relation(oid=oid)
    return changed(table, *(update(table, str(number).encode(), UNCHANGED) for number in ids))


def test_large_values_are_read_in_parts(postgres: PostgresServer) -> None:
    with postgres.database() as database, postgres.connect(database) as connection:
        connection.execute("CREATE TABLE orders (id text PRIMARY KEY, name text)")
        connection.execute(
            "INSERT INTO orders SELECT i, repeat(i::text, CASE i WHEN 5 THEN 10 ELSE 3 END * 1024 * 1024) "
            "FROM generate_series(1, 9) i"
        )
        ((oid,),) = connection.execute("SELECT 'orders'::regclass::oid::int8").fetchall()
        # Row 10 does not exist; row 1 changes several times, and its value is then read as often.
        given = [1, 1, 1, 10, 5, 2, 3, 1, 1, 4]
        changes = updates(oid, *given)
        parts = list(with_values_read(connection, changes, key=[0], rows=np.ones(len(given), np.bool_)))
    assert [texts for part in parts for texts in part.after[0].cast(pa.string()).to_pylist()] == [
        str(number) for number in given
    ]
    sizes = [[len(text or b"") for text in part.after[1].to_pylist()] for part in parts]
    assert sizes == [[3 * MB, 3 * MB], [3 * MB, 0], [10 * MB], [3 * MB, 3 * MB], [3 * MB, 3 * MB], [3 * MB]]
    assert all(sum(part) <= PART_BYTES or len(part) == 1 for part in sizes)
    unknown = [mask for part in parts if part.unchanged[1] is not None for mask in part.unchanged[1].tolist()]
    assert unknown == [number == 10 for number in given]


def test_small_values_are_read_at_once(postgres: PostgresServer) -> None:
    with postgres.database() as database, postgres.connect(database) as connection:
        connection.execute("CREATE TABLE orders (id text PRIMARY KEY, name text)")
        connection.execute("INSERT INTO orders VALUES ('1', 'a'), ('2', NULL)")
        ((oid,),) = connection.execute("SELECT 'orders'::regclass::oid::int8").fetchall()
        (part,) = with_values_read(connection, updates(oid, 1, 2), key=[0], rows=np.ones(2, np.bool_))
    assert part.after[1].to_pylist() == [b"a", None]
