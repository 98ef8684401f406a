"""What an enumerator is told of splits that could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.subtask_reports import SplitResult, SplitStatus, SubtaskReport
from tests.coordination.test_coordinator import Topics, shelf_of
from tests.toy_sources import Item, Shelf, coordinator_of, frozen, items


class Listens(Shelf):
    """Notes what it is told of splits."""

    def notify_splits_finished(self, checkpoint_id: int, splits: Sequence[Item]) -> None:
        self.note("finished", checkpoint_id, splits)

    def notify_splits_quarantined(self, checkpoint_id: int, splits: Sequence[Item]) -> None:
        self.note("quarantined", checkpoint_id, splits)

    def notify_splits_given_up(self, checkpoint_id: int, splits: Sequence[Item]) -> None:
        self.note("given up", checkpoint_id, splits)

    def note(self, what: str, checkpoint_id: int, splits: Sequence[Item]) -> None:
        self.calls.append(f"{what} {checkpoint_id}: {[split.split_id for split in splits]}")


class ListensToTopics(Listens, Topics):
    """Gives a range that could not be read a name with its length."""

    @classmethod
    def set_apart(cls, cut: Item) -> Item:
        return replace(cut, split_id=f"{cut.split_id}/{cut.rows}")


def told(coordinator: SourceCoordinator[Any]) -> list[str]:
    return [call for call in shelf_of(coordinator).calls if "[" in call]


def completed(coordinator: SourceCoordinator[Any], *results: SplitResult[Any]) -> None:
    """The only subtask of the next batch reports these results."""
    pending = frozen(coordinator)
    (assignment,) = pending.snapshot.plan.assignments
    coordinator.acknowledge(
        SubtaskReport(
            checkpoint_id=pending.checkpoint_id, subtask_id=assignment.subtask_id, results=tuple(results)
        )
    )
    assert coordinator.complete(pending.checkpoint_id)


def result(split_id: str, status: SplitStatus, part: Item | None = None) -> SplitResult[Item]:
    return SplitResult(split_id=split_id, status=status, position=part, attempts=1, error="disk on fire")


def test_only_what_is_in_the_quarantine_counts_as_quarantined_and_what_is_ignored_is_given_up_too() -> None:
    coordinator = coordinator_of(Listens)
    shelf_of(coordinator).shelf.extend(items("a", "b", "c"))
    completed(coordinator, result("b", SplitStatus.FAILED), result("c", SplitStatus.IGNORED))
    assert told(coordinator) == ["finished 1: ['a']", "quarantined 1: ['b']", "given up 1: ['b', 'c']"]


def test_a_part_that_a_reader_has_quarantined_is_not_a_split_that_was_given_up() -> None:
    coordinator = coordinator_of(Listens)
    shelf_of(coordinator).shelf.extend(items("a"))
    completed(coordinator, result("a#7", SplitStatus.FAILED, Item(split_id="a#7")))
    assert told(coordinator) == ["finished 1: ['a']", "quarantined 1: ['a#7']"]


def test_a_quarantined_range_has_the_name_under_which_it_can_be_retried() -> None:
    coordinator = coordinator_of(ListensToTopics)
    shelf_of(coordinator).shelf.append(Item(split_id="t0", rows=0))
    apart = Item(split_id="t0/10", files=0, rows=10)
    completed(coordinator, result("t0/10", SplitStatus.FAILED, apart))
    assert told(coordinator) == ["finished 1: []", "quarantined 1: ['t0/10']"]
    assert [split.split_id for split in coordinator.standing(0).ledger.live] == ["t0"]
