"""Servers that lack what the mysql source needs: it stops, and its error names the remedy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from flip27_source.enumerators.mysql.connection import connect, rows_of
from flip27_source.enumerators.mysql.enumerator import MysqlEnumerator
from flip27_source.enumerators.mysql.errors import AlteredKeyError, NotInTheLogError
from flip27_source.errors import DataLossError, DiscoveryError, Flip27Error, OptionError, SplitReadError
from flip27_source.options import Options
from flip27_source.testing import MicroBatchEngine
from tests.certificates import self_signed
from tests.deadline import until
from tests.enumerators.mysql.reading import Query, fails, query, values_of
from tests.mysql_server import MysqlServer, mysql_server

ORDERS = "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(20))"
FOUR = "INSERT INTO orders VALUES (1,'a'),(2,'b'),(3,'c'),(4,'d')"


@pytest.fixture(scope="module")
def own_server() -> Iterator[MysqlServer]:
    """A server whose settings and log these tests change."""
    with mysql_server() as server:
        yield server


@pytest.fixture(scope="module")
def folding_server() -> Iterator[MysqlServer]:
    """A server that stores names in lower case, with a table Shop.Orders."""
    with mysql_server(lower_case_table_names="1") as server:
        table = ORDERS.replace("orders", "Shop.Orders")
        server.execute("CREATE DATABASE Shop", table, FOUR.replace("orders", "SHOP.orders"))
        yield server


@pytest.fixture
def orders(own_server: MysqlServer) -> Iterator[Query]:
    with query(own_server, ORDERS, FOUR) as found:
        yield found


def test_a_log_that_was_purged_before_it_was_read_is_a_data_loss(
    own_server: MysqlServer, orders: Query
) -> None:
    orders.batches()
    orders.execute("UPDATE orders SET v = 'lost'")
    own_server.purge_log()
    fails(orders, DataLossError, "no longer has its log from")


def test_with_on_data_loss_report_reading_goes_on_where_the_log_begins(own_server: MysqlServer) -> None:
    with query(own_server, ORDERS, FOUR, onDataLoss="report") as orders:
        orders.batches()
        orders.execute("UPDATE orders SET v = 'lost'")
        own_server.purge_log()
        changes = orders.write("UPDATE orders SET v = 'kept' WHERE id = 2")
        assert values_of(changes, "_op", "id", "v") == [("u", 2, "kept")]
        assert orders.engine.holder.report()["dataLosses"] == 1
        assert values_of(orders.write("DELETE FROM orders WHERE id = 3"), "_op", "id") == [("d", 3)]


@pytest.mark.parametrize("reads_first", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("on_data_loss", ["fail", "report"])
def test_a_log_that_was_begun_anew_and_looks_the_same_is_a_data_loss(
    own_server: MysqlServer, reads_first: bool, restarts: bool, on_data_loss: str
) -> None:
    """The new log has transactions of the same sizes and numbers at the same positions."""
    with query(own_server, ORDERS, onDataLoss=on_data_loss) as orders:
        began = orders.execute("RESET MASTER", "SELECT UNIX_TIMESTAMP()")[0][0]
        orders.batches()
        numbers = itertools.count()

        def insert() -> None:
            orders.execute(f"INSERT INTO orders VALUES ({100 + next(numbers)}, '')")

        if reads_first:
            insert()
            orders.batches()
        # The log has whole seconds.
        until(lambda: orders.execute("SELECT UNIX_TIMESTAMP()")[0][0] > began)
        orders.execute("RESET MASTER")
        for _ in range(3):
            insert()
        if restarts:
            orders.engine.restart()
        with pytest.raises(Flip27Error, match="it was deleted"):
            until(lambda: bool(orders.batches()))


def test_a_log_that_was_begun_anew_with_a_later_file_is_a_data_loss(own_server: MysqlServer) -> None:
    """It looks like a log whose older files were deleted, but nothing was before it."""
    with query(own_server, ORDERS, onDataLoss="report") as orders:
        orders.batches()
        orders.execute("RESET MASTER TO 500", "INSERT INTO orders VALUES (1, 'new')")
        fails(orders, DataLossError, "it was deleted")
    own_server.execute("RESET MASTER")


def test_a_log_that_was_begun_anew_while_a_chunk_was_planned_is_a_data_loss(own_server: MysqlServer) -> None:
    with query(own_server, ORDERS, FOUR, connectTimeout="1s") as orders:
        orders.until_planned()
        orders.execute("RESET MASTER")
        with pytest.raises(Flip27Error, match="it was deleted"):
            orders.engine.run_batch()


@pytest.mark.parametrize(
    ("server_id", "text"),
    [("1", "another server with the same server_id answers"), ("2", "does not have transaction 0-1-")],
)
def test_another_server_without_what_was_read_is_refused(orders: Query, server_id: str, text: str) -> None:
    orders.batches()
    now = "SELECT UNIX_TIMESTAMP()"
    began = orders.execute(now)[0][0]
    # The log of the other server begins in another second: the log has whole seconds.
    until(lambda: orders.execute(now)[0][0] > began)
    with mysql_server(server_id=server_id) as other:
        other_options = {**orders.options, "port": str(other.port)}
        with other.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {orders.options['database']}")
            cursor.execute(f"USE {orders.options['database']}")
            cursor.execute(ORDERS)
        orders.engine.restart(options=other_options)
        fails(orders, DataLossError, text)


@pytest.mark.parametrize(
    ("name", "value", "normal"),
    [
        ("binlog_format", "STATEMENT", "ROW"),
        ("binlog_row_image", "MINIMAL", "FULL"),
        ("binlog_row_metadata", "NO_LOG", "FULL"),
    ],
)
def test_a_server_whose_log_lacks_rows_is_refused(
    own_server: MysqlServer, orders: Query, name: str, value: str, normal: str
) -> None:
    orders.execute(f"SET GLOBAL {name} = '{value}'")
    try:
        fails(orders, DiscoveryError, f"variable {name} of the server is {value}")
    finally:
        orders.execute(f"SET GLOBAL {name} = '{normal}'")


def test_changes_that_the_log_has_as_statements_are_a_data_loss(orders: Query) -> None:
    orders.batches()
    orders.execute("SET SESSION binlog_format = 'STATEMENT'", "UPDATE orders SET v = 'x' WHERE id = 1")
    fails(orders, DataLossError, r"test_\w+\.orders was changed .* by a statement")


def test_statements_in_another_database_are_no_loss(orders: Query) -> None:
    orders.batches()
    name = f"{orders.options['database']}_other"
    changes = orders.write(
        f"CREATE DATABASE {name}",
        f"USE {name}",
        "CREATE TABLE others (name TEXT)",
        "SET SESSION binlog_format = 'STATEMENT'",
        "INSERT INTO others VALUES ('orders')",
        "SET SESSION binlog_format = 'ROW'",
        f"DROP DATABASE {name}",
        f"USE {orders.options['database']}",
        "INSERT INTO orders VALUES (5, 'e')",
    )
    assert values_of(changes, "_op", "id") == [("c", 5)]


@pytest.mark.parametrize(
    ("made", "statement"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON others FOR EACH ROW INSERT INTO orders VALUES (9, 't')", ""),
        ("CREATE VIEW v AS SELECT * FROM orders", "INSERT INTO v VALUES (9, 'v')"),
        (
            (
                "CREATE FUNCTION f() RETURNS INT DETERMINISTIC MODIFIES SQL DATA "
                "BEGIN INSERT INTO orders VALUES (9, 'f'); RETURN 1; END"
            ),
            "DO f()",
        ),
    ],
)
def test_a_statement_may_change_a_table_that_it_does_not_name(
    orders: Query, made: str, statement: str
) -> None:
    orders.execute("CREATE TABLE others (id INT)", made)
    orders.batches()
    orders.execute("SET SESSION binlog_format = 'STATEMENT'", statement or "INSERT INTO others VALUES (1)")
    fails(orders, DataLossError, r"\.orders was perhaps changed at .* by a trigger, a view or a function")


def test_a_file_that_a_statement_loads_is_a_data_loss(
    own_server: MysqlServer, orders: Query, tmp_path: Path
) -> None:
    orders.batches()
    (tmp_path / "rows").write_text("9\tloaded\n")
    orders.execute("SET SESSION binlog_format = 'STATEMENT'")
    with own_server.connect(orders.options["database"], local_infile=True) as local, local.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
        cursor.execute(f"LOAD DATA LOCAL INFILE '{tmp_path / 'rows'}' INTO TABLE orders")
    fails(orders, DataLossError, r"\.orders was changed .* by a statement")


def test_rows_of_which_the_log_has_only_some_columns_stop_the_query(orders: Query) -> None:
    orders.batches()
    orders.execute("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE orders SET v = 'x' WHERE id = 1")
    fails(orders, Flip27Error, "has only some columns of the rows of table")


def test_rows_whose_columns_have_no_names_in_the_log_stop_the_query(orders: Query) -> None:
    orders.batches()
    orders.execute("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        orders.execute("UPDATE orders SET v = 'x' WHERE id = 1")
    finally:
        orders.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    fails(orders, Flip27Error, "does not have the names of the columns")


def test_changes_in_xa_transactions_are_refused(orders: Query) -> None:
    orders.batches()
    changes = ("XA START 'one'", "INSERT INTO orders VALUES (5, 'e')", "XA END 'one'")
    orders.execute(*changes, "XA PREPARE 'one'", "XA COMMIT 'one'")
    fails(orders, Flip27Error, "is a part of an XA transaction")


def test_xa_transactions_of_other_tables_are_skipped(orders: Query) -> None:
    orders.batches()
    changes = orders.write(
        "CREATE TABLE others (id INT PRIMARY KEY)",
        "XA START 'two'",
        "INSERT INTO others VALUES (1)",
        "XA END 'two'",
        "XA PREPARE 'two'",
        "XA COMMIT 'two'",
        "INSERT INTO orders VALUES (5, 'e')",
    )
    assert values_of(changes, "_op", "id") == [("c", 5)]
    for number, end in ((3, "ROLLBACK"), (4, "COMMIT")):
        changes = ("XA START 'three'", f"INSERT INTO others VALUES ({number})", "XA END 'three'")
        assert orders.write(*changes, "XA PREPARE 'three'") == []
        assert orders.write(f"XA {end} 'three'") == []
    only_reads = ("XA START 'four'", "SELECT * FROM orders", "XA END 'four'", "XA PREPARE 'four'")
    assert orders.write(*only_reads) == []
    assert orders.write("XA COMMIT 'four'") == []


@contextmanager
def prepared(server: MysqlServer, database: str, *statements: str) -> Iterator[None]:
    """An XA transaction of another session that is prepared, and committed at the end."""
    with server.connect(database) as session, session.cursor() as cursor:
        for statement in ("XA START 'early'", *statements, "XA END 'early'", "XA PREPARE 'early'"):
            cursor.execute(statement)
        yield
        cursor.execute("XA COMMIT 'early'")


@pytest.mark.parametrize("snapshot", ["initial", "never"])
def test_an_xa_transaction_that_was_prepared_before_the_query_began_is_a_data_loss(
    own_server: MysqlServer, snapshot: str
) -> None:
    with query(own_server, ORDERS, FOUR, snapshot=snapshot) as orders:
        with prepared(own_server, orders.options["database"], "INSERT INTO orders VALUES (50, 'xa')"):
            orders.batches()
        fails(orders, DataLossError, "the XA transaction X'6561726c79',X'',1 was committed at .* not read")


def test_an_xa_transaction_of_a_table_that_was_found_later_is_a_data_loss(own_server: MysqlServer) -> None:
    statements = (ORDERS, FOUR, "CREATE TABLE others LIKE orders")
    with query(own_server, *statements, onDataLoss="report") as orders:
        orders.batches()
        with prepared(own_server, orders.options["database"], "INSERT INTO others VALUES (50, 'xa')"):
            orders.catch_up()
            orders.engine.restart(options={"tables": "orders, others"})
            orders.batches()
        orders.catch_up()
        assert orders.engine.holder.report()["dataLosses"] == 1


def test_a_large_xa_transaction_of_other_tables_is_skipped(orders: Query) -> None:
    orders.execute("CREATE TABLE others (id INT PRIMARY KEY, v LONGBLOB)", "CREATE TABLE last LIKE orders")
    orders.batches()
    fill = [f"INSERT INTO others VALUES ({number}, REPEAT('x', 1000000))" for number in range(12)]
    more = ("INSERT INTO last VALUES (1, 'a')", "XA END 'large'", "XA PREPARE 'large'")
    assert orders.write("XA START 'large'", *fill, *more) == []
    changes = orders.write("XA COMMIT 'large'", "INSERT INTO orders VALUES (5, 'e')")
    assert values_of(changes, "_op", "id") == [("c", 5)]


def test_a_large_xa_transaction_is_refused_before_any_row_of_it_is_delivered(orders: Query) -> None:
    orders.execute("CREATE TABLE others (id INT PRIMARY KEY, v LONGBLOB)")
    orders.batches()
    fill = [f"INSERT INTO others VALUES ({number}, REPEAT('x', 1000000))" for number in range(12)]
    orders.execute("XA START 'large'", "INSERT INTO orders VALUES (50, 'phantom')", *fill)
    orders.execute("XA END 'large'", "XA PREPARE 'large'", "XA ROLLBACK 'large'")
    fails(orders, Flip27Error, "is a part of an XA transaction")
    assert len(orders.engine.rows) == 4


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE orders",
        "DROP TABLE IF EXISTS others, orders",
        "RENAME TABLE orders TO former",
        "ALTER TABLE orders RENAME TO former",
        "CREATE OR REPLACE TABLE orders (id INT PRIMARY KEY)",
        "/* why */ alter table `orders` exchange partition a with table others",
        "ALTER TABLE orders TRUNCATE PARTITION b",
        "RENAME TABLE IF EXISTS .orders TO former",
        "CREATE OR REPLACE SEQUENCE orders",
    ],
)
def test_rows_that_are_removed_with_a_table_or_a_partition_are_a_data_loss(
    own_server: MysqlServer, statement: str
) -> None:
    partitions = (
        "PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (3), PARTITION b VALUES LESS THAN (9))"
    )
    with query(own_server, f"{ORDERS} {partitions}", FOUR) as orders:
        orders.batches()
        orders.execute(ORDERS.replace("orders", "others"), statement)
        orders.execute(ORDERS.replace("TABLE", "TABLE IF NOT EXISTS"))
        fails(orders, DataLossError, r"test_\w+\.orders was dropped, renamed or replaced")


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TABLE IF EXISTS others", "CREATE TABLE others LIKE orders"),
        ("CREATE OR REPLACE TABLE others LIKE orders",),
        ("CREATE TABLE staged LIKE orders", "RENAME TABLE staged TO others"),
        ("CREATE TABLE others (PRIMARY KEY (id)) SELECT * FROM orders",),
    ],
)
def test_what_was_done_to_a_table_before_its_chunks_are_read_is_no_loss(
    own_server: MysqlServer, statements: Sequence[str]
) -> None:
    with query(own_server, ORDERS, FOUR, tables="o*") as orders:
        orders.batches()
        orders.execute(*statements, FOUR.replace("INSERT", "REPLACE"))
        orders.execute(FOUR.replace("INSERT INTO orders", "REPLACE INTO others"))
        orders.catch_up()
        orders.execute("DELETE FROM others WHERE id = 1")
        orders.catch_up()
        of_others = [row for row in orders.changes_from() if row["_table"].endswith(".others")]
        assert values_of(of_others, "_op", "id")[-1] == ("d", 1)
        assert sorted(values_of(of_others[:-1], "_op", "id")) == [("r", key) for key in (1, 2, 3, 4)]


def test_a_table_that_had_another_engine_for_a_while_is_a_data_loss(orders: Query) -> None:
    """ENGINE=BLACKHOLE removes all rows, and others lose rows when the server is killed."""
    orders.batches()
    orders.execute("ALTER TABLE orders ENGINE=MyISAM", "ALTER TABLE orders ENGINE=InnoDB")
    fails(orders, DataLossError, "or given another engine")


def test_a_table_that_is_filled_by_a_statement_is_a_data_loss_without_a_snapshot(
    own_server: MysqlServer,
) -> None:
    with query(own_server, ORDERS, FOUR, tables="o*", snapshot="never") as orders:
        orders.batches()
        orders.execute("SET binlog_format = STATEMENT", "CREATE TABLE others SELECT * FROM orders")
        fails(orders, DataLossError, r"\.others was changed .* by a statement")


def test_a_table_that_lost_rows_before_it_was_found_is_a_data_loss_without_a_snapshot(
    own_server: MysqlServer,
) -> None:
    with query(own_server, ORDERS, FOUR, tables="new.*", snapshot="never", changeFormat="envelope") as orders:
        orders.batches()
        parent = f"{orders.options['database']}.orders"
        key = f"FOREIGN KEY f (o) REFERENCES {parent} (id) ON DELETE CASCADE"
        orders.execute(
            "CREATE DATABASE new",
            f"CREATE TABLE new.children (id INT PRIMARY KEY, o INT, {key})",
            "INSERT INTO new.children VALUES (1, 1), (2, 2)",
            "DELETE FROM orders WHERE id = 1",
            "ALTER TABLE new.children DROP FOREIGN KEY f",
        )
        fails(orders, DataLossError, r"new\.children was created .* with a foreign key that has CASCADE")
        orders.execute("DROP DATABASE new")
    with query(own_server, ORDERS, FOUR, tables="new.*", snapshot="never", changeFormat="envelope") as orders:
        orders.batches()
        made = ["CREATE DATABASE new", "CREATE TABLE new.a (id INT)", "INSERT INTO new.a VALUES (1)"]
        orders.execute(*made, "DROP DATABASE new")
        fails(orders, DataLossError, r"new\.a was dropped .* with its database")
    with query(own_server, ORDERS, FOUR, tables="new.*", snapshot="never", changeFormat="envelope") as orders:
        orders.batches()
        orders.execute(*made)
        orders.batches()
        orders.execute("DROP DATABASE new")
        fails(orders, DataLossError, r"new\.\* was dropped .* with its database")


def test_a_database_that_is_dropped_is_a_data_loss(own_server: MysqlServer, orders: Query) -> None:
    orders.batches()
    name = orders.options["database"]
    orders.execute(f"DROP DATABASE {name}", f"CREATE DATABASE {name}", f"USE {name}", ORDERS)
    fails(orders, DataLossError, f"{name}.orders was dropped .* with its database")


def test_altered_indexes_and_columns_and_temporary_tables_are_no_loss(orders: Query) -> None:
    orders.batches()
    changes = orders.write(
        "ALTER TABLE orders ADD INDEX i (v)",
        "ALTER TABLE orders RENAME INDEX i TO j",
        "ALTER TABLE orders RENAME COLUMN v TO w",
        "ALTER TABLE orders RENAME COLUMN w TO v",
        "ALTER TABLE orders ENGINE='InnoDB'",
        "CREATE TABLE others (id INT)",
        "ALTER TABLE others ADD COLUMN orders INT AUTO_INCREMENT UNIQUE",
        "CREATE TEMPORARY TABLE orders (id INT)",
        "INSERT INTO orders VALUES (77)",
        "TRUNCATE TABLE orders",
        "DROP TEMPORARY TABLE orders",
        "INSERT INTO orders VALUES (5, 'e')",
    )
    assert values_of(changes, "_op", "id") == [("c", 5)]


@pytest.mark.parametrize(
    ("statements", "ids"),
    [
        (["INSERT INTO other VALUES (1)", "ROLLBACK TO s", "INSERT INTO orders VALUES (52, '')"], [50, 52]),
        (["CREATE TEMPORARY TABLE t (id INT)", "ROLLBACK TO s"], [50]),
        (["CREATE TEMPORARY TABLE t (id INT)", "DROP TEMPORARY TABLE t", "ROLLBACK"], []),
    ],
)
def test_rows_that_were_undone_to_a_savepoint_are_not_delivered(
    orders: Query, statements: list[str], ids: list[int]
) -> None:
    """The log has these rows, and the ROLLBACK, if the transaction has changed what cannot be undone."""
    orders.execute("CREATE TABLE other (id INT) ENGINE=MyISAM")
    orders.batches()
    undone = ["SAVEPOINT s", "INSERT INTO orders VALUES (51, 'undone')"]
    changes = orders.write("BEGIN", "INSERT INTO orders VALUES (50, '')", *undone, *statements, "COMMIT")
    assert values_of(changes, "_op", "id") == [("c", number) for number in ids]
    orders.check_copy()


@pytest.mark.parametrize(
    "before", [[], ["BEGIN", "SAVEPOINT e", "DELETE FROM orders WHERE id = 1", "COMMIT"]]
)
def test_a_savepoint_that_the_server_knows_by_another_name_stops_the_query(
    orders: Query, before: list[str]
) -> None:
    """Savepoints are compared in a collation: é is e."""
    orders.execute("CREATE TABLE other (id INT) ENGINE=MyISAM")
    orders.batches()
    undone = ["SAVEPOINT `é`", "INSERT INTO orders VALUES (51, 'undone')", "INSERT INTO other VALUES (1)"]
    orders.execute(*before, "BEGIN", "INSERT INTO orders VALUES (50, '')", *undone, "ROLLBACK TO e", "COMMIT")
    fails(orders, SplitReadError, "was undone in part, .* to a savepoint that is not found")


def test_a_savepoint_of_other_tables_may_have_any_name(orders: Query) -> None:
    orders.execute("CREATE TABLE other (id INT) ENGINE=MyISAM", "CREATE TABLE others LIKE orders")
    orders.batches()
    undone = ["SAVEPOINT `é`", "INSERT INTO others VALUES (51, 'undone')", "INSERT INTO other VALUES (1)"]
    orders.execute("INSERT INTO orders VALUES (50, '')", "BEGIN", *undone, "ROLLBACK TO e", "COMMIT")
    assert values_of(orders.write("INSERT INTO orders VALUES (51, '')"), "id") == [(50,), (51,)]


def test_what_a_transaction_undoes_is_not_delivered_although_windows_are_short(mysql: MysqlServer) -> None:
    with query(
        mysql, "CREATE TABLE orders (id INT PRIMARY KEY, v LONGTEXT)", maxBytesPerTrigger="1k"
    ) as orders:
        orders.batches()
        large = [f"INSERT INTO orders VALUES ({number}, REPEAT('x', 100000))" for number in range(9)]
        orders.execute("BEGIN", *large, "CREATE TEMPORARY TABLE t (id INT)", "ROLLBACK")
        changes = orders.write("INSERT INTO orders VALUES (50, '')")
        assert values_of(changes, "_op", "id") == [("c", 50)]


@pytest.mark.parametrize(
    "statements",
    [
        ["EXECUTE IMMEDIATE IF(CONNECTION_ID(), 'TRUNCATE TABLE orders', '')"],
        [
            "SET sql_mode = ANSI_QUOTES",
            "PREPARE s FROM 'TRUNCATE \"orders\"'",
            "SET sql_mode = ''",
            "EXECUTE s",
        ],
        ["SET STATEMENT lock_wait_timeout = 9 FOR SET STATEMENT sql_mode = '' FOR TRUNCATE orders"],
        ["SET STATEMENT max_statement_time = 90 + 0 * CONNECTION_ID() FOR TRUNCATE TABLE orders"],
        [
            "CREATE PROCEDURE p() BEGIN CREATE TEMPORARY TABLE t (id INT); TRUNCATE TABLE orders; END",
            "CALL p()",
        ],
    ],
    ids=lambda statements: statements[-1][:12],
)
def test_a_truncate_counts_also_if_its_statement_is_of_one_session(
    orders: Query, statements: list[str]
) -> None:
    """The log marks statements with CONNECTION_ID() or temporary tables, as it marks a TRUNCATE of these."""
    orders.batches()
    assert values_of(orders.write(*statements), "_op") == [("t",)]
    orders.check_copy()


def test_a_truncate_counts_also_if_a_no_break_space_is_in_it(own_server: MysqlServer, orders: Query) -> None:
    """The server takes it for a space in the character set latin1."""
    orders.batches()
    with own_server.connect(orders.options["database"], charset="latin1") as other, other.cursor() as cursor:
        cursor.execute("TRUNCATE TABLE\u00a0orders")
    assert values_of(orders.write(), "_op") == [("t",)]


def test_a_temporary_table_that_the_log_has_with_the_name_of_a_table_is_a_data_loss(orders: Query) -> None:
    orders.batches()
    orders.execute(
        "SET SESSION binlog_format = 'MIXED'",
        "CREATE TEMPORARY TABLE orders (id INT)",
        "TRUNCATE TABLE orders",
        "DROP TEMPORARY TABLE orders",
        "SET SESSION binlog_format = 'ROW'",
    )
    fails(orders, DataLossError, r"orders was dropped, renamed or replaced \(or hidden by a temporary table,")


def test_a_foreign_key_that_changes_rows_by_itself_is_refused(own_server: MysqlServer) -> None:
    key = "FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE"
    parents = "CREATE TABLE parents (id INT PRIMARY KEY)"
    children = f"CREATE TABLE orders (id INT PRIMARY KEY, parent INT, {key})"
    with (
        own_server.account("SELECT, REPLICATION SLAVE, BINLOG MONITOR") as account,
        query(own_server, parents, children) as orders,
    ):
        orders.options |= {"user": account.name, "password": account.password}
        fails(orders, DiscoveryError, "deletes or updates rows together with those of another table")
    with query(own_server, parents, children, snapshot="only") as orders:
        orders.batches()


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        ("ALTER TABLE orders RENAME COLUMN id TO ident", ["id", "v"]),
        ("ALTER TABLE orders MODIFY id VARCHAR(10)", ["id", "v"]),
        ("ALTER TABLE orders DROP PRIMARY KEY, DROP COLUMN id, ADD PRIMARY KEY (v)", ["v"]),
        ("ALTER TABLE orders DROP PRIMARY KEY", ["id", "v"]),
        (
            "ALTER TABLE orders DROP PRIMARY KEY, MODIFY id INT NULL; INSERT INTO orders VALUES (NULL, '')",
            ["id", "v"],
        ),
        ("ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (v)", ["id", "v"]),
        ("ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (v, id)", ["id", "v"]),
        ("ALTER TABLE orders RENAME COLUMN id TO id2, ADD id INT", ["id", "v"]),
    ],
)
def test_a_key_that_is_altered_while_chunks_are_read_along_it_is_an_error_with_a_remedy(
    own_server: MysqlServer, statement: str, columns: list[str]
) -> None:
    schema = pa.schema([(name, {"id": pa.int64(), "v": pa.string()}[name]) for name in columns])
    with query(own_server, ORDERS, FOUR, schema=schema, snapshotChunkRows="2") as orders:
        orders.engine.restart(parallelism=1, options={**orders.options, "maxRowsPerTrigger": "2"})
        orders.until_planned()
        orders.engine.run_batch()
        orders.execute(*statement.split("; "), "UPDATE orders SET v = CONCAT(v, '!')")
        fails(orders, AlteredKeyError, r"\.orders is read in chunks along id")


@pytest.mark.parametrize(
    "altered",
    [
        "DROP PRIMARY KEY, RENAME COLUMN id TO k, RENAME COLUMN k TO id, ADD PRIMARY KEY (id)",
        "DROP COLUMN id, CHANGE k id INT NOT NULL KEY",
    ],
)
def test_a_key_of_the_same_name_whose_column_is_another_one_is_an_error_too(
    own_server: MysqlServer, altered: str
) -> None:
    table = "CREATE TABLE orders (id INT PRIMARY KEY, k INT)"
    rows = "INSERT INTO orders VALUES (1, 4), (2, 3), (3, 2), (4, 1)"
    with query(own_server, table, rows, snapshotChunkRows="2", maxRowsPerTrigger="2") as orders:
        orders.until_planned()
        orders.engine.run_batch()
        orders.execute(f"ALTER TABLE orders {altered}")
        fails(orders, AlteredKeyError, r"\.orders is read in chunks along id")


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("on_data_loss", ["fail", "report"])
def test_a_table_that_is_dropped_among_its_chunks_is_a_data_loss(
    own_server: MysqlServer, on_data_loss: str, restarts: bool
) -> None:
    options = {"maxRowsPerTrigger": "2", "snapshotChunkRows": "2", "onDataLoss": on_data_loss}
    others = ("CREATE TABLE others LIKE orders", "INSERT INTO others SELECT * FROM orders")
    with query(own_server, ORDERS, FOUR, *others, tables="orders, others", **options) as orders:
        orders.until_planned()
        orders.engine.run_batch()
        orders.execute("DROP TABLE orders")
        if restarts:
            orders.engine.restart()
        if on_data_loss == "fail":
            with pytest.raises(Flip27Error, match=r"\.orders (was dropped|no longer exists)"):
                orders.batches()
            return
        orders.batches()
        orders.execute("INSERT INTO others VALUES (9, 'i')")
        orders.catch_up()
        assert (9, "i") in values_of(orders.changes_from(), "id", "v")


@pytest.mark.parametrize("setting", ["binlog_do_db", "binlog_ignore_db"])
def test_a_server_that_leaves_databases_out_of_its_log_is_refused(setting: str) -> None:
    # A TRUNCATE of a session in such a database is not in the log, whatever the database of its table.
    with mysql_server(**{setting: "other"}) as server, query(server, ORDERS) as orders:
        fails(orders, DiscoveryError, rf"leaves databases out of its log, .*{setting} is 'other'")
        orders.engine.restart(options={"snapshot": "only"})
        orders.batches()


def test_a_table_of_another_engine_is_refused(own_server: MysqlServer) -> None:
    with query(own_server, f"{ORDERS} ENGINE=MyISAM") as orders:
        fails(orders, DiscoveryError, "has the engine MyISAM, which has no snapshots")


@pytest.mark.parametrize("tables", ["orders", "*"])
def test_a_system_versioned_table_is_refused(own_server: MysqlServer, tables: str) -> None:
    with query(own_server, f"{ORDERS} WITH SYSTEM VERSIONING", tables=tables) as orders:
        fails(orders, DiscoveryError, r"\.orders is system-versioned")


@pytest.mark.parametrize("setting", ["sql_select_limit = 2", "completion_type = CHAIN", "max_join_size = 1"])
def test_what_the_server_sets_for_sessions_changes_nothing(own_server: MysqlServer, setting: str) -> None:
    others = ("CREATE TABLE other LIKE orders", "CREATE TABLE third LIKE orders")
    with query(own_server, ORDERS, FOUR, *others, tables="*", snapshotChunkRows="1000") as orders:
        orders.execute("INSERT INTO third VALUES (1, 'a')")
        own_server.execute(f"SET GLOBAL {setting}")
        try:
            orders.batches()
        finally:
            own_server.execute(f"SET GLOBAL {setting.split(maxsplit=1)[0]} = DEFAULT")
        assert len(orders.engine.rows) == 5


def test_the_server_waits_for_a_task_that_reads_slowly(own_server: MysqlServer, orders: Query) -> None:
    own_server.execute("SET GLOBAL net_write_timeout = 1", "SET GLOBAL max_statement_time = 100")
    try:
        with connect(Options.parse(orders.options, MysqlEnumerator.options, knows_all=False)) as connection:
            (limits,) = rows_of(connection, "SELECT @@net_write_timeout, @@max_statement_time")
            assert tuple(map(float, limits)) == (86400, 0)
    finally:
        own_server.execute(
            "SET GLOBAL net_write_timeout = DEFAULT", "SET GLOBAL max_statement_time = DEFAULT"
        )


@pytest.mark.parametrize("on_schema_change", ["evolve", "ignore"])
@pytest.mark.parametrize("on_data_loss", ["fail", "report"])
def test_a_table_that_was_system_versioned_for_a_while_is_a_data_loss(
    own_server: MysqlServer, on_data_loss: str, on_schema_change: str
) -> None:
    options = {"onDataLoss": on_data_loss, "onSchemaChange": on_schema_change}
    with query(own_server, ORDERS, FOUR, **options) as orders:
        orders.batches()
        orders.execute(
            "SET system_versioning_alter_history = KEEP",
            "ALTER TABLE orders ADD SYSTEM VERSIONING",
            "UPDATE orders SET v = 'new' WHERE id = 1",
            "DELETE FROM orders WHERE id = 2",
            "ALTER TABLE orders DROP SYSTEM VERSIONING",
            "INSERT INTO orders VALUES (9, 'last')",
        )
        if on_data_loss == "fail":
            fails(orders, DataLossError, r"\.orders was given system versioning at")
            return
        if on_schema_change == "evolve":
            with pytest.raises(Flip27Error, match="columns that the schema does not have: row_start"):
                orders.catch_up()
        orders.catch_up()
        assert orders.engine.rows[-1][:2] == (9, "last")


def test_a_table_that_becomes_system_versioned_stops_the_query(own_server: MysqlServer) -> None:
    with query(own_server, ORDERS, FOUR, onSchemaChange="ignore") as orders:
        orders.batches()
        orders.execute("ALTER TABLE orders ADD SYSTEM VERSIONING", "UPDATE orders SET v = 'new' WHERE id = 1")
        with pytest.raises(Flip27Error, match=r"\.orders was given system versioning at"):
            orders.batches()
        assert len(orders.engine.rows) == 4


def test_a_table_that_does_not_exist_is_refused(own_server: MysqlServer) -> None:
    with query(own_server, ORDERS, tables="orders, missing") as orders:
        fails(orders, DiscoveryError, "table missing of option tables does not exist")


def test_a_table_without_a_database_is_refused(own_server: MysqlServer) -> None:
    for tables in ("orders", "or*", "*.orders, -logs"):
        with query(own_server, ORDERS, tables=tables) as orders:
            del orders.options["database"]
            fails(orders, OptionError, r"without a database, .*\s.*write the database in front")


@pytest.mark.parametrize("given", ["SHOP.Orders", "Orders", "or*"])
def test_names_of_tables_are_the_same_in_any_case_where_the_server_says_so(
    folding_server: MysqlServer, given: str
) -> None:
    with query(folding_server, tables=given, snapshotChunkRows="3", maxRowsPerTrigger="3") as orders:
        orders.options["database"] = "Shop"
        orders.until_planned()
        orders.engine.run_batch()
        orders.execute("UPDATE shop.orders SET v = 'x'")
        orders.batches()
        orders.catch_up()
        newest = {change["id"]: change["v"] for change in orders.changes_from()}
        assert newest == dict.fromkeys(range(1, 5), "x")


def test_a_time_limit_of_zero_is_refused(orders: Query) -> None:
    orders.options["readTimeout"] = "0s"
    fails(orders, OptionError, "a duration above 0 is expected")


def test_a_gtid_that_the_log_does_not_have_is_refused(own_server: MysqlServer) -> None:
    with query(own_server, ORDERS, snapshot="never", startingPosition="0-1-99999") as orders:
        fails(orders, NotInTheLogError, "set startingPosition=earliest, or the GTID of a transaction")


def test_each_domain_is_read_after_its_own_transaction_of_a_starting_position(
    own_server: MysqlServer,
) -> None:
    with query(own_server, ORDERS, snapshot="never") as orders:
        gtids = []
        for number, domain in enumerate([5, 0, 5, 0, 0, 5, 0]):
            insert = f"INSERT INTO orders VALUES ({number}, '{domain}')"
            ((gtid,),) = orders.execute(
                f"SET SESSION gtid_domain_id = {domain}", insert, "SELECT @@last_gtid"
            )
            gtids.append(gtid)
        orders.options["startingPosition"] = f"{gtids[0]},{gtids[4]}"
        orders.catch_up()
        assert values_of(orders.changes_from(), "id") == [(2,), (5,), (6,)]


def test_a_domain_that_the_log_does_not_have_is_refused(own_server: MysqlServer) -> None:
    with query(own_server, ORDERS, snapshot="never", startingPosition="3-1-5") as orders:
        fails(orders, DiscoveryError, "startingPosition is 3-1-5, and the log has no domain 3")


def test_a_position_that_the_log_has_not_reached_is_refused(own_server: MysqlServer) -> None:
    with query(own_server, ORDERS, snapshot="never", startingPosition="binlog.999999:4") as orders:
        fails(orders, DiscoveryError, "the log ends at")


@pytest.mark.parametrize("kind", ["Annotate_rows", "Table_map", "Write_rows_v1", "Xid"])
def test_a_position_within_a_transaction_is_refused(own_server: MysqlServer, kind: str) -> None:
    with query(own_server, ORDERS, snapshot="never") as orders:
        ((file, first, *_),) = orders.execute("SHOW MASTER STATUS")
        orders.execute("INSERT INTO orders VALUES (1, 'a')")
        events = orders.execute(f"SHOW BINLOG EVENTS IN '{file}' FROM {first}")
        orders.options["startingPosition"] = f"{file}:{next(row[1] for row in events if row[2] == kind)}"
        number = int(file.partition(".")[2])
        fails(orders, DiscoveryError, f"within the transaction that begins at {number:06}:{first}")


def test_reading_may_begin_between_transactions(own_server: MysqlServer, tmp_path: Path) -> None:
    with query(own_server, ORDERS, "FLUSH BINARY LOGS", snapshot="never") as orders:
        orders.execute("INSERT INTO orders VALUES (1, 'a')", "FLUSH BINARY LOGS")
        file = orders.execute("SHOW BINARY LOGS")[-2][0]
        within = ("Annotate_rows", "Table_map", "Write_rows_v1", "Xid")
        events = orders.execute(f"SHOW BINLOG EVENTS IN '{file}'")
        begins = [str(row[1]) for row in events if row[2] not in within]
        assert len(begins) > 4
        for place in begins:
            given = {"startingPosition": f"{file}:{place}", "stateLocation": str(tmp_path / place)}
            engine = MicroBatchEngine({**orders.options, **given})
            engine.restart(available_now=True)
            engine.process_all_available()


def test_a_position_that_the_log_no_longer_has_is_refused(own_server: MysqlServer) -> None:
    own_server.purge_log()
    with query(own_server, ORDERS, snapshot="never", startingPosition="1:4") as orders:
        fails(orders, DataLossError, "the log begins at")


def test_a_password_comes_from_the_environment_and_is_in_no_message_and_no_state(
    own_server: MysqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    privileges = "SELECT, REPLICATION SLAVE, BINLOG MONITOR"
    with own_server.account(privileges) as account, query(own_server, ORDERS, FOUR) as orders:
        monkeypatch.setenv("ORDERS_PASSWORD", account.password)
        options = {**orders.options, "user": account.name, "passwordEnv": "ORDERS_PASSWORD"}
        engine = MicroBatchEngine(options)
        engine.restart(available_now=True)
        engine.process_all_available()
        assert len(engine.rows) == 4
        files = Path(options["stateLocation"]).rglob("*")
        stored = b"".join(file.read_bytes() for file in files if file.is_file())
        assert stored
        assert account.password.encode() not in stored
        monkeypatch.setenv("ORDERS_PASSWORD", "wrong-password")
        engine.restart()
        with pytest.raises(Flip27Error, match="Access denied") as caught:
            engine.process_all_available()
        assert "wrong-password" not in str(caught.value)


def test_an_account_that_may_not_read_the_log_is_told_what_it_needs(own_server: MysqlServer) -> None:
    with own_server.account("SELECT") as account, query(own_server, ORDERS, FOUR) as orders:
        orders.options |= {"user": account.name, "password": account.password}
        with pytest.raises(Flip27Error, match=re.escape("GRANT REPLICATION SLAVE, BINLOG MONITOR")):
            orders.catch_up()


def test_connections_use_tls_with_a_file_of_trusted_certificates(tmp_path: Path) -> None:
    for name in ("ours", "other"):
        (tmp_path / name).mkdir()
    ours, other = (str(self_signed(tmp_path / name)) for name in ("ours", "other"))
    privileges = "SELECT, REPLICATION SLAVE, BINLOG MONITOR"
    with (
        mysql_server(ssl_cert=ours, ssl_key=ours) as server,
        server.account(privileges) as account,
        query(server, ORDERS, FOUR) as orders,
    ):
        orders.execute(f"ALTER USER '{account.name}'@'127.0.0.1' REQUIRE SSL")
        orders.options |= {"user": account.name, "password": account.password, "sslCa": ours}
        orders.batches()
        assert len(orders.write("UPDATE orders SET v = 'x'")) == 4
        names = {option.name for option in MysqlEnumerator.options}
        options = {name: text for name, text in orders.options.items() if name in names} | {"sslCa": other}
        with pytest.raises(Flip27Error, match="certificate verify failed"):
            MysqlEnumerator.find_schema(Options.parse(options, MysqlEnumerator.options))
        del options["sslCa"]
        with connect(Options.parse(options, MysqlEnumerator.options)) as unchecked:
            assert rows_of(unchecked, "SHOW STATUS LIKE 'Ssl_cipher'") != [("Ssl_cipher", "")]
            # Those of the public authorities take 30 ms of CPU for each connection.
            assert unchecked.ctx.cert_store_stats()["x509"] == 0


def test_a_password_and_its_variable_exclude_each_other(own_server: MysqlServer) -> None:
    with query(own_server, ORDERS, password="a", passwordEnv="HOME") as orders:
        fails(orders, OptionError, "options password and passwordEnv are both set")


def test_a_server_that_is_killed_continues_where_the_query_was(
    own_server: MysqlServer, orders: Query
) -> None:
    orders.batches()
    orders.write("INSERT INTO orders VALUES (5, 'e')")
    own_server.kill()
    own_server.start()
    orders.reconnect()
    changes = orders.write("INSERT INTO orders VALUES (6, 'f')")
    assert values_of(changes, "_op", "id") == [("c", 6)]
    orders.check_copy()
