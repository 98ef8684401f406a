"""Faults of the slot, the publication and the tables of a query, on a real server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass

import msgspec
import pytest

from flip27_source.enumerators.postgres import slot_keeper
from flip27_source.enumerators.postgres.publication import PublicationMarks, alterations, ensure_publication
from flip27_source.enumerators.postgres.server import precedes_publication, slot_of
from flip27_source.enumerators.postgres.split import TableName
from flip27_source.enumerators.tables_with_log import poller
from flip27_source.errors import (
    AccessError,
    AttemptError,
    DataLossError,
    DiscoveryError,
    Flip27Error,
    SplitReadError,
)
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.deadline import until
from tests.enumerators.postgres.database import Running
from tests.enumerators.postgres.faults import (
    CREATE,
    OTHER,
    Change,
    FaultyShop,
    caught_up,
    faulty_shop,
    has_read,
    planned,
    running,
)
from tests.enumerators.postgres.versions import ON_EACH_VERSION
from tests.postgres_server import PostgresServer, postgres_server

ROW_11, ROW_12 = (f"INSERT INTO orders VALUES ({row})" for row in ("11, 'x'", "12, 'y'"))
IDLE_S = 5
SET = (f"ALTER SYSTEM SET idle_replication_slot_timeout = '{IDLE_S}s'", "SELECT pg_reload_conf()")
INVALIDATE_IDLE = ("CHECKPOINT", "CHECKPOINT")


# The slot.


@pytest.mark.parametrize("mode", ["fail", "report"])
def test_a_dropped_slot_is_data_loss_at_the_next_poll_even_if_losses_are_reported(
    shop: FaultyShop, mode: str
) -> None:
    engine = running(shop.read(onDataLoss=mode))
    shop.execute(f"SELECT pg_drop_replication_slot('{shop.slot}')", ROW_11)
    lost = f"slot {shop.slot} no longer exists; changes from [0-9A-F/]+ on"
    with pytest.raises(DataLossError, match=lost):
        engine.process_all_available()
    with pytest.raises(DataLossError, match=lost) as refused:
        caught_up(engine)
    assert "onDataLoss=report does not help" in str(refused.value)
    assert "set onDataLoss=report" not in str(refused.value)


@pytest.mark.parametrize(
    ("at_start", "during", "afterwards"),
    [(f"{IDLE_S}s", (), ()), ("0", SET, ()), ("1h", (), SET)],
    ids=["as it was at the start", "set while the slot is idle", "set after the slot was idle"],
)
def test_a_run_whose_chunks_take_longer_than_slots_may_be_idle_keeps_its_slot(
    monkeypatch: pytest.MonkeyPatch, at_start: str, during: tuple[str, ...], afterwards: tuple[str, ...]
) -> None:
    monkeypatch.setattr(slot_keeper, "ASKED_EVERY_S", 0.5)
    with (
        postgres_server(idle_replication_slot_timeout=at_start) as server,
        faulty_shop(server, maxRowsPerTrigger="4", parallelism="1") as shop,
    ):
        engine = shop.engine()
        engine.restart(available_now=True)
        has_read(engine)
        shop.execute(*during)
        began = shop.one("SELECT clock_timestamp()")
        used = "SELECT inactive_since - %s > make_interval(secs => %s) FROM pg_replication_slots"
        until(lambda: shop.one(used, began, IDLE_S))
        shop.execute(*afterwards, *INVALIDATE_IDLE)
        engine.process_all_available()
        shop.execute(ROW_11)
        assert shop.changes(caught_up(engine)) == [("c", 11, "x")]
        engine.stop()


def test_a_start_waits_for_a_slot_that_the_server_still_creates(
    shop: FaultyShop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    writer, killed = shop.session(), shop.session()
    writer.execute("BEGIN; INSERT INTO orders VALUES (11, 'x')")
    sql = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')"
    created = Running(lambda: killed.execute(sql, [shop.slot]))
    shop.wait_for("Lock transactionid", killed)
    started = Running(lambda: caught_up(shop.engine()))
    until(lambda: "still creates slot" in caplog.text, lambda: caplog.text)
    writer.execute("COMMIT")
    created.result()
    engine = started.result()
    shop.execute(ROW_12)
    assert len(engine.rows) == 11
    assert shop.changes(caught_up(engine)) == [("c", 12, "y")]


FIRST_DRIVER = """
import json, sys
from flip27_source.testing import MicroBatchEngine
MicroBatchEngine(json.loads(sys.argv[1]), schema=None).process_all_available()
"""


@pytest.mark.parametrize("snapshot", ["initial", "never"])
@pytest.mark.parametrize(
    ("is_ended", "said"),
    [(False, "still creates slot"), (True, "creating slot .* waits for open transactions")],
    ids=["its session goes on", "its session is ended"],
)
def test_a_start_after_a_driver_that_was_killed_while_it_created_the_slot_reads_everything(
    shop: FaultyShop, caplog: pytest.LogCaptureFixture, said: str, snapshot: str, *, is_ended: bool
) -> None:
    caplog.set_level("INFO")
    writer = shop.session()
    writer.execute(f"BEGIN; {ROW_11}")
    given = {"snapshot": snapshot, "schemaEvolutionMode": "addNewColumns"}
    creating = "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND wait_event = 'transactionid'"
    named = f"flip27 log {shop.slot}"
    with subprocess.Popen([sys.executable, "-c", FIRST_DRIVER, json.dumps(shop.options | given)]) as first:
        try:
            until(lambda: bool(shop.column(creating, named)), lambda: "no driver creates a slot")
        finally:
            first.kill()
    if is_ended:
        shop.execute(f"SELECT pg_terminate_backend({shop.one(creating, named)}, 10000)")
    started = Running(lambda: caught_up(shop.engine(snapshot=snapshot)))
    until(lambda: re.search(said, caplog.text) is not None, lambda: caplog.text)
    writer.execute("COMMIT")
    engine = started.result()
    shop.execute(ROW_12)
    assert shop.changes(caught_up(engine)) == [("c", 12, "y")]
    assert len(engine.rows) == (12 if snapshot == "initial" else 1)


def test_a_slot_of_another_plugin_is_refused(shop: FaultyShop) -> None:
    shop.one("SELECT pg_create_logical_replication_slot('foreign_one', 'test_decoding')::text")
    with pytest.raises(DiscoveryError, match="slot foreign_one has the plugin test_decoding"):
        caught_up(shop.engine(slotName="foreign_one"))


def test_another_reader_of_the_slot_is_waited_for_and_named_at_the_timeout(shop: FaultyShop) -> None:
    engine = shop.read()
    shop.execute(ROW_11)
    planned(engine)
    slot = slot_of(shop.control, shop.slot)
    assert slot is not None
    with shop.slot_in_use(publication=shop.slot) as (peek, other):
        with pytest.raises(AccessError) as refused:
            list(engine.attempt(engine.partitions()[0]))
        with pytest.raises(DiscoveryError, match=f"slot {shop.slot} has been read by another connection"):
            precedes_publication(shop.control, slot, shop.slot, end=slot.confirmed + 1, timeout_s=0.1)
    said = f"slot {shop.slot} has been read by another .* PID {other.info.backend_pid}"
    assert re.search(said, str(refused.value))
    peek.result()
    engine.run_batch()
    assert shop.changes(engine) == [("c", 11, "x")]


def test_speculative_attempts_take_turns_at_the_slot(shop: FaultyShop) -> None:
    engine = shop.read()
    shop.execute("INSERT INTO orders SELECT n, 'x' FROM generate_series(11, 3010) n")
    (task,) = planned(engine).partitions()
    attempts = [Running(lambda number=number: len(list(engine.attempt(task, number)))) for number in (0, 1)]
    assert [attempt.result() for attempt in attempts] == [3000, 3000]


def test_a_chunk_is_not_delivered_as_it_was_before_the_snapshot_that_another_attempt_has_reported(
    shop: FaultyShop,
) -> None:
    task = planned(engine := shop.engine(parallelism="1")).partitions()[0]
    older = engine.attempt(task, 0)
    next(older)
    shop.execute(ROW_11)
    assert len(list(engine.attempt(task, 1))) == 11
    with pytest.raises(AttemptError, match=r"attempt 0 .* has sent other events than attempt 1"):
        list(older)
    assert len(list(engine.attempt(task, 2))) == 11


@pytest.mark.parametrize(
    ("options", "rows"),
    [({}, 11), ({"snapshot": "never", "startingLsn": "latest"}, 0)],
    ids=["initial", "never"],
)
@pytest.mark.parametrize("back_before", ["", "a poll", "a task"])
def test_a_slot_that_is_older_than_the_publication_is_advanced_at_the_first_start(
    server: PostgresServer, options: dict[str, str], rows: int, back_before: str
) -> None:
    with faulty_shop(server) as shop:
        shop.make_slot("older")
        shop.execute(ROW_11, "SELECT pg_copy_logical_replication_slot('older', 'saved')")
        engine = caught_up(shop.engine(slotName="older", **options))
        shop.execute(ROW_12)
        if back_before:  # a killed server has the slot where it was
            (planned if back_before == "a task" else MicroBatchEngine.restart)(engine)
            shop.execute("SELECT pg_drop_replication_slot('older')")
            shop.execute("SELECT pg_copy_logical_replication_slot('saved', 'older')")
            engine.run_batch()
        assert shop.changes(caught_up(engine)) == [("c", 12, "y")]
        assert len(engine.rows) == rows + 1


@pytest.mark.parametrize(
    ("start", "read"), [("latest", [12]), ("earliest", [11, 12]), ("after row 11", [12])]
)
def test_without_a_snapshot_changes_are_read_from_the_start_position(
    shop: FaultyShop, start: str, read: list[int]
) -> None:
    shop.execute("CREATE PUBLICATION kept FOR TABLE orders")
    shop.make_slot("kept")
    shop.execute(ROW_11)
    if start == "after row 11":
        start = shop.one("SELECT pg_current_wal_flush_lsn()::text")
    kept = {"slotName": "kept", "publication": "kept", "snapshot": "never"}
    engine = caught_up(shop.engine(**kept, startingLsn=start))
    shop.execute(ROW_12)
    assert [number for _, number, _ in shop.ops(caught_up(engine))] == read


def test_a_first_start_waits_for_transactions_that_have_written_before_there_was_a_publication(
    shop: FaultyShop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    shop.make_slot("older")
    writer = shop.session()
    writer.execute(f"BEGIN; {ROW_11}")
    started = Running(lambda: caught_up(shop.engine(slotName="older")))
    until(lambda: "waits for open transactions" in caplog.text, lambda: caplog.text)
    writer.execute("COMMIT")
    engine = started.result()
    shop.execute(ROW_12)
    assert shop.changes(caught_up(engine)) == [("c", 12, "y")]
    assert len(engine.rows) == 12


def test_a_slot_that_sends_prepared_transactions_early_is_refused(shop: FaultyShop) -> None:
    shop.one("SELECT pg_create_logical_replication_slot('two', 'pgoutput', false, true)::text")
    shop.execute("BEGIN", ROW_11, "PREPARE TRANSACTION 'p'")
    with pytest.raises(DiscoveryError, match="slot two has two_phase on"):
        caught_up(shop.engine(slotName="two", snapshot="never"))


def test_a_slot_that_sends_prepared_transactions_early_is_refused_at_a_restart_too(shop: FaultyShop) -> None:
    engine = shop.read()
    shop.one("SELECT pg_create_logical_replication_slot('two', 'pgoutput', false, true)::text")
    shop.execute("BEGIN", ROW_11, "PREPARE TRANSACTION 'p'")
    with pytest.raises(DiscoveryError, match="slot two has two_phase on"):
        caught_up(shop.engine(after=engine, slotName="two"))
    shop.execute("COMMIT PREPARED 'p'")
    assert shop.changes(caught_up(shop.engine(after=engine, slotName="three"))) == [("c", 11, "x")]


@pytest.mark.parametrize("policy", ["quarantine", "ignore"])
def test_a_slot_that_was_moved_stops_the_query_also_if_chunks_may_be_given_up(
    shop: FaultyShop, policy: str
) -> None:
    given_up = {"onSplitError": policy, "maxSplitAttempts": "1"}
    engine = shop.read(**given_up)
    shop.execute(ROW_11)
    shop.advance(shop.flushed())
    shop.execute(ROW_12)
    with pytest.raises(DataLossError, match="has moved the slot"):
        caught_up(engine)
    reporting = caught_up(shop.engine(after=engine, onDataLoss="report", **given_up))
    assert shop.changes(reporting) == [("c", 12, "y")]


# Two queries.


def test_the_error_for_a_second_query_on_a_slot_names_the_process_that_uses_it(shop: FaultyShop) -> None:
    first = shop.engine(slotName="shared", uid="one")
    first.run_batch()
    second = shop.engine(slotName="shared", uid="two")
    held = r"(?s)slot shared belongs to another query .*server process (\d+).*pg_terminate_backend\(\1\)"
    with pytest.raises(DiscoveryError, match=held):
        second.run_batch()
    first.run_batch()
    first.stop()
    second.restart()
    second.run_batch()
    second.stop()


def test_a_hanging_driver_does_not_keep_its_successor_from_the_slot(shop: FaultyShop) -> None:
    engine = shop.engine()
    engine.run_batch()
    hanging = engine.holder  # keeps its connection open
    engine.restart()
    engine.run_batch()
    assert hanging is not engine.holder
    assert len(caught_up(engine).rows) == 10


def test_a_query_without_a_state_location_does_not_share_its_slot_either(shop: FaultyShop) -> None:
    del shop.options["stateLocation"]
    first = shop.engine(slotName="shared")
    first.run_batch()
    with pytest.raises(DiscoveryError, match="slot shared belongs to another query"):
        shop.engine(slotName="shared").run_batch()
    first.restart()
    assert len(caught_up(first).rows) == 10
    first.stop()


# The publication.


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Statements that keep a query from the insert of row 11 or its name, the error, and the changes left.

    Attributes:
        before: statements before the query starts.
        losses: how many are counted.
        skipped_since: the first version of PostgreSQL that sends the changes after the loss.
    """

    statements: tuple[str, ...]
    said: str
    left: tuple[Change, ...] = (("c", 12, "y"),)
    before: tuple[str, ...] = ()
    losses: int = 1
    skipped_since: int = 0


PARTS = (
    "CREATE TABLE parts (id int PRIMARY KEY, name text NOT NULL) PARTITION BY RANGE (id)",
    "CREATE TABLE part PARTITION OF parts DEFAULT", "ALTER TABLE part ADD CONSTRAINT part_name UNIQUE (name)",
    "INSERT INTO parts VALUES (1, 'x')",
)  # fmt: skip


def for_a_while(change: str, back: str) -> tuple[str, ...]:
    return (change, ROW_11, back, ROW_12)


REMOVED, ADDED = (f"ALTER PUBLICATION {{slot}} {change} TABLE orders" for change in ("DROP", "ADD"))
LOSSES = {
    "another tool has advanced the slot": Loss(
        statements=(ROW_11, "SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())", ROW_12),
        said="another query or tool has moved the slot",
    ),
    "the slot was dropped and created again": Loss(
        statements=(
            ROW_11,
            "SELECT pg_drop_replication_slot('{slot}')",
            "SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')",
            ROW_12,
        ),
        said="another query or tool has moved the slot",
    ),
    "the publication was dropped": Loss(
        statements=("DROP PUBLICATION {slot}", ROW_11),
        said="publication {slot} was dropped;",
        left=(),
        losses=2,
        skipped_since=18,
    ),
    "the table was removed from the publication": Loss(
        statements=(REMOVED, ROW_11), said=r"table public\.orders was removed from publication", left=()
    ),
    "the table was removed from the publication and added again": Loss(
        statements=(REMOVED, ROW_11, ADDED, ROW_12),
        said=r"public\.orders was removed from publication .* and added again",
    ),
    "the publication published only inserts for a while": Loss(
        statements=for_a_while(
            "ALTER PUBLICATION {slot} SET (publish = 'delete')",
            "ALTER PUBLICATION {slot} SET (publish = 'insert, update, delete, truncate')",
        ),
        said="publication {slot} was altered",
    ),
    "the publication was recreated without the table, which was added later": Loss(
        statements=("DROP PUBLICATION {slot}", "CREATE PUBLICATION {slot}", ROW_11, ADDED, ROW_12),
        said="publication {slot} was dropped and created again",
    ),
    "the publication named the partitions of the table for a while": Loss(
        before=(
            "CREATE TABLE filled AS TABLE orders",
            "DROP TABLE orders",
            f"{CREATE} PARTITION BY RANGE (id)",
            "CREATE TABLE part PARTITION OF orders DEFAULT",
            "INSERT INTO orders TABLE filled",
        ),
        statements=for_a_while(
            "ALTER PUBLICATION {slot} SET (publish_via_partition_root = false)",
            "ALTER PUBLICATION {slot} SET (publish_via_partition_root = true)",
        ),
        said="publication {slot} was altered",
    ),
    "the publication was replaced by one with a row filter for a while": Loss(
        statements=(
            "DROP PUBLICATION {slot}",
            "CREATE PUBLICATION {slot} FOR TABLE orders WHERE (id > 11)",
            ROW_11,
            "DROP PUBLICATION {slot}",
            "CREATE PUBLICATION {slot} FOR TABLE orders",
            ROW_12,
        ),
        said="publication {slot} was dropped and created again",
    ),
    "the publication had a row filter for a while": Loss(
        statements=for_a_while(
            "ALTER PUBLICATION {slot} SET TABLE orders WHERE (id > 11)",
            "ALTER PUBLICATION {slot} SET TABLE orders",
        ),
        said=r"or its column list or row filter there was changed",
    ),
    "the publication had a column list for a while": Loss(
        statements=for_a_while(
            "ALTER PUBLICATION {slot} SET TABLE orders (id)", "ALTER PUBLICATION {slot} SET TABLE orders"
        ),
        said=r"or its column list or row filter there was changed",
        left=(("c", 11, None), ("c", 12, "y")),
    ),
    "the schema of the table was removed from the publication and added again": Loss(
        before=("CREATE PUBLICATION {slot} FOR TABLES IN SCHEMA public",),
        statements=for_a_while(
            "ALTER PUBLICATION {slot} DROP TABLES IN SCHEMA public",
            "ALTER PUBLICATION {slot} ADD TABLES IN SCHEMA public",
        ),
        said=r"public\.orders was removed from publication .* and added again",
    ),
    "the table was moved to a schema that is not published, and back": Loss(
        before=("CREATE PUBLICATION {slot} FOR TABLES IN SCHEMA public", "CREATE SCHEMA away"),
        statements=(
            "ALTER TABLE orders SET SCHEMA away",
            "INSERT INTO away.orders VALUES (11, 'x')",
            "ALTER TABLE away.orders SET SCHEMA public",
            ROW_12,
        ),
        said=r"public\.orders was removed from publication .* or its schema",
    ),
    "the table was unlogged for a while": Loss(
        before=("CREATE PUBLICATION {slot} FOR ALL TABLES",),
        statements=("ALTER TABLE orders SET UNLOGGED", ROW_11, "ALTER TABLE orders SET LOGGED", ROW_12),
        said=r"table public\.orders .* SET UNLOGGED",
    ),
}


def read_before(shop: FaultyShop, loss: Loss, **options: str) -> MicroBatchEngine:
    """Return a query that has read its snapshot before the changes were lost."""
    before, statements = (
        [text.format(slot=shop.slot) for text in texts] for texts in (loss.before, loss.statements)
    )
    shop.execute(*before)
    engine = shop.read(**options)
    shop.execute(*statements)
    return engine


@ON_EACH_VERSION
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_lost_changes_stop_the_query_at_each_start(shop: FaultyShop, loss: Loss) -> None:
    engine = read_before(shop, loss)
    for _ in range(2):
        with pytest.raises(DataLossError, match=loss.said.format(slot=shop.slot)):
            caught_up(engine)
    assert shop.changes(engine) == []


@ON_EACH_VERSION
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_if_losses_are_reported_the_query_continues_with_the_changes_that_are_left(
    shop: FaultyShop, loss: Loss
) -> None:
    engine = read_before(shop, loss, onDataLoss="report")
    if shop.server.version < loss.skipped_since:
        with pytest.raises(Flip27Error, match="while the publication was missing: create it, drop the slot"):
            caught_up(engine)
        return
    caught_up(engine)
    shop.execute("INSERT INTO orders VALUES (13, 'z')")
    caught_up(engine)
    assert shop.changes(engine) == [*loss.left, ("c", 13, "z")]
    assert engine.holder.report()["dataLosses"] == loss.losses


@ON_EACH_VERSION
@pytest.mark.parametrize(
    ("columns", "statement"), [("", "REINDEX TABLE part"), (", t text", "VACUUM FULL part")]
)
def test_other_new_storage_of_a_published_table_is_no_loss(
    shop: FaultyShop, columns: str, statement: str
) -> None:
    shop.execute(
        f"CREATE TABLE parts (id int PRIMARY KEY, name int{columns}) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF parts DEFAULT",
    )
    engine = caught_up(shop.engine(tables="public.parts"))
    shop.execute("INSERT INTO parts VALUES (1)", "TRUNCATE parts")
    caught_up(engine)
    shop.execute(statement, "ALTER TABLE parts ALTER name TYPE smallint", "INSERT INTO parts VALUES (2)")
    caught_up(engine)
    assert shop.ops(engine) == [("c", 1, None), ("t", None, None), ("c", 2, None)]


IDENTIFIED = "ALTER TABLE part REPLICA IDENTITY USING INDEX"
FORMER_KEYS = r"of public\.parts .* keys"


@ON_EACH_VERSION
@pytest.mark.parametrize(
    ("altered", "taken_back", "said"),
    [
        (["ALTER TABLE part SET UNLOGGED"], ["SET LOGGED"], r"table public\.parts .* SET UNLOGGED"),
        ([f"{IDENTIFIED} part_name"], ["REPLICA IDENTITY DEFAULT"], FORMER_KEYS),
        (["CREATE UNIQUE INDEX other ON part (name)", f"{IDENTIFIED} other"], ["REPLICA IDENTITY DEFAULT"],
         FORMER_KEYS),
        ([f"{IDENTIFIED} part_name"], ["REPLICA IDENTITY DEFAULT", "DROP CONSTRAINT part_name"], FORMER_KEYS),
    ],
    ids=["unlogged", "an index", "a new index", "an index that is dropped"],
)  # fmt: skip
def test_a_partition_that_was_altered_for_a_while_is_data_loss(
    shop: FaultyShop, altered: list[str], taken_back: list[str], said: str
) -> None:
    shop.execute(*PARTS)
    engine = caught_up(shop.engine(tables="public.parts"))
    shop.execute(*altered, "UPDATE parts SET id = 2", *(f"ALTER TABLE part {text}" for text in taken_back))
    with pytest.raises(DataLossError, match=said):
        caught_up(engine)


@ON_EACH_VERSION
def test_a_key_that_the_log_does_not_have_stops_the_query(shop: FaultyShop) -> None:
    shop.execute(*PARTS)
    engine = caught_up(shop.engine(tables="public.parts"))
    shop.execute(
        "CREATE UNIQUE INDEX other ON part (name)", f"{IDENTIFIED} other", "DELETE FROM parts",
        "ALTER TABLE part REPLICA IDENTITY DEFAULT", "DROP INDEX other",
    )  # fmt: skip
    with pytest.raises(SplitReadError, match=r"a former row of table public\.parts .* column id"):
        caught_up(engine)


@ON_EACH_VERSION
def test_an_index_of_a_partition_that_is_built_while_rows_change_is_no_loss(shop: FaultyShop) -> None:
    shop.execute(*PARTS)
    engine = caught_up(shop.engine(tables="public.parts"))
    shop.execute(
        "CREATE UNIQUE INDEX CONCURRENTLY other ON part (name)", "REINDEX INDEX CONCURRENTLY part_name",
        "UPDATE parts SET id = 2", "CREATE UNIQUE INDEX third ON part (name)",
    )  # fmt: skip
    caught_up(engine)
    shop.execute("REINDEX TABLE part", "GRANT UPDATE ON part TO PUBLIC")
    caught_up(engine)
    assert [change[0] for change in shop.ops(engine)] == ["r", "d", "c"]


@pytest.mark.parametrize(
    ("before", "now", "is_loss"),
    [
        ("750 16410:750", "750 16410:760", False),  # the next step of CREATE INDEX CONCURRENTLY
        ("750 16410:750", "760 16410:750*", False),  # GRANT, REINDEX
        ("750", "760 16410:760", False),  # GRANT, CREATE INDEX
        ("750 16410:750", "760 16410:760*", True),
        ("750", "760 16410:760*", True),
        ("750 16410:750", "760", True),
    ],
)
def test_the_identity_of_a_partition_has_changed_if_its_row_and_that_of_an_index_have(
    before: str, now: str, *, is_loss: bool
) -> None:
    orders = TableName(oid=16400, schema="public", name="orders")
    first, second = (PublicationMarks(oid=1, marks={"16400 identity 16405": mark}) for mark in (before, now))
    assert any(alterations(first, second, [orders], publication="p")) == is_loss


@pytest.mark.parametrize("kind", ["ALL TABLES", "TABLES IN SCHEMA public"])
@pytest.mark.parametrize("statement", ["ALTER TABLE orders SET UNLOGGED", "DROP TABLE orders"])
def test_a_table_that_is_unlogged_or_dropped_while_tables_are_listed_is_named(
    shop: FaultyShop, kind: str, statement: str
) -> None:
    shop.execute(f"CREATE PUBLICATION p FOR {kind}", statement)
    orders = TableName(oid=16400, schema="public", name="orders")
    with pytest.raises(DiscoveryError, match=r"publication p cannot have public\.orders: .* \[.{5}\]"):
        ensure_publication(shop.control, "p", [orders])


@ON_EACH_VERSION
def test_a_table_that_is_removed_as_soon_as_the_query_has_published_it_is_data_loss(shop: FaultyShop) -> None:
    removed = REMOVED.format(slot=shop.slot)
    shop.execute(
        "CREATE FUNCTION removed() RETURNS event_trigger LANGUAGE plpgsql "
        f"AS $$ BEGIN {removed}; END $$",
        "CREATE EVENT TRIGGER at_once ON ddl_command_end WHEN TAG IN ('CREATE PUBLICATION') "
        "EXECUTE FUNCTION removed()",
    )  # fmt: skip
    with pytest.raises(DataLossError, match=r"table public\.orders was removed from publication"):
        shop.read()
    shop.read()


@ON_EACH_VERSION
def test_a_running_query_reads_nothing_after_its_publication_was_altered(shop: FaultyShop) -> None:
    engine = running(shop.read())
    shop.execute(
        f"ALTER PUBLICATION {shop.slot} SET (publish = 'delete')", ROW_11,
        f"ALTER PUBLICATION {shop.slot} SET (publish = 'insert, delete')", ROW_12,
    )  # fmt: skip
    with pytest.raises(DataLossError, match="was altered"):
        has_read(engine, 11)
    assert len(engine.rows) == 10


@pytest.mark.parametrize(
    ("entry", "losses"),
    [("entry 16500", []), ("entry 16501", ["added again"]), ("none", ["changes since then"])],
)
def test_the_state_of_an_older_release_knows_the_entries_of_tables(entry: str, losses: list[str]) -> None:
    stored = b'{"oid":16384,"entries":[[16400,16500]]}'
    before = msgspec.json.decode(stored, type=PublicationMarks)
    now = PublicationMarks(oid=16384, marks={"publication": "750", "16400": entry})
    orders = TableName(oid=16400, schema="public", name="orders")
    found = list(alterations(before, now, [orders], publication="p"))
    assert [said for said, loss in zip(losses, found, strict=True) if said in loss] == losses


@ON_EACH_VERSION
def test_a_publication_that_was_altered_before_it_was_dropped_is_data_loss(shop: FaultyShop) -> None:
    engine = running(shop.read())
    shop.execute(REMOVED.format(slot=shop.slot), ROW_11, f"DROP PUBLICATION {shop.slot}")
    with pytest.raises(DataLossError, match=f"publication {shop.slot} was dropped"):
        caught_up(engine)


@ON_EACH_VERSION
def test_a_publication_that_names_partitions_instead_of_their_table_is_refused(shop: FaultyShop) -> None:
    shop.execute(
        "CREATE TABLE parts (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF parts DEFAULT", "CREATE PUBLICATION leaves FOR TABLE parts",
    )  # fmt: skip
    with pytest.raises(
        DiscoveryError, match=r"leaves has publish_via_partition_root off, and public\.parts is partitioned"
    ):
        caught_up(shop.engine(tables="public.parts", publication="leaves"))


def test_generated_columns_that_the_log_has_and_the_snapshot_lacks_are_refused_at_the_first_start(
    shop: FaultyShop,
) -> None:
    if shop.server.version < 18:
        return
    shop.execute("CREATE TABLE made (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (2 * id) STORED)")
    for number, options in enumerate(["made WITH (publish_generated_columns = stored)", "made (id, twice)"]):
        shop.execute(f"CREATE PUBLICATION p{number} FOR TABLE {options}")
        with pytest.raises(DiscoveryError, match=r"has generated columns of public\.made"):
            caught_up(shop.engine(tables="public.made", publication=f"p{number}"))


def test_each_start_logs_the_changes_that_a_publication_of_the_user_leaves_out(
    shop: FaultyShop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.execute(
        "CREATE PUBLICATION part_of FOR TABLE orders (id) WHERE (id > 5) WITH (publish = 'insert, delete')"
    )
    caught_up(shop.engine(publication="part_of"))
    assert "publication part_of leaves out every update, truncate: what is read differs" in caplog.text
    assert "publication part_of has only some rows of public.orders; the snapshot has all" in caplog.text


# The table.


def test_changes_before_a_table_is_dropped_are_read_before_the_query_fails(shop: FaultyShop) -> None:
    engine = running(shop.read())
    shop.execute(ROW_11, "DROP TABLE orders")

    def found() -> list[tuple[str, int | None, str | None]]:
        engine.run_batch()  # polls less often where a poll takes long
        return shop.changes(engine)

    until(lambda: found() == [("c", 11, "x")], lambda: str(shop.changes(engine)))
    with pytest.raises(
        DiscoveryError, match=r"option tables has public\.orders, and the database has no such"
    ):
        caught_up(engine)


def test_a_table_of_a_pattern_may_be_dropped(shop: FaultyShop) -> None:
    shop.execute(OTHER)
    engine = shop.read(tables="public.*")
    shop.execute(ROW_11, "DROP TABLE orders", "INSERT INTO other VALUES (1, 'y')")
    caught_up(engine)
    assert shop.changes(engine) == [("c", 11, "x"), ("c", 1, "y")]


def test_a_table_that_is_dropped_before_its_rows_are_read_is_data_loss(shop: FaultyShop) -> None:
    shop.execute(OTHER, "INSERT INTO other VALUES (1, 'y')")
    for mode in ("fail", "report"):
        engine = planned(shop.engine(tables="public.*", onDataLoss=mode, uid=mode))
        shop.execute("DROP TABLE IF EXISTS orders")
        if mode == "fail":
            with pytest.raises(
                DataLossError, match=r"table public\.orders was dropped before its rows were read"
            ):
                engine.run_batch()
            shop.execute(CREATE, "INSERT INTO orders VALUES (1)")
            continue
        engine.process_all_available()
        shop.execute("INSERT INTO other VALUES (2, 'z')")
        caught_up(engine)
        assert shop.ops(engine) == [("r", 1, "y"), ("c", 2, "z")]


def test_a_table_that_is_recreated_is_data_loss(shop: FaultyShop) -> None:
    engine = shop.read()
    shop.execute("DROP TABLE orders", CREATE)
    with pytest.raises(
        DataLossError, match=r"table public\.orders was dropped and recreated, .* \(oid \d+ before, \d+ now\)"
    ):
        caught_up(engine)


def test_a_table_that_is_recreated_is_read_from_its_start_if_losses_are_reported(shop: FaultyShop) -> None:
    engine = shop.read(onDataLoss="report")
    shop.execute("INSERT INTO orders VALUES (11, 'old')", "DROP TABLE orders")
    shop.execute(CREATE, "INSERT INTO orders VALUES (1, 'new')")
    caught_up(engine)
    shop.execute("INSERT INTO orders VALUES (2, 'newer')")
    caught_up(engine)
    found = shop.ops(engine)
    assert sorted(found[:10]) == sorted(("r", n, f"n{n}") for n in range(1, 11))
    assert sorted(found[10:]) == [("c", 2, "newer"), ("c", 11, "old"), ("r", 1, "new")]


def test_a_renamed_table_continues_under_its_new_name(shop: FaultyShop) -> None:
    engine = shop.read(tables="public.*")
    shop.execute(ROW_11, "ALTER TABLE orders RENAME TO sales")
    shop.execute("INSERT INTO sales VALUES (12, 'y')")
    caught_up(engine)
    caught_up(engine)
    assert shop.changes(engine) == [("c", 11, "x"), ("c", 12, "y")]
    assert len(engine.rows) == 12
    at = engine.schema.names.index("_table")
    assert [row[at] for row in engine.rows[-2:]] == ["public.orders", "public.sales"]


@pytest.mark.parametrize("snapshot", ["initial", "never"])
def test_a_renamed_table_continues_even_if_its_new_name_does_not_match_the_option(
    shop: FaultyShop, snapshot: str
) -> None:
    shop.execute("CREATE TABLE ordinals (id int PRIMARY KEY, name text)")
    engine = caught_up(shop.engine(snapshot=snapshot, tables="public.ord*"))
    rows = len(engine.rows)
    shop.execute(ROW_11, "ALTER TABLE orders RENAME TO sales")
    shop.execute("INSERT INTO sales VALUES (12, 'y')")
    caught_up(engine)
    assert shop.ops(engine)[rows:] == [("c", 11, "x"), ("c", 12, "y")]
    assert rows == (0 if snapshot == "never" else 10)


def test_without_a_snapshot_changes_from_before_a_renaming_are_not_lost(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine(snapshot="never"))
    shop.execute(ROW_11, "ALTER TABLE orders RENAME TO sales")
    shop.execute("INSERT INTO sales VALUES (12, 'y')")
    renamed = caught_up(shop.engine(after=engine, snapshot="never", tables="public.sales", uid="postgres"))
    assert shop.ops(renamed) == [("c", 11, "x"), ("c", 12, "y")]


def test_a_table_that_the_option_no_longer_names_is_left_out(shop: FaultyShop) -> None:
    shop.execute(OTHER)
    engine = shop.read(tables="public.orders,public.other")
    narrower = shop.engine(after=engine, tables="public.other")
    shop.execute(ROW_11, "INSERT INTO other VALUES (1, 'o')")
    caught_up(narrower)
    assert shop.changes(narrower) == [("c", 1, "o")]
    again = caught_up(shop.engine(after=narrower, tables="public.orders,public.other"))
    assert sorted(shop.ops(again)[-11:]) == sorted(
        [*(("r", n, f"n{n}") for n in range(1, 11)), ("r", 11, "x")]
    )


@pytest.mark.parametrize("limit", [{}, {"maxRowsPerTrigger": "4"}])
@pytest.mark.parametrize(
    "change", ["INSERT INTO other", "DROP TABLE other", "ALTER TABLE other RENAME id TO no"]
)
def test_assigned_chunks_of_a_table_that_the_option_leaves_out_are_not_read(
    shop: FaultyShop, change: str, limit: dict[str, str]
) -> None:
    ten = "SELECT n, 'o' FROM generate_series(1, 10) n"
    shop.execute(OTHER, f"INSERT INTO other {ten}")
    given = {"parallelism": "1", "uid": "postgres", **limit}
    engine = planned(shop.engine(tables="public.*", **given), available_now=False)
    shop.execute(f"{change} {ten.replace('n,', 'n + 10,')}" if change.startswith("INSERT") else change)
    narrower = caught_up(shop.engine(after=engine, tables="public.*, -public.other", **given))
    shop.execute(ROW_11)
    read = [*(("r", n, f"n{n}") for n in range(1, 11)), ("c", 11, "x")]
    assert sorted(shop.ops(caught_up(narrower)), key=lambda row: row[1] or 0) == read
    if change.startswith("INSERT"):
        again = caught_up(shop.engine(after=narrower, tables="public.*", **given))
        assert sorted(shop.ops(again)[11:], key=lambda row: row[1] or 0) == [
            ("r", n, "o") for n in range(1, 21)
        ]


def test_bounds_of_a_table_that_the_option_leaves_out_are_not_searched(
    shop: FaultyShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute(OTHER, "INSERT INTO other SELECT n, 'o' FROM generate_series(1, 10) n")
    monkeypatch.setattr(poller, "_CUT_S", 0.0)
    engine = running(shop.engine(tables="public.*", uid="postgres"))
    shop.execute("ALTER TABLE other RENAME id TO no")
    with pytest.raises(DiscoveryError, match=r"column id of table public\.other was integer"):
        caught_up(engine)
    narrower = caught_up(shop.engine(after=engine, tables="public.*, -public.other", uid="postgres"))
    assert sorted(shop.ops(narrower)) == sorted(("r", n, f"n{n}") for n in range(1, 11))


def test_rows_that_a_task_has_reported_are_delivered_also_if_the_option_leaves_their_table_out_since(
    shop: FaultyShop,
) -> None:
    shop.execute(OTHER, "INSERT INTO other VALUES (100, 'o')")
    engine = planned(shop.engine(tables="public.*", uid="postgres"))
    with pytest.raises(Crashed):
        engine.run_batch(crash_at=Step.TASKS_ENDED)
    narrower = shop.engine(after=engine, tables="public.orders", uid="postgres")
    narrower.restart(available_now=True)
    with pytest.raises(Crashed):
        narrower.run_batch(crash_at=Step.COMMIT_LOGGED)
    again = caught_up(shop.engine(after=narrower, tables="public.*", uid="postgres"))
    assert ("r", 100, "o") in shop.ops(again)


@pytest.mark.parametrize("read", [4, 10])
def test_a_table_that_is_left_out_for_a_while_is_read_anew_and_all_its_later_changes_are_delivered(
    shop: FaultyShop, read: int
) -> None:
    shop.execute(OTHER)
    given = {"maxRowsPerTrigger": "4", "parallelism": "1", "uid": "postgres"}
    both = {**given, "tables": "public.orders,public.other"}
    engine = shop.engine(**both)
    engine.restart(available_now=True)
    has_read(engine, read)
    narrower = shop.engine(after=engine, **{**given, "tables": "public.other"})
    shop.execute("INSERT INTO other VALUES (100, 'o')")
    planned(narrower).run_batch()
    again = planned(shop.engine(after=narrower, **both))
    # A chunk is planned, and the sink has these rows.
    shop.execute("DELETE FROM orders WHERE id < 3", "UPDATE orders SET name = 'x' WHERE id = 3")
    again.run_batch()
    caught_up(again)
    shop.execute("DELETE FROM orders WHERE id = 9", "DELETE FROM other")
    caught_up(again)
    shop.check_copy(again, is_exact=False)


@pytest.mark.parametrize("wrong", ["public.ordrs", "public.orders_*"])
def test_a_wrong_name_in_one_start_does_not_have_the_chunks_of_a_repeated_batch_read_again(
    shop: FaultyShop, wrong: str
) -> None:
    given = {"maxRowsPerTrigger": "4", "parallelism": "1", "uid": "postgres", "discoveryRetries": "0"}
    engine = planned(shop.engine(**given), available_now=False)
    mistaken = shop.engine(after=engine, **{**given, "tables": wrong})
    with pytest.raises(Flip27Error, match="and the database has no such table"):
        caught_up(mistaken)
    corrected = caught_up(shop.engine(after=mistaken, **given))
    assert sorted(shop.ops(corrected)) == sorted(("r", n, f"n{n}") for n in range(1, 11))


@pytest.mark.parametrize("last", ["orders3", "orders"])
def test_a_table_that_is_renamed_twice_in_mid_snapshot_is_not_taken_for_one_that_is_left_out(
    shop: FaultyShop, last: str
) -> None:
    given = {"maxRowsPerTrigger": "4", "parallelism": "1", "uid": "postgres", "onSplitError": "quarantine"}
    engine = shop.engine(**given)
    engine.restart(available_now=False)
    has_read(engine, 4)
    planned(engine, available_now=False)
    shop.execute("ALTER TABLE orders RENAME TO orders2")
    engine = shop.engine(after=engine, **given, tables="public.orders2")
    engine.restart(available_now=False)
    shop.execute("DELETE FROM orders2 WHERE id = 2", f"ALTER TABLE orders2 RENAME TO {last}")
    with pytest.raises(AccessError, match=r"option tables has public\.orders2, and the database has no such"):
        engine.run_batch()
    renamed = caught_up(shop.engine(after=engine, **given, tables=last))
    read = [("r", n, f"n{n}") for n in range(1, 11)]
    assert sorted(shop.ops(renamed), key=lambda row: (row[0] == "d", row[1])) == [*read, ("d", 2, None)]


def test_a_table_that_is_renamed_again_continues_if_the_option_has_its_name_of_between(
    shop: FaultyShop,
) -> None:
    shop.execute(OTHER)
    engine = shop.read(tables="public.o*")
    shop.execute("ALTER TABLE other RENAME TO p_other", "INSERT INTO p_other VALUES (1, 'x')")
    given = {"tables": "public.orders, public.p*", "uid": "postgres"}
    engine = caught_up(shop.engine(after=engine, **given))
    shop.execute("INSERT INTO p_other VALUES (2, 'y')", "ALTER TABLE p_other RENAME TO q_other")
    shop.execute("INSERT INTO q_other VALUES (3, 'z')")
    engine = caught_up(shop.engine(after=engine, **given))
    assert shop.changes(engine) == [("c", 1, "x"), ("c", 2, "y"), ("c", 3, "z")]
    without = {**given, "tables": "public.o*"}
    shop.execute("INSERT INTO q_other VALUES (4, 'left out')")
    assert len(shop.changes(caught_up(shop.engine(after=engine, **without)))) == 3


def test_planned_chunks_of_a_table_that_is_renamed_again_are_read_by_its_name_of_between(
    shop: FaultyShop,
) -> None:
    given = {"maxRowsPerTrigger": "4", "parallelism": "1", "uid": "postgres"}
    engine = planned(shop.engine(tables="public.o*", **given), available_now=False)
    shop.execute(OTHER, "ALTER TABLE orders RENAME TO p_orders")
    given["tables"] = "public.other, public.p*"
    engine = shop.engine(after=engine, **given)
    engine.restart(available_now=True)
    has_read(engine, 8)
    shop.execute("DELETE FROM p_orders WHERE id = 2", "ALTER TABLE p_orders RENAME TO q_orders")
    engine = caught_up(shop.engine(after=engine, **given))
    read = [("r", n, f"n{n}") for n in range(1, 11)]
    assert sorted(shop.ops(engine), key=lambda row: (row[0] == "d", row[1])) == [*read, ("d", 2, None)]


def test_a_table_that_is_renamed_before_its_rows_are_read_is_still_read(shop: FaultyShop) -> None:
    engine = planned(shop.engine(tables="public.*"))
    shop.execute("ALTER TABLE orders RENAME TO sales")
    caught_up(engine)
    assert sorted(row[0] for row in engine.rows) == list(range(1, 11))
