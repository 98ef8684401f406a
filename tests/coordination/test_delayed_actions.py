"""Delayed actions on plain values: no action is lost or performed early, whatever the order of events."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_source.coordination import action_pages, delayed_actions
from flip27_source.coordination.action_pages import ActionGroup, ActionPage, kept_where, merged
from flip27_source.coordination.actions import ActionPolicy, PendingActions
from flip27_source.coordination.delayed_actions import DelayedActions
from flip27_source.errors import ProtocolError
from flip27_source.values.stored_values import StoredValues

DELAY_MS = 10


def stored() -> StoredValues:
    return StoredValues(str, "an action")


class Run:
    """The actions of one query across crashes, with the times at which each was added and performed."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.checkpoint_id = 0
        self.count = 0
        self.since: dict[str, int] = {}
        self.performed: dict[str, int] = {}
        self.document: tuple[tuple[ActionPage, ...], tuple[str, ...]] = ((), ())
        self.unsaved: list[str] = []
        self.again: list[str] = []
        self.start()

    def start(self) -> None:
        """Start a driver from the newest document; the completion of its batch is reported again."""
        pages, due = self.document
        self.actions = PendingActions(ActionPolicy(), delayed=DelayedActions(DELAY_MS, stored, pages))
        for action in due:
            self.actions.add(action, 0)
        self.taken = list(self.actions.take_due(0))
        if self.again:
            self.delay(self.again)

    def complete(self, count: int) -> None:
        """Complete a batch that adds ``count`` delayed actions."""
        new = [str(self.count + number) for number in range(count)]
        self.count += count
        self.again = new
        self.delay(new)

    def delay(self, new: list[str]) -> None:
        self.checkpoint_id += 1
        for action in new:
            self.since[action] = self.now_ms
            self.actions.add_delayed(action, self.checkpoint_id)
        self.take()

    def take(self) -> None:
        for number, action in self.actions.take_delayed(self.now_ms):
            assert self.now_ms >= self.since[action] + DELAY_MS, f"{action} is early"
            self.taken.append((number, action))

    def end(self, place: int) -> None:
        if self.taken:
            number, action = self.taken.pop(place % len(self.taken))
            self.performed[action] = self.now_ms
            self.actions.ended(number, None)

    def store(self) -> None:
        due = tuple(item.action for item in self.actions.pending)
        self.document = (self.actions.delayed.stored(), due)
        self.again = []


MOVES = st.one_of(
    st.tuples(st.just("complete"), st.integers(1, 5)),
    st.tuples(st.just("pass"), st.integers(1, 7)),
    st.tuples(st.just("end"), st.integers(0, 9)),
    st.just(("store", 0)),
    st.just(("crash", 0)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(MOVES, max_size=40))
def test_every_action_is_performed_after_its_delay_despite_crashes(moves: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(action_pages, "PAGE_ACTIONS", 8)
        patch.setattr(delayed_actions, "MOST_TAKEN", 4)
        run = Run()
        for what, number in moves:
            if what == "complete":
                run.store()  # the document of a batch comes before its completion
                run.complete(number)
            elif what == "pass":
                run.now_ms += number
                run.take()
            elif what == "end":
                run.end(number)
            elif what == "store":
                run.store()
            else:
                run.start()
        while len(run.actions.delayed) or run.actions.pending:
            run.now_ms += DELAY_MS
            run.take()
            while run.taken:
                run.end(0)
        assert run.performed.keys() == run.since.keys()
        run.store()
        assert run.document == ((), ())


def page(*groups: tuple[int, int, int]) -> ActionPage:
    """A page of groups, each given by its time, its checkpoint and its number of actions."""
    raw = msgspec.Raw
    return ActionPage.of([ActionGroup(since, due, [raw(b'"x"')] * count) for since, due, count in groups])


def sizes(pages: list[ActionPage]) -> list[int]:
    return [found.count for found in pages]


def test_small_pages_are_merged_in_order_and_full_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_pages, "PAGE_ACTIONS", 16)
    pages: list[ActionPage] = []
    written = 0
    for number in range(100):
        before = {found.actions for found in pages}
        pages = merged([*pages, page((number, number, 1))])
        written += sum(found.count for found in pages if found.actions not in before)
    assert sum(sizes(pages)) == 100
    assert len(pages) <= 2 * 100 / 16 + 4
    assert written <= 100 * 5
    assert [group.since_ms for found in pages for group in found.groups()] == list(range(100))


def test_a_merged_page_leaves_out_actions_that_are_done() -> None:
    (one,) = merged([replace(page((1, 1, 2), (2, 2, 1)), done=2), page((3, 3, 1))])
    assert [(group.since_ms, len(group.actions)) for group in one.groups()] == [(2, 1), (3, 1)]
    assert (one.count, one.done, one.since_ms) == (2, 0, 2)


def test_only_pages_that_lose_actions_are_written_again() -> None:
    first, second, third = page((1, 1, 2)), page((2, 2, 2)), page((3, 3, 1), (4, 4, 1))
    kept = kept_where(
        (first, second, third), lambda group: [group.due_checkpoint_id in (1, 4)] * len(group.actions)
    )
    assert kept[0] is first
    assert [[group.due_checkpoint_id for group in found.groups()] for found in kept] == [[1], [4]]


def taken(actions: PendingActions, now_ms: int) -> dict[str, int]:
    return {action: number for number, action in actions.take_delayed(now_ms)}


def restored(*pages: ActionPage) -> PendingActions:
    return PendingActions(ActionPolicy(), delayed=DelayedActions(DELAY_MS, stored, pages))


def test_the_remaining_actions_of_a_page_keep_their_own_due_time_when_earlier_ones_are_done() -> None:
    actions = restored(replace(page((0, 1, 1), (5, 2, 1)), done=1))
    assert taken(actions, DELAY_MS) == {}
    assert len(taken(actions, DELAY_MS + 5)) == 1


def test_an_unfinished_action_stays_stored_although_later_actions_have_finished() -> None:
    actions = PendingActions(ActionPolicy(), delayed=DelayedActions(DELAY_MS, stored))
    for action in "abc":
        actions.add_delayed(action, 1)
    taken(actions, 0)
    pages = actions.delayed.stored()
    numbers = taken(actions, DELAY_MS)
    actions.ended(numbers["a"], None)
    actions.ended(numbers["c"], None)
    assert [found.done for found in actions.delayed.stored()] == [1]
    assert pages[0].actions == actions.delayed.stored()[0].actions
    actions.ended(numbers["b"], None)
    assert actions.delayed.stored() == ()


def test_an_action_that_is_due_before_any_document_contains_it_is_pending_until_it_ends() -> None:
    actions = PendingActions(ActionPolicy(), delayed=DelayedActions(DELAY_MS, stored))
    actions.add_delayed("a", 1)
    taken(actions, 0)
    numbers = taken(actions, DELAY_MS)
    assert [item.action for item in actions.pending] == ["a"]
    actions.ended(numbers["a"], None)
    assert (actions.pending, actions.delayed.stored()) == ((), ())


def test_actions_cannot_be_stored_before_their_start_time_is_known() -> None:
    actions = DelayedActions(DELAY_MS, stored)
    actions.add("a", 1)
    with pytest.raises(ProtocolError, match="before the time from which they wait is known"):
        actions.stored()
