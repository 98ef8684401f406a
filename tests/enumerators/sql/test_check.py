"""What ``flip27 check`` finds about a table that is polled, in real databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flip27_source.enumerators.sql.enumerator import SqlEnumerator
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.source import Source
from flip27_source.source_checks import Finding, Status
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.sql.shops import (
    DAY,
    ORDERS,
    TYPES,
    Shop,
    batches_of,
    of_postgres,
    polled,
    postgres_shop,
)
from tests.postgres_server import PostgresServer, postgres_server


def check(shop: Shop, **options: str) -> dict[str, Finding]:
    found = SqlEnumerator.check_source(Source.resolve(shop.with_options(**options)).options)
    return {finding.check: finding for finding in found}


def wrong(findings: dict[str, Finding]) -> dict[str, Status]:
    return {name: finding.status for name, finding in findings.items() if finding.status is not Status.OK}


@pytest.fixture
def postgres_table(postgres: PostgresServer) -> Iterator[Shop]:
    with postgres_shop(postgres) as shop:
        yield shop


def test_a_table_that_can_be_polled_passes_in_every_database(shop: Shop) -> None:
    shop.insert(ORDERS)
    found = check(shop)
    assert set(wrong(found)) <= {"index"}
    assert found["cursor columns"].found.startswith("updated_at, id; the newest row has ")
    assert f"{DAY}" in found["cursor columns"].found


def test_an_empty_table_passes(sqlite: Shop) -> None:
    assert check(sqlite)["cursor columns"].found == "updated_at, id; the table has no row yet"


def test_rows_before_the_start_are_not_taken_for_an_empty_table(sqlite: Shop) -> None:
    sqlite.insert(ORDERS)
    found = check(sqlite, cursorColumns="id", startingCursor="7")["cursor columns"].found
    assert found == "id; the table has no row at or above startingCursor yet"


def test_a_missing_table_fails_with_the_message_of_the_database(shop: Shop) -> None:
    found = check(shop, table="invoices")
    assert wrong(found) == {"table": Status.FAILED}
    assert "invoices" in found["table"].found


def test_a_missing_column_is_an_error_that_lists_the_existing_columns(sqlite: Shop) -> None:
    with pytest.raises(OptionError, match=r"changed_at.* it has id, amount, updated_at"):
        check(sqlite, cursorColumns="changed_at")


def test_null_in_a_cursor_column_fails_unless_such_rows_are_left_out(sqlite: Shop) -> None:
    sqlite.execute("INSERT INTO orders VALUES (1, 1.0, NULL)")
    assert wrong(check(sqlite)) == {"NULL": Status.FAILED}
    assert wrong(check(sqlite, onNullCursor="ignore")) == {"NULL": Status.WARNING}


def test_cursors_of_another_kind_fail_as_the_query_does(sqlite: Shop) -> None:
    sqlite.insert([(1, 1.0, f"{DAY} 08:00:00"), (2, 1.0, "n/a")])
    found = check(sqlite)["cursor columns"]
    assert (found.status, "a time and another text" in found.found) == (Status.FAILED, True)
    assert found.remedy is not None
    assert "leave such rows out with option query; if they are not times, set lag=0s" in found.remedy
    assert wrong(check(sqlite, lag="0s")) == {}
    sqlite.execute("CREATE TABLE loose (number)")
    sqlite.execute("INSERT INTO loose VALUES (1), ('n/a')")
    assert "number and string" in check(sqlite, table="loose", cursorColumns="number")["cursor columns"].found


def test_a_time_in_the_future_gets_a_warning(sqlite: Shop) -> None:
    sqlite.insert([(1, 1.0, "2999-01-01 00:00:00")])
    found = check(sqlite)
    assert wrong(found) == {"clock": Status.WARNING}
    assert "set option timeZone" in (found["clock"].remedy or "")


KEYS = {
    "id INTEGER PRIMARY KEY": Status.WARNING,
    "ID integer, name TEXT, PRIMARY KEY (id)": Status.WARNING,
    "id INTEGER PRIMARY KEY, name TEXT DEFAULT 'AUTOINCREMENT' -- AUTOINCREMENT\n": Status.WARNING,
    "id INTEGER PRIMARY KEY AUTOINCREMENT": Status.OK,
    "id INTEGER NOT NULL PRIMARY KEY /* never again */ Autoincrement, name TEXT": Status.OK,
    "id INT PRIMARY KEY": None,
    "id INTEGER, part INTEGER, PRIMARY KEY (id, part)": None,
}


@pytest.mark.parametrize(("columns", "status"), KEYS.items(), ids=KEYS)
@pytest.mark.parametrize("name", ["invoices", 'main."my ""invoices"""', "[Invoices]"])
def test_a_key_of_sqlite_that_is_used_again_gets_a_warning(
    sqlite: Shop, columns: str, status: Status | None, name: str
) -> None:
    sqlite.execute(f"CREATE TABLE {name} ({columns})")
    found = check(sqlite, table=name.replace("[I", "[i"), cursorColumns="id").get("keys")
    assert (None if found is None else found.status) == status


def test_a_key_of_sqlite_that_is_used_again_gets_no_warning_if_rows_are_polled_by_a_time(shop: Shop) -> None:
    assert "keys" not in check(shop)
    assert ("keys" in check(shop, cursorColumns="id")) == shop.options["uri"].endswith(".db")


def test_a_row_with_the_key_of_a_deleted_one_is_read_if_the_key_is_autoincrement(
    sqlite: Shop, flip27_engine: Callable[..., MicroBatchEngine]
) -> None:
    for kind, read in (("", []), ("AUTOINCREMENT", [[3]])):
        sqlite.execute(f"CREATE TABLE invoices{kind} (id INTEGER PRIMARY KEY {kind}, name TEXT)")
        sqlite.execute(f"INSERT INTO invoices{kind}(name) VALUES ('a'), ('b')")
        engine = flip27_engine(sqlite.with_options(table=f"invoices{kind}", cursorColumns="id"))
        assert batches_of(engine) == [[1, 2]]
        sqlite.execute(f"DELETE FROM invoices{kind} WHERE id = 2")
        sqlite.execute(f"INSERT INTO invoices{kind}(name) VALUES ('c')")
        assert polled(engine) == read


def test_a_table_without_an_index_gets_a_warning_with_the_statement_to_run(postgres_table: Shop) -> None:
    found = check(postgres_table)["index"]
    remedy = 'CREATE INDEX ON orders ("updated_at", "id");'
    assert (found.status, found.remedy) == (Status.WARNING, remedy)
    postgres_table.execute(found.remedy)
    assert check(postgres_table)["index"].status is Status.OK
    for columns in ("id", "ID", "UPDATED_AT,Id"):
        assert check(postgres_table, cursorColumns=columns)["index"].status is Status.OK
    assert check(postgres_table, cursorColumns="id,updated_at")["index"].status is Status.WARNING


def test_ids_without_the_wait_for_transactions_get_a_warning(postgres_table: Shop) -> None:
    found = check(postgres_table, cursorColumns="id", waitForTransactions="false")
    assert wrong(found) == {"late commits": Status.WARNING}


def test_a_materialized_view_needs_a_lag_because_its_refresh_adds_rows_below_those_that_were_read(
    postgres_table: Shop,
) -> None:
    postgres_table.execute("CREATE MATERIALIZED VIEW copies AS SELECT * FROM orders")
    found = check(postgres_table, table="copies")["late commits"]
    assert found.status is Status.FAILED
    assert "copies is a materialized view" in found.found
    postgres_table.insert(ORDERS)
    postgres_table.execute("REFRESH MATERIALIZED VIEW copies")
    copies = postgres_table.with_options(table="copies", discoveryRetries="0")
    with pytest.raises(DiscoveryError, match="copies is a materialized view"):
        batches_of(MicroBatchEngine(copies))
    assert len(batches_of(MicroBatchEngine({**copies, "waitForTransactions": "false"}))) == 1


FOREIGN = "SERVER files OPTIONS (program 'true', format 'csv')"


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("copies", "copies is a foreign table"),
        ("public.copies", "public.copies is a foreign table"),
        ("parted", "copied_part, from which parted takes rows, is a foreign table"),
        ("parent", "copied_child, from which parent takes rows, is a foreign table"),
        ("outer_view", "copies, from which outer_view takes rows, is a foreign table"),
        ("view_of_copy", "copy, from which view_of_copy takes rows, is a materialized view"),
    ],
)
def test_rows_of_a_foreign_table_need_a_lag_because_its_server_has_the_locks(
    postgres_table: Shop, table: str, reason: str
) -> None:
    columns = TYPES["postgresql"].replace(" PRIMARY KEY", "")
    for statement in (
        "CREATE EXTENSION file_fdw",
        "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
        f"CREATE FOREIGN TABLE copies ({columns}) {FOREIGN}",
        f"CREATE TABLE parted ({columns}) PARTITION BY RANGE (id)",
        f"CREATE FOREIGN TABLE copied_part PARTITION OF parted DEFAULT {FOREIGN}",
        f"CREATE TABLE parent ({columns})",
        f"CREATE FOREIGN TABLE copied_child () INHERITS (parent) {FOREIGN}",
        "CREATE VIEW inner_view AS SELECT * FROM orders UNION ALL SELECT * FROM copies",
        "CREATE VIEW outer_view AS SELECT * FROM inner_view",
        "CREATE MATERIALIZED VIEW copy AS SELECT * FROM orders",
        "CREATE VIEW view_of_copy AS SELECT * FROM copy",
    ):
        postgres_table.execute(statement)
    found = check(postgres_table, table=table)
    assert found["late commits"].status is Status.FAILED
    assert found["late commits"].found.startswith(reason)
    assert found.get("index") is None or table in ("parted", "parent")


@pytest.mark.parametrize("published", ["orders", "parted"])
def test_the_target_of_a_subscription_needs_a_lag_because_the_publisher_has_the_locks(
    postgres: PostgresServer, published: str
) -> None:
    with postgres.role() as role, postgres_shop(postgres) as publisher, postgres_shop(postgres) as shop:
        for each in (publisher, shop):
            each.execute("CREATE TABLE parted (LIKE orders) PARTITION BY RANGE (id)")
            each.execute("CREATE TABLE part PARTITION OF parted DEFAULT")
        root = "WITH (publish_via_partition_root = true)"
        publisher.execute(f"CREATE PUBLICATION p FOR TABLE {published} {root}")
        database = publisher.more["database"]
        address = f"host=127.0.0.1 port={postgres.port} user=postgres dbname={database}"
        shop.execute(
            f"CREATE SUBSCRIPTION s CONNECTION '{address}' PUBLICATION p "
            "WITH (enabled = false, create_slot = false, slot_name = NONE, copy_data = false)"
        )
        try:
            shop.execute(f"GRANT SELECT ON orders, part TO {role.name}")
            user = f"{role.name}:{role.password}"
            shop.options |= of_postgres(postgres, shop.more["database"], user=user)
            found = check(shop, table="part" if published == "parted" else "orders")["late commits"]
        finally:
            shop.execute("DROP SUBSCRIPTION s")
    assert found.status is Status.FAILED
    assert "is filled by a subscription" in found.found


def test_a_standby_needs_a_lag_because_it_cannot_wait_for_transactions_of_its_primary(tmp_path: Path) -> None:
    with postgres_server() as server, server.connect() as owner:
        owner.execute("CREATE TABLE orders (id bigint PRIMARY KEY, updated_at timestamp NOT NULL)")
        owner.execute(f"INSERT INTO orders VALUES (1, '{DAY} 08:00:00')")
        row = owner.execute("SELECT current_setting('data_directory')").fetchone()
        assert row is not None
        server.stop()
        Path(row[0], "standby.signal").touch()
        server.start()
        options = of_postgres(server, "postgres")
        shop = Shop(options=options, execute=owner.execute)
        found = check(shop)["late commits"]
        assert found.status is Status.FAILED
        assert "the server is a standby" in found.found
        with pytest.raises(DiscoveryError, match="the server is a standby"):
            batches_of(MicroBatchEngine(options))
        lagging = shop.with_options(waitForTransactions="false", lag="5s")
        assert check(Shop(options=lagging, execute=owner.execute))["late commits"].status is Status.OK
        assert len(batches_of(MicroBatchEngine(lagging, available_now=True))) == 1
