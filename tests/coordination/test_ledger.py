"""The ledger's law: at every checkpoint a split is in exactly one place, whatever happens in between.

The law is checked on stored data, because a restart has nothing else: the enumerator's state, the ledger,
and the plans of a checkpoint and its ancestors together contain every split once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_source.coordination.batch_limits import UNLIMITED, Limits
from flip27_source.coordination.checkpoints import LedgerState, Snapshot
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.ledger import Ledger
from flip27_source.enumerators.sequence import SequenceEnumerator
from flip27_source.errors import ContractError, ProtocolError
from flip27_source.options import Options
from flip27_source.source_options import CORE_OPTIONS
from tests.toy_sources import Item, Shelf, all_ids, coordinator_of, freeze, items


class Numbers(Shelf):
    """Makes splits 0, 1, 2, ... on demand; its state contains the number of the next one."""

    def __init__(self, context: Any, options: Options, state: list[Item] | None = None) -> None:
        known = list(state or ())
        self.next = int(known.pop().split_id) if known else 0
        super().__init__(context, options, known)

    def snapshot_state(self, checkpoint_id: int) -> list[Item]:
        return [*self.shelf, Item(split_id=str(self.next))]

    def make(self) -> Item:
        self.next += 1
        return Item(split_id=str(self.next - 1))


class World:
    """A driver and what it has made durable; it crashes and goes back by a batch as Spark makes it."""

    def __init__(self) -> None:
        self.chain: list[Snapshot[Item]] = []
        self.coordinator: SourceCoordinator[Item] = coordinator_of(Numbers)

    @property
    def enumerator(self) -> Numbers:
        found = self.coordinator.enumerator
        assert isinstance(found, Numbers)
        return found

    def play(self, step: str) -> None:
        """Play a step: N new split, P split pinned to subtask 1, F freeze, C complete, R restart, X abort."""
        pending = self.coordinator.pending
        if step == "N":
            self.enumerator.shelf.append(self.enumerator.make())
        elif step == "P":
            self.enumerator.context.assign_split(self.enumerator.make(), 1)
        elif step == "F" and pending is None:
            made = freeze(self.coordinator, Limits(files=1))
            if made is not None:
                self.chain.append(made.snapshot)
                self.check()
        elif step == "C" and pending is not None:
            assert self.coordinator.complete(pending.checkpoint_id)
        elif step == "R":
            self.stand_at_the_end_of_the_chain()
        elif step == "X" and pending is not None:
            self.chain.pop()
            self.stand_at_the_end_of_the_chain()

    def stand_at_the_end_of_the_chain(self) -> None:
        self.coordinator = coordinator_of(Numbers, restored=self.chain[-1] if self.chain else None)

    def check(self) -> None:
        """Check the law at the newest checkpoint."""
        newest = self.chain[-1]
        places = Counter(item.split_id for item in newest.enumerator_state[:-1])
        places.update(item.split.split_id for item in newest.ledger.waiting)
        places.update(split.split_id for split in newest.ledger.live)
        for ancestor in self.chain:
            places.update(all_ids(ancestor.plan))
        made = int(newest.enumerator_state[-1].split_id)
        assert places == Counter(str(number) for number in range(made))
        planned = sum(len(all_ids(ancestor.plan)) for ancestor in self.chain)
        assert newest.ledger.finished == planned

    def read_to_the_end(self) -> list[str]:
        """Run batches until nothing is left; return the splits that all batches have read."""
        for _ in range(100):
            if self.coordinator.pending is not None:
                self.coordinator.complete(self.coordinator.pending.checkpoint_id)
            made = freeze(self.coordinator)
            if made is None:
                break
            self.chain.append(made.snapshot)
            self.check()
        return sorted(itertools.chain(*(all_ids(snapshot.plan) for snapshot in self.chain)), key=int)


@pytest.mark.parametrize("events", [5, pytest.param(6, marks=pytest.mark.long)])
def test_a_split_is_in_exactly_one_place_in_every_order_of_events_I11_S57_S91(events: int) -> None:
    """The law holds in every order of new and pinned splits, freezes, completions, restarts and aborts."""
    for order in itertools.product("NPFCRX", repeat=events):
        if order[0] not in "NP":
            continue  # without a split the other steps have no effect
        world = World()
        for step in order:
            world.play(step)
        made = world.enumerator.next
        assert world.read_to_the_end() == [str(number) for number in range(made)], "".join(order)


@settings(max_examples=150, derandomize=True)
@given(
    st.lists(st.sampled_from("FCRX"), max_size=25),
    st.integers(1, 4),
    st.integers(0, 40),
    st.one_of(st.none(), st.integers(1, 7)),
)
def test_ranges_of_live_splits_cover_every_number_once_in_every_order(
    order: list[str], splits: int, end: int, rows: int | None
) -> None:
    """The same law for unbounded splits: what was read and what is left contain each number once."""
    raw = {"end": str(end), "numSplits": str(splits), "rowsPerSplit": "5"}
    options = Options.parse(raw, (*CORE_OPTIONS, *SequenceEnumerator.options))
    chain: list[Snapshot[Any]] = []

    def standing() -> SourceCoordinator[Any]:
        restored = chain[-1] if chain else None
        return coordinator_of(SequenceEnumerator, restored=restored, options=options)

    coordinator = standing()
    for step in [*order, *"CF" * 60]:
        pending = coordinator.pending
        if step == "F" and pending is None:
            made = freeze(coordinator, Limits(rows=rows))
            if made is not None:
                chain.append(made.snapshot)
                _check_numbers(chain, end)
        elif step == "C" and pending is not None:
            coordinator.complete(pending.checkpoint_id)
        elif step == "R":
            coordinator = standing()
        elif step == "X" and pending is not None:
            chain.pop()
            coordinator = standing()
    read = [number for snapshot in chain for number in _numbers(snapshot)]
    assert sorted(read) == list(range(end))


def _numbers(snapshot: Snapshot[Any]) -> list[int]:
    splits = [split for item in snapshot.plan.assignments for split in item.splits]
    return [number for split in splits for number in range(split.next, split.end, split.step)]


def _check_numbers(chain: list[Snapshot[Any]], end: int) -> None:
    places = Counter(number for snapshot in chain for number in _numbers(snapshot))
    waiting = [item.split for item in chain[-1].ledger.waiting]
    for split in [*chain[-1].ledger.live, *waiting, *chain[-1].enumerator_state]:
        places.update(range(split.next, split.end, split.step))
    assert places == Counter(range(end))


def test_completing_an_older_checkpoint_leaves_the_pending_plan_alone() -> None:
    ledger: Ledger[Item] = Ledger()
    ledger.assigned(Item(split_id="a"))
    ledger.planned(2, ["a"])
    ledger.completed(1)
    with pytest.raises(ContractError):
        ledger.assigned(Item(split_id="a"))


def test_there_is_one_plan_at_a_time() -> None:
    ledger: Ledger[Item] = Ledger()
    ledger.planned(1, ["a"])
    with pytest.raises(ProtocolError, match="checkpoint 2 was planned while 1 is pending"):
        ledger.planned(2, ["b"])


def test_a_live_split_is_not_finished_and_keeps_its_newest_position() -> None:
    ledger: Ledger[Item] = Ledger(LedgerState(live=(Item(split_id="topic-0", rows=1),)))
    ledger.moved("topic-0", Item(split_id="topic-0", rows=2))
    ledger.planned(1, ["topic-0"])
    ledger.completed(1)
    assert ledger.live == (Item(split_id="topic-0", rows=2),)
    assert ledger.finished == 0
    with pytest.raises(ContractError):
        ledger.assigned(Item(split_id="topic-0"))


def test_a_live_split_that_ends_is_finished_with_its_last_batch() -> None:
    ledger: Ledger[Item] = Ledger(LedgerState(live=tuple(items("topic-0")), finished=7))
    ledger.moved("topic-0", None)
    ledger.planned(1, ["topic-0"])
    ledger.completed(1)
    assert (ledger.live, ledger.finished) == ((), 8)
    ledger.assigned(Item(split_id="topic-0"))


def test_limits_are_unlimited_by_default() -> None:
    assert Limits() == UNLIMITED


def test_a_split_is_in_flight_from_its_assignment_until_its_batch_is_complete_S60() -> None:
    """A split cannot be assigned again from its assignment until the checkpoint that plans it is complete."""
    ledger = Ledger[Item]()
    a, b, c = items("a", "b", "c")
    for split in (a, b):
        ledger.assigned(split)
    ledger.planned(1, ["a", "b"])
    ledger.assigned(c)  # after the freeze, so it is not part of checkpoint 1
    ledger.completed(1)
    assert ledger.finished == 2
    ledger.assigned(a)
    with pytest.raises(ContractError, match="split 'c'"):
        ledger.assigned(c)


def test_a_split_of_several_ranges_is_finished_once_with_its_last_range() -> None:
    ledger = Ledger[Item]()
    (cut,) = items("a")
    for number, ranges in enumerate((["a"] * 3, ["a"] * 2, ["a"])):
        ledger.planned(number, ranges)
        unread = ranges[1:]
        for _ in unread:
            ledger.range_unread(cut)
        assert ledger.finished == (not unread)
        ledger.completed(number)
        ledger.ranges.clear()
    assert ledger.finished == 1


def test_a_returned_split_is_neither_finished_nor_in_flight_and_other_splits_are_unaffected_S60() -> None:
    ledger = Ledger[Item]()
    for split in items("a", "b"):
        ledger.assigned(split)
    ledger.planned(1, ["a", "b"])
    ledger.taken_back("b")
    assert ledger.finished == 1
    ledger.assigned(Item(split_id="b"))
    with pytest.raises(ContractError, match="split 'a'"):
        ledger.assigned(Item(split_id="a"))


def test_a_restored_plan_that_is_complete_returns_no_splits_S59_S60() -> None:
    """The splits of a completed checkpoint are finished, whatever happens to its tasks afterwards."""
    ledger = Ledger(LedgerState(finished=2))
    ledger.restores_plan(7, ["a", "b"])
    with pytest.raises(ContractError, match="split 'a'"):
        ledger.assigned(Item(split_id="a"))
    ledger.completed(7)
    assert (ledger.finished, ledger.live) == (2, ())
