"""What ``flip27 check`` finds about a PostgreSQL server; each test has a server with another deficiency."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from flip27_source.enumerators.postgres.check import tls
from flip27_source.enumerators.postgres.check_log import Keep, failover_finding, keep_finding, slot_findings
from flip27_source.enumerators.postgres.enumerator import PostgresEnumerator
from flip27_source.enumerators.postgres.server import Slot, check_version
from flip27_source.errors import DiscoveryError
from flip27_source.source import Source
from flip27_source.source_checks import ChecksSource, Finding, Status
from tests.enumerators.postgres.database import TestedDatabase, new_database
from tests.postgres_server import HOST, PostgresServer, Role, postgres_server

OWN_SLOT = "flip27_checked"


@pytest.fixture(scope="module")
def bare() -> Iterator[TestedDatabase]:
    """A database with a table, on a server whose settings the tests change."""
    with (
        postgres_server(max_slot_wal_keep_size="1GB") as server,
        closing(TestedDatabase(server=server, name="postgres")) as database,
    ):
        database.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        yield database


@pytest.fixture
def shop(database: TestedDatabase) -> TestedDatabase:
    """A database with a table."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
    return database


@pytest.fixture
def role(server: PostgresServer) -> Iterator[Role]:
    """A role that has no right except that to use slots."""
    with server.role("REPLICATION") as role:
        yield role


@pytest.fixture
def owned(server: PostgresServer, role: Role) -> Iterator[TestedDatabase]:
    """An empty database in which the role has no rights."""
    assert role
    with new_database(server) as database:
        yield database


def check(database: TestedDatabase, role: Role | None = None, /, **options: str) -> list[Finding]:
    """Return the findings; the slot that the options name exists only if the test has made it."""
    given = {"tables": "public.orders", "slotName": OWN_SLOT}
    if role is not None:
        given |= {"user": role.name, "password": role.password}
    resolved = Source.resolve(database.server.options(database.name) | given | options).options
    return list(PostgresEnumerator.check_source(resolved))


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
    findings = check(shop, publication="p")
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
    check(shop)
    assert shop.column("SELECT slot_name FROM pg_replication_slots WHERE slot_name = %s", OWN_SLOT) == []
    assert shop.column("SELECT pubname FROM pg_publication") == ["p"]


def test_the_remedies_for_a_role_without_rights_make_it_ready(owned: TestedDatabase, role: Role) -> None:
    owned.execute(
        f"ALTER ROLE {role.name} NOREPLICATION",
        "CREATE SCHEMA sales CREATE TABLE sales.orders (id int PRIMARY KEY)",
    )
    failed = [item for item in check(owned, role, tables="sales.orders") if item.status is Status.FAILED]
    of_role, may_not = f"role {role.name}", "it may not create or read a slot"
    lacks = f"it has no CREATE on database {owned.name} and does not own sales.orders"
    assert [(finding.check, finding.found) for finding in failed] == [
        ("replication", f"{of_role} is not a superuser and lacks the attribute REPLICATION: {may_not}"),
        ("table sales.orders", f'{of_role} has no USAGE on schema "sales"'),
        ("table sales.orders", f"{of_role} may not select it"),
        ("publication", f"{OWN_SLOT} does not exist, and {of_role} may not create it: {lacks}"),
    ]
    for finding in failed:
        statement = re.search(r"(ALTER ROLE|GRANT|CREATE PUBLICATION)[^;]*;", finding.remedy or "")
        assert statement is not None, finding.remedy
        owned.execute(statement[0])
    assert wrong(check(owned, role, tables="sales.orders")) == {}


def test_columns_without_the_select_privilege_are_named(owned: TestedDatabase, role: Role) -> None:
    owned.execute("CREATE TABLE orders (id int PRIMARY KEY, card text, note text)")
    owned.execute(f"GRANT SELECT (id, note) ON orders TO {role.name}")
    finding = the(check(owned, role), "table public.orders")
    said = f"role {role.name} may not select columns card"
    assert (finding.status, finding.found) == (Status.FAILED, said)


def test_a_table_whose_rows_are_hidden_by_row_level_security_fails_the_check(
    owned: TestedDatabase, role: Role
) -> None:
    owned.execute("CREATE TABLE orders (id int PRIMARY KEY)", f"GRANT SELECT ON orders TO {role.name}")
    assert of(check(owned, role), "table public.orders") == []
    owned.execute("ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
    finding = the(check(owned, role), "table public.orders")
    assert finding.status is Status.FAILED
    assert "row-level security hides rows" in finding.found
    assert finding.remedy == f'ALTER ROLE "{role.name}" BYPASSRLS;'
    owned.execute(finding.remedy)
    assert of(check(owned, role), "table public.orders") == []


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
    findings = check(shop, tables="public.*")
    refused = "the server refuses every UPDATE and DELETE of it once a publication has it"
    whole = "it has no primary key: the snapshot reads it as one chunk, in one task and one transaction"
    assert [(item.check, item.found) for item in findings if item.check.startswith("table ")] == [
        ("table public.keyless", f"it has no primary key: {refused}"),
        ("table public.keyless", whole),
        ("table public.silent", f"REPLICA IDENTITY is NOTHING: {refused}"),
        ("table public.whole", whole),
    ]
    assert the(findings, "tables").found.startswith("2 of 5 can be read")
    silent = the(findings, "table public.silent")
    remedy = 'ALTER TABLE "public"."silent" REPLICA IDENTITY DEFAULT;'
    assert (silent.status, silent.remedy) == (Status.WARNING, remedy)


def test_a_missing_table_is_named(shop: TestedDatabase) -> None:
    finding = the(check(shop, tables="public.invoices"), "tables")
    assert finding.status is Status.FAILED
    assert finding.found == "option tables has public.invoices, and the database has no such table"
    assert the(check(shop, tables="audit.*"), "tables").status is Status.FAILED


def test_a_slot_without_a_state_location_has_no_name_yet(shop: TestedDatabase) -> None:
    options = shop.server.options(shop.name, tables="public.orders")
    findings = list(PostgresEnumerator.check_source(Source.resolve(options).options))
    assert the(findings, "slot").status is the(findings, "publication").status is Status.SKIPPED
    options["stateLocation"] = "/ckpt/orders/flip27"
    findings = list(PostgresEnumerator.check_source(Source.resolve(options).options))
    assert the(findings, "slot").found.startswith("flip27_postgres_")


def test_the_values_of_a_healthy_slot_are_reported(shop: TestedDatabase) -> None:
    finding = the(check(shop, slotName=shop.slot, publication="p"), "slot")
    assert finding.status is Status.OK
    assert re.fullmatch(rf"{shop.slot} keeps [\d,]+ bytes of WAL \(wal_status reserved\)", finding.found)


def test_slots_of_another_kind_or_database_are_refused(shop: TestedDatabase) -> None:
    physical = f"{shop.name}_physical"
    shop.execute(f"SELECT pg_create_physical_replication_slot('{physical}')")
    try:
        of_another_kind = the(check(shop, slotName=physical), "slot")
        of_another_database = the(check(shop, database="postgres", slotName=shop.slot), "slot")
    finally:
        shop.execute(f"SELECT pg_drop_replication_slot('{physical}')")
    assert of_another_kind.status is of_another_database.status is Status.FAILED
    assert "the plugin physical" in of_another_kind.found
    assert f"belongs to database {shop.name}" in of_another_database.found


def test_each_problem_of_a_temporary_two_phase_slot_in_use_gets_a_finding(shop: TestedDatabase) -> None:
    session = shop.session()
    session.execute(
        "SELECT pg_create_logical_replication_slot(%s, 'pgoutput', true, true)", [f"{shop.name}_fleeting"]
    )
    findings = of(check(shop, slotName=f"{shop.name}_fleeting"), "slot")
    assert [finding.status for finding in findings] == [Status.FAILED, Status.FAILED, Status.WARNING]
    assert "is temporary" in findings[0].found
    assert "two_phase" in findings[1].found
    assert f"by the backend {session.info.backend_pid}" in findings[2].found


def test_a_prepared_transaction_that_blocks_the_creation_of_the_slot_is_reported(
    shop: TestedDatabase,
) -> None:
    shop.execute(
        "BEGIN", "INSERT INTO orders VALUES (1)", "SELECT 1", f"PREPARE TRANSACTION '{shop.name}''s'"
    )
    finding = the(check(shop), "prepared transactions")
    assert finding.status is Status.WARNING
    assert f"1 are open, the oldest ({shop.name}'s, in database {shop.name}) since 20" in finding.found
    assert of(check(shop, slotName=shop.slot), "prepared transactions") == []
    shop.execute((finding.remedy or "").rpartition(" or ")[2])
    assert of(check(shop), "prepared transactions") == []


def test_check_says_that_the_first_start_creates_a_missing_publication(shop: TestedDatabase) -> None:
    said = the(check(shop), "publication").found
    assert said == f"{OWN_SLOT} does not exist: the first start of the query creates it"


def test_a_publication_that_lacks_tables_or_changes_is_reported_with_the_statement_to_run(
    owned: TestedDatabase, role: Role
) -> None:
    owned.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, note text)",
        "CREATE TABLE audit (id int PRIMARY KEY)",
        f"GRANT SELECT ON orders, audit TO {role.name}",
        "CREATE PUBLICATION part FOR TABLE audit WITH (publish = 'insert, delete')",
    )
    lacks, leaves_out = of(check(owned, role, publication="part"), "publication")
    assert lacks.status is Status.FAILED
    assert lacks.found == f"part lacks public.orders, and role {role.name} may not add them"
    assert lacks.remedy == 'have the owner run: ALTER PUBLICATION "part" ADD TABLE ONLY "public"."orders";'
    assert leaves_out.status is Status.WARNING
    assert leaves_out.found.startswith("part leaves out every update, truncate")
    for finding in (lacks, leaves_out):
        owned.execute((finding.remedy or "").removeprefix("have the owner run: "))
    said = the(check(owned, role, publication="part"), "publication").found
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
    findings = of(check(shop, tables="public.orders,slim,days", publication="part"), "publication")
    partitioned = "public.days is partitioned: the log names its partitions"
    assert [finding.found for finding in findings] == [
        f"part has publish_via_partition_root off, and {partitioned}",
        "part has only some rows of public.orders; the snapshot has all",
        "part has only some columns of public.slim; the snapshot has all",
    ]
    for finding in findings:
        shop.execute(finding.remedy or "")
    findings = check(shop, tables="public.orders,slim,days", publication="part")
    assert the(findings, "publication").found == "part has the tables"


def test_each_setting_that_logical_decoding_needs_is_reported_if_it_is_missing(bare: TestedDatabase) -> None:
    bare.server.restart(wal_level="replica", max_replication_slots="0")
    findings = check(bare)
    assert the(findings, "wal_level").status is Status.FAILED
    assert (the(findings, "wal_level").remedy or "").startswith("ALTER SYSTEM SET wal_level = logical;")
    slots = the(findings, "replication slots")
    assert (slots.status, slots.found) == (Status.FAILED, "all 0 are in use (max_replication_slots)")
    bare.server.restart()
    bare.reconnect()
    assert set(wrong(check(bare))) == set()


def test_a_standby_is_refused(bare: TestedDatabase) -> None:
    signal = Path(bare.one("SHOW data_directory"), "standby.signal")
    bare.server.stop()
    signal.touch()
    bare.server.start()
    bare.reconnect()
    try:
        findings = check(bare)
        assert the(findings, "primary").status is Status.FAILED
        assert the(findings, "slot").status is Status.SKIPPED
    finally:
        bare.execute("SELECT pg_promote()")


def test_a_slot_whose_log_was_removed_is_reported_as_lost(bare: TestedDatabase) -> None:
    assert the(check(bare), "max_slot_wal_keep_size").status is Status.OK
    bare.make_slot("behind")
    with bare.server_setting("max_slot_wal_keep_size", "1MB"):
        bare.fill_log()
        unreserved = the(check(bare, slotName="behind"), "slot")
        assert (unreserved.status, "wal_status unreserved" in unreserved.found) == (Status.WARNING, True)
        bare.execute("CHECKPOINT")
        lost = the(check(bare, slotName="behind"), "slot")
        assert (lost.status, "behind is lost" in lost.found) == (Status.FAILED, True)
        bare.execute("SELECT pg_drop_replication_slot('behind')")


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
    finding = the(check(shop), "max_slot_wal_keep_size")
    assert (finding.status, finding.found) == (
        Status.WARNING,
        "-1: a query that is down holds back WAL until the server's disk is full",
    )


def test_an_unreachable_server_is_the_only_finding(shop: TestedDatabase) -> None:
    role = Role(name="nobody", password="s3cr3t-Pa55")
    (finding,) = check(shop, role)
    assert (finding.check, finding.status) == ("connection", Status.FAILED)
    assert "password authentication failed" in finding.found
    assert role.password not in f"{finding.found} {finding.remedy}"


@pytest.mark.parametrize(
    ("version", "is_local", "sslmode", "status"),
    [
        (None, True, None, Status.OK), (None, False, "prefer", Status.WARNING),
        ("TLSv1.3", False, None, Status.WARNING), ("TLSv1.3", False, "require", Status.WARNING),
        ("TLSv1.3", False, "verify-full", Status.OK), ("TLSv1.3", True, None, Status.OK),
    ],
)  # fmt: skip
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
        assert the(check(shop, slotFailover="true"), "failover slot").status is Status.FAILED
        return
    assert not of(check(shop, slotName=shop.slot), "failover slot")
    finding = the(check(shop, slotName=shop.slot, slotFailover="true"), "failover slot")
    assert finding.status is Status.WARNING
    assert finding.remedy is not None
    command = re.search(r"-c '(.*)'", finding.remedy)
    assert command is not None
    with shop.server.connect(shop.name, replication="database") as replication:
        replication.execute(command[1])
    finding = the(check(shop, slotName=shop.slot, slotFailover="true"), "failover slot")
    assert "synchronized_standby_slots is not set" in finding.found
