"""The assigner's three rules, tested with literal positions and transaction ids."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from flip27_source.enumerators.postgres.assigner import (
    Assigner,
    AssignerState,
    Cut,
    Horizon,
    Observation,
)
from flip27_source.enumerators.postgres.chunk_transactions import RowRule
from flip27_source.enumerators.postgres.split import (
    ChunkRead,
    KeyColumn,
    LogRead,
    LogWindow,
    PostgresSplit,
    TableName,
)
from flip27_source.errors import ProtocolError

ORDERS = TableName(oid=16_400, schema="public", name="orders")
ITEMS = TableName(oid=16_500, schema="public", name="items")
ID = (KeyColumn(name="id", type="integer"),)
FIRST, SECOND, THIRD = (f"public.orders/16400/{number}" for number in range(3))


def assigner(*, start: int = 100, most_chunks: int = 100, most_lag_bytes: int = 50) -> Assigner:
    """Return an assigner of the table ``orders``, whose keys are not known yet."""
    found = Assigner(AssignerState(), start=start, most_chunks=most_chunks, most_lag_bytes=most_lag_bytes)
    found.add_table(ORDERS, ID)
    return found


def cut(
    found: Assigner, *bounds: int, lower: int | None = None, is_end: bool = True, oid: int = ORDERS.oid
) -> None:
    found.cut(
        Cut(
            oid=oid,
            lower=None if lower is None else (str(lower),),
            bounds=tuple(((str(bound),), 10) for bound in bounds),
            is_end=is_end,
        )
    )


def seen(end: int, *, xmin: int, lsn_after: int | None = None, horizon: Horizon | None = None) -> Observation:
    return Observation(end=end, xmin=xmin, lsn_after=end if lsn_after is None else lsn_after, horizon=horizon)


def settled(
    *bounds: int,
    lsn: int = 100,
    xid: int = 7,
    end: int = 100,
    most_chunks: int = 100,
    most_lag_bytes: int = 50,
) -> Assigner:
    """Return an assigner of the table in chunks, with a horizon that has settled at ``lsn``."""
    found = assigner(most_chunks=most_chunks, most_lag_bytes=most_lag_bytes)
    cut(found, *bounds)
    found.observe(seen(end, xmin=xid + 1, horizon=Horizon(lsn=lsn, xid=xid)))
    return found


def chunks(found: Assigner) -> list[PostgresSplit]:
    """Request all chunks that can be assigned now."""
    return list(iter(found.next_chunk, None))


def ids(splits: Iterable[PostgresSplit]) -> list[str]:
    return [split.split_id for split in splits]


def read(found: Assigner, split_id: str, snapshot: str) -> None:
    found.chunk_read(ChunkRead(split_id=split_id, snapshot=snapshot, rows=3))


def window(found: Assigner, first: int = 100, most_bytes: int | None = None) -> LogWindow:
    planned = found.window(first, most_bytes)
    assert planned is not None
    return planned


# Rule 1: a chunk is assigned only with a settled horizon.


def test_no_chunk_is_assigned_before_a_horizon_exists() -> None:
    found = assigner()
    cut(found)
    assert found.wants_horizon
    assert found.next_chunk() is None
    found.observe(seen(100, xmin=8))
    assert found.next_chunk() is None


@pytest.mark.parametrize(("xmin", "is_settled"), [(6, False), (7, False), (8, True)])
def test_a_horizon_settles_once_its_own_and_all_earlier_transactions_have_ended(
    xmin: int, is_settled: bool
) -> None:
    found = assigner()
    cut(found)
    found.observe(seen(100, xmin=5, horizon=Horizon(lsn=100, xid=7)))
    found.observe(seen(100, xmin=xmin))
    assert (found.next_chunk() is not None) == is_settled


def test_no_second_horizon_is_requested_while_one_waits() -> None:
    found = assigner()
    cut(found)
    found.observe(seen(100, xmin=5, horizon=Horizon(lsn=100, xid=7)))
    assert not found.wants_horizon


def test_a_chunk_has_the_position_and_the_id_of_its_horizon() -> None:
    (chunk,) = chunks(settled(lsn=100, xid=7))
    assert chunk.chunk is not None
    assert (chunk.chunk.lsn, chunk.chunk.horizon) == (100, 7)


def test_a_horizon_before_the_planned_position_no_longer_counts() -> None:
    found = settled(10)
    found.reads_up_to(101)
    assert found.next_chunk() is None
    assert found.wants_horizon
    found.observe(seen(130, xmin=12, horizon=Horizon(lsn=120, xid=11)))
    assert found.next_chunk() is not None


def test_a_horizon_at_the_planned_position_still_counts() -> None:
    found = settled(10)
    found.reads_up_to(100)
    assert found.next_chunk() is not None


def test_no_horizon_is_requested_once_all_chunks_are_read() -> None:
    found = settled()
    chunks(found)
    found.reads_up_to(200)
    assert found.wants_horizon
    read(found, FIRST, "8:8:")
    assert not found.wants_horizon


def test_a_new_horizon_is_requested_while_the_log_is_far_behind() -> None:
    found = settled(10)
    assert not found.wants_horizon
    found.observe(seen(151, xmin=8))
    assert found.wants_horizon


# Chunks.


def test_chunks_have_the_ranges_between_the_bounds() -> None:
    found = [(split.split_id, split.chunk, split.rows) for split in chunks(settled(10, 20))]
    assert [(split_id, c and c.lower, c and c.upper, rows) for split_id, c, rows in found] == [
        (FIRST, None, ("10",), 10),
        (SECOND, ("10",), ("20",), 10),
        (THIRD, ("20",), None, None),
    ]


def test_the_last_chunk_waits_until_its_end_is_known() -> None:
    found = assigner()
    cut(found, 10, is_end=False)
    found.observe(seen(100, xmin=8, horizon=Horizon(lsn=100, xid=7)))
    assert ids(chunks(found)) == [FIRST]
    assert [progress.table for progress in found.uncut] == [ORDERS]
    cut(found, 20, lower=10)
    assert ids(chunks(found)) == [SECOND, THIRD]
    assert not found.uncut


def test_bounds_that_two_polls_find_from_the_same_last_bound_are_added_once() -> None:
    found = assigner()
    cut(found, 10, is_end=False)
    cut(found, 10, 20, is_end=False)
    assert found.tables[0].bounds == (("10",),)
    cut(found, 20, lower=10, is_end=False)
    cut(found, lower=10)
    assert found.tables[0].bounds == (("10",), ("20",))
    assert found.uncut


@pytest.mark.parametrize("bounds", [(), (10,)])
def test_bounds_of_a_table_that_is_cut_already_are_not_added(bounds: tuple[int, ...]) -> None:
    found = assigner()
    cut(found, *bounds)
    before = found.tables
    cut(found, 30, lower=bounds[-1] if bounds else None, is_end=False)
    assert found.tables == before


def test_bounds_of_a_table_that_is_no_longer_read_are_not_added() -> None:
    found = assigner()
    cut(found, 10, is_end=False)
    found.keep(lambda table: table != ORDERS)
    cut(found, 20, lower=10)
    assert not found.tables


def test_a_table_that_two_polls_list_is_cut_once() -> None:
    found = assigner()
    for _ in range(2):
        found.add_table(ITEMS, ID)
        cut(found, 10, oid=ITEMS.oid)
    assert [(table.table, table.bounds) for table in found.tables] == [(ORDERS, ()), (ITEMS, (("10",),))]


def test_a_table_without_a_key_is_one_chunk() -> None:
    found = Assigner(AssignerState(), start=100, most_chunks=9, most_lag_bytes=50)
    found.add_table(ITEMS, ())
    found.observe(seen(100, xmin=8, horizon=Horizon(lsn=100, xid=7)))
    assert ids(chunks(found)) == ["public.items/16500/0"]


def test_a_limited_number_of_chunks_is_assigned_at_a_time() -> None:
    found = settled(10, 20, most_chunks=2)
    assert ids(chunks(found)) == [FIRST, SECOND]
    read(found, FIRST, "8:8:")
    assert ids(chunks(found)) == [THIRD]


def test_a_chunk_is_not_assigned_again_once_it_is_read() -> None:
    found = settled(10)
    chunks(found)
    read(found, FIRST, "8:8:")
    assert ids(chunks(found)) == []
    assert found.reads_chunks
    read(found, SECOND, "8:8:")
    assert not found.reads_chunks


def test_a_chunk_is_read_once_whatever_happens_later() -> None:
    found = settled(10)
    chunks(found)
    read(found, FIRST, "8:8:")
    read(found, FIRST, "9:9:")
    assert found.tables[0].snapshots == ("8:8:", None)


def test_if_the_log_is_far_behind_it_is_read_up_to_the_horizon_before_more_chunks() -> None:
    found = settled(10, lsn=160, end=160)
    assert found.next_chunk() is None
    assert window(found).end == 160
    found.reads_up_to(160)
    assert found.next_chunk() is not None


def test_a_split_with_another_id_is_refused() -> None:
    found = settled()
    (chunk,) = chunks(found)
    assert chunk.split_id == FIRST
    state = found.state()
    broken = Assigner(
        AssignerState(
            tables=tuple(
                type(table)(table=table.table, key=table.key, assigned={"log": 100}) for table in state.tables
            )
        ),
        start=100, most_chunks=1, most_lag_bytes=50,
    )  # fmt: skip
    with pytest.raises(ProtocolError, match="'log' is not the id of a chunk"):
        read(broken, "log", "8:8:")


# Rule 2: no window goes beyond the horizon of a chunk that has not been read.


def test_if_the_log_is_not_far_behind_it_is_not_read_while_chunks_are_read() -> None:
    found = settled(10)
    found.observe(seen(150, xmin=8))
    assert found.window(100, None) is None
    found.observe(seen(151, xmin=8, horizon=Horizon(lsn=151, xid=7)))
    assert window(found).end == 151


def test_a_window_ends_at_the_newest_horizon_while_chunks_are_unread() -> None:
    found = settled(10, lsn=130, end=200)
    assert window(found).end == 130


def test_a_window_ends_at_the_horizon_of_a_chunk_that_is_assigned_and_not_read() -> None:
    found = settled(10, lsn=110, most_chunks=1)
    assert ids(chunks(found)) == [FIRST]
    found.observe(seen(300, xmin=20, horizon=Horizon(lsn=250, xid=19)))
    assert window(found).end == 110
    read(found, FIRST, "8:8:")
    assert window(found).end == 250


def test_no_window_begins_at_the_horizon_of_an_unread_chunk() -> None:
    found = settled(10, lsn=110)
    chunks(found)
    found.observe(seen(300, xmin=20, horizon=Horizon(lsn=250, xid=19)))
    assert found.window(110, None) is None


def test_no_log_is_read_before_a_horizon_has_settled() -> None:
    found = assigner()
    cut(found)
    found.observe(seen(900, xmin=5, horizon=Horizon(lsn=900, xid=7)))
    assert found.window(100, None) is None


def test_the_log_is_read_to_its_end_once_all_chunks_are_read() -> None:
    found = settled()
    chunks(found)
    found.observe(seen(140, xmin=8))
    read(found, FIRST, "8:8:")
    assert window(found).end == 140
    assert found.window(140, None) is None


def test_a_window_has_at_most_the_given_bytes_and_at_least_one() -> None:
    found = settled()
    chunks(found)
    read(found, FIRST, "8:8:")
    found.observe(seen(500, xmin=8))
    assert window(found, most_bytes=30).end == 130
    assert window(found, most_bytes=0).end == 101


def test_a_run_that_ends_reads_no_further_than_its_end_position() -> None:
    found = settled()
    chunks(found)
    read(found, FIRST, "8:8:")
    found.end_at(120)
    found.observe(seen(500, xmin=8))
    assert window(found).end == 120


def test_the_end_of_the_log_never_moves_back() -> None:
    found = settled()
    found.observe(seen(300, xmin=8))
    found.observe(seen(200, xmin=8))
    assert found.end == 300


# Rule 3: the rules of a window.


def test_a_window_carries_the_rule_of_each_chunk() -> None:
    found = settled(10, 20, most_chunks=1)
    for split_id, snapshot in ((FIRST, "8:8:"), (SECOND, "9:9:")):
        assert ids(chunks(found)) == [split_id]
        read(found, split_id, snapshot)
    found.observe(seen(300, xmin=8, horizon=Horizon(lsn=300, xid=9)))
    found.observe(seen(300, xmin=10))
    (rules,) = window(found).rules
    assert rules.bounds == (("10",), ("20",))
    assert rules.rules == (RowRule(snapshot="8:8:"), RowRule(snapshot="9:9:"), RowRule())
    assert rules.table == ORDERS
    assert rules.key == ID


def test_adjacent_chunks_with_the_same_snapshot_become_one_range() -> None:
    found = settled(10, 20)
    chunks(found)
    read(found, FIRST, "8:8:")
    read(found, SECOND, "8:8:")
    read(found, THIRD, "9:9:")
    found.observe(seen(300, xmin=8))
    (rules,) = window(found).rules
    assert rules.bounds == (("20",),)
    assert rules.rules == (RowRule(snapshot="8:8:"), RowRule(snapshot="9:9:"))


def test_rules_are_dropped_past_the_position_by_which_all_transactions_seen_by_a_snapshot_have_ended() -> (
    None
):
    found = settled()
    chunks(found)
    read(found, FIRST, "8:20:9")
    found.observe(seen(300, xmin=19, lsn_after=310))
    found.observe(seen(400, xmin=20, lsn_after=410))
    found.observe(seen(500, xmin=99, lsn_after=510))
    found.reads_up_to(409)
    assert window(found, 409).rules
    found.reads_up_to(410)
    planned = window(found, 410)
    assert not planned.rules
    assert planned.known == (ORDERS.oid,)
    assert not found.tables


def test_rules_stay_while_a_chunk_is_unread() -> None:
    found = settled(10)
    chunks(found)
    read(found, FIRST, "8:8:")
    found.observe(seen(500, xmin=99))
    found.reads_up_to(500)
    assert found.tables


def test_a_table_that_does_not_exist_yet_is_not_a_known_table() -> None:
    found = settled()
    chunks(found)
    read(found, FIRST, "8:8:")
    found.add_known(ITEMS)
    found.observe(seen(300, xmin=8))
    assert window(found).known == (ITEMS.oid,)
    assert not window(found).also_by_name


def test_without_a_snapshot_a_table_is_known_by_its_oid_or_its_name() -> None:
    found = Assigner(AssignerState(), start=100, most_chunks=9, most_lag_bytes=50, reads_tables=False)
    found.add_known(ORDERS)
    found.observe(seen(300, xmin=8))
    assert window(found).known == (ORDERS.oid,)
    assert window(found).also_by_name


def test_a_table_is_added_once() -> None:
    found = settled()
    chunks(found)
    found.add_table(ORDERS, ID)
    assert len(found.tables) == 1
    read(found, FIRST, "8:8:")
    found.observe(seen(300, xmin=9))
    found.reads_up_to(300)
    found.add_table(ORDERS, ID)
    assert not found.tables


def test_the_state_restores_everything() -> None:
    found = settled(10, lsn=130, end=200)
    found.reads_up_to(110)
    first = found.next_chunk()
    assert first is None  # the log is far behind
    found.reads_up_to(130)
    assert ids(chunks(found)) == [FIRST, SECOND]
    read(found, SECOND, "8:8:")
    found.observe(seen(300, xmin=9, horizon=Horizon(lsn=250, xid=19)))
    restored = Assigner(found.state(), start=130, most_chunks=9, most_lag_bytes=50)
    assert restored.state() == found.state()
    restored.observe(seen(300, xmin=20))
    assert restored.window(130, None) is None  # held back by the first chunk
    assert restored.next_chunk() is None
    read(restored, FIRST, "20:20:")
    planned = window(restored, 130)
    assert planned.end == 300
    assert planned.rules[0].rules == (RowRule(snapshot="20:20:"), RowRule(snapshot="8:8:"))


# A TRUNCATE between chunks.


def log_read(found: Assigner, end: int, *truncated: int) -> None:
    found.log_read(LogRead(first=100, end=end, rows=1, truncated=truncated))


def test_chunks_are_read_again_after_a_truncate_between_them_and_keep_their_first_snapshot() -> None:
    found = settled(10)
    chunks(found)
    read(found, FIRST, "8:8:")
    read(found, SECOND, "9:9:")
    log_read(found, 200, ORDERS.oid)
    assert found.reads_chunks
    assert found.next_chunk() is None  # the log has been read beyond the horizon
    assert found.wants_horizon
    found.observe(seen(230, xmin=31, horizon=Horizon(lsn=220, xid=30)))
    again = chunks(found)
    assert ids(again) == ["public.orders/16400.1/0", "public.orders/16400.1/1"]
    assert [split.chunk.lsn for split in again if split.chunk] == [220, 220]
    found.observe(seen(330, xmin=41, horizon=Horizon(lsn=320, xid=40)))
    planned = window(found, 200)
    assert planned.end == 220
    assert planned.rules[0].rules == (RowRule(snapshot="8:8:"), RowRule(snapshot="9:9:"))
    for split in again:
        read(found, split.split_id, "31:31:")
    assert not found.reads_chunks
    assert found.tables[0].snapshots == ("8:8:", "9:9:")


def test_a_chunk_that_was_not_read_before_the_truncate_is_read_once() -> None:
    found = settled(10)
    chunks(found)
    read(found, FIRST, "8:8:")
    log_read(found, 200, ORDERS.oid)
    found.observe(seen(230, xmin=31, horizon=Horizon(lsn=220, xid=30)))
    assert ids(chunks(found)) == ["public.orders/16400.1/0"]
    read(found, SECOND, "9:9:")
    read(found, "public.orders/16400.1/0", "31:31:")
    assert not found.reads_chunks


def test_after_a_second_truncate_the_chunks_are_read_again() -> None:
    found = settled(10)
    chunks(found)
    read(found, FIRST, "8:8:")
    read(found, SECOND, "9:9:")
    log_read(found, 200, ORDERS.oid)
    found.observe(seen(230, xmin=31, horizon=Horizon(lsn=220, xid=30)))
    old = ids(chunks(found))
    log_read(found, 220, ORDERS.oid)
    assert ids(chunks(found)) == ["public.orders/16400.2/0", "public.orders/16400.2/1"]
    for split_id in old:
        read(found, split_id, "31:31:")
    assert found.reads_chunks
    read(found, "public.orders/16400.2/0", "32:32:")
    read(found, "public.orders/16400.2/1", "32:32:")
    assert not found.reads_chunks


def test_the_rules_of_a_truncated_table_do_not_expire_in_the_window_that_truncates_it() -> None:
    found = settled(10)
    chunks(found)
    read(found, FIRST, "8:8:")
    read(found, SECOND, "9:9:")
    found.observe(seen(300, xmin=20, lsn_after=150))
    log_read(found, 200, ORDERS.oid)
    assert found.tables


def test_a_truncate_of_a_table_without_rules_changes_nothing() -> None:
    found = settled()
    before = found.state()
    log_read(found, 100, ITEMS.oid)
    assert found.state() == before


# Tables that are added later.


def test_chunks_of_a_table_that_is_published_later_need_a_new_horizon() -> None:
    found = settled(10)
    assert found.add_table(ITEMS, ())
    assert not found.add_table(ITEMS, ())
    found.renew_horizon()
    assert found.next_chunk() is None
    assert found.window(100, None) is None
    assert found.wants_horizon
    found.observe(seen(130, xmin=12, horizon=Horizon(lsn=120, xid=11)))
    assert [split.chunk.horizon for split in chunks(found) if split.chunk] == [11, 11, 11]
