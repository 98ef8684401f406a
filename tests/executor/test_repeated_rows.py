"""A subtask that is read again must give as many rows as its report says, unless rows may change (R16)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from flip27_source import Progress, SourceEvent, SplitReader, YieldsProgress
from flip27_source.errors import AttemptError, DataLossError
from flip27_source.options import Options
from tests.driver.batches import Batches
from tests.state_tables.test_views import rows as rows_of_view
from tests.toy_sources import MIB, Item, Shelf

TABLE: dict[str, list[Any]] = {}
REPORTS = {"taskReports": "always"}
REPORTED = {"onDataLoss": "report", "parallelism": "1"}


class TableReader(SplitReader[Item]):
    """Reads the rows that a key range of a table has now."""

    def read(self, split: Item) -> Iterator[tuple[str]]:
        for value in TABLE[split.split_id]:
            yield (value,)


class ChangingTableReader(TableReader):
    repeatable = False


class SnapshotThenLogReader(TableReader):
    """The rows of chunks may change; those of the log never do."""

    def is_repeatable(self, split: Item) -> bool:
        return split.split_id.startswith("log")


@dataclass(frozen=True)
class Counted(SourceEvent):
    rows: int


class CountingReader(ChangingTableReader):
    """Sends the number of rows."""

    def read(self, split: Item) -> Iterator[tuple[str]]:
        rows = list(super().read(split))
        yield from rows
        self.context.send_event_to_coordinator(Counted(rows=len(rows)))


class CountingShelf(Shelf):
    def handle_source_event(self, subtask_id: int, event: Counted) -> None:
        pass


class ChangingShelf(Shelf):
    repeatable = False


class PagedTableReader(YieldsProgress, TableReader):
    """Reads the rows as one page, whose position does not show how many rows it covers."""

    def read(self, split: Item) -> Iterator[Any]:
        if not split.rows:
            yield from super().read(split)
            yield Progress(replace(split, rows=1))


class LogReader(SplitReader[Item]):
    """Reads rows of a log; a row that is None has expired, and a split that is not in TABLE is lost."""

    loses_whole_splits: ClassVar[bool] = False

    def read(self, split: Item) -> Iterator[tuple[str]]:
        if split.split_id not in TABLE:
            raise DataLossError(f"{split.split_id} is gone", remedy="continue without it")
        rows = TABLE[split.split_id]
        gone = sum(row is None for row in rows)
        if gone:
            self.context.report_data_loss(
                f"the first {gone} rows are gone", split_id=split.split_id, remedy="continue after them"
            )
        yield from ((row,) for row in rows[gone:])


class FileReader(LogReader):
    """A reader whose splits may be lost as a whole."""

    loses_whole_splits = True


class PagedFileReader(YieldsProgress, FileReader):
    def read(self, split: Item) -> Iterator[Any]:
        yield from super().read(split)
        yield Progress(None)


class PickyLogReader(LogReader):
    """Sets each row ``bad`` aside."""

    @classmethod
    def quarantines(cls, options: Options) -> bool:
        return True

    def read(self, split: Item) -> Iterator[tuple[str]]:
        for number, (row,) in enumerate(super().read(split)):
            if row == "bad":
                part = Item(split_id=f"{split.split_id}#{number}")
                self.context.quarantine(part, error="is bad", split_id=split.split_id)
            else:
                yield (row,)


@pytest.fixture(autouse=True)
def _table() -> None:
    TABLE.clear()
    TABLE.update({"a": ["1", "2"], "b": ["3"]})


def planned(
    enumerator: type[Shelf], reader: type[SplitReader[Any]], *names: str, options: dict[str, str] = REPORTS
) -> Batches:
    batches = Batches(enumerator, reader, options)
    batches.shelve(*names)
    assert batches.trigger()
    return batches


@pytest.mark.parametrize("reader", [TableReader, PagedTableReader])
@pytest.mark.parametrize("rows", [["1"], ["1", "2", "3"], []])
def test_a_repeat_with_another_number_of_rows_fails_and_names_the_remedy_R16(
    reader: type[SplitReader[Any]], rows: list[str]
) -> None:
    batches = planned(Shelf, reader, "a")
    (task,) = batches.tasks()
    assert batches.attempt(task) == ["1", "2"]
    TABLE["a"] = rows
    said = rf"(?s)subtask 0 read {len(rows)} rows.*has 2.*an option of its reader.*repeatable = False"
    with pytest.raises(AttemptError, match=said):
        batches.attempt(task, 1)
    batches.holder = batches.new_holder()
    with pytest.raises(AttemptError):
        batches.attempt(batches.tasks()[0])


@pytest.mark.parametrize(("shelf", "reader"), [(Shelf, ChangingTableReader), (ChangingShelf, TableReader)])
def test_a_source_whose_rows_may_change_can_deliver_newer_rows(
    shelf: type[Shelf], reader: type[SplitReader[Any]]
) -> None:
    batches = planned(shelf, reader, "a")
    (task,) = batches.tasks()
    assert batches.attempt(task) == ["1", "2"]
    TABLE["a"] = ["new"]
    assert batches.attempt(task, 1) == ["new"]
    batches.commit()
    batches.shelve("b")
    assert batches.batch() == ["3"]
    numbers = batches.holder.report() or {}
    assert numbers["lastRows"] == 2  # the first report counts


@pytest.mark.parametrize("names", [("chunk",), ("log", "chunk")])
def test_a_task_with_a_split_whose_rows_may_change_can_deliver_newer_rows(names: tuple[str, ...]) -> None:
    TABLE.update({"chunk": ["1"], "log": ["2"]})
    batches = planned(Shelf, SnapshotThenLogReader, *names, options={**REPORTS, "parallelism": "1"})
    (task,) = batches.tasks()
    batches.attempt(task)
    TABLE["chunk"] = ["1", "new"]
    assert batches.attempt(task, 1) == [row for name in names for row in TABLE[name]]


def test_a_task_of_the_same_source_whose_splits_all_repeat_must_give_the_same_number_of_rows() -> None:
    TABLE["log"] = ["2"]
    batches = planned(Shelf, SnapshotThenLogReader, "log")
    (task,) = batches.tasks()
    batches.attempt(task)
    TABLE["log"] = []
    with pytest.raises(AttemptError, match=r"(?s)subtask 0 read 0 rows.*define is_repeatable in the reader"):
        batches.attempt(task, 1)


@pytest.mark.parametrize(("shelf", "reader"), [(CountingShelf, CountingReader), (Shelf, ChangingTableReader)])
def test_rows_that_were_read_before_another_attempt_reported_count_only_if_no_event_tells_of_them(
    shelf: type[Shelf], reader: type[SplitReader[Any]]
) -> None:
    batches = planned(shelf, reader, "a")
    (task,) = batches.tasks()
    older = batches.started_attempt(task)
    assert next(older) == "1"
    TABLE["a"] = ["1", "2", "3"]
    assert batches.attempt(task, 1) == ["1", "2", "3"]
    if reader is ChangingTableReader:
        assert list(older) == ["2"]
        return
    with pytest.raises(AttemptError, match="attempt 0 of subtask 0 has sent other events"):
        list(older)
    TABLE["a"] = ["1", "2", "3", "4"]
    assert batches.attempt(task, 2) == ["1", "2", "3", "4"]


def test_two_concurrent_attempts_are_compared_when_the_second_one_ends() -> None:
    batches = planned(Shelf, TableReader, "a")
    (task,) = batches.tasks()
    slow = batches.started_attempt(task, 1)
    next(slow)
    TABLE["a"] = ["1", "2", "3"]
    assert batches.attempt(task) == ["1", "2", "3"]
    with pytest.raises(AttemptError, match="attempt 1 of subtask 0 read 2 rows"):
        list(slow)


def read_before_the_driver_died(reader: type[SplitReader[Any]], *names: str, **options: str) -> Batches:
    """Restart with a batch whose tasks have reported but which Spark has not committed."""
    batches = planned(Shelf, reader, *names, options=options)
    for task in batches.tasks():
        batches.attempt(task)
    batches.restart()
    return batches


def losses_of(batches: Batches) -> list[tuple[str | None, str]]:
    """Complete the batch, run another one, and return the losses in the newest document."""
    batches.commit()
    batches.shelve("b")
    assert batches.batch() == ["3"]
    ledger = batches.snapshot().ledger
    assert ledger.loss_count == len(ledger.losses)
    return [(loss.split_id, loss.what) for loss in ledger.losses]


def test_rows_that_expired_after_they_were_reported_are_a_further_loss_R16(
    caplog: pytest.LogCaptureFixture,
) -> None:
    batches = read_before_the_driver_died(LogReader, "a", **REPORTED)
    TABLE["a"] = [None, "2"]
    with caplog.at_level(logging.WARNING, "flip27_source"):
        assert batches.attempt(batches.tasks()[0]) == ["2"]
    assert "split 'a': the first 1 rows are gone" in caplog.text
    (row,) = rows_of_view("losses", batches)
    assert (row["split_id"], row["what"]) == ("a", "the first 1 rows are gone")
    assert losses_of(batches) == [("a", "the first 1 rows are gone")]


def test_a_further_loss_is_counted_once_however_often_the_batch_is_repeated() -> None:
    TABLE["a"] = [None, "2", "3", "4"]
    batches = read_before_the_driver_died(LogReader, "a", **REPORTED)
    for gone in (2, 2, 3):
        TABLE["a"] = [*[None] * gone, *"1234"[gone:]]
        assert batches.attempt(batches.tasks()[0], 1) == [*"1234"[gone:]]
    assert losses_of(batches) == [("a", f"the first {gone} rows are gone") for gone in (1, 2, 3)]


def test_each_task_records_its_own_further_losses() -> None:
    TABLE.update({name: ["1", "2"] for name in "cd"})
    batches = Batches(Shelf, LogReader, {"onDataLoss": "report"})
    batches.enumerator().shelf.extend(Item(split_id=name, bytes=100 * MIB) for name in "cd")
    assert batches.trigger()
    for task in batches.tasks():
        batches.attempt(task)
    batches.restart()
    TABLE.update({name: [None, "2"] for name in "cd"})
    first, second = batches.tasks()
    assert [batches.attempt(first), batches.attempt(second)] == [["2"], ["2"]]
    assert losses_of(batches) == [(name, "the first 1 rows are gone") for name in "cd"]


@pytest.mark.parametrize("reader", [FileReader, PagedFileReader])
def test_a_split_that_disappeared_after_its_report_is_a_further_loss_and_ignored_from_then_on(
    reader: type[SplitReader[Any]],
) -> None:
    batches = read_before_the_driver_died(reader, "a", **REPORTED)
    rows = TABLE.pop("a")
    assert batches.attempt(batches.tasks()[0]) == []
    TABLE["a"] = rows
    batches.restart()
    assert batches.attempt(batches.tasks()[0], 1) == []
    batches.commit()
    assert {row["split_id"]: row["status"] for row in rows_of_view("splits", batches)} == {"a": "ignored"}
    assert losses_of(batches) == [("a", "a is gone (the attempt that reported first has read it)")]
    assert [item.split.split_id for item in batches.snapshot().ledger.ignored] == ["a"]


def test_a_part_that_expired_after_it_was_quarantined_is_kept() -> None:
    TABLE["a"] = ["1", "bad", "3"]
    batches = read_before_the_driver_died(PickyLogReader, "a", **REPORTED)
    TABLE["a"] = [None, None, "3"]
    assert batches.attempt(batches.tasks()[0]) == ["3"]
    assert losses_of(batches) == [("a", "the first 2 rows are gone")]
    assert [item.split.split_id for item in batches.quarantined()] == ["a#1"]


@pytest.mark.parametrize("rows", [[None, "1", "2", "3"], ["1"], [None, "1", "2"]])
def test_a_loss_explains_only_fewer_rows_and_fewer_rows_need_a_loss(rows: list[str | None]) -> None:
    batches = read_before_the_driver_died(LogReader, "a", **REPORTED)
    TABLE["a"] = rows
    if rows == [None, "1", "2"]:
        assert batches.attempt(batches.tasks()[0]) == ["1", "2"]
        return
    with pytest.raises(AttemptError, match="has 2"):
        batches.attempt(batches.tasks()[0])


@pytest.mark.parametrize("options", [REPORTS, {**REPORTS, "onSplitError": "quarantine"}])
@pytest.mark.parametrize("rows", [[None, "2"], None])
def test_the_error_for_a_fatal_loss_after_the_report_names_the_lost_data(
    options: dict[str, str], rows: list[str | None] | None
) -> None:
    batches = read_before_the_driver_died(LogReader, "a", parallelism="1", **options)
    if rows is None:
        del TABLE["a"]
    else:
        TABLE["a"] = rows
    with pytest.raises(DataLossError, match=r"(rows are|a is) gone(?s:.*)continue (after|without)"):
        batches.attempt(batches.tasks()[0])


def test_a_query_stopped_by_a_loss_after_the_report_continues_with_the_option_report() -> None:
    batches = read_before_the_driver_died(LogReader, "a", parallelism="1", **REPORTS)
    TABLE["a"] = [None, "2"]
    batches.restart_with({"onDataLoss": "report"})
    assert batches.attempt(batches.tasks()[0]) == ["2"]
    assert losses_of(batches) == [("a", "the first 1 rows are gone")]


def test_an_attempt_with_a_loss_fails_if_another_one_read_the_rows_and_its_retry_succeeds() -> None:
    batches = planned(Shelf, LogReader, "a", options=REPORTED)
    (task,) = batches.tasks()
    TABLE["a"] = [None, "2"]
    slow = batches.started_attempt(task, 1)
    assert next(slow) == "2"
    TABLE["a"] = ["1", "2"]
    assert batches.attempt(task) == ["1", "2"]
    with pytest.raises(AttemptError, match=r"the first 1 rows are gone(?s:.*)nothing is lost"):
        list(slow)
    TABLE["a"] = [None, "2"]
    assert batches.attempt(task, 2) == ["2"]
    assert losses_of(batches) == [("a", "the first 1 rows are gone")]
