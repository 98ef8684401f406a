"""What statements in the log do to tables, in the spellings that servers accept."""

from __future__ import annotations

import pytest

from flip27_source.enumerators.mysql.split import TableName
from flip27_source.enumerators.mysql.statements import Loss, Statement, Writing

ORDERS = TableName(schema="shop", name="orders")
ODD = TableName(schema="shop", name="a#b -- `c")
KNOWN = (ORDERS, ODD)
ANSI_QUOTES, MSSQL, NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 10, 1 << 20


def losses(sql: str, schema: str = "shop", modes: int = 0) -> dict[str, Loss]:
    found = Statement(sql, schema, modes).losses(KNOWN.__contains__, KNOWN)
    return {str(table): loss for table, loss in found}


def decode(text: bytes, collation: int) -> str:
    return text.decode("latin-1" if collation == 8 else "utf-8")


def body(sql: bytes, *variables: bytes, schema: bytes = b"shop") -> bytes:
    status = b"".join(variables)
    head = bytes(8) + bytes([len(schema)]) + bytes(2) + len(status).to_bytes(2, "little")
    return head + status + schema + b"\0" + sql


@pytest.mark.parametrize(
    "sql",
    [
        "TRUNCATE TABLE orders",
        "truncate orders",
        "/* why */ TRUNCATE -- now\n TABLE `orders`",
        "TRUNCATE TABLE shop.orders WAIT 5",
        "/*!40000 TRUNCATE */ TABLE `shop` . `orders`",
        "TRUNCATE/**/orders # all of it",
        "SET STATEMENT lock_wait_timeout = 1 FOR SET STATEMENT sql_mode = '' FOR TRUNCATE orders",
        'TRUNCATE TABLE "orders"',
        'TRUNCATE "shop"."orders"',
    ],
)
def test_a_truncate_empties_a_table_in_every_spelling(sql: str) -> None:
    assert Statement(sql, "shop").emptied == ORDERS
    assert losses(sql) == {}


def test_names_are_quoted_as_the_session_says() -> None:
    assert Statement("TRUNCATE `a#b -- ``c`", "shop").emptied == ODD
    assert Statement('TRUNCATE TABLE "shop"."orders"', "", ANSI_QUOTES).emptied == ORDERS
    assert losses('RENAME TABLE "orders" TO "former"', modes=ANSI_QUOTES) == {"shop.orders": Loss.GONE}
    assert losses('ALTER TABLE others COMMENT "orders"') == {}
    assert Statement("TRUNCATE TABLE [a#b -- `c]", "shop", MSSQL).emptied == ODD
    assert Statement("TRUNCATE [a[[b]].c]", "shop", MSSQL).emptied == TableName(schema="shop", name="a[[b].c")
    for sql in ("ALTER TABLE [shop].[orders] RENAME [x]", "ALTER TABLE [orders] DROP PARTITION [a]"):
        # The session may have had the mode only when it prepared the statement.
        assert losses(sql, modes=MSSQL) == losses(sql) == {"shop.orders": Loss.GONE}


@pytest.mark.parametrize("name", ["²", "\u0661", "\u0085a", "\u3000b", "c\u00a0d", "1e5", "`12`"])
def test_a_bare_name_may_have_every_letter_beyond_ascii(name: str) -> None:
    named = TableName(schema="shop", name=name.strip("`"))
    assert Statement(f"TRUNCATE TABLE {name}", "shop").emptied == named


def test_the_text_is_decoded_as_the_session_says() -> None:
    latin1 = bytes([4]) + (8).to_bytes(2, "little") + bytes(4)
    variables = [bytes([0]) + bytes(4), bytes([1]) + ANSI_QUOTES.to_bytes(8, "little"), b"\6\3std", latin1]
    sql = body('TRUNCATE TABLE "bücher"'.encode("latin-1"), *variables)
    found = Statement.read(sql, Writing(decode))
    assert found.emptied == TableName(schema="shop", name="bücher")
    assert Statement.read(body("TRUNCATE bücher".encode()), Writing(decode)).emptied == found.emptied
    # A no-break space is a space in a character set of single bytes, and a letter in UTF-8.
    for sql, name in (("TRUNCATE\u00a0TABLE\u00a0b", "b"), ("TRUNCATE `b\u00a0c`", "b\u00a0c")):
        found = Statement.read(body(sql.encode("latin-1"), *variables), Writing(decode))
        assert found.emptied == TableName(schema="shop", name=name)
    found = Statement.read(body("TRUNCATE b\u00a0c".encode()), Writing(decode))
    assert found.emptied == TableName(schema="shop", name="b\u00a0c")


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE others, `orders`",
        "DROP TABLES orders",
        "DROP TABLE IF EXISTS shop.orders",
        "RENAME TABLE others TO former, shop.orders TO others",
        "RENAME TABLES orders TO former",
        "CREATE OR REPLACE TABLE orders (id INT)",
        "CREATE OR REPLACE TABLE IF NOT EXISTS `orders` LIKE others",
        "ALTER TABLE orders RENAME=former",
        "ALTER TABLE .orders RENAME TO former",
        "ALTER TABLE others RENAME .orders",
        "ALTER TABLE others RENAME AS .orders",
        "RENAME TABLE IF EXISTS .orders TO former",
        "RENAME TABLE others TO .orders",
        'RENAME TABLE "orders" TO "former"',
        "CREATE OR REPLACE SEQUENCE orders",
        "ALTER TABLE orders ENGINE=BLACKHOLE",
        "ALTER TABLE orders WAIT 5 ENGINE 'BLACKHOLE'",
        "ALTER TABLE orders ADD INDEX (v), COMMENT 'x' ENGINE = MEMORY",
        "ALTER TABLE IF EXISTS . orders DROP PARTITION a",
        "ALTER TABLE others EXCHANGE PARTITION a WITH TABLE .orders",
        "ALTER TABLE orders RENAME`former`",
        "ALTER TABLE orders RENAME key_former",
        "ALTER TABLE orders ADD INDEX (v), RENAME TO former",
        "ALTER ONLINE IGNORE TABLE orders DROP PARTITION a",
        "ALTER TABLE orders TRUNCATE PARTITION a",
        "ALTER TABLE orders NOWAIT RENAME TO former",
        "ALTER TABLE shop.orders WAIT 5 DROP PARTITION a, ADD INDEX (v)",
        "ALTER TABLE orders ADD COLUMN `n` SERIAL",
        "ALTER TABLE orders ADD COLUMN IF NOT EXISTS n SERIAL",
        "ALTER TABLE orders ADD (n SERIAL)",
        "ALTER TABLE orders ADD COLUMN (w DECIMAL(5, 2), n SERIAL)",
        "ALTER TABLE orders ADD n BIGINT SERIAL DEFAULT VALUE",
        "ALTER TABLE orders EXCHANGE PARTITION a WITH TABLE b",
        "ALTER TABLE others EXCHANGE PARTITION a WITH TABLE orders",
        "ALTER TABLE others CONVERT TABLE `orders` TO PARTITION c VALUES LESS THAN (200)",
        "ALTER TABLE orders CONVERT PARTITION a TO TABLE part_a",
        "ALTER TABLE orders CONVERT TABLE o2 TO PARTITION c VALUES LESS THAN (200)",
        "ALTER IGNORE TABLE orders ADD UNIQUE (v)",
        "ALTER TABLE IF EXISTS shop.orders IMPORT TABLESPACE",
        "ALTER TABLE orders DROP PRIMARY KEY, DROP COLUMN id, ADD COLUMN id INT AUTO_INCREMENT PRIMARY KEY",
        "SET STATEMENT max_statement_time = 1 FOR DROP TABLE orders",
    ],
)
def test_a_definition_that_moves_rows_is_a_loss(sql: str) -> None:
    assert losses(sql) == {"shop.orders": Loss.GONE}


def test_a_definition_that_waits_or_has_a_column_of_an_odd_name_is_no_loss() -> None:
    assert losses("ALTER TABLE orders NOWAIT ADD COLUMN serial INT, ADD serial VARCHAR(9)") == {}
    assert losses("ALTER TABLE orders ADD (serial INT, w INT), ADD COLUMN IF NOT EXISTS serial INT") == {}
    assert losses("ALTER TABLE orders WAIT 5 ADD engine INT, DROP engine, PARTITION BY HASH (engine)") == {}
    assert (
        losses("ALTER TABLE orders COMMENT 'x' ENGINE = InnoDB") == losses("ALTER TABLE orders FORCE") == {}
    )
    for engine in ("'InnoDB'", '"innodb"', "`InnoDB`", "INNOBASE", "'InnoDB' ROW_FORMAT=DYNAMIC"):
        assert losses(f"ALTER TABLE orders ENGINE={engine}") == {}
    assert losses("ALTER TABLE orders ADD (w INT, serial INT), ADD KEY serial (v)") == {}
    assert losses("ALTER TABLE orders WAIT 5 RENAME COLUMN v TO w") == {}


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE a.x ADD COLUMN orders INT AUTO_INCREMENT UNIQUE",
        "ALTER TABLE a.x DROP PARTITION orders",
        'ALTER TABLE a.x COMMENT "orders" ENGINE=Aria',
        "ALTER TABLE a.x RENAME a.y",
        "ALTER TABLE a.x WAIT 5 RENAME AS a.y",
        "ALTER TABLE a.x EXCHANGE PARTITION orders WITH TABLE a.y",
        "ALTER TABLE a.x CONVERT TABLE a.y TO PARTITION orders VALUES LESS THAN (200)",
        "DROP TABLE IF EXISTS a.x CASCADE",
        "DROP TABLES a.x RESTRICT",
        "RENAME TABLE IF EXISTS a.x TO a.y, a.z TO a.x",
    ],
)
def test_words_that_are_no_names_of_tables_are_no_loss_with_any_pattern(sql: str) -> None:
    found = Statement(sql, "shop").losses(lambda table: table.schema == "shop", ())
    assert found == []


@pytest.mark.parametrize("beginning", ["CREATE", "CREATE OR REPLACE"])
def test_a_temporary_table_hides_the_table_of_the_same_name(beginning: str) -> None:
    for rest in ("orders (id INT)", "IF NOT EXISTS shop.orders LIKE others", "orders SELECT * FROM others"):
        assert losses(f"{beginning} TEMPORARY TABLE {rest}") == {"shop.orders": Loss.GONE}


def test_a_table_that_a_statement_fills_is_a_loss() -> None:
    for first in ("CREATE TABLE orders", "CREATE TABLE IF NOT EXISTS `orders` (PRIMARY KEY (id)) COMMENT ''"):
        assert losses(f"{first} SELECT * FROM others") == {"shop.orders": Loss.WRITTEN}
    assert losses("CREATE TABLE orders (id INT COMMENT 'SELECT', `select` INT)") == {}


@pytest.mark.parametrize("table", ["TABLE copies", "TEMPORARY TABLE IF NOT EXISTS copies (PRIMARY KEY (id))"])
def test_a_statement_that_fills_another_table_may_change_the_table_by_a_function(table: str) -> None:
    perhaps = {str(one): Loss.PERHAPS for one in KNOWN}
    for first in ("CREATE", "CREATE OR REPLACE"):
        assert losses(f"{first} {table} AS SELECT f()") == perhaps
        assert losses(f"{first} {table} VALUES (f())") == perhaps
        assert losses(f"{first} {table} SELECT * FROM orders") == {"shop.orders": Loss.WRITTEN}
        assert losses(f"{first} {table}") == {}


def test_an_alter_table_may_declare_another_key() -> None:
    assert Statement("ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (v)", "shop").rekeyed == ORDERS
    assert Statement("ALTER TABLE orders DROP id, CHANGE v id INT NOT NULL KEY", "shop").rekeyed == ORDERS
    assert Statement("ALTER TABLE orders DROP id, ADD id DECIMAL(9) KEY FIRST", "shop").rekeyed == ORDERS
    for others in ("ADD INDEX (v)", "DROP KEY v, ADD KEY w (v)", "ADD UNIQUE KEY v (v)", "RENAME KEY v TO w"):
        assert Statement(f"ALTER TABLE orders {others}", "shop").rekeyed is None
    for others in ("ADD FOREIGN KEY (v) REFERENCES t (v)", "PARTITION BY LINEAR KEY (id)", "ADD (KEY (v))"):
        assert Statement(f"ALTER TABLE orders {others}", "shop").rekeyed is None
    assert Statement("CREATE TABLE orders (id INT PRIMARY KEY)", "shop").rekeyed is None
    assert Statement("ALTER TABLE .orders DROP PRIMARY KEY, ADD PRIMARY KEY (v)", "shop").rekeyed == ORDERS


def test_a_foreign_key_with_which_the_engine_changes_rows_is_a_loss() -> None:
    key = "ADD CONSTRAINT `of a` FOREIGN KEY (a) REFERENCES parents (id) ON UPDATE"
    assert losses(f"ALTER TABLE orders {key} CASCADE") == {"shop.orders": Loss.CASCADES}
    assert losses(f"ALTER TABLE orders {key} RESTRICT ON DELETE SET NULL") == {"shop.orders": Loss.CASCADES}
    assert losses(f"ALTER TABLE orders {key} NO ACTION") == {}
    assert losses("ALTER TABLE orders ADD t TIMESTAMP ON UPDATE CURRENT_TIMESTAMP") == {}
    assert Statement(f"CREATE TABLE t (id INT, {key[4:]} CASCADE)", "shop").cascading_key == "of a"


@pytest.mark.parametrize(
    "more", ["v INT REFERENCES t (id) ON DELETE CASCADE)", "v INT) WITH SYSTEM VERSIONING"]
)
def test_a_new_table_may_have_such_a_key_or_versions_before_it_is_found(more: str) -> None:
    assert losses(f"CREATE TABLE orders (id INT PRIMARY KEY, {more}") == {"shop.orders": Loss.CREATED}
    # Maybe it exists, without them.
    assert losses(f"CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY, {more}") == {}


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE orders ADD SYSTEM VERSIONING",
        "ALTER TABLE orders ADD w INT, ADD SYSTEM VERSIONING PARTITION BY SYSTEM_TIME (PARTITION p HISTORY)",
        "ALTER TABLE orders MODIFY v VARCHAR(20) WITH SYSTEM VERSIONING",
    ],
)
def test_system_versioning_is_a_loss_because_the_log_has_old_rows_too(sql: str) -> None:
    assert losses(sql) == {"shop.orders": Loss.VERSIONED}
    assert losses("ALTER TABLE orders MODIFY v INT WITHOUT SYSTEM VERSIONING") == {}
    # It had versions, maybe before it was found.
    assert losses("ALTER TABLE orders DROP SYSTEM VERSIONING") == {"shop.orders": Loss.GONE}


@pytest.mark.parametrize(
    "sql",
    [
        "DROP DATABASE IF EXISTS `shop`",
        "DROP SCHEMA shop",
        "CREATE OR REPLACE DATABASE shop",
        'DROP DATABASE "shop"',
    ],
)
def test_a_dropped_database_is_a_loss_of_its_tables(sql: str) -> None:
    assert losses(sql, "other") == {str(table): Loss.DATABASE for table in KNOWN}
    # With all tables of the database, those that were not found yet count, too.
    every = Statement(sql, "other").losses(lambda table: table.schema == "shop", ())
    assert every == [(TableName(schema="shop", name="*"), Loss.DATABASE)]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE orders SET v = 1",
        "SET STATEMENT max_statement_time = 1 FOR DELETE FROM orders",
        "INSERT INTO other.t SELECT * FROM shop.orders",
        "ANALYZE FORMAT=JSON UPDATE orders SET v = 'x'",
        "WITH a AS (SELECT 1) UPDATE orders SET v = 'x'",
        "REPLACE `orders` VALUES (1)",
    ],
)
def test_a_statement_instead_of_rows_is_a_loss_of_the_tables_that_it_names(sql: str) -> None:
    assert losses(sql) == {"shop.orders": Loss.WRITTEN}


@pytest.mark.parametrize(
    "sql", ["INSERT INTO others VALUES (50)", "SELECT f()", "DO f()", "CALL p()", "ANYTHING new"]
)
def test_a_statement_in_the_database_of_a_table_may_change_the_table(sql: str) -> None:
    assert losses(sql) == {str(table): Loss.PERHAPS for table in KNOWN}


@pytest.mark.parametrize(
    "sql",
    [
        "TRUNCATE TABLE other.orders",
        "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `orders`",
        "DROP TEMPORARY TABLE orders",
        "CREATE TEMPORARY TABLE copies LIKE orders",
        "CREATE TABLE copies LIKE orders",
        "CREATE TABLE IF NOT EXISTS orders (id INT)",
        "CREATE OR REPLACE TABLE copies LIKE orders",
        "CREATE OR REPLACE VIEW v AS SELECT * FROM orders",
        "CREATE INDEX i ON orders (v)",
        "DROP INDEX i ON orders",
        "DROP VIEW orders",
        "ANALYZE TABLE orders",
        "OPTIMIZE NO_WRITE_TO_BINLOG TABLE orders",
        "DROP TABLE /* orders */ others",
        "GRANT SELECT ON orders TO someone",
        "DROP DATABASE other",
        "ALTER TABLE orders RENAME  COLUMN v TO w",
        "ALTER TABLE orders RENAME\n    INDEX a TO b",
        "ALTER TABLE orders COMMENT 'please rename it, drop partition a'",
        "ALTER TABLE orders MODIFY v VARCHAR(20) COMMENT 'was: \\', RENAME x'",
        "ALTER TABLE orders ADD COLUMN renamed INT, CONVERT TO CHARACTER SET utf8mb4",
        "ALTER TABLE `orders` PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (3))",
        "ALTER TABLE others ADD INDEX (orders), RENAME others2",
        "ALTER DATABASE shop CHARACTER SET utf8mb4",
        "SAVEPOINT orders",
    ],
)
def test_other_statements_are_no_loss(sql: str) -> None:
    assert losses(sql) == {}
    assert Statement(sql, "shop").emptied not in KNOWN


def test_a_server_may_know_tables_by_names_in_lower_case() -> None:
    found = Statement.read(body(b"RENAME TABLE Shop.ORDERS TO Former"), Writing(decode, folds=True))
    assert found.losses(KNOWN.__contains__, KNOWN) == [(ORDERS, Loss.GONE)]
    assert losses("RENAME TABLE Shop.ORDERS TO Former") == {}
    assert Statement("DROP DATABASE SHOP", "", folds=True).losses(KNOWN.__contains__, KNOWN) != []


def test_strings_end_as_the_session_says() -> None:
    sql = r"ALTER TABLE orders COMMENT 'a\', RENAME former -- '"
    assert losses(sql) == {}
    assert losses(sql, modes=NO_BACKSLASH_ESCAPES) == {"shop.orders": Loss.GONE}


def test_a_statement_of_another_database_is_no_loss() -> None:
    assert losses("REPLACE INTO checksums VALUES ('orders')", "percona") == {}
    assert losses("REPLACE INTO percona.checksums SELECT 1", "shop") != {}


@pytest.mark.parametrize(
    ("sql", "ending", "savepoint", "undone_to"),
    [
        ("COMMIT", "COMMIT", None, None),
        ("XA COMMIT 'q' ONE PHASE", "COMMIT", None, None),
        ("ROLLBACK", "ROLLBACK", None, None),
        ("rollback work", "ROLLBACK", None, None),
        ("SAVEPOINT `A b`", None, "a b", None),
        ("ROLLBACK TO `a`", None, None, "a"),
        ("ROLLBACK WORK TO SAVEPOINT a", None, None, "a"),
        ("RELEASE SAVEPOINT a", None, None, None),
        ("BEGIN", None, None, None),
    ],
)
def test_ends_of_transactions_and_savepoints(
    sql: str, ending: str | None, savepoint: str | None, undone_to: str | None
) -> None:
    found = Statement(sql, "shop")
    assert (found.ending, found.savepoint, found.undone_to) == (ending, savepoint, undone_to)
