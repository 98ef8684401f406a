"""A subtask that is read again gives as many rows as its report says, unless its rows may change (R16)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from flip27_source import Progress, SplitReader, YieldsProgress
from flip27_source.errors import AttemptError
from tests.driver.batches import Batches
from tests.toy_sources import Item, Shelf

TABLE: dict[str, list[str]] = {}
REPORTS = {"taskReports": "always"}


class TableReader(SplitReader[Item]):
    """The rows that a key range of a table has now."""

    def read(self, split: Item) -> Iterator[tuple[str]]:
        for value in TABLE[split.split_id]:
            yield (value,)


class ChangingTableReader(TableReader):
    repeatable = False


class ChangingShelf(Shelf):
    repeatable = False


class PagedTableReader(YieldsProgress, TableReader):
    """The same, in one page: the position does not tell how many rows it stands for."""

    def read(self, split: Item) -> Iterator[Any]:
        if not split.rows:
            yield from super().read(split)
            yield Progress(replace(split, rows=1))


@pytest.fixture(autouse=True)
def _table() -> None:
    TABLE.clear()
    TABLE.update({"a": ["1", "2"], "b": ["3"]})


def planned(enumerator: type[Shelf], reader: type[SplitReader[Any]], *names: str) -> Batches:
    batches = Batches(enumerator, reader, REPORTS)
    batches.shelve(*names)
    assert batches.trigger()
    return batches


@pytest.mark.parametrize("reader", [TableReader, PagedTableReader])
@pytest.mark.parametrize("rows", [["1"], ["1", "2", "3"], []])
def test_a_repeat_with_another_number_of_rows_fails_and_says_what_a_source_can_do_R16(
    reader: type[SplitReader[Any]], rows: list[str]
) -> None:
    batches = planned(Shelf, reader, "a")
    (task,) = batches.tasks()
    assert batches.attempt(task) == ["1", "2"]
    TABLE["a"] = rows
    said = rf"(?s)attempt 1 of subtask 0 read {len(rows)} rows.*has 2.*repeatable = False"
    with pytest.raises(AttemptError, match=said):
        batches.attempt(task, 1)
    batches.holder = batches.new_holder()
    with pytest.raises(AttemptError):
        batches.attempt(batches.tasks()[0])


@pytest.mark.parametrize(
    ("enumerator", "reader"), [(Shelf, ChangingTableReader), (ChangingShelf, TableReader)]
)
def test_a_source_whose_rows_change_may_give_fresher_ones(
    enumerator: type[Shelf], reader: type[SplitReader[Any]]
) -> None:
    batches = planned(enumerator, reader, "a")
    (task,) = batches.tasks()
    assert batches.attempt(task) == ["1", "2"]
    TABLE["a"] = ["new"]
    assert batches.attempt(task, 1) == ["new"]
    batches.commit()
    batches.shelve("b")
    assert batches.batch() == ["3"]
    numbers = batches.holder.report() or {}
    assert numbers["lastRows"] == 2  # the first report's facts hold


def test_two_attempts_side_by_side_are_compared_when_the_second_one_ends() -> None:
    batches = planned(Shelf, TableReader, "a")
    (task,) = batches.tasks()
    slow = batches.started_attempt(task, 1)
    next(slow)
    TABLE["a"] = ["1", "2", "3"]
    assert batches.attempt(task) == ["1", "2", "3"]
    with pytest.raises(AttemptError, match="attempt 1 of subtask 0 read 2 rows"):
        list(slow)


def test_a_repeat_with_the_same_rows_goes_well() -> None:
    batches = planned(Shelf, TableReader, "a", "b")
    for task in batches.tasks():
        assert batches.attempt(task, 0) == batches.attempt(task, 1)
