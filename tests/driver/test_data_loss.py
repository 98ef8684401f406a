"""Data that disappears before it is read: it stops the query, or is counted, listed and logged (R12)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from flip27_source import (
    BoundedRange,
    Budget,
    DiscoveringEnumerator,
    Discovery,
    Progress,
    SplitEnumerator,
    SplitReader,
    YieldsProgress,
)
from flip27_source.coordination.data_losses import LOSSES_KEPT
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import DataLossError
from tests.driver.batches import Batches
from tests.driver.test_backlog import progress_of
from tests.state_tables.test_views import rows as rows_of_view
from tests.toy_sources import AssignsOnce, EchoReader, Item, Shelf

REPORT = {"onDataLoss": "report"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """A part of a log from ``start`` up to ``end``, which may be open."""

    split_id: str
    start: int = 0
    end: int | None = None


class Log:
    """A log whose retention removes what is before ``earliest``."""

    earliest = 0
    latest = 0


@pytest.fixture(autouse=True)
def _new_log() -> None:
    Log.earliest = Log.latest = 0


def first_left(context: Any, split: Offsets) -> int:
    """Report the offsets of the split that have expired; return the first one that is left."""
    if split.start < Log.earliest:
        context.report_data_loss(
            f"offsets {split.start} to {Log.earliest - 1} have expired", split_id=split.split_id
        )
    return max(split.start, Log.earliest)


class LogEnumerator(AssignsOnce[Offsets]):
    """Assigns one split without an end, and cuts it for each batch."""

    def splits(self) -> list[Offsets]:
        return [Offsets(split_id="log")]

    def bound_split(self, split: Offsets, budget: Budget) -> BoundedRange[Offsets] | None:
        start = first_left(self.context, split)
        if start == Log.latest:
            return None
        return BoundedRange(
            read=replace(split, start=start, end=Log.latest), rest=replace(split, start=Log.latest)
        )


class LogReader(SplitReader[Offsets]):
    """Reads the offsets as rows; reports those that retention removed between planning and reading."""

    def read(self, split: Offsets) -> Iterator[tuple[int]]:
        start = first_left(self.context, split)
        yield from ((offset,) for offset in range(start, split.end or 0))


def losses(batches: Batches) -> list[tuple[int, str | None, str]]:
    return [(loss.checkpoint_id, loss.split_id, loss.what) for loss in batches.snapshot().ledger.losses]


def test_expired_data_found_by_the_enumerator_stops_the_query_with_a_remedy() -> None:
    batches = Batches(LogEnumerator, LogReader)
    Log.latest = 3
    assert batches.batch() == [0, 1, 2]
    Log.earliest, Log.latest = 5, 8
    with pytest.raises(
        DataLossError, match=r"(?s)split 'log': offsets 3 to 4 have expired.*onDataLoss=report"
    ):
        batches.trigger()
    batches.restart()
    with pytest.raises(DataLossError):
        batches.trigger()


def test_reported_loss_is_counted_once_listed_and_logged_and_the_query_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    batches = Batches(LogEnumerator, LogReader, REPORT)
    Log.latest = 3
    assert batches.batch() == [0, 1, 2]
    Log.earliest, Log.latest = 5, 8
    with caplog.at_level(logging.WARNING, "flip27_source"):
        assert batches.batch() == [5, 6, 7]
    assert caplog.text.count("split 'log': offsets 3 to 4 have expired") == 1
    assert losses(batches) == [(2, "log", "offsets 3 to 4 have expired")]
    assert batches.logged["summary"]["dataLosses"] == 1
    batches.restart()
    Log.latest = 9
    assert batches.batch() == [8]
    assert losses(batches) == [(2, "log", "offsets 3 to 4 have expired")]
    assert (batches.holder.report() or {})["dataLosses"] == 1
    assert [row["data_losses"] for row in rows_of_view("checkpoints", batches)] == [0, 1, 1]
    (row,) = rows_of_view("losses", batches)
    assert (row["checkpoint_id"], row["split_id"], row["what"]) == (2, "log", "offsets 3 to 4 have expired")


def test_a_loss_found_by_bound_split_while_nothing_can_be_read_is_counted_once_and_stored_at_once() -> None:
    batches = Batches(LogEnumerator, LogReader, REPORT)
    Log.latest = 3
    batches.batch()
    Log.earliest = Log.latest = 5
    assert batches.batch() == []
    assert batches.batch() is None
    batches.restart()
    assert batches.batch() is None
    assert (batches.holder.report() or {})["dataLosses"] == 1
    Log.latest = 6
    assert batches.batch() == [5]
    assert len(losses(batches)) == 1


def test_a_loss_that_the_reader_finds_is_in_its_report_and_counted_when_the_batch_is_complete() -> None:
    batches = Batches(LogEnumerator, LogReader, REPORT)
    Log.latest = 6
    assert batches.trigger()
    Log.earliest = 4
    (task,) = batches.tasks()
    assert batches.attempt(task) == [4, 5]
    assert batches.attempt(task, 1) == [4, 5]
    batches.commit()
    Log.latest = 7
    batches.restart()
    assert batches.batch() == [6]
    assert losses(batches) == [(1, "log", "offsets 0 to 3 have expired")]


def test_a_loss_that_the_reader_finds_fails_its_task_by_default() -> None:
    batches = Batches(LogEnumerator, LogReader)
    Log.latest = 6
    assert batches.trigger()
    Log.earliest = 4
    with pytest.raises(DataLossError, match="split 'log': offsets 0 to 3 have expired"):
        batches.batch()


class GoneReader(SplitReader[Item]):
    """Reads the id of each split, but all data of the split ``gone`` is lost."""

    def read(self, split: Item) -> Iterator[tuple[str]]:
        yield (split.split_id,)
        if split.split_id == "gone":
            raise DataLossError("table gone was dropped", remedy="create it again")


def test_a_split_that_no_longer_exists_is_left_out_with_all_of_its_rows() -> None:
    batches = Batches(Shelf, GoneReader, REPORT)
    batches.shelve("a", "gone", "b")
    assert sorted(batches.batch() or []) == ["a", "b"]
    batches.shelve("c")
    assert batches.batch() == ["c"]
    assert losses(batches) == [(1, "gone", "table gone was dropped")]
    ledger = batches.snapshot().ledger
    assert ([item.split.split_id for item in ledger.ignored], ledger.finished) == (["gone"], 3)


def test_on_data_loss_takes_precedence_over_on_split_error() -> None:
    batches = Batches(Shelf, GoneReader, {**REPORT, "onSplitError": "quarantine"})
    batches.shelve("gone")
    assert batches.batch() == []
    batches.shelve("a")
    batches.batch()
    assert (batches.quarantined(), len(losses(batches))) == ([], 1)


class PagesReader(YieldsProgress, SplitReader[Offsets]):
    """Reads the log page by page; if its position has expired, it continues at the earliest offset."""

    def read(self, split: Offsets) -> Iterator[Any]:
        start = first_left(self.context, split)
        for offset in range(start, Log.latest):
            yield (offset,)
            yield Progress(replace(split, start=offset + 1))


class WholeLog(LogEnumerator):
    """Assigns the split without cutting it: the reader decides where a batch ends."""

    bound_split = SplitEnumerator.bound_split


def test_a_reader_of_pages_continues_after_the_expired_data() -> None:
    batches = Batches(WholeLog, PagesReader, {**REPORT, "pollInterval": "0s"})
    Log.latest = 2
    assert batches.batch() == [0, 1]
    Log.earliest, Log.latest = 4, 6
    assert batches.batch() == [4, 5]
    Log.latest = 7
    batches.restart()
    assert batches.batch() == [6]
    assert losses(batches) == [(2, "log", "offsets 2 to 3 have expired")]


class Tables(DiscoveringEnumerator[Item]):
    """Discovers parts of a table, and reports in the second round that the table was recreated."""

    def discover(self, position: int | None) -> Discovery[Item, int]:
        if position == 1:
            self.context.report_data_loss("table orders was recreated", remedy="restore the table")
        found = position or 0
        return Discovery([Item(split_id=f"part-{found}")] if found < 3 else [], min(found + 1, 3))


def drained(options: dict[str, str]) -> Batches:
    """Discover and read three parts in three bounded runs, each with one round of discovery."""
    batches = Batches(Tables, EchoReader, options, boundedness=Boundedness.BOUNDED)
    for _ in range(3):
        batches.restart()
        batches.batch()
    return batches


def test_discovery_reports_loss_from_its_thread() -> None:
    assert losses(drained(REPORT)) == [(2, None, "table orders was recreated")]


def test_discovery_that_finds_data_loss_is_not_retried_and_its_error_names_the_loss() -> None:
    with pytest.raises(DataLossError, match=r"(?s)table orders was recreated.*restore the table"):
        drained({"discoveryRetries": "9"})


def test_a_late_loss_of_a_split_that_reported_its_position_is_counted() -> None:
    """The batch is repeated after a crash, and by then a part of its rows has expired."""
    Log.latest = 6
    batches = Batches(WholeLog, PagesReader, REPORT)
    task = batches.next_task()
    assert batches.attempt(task) == [0, 1, 2, 3, 4, 5]
    Log.earliest = 2
    assert batches.attempt(task, 1) == [2, 3, 4, 5]
    batches.commit()
    batches.trigger()
    assert (batches.holder.report() or {})["dataLosses"] == 1


class Forgetful(Shelf):
    """Reports five more losses than are kept."""

    def start(self) -> None:
        for number in range(LOSSES_KEPT + 5):
            self.context.report_data_loss(f"day {number} has expired")
        self.context.assign_split(Item(split_id="a"))


def test_only_the_latest_losses_are_listed_but_all_are_counted() -> None:
    batches = Batches(Forgetful, EchoReader, REPORT)
    batches.batch()
    assert batches.logged["summary"]["dataLosses"] == LOSSES_KEPT + 5
    assert [what for _, _, what in losses(batches)][-1] == f"day {LOSSES_KEPT + 4} has expired"
    assert len(losses(batches)) == LOSSES_KEPT


def test_a_listener_of_the_query_gets_the_number_of_data_losses() -> None:
    batches = Batches(Forgetful, EchoReader, REPORT)
    batches.batch()
    told = progress_of(batches)
    assert told.data_losses == LOSSES_KEPT + 5
    assert "dataLosses" not in told.gauges


class GoneLogReader(LogReader):
    """Says the same of every range that has expired."""

    def read(self, split: Offsets) -> Iterator[tuple[int]]:
        if split.start < Log.earliest:
            raise DataLossError("retention removed it")
        return super().read(split)


class NamedRanges(LogEnumerator):
    """Its ranges have ids of their own in reports."""

    @classmethod
    def set_apart(cls, cut: Offsets) -> Offsets:
        return replace(cut, split_id=f"log@{cut.start}")


@pytest.mark.parametrize("enumerator", [LogEnumerator, NamedRanges])
def test_a_range_that_is_lost_after_its_task_has_reported_is_counted(enumerator: Any) -> None:
    batches = Batches(enumerator, GoneLogReader, REPORT)
    Log.latest = 2
    task = batches.next_task()
    assert batches.attempt(task) == [0, 1]
    Log.earliest = 2
    assert batches.attempt(task, 1) == []
    batches.commit()
    batches.trigger()
    assert (batches.holder.report() or {})["dataLosses"] == 1


def test_two_losses_of_one_split_with_the_same_text_are_counted_twice() -> None:
    batches = Batches(LogEnumerator, GoneLogReader, REPORT)
    for end in (2, 4):
        Log.latest = end
        assert batches.trigger()
        Log.earliest = end
        assert [row for task in batches.tasks() for row in batches.attempt(task)] == []
        batches.commit()
    batches.trigger()
    assert (batches.holder.report() or {})["dataLosses"] == 2


def test_a_loss_that_a_reader_of_pages_reports_until_it_has_read_on_is_counted_once() -> None:
    batches = Batches(WholeLog, PagesReader, {**REPORT, "pollInterval": "0s"})
    Log.earliest = Log.latest = 2
    assert [batches.batch(), batches.batch(), batches.batch()] == [[], [], []]
    assert losses(batches) == [(1, "log", "offsets 0 to 1 have expired")]
    assert batches.logged["summary"]["dataLosses"] == 1
