"""Ranges from bound_split that were not read are read again as they are, before their splits continue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from flip27_source.enumerators.sequence import SequenceEnumerator, SequenceSplit
from flip27_source.errors import MissingReportError
from flip27_source.events import ReturnSplit
from flip27_source.reader import SplitReader
from flip27_source.snapshots.locations import find_lineages
from tests.driver.batches import Batches
from tests.edits.edited import Edited
from tests.snapshots.spark_logs import view_rows

NUMBERS = pa.schema([("id", pa.int64())])
OPTIONS = {
    "end": "12", "numSplits": "2", "rowsPerSplit": "2", "onSplitError": "quarantine", "maxSplitAttempts": "1",
}  # fmt: skip


class Numbers(SplitReader[SequenceSplit]):
    """Cannot read ranges with a number in ``broken``, and returns those with a number in ``returned``."""

    broken: ClassVar[set[int]] = set()
    returned: ClassVar[set[int]] = set()

    def read(self, split: SequenceSplit) -> Iterator[Any]:
        assert split.end is not None
        numbers = range(split.next, split.end, split.step)
        if not self.broken.isdisjoint(numbers):
            raise ValueError("torn")
        if not self.returned.isdisjoint(numbers):
            raise ReturnSplit("not now")
        yield from ((number,) for number in numbers)


@pytest.fixture(autouse=True)
def _all_is_well() -> None:
    Numbers.broken.clear()
    Numbers.returned.clear()


def a_batch_of_which_one_task_is_never_read(batches: Batches) -> list[int]:
    """As with a foreachBatch that takes a few rows."""
    batches.batch()
    assert batches.trigger()
    first, _ = batches.tasks()
    rows = batches.attempt(first)
    batches.commit()
    return rows


def test_a_missing_report_on_ranges_stops_the_query_and_the_error_says_what_repeat_costs() -> None:
    batches = Batches(SequenceEnumerator, Numbers, OPTIONS)
    a_batch_of_which_one_task_is_never_read(batches)
    with pytest.raises(MissingReportError, match="are then there twice"):
        batches.trigger()


def test_ranges_without_a_report_are_read_again_before_their_split_continues() -> None:
    batches = Batches(SequenceEnumerator, Numbers, OPTIONS)
    assert sorted(a_batch_of_which_one_task_is_never_read(batches)) == [4, 6]
    batches.restart_with({"onMissingReport": "repeat"})
    assert batches.trigger()
    batches.restart()
    assert sorted(row for task in batches.tasks() for row in batches.attempt(task)) == [5, 7, 8, 10]
    batches.commit()
    assert batches.batch() == [9, 11]
    assert batches.batch() is None


class Asked(SequenceEnumerator):
    asked: ClassVar[list[set[str]]] = []

    def readable(self, live: Sequence[SequenceSplit]) -> Sequence[SequenceSplit]:
        self.asked.append({split.split_id for split in live})
        return super().readable(live)


def test_the_enumerator_chooses_among_all_live_splits_also_those_with_a_range_to_read_again() -> None:
    Asked.asked.clear()
    batches = Batches(Asked, Numbers, OPTIONS)
    Numbers.returned = {4, 6}
    for _ in range(2):
        batches.batch()
    assert Asked.asked[-1] == {"sequence-0", "sequence-1"}
    Numbers.returned = set()
    assert sorted(batches.batch() or []) == [4, 6, 9, 11]
    assert Asked.asked[-1] == {"sequence-0", "sequence-1"}


def test_a_range_that_its_reader_returns_is_read_in_the_next_batch() -> None:
    batches = Batches(SequenceEnumerator, Numbers, OPTIONS)
    Numbers.returned = {4}
    assert [sorted(batches.batch() or []) for _ in range(2)] == [[0, 1, 2, 3], [5, 7]]
    Numbers.returned = set()
    batches.restart()
    assert [sorted(batches.batch() or []) for _ in range(2)] == [[4, 6, 9, 11], [8, 10]]
    assert batches.batch() is None


def test_a_quarantined_range_is_retried_while_the_split_that_it_was_cut_from_is_read(tmp_path: Path) -> None:
    source = Edited(tmp_path, OPTIONS, enumerator=SequenceEnumerator, reader=Numbers, schema=NUMBERS)
    Numbers.broken = {4}
    assert [sorted(source.batch() or []) for _ in range(2)] == [[0, 1, 2, 3], [5, 7]]
    Numbers.broken = set()
    assert sorted(source.batch() or []) == [8, 9, 10, 11]
    source.ask("quarantine retry", splits=["sequence-0"])
    source.engine.restart()
    assert source.batches() == [[4, 6]]
    (edit,) = source.history()
    assert (edit["splits"], edit["left_alone_count"]) == (1, 0)


def test_a_range_that_waits_to_be_read_again_is_skipped_with_its_split(tmp_path: Path) -> None:
    source = Edited(tmp_path, OPTIONS, enumerator=SequenceEnumerator, reader=Numbers, schema=NUMBERS)
    Numbers.broken = {0, 1}
    assert [source.batch(), sorted(source.batch() or [])] == [[], [4, 5, 6, 7]]
    source.ask("quarantine retry", splits=["sequence-0", "sequence-1"])
    source.ask("skip", splits=["sequence-1"])
    source.engine.restart()
    Numbers.broken = set()
    rows = [row for batch in source.batches() for row in batch]
    assert sorted(rows) == [0, 2, 8, 10]


def test_the_tables_show_a_range_that_waits_to_be_read_again(tmp_path: Path) -> None:
    options = {**OPTIONS, "numSplits": "1"}
    source = Edited(tmp_path, options, enumerator=SequenceEnumerator, reader=Numbers, schema=NUMBERS)
    Numbers.broken = {0, 2}
    assert [source.batch(), source.batch()] == [[], []]
    Numbers.broken = set()
    source.ask("quarantine retry", splits=["sequence-0"])
    source.engine.restart()
    assert source.batch() == [0, 1]
    lineages = find_lineages(source.state, {})
    assert view_rows("checkpoints", lineages)[-1]["waiting"] == 1
    assert [row["status"] for row in view_rows("splits", lineages)] == ["live"]
    assert source.batch() == [2, 3]
