"""Unchanged large values that are read from the table, after the table itself has changed."""

from __future__ import annotations

import pytest

from tests.enumerators.postgres.reading import Query, query
from tests.postgres_server import PostgresServer

SHOP = (
    "CREATE TABLE orders (id int PRIMARY KEY, v text, note text, place int)",
    "ALTER TABLE orders ALTER note SET STORAGE EXTERNAL",
    "INSERT INTO orders SELECT i, 'old', repeat('n', 5000) FROM generate_series(1, 3) i",
)
COLUMNS = ("id", "v", "note")
NOTE = "n" * 5000


def last_change(orders: Query) -> dict[str, object]:
    """Return the newest change, without its position in the log."""
    change = orders.changes[-1]
    return {name: change[name] for name in (*COLUMNS, "_op", "_unchanged")}


def test_values_of_a_renamed_table_are_read_under_its_new_name(postgres: PostgresServer) -> None:
    with query(postgres, *SHOP, tables="public.*", columns=COLUMNS, unchangedValues="read") as orders:
        orders.read_all()
        orders.write("UPDATE orders SET v = 'new' WHERE id = 2", "ALTER TABLE orders RENAME TO sales")
        assert last_change(orders) == {"id": "2", "v": "new", "note": NOTE, "_op": "u", "_unchanged": None}


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
        assert last_change(orders) == {
            "id": "2",
            "v": "new",
            "note": None,
            "_op": "u",
            "_unchanged": ["note"],
        }


def test_the_values_of_a_new_key_are_read_from_a_renamed_table(postgres: PostgresServer) -> None:
    with query(postgres, *SHOP, tables="public.*", columns=COLUMNS) as orders:
        orders.read_all()
        orders.write("UPDATE orders SET id = 20 WHERE id = 2", "ALTER TABLE orders RENAME TO sales")
        assert last_change(orders) == {"id": "20", "v": "old", "note": NOTE, "_op": "c", "_unchanged": None}


def test_values_are_not_read_from_rows_of_inheriting_tables(postgres: PostgresServer) -> None:
    child = "CREATE TABLE child () INHERITS (orders)"
    with query(postgres, SHOP[0], child, *SHOP[1:], columns=COLUMNS, unchangedValues="read") as orders:
        orders.execute("INSERT INTO child VALUES (2, 'child', 'of the child')")
        orders.read_all()
        orders.write("UPDATE ONLY orders SET v = 'new' WHERE id = 2")
        assert last_change(orders) == {"id": "2", "v": "new", "note": NOTE, "_op": "u", "_unchanged": None}
