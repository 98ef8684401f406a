"""The assigner's three rules, tested with literal positions and transaction ids."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from flip27_source.enumerators.postgres.assigner import (
    Assigner,
    AssignerState,
    Horizon,
    Observation,
    TableProgress,
)
from flip27_source.enumerators.postgres.chunk_transactions import RowRule
from flip27_source.enumerators.postgres.split import KeyColumn, LogRead, LogWindow, PostgresSplit, TableName
from flip27_source.errors import ProtocolError
from flip27_source.snapshot_then_log.tables import Cut

ORDERS = TableName(oid=16_400, schema="public", name="orders")
ITEMS = TableName(oid=16_500, schema="public", name="items")
ID = (KeyColumn(name="id", type="integer"),)
FIRST, SECOND, THIRD = (f"public.orders/16400/{number}" for number in range(3))


def unread(*, start: int = 100, most_chunks: int = 100, most_lag_bytes: int = 50) -> Assigner:
    """Return an assigner of the table ``orders``, whose keys are not known yet."""
    assigner = Assigner(AssignerState(), start=start, most_chunks=most_chunks, most_lag_bytes=most_lag_bytes)
    assigner.add(TableProgress.of(ORDERS, ID))
    return assigner


def cut(
    assigner: Assigner, *bounds: int, lower: int | None = None, is_end: bool = True, oid: int = ORDERS.oid
) -> None:
    assigner.cut(
        Cut(
            table_id=oid,
            lower=None if lower is None else (str(lower),),
            bounds=tuple(((str(bound),), 10) for bound in bounds),
            is_end=is_end,
        )
    )


def unread_and_cut(*bounds: int, is_end: bool = True) -> Assigner:
    assigner = unread()
    cut(assigner, *bounds, is_end=is_end)
    return assigner


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
    assigner = unread(most_chunks=most_chunks, most_lag_bytes=most_lag_bytes)
    cut(assigner, *bounds)
    assigner.observe(seen(end, xmin=xid + 1, horizon=Horizon(lsn=lsn, xid=xid)))
    return assigner


def having_read(*bounds: int, chunks_read: int = 1) -> Assigner:
    """Return an assigner whose chunks are all assigned; the first of them have been read."""
    assigner = settled(*bounds)
    for split, snapshot in zip(chunks(assigner)[:chunks_read], ("8:8:", "9:9:"), strict=False):
        read(assigner, split.split_id, snapshot)
    return assigner


def chunks(assigner: Assigner) -> list[PostgresSplit]:
    """Request all chunks that can be assigned now."""
    return list(iter(assigner.next_chunk, None))


def ids(splits: Iterable[PostgresSplit]) -> list[str]:
    return [split.split_id for split in splits]


def read(assigner: Assigner, split_id: str, snapshot: str) -> None:
    assigner.mark(split_id, snapshot)


def window(assigner: Assigner, first: int = 100, most_bytes: int | None = None) -> LogWindow:
    planned = assigner.window(first, most_bytes)
    assert planned is not None
    return planned


# Rule 1: a chunk is assigned only with a settled horizon.


def test_no_chunk_is_assigned_before_a_horizon_exists() -> None:
    assigner = unread_and_cut()
    assert assigner.wants_horizon
    assert assigner.next_chunk() is None
    assigner.observe(seen(100, xmin=8))
    assert assigner.next_chunk() is None


@pytest.mark.parametrize(("xmin", "is_settled"), [(6, False), (7, False), (8, True)])
def test_a_horizon_settles_once_its_own_and_all_earlier_transactions_have_ended(
    xmin: int, is_settled: bool
) -> None:
    assigner = unread_and_cut()
    assigner.observe(seen(100, xmin=5, horizon=Horizon(lsn=100, xid=7)))
    assigner.observe(seen(100, xmin=xmin))
    assert (assigner.next_chunk() is not None) == is_settled


def test_a_chunk_has_the_position_and_the_id_of_its_horizon() -> None:
    (chunk,) = chunks(settled(lsn=100, xid=7))
    assert chunk.chunk is not None
    assert (chunk.chunk.lsn, chunk.chunk.horizon) == (100, 7)


def test_a_horizon_counts_up_to_the_planned_position() -> None:
    assigner = settled(10, 20)
    assigner.reads_up_to(100)
    assert assigner.next_chunk() is not None
    assigner.reads_up_to(101)
    assert assigner.next_chunk() is None
    assert assigner.wants_horizon
    assigner.observe(seen(130, xmin=12, horizon=Horizon(lsn=120, xid=11)))
    assert assigner.next_chunk() is not None


def test_no_horizon_is_requested_once_all_chunks_are_read() -> None:
    assigner = settled()
    chunks(assigner)
    assigner.reads_up_to(200)
    assert assigner.wants_horizon
    read(assigner, FIRST, "8:8:")
    assert not assigner.wants_horizon


def test_a_new_horizon_is_requested_while_the_log_is_far_behind() -> None:
    assigner = settled(10)
    assert not assigner.wants_horizon
    assigner.observe(seen(151, xmin=8))
    assert assigner.wants_horizon


# Chunks.


def test_chunks_have_the_ranges_between_the_bounds() -> None:
    ranges = [(split.split_id, split.chunk, split.rows) for split in chunks(settled(10, 20))]
    assert [(split_id, c and c.lower, c and c.upper, rows) for split_id, c, rows in ranges] == [
        (FIRST, None, ("10",), 10),
        (SECOND, ("10",), ("20",), 10),
        (THIRD, ("20",), None, None),
    ]


def test_the_last_chunk_waits_until_its_end_is_known() -> None:
    assigner = unread_and_cut(10, is_end=False)
    assigner.observe(seen(100, xmin=8, horizon=Horizon(lsn=100, xid=7)))
    assert ids(chunks(assigner)) == [FIRST]
    assert [progress.table for progress in assigner.uncut] == [ORDERS]
    cut(assigner, 20, lower=10)
    assert ids(chunks(assigner)) == [SECOND, THIRD]
    assert not assigner.uncut


def test_bounds_that_two_polls_find_from_the_same_last_bound_are_added_once() -> None:
    assigner = unread_and_cut(10, is_end=False)
    cut(assigner, 10, 20, is_end=False)
    assert assigner.tables[0].bounds == (("10",),)
    cut(assigner, 20, lower=10, is_end=False)
    cut(assigner, lower=10)
    assert assigner.tables[0].bounds == (("10",), ("20",))
    assert assigner.uncut


@pytest.mark.parametrize("bounds", [(), (10,)])
def test_bounds_of_a_table_that_is_cut_already_are_not_added(bounds: tuple[int, ...]) -> None:
    assigner = unread_and_cut(*bounds)
    before = assigner.tables
    cut(assigner, 30, lower=bounds[-1] if bounds else None, is_end=False)
    assert assigner.tables == before


def test_bounds_of_a_table_that_is_no_longer_read_are_not_added() -> None:
    assigner = unread_and_cut(10, is_end=False)
    assigner.keep(lambda table: table != ORDERS)
    cut(assigner, 20, lower=10)
    assert not assigner.tables


def test_a_table_that_was_left_out_has_chunks_with_new_ids_and_all_of_its_changes() -> None:
    assigner = having_read(10, 20)
    for generation in ("1", "2"):
        assigner.keep(lambda table: table != ORDERS)
        assert assigner.stored().left == {"16400": int(generation) - 1}
        assigner = Assigner(assigner.stored(), start=100, most_chunks=100, most_lag_bytes=50)
        assigner.add(TableProgress.of(ORDERS, ID))
        cut(assigner, 10, is_end=False)
        cut(assigner, 20, lower=10)
        assigner.observe(seen(180, xmin=9, horizon=Horizon(lsn=100, xid=7)))
        assert ids(chunks(assigner)) == [f"public.orders/16400.{generation}/{number}" for number in range(3)]
        assert window(assigner, 90).rules[0].rules == (RowRule(snapshot="1:1:"),)
        assert not assigner.mark(SECOND, "9:9:")
        read(assigner, f"public.orders/16400.{generation}/2", "9:9:")
        assert ids(chunks(assigner)) == []
        assert window(assigner, 90).rules[0].rules == (RowRule(snapshot="1:1:"),)


def test_a_table_that_is_left_out_before_a_chunk_was_assigned_comes_back_as_a_new_one() -> None:
    assigner = unread_and_cut(10, 20)
    assigner.keep(lambda table: table != ORDERS)
    assigner.add(TableProgress.of(ORDERS, ID))
    assert assigner.tables == unread().tables


def test_a_table_that_two_polls_list_is_cut_once() -> None:
    assigner = unread()
    for _ in range(2):
        assigner.add(TableProgress.of(ITEMS, ID))
        cut(assigner, 10, oid=ITEMS.oid)
    assert [(table.table, table.bounds) for table in assigner.tables] == [(ORDERS, ()), (ITEMS, (("10",),))]


def test_a_table_without_a_key_is_one_chunk() -> None:
    assigner = Assigner(AssignerState(), start=100, most_chunks=9, most_lag_bytes=50)
    assigner.add(TableProgress.of(ITEMS, ()))
    assigner.observe(seen(100, xmin=8, horizon=Horizon(lsn=100, xid=7)))
    assert ids(chunks(assigner)) == ["public.items/16500/0"]


def test_a_limited_number_of_chunks_is_assigned_at_a_time() -> None:
    assigner = settled(10, 20, most_chunks=2)
    assert ids(chunks(assigner)) == [FIRST, SECOND]
    read(assigner, FIRST, "8:8:")
    assert ids(chunks(assigner)) == [THIRD]


def test_a_chunk_is_not_assigned_again_once_it_is_read() -> None:
    assigner = having_read(10)
    assert ids(chunks(assigner)) == []
    assert assigner.reads_chunks
    read(assigner, SECOND, "8:8:")
    assert not assigner.reads_chunks


def test_a_chunk_is_read_once_whatever_happens_later() -> None:
    assigner = having_read(10)
    read(assigner, FIRST, "9:9:")
    assert assigner.tables[0].snapshots == ("8:8:", None)


def test_if_the_log_is_far_behind_it_is_read_up_to_the_horizon_before_more_chunks() -> None:
    assigner = settled(10, lsn=160, end=160)
    assert assigner.next_chunk() is None
    assert window(assigner).end == 160
    assigner.reads_up_to(160)
    assert assigner.next_chunk() is not None


def test_a_split_with_another_id_is_refused() -> None:
    assigner = settled()
    chunks(assigner)
    state = assigner.stored()
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
    assigner = settled(10)
    assigner.observe(seen(150, xmin=8))
    assert assigner.window(100, None) is None
    assigner.observe(seen(151, xmin=8, horizon=Horizon(lsn=151, xid=7)))
    assert window(assigner).end == 151


def test_a_window_ends_at_the_newest_horizon_while_chunks_are_unread() -> None:
    assert window(settled(10, lsn=130, end=200)).end == 130


def test_a_window_ends_at_the_horizon_of_a_chunk_that_is_assigned_and_not_read() -> None:
    assigner = settled(10, lsn=110, most_chunks=1)
    assert ids(chunks(assigner)) == [FIRST]
    assigner.observe(seen(300, xmin=20, horizon=Horizon(lsn=250, xid=19)))
    assert window(assigner).end == 110
    read(assigner, FIRST, "8:8:")
    assert window(assigner).end == 250


def test_no_window_begins_at_the_horizon_of_an_unread_chunk() -> None:
    assigner = settled(10, lsn=110)
    chunks(assigner)
    assigner.observe(seen(300, xmin=20, horizon=Horizon(lsn=250, xid=19)))
    assert assigner.window(110, None) is None


def test_before_a_horizon_has_settled_no_log_is_read_and_no_second_one_is_requested() -> None:
    assigner = unread_and_cut()
    assigner.observe(seen(900, xmin=5, horizon=Horizon(lsn=900, xid=7)))
    assert assigner.window(100, None) is None
    assert not assigner.wants_horizon


def test_the_log_is_read_to_its_end_once_all_chunks_are_read() -> None:
    assigner = settled()
    chunks(assigner)
    assigner.observe(seen(140, xmin=8))
    read(assigner, FIRST, "8:8:")
    assert window(assigner).end == 140
    assert assigner.window(140, None) is None


def test_a_window_has_at_most_the_given_bytes_and_at_least_one() -> None:
    assigner = having_read()
    assigner.observe(seen(500, xmin=8))
    assert window(assigner, most_bytes=30).end == 130
    assert window(assigner, most_bytes=0).end == 101


def test_a_run_that_ends_reads_no_further_than_its_end_position() -> None:
    assigner = having_read()
    assigner.end_at(120)
    assigner.observe(seen(500, xmin=8))
    assert window(assigner).end == 120


def test_the_end_of_the_log_never_moves_back() -> None:
    assigner = settled()
    assigner.observe(seen(300, xmin=8))
    assigner.observe(seen(200, xmin=8))
    assert assigner.end == 300


# Rule 3: the rules of a window.


def test_a_window_carries_the_rule_of_each_chunk() -> None:
    assigner = settled(10, 20, most_chunks=1)
    for split_id, snapshot in ((FIRST, "8:8:"), (SECOND, "9:9:")):
        assert ids(chunks(assigner)) == [split_id]
        read(assigner, split_id, snapshot)
    assigner.observe(seen(300, xmin=8, horizon=Horizon(lsn=300, xid=9)))
    assigner.observe(seen(300, xmin=10))
    (rules,) = window(assigner).rules
    assert rules.bounds == (("10",), ("20",))
    assert rules.rules == (RowRule(snapshot="8:8:"), RowRule(snapshot="9:9:"), RowRule())
    assert rules.table == ORDERS
    assert rules.key == ID


def test_adjacent_chunks_with_the_same_snapshot_become_one_range() -> None:
    assigner = settled(10, 20)
    chunks(assigner)
    read(assigner, FIRST, "8:8:")
    read(assigner, SECOND, "8:8:")
    read(assigner, THIRD, "9:9:")
    assigner.observe(seen(300, xmin=8))
    (rules,) = window(assigner).rules
    assert rules.bounds == (("20",),)
    assert rules.rules == (RowRule(snapshot="8:8:"), RowRule(snapshot="9:9:"))


def test_rules_are_dropped_past_the_position_by_which_all_transactions_seen_by_a_snapshot_have_ended() -> (
    None
):
    assigner = settled()
    chunks(assigner)
    read(assigner, FIRST, "8:20:9")
    assigner.observe(seen(300, xmin=19, lsn_after=310))
    assigner.observe(seen(400, xmin=20, lsn_after=410))
    assigner.observe(seen(500, xmin=99, lsn_after=510))
    assigner.reads_up_to(409)
    assert window(assigner, 409).rules
    assigner.reads_up_to(410)
    planned = window(assigner, 410)
    assert not planned.rules
    assert planned.known == (ORDERS.oid,)
    assert not assigner.tables


def test_rules_stay_while_a_chunk_is_unread() -> None:
    assigner = having_read(10)
    assigner.observe(seen(500, xmin=99))
    assigner.reads_up_to(500)
    assert assigner.tables


def test_a_table_that_does_not_exist_yet_is_not_a_known_table() -> None:
    assigner = having_read()
    assigner.add_known(ITEMS)
    assigner.observe(seen(300, xmin=8))
    assert window(assigner).known == (ITEMS.oid,)
    assert not window(assigner).also_by_name


def test_without_a_snapshot_a_table_is_known_by_its_oid_or_its_name() -> None:
    assigner = Assigner(AssignerState(), start=100, most_chunks=9, most_lag_bytes=50, reads_tables=False)
    assigner.add_known(ORDERS)
    assigner.observe(seen(300, xmin=8))
    assert window(assigner).known == (ORDERS.oid,)
    assert window(assigner).also_by_name


def test_a_table_is_added_once() -> None:
    assigner = settled()
    chunks(assigner)
    assigner.add(TableProgress.of(ORDERS, ID))
    assert len(assigner.tables) == 1
    read(assigner, FIRST, "8:8:")
    assigner.observe(seen(300, xmin=9))
    assigner.reads_up_to(300)
    assigner.add(TableProgress.of(ORDERS, ID))
    assert not assigner.tables


def test_the_state_restores_everything() -> None:
    assigner = settled(10, lsn=130, end=200)
    assigner.reads_up_to(110)
    first = assigner.next_chunk()
    assert first is None  # the log is far behind
    assigner.reads_up_to(130)
    assert ids(chunks(assigner)) == [FIRST, SECOND]
    read(assigner, SECOND, "8:8:")
    assigner.observe(seen(300, xmin=9, horizon=Horizon(lsn=250, xid=19)))
    restored = Assigner(assigner.stored(), start=130, most_chunks=9, most_lag_bytes=50)
    assert restored.stored() == assigner.stored()
    restored.observe(seen(300, xmin=20))
    assert restored.window(130, None) is None  # held back by the first chunk
    assert restored.next_chunk() is None
    read(restored, FIRST, "20:20:")
    planned = window(restored, 130)
    assert planned.end == 300
    assert planned.rules[0].rules == (RowRule(snapshot="20:20:"), RowRule(snapshot="8:8:"))


# A TRUNCATE between chunks.


def log_read(assigner: Assigner, end: int, *truncated: int) -> None:
    assigner.log_read(LogRead(first=100, end=end, rows=1, truncated=truncated))


def test_chunks_are_read_again_after_a_truncate_between_them_and_keep_their_first_snapshot() -> None:
    assigner = having_read(10, chunks_read=2)
    log_read(assigner, 200, ORDERS.oid)
    assert assigner.reads_chunks
    assert assigner.next_chunk() is None  # the log has been read beyond the horizon
    assert assigner.wants_horizon
    assigner.observe(seen(230, xmin=31, horizon=Horizon(lsn=220, xid=30)))
    again = chunks(assigner)
    assert ids(again) == ["public.orders/16400.1/0", "public.orders/16400.1/1"]
    assert [split.chunk.lsn for split in again if split.chunk] == [220, 220]
    assigner.observe(seen(330, xmin=41, horizon=Horizon(lsn=320, xid=40)))
    planned = window(assigner, 200)
    assert planned.end == 220
    assert planned.rules[0].rules == (RowRule(snapshot="8:8:"), RowRule(snapshot="9:9:"))
    for split in again:
        read(assigner, split.split_id, "31:31:")
    assert not assigner.reads_chunks
    assert assigner.tables[0].snapshots == ("8:8:", "9:9:")


def test_a_chunk_that_was_not_read_before_the_truncate_is_read_once() -> None:
    assigner = having_read(10)
    log_read(assigner, 200, ORDERS.oid)
    assigner.observe(seen(230, xmin=31, horizon=Horizon(lsn=220, xid=30)))
    assert ids(chunks(assigner)) == ["public.orders/16400.1/0"]
    read(assigner, SECOND, "9:9:")
    read(assigner, "public.orders/16400.1/0", "31:31:")
    assert not assigner.reads_chunks


def test_after_a_second_truncate_the_chunks_are_read_again() -> None:
    assigner = having_read(10, chunks_read=2)
    log_read(assigner, 200, ORDERS.oid)
    assigner.observe(seen(230, xmin=31, horizon=Horizon(lsn=220, xid=30)))
    old = ids(chunks(assigner))
    log_read(assigner, 220, ORDERS.oid)
    assert ids(chunks(assigner)) == ["public.orders/16400.2/0", "public.orders/16400.2/1"]
    for split_id in old:
        read(assigner, split_id, "31:31:")
    assert assigner.reads_chunks
    read(assigner, "public.orders/16400.2/0", "32:32:")
    read(assigner, "public.orders/16400.2/1", "32:32:")
    assert not assigner.reads_chunks


def test_the_rules_of_a_truncated_table_do_not_expire_in_the_window_that_truncates_it() -> None:
    assigner = having_read(10, chunks_read=2)
    assigner.observe(seen(300, xmin=20, lsn_after=150))
    log_read(assigner, 200, ORDERS.oid)
    assert assigner.tables


def test_a_truncate_of_a_table_without_rules_changes_nothing() -> None:
    assigner = settled()
    before = assigner.stored()
    log_read(assigner, 100, ITEMS.oid)
    assert assigner.stored() == before


# Tables that are added later.


def test_chunks_of_a_table_that_is_published_later_need_a_new_horizon() -> None:
    assigner = settled(10)
    assert assigner.add(TableProgress.of(ITEMS, ()))
    assert not assigner.add(TableProgress.of(ITEMS, ()))
    assigner.renew_horizon()
    assert assigner.next_chunk() is None
    assert assigner.window(100, None) is None
    assert assigner.wants_horizon
    assigner.observe(seen(130, xmin=12, horizon=Horizon(lsn=120, xid=11)))
    assert [split.chunk.horizon for split in chunks(assigner) if split.chunk] == [11, 11, 11]
