"""SourceCoordinator: how the enumerator's assignments become the contents of a checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from flip27_source.coordination.batch_limits import UNLIMITED, Limits
from flip27_source.coordination.checkpoints import CheckpointMetadata
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.enumerator import Backlog, BoundedRange, Budget, SplitEnumerator
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import ContractError, ProtocolError
from tests.toy_sources import (
    MIB,
    AllAtOnce,
    Item,
    Shelf,
    all_ids,
    coordinator_of,
    freeze,
    frozen,
    items,
    plan_ids,
)


def shelf_of(coordinator: SourceCoordinator[Any]) -> Shelf:
    assert isinstance(coordinator.enumerator, Shelf)
    return coordinator.enumerator


def with_items(*names: str, kind: type[Shelf] = Shelf) -> SourceCoordinator[Any]:
    """A coordinator whose enumerator has these items on its shelf."""
    coordinator = coordinator_of(kind)
    shelf_of(coordinator).shelf.extend(items(*names))
    return coordinator


def test_if_there_is_nothing_to_read_no_checkpoint_is_made_and_no_id_is_used() -> None:
    coordinator = coordinator_of()
    assert freeze(coordinator) is None
    assert freeze(coordinator) is None
    assert (coordinator.last_checkpoint_id, coordinator.pending) == (0, None)
    shelf_of(coordinator).shelf.extend(items("a"))
    assert frozen(coordinator).checkpoint_id == 1


def test_a_checkpoint_plans_the_splits_that_the_enumerator_assigns_and_freezes_the_rest() -> None:
    coordinator = with_items("a", "b", "c")
    pending = frozen(coordinator, Limits(files=2))
    assert all_ids(pending.snapshot.plan) == ["a", "b"]
    assert pending.snapshot.enumerator_state == [] or pending.snapshot.ledger.waiting == ()
    left = [item.split for item in pending.snapshot.ledger.waiting] + pending.snapshot.enumerator_state
    assert left == items("c")
    assert (pending.summary.splits, pending.summary.files) == (2, 2)


def test_a_data_loss_is_stored_even_if_there_is_nothing_to_read() -> None:
    coordinator = coordinator_of()
    coordinator.report_data_loss("rows 1 to 3", None)
    assert coordinator.gauges["dataLosses"] == 1
    pending = frozen(coordinator)
    assert [loss.what for loss in pending.snapshot.ledger.losses] == ["rows 1 to 3"]
    coordinator.complete(1)
    coordinator.report_data_loss("rows 1 to 3", None)  # the same one, found again
    assert freeze(coordinator) is None
    restored = coordinator_of(restored=pending.snapshot)
    restored.complete(1)
    assert freeze(restored) is None


def test_a_split_assigned_after_the_freeze_is_in_the_next_batch_S4() -> None:
    coordinator = with_items("a")
    first = frozen(coordinator)
    shelf_of(coordinator).context.assign_split(Item(split_id="late"), 1)
    assert all_ids(first.snapshot.plan) == ["a"]
    coordinator.complete(1)
    assert plan_ids(frozen(coordinator).snapshot.plan) == {1: ["late"]}


def test_splits_assigned_on_completion_survive_a_restart_from_the_next_checkpoint() -> None:
    class AssignsOnComplete(Shelf):
        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            self.context.assign_splits({1: items(f"first-{checkpoint_id}", f"second-{checkpoint_id}")})

    coordinator = with_items("a", kind=AssignsOnComplete)
    frozen(coordinator)
    coordinator.complete(1)
    second = frozen(coordinator, Limits(files=1))
    assert plan_ids(second.snapshot.plan) == {1: ["first-1"]}
    # Checkpoint 2 contains what the completion of 1 assigned; after the restart the enumerator is notified
    # that 2 is complete (R7).
    restored = coordinator_of(AssignsOnComplete, restored=second.snapshot)
    assert plan_ids(frozen(restored).snapshot.plan) == {1: ["second-1", "first-2", "second-2"]}


def test_splits_assigned_on_request_are_balanced_and_pinned_splits_are_not() -> None:
    coordinator = coordinator_of()
    shelf = shelf_of(coordinator)
    shelf.shelf.extend(Item(split_id=name, bytes=10 * MIB) for name in "abcd")
    shelf.context.assign_split(Item(split_id="pinned", bytes=10 * MIB), 1)
    plan = plan_ids(frozen(coordinator).snapshot.plan)
    assert sorted(map(len, plan.values())) == [2, 3]
    assert "pinned" in plan[1]


def test_one_request_may_be_answered_with_many_splits() -> None:
    coordinator = with_items("a", "b", "c", kind=AllAtOnce)
    first = frozen(coordinator, Limits(files=2))
    assert all_ids(first.snapshot.plan) == ["a", "b"]
    assert first.summary.waiting_splits == 1
    assert all_ids(frozen(coordinator_of(AllAtOnce, restored=first.snapshot)).snapshot.plan) == ["c"]


def test_complete_is_idempotent_and_notifies_the_enumerator_once_S33_R7() -> None:
    coordinator = with_items("a")
    frozen(coordinator)
    assert [coordinator.complete(checkpoint_id) for checkpoint_id in (1, 1, 0)] == [True, False, False]
    assert shelf_of(coordinator).calls.count("complete 1") == 1


def test_completing_a_checkpoint_that_was_never_triggered_is_a_programming_error_S31() -> None:
    coordinator = with_items("a")
    with pytest.raises(ProtocolError, match=r"checkpoint 1 \(the newest is 0\): 'complete, an unknown id'"):
        coordinator.complete(1)


@pytest.mark.parametrize("checkpoint_id", [0, 1, 3])
def test_a_checkpoint_id_other_than_the_next_is_a_programming_error_S31(checkpoint_id: int) -> None:
    coordinator = with_items("a", "b")
    frozen(coordinator, Limits(files=1))
    coordinator.complete(1)
    with pytest.raises(
        ProtocolError, match=rf"checkpoint {checkpoint_id} \(the newest is 1\): 'trigger, another id'"
    ):
        coordinator.checkpoint(CheckpointMetadata(checkpoint_id=checkpoint_id, timestamp_ms=0), UNLIMITED)


def test_only_one_checkpoint_is_pending_at_a_time_S26() -> None:
    coordinator = with_items("a", "b")
    frozen(coordinator, Limits(files=1))
    with pytest.raises(
        ProtocolError, match=r"checkpoint 2 .*'trigger, the next id' is not allowed while one is pending"
    ):
        freeze(coordinator)


def test_any_call_before_start_and_a_second_start_are_programming_errors_S56() -> None:
    coordinator = coordinator_of(start=False)
    calls: list[Callable[[], object]] = [
        lambda: freeze(coordinator),
        lambda: coordinator.complete(0),
        lambda: coordinator.handle_result(lambda *_: None, None, None),
    ]
    for call in calls:
        with pytest.raises(ProtocolError, match="before it was started"):
            call()
    coordinator.start()
    with pytest.raises(ProtocolError, match="started twice"):
        coordinator.start()


def test_start_comes_before_the_readers_and_close_is_passed_on_S44_S64() -> None:
    coordinator = coordinator_of(parallelism=3)
    coordinator.close()
    assert shelf_of(coordinator).calls == ["start", "add_reader 0", "add_reader 1", "add_reader 2", "close"]
    assert sorted(shelf_of(coordinator).context.registered_readers) == [0, 1, 2]


@pytest.mark.parametrize("subtask_id", [-1, 2, 99])
def test_assigning_to_a_subtask_that_does_not_exist_is_an_error_and_leaves_the_split_free_S63(
    subtask_id: int,
) -> None:
    coordinator = coordinator_of(parallelism=2)
    context = shelf_of(coordinator).context
    with pytest.raises(ContractError, match=f"subtask {subtask_id} is not registered: there are 2"):
        context.assign_split(Item(split_id="a"), subtask_id)
    with pytest.raises(ContractError, match="is not registered"):
        context.assign_splits({subtask_id: items("a")})
    context.assign_split(Item(split_id="a"), 0)
    assert all_ids(frozen(coordinator).snapshot.plan) == ["a"]


def test_a_split_in_flight_cannot_be_assigned_again_and_a_completed_split_can() -> None:
    coordinator = with_items("a")
    frozen(coordinator)
    context = shelf_of(coordinator).context
    with pytest.raises(ContractError, match="split 'a' was assigned while"):
        context.assign_split(Item(split_id="a"), 0)
    coordinator.complete(1)
    context.assign_split(Item(split_id="a"), 0)


@pytest.mark.parametrize("boundedness", Boundedness)
def test_a_subtask_that_received_no_split_requests_one_again_at_the_next_checkpoint(
    boundedness: Boundedness,
) -> None:
    """An empty request does not end a subtask: no reader outlives its batch, so none is told to finish."""
    coordinator = coordinator_of(boundedness=boundedness)
    assert freeze(coordinator) is None
    shelf_of(coordinator).shelf.extend(items("a", "b", "c"))
    assert all_ids(frozen(coordinator).snapshot.plan) == ["a", "b", "c"]
    coordinator.complete(1)
    assert freeze(coordinator) is None


def test_a_restart_with_fewer_subtasks_keeps_every_pinned_split_S76() -> None:
    wide = coordinator_of(parallelism=5)
    context = shelf_of(wide).context
    for subtask_id in range(5):
        context.assign_split(Item(split_id=f"first-{subtask_id}"), subtask_id)
        context.assign_split(Item(split_id=f"second-{subtask_id}"), subtask_id)
    snapshot = frozen(wide, Limits(files=1)).snapshot
    assert len(snapshot.ledger.waiting) == 9
    narrow = coordinator_of(parallelism=2, restored=snapshot)
    plan = plan_ids(frozen(narrow).snapshot.plan)
    expected = sorted(f"{n}-{i}" for n in ("first", "second") for i in range(5))
    assert sorted(all_ids(snapshot.plan) + plan[0] + plan[1]) == expected
    assert {name for name in plan[1] if name.startswith("second")} == {"second-1", "second-3"}


class Topics(Shelf):
    """Unbounded splits: ``rows`` is the position; a batch reads at most ten rows and at most its budget."""

    def bound_split(self, split: Item, budget: Budget) -> BoundedRange[Item] | None:
        at = split.rows or 0
        rows = min(10, 10 if budget.rows is None else budget.rows)
        if rows == 0:
            return None
        return BoundedRange(
            read=Item(split_id=split.split_id, files=0, rows=rows), rest=replace(split, rows=at + rows)
        )


def positions(splits: Sequence[Item]) -> dict[str, int | None]:
    return {split.split_id: split.rows for split in splits}


def test_live_splits_continue_where_the_last_batch_ended() -> None:
    coordinator = coordinator_of(Topics)
    shelf_of(coordinator).shelf.extend([Item(split_id="t0", rows=0), Item(split_id="t1", rows=0)])
    first = frozen(coordinator)
    assert positions(first.snapshot.ledger.live) == {"t0": 10, "t1": 10}
    assert first.summary.live_splits == 2
    assert first.summary.finished_splits == 0
    restored = coordinator_of(Topics, restored=first.snapshot)
    assert positions(frozen(restored).snapshot.ledger.live) == {"t0": 20, "t1": 20}


def test_a_rest_whose_id_differs_from_its_split_is_refused() -> None:
    class Renames(Topics):
        def bound_split(self, split: Item, budget: Budget) -> BoundedRange[Item] | None:
            return BoundedRange(read=split, rest=Item(split_id="other"))

    coordinator = with_items("t0", kind=Renames)
    with pytest.raises(ContractError, match="split 't0' returned a rest with the id 'other'"):
        freeze(coordinator)


class Ranges(Topics):
    """Gives the split that is read a name that contains its range, and ends after one batch."""

    def bound_split(self, split: Item, budget: Budget) -> BoundedRange[Item] | None:
        return BoundedRange(read=Item(split_id=f"{split.split_id}@0-10", rows=10), rest=None)


def test_a_live_split_that_has_ended_may_be_found_again_whatever_the_id_of_its_range() -> None:
    coordinator = with_items("t0", kind=Ranges)
    frozen(coordinator)
    coordinator.complete(1)
    shelf_of(coordinator).shelf.append(Item(split_id="t0"))
    assert all_ids(frozen(coordinator).snapshot.plan) == ["t0@0-10"]


def test_ranges_of_a_split_that_stays_live_are_not_counted_as_finished_splits() -> None:
    class LivesOn(Ranges):
        def bound_split(self, split: Item, budget: Budget) -> BoundedRange[Item] | None:
            return BoundedRange(read=Item(split_id=f"{split.split_id}@0-10", rows=10), rest=split)

    assert frozen(with_items("t0", kind=LivesOn)).summary.finished_splits == 0


def test_an_unbounded_split_assigned_without_a_request_stays_with_its_subtask() -> None:
    coordinator = coordinator_of(Topics, parallelism=3)
    shelf_of(coordinator).context.assign_split(Item(split_id="t0", rows=0), 2)
    assert plan_ids(frozen(coordinator).snapshot.plan) == {2: ["t0"]}


def test_a_live_split_with_nothing_to_read_makes_no_batch_and_stays_live() -> None:
    class Quiet(Topics):
        has_rows = False

        def bound_split(self, split: Item, budget: Budget) -> BoundedRange[Item] | None:
            return super().bound_split(split, budget) if self.has_rows else None

    coordinator = coordinator_of(Quiet)
    shelf_of(coordinator).shelf.append(Item(split_id="t0", rows=0))
    assert freeze(coordinator) is None
    assert freeze(coordinator) is None
    assert isinstance(coordinator.enumerator, Quiet)
    coordinator.enumerator.has_rows = True
    assert positions(frozen(coordinator).snapshot.ledger.live) == {"t0": 10}


def test_many_waiting_splits_are_planned_with_one_request_for_each() -> None:
    """There is at most one request for each split of the batch and one more for each subtask."""

    class Counts(Shelf):
        requests = 0

        def handle_split_request(self, subtask_id: int) -> None:
            self.requests += 1
            super().handle_split_request(subtask_id)

    coordinator = coordinator_of(Counts, parallelism=4)
    shelf_of(coordinator).shelf.extend(Item(split_id=str(i)) for i in range(20_000))
    assert frozen(coordinator, Limits(files=1000)).summary.splits == 1000
    assert isinstance(coordinator.enumerator, Counts)
    assert coordinator.enumerator.requests <= 1000 + 4
    assert len(coordinator.enumerator.shelf) >= 20_000 - 1001


def calls_of_an_idle_checkpoint(parallelism: int) -> int:
    """The number of Python function calls for a checkpoint when there is nothing to read."""
    coordinator = coordinator_of(parallelism=parallelism)
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        assert freeze(coordinator) is None
    finally:
        sys.setprofile(None)
    return calls


def test_the_cost_of_an_idle_checkpoint_is_proportional_to_the_number_of_subtasks() -> None:
    """Spark calls 75 times a second: work that grew with the square of 200 subtasks would overload a core."""
    assert calls_of_an_idle_checkpoint(200) < 3 * calls_of_an_idle_checkpoint(100)


def test_splits_assigned_while_a_batch_runs_are_in_the_backlog_with_or_without_a_subtask() -> None:
    coordinator = with_items("a")
    frozen(coordinator)
    assign = shelf_of(coordinator).context.assign_split

    def found(_result: object, _error: BaseException | None) -> None:
        assign(Item(split_id="for any subtask"))
        assign(Item(split_id="for one subtask"), 1)

    coordinator.handle_result(found, None, None)
    assert coordinator.gauges["backlogSplits"] == 2


def test_the_backlog_is_determined_again_when_a_batch_is_complete() -> None:
    class Counts(Shelf):
        def backlog(self, live: Sequence[Item]) -> Backlog:
            return Backlog(splits=self.calls.count("complete 1"))

    coordinator = with_items("a", kind=Counts)
    frozen(coordinator)
    assert coordinator.gauges["backlogSplits"] == 0
    coordinator.complete(1)
    assert coordinator.gauges["backlogSplits"] == 1


def test_gauges_of_the_enumerator_are_in_the_metrics() -> None:
    class Measures(Shelf):
        def snapshot_state(self, checkpoint_id: int) -> list[Item]:
            self.context.metrics.gauge("lag", 7)
            self.context.metrics.count("rounds")
            self.context.metrics.count("rounds", 2)
            return super().snapshot_state(checkpoint_id)

    coordinator = with_items("a", kind=Measures)
    assert frozen(coordinator).summary.gauges == {"lag": 7, "rounds": 3}
    assert coordinator.gauges == {"lag": 7, "rounds": 3}


def test_the_default_bound_reads_a_split_whole() -> None:
    split = Item(split_id="a")
    enumerator = shelf_of(coordinator_of())
    assert SplitEnumerator.bound_split(enumerator, split, Budget()) == BoundedRange(read=split, rest=None)
