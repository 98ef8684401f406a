"""Live splits move to positions of their own, and by distances, in one dry run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flip27_source import edits
from flip27_source.edits.moves import Shift, plan_moves
from flip27_source.edits.state_copy import StateCopy
from flip27_source.enumerator_mixins import NamedPosition
from flip27_source.enumerators.kafka.split import fields_at, position_said
from flip27_source.errors import EditError
from flip27_source.snapshots.locations import find_lineages
from tests.edits.edited import Edited
from tests.edits.partitions import partitions, read
from tests.edits.test_named_positions import read_to_three


def moved(source: Edited, **moves: Any) -> list[edits.EditPlan]:
    (lineage,) = find_lineages(source.state, {})
    named = {name.replace("_", "/"): move for name, move in moves.items()}
    return plan_moves(StateCopy(lineage, {}), named, why="a test", who=None)


def test_each_split_moves_to_its_own_position(tmp_path: Path) -> None:
    source = partitions(tmp_path)
    plans = moved(source, orders_0=Shift(rows=-4), orders_1=NamedPosition(offset=50), orders_2={"next": 70})
    assert [(plan.request.split_ids, plan.request.position) for plan in plans] == [
        (("orders/0",), {"next": 6}),
        (("orders/1",), {"next": 50}),
        (("orders/2",), {"next": 70}),
    ]
    for plan in plans:
        edits.submit(plan)
    assert read(source) == {"orders/0": [6, 15], "orders/1": [50, 59], "orders/2": [70, 79]}


def test_splits_with_one_position_move_in_one_edit(tmp_path: Path) -> None:
    plans = moved(
        partitions(tmp_path), orders_0=Shift(rows=3), orders_1=Shift(rows=3), orders_2=Shift(rows=1)
    )
    assert [plan.request.split_ids for plan in plans] == [("orders/0", "orders/1"), ("orders/2",)]


def test_a_shift_goes_no_further_back_than_the_first_row(tmp_path: Path) -> None:
    (plan,) = moved(partitions(tmp_path), orders_0=Shift(rows=-1000))
    assert plan.request.position == {"next": 0}
    assert plan.changes[0].then.endswith("rows read again: 10")


def test_a_shift_counts_from_what_edits_that_wait_have_moved_to(tmp_path: Path) -> None:
    source = partitions(tmp_path)
    source.ask("set-position", splits=["orders/0"], position={"next": 40})
    (plan,) = moved(source, orders_0=Shift(rows=5))
    assert plan.request.position == {"next": 45}


def test_a_split_that_has_no_offset_yet_cannot_be_shifted(tmp_path: Path) -> None:
    source = partitions(tmp_path)
    source.ask("set-position", splits=["orders/0"], position=NamedPosition(word="latest"))
    with pytest.raises(EditError, match="the offset of orders/0 is not known yet"):
        moved(source, orders_0=Shift(rows=5))


def test_a_source_without_names_for_positions_has_no_shifts(tmp_path: Path) -> None:
    with pytest.raises(EditError, match=r"positions of the enumerator .* have no names"):
        moved(read_to_three(tmp_path), log=Shift(rows=1))


def test_a_dry_run_says_positions_in_the_words_of_the_source(tmp_path: Path) -> None:
    end, number = moved(partitions(tmp_path), orders_0=NamedPosition(word="latest"), orders_1=Shift(rows=1))
    assert end.changes[0].then == "continues at the end"
    assert number.changes[0].then.startswith('continues at {"')


@pytest.mark.parametrize(
    ("position", "said"),
    [
        (NamedPosition(offset=42), "offset 42"),
        (NamedPosition(word="earliest"), "earliest"),
        (NamedPosition(word="latest"), "latest"),
        (NamedPosition(timestamp_ms=60_000), "the first record at 1970-01-01T00:01:00+00:00 or later"),
    ],
)
def test_positions_in_partitions_of_kafka_have_words(position: NamedPosition, said: str) -> None:
    assert position_said(fields_at(position)) == said


def test_a_split_that_is_not_live_is_named(tmp_path: Path) -> None:
    with pytest.raises(EditError, match="there is no split that is live: orders/9"):
        moved(partitions(tmp_path), orders_0=Shift(rows=1), orders_9=Shift(rows=1))
