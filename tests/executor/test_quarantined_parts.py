"""Parts of splits that a reader sets aside: recorded once, with the batch, and dropped with their split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from flip27_source.errors import ContractError, SplitReadError
from flip27_source.events import Progress, ReturnSplit
from flip27_source.options import Options
from flip27_source.reader import YieldsProgress
from tests.driver.batches import Batches
from tests.state_tables.test_views import rows as rows_of_view
from tests.toy_sources import EchoReader, Item, Shelf


class Picky(EchoReader):
    """Reads three rows of a split and sets those in ``bad`` aside; splits in ``broken`` fail at their end."""

    bad: ClassVar[set[str]] = set()
    broken: ClassVar[set[str]] = set()
    part: ClassVar[type] = Item
    reports: ClassVar[bool] = True

    @classmethod
    def quarantines(cls, options: Options) -> bool:
        return cls.reports

    def read(self, split: Item) -> Iterator[tuple[Any, ...]]:
        name, _, row = split.split_id.partition("#")
        for number in [int(row)] if row else range(3):
            part_id = f"{name}#{number}"
            if part_id in self.bad | self.context.quarantined_before:
                self.context.quarantine(self.part(split_id=part_id), error="is bad", split_id=split.split_id)
            else:
                yield (part_id,)
        if name in self.broken:
            raise OSError("disk on fire")


class PickyPages(YieldsProgress, Picky):
    """Reads one more row as a page of its own, before the others."""

    def read(self, split: Item) -> Iterator[Any]:
        if not split.rows:
            yield ("first",)
            yield Progress(replace(split, rows=1))
        yield from super().read(split)
        yield Progress(None)


class Returns(Picky):
    """Sets a part of a broken split aside, and returns the split."""

    def read(self, split: Item) -> Iterator[tuple[Any, ...]]:
        if split.split_id in self.broken:
            self.context.quarantine(Item(split_id="a#1"), error="is bad", split_id=split.split_id)
            raise ReturnSplit("not now")
        yield from super().read(split)


class Telltale(Picky):
    """Names a key of the storage in all that it says."""

    def read(self, split: Item) -> Iterator[tuple[Any, ...]]:
        said = f"the key is {self.context.options.get('storage.key')}, the name \udcff"
        self.context.report_data_loss(said)
        self.context.quarantine(Item(split_id=f"{split.split_id}#0"), error=said, split_id=split.split_id)
        yield (split.split_id,)
        if split.split_id == "b":
            raise OSError(said)


@pytest.fixture(autouse=True)
def _all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bad", "broken"):
        monkeypatch.setattr(Picky, name, set())


def picky(*names: str, bad: tuple[str, ...] = (), reader: type[Picky] = Picky, **options: str) -> Batches:
    Picky.bad.update(bad)
    batches = Batches(Shelf, reader, {"parallelism": "1", **options})
    batches.shelve(*names)
    return batches


def ids(batches: Batches) -> list[str]:
    """The ids of what is set aside in the newest document."""
    return [item.split.split_id for item in batches.quarantined()]


def test_the_other_rows_of_a_split_are_delivered_and_its_failed_part_is_in_the_next_document() -> None:
    batches = picky("a", "b", bad=("a#1",))
    assert batches.batch() == ["a#0", "a#2", "b#0", "b#1", "b#2"]
    assert ids(batches) == []
    (row,) = rows_of_view("quarantine", batches)
    assert (row["split_id"], row["error"], row["checkpoint_id"]) == ("a#1", "is bad", 1)
    assert {row["split_id"]: row["status"] for row in rows_of_view("splits", batches)}["a#1"] == "quarantined"
    batches.shelve("c")
    batches.batch()
    assert ids(batches) == ["a#1"]
    assert batches.snapshot().ledger.finished == 3, "the split that the part belongs to is finished"


def test_a_repeated_task_sets_the_same_parts_aside_although_it_could_read_them_R5() -> None:
    batches = picky("a", bad=("a#1",))
    task = batches.next_task()
    assert batches.attempt(task) == ["a#0", "a#2"]
    Picky.bad.clear()
    assert batches.attempt(task, number=1) == ["a#0", "a#2"]
    batches.restart()
    (task,) = batches.tasks()
    assert batches.attempt(task) == ["a#0", "a#2"]


def test_a_split_that_fails_completely_is_quarantined_instead_of_its_parts() -> None:
    batches = picky("a", "b", bad=("a#1", "b#1"), onSplitError="quarantine", maxSplitAttempts="2")
    Picky.broken.add("b")
    assert batches.batch() == ["a#0", "a#2"]
    batches.shelve("c")
    batches.batch()
    assert sorted(ids(batches)) == ["a#1", "b"]


@pytest.mark.parametrize(("reader", "rows"), [(PickyPages, ["first"]), (Returns, [])])
def test_a_part_is_taken_back_with_the_page_or_split_that_it_belongs_to(
    reader: type[Picky], rows: list[str]
) -> None:
    batches = picky("a", bad=("a#1",), reader=reader, onSplitError="quarantine")
    Picky.broken.add("a")
    task = batches.next_task()
    assert batches.attempt(task) == rows
    Picky.bad.clear()
    Picky.broken.clear()
    for number in range(len(rows)):
        assert batches.attempt(task, number + 1) == rows
    batches.commit()
    assert batches.batch() == ["a#0", "a#1", "a#2"]
    assert ids(batches) == []


def test_a_part_that_cannot_be_stored_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def unstorable(split_id: str) -> Item:
        return Item(split_id=split_id, rows=object())  # type: ignore[arg-type]

    monkeypatch.setattr(Picky, "part", staticmethod(unstorable))
    batches = picky("a", bad=("a#1",))
    batches.trigger()
    with pytest.raises(ContractError, match="rows"):
        batches.attempt(batches.tasks()[0])


def test_a_batch_planned_without_reports_is_repeated_with_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = picky("a", bad=("a#1",))
    monkeypatch.setattr(Picky, "reports", False)
    batches.restart()
    batches.shelve("a")
    batches.trigger()
    with pytest.raises(SplitReadError, match="'a#1' of split 'a' cannot be read: is bad"):
        batches.attempt(batches.tasks()[0])
    monkeypatch.undo()
    Picky.bad.add("a#1")
    batches.restart()
    (task,) = batches.tasks()
    assert batches.attempt(task) == ["a#0", "a#2"]
    batches.commit()
    batches.shelve("b")
    batches.batch()
    assert ids(batches) == ["a#1"]


def test_a_batch_that_was_read_without_reports_is_complete_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches = picky()
    monkeypatch.setattr(Picky, "reports", False)
    batches.restart()
    batches.shelve("a")
    assert batches.batch() == ["a#0", "a#1", "a#2"]
    monkeypatch.undo()
    batches.restart()
    batches.shelve("b")
    assert batches.batch() == ["b#0", "b#1", "b#2"]


def test_what_a_reader_says_is_kept_without_secrets_of_the_store() -> None:
    options = {"storage.key": "a-secret-key", "onDataLoss": "report", "onSplitError": "quarantine"}
    batches = picky("a", "b", reader=Telltale, maxSplitAttempts="1", **options)
    assert batches.batch() == ["a"]
    batches.shelve("c")
    batches.batch()
    said = [str(item.error) for item in batches.quarantined()]
    said += [loss.what for loss in batches.snapshot().ledger.losses]
    assert len(said) >= 3
    assert not [text for text in said if "a-secret-key" in text]
