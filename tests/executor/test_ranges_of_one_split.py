"""Ranges of one split in one task have the same id; each is set aside, left out and repeated separately."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from flip27_source import SplitReader
from flip27_source.coordination.checkpoints import LedgerState
from flip27_source.enumerator import BoundedRange, Budget, Division
from flip27_source.options import Options
from tests.driver.batches import Batches
from tests.state_tables.test_views import rows as rows_of_view
from tests.toy_sources import AssignsOnce

BAD: set[int] = set()
BROKEN: set[int] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers from ``next`` up to, but not including, ``end``."""

    split_id: str
    next: int
    end: int


class NumbersEnumerator(AssignsOnce[Numbers]):
    """Assigns the numbers 0 to 5, which are divided into three ranges of two."""

    def splits(self) -> list[Numbers]:
        return [Numbers(split_id="log", next=0, end=6)]

    def bound_split(self, split: Numbers, budget: Budget) -> BoundedRange[Numbers] | None:
        if split.next == split.end:
            return None
        return BoundedRange(read=split, rest=replace(split, next=split.end))

    def divide_ranges(self, ranges: Sequence[Numbers]) -> Division[Numbers]:
        return Division(
            parts=[
                replace(split, next=first, end=first + 2)
                for split in ranges
                for first in range(split.next, split.end, 2)
            ]
        )

    @classmethod
    def set_apart(cls, cut: Numbers) -> Numbers:
        return replace(cut, split_id=f"log@{cut.next}-{cut.end - 1}") if cut.split_id == "log" else cut


class Unnamed(NumbersEnumerator):
    """Gives its parts no ids of their own."""

    set_apart = AssignsOnce.set_apart


class NumbersReader(SplitReader[Numbers]):
    """Cannot read ranges that have a number in BROKEN, and sets numbers in BAD aside."""

    @classmethod
    def quarantines(cls, options: Options) -> bool:
        return True

    def read(self, split: Numbers) -> Iterator[tuple[str]]:
        for number in range(split.next, split.end):
            name = f"log#{number}"
            if number in BROKEN:
                raise OSError("disk on fire")
            if number in BAD or name in self.context.quarantined_before:
                part = Numbers(split_id=name, next=number, end=number + 1)
                owner = NumbersEnumerator.set_apart(split).split_id
                self.context.quarantine(part, error="is bad", split_id=owner)
            else:
                yield (str(number),)


@pytest.fixture(autouse=True)
def _all_is_well() -> Iterator[None]:
    yield
    BAD.clear()
    BROKEN.clear()


def first_batch(on_error: str, enumerator: type[NumbersEnumerator] = NumbersEnumerator) -> Batches:
    batches = Batches(
        enumerator, NumbersReader, {"onSplitError": on_error, "maxSplitAttempts": "1", "parallelism": "1"}
    )
    assert batches.trigger()
    return batches


def read_again_and_commit(batches: Batches) -> list[str]:
    """Read the only task twice with the same rows, commit the batch, and return the rows."""
    (task,) = batches.tasks()
    rows = batches.attempt(task)
    BROKEN.clear()
    batches.restart()
    (task,) = batches.tasks()
    assert batches.attempt(task) == rows
    batches.commit()
    return rows


def ledger_of(batches: Batches) -> LedgerState[Numbers]:
    """The ledger after the batch, which includes the results in its reports."""
    assert not batches.trigger()
    return batches.holder.coordinator_at(batches.logged).standing(0).ledger


@pytest.mark.parametrize(
    ("broken", "rows", "quarantined"),
    [
        ({0}, ["2", "3", "4", "5"], ["log@0-1"]),
        ({3}, ["0", "1", "4", "5"], ["log@2-3"]),
        ({1, 5}, ["2", "3"], ["log@0-1", "log@4-5"]),
        ({0, 2, 4}, [], ["log@0-1", "log@2-3", "log@4-5"]),
    ],
)
def test_exactly_the_ranges_that_cannot_be_read_are_quarantined(
    broken: set[int], rows: list[str], quarantined: list[str]
) -> None:
    BROKEN.update(broken)
    batches = first_batch("quarantine")
    assert read_again_and_commit(batches) == rows
    assert [row["split_id"] for row in rows_of_view("quarantine", batches)] == quarantined
    ledger = ledger_of(batches)
    assert [(item.split.split_id, item.split.next) for item in ledger.quarantined] == [
        (name, int(name[4])) for name in quarantined
    ]
    assert [split.next for split in ledger.live] == [6], "the split continues after them"
    assert ledger.finished == 0


def test_exactly_the_ranges_that_cannot_be_read_are_left_out() -> None:
    BROKEN.update({1, 4})
    batches = first_batch("ignore")
    assert read_again_and_commit(batches) == ["2", "3"]
    ledger = ledger_of(batches)
    assert [(item.split.next, item.split.end) for item in ledger.ignored] == [(0, 2), (4, 6)]
    assert (ledger.ignored_count, ledger.quarantined) == (2, ())


def test_a_range_that_is_quarantined_takes_its_own_parts_along() -> None:
    BAD.update({0, 4})
    BROKEN.add(5)
    batches = first_batch("quarantine")
    assert read_again_and_commit(batches) == ["1", "2", "3"]
    assert [row["split_id"] for row in rows_of_view("quarantine", batches)] == ["log@4-5", "log#0"]


def test_a_range_whose_parts_have_no_ids_of_their_own_is_read_whole_or_quarantined_whole() -> None:
    BROKEN.add(3)
    batches = first_batch("quarantine", Unnamed)
    assert read_again_and_commit(batches) == []
    assert [(item.split.next, item.split.end) for item in ledger_of(batches).quarantined] == [(0, 6)]
