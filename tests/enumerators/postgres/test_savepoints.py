"""Queries that start from another query's savepoint, and a query that is rewound: which slot each reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flip27_source import edits
from flip27_source.errors import DataLossError, DiscoveryError, EditError
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.postgres.faults import FaultyShop, caught_up, faulty_shop, running
from tests.postgres_server import PostgresServer
from tests.snapshots.spark_logs import savepoint_of

ROWS = [("r", n, f"n{n}") for n in range(1, 4)]


@pytest.fixture
def shop(server: PostgresServer) -> Iterator[FaultyShop]:
    with faulty_shop(server, rows=len(ROWS)) as shop:
        yield shop


def ended(engine: MicroBatchEngine) -> MicroBatchEngine:
    """Let the query read everything available, and stop it; return it."""
    engine.stop()
    caught_up(engine).stop()
    return engine


class Sold:
    """A query that has read the snapshot and has ended, and a savepoint of it."""

    def __init__(self, shop: FaultyShop, folder: Path) -> None:
        self.shop = shop
        self.folder = folder
        self.query = ended(shop.engine())
        self.savepoint = self.saved()

    def saved(self) -> str:
        """Make a savepoint of the query."""
        return savepoint_of(self.query, self.folder)

    def started(self, savepoint: str, **options: str) -> MicroBatchEngine:
        """Return a new query from the savepoint, with its own state location."""
        return self.shop.engine(savepoint=savepoint, stateLocation=f"{savepoint}_continued", **options)

    def insert(self, number: int) -> tuple[str, int, str]:
        self.shop.execute(f"INSERT INTO orders VALUES ({number}, 'x')")
        return "c", number, "x"

    def ops(self, query: MicroBatchEngine) -> list[tuple[str, int, str]]:
        """Let the query read everything available; return all its changes."""
        return self.shop.ops(ended(query))


@pytest.fixture
def sold(shop: FaultyShop, tmp_path: Path) -> Sold:
    return Sold(shop, tmp_path)


# The same slot.


def test_a_savepoint_of_a_stopped_query_does_not_disturb_it(sold: Sold) -> None:
    event = sold.insert(11)
    assert sold.ops(sold.query) == [*ROWS, event]


def test_a_query_from_a_savepoint_continues_with_the_slot_of_the_query_that_has_ended(sold: Sold) -> None:
    sold.insert(11)
    ended(sold.query)
    new = sold.started(sold.saved())
    event = sold.insert(12)
    assert sold.ops(new) == [event]
    assert sold.shop.slots() == [sold.shop.slot]
    later = sold.insert(13)
    assert sold.ops(new) == [event, later]


def test_a_query_from_a_savepoint_waits_until_the_query_of_its_slot_has_ended(sold: Sold) -> None:
    running(sold.query)
    new = sold.started(sold.savepoint)
    with pytest.raises(
        DiscoveryError, match=f"slot {sold.shop.slot} belongs to another query that is running"
    ):
        new.run_batch()
    sold.query.stop()
    event = sold.insert(11)
    assert sold.ops(new) == [event]


def test_a_query_whose_slot_was_taken_over_and_advanced_says_so(sold: Sold) -> None:
    new = sold.started(sold.savepoint)
    sold.insert(11)
    ended(new)
    with pytest.raises(DataLossError, match="has moved the slot"):
        ended(sold.query)


def test_a_savepoint_before_the_position_of_the_slot_is_refused(sold: Sold) -> None:
    sold.insert(11)
    ended(sold.query)
    with pytest.raises(
        DataLossError, match=f"slot {sold.shop.slot} begins at [0-9A-F/]+, and this query has read"
    ):
        ended(sold.started(sold.savepoint))


# A separate slot.


def test_a_fork_gets_a_copy_of_the_slot_and_both_queries_continue(sold: Sold) -> None:
    event = sold.insert(11)
    fork = sold.started(sold.savepoint, slotName="forked")
    assert sold.ops(fork) == [event]
    assert sold.ops(sold.query) == [*ROWS, event]
    later = sold.insert(12)
    assert sold.ops(fork) == [event, later]
    assert sold.ops(sold.query) == [*ROWS, event, later]
    assert sold.shop.slots() == sorted(["forked", sold.shop.slot])
    assert sold.shop.confirmed("forked") > sold.shop.confirmed(sold.shop.slot) - 1


def test_a_fork_does_not_need_the_first_query_to_end(sold: Sold) -> None:
    running(sold.query)
    fork = sold.started(sold.savepoint, slotName="forked")
    event = sold.insert(11)
    assert sold.ops(fork) == [event]
    sold.query.stop()


def test_a_fork_does_not_need_the_option_once_it_has_its_slot(sold: Sold) -> None:
    fork = ended(sold.started(sold.savepoint, slotName="forked"))
    again = sold.shop.engine(after=fork, stateLocation=f"{sold.savepoint}_continued")
    event = sold.insert(11)
    assert sold.ops(again) == [event]
    assert sold.ops(sold.query) == [*ROWS, event]


def test_a_fork_that_was_killed_after_the_creation_of_its_slot_uses_that_slot(sold: Sold) -> None:
    sold.shop.copy_slot("forked")
    event = sold.insert(11)
    ended(sold.query)
    assert sold.ops(sold.started(sold.savepoint, slotName="forked")) == [event]


def test_a_fork_of_a_savepoint_before_the_position_of_the_slot_is_refused_and_leaves_no_slot(
    sold: Sold,
) -> None:
    sold.insert(11)
    ended(sold.query)
    said = f"slot {sold.shop.slot} begins at .*, and the state has read up to .*: a copy of the slot"
    with pytest.raises(DataLossError, match=said) as refused:
        ended(sold.started(sold.savepoint, slotName="forked"))
    assert "stop_with_savepoint" in str(refused.value)
    assert sold.shop.slots() == [sold.shop.slot]


def test_a_fork_is_refused_if_the_slot_to_copy_is_gone(sold: Sold) -> None:
    sold.shop.one("SELECT pg_drop_replication_slot(%s)::text", sold.shop.slot)
    with pytest.raises(
        DataLossError,
        match=f"slot {sold.shop.slot}, which slot forked would be copied from, no longer exists",
    ):
        ended(sold.started(sold.savepoint, slotName="forked"))


def test_a_query_continues_with_another_slot_when_its_option_changes(sold: Sold) -> None:
    renamed = sold.shop.engine(after=sold.query, slotName="12345")
    event = sold.insert(11)
    assert sold.ops(renamed) == [*ROWS, event]
    assert sold.shop.slots() == sorted(["12345", sold.shop.slot])


# Rewinds.


def test_a_rewind_to_before_the_slot_is_refused_and_the_query_continues(sold: Sold) -> None:
    first = sold.insert(11)
    ended(sold.query)
    first_later = sold.insert(12)
    ended(sold.query)
    said = f"slot {sold.shop.slot} begins at .*: the server has discarded the log in between"
    with pytest.raises(EditError, match=said):
        edits.plan("rewind", state=sold.shop.options["stateLocation"], why="a test", to_checkpoint=1)
    later = sold.insert(13)
    assert sold.ops(sold.query) == [*ROWS, first, first_later, later]
