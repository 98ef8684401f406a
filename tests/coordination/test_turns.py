"""Order and turns: splits of one place keep their order, none waits for ever, and queues hold splits back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flip27_source.coordination.batch_limits import Limits
from flip27_source.coordination.context import CoordinatorSettings
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.subtask_reports import ReportDemand
from flip27_source.coordination.waiting_queues import WaitingQueues
from flip27_source.enumerator import BoundedRange, Budget
from flip27_source.enumerator_context import Boundedness
from flip27_source.options import Options
from tests.toy_sources import (
    EchoReader,
    Item,
    Shelf,
    Works,
    all_ids,
    coordinator_of,
    freeze,
    frozen,
    items,
    plan_ids,
)

FREE = None


sent = st.tuples(st.sampled_from([FREE, FREE, 0, 1, 2]), st.integers(1, 4))
rounds = st.lists(st.tuples(st.lists(sent, max_size=4), st.booleans()), max_size=12)


@given(rounds, st.integers(1, 4))
def test_splits_keep_the_order_of_their_place_and_each_place_has_its_turn(
    rounds: list[tuple[list[tuple[int | None, int]], bool]], limit: int
) -> None:
    """Whenever splits are assigned and wherever the query restarts, a place waits at most three batches."""
    coordinator = coordinator_of(parallelism=3)
    assigned: dict[int | None, list[str]] = {FREE: [], 0: [], 1: [], 2: []}
    read: dict[int | None, list[str]] = {place: [] for place in assigned}
    waits = dict.fromkeys(assigned, 0)
    place_of: dict[str, int | None] = {}
    idle = [([], False)] * sum(len(new) for new, _ in rounds)
    for new, restarts in [*rounds, *idle]:
        for place, files in new:
            split = Item(split_id=str(len(place_of)), files=files)
            place_of[split.split_id] = place
            assigned[place].append(split.split_id)
            coordinator.enumerator.context.assign_split(split, place)
        pending = freeze(coordinator, Limits(files=limit))
        if pending is None:
            break
        planned = {name: task for task, names in plan_ids(pending.snapshot.plan).items() for name in names}
        for place, ids in assigned.items():
            has_waiting = len(read[place]) < len(ids)
            # Free splits may be packed into different subtasks; their ids show the order of assignment.
            mine = sorted((name for name in planned if place_of[name] == place), key=int)
            assert all(planned[name] == place for name in mine) or place is FREE
            read[place] += mine
            assert read[place] == ids[: len(read[place])]
            waits[place] = waits[place] + 1 if has_waiting and not mine else 0
            assert waits[place] < len(assigned)
        if restarts:
            coordinator = coordinator_of(parallelism=3, restored=pending.snapshot)
        else:
            coordinator.complete(coordinator.last_checkpoint_id)
    assert read == assigned


class Logs(Shelf):
    """Logs without an end: ``rows`` is the position, and there are always more rows."""

    def bound_split(self, split: Item, budget: Budget) -> BoundedRange[Item] | None:
        at, rows = split.rows or 0, budget.rows or 0
        return BoundedRange(
            read=Item(split_id=f"{split.split_id}@{at}-{at + rows}", files=0, rows=rows),
            rest=replace(split, rows=at + rows),
        )


@given(st.integers(1, 6), st.lists(st.tuples(st.integers(1, 20), st.booleans(), st.booleans()), max_size=15))
def test_the_ranges_of_a_log_follow_each_other_and_every_log_has_its_turn(
    number: int, rounds: list[tuple[int, bool, bool]]
) -> None:
    """This holds for every limit, also with logs that are found later and with restarts in between."""
    coordinator = coordinator_of(Logs, parallelism=3)
    ends: dict[str, int] = {}
    waits: dict[str, int] = {}

    def find() -> None:
        name = f"log{len(ends)}"
        ends[name] = 0
        waits[name] = 0
        coordinator.enumerator.context.assign_split(Item(split_id=name, rows=0))

    for _ in range(number):
        find()
    for limit, is_found, restarts in rounds:
        if is_found:
            find()
        pending = frozen(coordinator, Limits(rows=limit))
        read = [name.replace("-", "@").split("@") for name in all_ids(pending.snapshot.plan)]
        assert sum(int(end) - int(start) for _, start, end in read) == limit
        for name, start, end in read:
            assert int(start) == ends[name] < int(end)
            ends[name] = int(end)
        served = {name for name, _, _ in read}
        waits = {name: 0 if name in served else waited + 1 for name, waited in waits.items()}
        assert max(waits.values()) < len(ends)
        if restarts:
            coordinator = coordinator_of(Logs, parallelism=3, restored=pending.snapshot)
        else:
            coordinator.complete(coordinator.last_checkpoint_id)


def test_eight_logs_that_lag_are_read_in_eight_tasks_of_equal_size() -> None:
    coordinator = coordinator_of(Logs, parallelism=8)
    for number in range(8):
        coordinator.enumerator.context.assign_split(Item(split_id=str(number), rows=0))
    plan = frozen(coordinator, Limits(rows=400)).snapshot.plan
    assert sorted(all_ids(plan)) == [f"{number}@0-50" for number in range(8)]
    assert len(plan.assignments) == 8


def test_a_page_whose_reports_are_missing_does_not_hold_up_the_others() -> None:
    """Its share is read again by policy, but from the end of the queue, as if it had been read."""
    coordinator = paged("lost", "other")
    read = []
    for _ in range(4):
        plan = frozen(coordinator, Limits(files=1)).snapshot.plan
        read += all_ids(plan)
        coordinator.repeat(plan.assignments[0].subtask_id)
        coordinator.complete(coordinator.last_checkpoint_id)
    assert read == ["lost", "other", "lost", "other"]


def paged(*names: str) -> SourceCoordinator[Any]:
    """A coordinator of splits that the reader bounds, all of them live."""
    coordinator: SourceCoordinator[Any] = SourceCoordinator(
        Shelf,
        CoordinatorSettings(
            boundedness=Boundedness.CONTINUOUS_UNBOUNDED,
            parallelism=2,
            max_partition_bytes=None,
            reader_type=EchoReader,
            options=Options.parse({}, ()),
            reports=ReportDemand.REQUIRED,
            reader_bounds_splits=True,
        ),
        Works(),
    )
    coordinator.start()
    for split in items(*names):
        coordinator.enumerator.context.assign_split(split)
    return coordinator


SUBTASKS = 3
ANY = None

moves = st.lists(
    st.one_of(st.sampled_from(["take", "freeze", "open"]), st.sampled_from([ANY, 0, 1, 2])), max_size=40
)


def new_queues() -> WaitingQueues[Item]:
    return WaitingQueues(SUBTASKS, last_closed=0)


def send(queues: WaitingQueues[Item], subtask_id: int | None, *names: str) -> None:
    for name in names:
        queues.send_split(Item(split_id=name), subtask_id)


def freeze_queues(queues: WaitingQueues[Item], checkpoint_id: int) -> None:
    queues.mark_for_checkpoint(checkpoint_id)
    queues.close(checkpoint_id)


def open_all(queues: WaitingQueues[Item], checkpoint_id: int) -> None:
    for subtask_id in range(SUBTASKS):
        queues.open_after(checkpoint_id, subtask_id)


def take(queues: WaitingQueues[Item]) -> str:
    """Take the split whose turn it is, and return its id."""
    subtask_id = next(iter(queues.turns))
    split = queues.turns[subtask_id].peek()
    assert split is not None
    queues.take_split(subtask_id)
    return split.split_id


def take_all(queues: WaitingQueues[Item]) -> list[str]:
    taken = []
    while queues.turns:
        taken.append(take(queues))
    return taken


def test_queues_take_turns_with_one_split_each() -> None:
    queues = new_queues()
    send(queues, 0, "a0", "b0", "c0")
    send(queues, ANY, "a", "b")
    send(queues, 1, "a1")
    assert take_all(queues) == ["a0", "a", "a1", "b0", "b", "c0"]


def test_only_splits_for_one_subtask_are_held_back_after_the_freeze() -> None:
    queues = new_queues()
    freeze_queues(queues, 1)
    send(queues, 0, "for one")
    send(queues, ANY, "for any")
    assert [item.split.split_id for item in queues.splits()] == ["for any", "for one"]
    assert take_all(queues) == ["for any"]
    queues.open_after(1, 0)
    assert take_all(queues) == ["for one"]


@given(moves)
def test_splits_sent_again_in_the_same_order_get_the_same_turns(moves: list[str | int | None]) -> None:
    """A restart sends the stored splits again in their order."""
    queues, frozen, is_frozen = new_queues(), 0, False
    for number, move in enumerate(moves):
        if move == "take":
            if queues.turns:
                take(queues)
        elif move == "freeze":
            if not is_frozen:
                frozen, is_frozen = frozen + 1, True
                freeze_queues(queues, frozen)
        elif move == "open":
            open_all(queues, frozen)
            is_frozen = False
        else:
            assert not isinstance(move, str)
            send(queues, move, str(number))
    restored = new_queues()
    for item in queues.splits():
        restored.send_split(item.split, item.subtask_id)
    open_all(queues, frozen)
    assert take_all(restored) == take_all(queues)
