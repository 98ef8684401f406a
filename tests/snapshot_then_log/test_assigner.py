"""The assigner's rules for a log in which the mark of a snapshot is a position, on literal positions."""

from __future__ import annotations

import msgspec

from flip27_source.snapshot_then_log.assigner import PositionAssigner
from flip27_source.snapshot_then_log.tables import Cut, TableProgress, TablesState
from tests.snapshot_then_log.table_in_chunks import Progress, Table

ORDERS, ITEMS = Table("orders"), Table("items")
FIRST, SECOND = "orders/0", "orders/1"


def two_chunks(
    *, start: int = 100, most_lag_bytes: int = 50, most_chunks: int = 10
) -> PositionAssigner[Table]:
    """An assigner of the table ``orders``, which has a bound at the key 5."""
    assigner: PositionAssigner[Table] = PositionAssigner(
        TablesState(), start=start, most_chunks=most_chunks, most_lag_bytes=most_lag_bytes
    )
    assigner.add(TableProgress(table=ORDERS, key=("id",)))
    assigner.cut(Cut(table_id="orders", lower=None, bounds=((("5",), 10),), is_end=True))
    return assigner


def assigned(assigner: PositionAssigner[Table]) -> list[tuple[str, int]]:
    """The ids and the barriers of all chunks that can be assigned now."""
    found = iter(assigner.assign_next, None)
    return [(progress.split_id(number), barrier) for progress, number, barrier in found]


def test_a_chunk_is_assigned_with_the_end_of_the_log_as_its_barrier() -> None:
    assigner = two_chunks()
    assigner.log_ends_at(120)
    assert assigned(assigner) == [(FIRST, 120), (SECOND, 120)]


def test_no_more_chunks_are_assigned_than_may_be() -> None:
    assert assigned(two_chunks(most_chunks=1)) == [(FIRST, 100)]


def test_no_window_extends_beyond_the_barrier_of_a_chunk_that_is_not_read() -> None:
    assigner = two_chunks(most_lag_bytes=20)
    assigner.log_ends_at(120)
    assigned(assigner)
    assigner.log_ends_at(500)
    assert assigner.window_end(100, None) == 120
    assert assigner.window_end(120, None) is None


def test_a_window_is_no_longer_than_the_limit() -> None:
    assigner = two_chunks()
    assigner.log_ends_at(500)
    assert assigner.window_end(100, 30) == 130


def test_the_log_waits_for_chunks_until_it_is_too_far_behind() -> None:
    assigner = two_chunks()
    assigner.log_ends_at(150)
    assert assigner.window_end(100, None) is None
    assigner.log_ends_at(151)
    assert assigner.window_end(100, None) == 151
    assert assigned(assigner) == []


def test_the_rules_of_a_table_are_dropped_once_the_log_is_past_all_of_its_marks() -> None:
    assigner = two_chunks()
    assigned(assigner)
    assigner.mark(FIRST, "130")
    assigner.mark(SECOND, "160")
    assigner.log_ends_at(200)
    assigner.reads_up_to(159)
    assert [progress.ranges() for progress in assigner.tables] == [((("5",),), ("130", "160"))]
    assigner.reads_up_to(160)
    assert (assigner.tables, assigner.known) == ((), (ORDERS,))


def test_the_first_mark_of_a_chunk_that_is_read_again_counts() -> None:
    assigner = two_chunks()
    assigned(assigner)
    assigner.mark(FIRST, "130")
    assigner.mark(SECOND, "130")
    assigner.read_again("orders")
    assert assigned(assigner) == [("orders.1/0", 100), ("orders.1/1", 100)]
    assigner.mark("orders.1/0", "170")
    assert assigner.tables[0].snapshots == ("130", "130")


def test_a_chunk_that_is_given_up_has_no_change() -> None:
    assigner = two_chunks()
    assigner.chunks_given_up(["orders/0"])
    assert assigner.tables[0].snapshots == ("0", None)


def test_a_table_that_was_left_out_is_read_anew_and_every_change_is_delivered() -> None:
    assigner = two_chunks()
    assigned(assigner)
    assigner.keep(lambda table: table != ORDERS)
    assert assigner.add(TableProgress(table=ORDERS, key=("id",)))
    (progress,) = assigner.tables
    assert (progress.generation, progress.snapshots, progress.again) == (1, ("0",), (0,))


def test_a_table_of_which_only_changes_are_read_has_no_chunks() -> None:
    assigner = two_chunks()
    assigner.add_known(ITEMS)
    assert assigner.known == (ITEMS, ORDERS)
    assert [progress.table for progress in assigner.tables] == [ORDERS]


def test_a_run_that_ends_reads_no_further_than_the_first_end() -> None:
    assigner = two_chunks()
    assigner.end_at(120)
    assigner.end_at(140)
    assigner.log_ends_at(500)
    assert assigner.end == 120


def test_the_state_is_restored_from_json() -> None:
    assigner = two_chunks()
    assigned(assigner)
    assigner.mark(FIRST, "130")
    assigner.add_known(ITEMS)
    stored = msgspec.json.encode(assigner.stored())
    restored = msgspec.json.decode(stored, type=TablesState[Table, Progress])
    assert restored == assigner.stored()
    again = PositionAssigner(restored, start=100, most_chunks=10, most_lag_bytes=50)
    assert assigned(again) == []
    assert again.stored() == restored
