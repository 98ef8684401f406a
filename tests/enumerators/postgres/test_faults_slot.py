"""Faults of the slot, the publication and the tables of a query, on a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flip27_source.errors import DataLossError, DiscoveryError, SplitReadError
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.postgres.database import Running, wait_until
from tests.enumerators.postgres.faults import FaultyShop, caught_up, faulty_shop
from tests.postgres_server import PostgresServer


@pytest.fixture
def shop(postgres: PostgresServer) -> Iterator[FaultyShop]:
    with faulty_shop(postgres) as shop:
        yield shop


def read(shop: FaultyShop, **options: str) -> MicroBatchEngine:
    """Return a query that has read its snapshot."""
    engine = caught_up(shop.engine(**options))
    assert len(engine.rows) == 10
    return engine


def changes(shop: FaultyShop, engine: MicroBatchEngine) -> list[tuple[str, int | None, str | None]]:
    return [change for change in shop.ops(engine) if change[0] != "r"]


# The slot.


def test_a_dropped_slot_is_data_loss_at_the_next_poll(shop: FaultyShop) -> None:
    engine = read(shop)
    engine.restart(available_now=False)
    engine.run_batch()
    shop.one("SELECT pg_drop_replication_slot(%s)::text", shop.slot)
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    with pytest.raises(DataLossError, match=f"slot {shop.slot} no longer exists; changes from [0-9A-F/]+ on"):
        caught_up(engine)


def test_a_dropped_slot_stops_the_query_even_if_losses_are_reported(shop: FaultyShop) -> None:
    engine = read(shop, onDataLoss="report")
    engine.restart(available_now=False)
    engine.run_batch()
    shop.one("SELECT pg_drop_replication_slot(%s)::text", shop.slot)
    with pytest.raises(DataLossError, match="no longer exists"):
        engine.process_all_available()


def test_a_slot_that_another_tool_has_advanced_is_data_loss(shop: FaultyShop) -> None:
    engine = read(shop)
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    shop.one("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())::text", shop.slot)
    shop.execute("INSERT INTO orders VALUES (12, 'y')")
    with pytest.raises(DataLossError, match="another query or tool has moved the slot"):
        caught_up(engine)
    assert changes(shop, engine) == []


def test_a_query_whose_slot_was_advanced_continues_with_the_remaining_log_if_losses_are_reported(
    shop: FaultyShop,
) -> None:
    engine = read(shop, onDataLoss="report")
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    shop.one("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())::text", shop.slot)
    shop.execute("INSERT INTO orders VALUES (12, 'y')")
    caught_up(engine)
    assert changes(shop, engine) == [("c", 12, "y")]


def test_a_slot_of_another_plugin_is_refused(shop: FaultyShop) -> None:
    shop.one("SELECT pg_create_logical_replication_slot('foreign_one', 'test_decoding')::text")
    with pytest.raises(DiscoveryError, match="slot foreign_one has the plugin test_decoding"):
        caught_up(shop.engine(slotName="foreign_one"))


def test_a_task_waits_for_another_reader_of_the_slot_and_names_it_at_the_timeout(
    shop: FaultyShop,
) -> None:
    engine = read(shop)
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    engine.restart(available_now=True)
    assert engine.trigger()
    blocking, other = shop.server.connect(shop.database), shop.server.connect(shop.database)
    with blocking, other:
        # The decoder reads pg_publication: this peek holds the slot as long as the lock is held.
        blocking.execute("BEGIN; LOCK TABLE pg_publication IN ACCESS EXCLUSIVE MODE")
        peek = (
            "SELECT count(*) FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
            " 'publication_names', %s)"
        )
        held = Running(lambda: other.execute(peek, [shop.slot, shop.slot]).fetchall())
        active = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
        wait_until(lambda: bool(shop.one(active, shop.slot)), lambda: "the slot is free")
        pid = other.info.backend_pid
        with pytest.raises(SplitReadError, match=f"slot {shop.slot} has been read by another .* PID {pid}"):
            list(engine.attempt(engine.partitions()[0]))
        blocking.execute("ROLLBACK")
        held.result()
    engine.run_batch()
    assert changes(shop, engine) == [("c", 11, "x")]


def test_speculative_attempts_take_turns_at_the_slot(shop: FaultyShop) -> None:
    engine = read(shop)
    shop.execute("INSERT INTO orders SELECT n, 'x' FROM generate_series(11, 3010) n")
    engine.restart(available_now=True)
    assert engine.trigger()
    (task,) = engine.partitions()
    attempts = [Running(lambda number=number: len(list(engine.attempt(task, number)))) for number in (0, 1)]
    assert [attempt.result() for attempt in attempts] == [3000, 3000]


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
    third = shop.engine(slotName="shared", uid="two")
    third.run_batch()
    third.stop()


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


def test_changes_that_a_missing_publication_left_out_are_data_loss(shop: FaultyShop) -> None:
    engine = read(shop)
    shop.execute(f"DROP PUBLICATION {shop.slot}", "INSERT INTO orders VALUES (11, 'x')")
    with pytest.raises(DataLossError, match=f"publication {shop.slot} was missing when rows were changed"):
        caught_up(engine)
    with pytest.raises(DataLossError, match="was missing when rows were changed"):
        caught_up(engine)


def test_a_running_query_notices_that_its_publication_is_missing(shop: FaultyShop) -> None:
    engine = read(shop)
    engine.restart(available_now=False)
    shop.execute(f"DROP PUBLICATION {shop.slot}", "INSERT INTO orders VALUES (11, 'x')")
    engine.trigger()  # polls the server
    with pytest.raises(DataLossError, match="was missing when rows were changed"):
        engine.process_all_available()


def test_if_losses_are_reported_a_missing_publication_loses_only_the_changes_made_meanwhile(
    shop: FaultyShop,
) -> None:
    engine = read(shop, onDataLoss="report")
    shop.execute(f"DROP PUBLICATION {shop.slot}", "INSERT INTO orders VALUES (11, 'x')")
    caught_up(engine)
    shop.execute("INSERT INTO orders VALUES (12, 'y')")
    caught_up(engine)
    assert changes(shop, engine) == [("c", 12, "y")]


def test_a_publication_that_is_dropped_while_nothing_changes_is_created_again(shop: FaultyShop) -> None:
    engine = read(shop)
    shop.execute(f"DROP PUBLICATION {shop.slot}")
    caught_up(engine)
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    caught_up(engine)
    assert changes(shop, engine) == [("c", 11, "x")]


def test_a_table_that_was_removed_from_the_publication_is_data_loss(shop: FaultyShop) -> None:
    engine = read(shop)
    shop.execute(f"ALTER PUBLICATION {shop.slot} DROP TABLE orders")
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    with pytest.raises(DataLossError, match=r"table public\.orders was removed from publication"):
        caught_up(engine)


def test_a_table_that_was_removed_from_the_publication_and_added_again_is_data_loss(shop: FaultyShop) -> None:
    engine = read(shop)
    shop.execute(
        f"ALTER PUBLICATION {shop.slot} DROP TABLE orders", "INSERT INTO orders VALUES (11, 'x')",
        f"ALTER PUBLICATION {shop.slot} ADD TABLE orders",
    )  # fmt: skip
    with pytest.raises(
        DataLossError,
        match=r"public\.orders was removed from publication .* and added "
        "again",
    ):
        caught_up(engine)


def test_a_table_that_was_removed_and_added_again_continues_if_losses_are_reported(shop: FaultyShop) -> None:
    engine = read(shop, onDataLoss="report")
    shop.execute(
        f"ALTER PUBLICATION {shop.slot} DROP TABLE orders", f"ALTER PUBLICATION {shop.slot} ADD TABLE orders",
        "INSERT INTO orders VALUES (12, 'y')",
    )  # fmt: skip
    caught_up(engine)
    caught_up(engine)
    assert changes(shop, engine) == [("c", 12, "y")]
    assert engine.holder.report()["dataLosses"] == 1


def test_a_table_that_was_removed_is_added_to_the_publication_again_if_losses_are_reported(
    shop: FaultyShop,
) -> None:
    engine = read(shop, onDataLoss="report")
    shop.execute(f"ALTER PUBLICATION {shop.slot} DROP TABLE orders", "INSERT INTO orders VALUES (11, 'x')")
    caught_up(engine)
    shop.execute("INSERT INTO orders VALUES (12, 'y')")
    caught_up(engine)
    assert changes(shop, engine) == [("c", 12, "y")]


def test_a_publication_that_names_partitions_instead_of_their_table_is_refused(shop: FaultyShop) -> None:
    shop.execute(
        "CREATE TABLE parts (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF parts DEFAULT", "CREATE PUBLICATION leaves FOR TABLE parts",
    )  # fmt: skip
    with pytest.raises(
        DiscoveryError, match=r"leaves has publish_via_partition_root off, and public\.parts is partitioned"
    ):
        caught_up(shop.engine(tables="public.parts", publication="leaves"))


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


def test_changes_before_a_table_is_dropped_are_read_before_the_query_fails(
    shop: FaultyShop,
) -> None:
    engine = read(shop)
    engine.restart(available_now=False)
    engine.run_batch()
    shop.execute("INSERT INTO orders VALUES (11, 'x')", "DROP TABLE orders")

    def found() -> list[tuple[str, int | None, str | None]]:
        engine.run_batch()  # polls less often where a poll takes long
        return changes(shop, engine)

    wait_until(lambda: found() == [("c", 11, "x")], lambda: str(changes(shop, engine)))
    with pytest.raises(
        DiscoveryError, match=r"option tables has public\.orders, and the database has no such"
    ):
        caught_up(engine)


def test_a_table_of_a_pattern_may_be_dropped(shop: FaultyShop) -> None:
    shop.execute("CREATE TABLE other (id int PRIMARY KEY, name text)")
    engine = read(shop, tables="public.*")
    shop.execute(
        "INSERT INTO orders VALUES (11, 'x')", "DROP TABLE orders", "INSERT INTO other VALUES (1, 'y')"
    )
    caught_up(engine)
    assert changes(shop, engine) == [("c", 11, "x"), ("c", 1, "y")]


def test_a_table_that_is_dropped_before_its_rows_are_read_is_data_loss(shop: FaultyShop) -> None:
    shop.execute("CREATE TABLE other (id int PRIMARY KEY, name text)", "INSERT INTO other VALUES (1, 'y')")
    for mode in ("fail", "report"):
        engine = shop.engine(tables="public.*", onDataLoss=mode, uid=mode)
        engine.restart(available_now=True)
        assert engine.trigger()
        shop.execute("DROP TABLE IF EXISTS orders")
        if mode == "fail":
            with pytest.raises(
                DataLossError, match=r"table public\.orders was dropped before its rows were read"
            ):
                engine.run_batch()
            shop.execute(
                "CREATE TABLE orders (id int PRIMARY KEY, name text)", "INSERT INTO orders VALUES (1)"
            )
            continue
        engine.process_all_available()
        shop.execute("INSERT INTO other VALUES (2, 'z')")
        caught_up(engine)
        assert shop.ops(engine) == [("r", 1, "y"), ("c", 2, "z")]


def test_a_table_that_is_recreated_is_data_loss(shop: FaultyShop) -> None:
    engine = read(shop)
    shop.execute("DROP TABLE orders", "CREATE TABLE orders (id int PRIMARY KEY, name text)")
    with pytest.raises(
        DataLossError, match=r"table public\.orders was dropped and recreated, .* \(oid \d+ before, \d+ now\)"
    ):
        caught_up(engine)


def test_a_table_that_is_recreated_is_read_from_its_start_if_losses_are_reported(shop: FaultyShop) -> None:
    engine = read(shop, onDataLoss="report")
    shop.execute("INSERT INTO orders VALUES (11, 'old')", "DROP TABLE orders")
    shop.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, name text)", "INSERT INTO orders VALUES (1, 'new')"
    )
    caught_up(engine)
    shop.execute("INSERT INTO orders VALUES (2, 'newer')")
    caught_up(engine)
    found = shop.ops(engine)
    assert sorted(found[:10]) == sorted(("r", n, f"n{n}") for n in range(1, 11))
    assert sorted(found[10:]) == [("c", 2, "newer"), ("c", 11, "old"), ("r", 1, "new")]


def test_a_renamed_table_continues_under_its_new_name(shop: FaultyShop) -> None:
    engine = read(shop, tables="public.*")
    shop.execute("INSERT INTO orders VALUES (11, 'x')", "ALTER TABLE orders RENAME TO sales")
    shop.execute("INSERT INTO sales VALUES (12, 'y')")
    caught_up(engine)
    caught_up(engine)
    assert changes(shop, engine) == [("c", 11, "x"), ("c", 12, "y")]
    assert len(engine.rows) == 12
    at = engine.schema.names.index("_table")
    assert [row[at] for row in engine.rows[-2:]] == ["public.orders", "public.sales"]


def test_a_renamed_table_continues_even_if_its_new_name_does_not_match_the_option(shop: FaultyShop) -> None:
    shop.execute("CREATE TABLE ordinals (id int PRIMARY KEY, name text)")
    engine = read(shop, tables="public.ord*")
    shop.execute("ALTER TABLE orders RENAME TO sales", "INSERT INTO sales VALUES (11, 'x')")
    caught_up(engine)
    assert changes(shop, engine) == [("c", 11, "x")]


def test_without_a_snapshot_a_renamed_table_continues(shop: FaultyShop) -> None:
    shop.execute("CREATE TABLE ordinals (id int PRIMARY KEY, name text)")
    engine = caught_up(shop.engine(snapshot="never", tables="public.ord*"))
    shop.execute("INSERT INTO orders VALUES (11, 'x')", "ALTER TABLE orders RENAME TO sales")
    shop.execute("INSERT INTO sales VALUES (12, 'y')")
    caught_up(engine)
    assert shop.ops(engine) == [("c", 11, "x"), ("c", 12, "y")]


def test_without_a_snapshot_changes_from_before_a_renaming_are_not_lost(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine(snapshot="never"))
    shop.execute("INSERT INTO orders VALUES (11, 'x')", "ALTER TABLE orders RENAME TO sales")
    shop.execute("INSERT INTO sales VALUES (12, 'y')")
    renamed = shop.engine(snapshot="never", tables="public.sales")
    renamed.logs, renamed.sink, renamed.store = engine.logs, engine.sink, engine.store
    engine.stop()
    caught_up(renamed)
    assert shop.ops(renamed) == [("c", 11, "x"), ("c", 12, "y")]


def test_a_table_that_the_option_no_longer_names_is_left_out(shop: FaultyShop) -> None:
    shop.execute("CREATE TABLE other (id int PRIMARY KEY, name text)")
    engine = read(shop, tables="public.orders,public.other")
    narrower = shop.engine(tables="public.other")
    narrower.logs, narrower.sink, narrower.store = engine.logs, engine.sink, engine.store
    engine.stop()
    shop.execute("INSERT INTO orders VALUES (11, 'x')", "INSERT INTO other VALUES (1, 'o')")
    caught_up(narrower)
    assert changes(shop, narrower) == [("c", 1, "o")]
    again = shop.engine(tables="public.orders,public.other")
    again.logs, again.sink, again.store = narrower.logs, narrower.sink, narrower.store
    narrower.stop()
    caught_up(again)
    assert sorted(shop.ops(again)[-11:]) == sorted(
        [*(("r", n, f"n{n}") for n in range(1, 11)), ("r", 11, "x")]
    )


def test_a_table_that_is_renamed_before_its_rows_are_read_is_still_read(shop: FaultyShop) -> None:
    engine = shop.engine(tables="public.*")
    engine.restart(available_now=True)
    assert engine.trigger()
    shop.execute("ALTER TABLE orders RENAME TO sales")
    caught_up(engine)
    assert sorted(row[0] for row in engine.rows) == list(range(1, 11))
