"""A query whose server is killed and whose standby takes over, on two real servers."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from flip27_source.enumerators.postgres.own_slot import slot_name_of
from flip27_source.enumerators.postgres.timelines import Timeline, check_timeline, left_timeline_at
from flip27_source.errors import DataLossError, DiscoveryError
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine
from tests.deadline import until
from tests.enumerators.postgres.faults import FaultyShop, caught_up, faulty_shop, has_read, planned, running
from tests.postgres_server import PostgresServer, await_replayed, postgres_server, postgres_standby
from tests.replica import Writers, copy_of, rows_of
from tests.table_audit import AUDIT, audited_table, complaints

TABLE = "public.audited"
STANDBY = "the_standby"
ROWS = 600


class Pair:
    """A primary with one table, its standby, and the options of a query of the table.

    Attributes:
        control: a session of the server that is the primary now.
    """

    def __init__(self, primary: PostgresServer, standby: PostgresServer, options: dict[str, str]) -> None:
        self.primary, self.standby, self.options = primary, standby, options
        self.slot = slot_name_of(Source.resolve(options).options)
        self.control = primary.connect(options["database"])
        self._rng = random.Random(7)

    def write(self, times: int) -> None:
        """Write with three sessions until all of their transactions have ended."""
        with ExitStack() as stack:
            server = self.primary if self.primary.is_running else self.standby
            connections = [server.connect(self.options["database"]) for _ in range(3)]
            sessions = [stack.enter_context(connection) for connection in connections]
            writers = Writers(sessions, TABLE, seed=self._rng.randrange(1 << 30))
            writers.act(times)
            writers.finish()

    def read_until_slot_is_copied(self, engine: MicroBatchEngine) -> None:
        """Run batches until the slot has passed its copy on the standby, which then keeps the copy."""
        copy = (
            "SELECT temporary, restart_lsn::text, catalog_xmin::text FROM pg_replication_slots "
            "WHERE synced AND slot_name = %s"
        )
        is_before = (
            "SELECT restart_lsn < %s::pg_lsn OR catalog_xmin::text::bigint < %s::bigint "
            "FROM pg_replication_slots WHERE slot_name = %s"
        )
        with self.standby.connect() as standby:

            def is_copied() -> bool:
                standby.execute("SELECT pg_reload_conf()")  # wakes the worker that copies slots
                row = standby.execute(copy, [self.slot]).fetchone()
                if row is None or not row[0]:
                    return row is not None
                if self.control.execute(is_before, [*row[1:], self.slot]).fetchone() == (True,):
                    self.write(3)
                    self.control.execute("SELECT pg_log_standby_snapshot()")
                    engine.run_batch()
                return False

            until(is_copied, lambda: self.standby.log.read_text()[-2000:])

    def fail_over(self) -> None:
        """Kill the primary once the standby has all of its log; the standby takes over its address."""
        self.control.execute("SELECT pg_switch_wal()")
        await_replayed(self.primary, self.standby)
        self.control.close()
        self.primary.kill()
        self.promote()

    def promote(self) -> None:
        """Make the standby the primary, at the address of the former primary."""
        with self.standby.connect() as standby:
            assert standby.execute("SELECT pg_promote(true, 100)").fetchone() == (True,)
        self.standby.stop()
        self.standby.port = self.primary.port
        self.standby.start()
        self.control = self.standby.connect(self.options["database"])


@contextmanager
def pair(**options: str) -> Iterator[Pair]:
    """Make a pair whose table is read in chunks of 7 rows, one chunk in each batch."""
    with ExitStack() as stack:
        primary = stack.enter_context(postgres_server(synchronized_standby_slots=STANDBY))
        database = stack.enter_context(primary.database())
        with primary.connect(database) as control:
            control.execute("SELECT pg_create_physical_replication_slot(%s, true)", [STANDBY])
            control.execute(AUDIT)
            control.execute(audited_table(TABLE, ROWS))
        standby = stack.enter_context(postgres_standby(primary, slot=STANDBY, database=database))
        location = stack.enter_context(tempfile.TemporaryDirectory())
        given = {
            "tables": TABLE, "snapshotChunkRows": "7", "maxRowsPerTrigger": "7", "parallelism": "1",
            "maxLogLagDuringSnapshot": "1k", "stateLocation": location, **options,
        }  # fmt: skip
        servers = Pair(primary, standby, primary.options(database, **given))
        try:
            yield servers
        finally:
            servers.control.close()


def in_snapshot(pair: Pair) -> MicroBatchEngine:
    """Return a query that has read some chunks and some of the log, and has planned a batch."""
    engine = MicroBatchEngine(pair.options)
    engine.run_batch()
    pair.read_until_slot_is_copied(engine)
    at = engine.schema.names.index("_op")
    assert 0 < sum(row[at] == "r" for row in engine.rows) < ROWS / 2
    while not engine.trigger():
        pass
    return engine


def in_log(pair: Pair) -> MicroBatchEngine:
    """Return a query that has read all chunks and has planned a window of the log."""
    engine = caught_up(MicroBatchEngine({**pair.options, "maxRowsPerTrigger": "1000"}))
    engine.restart(available_now=False)
    pair.read_until_slot_is_copied(engine)
    pair.write(40)
    return planned(engine, available_now=False)


@pytest.mark.slow
@pytest.mark.parametrize("phase", [in_snapshot, in_log])
def test_a_query_continues_on_a_promoted_standby_and_delivers_every_change_once(
    phase: Callable[[Pair], MicroBatchEngine],
) -> None:
    with pair(slotFailover="true") as servers:
        engine = phase(servers)
        servers.write(40)
        servers.fail_over()
        servers.write(40)
        engine.restart(available_now=False)
        engine.process_all_available()
        servers.write(40)
        caught_up(engine)
        assert copy_of(engine.rows, is_exact=False) == rows_of(servers.control, TABLE)
        assert complaints(servers.control, TABLE, engine.rows) == []
        engine.stop()


@pytest.mark.slow
def test_a_standby_without_the_slot_stops_the_query() -> None:
    with pair() as servers:
        engine = caught_up(MicroBatchEngine({**servers.options, "maxRowsPerTrigger": "1000"}))
        servers.fail_over()
        engine.restart(available_now=True)
        said = rf"(?s)slot {servers.slot} no longer exists.*slotFailover=true"
        with pytest.raises(DataLossError, match=said):
            engine.process_all_available()


@pytest.mark.slow
def test_a_standby_that_lacked_the_end_of_the_log_is_refused_even_if_its_log_has_grown_since() -> None:
    with pair(slotFailover="true") as servers:
        engine = in_log(servers)
        servers.standby.kill()
        servers.control.execute("ALTER SYSTEM SET synchronized_standby_slots = ''")
        servers.control.execute("SELECT pg_reload_conf()")
        servers.write(40)
        caught_up(engine)
        servers.control.close()
        servers.primary.kill()
        servers.standby.start()
        servers.promote()
        servers.control.execute(f"INSERT INTO {TABLE} SELECT n FROM generate_series(100000, 130000) n")
        with pytest.raises(DataLossError, match=r"has left timeline 1 at .* and this query has read up to"):
            caught_up(engine)


def test_timelines_are_compared_only_within_the_same_system() -> None:
    options = Source.resolve({"enumerator": "postgres"}).options
    present, position = Timeline(system="new", number=1), 1 << 40
    check_timeline(options, known=Timeline(system="old", number=3), present=present, position=position)
    with pytest.raises(DataLossError, match="writes timeline 1, and this query has read timeline 3"):
        check_timeline(options, known=Timeline(system="new", number=3), present=present, position=position)


def test_the_history_of_a_timeline_has_the_positions_at_which_earlier_ones_ended() -> None:
    history = "1\t0/3000148\tno recovery target specified\n\n2\t1/10\tbefore 2026-01-01\n"
    assert left_timeline_at(history, 1) == 0x3000148
    assert left_timeline_at(history, 2) == (1 << 32) + 16
    assert left_timeline_at(history, 3) is None


def test_a_query_creates_a_failover_slot_if_the_option_is_set(server: PostgresServer) -> None:
    with faulty_shop(server, slotFailover="true") as shop:
        if server.version < 17:
            with pytest.raises(DiscoveryError, match=r"slotFailover is true.*PostgreSQL 16"):
                caught_up(shop.engine())
            assert shop.one("SELECT count(*) FROM pg_replication_slots") == 0
            return
        caught_up(shop.engine()).stop()
        assert failover_slots(shop) == {shop.slot: True}


def test_a_copy_of_a_slot_is_a_failover_slot_if_the_option_is_set(server: PostgresServer) -> None:
    if server.version < 17:
        pytest.skip("older servers have no failover slots")
    with faulty_shop(server) as shop:
        query = caught_up(shop.engine())
        caught_up(shop.engine(after=query, slotName="renamed", slotFailover="true")).stop()
        assert failover_slots(shop) == {shop.slot: False, "renamed": True}


def failover_slots(shop: FaultyShop) -> dict[str, bool]:
    slots = "SELECT slot_name, to_jsonb(s) ->> 'failover' = 'true' FROM pg_replication_slots s"
    return {name: bool(is_failover) for name, is_failover in shop.rows(slots)}


@pytest.mark.parametrize(
    "read", [caught_up, lambda engine: has_read(engine, len(engine.rows) + 1)], ids=["restarted", "running"]
)
def test_a_query_continues_after_pg_upgrade(read: Callable[[MicroBatchEngine], MicroBatchEngine]) -> None:
    with postgres_server(18) as server, faulty_shop(server) as shop:
        engine = shop.read()
        shop.execute("INSERT INTO orders VALUES (11, 'x')")
        caught_up(engine)
        caught_up(engine)  # advances the slot
        running(engine)
        server.upgrade()
        shop.reconnect()
        for number in (12, 13):
            shop.execute(f"INSERT INTO orders VALUES ({number}, 'y')")
            read(engine)
        assert shop.changes(engine) == [("c", 11, "x"), ("c", 12, "y"), ("c", 13, "y")]


def test_a_batch_that_was_planned_before_pg_upgrade_has_no_rows() -> None:
    with postgres_server(18) as server, faulty_shop(server) as shop:
        engine = caught_up(shop.read(heartbeatBytes="1"))
        shop.execute("CHECKPOINT")  # the log grows, and has no changes
        planned(engine, available_now=False)
        server.upgrade()
        shop.reconnect()
        shop.execute("INSERT INTO orders VALUES (12, 'y')")
        caught_up(engine)
        assert shop.changes(engine) == [("c", 12, "y")]
