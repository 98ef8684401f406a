"""What ``flip27 check`` finds about a PostgreSQL server; each test has a server with another deficiency."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flip27_source.enumerators.postgres.check import tls
from flip27_source.enumerators.postgres.check_log import Keep, failover_finding, keep_finding, slot_findings
from flip27_source.enumerators.postgres.enumerator import PostgresEnumerator
from flip27_source.enumerators.postgres.server import Slot, check_version
from flip27_source.errors import DiscoveryError
from flip27_source.source import Source
from flip27_source.source_checks import ChecksSource, Finding, Status
from tests.enumerators.postgres.database import TestedDatabase
from tests.postgres_server import HOST, SUPERUSER, PostgresServer, Role, postgres_server

OWN_SLOT = "flip27_checked"


@pytest.fixture(scope="module")
def bare() -> Iterator[PostgresServer]:
    """A server whose settings the tests change."""
    with postgres_server(max_slot_wal_keep_size="1GB") as server:
        yield server


@pytest.fixture
def shop(database: TestedDatabase) -> TestedDatabase:
    """A database with a table."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
    return database


def check(
    server: PostgresServer, database: str = "postgres", role: Role | None = None, **options: str
) -> list[Finding]:
    """Return the findings; the slot that the options name exists only if the test has made it."""
    given = {
        "enumerator": "postgres",
        "host": HOST,
        "port": str(server.port),
        "database": database,
        "user": SUPERUSER if role is None else role.name,
        "tables": "public.orders",
        "slotName": OWN_SLOT,
    }
    if role is not None:
        given["password"] = role.password
    return list(PostgresEnumerator.check_source(Source.resolve(given | options).options))


def check_shop(shop: TestedDatabase, role: Role | None = None, **options: str) -> list[Finding]:
    return check(shop.server, shop.name, role, **options)


def of(findings: list[Finding], name: str) -> list[Finding]:
    return [finding for finding in findings if finding.check == name]


def the(findings: list[Finding], name: str) -> Finding:
    (finding,) = of(findings, name)
    return finding


def wrong(findings: list[Finding]) -> dict[str, str]:
    """Return failures and warnings by check, except that the server has no limit for the WAL of slots."""
    return {
        finding.check: finding.found
        for finding in findings
        if finding.status in (Status.FAILED, Status.WARNING) and finding.check != "max_slot_wal_keep_size"
    }


def test_the_enumerator_has_its_own_checks() -> None:
    assert issubclass(PostgresEnumerator, ChecksSource)


def test_a_ready_server_passes_and_its_values_are_shown(shop: TestedDatabase) -> None:
    findings = check_shop(shop, publication="p")
    assert wrong(findings) == {}
    said = {finding.check: finding.found for finding in findings}
    assert said["connection"] == f"database {shop.name} at {HOST}:{shop.server.port}, as role postgres"
    assert said["server"].startswith(f"PostgreSQL {shop.server.version}")
    assert said["wal_level"] == "logical"
    assert said["TLS"] == "not in use; the server is on this machine"
    assert said["tables"] == "1 can be read, with a key for their rows: public.orders"
    assert said["publication"] == "p has the tables"
    assert said["slot"] == f"{OWN_SLOT} does not exist: the first start of the query creates it"
    assert re.fullmatch(r"\d+ of 50 are free", said["replication slots"])


def test_a_check_creates_nothing_on_the_server(shop: TestedDatabase) -> None:
    check_shop(shop)
    assert shop.column("SELECT slot_name FROM pg_replication_slots WHERE slot_name = %s", OWN_SLOT) == []
    assert shop.column("SELECT pubname FROM pg_publication") == ["p"]


def test_the_remedies_for_a_role_without_rights_make_it_ready(server: PostgresServer) -> None:
    with server.role() as role, server.database() as name, server.connect(name) as owner:
        owner.execute("CREATE SCHEMA sales CREATE TABLE sales.orders (id int PRIMARY KEY)")
        findings = check(server, name, role, tables="sales.orders")
        failed = [finding for finding in findings if finding.status is Status.FAILED]
        assert [(finding.check, finding.found) for finding in failed] == [
            (
                "replication",
                (
                    f"role {role.name} is not a superuser and lacks the attribute REPLICATION: "
                    "it may not "
                    "create or read a slot"
                ),
            ),
            ("table sales.orders", f'role {role.name} has no USAGE on schema "sales"'),
            ("table sales.orders", f"role {role.name} may not select it"),
            (
                "publication",
                (
                    f"{OWN_SLOT} does not exist, and role {role.name} may not create it: "
                    f"it has no CREATE on database {name} and does not own sales.orders"
                ),
            ),
        ]
        for finding in failed:
            found = re.search(r"(ALTER ROLE|GRANT|CREATE PUBLICATION)[^;]*;", finding.remedy or "")
            assert found is not None, finding.remedy
            owner.execute(found[0])
        assert wrong(check(server, name, role, tables="sales.orders")) == {}


def test_columns_without_the_select_privilege_are_named(server: PostgresServer) -> None:
    with server.role("REPLICATION") as role, server.database() as name, server.connect(name) as owner:
        owner.execute("CREATE TABLE orders (id int PRIMARY KEY, card text, note text)")
        owner.execute(f"GRANT SELECT (id, note) ON orders TO {role.name}")
        finding = the(check(server, name, role), "table public.orders")
        assert (finding.status, finding.found) == (
            Status.FAILED,
            f"role {role.name} may not select columns card",
        )


def test_a_table_whose_rows_are_hidden_by_row_level_security_fails_the_check(server: PostgresServer) -> None:
    with server.role("REPLICATION") as role, server.database() as name, server.connect(name) as owner:
        owner.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        owner.execute(f"GRANT SELECT ON orders TO {role.name}")
        assert of(check(server, name, role), "table public.orders") == []
        owner.execute("ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
        finding = the(check(server, name, role), "table public.orders")
        assert finding.status is Status.FAILED
        assert "row-level security hides rows" in finding.found
        assert finding.remedy == f'ALTER ROLE "{role.name}" BYPASSRLS;'
        owner.execute(finding.remedy)
        assert of(check(server, name, role), "table public.orders") == []


def test_tables_whose_rows_have_no_key_are_named(shop: TestedDatabase) -> None:
    shop.execute(
        "CREATE TABLE keyless (note text)",
        "CREATE TABLE whole (note text)",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        "CREATE TABLE silent (id int PRIMARY KEY)",
        "ALTER TABLE silent REPLICA IDENTITY NOTHING",
        "CREATE TABLE indexed (id int NOT NULL UNIQUE)",
        "ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_id_key",
    )
    findings = check_shop(shop, tables="public.*")
    refused = "the server refuses every UPDATE and DELETE of it once a publication has it"
    assert [(item.check, item.found) for item in findings if item.check.startswith("table ")] == [
        ("table public.keyless", f"it has no primary key: {refused}"),
        (
            "table public.keyless",
            "it has no primary key: the snapshot reads it as one chunk, in one task and one transaction",
        ),
        ("table public.silent", f"REPLICA IDENTITY is NOTHING: {refused}"),
        (
            "table public.whole",
            "it has no primary key: the snapshot reads it as one chunk, in one task and one transaction",
        ),
    ]
    assert the(findings, "tables").found.startswith("2 of 5 can be read")
    silent = the(findings, "table public.silent")
    assert (silent.status, silent.remedy) == (
        Status.WARNING,
        'ALTER TABLE "public"."silent" REPLICA IDENTITY DEFAULT;',
    )


def test_a_missing_table_is_named(shop: TestedDatabase) -> None:
    finding = the(check_shop(shop, tables="public.invoices"), "tables")
    assert finding.status is Status.FAILED
    assert finding.found == "option tables has public.invoices, and the database has no such table"
    assert the(check_shop(shop, tables="audit.*"), "tables").status is Status.FAILED


def test_a_slot_without_a_state_location_has_no_name_yet(shop: TestedDatabase) -> None:
    options = {
        "enumerator": "postgres",
        "host": HOST,
        "port": str(shop.server.port),
        "database": shop.name,
        "user": SUPERUSER,
        "tables": "public.orders",
    }
    findings = list(PostgresEnumerator.check_source(Source.resolve(options).options))
    assert the(findings, "slot").status is the(findings, "publication").status is Status.SKIPPED
    options["stateLocation"] = "/ckpt/orders/flip27"
    findings = list(PostgresEnumerator.check_source(Source.resolve(options).options))
    assert the(findings, "slot").found.startswith("flip27_postgres_")


def test_the_values_of_a_healthy_slot_are_reported(shop: TestedDatabase) -> None:
    finding = the(check_shop(shop, slotName=shop.slot, publication="p"), "slot")
    assert finding.status is Status.OK
    assert re.fullmatch(rf"{shop.slot} keeps [\d,]+ bytes of WAL \(wal_status reserved\)", finding.found)


def test_slots_of_another_kind_or_database_are_refused(shop: TestedDatabase) -> None:
    shop.execute(f"SELECT pg_create_physical_replication_slot('{shop.name}_physical')")
    try:
        finding = the(check_shop(shop, slotName=f"{shop.name}_physical"), "slot")
        assert (finding.status, "the plugin physical" in finding.found) == (Status.FAILED, True)
        finding = the(check(shop.server, "postgres", slotName=shop.slot), "slot")
        assert (finding.status, f"belongs to database {shop.name}" in finding.found) == (Status.FAILED, True)
    finally:
        shop.execute(f"SELECT pg_drop_replication_slot('{shop.name}_physical')")


def test_each_problem_of_a_temporary_two_phase_slot_in_use_gets_a_finding(
    shop: TestedDatabase,
) -> None:
    session = shop.session()
    session.execute(
        "SELECT pg_create_logical_replication_slot(%s, 'pgoutput', true, true)", [f"{shop.name}_fleeting"]
    )
    findings = of(check_shop(shop, slotName=f"{shop.name}_fleeting"), "slot")
    assert [finding.status for finding in findings] == [Status.FAILED, Status.WARNING, Status.WARNING]
    assert "is temporary" in findings[0].found
    assert "two_phase" in findings[1].found
    assert f"by the backend {session.info.backend_pid}" in findings[2].found


def test_a_prepared_transaction_that_blocks_the_creation_of_the_slot_is_reported(
    shop: TestedDatabase,
) -> None:
    shop.execute(
        "BEGIN", "INSERT INTO orders VALUES (1)", "SELECT 1", f"PREPARE TRANSACTION '{shop.name}''s'"
    )
    finding = the(check_shop(shop), "prepared transactions")
    assert finding.status is Status.WARNING
    assert f"1 are open, the oldest ({shop.name}'s, in database {shop.name}) since 20" in finding.found
    assert of(check_shop(shop, slotName=shop.slot), "prepared transactions") == []
    shop.execute((finding.remedy or "").rpartition(" or ")[2])
    assert of(check_shop(shop), "prepared transactions") == []


def test_check_says_that_the_first_start_creates_a_missing_publication(shop: TestedDatabase) -> None:
    finding = the(check_shop(shop), "publication")
    assert finding.found == f"{OWN_SLOT} does not exist: the first start of the query creates it"


def test_a_publication_that_lacks_tables_or_changes_is_reported_with_the_statement_to_run(
    server: PostgresServer,
) -> None:
    with server.role("REPLICATION") as role, server.database() as name, server.connect(name) as owner:
        owner.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
        owner.execute("CREATE TABLE audit (id int PRIMARY KEY)")
        owner.execute(f"GRANT SELECT ON orders, audit TO {role.name}")
        owner.execute("CREATE PUBLICATION part FOR TABLE audit WITH (publish = 'insert, delete')")
        findings = check(server, name, role, publication="part")
        lacks, leaves_out = of(findings, "publication")
        assert lacks.status is Status.FAILED
        assert lacks.found == f"part lacks public.orders, and role {role.name} may not add them"
        assert lacks.remedy == 'have the owner run: ALTER PUBLICATION "part" ADD TABLE "public"."orders";'
        assert leaves_out.status is Status.WARNING
        assert leaves_out.found.startswith("part leaves out every update, truncate")
        for finding in (lacks, leaves_out):
            owner.execute((finding.remedy or "").removeprefix("have the owner run: "))
        said = the(check(server, name, role, publication="part"), "publication").found
        assert said == "part has the tables and 1 more, whose changes the server decodes needlessly"


def test_filters_of_a_publication_and_partitions_without_their_root_are_reported(
    shop: TestedDatabase,
) -> None:
    shop.execute(
        "CREATE TABLE slim (id int PRIMARY KEY, note text)",
        "CREATE TABLE days (day date PRIMARY KEY) PARTITION BY RANGE (day)",
        "CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
        "CREATE PUBLICATION part FOR TABLE orders WHERE (id > 5), slim (id), days",
    )
    findings = of(check_shop(shop, tables="public.orders,slim,days", publication="part"), "publication")
    assert [finding.found for finding in findings] == [
        (
            "part has publish_via_partition_root off, and public.days is partitioned: the log names its "
            "partitions"
        ),
        "part has only some rows of public.orders; the snapshot has all",
        "part has only some columns of public.slim; the snapshot has all",
    ]
    for finding in findings:
        shop.execute(finding.remedy or "")
    findings = check_shop(shop, tables="public.orders,slim,days", publication="part")
    assert the(findings, "publication").found == "part has the tables"


def test_each_setting_that_logical_decoding_needs_is_reported_if_it_is_missing(bare: PostgresServer) -> None:
    with bare.connect() as owner:
        owner.execute("CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY)")
    bare.restart(wal_level="replica", max_replication_slots="0")
    findings = check(bare)
    assert the(findings, "wal_level").status is Status.FAILED
    assert (the(findings, "wal_level").remedy or "").startswith("ALTER SYSTEM SET wal_level = logical;")
    slots = the(findings, "replication slots")
    assert (slots.status, slots.found) == (Status.FAILED, "all 0 are in use (max_replication_slots)")
    bare.restart()
    assert set(wrong(check(bare))) == set()


def test_a_standby_is_refused(bare: PostgresServer) -> None:
    with bare.connect() as owner:
        owner.execute("CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY)")
        folder = owner.execute("SELECT current_setting('data_directory')").fetchone()
    assert folder is not None
    bare.stop()
    Path(folder[0], "standby.signal").touch()
    bare.start()
    try:
        findings = check(bare)
        assert the(findings, "primary").status is Status.FAILED
        assert the(findings, "slot").status is Status.SKIPPED
    finally:
        with bare.connect() as owner:
            owner.execute("SELECT pg_promote()")


def test_a_slot_whose_log_was_removed_is_reported_as_lost(bare: PostgresServer) -> None:
    with bare.connect() as owner:
        owner.execute("CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY)")
        assert the(check(bare), "max_slot_wal_keep_size").status is Status.OK
        owner.execute("SELECT pg_create_logical_replication_slot('behind', 'pgoutput')")
        owner.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
        owner.execute("SELECT pg_reload_conf()")
        for number in range(5):
            owner.execute("INSERT INTO orders VALUES (%s)", [number])
            owner.execute("SELECT pg_switch_wal()")
        unreserved = the(check(bare, slotName="behind"), "slot")
        assert (unreserved.status, "wal_status unreserved" in unreserved.found) == (Status.WARNING, True)
        owner.execute("CHECKPOINT")
        lost = the(check(bare, slotName="behind"), "slot")
        assert (lost.status, "behind is lost" in lost.found) == (Status.FAILED, True)
        owner.execute("SELECT pg_drop_replication_slot('behind')")
        owner.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
        owner.execute("SELECT pg_reload_conf()")


def test_a_slot_that_keeps_more_than_half_of_the_limit_is_reported_before_it_is_lost() -> None:
    slot = Slot(
        name="orders",
        plugin="pgoutput",
        database="shop",
        confirmed=1000,
        active_pid=None,
        wal_status="extended",
        kept_bytes=600,
        two_phase=False,
        is_temporary=False,
        is_failover=False,
        asked_at=dt.datetime(2026, 1, 3, tzinfo=dt.UTC),
    )
    for limit, status in ((1000, Status.WARNING), (2000, Status.OK), (None, Status.OK)):
        keep = Keep(text="some", bytes=limit, idle_timeout=None)
        (finding,) = slot_findings(slot, database="shop", keep=keep)
        assert finding.status is status
        assert "orders keeps 600 bytes of WAL (wal_status extended)" in finding.found


def test_a_timeout_of_idle_slots_is_reported() -> None:
    finding = keep_finding(Keep(text="-1", bytes=None, idle_timeout="1d"))
    assert (finding.status, finding.check) == (Status.WARNING, "idle_replication_slot_timeout")


def test_without_a_limit_a_slot_may_fill_the_disk(shop: TestedDatabase) -> None:
    finding = the(check_shop(shop), "max_slot_wal_keep_size")
    assert (finding.status, finding.found) == (
        Status.WARNING,
        "-1: a query that is down holds back WAL until the server's disk is full",
    )


def test_an_unreachable_server_is_the_only_finding(shop: TestedDatabase) -> None:
    role = Role(name="nobody", password="s3cr3t-Pa55")
    (finding,) = check_shop(shop, role)
    assert (finding.check, finding.status) == ("connection", Status.FAILED)
    assert "password authentication failed" in finding.found
    assert role.password not in f"{finding.found} {finding.remedy}"


@pytest.mark.parametrize(
    ("version", "is_local", "sslmode", "status"),
    [
        (None, True, None, Status.OK),
        (None, False, "prefer", Status.WARNING),
        ("TLSv1.3", False, None, Status.WARNING),
        ("TLSv1.3", False, "require", Status.WARNING),
        ("TLSv1.3", False, "verify-full", Status.OK),
        ("TLSv1.3", True, None, Status.OK),
    ],
)
def test_connections_over_a_network_need_tls_with_a_checked_certificate(
    version: str | None, is_local: bool, sslmode: str | None, status: Status
) -> None:
    finding = tls(version, "AES", is_local=is_local, sslmode=sslmode)
    assert finding.status is status
    assert (finding.remedy is None) == (status is Status.OK)


def test_old_servers_are_refused() -> None:
    check_version(14)
    with pytest.raises(DiscoveryError, match="the server is PostgreSQL 13"):
        check_version(13)


@pytest.mark.parametrize(
    ("version", "is_failover", "standbys", "status", "said"),
    [
        (16, True, "", Status.FAILED, "PostgreSQL 16 has no failover slots"),
        (17, False, "a", Status.WARNING, "slot orders was created without failover"),
        (17, True, "", Status.WARNING, "synchronized_standby_slots is not set"),
        (17, True, "a, b", Status.OK, "once the standby of a, b has them"),
    ],
)
def test_missing_settings_of_a_failover_slot_are_reported(
    version: int, is_failover: bool, standbys: str, status: Status, said: str
) -> None:
    finding = failover_finding(version, standbys=standbys, name="orders", is_failover=is_failover)
    assert (finding.status, said in finding.found) == (status, True)


def test_a_slot_created_without_failover_is_reported_with_the_command_that_alters_it(
    shop: TestedDatabase,
) -> None:
    if shop.server.version < 17:
        assert the(check_shop(shop, slotFailover="true"), "failover slot").status is Status.FAILED
        return
    assert not of(check_shop(shop, slotName=shop.slot), "failover slot")
    finding = the(check_shop(shop, slotName=shop.slot, slotFailover="true"), "failover slot")
    assert finding.status is Status.WARNING
    assert finding.remedy is not None
    command = re.search(r"-c '(.*)'", finding.remedy)
    assert command is not None
    with shop.server.connect(shop.name, replication="database") as replication:
        replication.execute(command[1])
    finding = the(check_shop(shop, slotName=shop.slot, slotFailover="true"), "failover slot")
    assert "synchronized_standby_slots is not set" in finding.found
