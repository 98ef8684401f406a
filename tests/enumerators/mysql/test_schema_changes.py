"""Tables that are altered while they are read: rows have the columns that they had in the log."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from flip27_source.errors import Flip27Error
from flip27_source.testing import MicroBatchEngine
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


OWN_HASH = "DB_ROW_HASH_1 BIGINT UNSIGNED"
HASHED = f"CREATE TABLE orders (id INT PRIMARY KEY, v TEXT UNIQUE, {OWN_HASH}, w BLOB UNIQUE)"


def test_the_hidden_column_of_a_long_unique_key_is_no_column(mysql: MysqlServer) -> None:
    with query(mysql, HASHED) as orders:
        orders.batches()
        orders.write("INSERT INTO orders VALUES (1, 'a', 5, NULL)", "UPDATE orders SET v = 'b'")
        orders.check_copy()
        assert orders.changes_from()[-1]["_before"] == {"id": 1, "v": "a", "DB_ROW_HASH_1": 5, "w": None}


def test_an_envelope_has_no_hidden_column(mysql: MysqlServer) -> None:
    with query(mysql, HASHED, changeFormat="envelope") as orders:
        orders.batches()
        orders.execute("INSERT INTO orders VALUES (1, 'a', 5, NULL)")
        orders.batches()
        ((*_, after),) = (row[:5] for row in orders.engine.rows)
        assert after == '{"id":1,"v":"a","DB_ROW_HASH_1":"5","w":null}'


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


def test_changes_are_ordered_although_compressed_events_have_more_rows_than_bytes(mysql: MysqlServer) -> None:
    with query(mysql, "CREATE TABLE orders (id INT PRIMARY KEY, v INT)") as orders:
        orders.batches()
        orders.execute("SET GLOBAL log_bin_compress = 1", "SET GLOBAL log_bin_compress_min_len = 10")
        try:
            changes = orders.write(
                "INSERT INTO orders VALUES (1, 0)",
                f"INSERT INTO orders VALUES {', '.join(['(1, 0)'] * 3001)} ON DUPLICATE KEY UPDATE v = 1 - v",
            )
        finally:
            orders.execute("SET GLOBAL log_bin_compress = 0", "SET GLOBAL log_bin_compress_min_len = DEFAULT")
        assert values_of(changes, "_op", "v") == [("c", 0), *[("u", 1), ("u", 0)] * 1500, ("u", 1)]


UNREAD = {
    "UUID": "UUID()",
    "INET6": "'::1'",
    "INET4": "'10.1.2.3'",
    "POINT": "ST_GeomFromText('POINT(1 2)')",
    "VARCHAR(99) COMPRESSED": "REPEAT('x', 99)",
    "TEXT COMPRESSED": "REPEAT('x', 99)",
    "YEAR(2)": "70",
    "TEXT CHARACTER SET sjis": "'ア'",
}


def of_types(*names: str) -> pa.Schema:
    """A schema with strings, and with the columns that order the changes."""
    of_change = {"_op": pa.string(), "_pos": pa.int64(), "_seq": pa.int64()}
    return pa.schema({"id": pa.int32(), **dict.fromkeys(names, pa.string()), **of_change})


def read_all(options: dict[str, str]) -> None:
    engine = MicroBatchEngine(options)
    try:
        engine.process_all_available()
    finally:
        engine.stop()


def refusal(options: dict[str, str]) -> str:
    """The error of a query with these options, before it has read anything."""
    what = r"has the column v (of the type|in the character set) .*, which the mysql source does not read"
    with pytest.raises(Flip27Error, match=what) as refused:
        read_all(options)
    return str(refused.value)


def test_columns_of_types_that_are_not_read_are_refused(mysql: MysqlServer) -> None:
    with query(mysql, "CREATE TABLE orders (id INT PRIMARY KEY)") as orders:
        for kind in UNREAD:
            orders.execute(f"CREATE OR REPLACE TABLE orders (id INT PRIMARY KEY, v {kind})")
            assert "leave the column out" in refusal(orders.options), kind
            envelope = {"changeFormat": "envelope", "discoveryRetries": "0"}
            assert "or leave the table out" in refusal({**orders.options, **envelope}), kind


def test_a_column_of_an_old_temporal_type_is_refused_before_its_rows_are_read(mysql: MysqlServer) -> None:
    mysql.execute("SET GLOBAL mysql56_temporal_format = OFF")
    try:
        with query(mysql, "CREATE TABLE orders (id INT PRIMARY KEY, v DATETIME)") as orders:
            assert "of the type datetime /* mariadb-5.3 */" in refusal(orders.options)
    finally:
        mysql.execute("SET GLOBAL mysql56_temporal_format = ON")


def test_a_schema_may_leave_out_columns_that_are_not_read(mysql: MysqlServer) -> None:
    odd = ", ".join(f"u{number} {kind}" for number, kind in enumerate(UNREAD))
    table = (
        f"CREATE TABLE orders (id INT PRIMARY KEY, v TEXT CHARACTER SET greek, {odd}, w TEXT, x BINARY(4))"
    )
    values = ", ".join(UNREAD.values())
    rows = [f"INSERT INTO orders VALUES ({key}, 'ά', {values}, 'w', 'x')" for key in (1, 2)]
    with query(mysql, "SET NAMES utf8mb4", table, rows[0], schema=of_types("v", "w")) as orders:
        orders.batches()
        orders.write(rows[1], "UPDATE orders SET w = 'ω' WHERE id = 2")
        found = values_of(orders.changes_from(), "_op", "id", "v", "w")
        assert found == [("r", 1, "ά", "w"), ("c", 2, "ά", "w"), ("u", 2, "ά", "ω")]


@pytest.mark.parametrize("snapshot", ["initial", "never"])
@pytest.mark.parametrize("kind", ["UUID", "POINT", "TEXT COMPRESSED", "TEXT CHARACTER SET sjis"])
def test_a_column_that_is_not_read_is_refused_if_the_schema_has_it(
    mysql: MysqlServer, snapshot: str, kind: str
) -> None:
    write = f"INSERT INTO orders VALUES ({{}}, {UNREAD[kind]})"
    table = (f"CREATE TABLE orders (id INT PRIMARY KEY, v {kind})", write.format(1))
    with query(mysql, *table, schema=of_types("v"), snapshot=snapshot) as orders:
        orders.until_planned()
        orders.execute(write.format(2))
        with pytest.raises(Flip27Error, match=r"the column v (of the type|in the character set) .*, which"):
            orders.catch_up()


def test_a_table_may_get_a_column_that_is_not_read_if_new_columns_are_ignored(mysql: MysqlServer) -> None:
    get = ("ALTER TABLE orders ADD u UUID DEFAULT UUID()", "INSERT INTO orders VALUES (9, 'i', UUID())")
    with query(mysql, ORDERS, FOUR) as orders:
        orders.batches()
        with pytest.raises(Flip27Error, match="the column u of the type uuid, which") as refused:
            orders.write(*get)
        assert "onSchemaChange=ignore" in str(refused.value)
        orders.engine.restart(options={"onSchemaChange": "ignore"})
        assert values_of(orders.write("DELETE FROM orders WHERE id = 9"), "_op", "id", "v") == [
            ("c", 9, "i"),
            ("d", 9, "i"),
        ]


def test_names_of_columns_are_the_same_in_any_case(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS, FOUR, maxRowsPerTrigger="3") as orders:
        orders.until_planned()
        orders.engine.run_batch()
        orders.execute(
            "ALTER TABLE orders CHANGE v V VARCHAR(20), CHANGE id ID INT", "UPDATE orders SET v = 'x'"
        )
        orders.batches()
        orders.write("DELETE FROM orders WHERE id = 1", "INSERT INTO orders VALUES (5, 'x')")
        orders.check_copy(is_exact=False)


def test_another_change_format_is_refused_with_a_way_out(mysql: MysqlServer) -> None:
    for formats in (("typed", "envelope"), ("envelope", "typed")):
        with query(mysql, ORDERS, FOUR, changeFormat=formats[0]) as orders:
            orders.batches()
            orders.execute("DELETE FROM orders")
            orders.engine.restart(options={"changeFormat": formats[1]})
            with pytest.raises(Flip27Error, match="start a query with a new checkpoint and stateLocation"):
                orders.batches()


UNFIT = [
    ("FLOAT", "DOUBLE", "1e300"),
    ("FLOAT", "DOUBLE", "16777217"),
    ("DECIMAL(10,2)", "DOUBLE", "5.2512"),
    ("DOUBLE", "DECIMAL(30,10)", "12345678901234567.1234567891"),
    ("DATE", "DATETIME", "'2026-01-01 12:34:56'"),
    ("INT", "VARCHAR(10)", "'007'"),
    ("INT", "DATE", "'2026-01-01'"),
    ("TIMESTAMP NULL", "DATETIME", "'2026-01-01 12:00:00'"),
    ("DATETIME", "TIMESTAMP NULL", "'2026-01-01 12:00:00'"),
]


@pytest.mark.parametrize(("before", "after", "value"), UNFIT)
def test_a_value_of_another_type_that_the_column_cannot_hold_stops_the_query(
    mysql: MysqlServer, before: str, after: str, value: str
) -> None:
    with query(mysql, f"CREATE TABLE orders (id INT PRIMARY KEY, v {before})") as orders:
        orders.batches()
        with pytest.raises(Flip27Error, match=r"column v of table .* has a value that is not a"):
            orders.write(f"ALTER TABLE orders MODIFY v {after}", f"INSERT INTO orders VALUES (1, {value})")


@pytest.mark.parametrize(
    ("kind", "value", "read_as"),
    [("DOUBLE", "0.1", pa.float32()), ("TINYINT", "2", pa.bool_()), ("DATETIME", "NOW()", pa.date32())],
)
def test_a_value_that_the_users_schema_cannot_hold_stops_the_query(
    mysql: MysqlServer, kind: str, value: str, read_as: pa.DataType
) -> None:
    schema = of_types("v").set(1, pa.field("v", read_as))
    table = f"CREATE TABLE orders (id INT PRIMARY KEY, v {kind})"
    for snapshot in ("initial", "never"):
        with query(mysql, table, schema=schema, snapshot=snapshot) as orders:
            if snapshot == "never":
                orders.batches()
            orders.execute(f"INSERT INTO orders VALUES (1, {value})")
            with pytest.raises(Flip27Error, match=r"column v of table .* has a value that is not a"):
                orders.catch_up()
