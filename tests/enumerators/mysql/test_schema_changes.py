"""Tables that are altered while they are read: rows have the columns that they had in the log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flip27_source.errors import Flip27Error
from tests.enumerators.mysql.reading import Query, query, values_of
from tests.mysql_server import MysqlServer

ORDERS = "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(20))"
FOUR = "INSERT INTO orders VALUES (1,'a'),(2,'b'),(3,'c'),(4,'d')"


@pytest.fixture
def orders(mysql: MysqlServer) -> Iterator[Query]:
    with query(mysql, ORDERS, FOUR) as found:
        found.batches()
        yield found


def test_a_new_column_stops_the_query_which_has_it_after_a_restart(orders: Query) -> None:
    with pytest.raises(Flip27Error, match="has columns that the schema does not have: n int"):
        orders.write(
            "INSERT INTO orders VALUES (5, 'e')",
            "ALTER TABLE orders ADD n INT",
            "INSERT INTO orders VALUES (6, 'f', 6)",
        )
    seen = len(orders.engine.rows)
    orders.catch_up()
    assert values_of(orders.changes_from(seen), "id", "v", "n") == [(5, "e", None), (6, "f", 6)]


def test_a_new_column_is_left_out_if_it_is_to_be_ignored(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS, FOUR, onSchemaChange="ignore") as orders:
        orders.batches()
        changes = orders.write("ALTER TABLE orders ADD n INT FIRST", "INSERT INTO orders VALUES (7, 8, 'h')")
        assert values_of(changes, "id", "v") == [(8, "h")]


def test_a_dropped_column_stops_the_query_if_it_is_to_fail(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS, FOUR, onSchemaChange="fail") as orders:
        orders.batches()
        with pytest.raises(Flip27Error, match="it has no v"):
            orders.write("ALTER TABLE orders DROP v", "INSERT INTO orders VALUES (5)")


def test_a_dropped_column_is_null_from_then_on(orders: Query) -> None:
    changes = orders.write(
        "UPDATE orders SET v = 'x' WHERE id = 1",
        "ALTER TABLE orders DROP v",
        "INSERT INTO orders VALUES (5)",
        "DELETE FROM orders WHERE id = 1",
    )
    assert values_of(changes, "_op", "id", "v") == [("u", 1, "x"), ("c", 5, None), ("d", 1, None)]


def test_columns_are_known_by_their_names_wherever_they_are(orders: Query) -> None:
    changes = orders.write(
        "INSERT INTO orders VALUES (5, 'before')",
        "ALTER TABLE orders MODIFY v VARCHAR(300) FIRST",
        "INSERT INTO orders VALUES ('after', 6)",
    )
    assert values_of(changes, "id", "v") == [(5, "before"), (6, "after")]


def test_values_of_a_wider_type_are_read_if_the_column_has_room_for_them(orders: Query) -> None:
    changes = orders.write("ALTER TABLE orders MODIFY id BIGINT", "INSERT INTO orders VALUES (8, 'h')")
    assert values_of(changes, "id") == [(8,)]
    with pytest.raises(Flip27Error, match=r"column id of table .* has a value that is not a int32"):
        orders.write("INSERT INTO orders VALUES (1234567890123, 'i')")


def test_another_key_is_that_of_the_changes_after_it(orders: Query) -> None:
    changes = orders.write(
        "UPDATE orders SET v = 'w' WHERE id = 1",
        "ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (v)",
        "UPDATE orders SET id = 11 WHERE v = 'w'",
        "UPDATE orders SET v = 'x' WHERE v = 'w'",
    )
    assert values_of(changes, "_op", "id", "v") == [
        ("u", 1, "w"),
        ("u", 11, "w"),
        ("d", 11, "w"),
        ("c", 11, "x"),
    ]


def test_a_table_that_is_altered_among_its_chunks_is_read_to_the_end(mysql: MysqlServer) -> None:
    options = {"maxRowsPerTrigger": "3", "onSchemaChange": "ignore"}
    with query(mysql, ORDERS, FOUR, **options) as orders:
        orders.until_planned()
        orders.engine.run_batch()
        orders.execute("ALTER TABLE orders ADD n INT", "UPDATE orders SET v = 'z', n = id")
        orders.batches()
        orders.catch_up()
        newest = {change["id"]: change["v"] for change in orders.changes_from()}
        assert newest == dict.fromkeys(range(1, 5), "z")


def test_generated_and_invisible_columns_are_read(mysql: MysqlServer) -> None:
    columns = "id INT PRIMARY KEY, s INT AS (id * 2) STORED, p INT AS (id * 3) VIRTUAL, n INT INVISIBLE"
    first = "INSERT INTO orders (id, n) VALUES (1, 5)"
    with query(mysql, f"CREATE TABLE orders ({columns})", first) as orders:
        orders.batches()
        orders.write("INSERT INTO orders (id, n) VALUES (2, 6)")
        found = values_of(orders.changes_from(), "_op", "id", "s", "p", "n")
        assert found == [("r", 1, 2, 3, 5), ("c", 2, 4, 6, 6)]


def test_names_of_tables_and_columns_may_have_any_characters(mysql: MysqlServer) -> None:
    name, column = "a.b``c, ü%s", "x`y%d ü"
    quoted = column.replace("`", "``")
    table = f"CREATE TABLE `{name}` (`id` INT PRIMARY KEY, `{quoted}` INT)"
    statements = [table, f"INSERT INTO `{name}` VALUES (1, 1), (2, 2), (3, 3), (4, 4)"]
    with query(mysql, *statements, tables=f"`{name}`") as orders:
        orders.batches()
        changes = orders.write(f"UPDATE `{name}` SET `{quoted}` = 5 WHERE id = 4", f"TRUNCATE `{name}`")
        assert values_of(changes, "_op", "id", column) == [("u", 4, 5), ("t", None, None)]


def test_compressed_events_are_read(mysql: MysqlServer) -> None:
    text = "'" + "long " * 200 + "'"
    with query(mysql, "CREATE TABLE orders (id INT PRIMARY KEY, v TEXT)") as orders:
        orders.batches()
        orders.execute("SET GLOBAL log_bin_compress = 1")
        try:
            changes = orders.write(
                f"INSERT INTO orders VALUES (1, {text})",
                "UPDATE orders SET v = CONCAT(v, v)",
                "DELETE FROM orders",
            )
        finally:
            orders.execute("SET GLOBAL log_bin_compress = 0")
        sizes = [(change["_op"], len(change["v"])) for change in changes]
        assert sizes == [("c", 1000), ("u", 2000), ("d", 2000)]


@pytest.mark.parametrize("kind", ["UUID", "INET6", "POINT"])
def test_columns_of_types_that_are_not_read_are_refused(mysql: MysqlServer, kind: str) -> None:
    table = f"CREATE TABLE orders (id INT PRIMARY KEY, v {kind})"
    refusal = f"the column v of the type {kind.lower()}, which"
    with query(mysql, table) as orders, pytest.raises(Flip27Error, match=refusal):
        orders.batches()
