"""Snapshots and changes of tables on a real server: each change is delivered exactly once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa
import pytest

from flip27_source.enumerators.mysql.split import parse_position
from tests.enumerators.mysql.reading import Query, query, values_of
from tests.mysql_server import MysqlServer
from tests.replica import Replica

ORDERS = "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(20))"
SEVEN = "INSERT INTO orders VALUES (1,'a'),(2,'b'),(3,'c'),(4,'d'),(5,'e'),(6,'f'),(7,'g')"

SCHEMA = pa.schema(
    {"id": pa.int32(), "v": pa.string(), "_op": pa.string(), "_pos": pa.int64(), "_seq": pa.int64()}
)


@pytest.fixture
def orders(mysql: MysqlServer) -> Iterator[Query]:
    """A table of seven rows, in chunks of three."""
    with query(mysql, ORDERS, SEVEN) as found:
        yield found


def test_the_rows_of_the_snapshot_are_read_once(orders: Query) -> None:
    orders.batches()
    found = values_of(orders.changes_from(), "_op", "id", "v", "_before", "_gtid", "_committed_at")
    assert sorted(found) == [("r", number, "abcdefg"[number - 1], None, None, None) for number in range(1, 8)]


def test_changes_follow_the_snapshot(orders: Query) -> None:
    orders.batches()
    changes = orders.write(
        "UPDATE orders SET v = 'z' WHERE id = 2",
        "DELETE FROM orders WHERE id = 3",
        "INSERT INTO orders VALUES (8, 'h')",
    )
    assert values_of(changes, "_op", "id", "v", "_before") == [
        ("u", 2, "z", {"id": 2, "v": "b"}),
        ("d", 3, "c", {"id": 3, "v": "c"}),
        ("c", 8, "h", None),
    ]
    orders.check_copy()


def test_a_change_has_its_transaction_and_its_table(orders: Query) -> None:
    orders.batches()
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    (change,) = orders.write("INSERT INTO orders VALUES (8, NULL)")
    ((gtid,),) = orders.execute("SELECT @@gtid_binlog_pos")
    database = orders.options["database"]
    assert (change["_gtid"], change["_table"], change["v"]) == (gtid, f"{database}.orders", None)
    assert before <= change["_committed_at"] <= dt.datetime.now(dt.UTC)


def test_the_time_of_a_change_is_that_of_the_statement_that_commits_it(orders: Query) -> None:
    orders.batches()
    changes = orders.write(
        *("SET timestamp = 100", "BEGIN", "INSERT INTO orders VALUES (8, 'h')", "SET timestamp = 200"),
        *("COMMIT", "SET timestamp = 300", "INSERT INTO orders VALUES (9, NULL)"),
    )
    times = [(key, at.timestamp()) for key, at in values_of(changes, "id", "_committed_at")]
    assert times == [(8, 200), (9, 300)]


def test_an_update_of_a_key_is_a_delete_and_an_insert(orders: Query) -> None:
    orders.batches()
    changes = orders.write("UPDATE orders SET id = id + 100 WHERE id = 7")
    assert values_of(changes, "_op", "id", "v") == [("d", 7, "g"), ("c", 107, "g")]


def test_an_update_of_a_key_from_a_date_that_is_null_is_a_delete_and_an_insert(mysql: MysqlServer) -> None:
    table = "CREATE TABLE orders (id DATE PRIMARY KEY, v INT)"
    with query(mysql, "SET sql_mode = ''", table, "INSERT INTO orders VALUES ('0000-00-00', 1)") as orders:
        orders.batches()
        day = dt.date(2021, 1, 1)
        changes = orders.write("UPDATE orders SET id = '2021-01-01'", "UPDATE orders SET id = '0000-00-00'")
        assert values_of(changes, "_op", "id") == [("d", None), ("c", day), ("d", day), ("c", None)]


def test_changes_between_the_plan_of_the_chunks_and_their_reads_come_once(orders: Query) -> None:
    orders.until_planned()
    orders.execute(
        "UPDATE orders SET v = 'x' WHERE id IN (1, 5)",
        "DELETE FROM orders WHERE id = 6",
        "INSERT INTO orders VALUES (0, 'o'), (9, 'p')",
        "UPDATE orders SET id = 20 WHERE id = 2",
    )
    orders.batches()
    orders.write("UPDATE orders SET v = 'y' WHERE id IN (1, 9, 20)")
    orders.check_copy()


def test_changes_between_the_reads_of_two_chunks_come_once(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS, SEVEN, maxRowsPerTrigger="3") as orders:
        for number in range(6):
            orders.until_planned()
            orders.execute(
                f"UPDATE orders SET v = '{number}'",
                f"INSERT INTO orders VALUES ({-number - 1}, 'low'), ({number + 100}, 'high')",
                f"UPDATE orders SET id = {200 + number} WHERE id = {number + 1}",
            )
            orders.engine.run_batch()
        orders.batches()
        orders.catch_up()
        orders.check_copy()


def test_the_log_is_read_beside_the_chunks_if_it_is_far_behind(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS, SEVEN, maxRowsPerTrigger="3", maxLogLagDuringSnapshot="1b") as orders:
        for number in range(8):
            orders.until_planned()
            orders.execute(f"UPDATE orders SET v = '{number}' WHERE id <> 4")
            orders.engine.run_batch()
        orders.batches()
        orders.catch_up()
        orders.check_copy()


def test_a_run_that_ends_reads_what_was_there_at_its_start(orders: Query) -> None:
    orders.engine.restart(available_now=True)
    orders.until_planned()
    orders.execute("INSERT INTO orders VALUES (8, 'h')")
    orders.engine.run_batch()
    orders.engine.process_all_available()
    assert sum(op == "c" for (op,) in values_of(orders.changes_from(), "_op")) == 0
    orders.catch_up()
    orders.check_copy()


def test_a_restart_continues_in_another_file_of_the_log(orders: Query) -> None:
    orders.batches()
    orders.write("INSERT INTO orders VALUES (8, 'h')")
    changes = orders.write(
        "FLUSH BINARY LOGS",
        "INSERT INTO orders VALUES (9, 'i')",
        "FLUSH BINARY LOGS",
        "INSERT INTO orders VALUES (10, 'j')",
    )
    assert values_of(changes, "_op", "id") == [("c", 9), ("c", 10)]
    assert orders.write("FLUSH BINARY LOGS") == []


def test_windows_are_as_short_as_the_limit_and_have_whole_transactions(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS, SEVEN, maxBytesPerTrigger="100b") as orders:
        orders.batches()
        seen = len(orders.engine.rows)
        orders.execute(
            "START TRANSACTION",
            "INSERT INTO orders VALUES (8, 'h')",
            "INSERT INTO orders VALUES (9, 'i')",
            "COMMIT",
            *(f"UPDATE orders SET v = '{number}' WHERE id = 1" for number in range(4)),
        )
        sizes = []
        for _ in range(60):
            at = len(orders.engine.rows)
            if orders.engine.trigger():
                orders.engine.run_batch()
                sizes.append(len(orders.engine.rows) - at)
        assert [size for size in sizes if size] == [2, 1, 1, 1, 1]
        assert len(orders.engine.rows) - seen == 6
        orders.check_copy()


def test_a_transaction_that_is_rolled_back_is_not_read(orders: Query) -> None:
    orders.batches()
    changes = orders.write(
        "START TRANSACTION",
        "INSERT INTO orders VALUES (8, 'h')",
        "SAVEPOINT s",
        "INSERT INTO orders VALUES (9, 'i')",
        "ROLLBACK TO s",
        "COMMIT",
        "START TRANSACTION",
        "INSERT INTO orders VALUES (10, 'j')",
        "ROLLBACK",
    )
    assert values_of(changes, "_op", "id") == [("c", 8)]


def test_a_truncate_is_a_change(orders: Query) -> None:
    orders.batches()
    changes = orders.write("TRUNCATE TABLE orders", "INSERT INTO orders VALUES (1, 'again')")
    assert values_of(changes, "_op", "id", "v") == [("t", None, None), ("c", 1, "again")]
    orders.check_copy()


def test_chunks_that_were_read_before_a_truncate_are_read_again(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS, SEVEN, maxRowsPerTrigger="3") as orders:
        orders.until_planned()
        orders.engine.run_batch()
        orders.execute("TRUNCATE TABLE orders", SEVEN)
        replica, seen = Replica(is_exact=False), 0
        while orders.engine.trigger() or orders.engine.trigger():
            # In the order of the batches: the TRUNCATE comes after rows of chunks that have it.
            for change in orders.changes_from(seen):
                replica.change(change["_op"], change["id"], (change["id"], change["v"]))
            seen = len(orders.engine.rows)
            orders.engine.run_batch()
        for change in orders.changes_from(seen):
            replica.change(change["_op"], change["id"], (change["id"], change["v"]))
        assert sorted(replica.rows.values()) == orders.execute("SELECT * FROM orders ORDER BY id")


def test_the_first_change_after_the_snapshot_of_a_chunk_is_delivered(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS, SEVEN, maxRowsPerTrigger="3") as orders:
        orders.until_planned()
        orders.engine.run_batch()
        (mark,) = {row["_pos"] for row in orders.changes_from()}
        orders.execute("UPDATE orders SET v = 'x' WHERE id IN (1, 4, 7)", "DELETE FROM orders WHERE id = 2")
        orders.batches()
        orders.catch_up()
        assert mark in {row["_pos"] for row in orders.changes_from() if row["_op"] == "u"}
        orders.check_copy()


def test_a_table_without_a_key_is_one_chunk(mysql: MysqlServer) -> None:
    with query(mysql, "CREATE TABLE orders (id INT, v VARCHAR(20))", SEVEN) as orders:
        orders.until_planned()
        orders.execute("INSERT INTO orders VALUES (8, 'h')", "DELETE FROM orders WHERE id = 1")
        orders.batches()
        orders.write("UPDATE orders SET v = 'z' WHERE id = 2")
        orders.check_copy()


def test_a_table_whose_key_is_a_text_is_one_chunk(mysql: MysqlServer) -> None:
    table = "CREATE TABLE orders (id VARCHAR(10) PRIMARY KEY, v VARCHAR(20))"
    with query(mysql, table, SEVEN) as orders:
        orders.until_planned()
        orders.execute(
            "UPDATE orders SET id = 'A' WHERE id = '1'", "UPDATE orders SET id = 'a' WHERE v = 'a'"
        )
        orders.batches()
        orders.write("DELETE FROM orders WHERE id = 'A'")
        orders.check_copy()


def test_a_table_is_cut_by_the_integers_at_the_beginning_of_its_key(mysql: MysqlServer) -> None:
    table = "CREATE TABLE orders (a INT, b SMALLINT, c VARCHAR(5), v INT, PRIMARY KEY (a, b, c))"
    rows = ", ".join(f"({a}, {b}, '{c}', 0)" for a in range(3) for b in range(3) for c in "xyzuv")
    with query(mysql, table, f"INSERT INTO orders VALUES {rows}", key="id", tables="orders") as orders:
        orders.until_planned()
        orders.execute("UPDATE orders SET v = 1 WHERE b = 1", "DELETE FROM orders WHERE c = 'u'")
        orders.batches()
        orders.catch_up()
        newest = {(row["a"], row["b"], row["c"]): row for row in orders.changes_from()}
        found = sorted((*key, row["v"]) for key, row in newest.items() if row["_op"] != "d")
        assert found == sorted(orders.execute("SELECT * FROM orders"))


def test_only_changes_are_read_without_a_snapshot(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS, SEVEN, snapshot="never") as orders:
        orders.batches()
        changes = orders.write("INSERT INTO orders VALUES (8, 'h')")
        assert values_of(changes, "_op", "id") == [("c", 8)]


def test_reading_begins_at_a_position(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS) as orders:
        ((file, offset, *_),) = orders.execute("SHOW MASTER STATUS")
        orders.execute(SEVEN)
        orders.options |= {"snapshot": "never", "startingPosition": f"{file}:{offset}"}
        orders.catch_up()
        assert {row["_pos"] for row in orders.changes_from()} == {parse_position(f"{file}:{offset}")}
        orders.check_copy()


def test_reading_begins_after_a_global_transaction_id(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS) as orders:
        orders.execute("INSERT INTO orders VALUES (1, 'a')")
        ((gtid,),) = orders.execute("SELECT @@gtid_binlog_pos")
        orders.execute("INSERT INTO orders VALUES (2, 'b')")
        orders.options |= {"snapshot": "never", "startingPosition": gtid}
        orders.catch_up()
        assert values_of(orders.changes_from(), "_op", "id") == [("c", 2)]


def test_reading_begins_at_the_end_after_the_last_global_transaction_id(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS, SEVEN) as orders:
        ((gtid,),) = orders.execute("SELECT @@gtid_binlog_pos")
        orders.options |= {"snapshot": "never", "startingPosition": gtid}
        orders.catch_up()
        assert values_of(orders.write("INSERT INTO orders VALUES (8, 'h')"), "id") == [(8,)]


def test_the_whole_log_is_read_from_its_beginning(mysql: MysqlServer) -> None:
    options = {"snapshot": "never", "startingPosition": "earliest"}
    with query(mysql, ORDERS, SEVEN, "DELETE FROM orders WHERE id = 1", **options) as orders:
        orders.catch_up()
        orders.check_copy()


def test_only_rows_are_read_with_snapshot_only(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS, SEVEN, snapshot="only") as orders:
        orders.batches()
        assert orders.write("INSERT INTO orders VALUES (8, 'h')") == []
        found = values_of(orders.changes_from(), "_op", "id")
        assert sorted(found) == [("r", number) for number in range(1, 8)]


def test_tables_are_named_by_patterns_and_rows_have_the_table(mysql: MysqlServer) -> None:
    others = [f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20))" for name in ("items", "log_a")]
    with query(mysql, ORDERS, *others, tables="*, -log_*") as orders:
        orders.batches()
        names = ("orders", "items", "log_a")
        changes = orders.write(*(f"INSERT INTO {name} VALUES (1, '{name}')" for name in names))
        database = orders.options["database"]
        assert values_of(changes, "_table", "v") == [
            (f"{database}.orders", "orders"),
            (f"{database}.items", "items"),
        ]


@pytest.mark.parametrize("change_format", ["typed", "envelope"])
def test_a_sequence_is_no_table(mysql: MysqlServer, change_format: str) -> None:
    options = {"tables": "*", "snapshot": "never", "changeFormat": change_format}
    with query(mysql, ORDERS, "CREATE SEQUENCE numbers", **options) as orders:
        orders.batches()
        orders.execute("INSERT INTO orders VALUES (NEXTVAL(numbers), 'a')")
        orders.catch_up()
        assert len(orders.engine.rows) == 1


def test_a_copy_of_a_sequence_is_a_table(mysql: MysqlServer) -> None:
    with query(mysql, "CREATE SEQUENCE numbers", "CREATE TABLE orders SELECT * FROM numbers") as orders:
        orders.batches()
        changes = orders.write("UPDATE orders SET start_value = 7")
        assert values_of(changes, "_op", "start_value") == [("u", 7)]


def test_two_tables_whose_names_look_alike_are_both_read(mysql: MysqlServer) -> None:
    mysql.execute(
        "CREATE DATABASE `x.y`",
        "CREATE DATABASE x",
        "CREATE TABLE `x.y`.z (id INT PRIMARY KEY)",
        "CREATE TABLE x.`y.z` (id INT PRIMARY KEY)",
        "INSERT INTO `x.y`.z VALUES (1)",
        "INSERT INTO x.`y.z` VALUES (2)",
    )
    try:
        with query(mysql, tables="`x.y`.z, x.`y.z`") as both:
            both.batches()
            found = sorted(values_of(both.changes_from(), "id", "_table"))
            assert found == [(1, "`x.y`.z"), (2, "x.`y.z`")]
    finally:
        mysql.execute("DROP DATABASE `x.y`", "DROP DATABASE x")


def test_a_new_table_is_read_with_its_rows(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS, SEVEN, tables="*") as orders:
        orders.catch_up()
        changes = orders.write(
            "CREATE TABLE items (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO items VALUES (1, 'i')"
        )
        assert values_of(changes, "_op", "id", "v") == [("r", 1, "i")]
        changes = orders.write("UPDATE items SET v = 'j'")
        assert values_of(changes, "_op", "v") == [("u", "j")]


def test_a_table_that_was_left_out_for_a_while_is_read_anew(mysql: MysqlServer) -> None:
    items = "CREATE TABLE items (id INT PRIMARY KEY, v VARCHAR(20))"
    with query(mysql, ORDERS, SEVEN, items, schema=SCHEMA) as orders:
        orders.batches()
        orders.engine.restart(options={**orders.options, "tables": "items"})
        orders.batches()
        orders.execute("UPDATE orders SET v = 'meanwhile' WHERE id = 1")
        orders.engine.restart(options=orders.options)
        orders.batches()
        orders.catch_up()
        orders.check_copy(is_exact=False)


def test_a_planned_window_has_the_tables_of_its_plan_if_the_option_changes(mysql: MysqlServer) -> None:
    items = "CREATE TABLE items (id INT PRIMARY KEY, v VARCHAR(20))"
    with query(mysql, ORDERS, items, schema=SCHEMA, snapshot="never") as orders:
        orders.batches()
        orders.execute("INSERT INTO orders VALUES (1, 'a')", "INSERT INTO items VALUES (2, 'b')")
        orders.until_planned()
        orders.engine.restart(options={"tables": "items"})
        orders.batches()
        orders.execute("INSERT INTO orders VALUES (3, 'c')", "INSERT INTO items VALUES (4, 'd')")
        orders.batches()
        assert values_of(orders.changes_from(), "id") == [(1,), (4,)]


def test_rows_are_json_with_the_format_envelope(mysql: MysqlServer) -> None:
    with query(mysql, ORDERS, "INSERT INTO orders VALUES (1, 'a')", changeFormat="envelope") as orders:
        orders.batches()
        seen = len(orders.engine.rows)
        orders.execute(
            "UPDATE orders SET v = '\"ü' WHERE id = 1", "DELETE FROM orders", "TRUNCATE TABLE orders"
        )
        orders.catch_up()
        names = orders.engine.schema.names
        rows = [dict(zip(names, row, strict=True)) for row in orders.engine.rows]
        assert values_of(rows[:seen], "op", "key", "before", "after") == [
            ("r", '{"id":1}', None, '{"id":1,"v":"a"}')
        ]
        assert values_of(rows[seen:], "op", "key", "before", "after") == [
            ("u", '{"id":1}', '{"id":1,"v":"a"}', '{"id":1,"v":"\\"ü"}'),
            ("d", '{"id":1}', '{"id":1,"v":"\\"ü"}', None),
            ("t", None, None, None),
        ]


def test_the_key_of_an_envelope_is_the_one_that_the_log_has(mysql: MysqlServer) -> None:
    table = "CREATE TABLE orders (a INT NOT NULL, id INT NOT NULL, v INT UNIQUE, UNIQUE (id, a), KEY (a))"
    with query(mysql, table, "INSERT INTO orders VALUES (1, 2, 3)", changeFormat="envelope") as orders:
        orders.batches()
        orders.execute("UPDATE orders SET v = 4")
        orders.catch_up()
        keys = [row[orders.engine.schema.names.index("key")] for row in orders.engine.rows]
        assert keys == ['{"id":2,"a":1}'] * 2


def test_decimal_numbers_of_an_envelope_have_no_exponent(mysql: MysqlServer) -> None:
    table = "CREATE TABLE orders (id INT PRIMARY KEY, v DECIMAL(10, 8))"
    with query(mysql, table, "INSERT INTO orders VALUES (1, 0.00000001)", changeFormat="envelope") as orders:
        orders.batches()
        (after,) = (row[orders.engine.schema.names.index("after")] for row in orders.engine.rows)
        assert after == '{"id":1,"v":"0.00000001"}'


def test_what_was_rolled_back_is_not_read_although_a_table_was_altered_before(mysql: MysqlServer) -> None:
    tables = ("CREATE TABLE items (id INT PRIMARY KEY)", ORDERS, "INSERT INTO orders VALUES (1, 'a')")
    with query(mysql, *tables, tables="orders, items", changeFormat="envelope") as orders:
        orders.batches()
        seen = len(orders.engine.rows)
        orders.execute("UPDATE orders SET v = 'b'", "ALTER TABLE orders ADD w INT")
        orders.execute("BEGIN", "INSERT INTO items VALUES (7)", "UPDATE orders SET v = 'c'")
        # The log has a transaction that is rolled back only if something in it cannot be.
        orders.execute("CREATE TEMPORARY TABLE others (id INT)", "ROLLBACK", "INSERT INTO items VALUES (8)")
        orders.catch_up()
        names = orders.engine.schema.names
        rows = [dict(zip(names, row, strict=True)) for row in orders.engine.rows[seen:]]
        assert values_of(rows, "op", "key") == [("u", '{"id":1}'), ("c", '{"id":8}')]


def test_a_chunk_is_read_in_blocks_that_are_small_however_large_its_rows_are(mysql: MysqlServer) -> None:
    table = "CREATE TABLE orders (id INT PRIMARY KEY, v LONGTEXT)"
    with query(mysql, table, snapshotChunkRows="1000") as orders:
        for number in range(6):
            orders.execute(f"INSERT INTO orders VALUES ({number}, REPEAT('x', 12000000))")
        orders.until_planned()
        sizes = [item.nbytes for item in orders.engine.read(orders.engine.partitions()[0])]
        assert len(sizes) > 1
        assert max(sizes) < 40_000_000
