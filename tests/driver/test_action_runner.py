"""Pending actions: side effects after a checkpoint is complete, at least once, whatever crashes (R7)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from flip27_source.coordination.actions import ActionPolicy, PendingAction, PendingActions
from flip27_source.driver.background import ActionRunner
from flip27_source.driver.environment import Environment
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerator_mixins import PerformsActions
from flip27_source.errors import ActionError
from tests.deadline import until
from tests.driver.batches import Batches
from tests.toy_sources import EchoReader, Item, Shelf


class Archives(PerformsActions[str], Shelf):
    """Archives every split that was read; actions in ``broken`` fail."""

    done: ClassVar[list[str]] = []
    broken: ClassVar[set[str]] = set()
    changed: ClassVar[threading.Condition] = threading.Condition()

    def notify_splits_finished(self, checkpoint_id: int, splits: Sequence[Item]) -> None:
        for split in splits:
            self.context.perform_after_completion(f"archive {split.split_id}")

    def perform(self, action: str) -> None:
        with self.changed:
            self.done.append(action)
            self.changed.notify_all()
        if action in self.broken:
            raise OSError("archive is full")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Archives.done.clear()
    Archives.broken.clear()


def performed(*actions: str) -> bool:
    with Archives.changed:
        return Archives.changed.wait_for(lambda: sorted(Archives.done) == sorted(actions), timeout=20)


def archiving(**options: str) -> Batches:
    return Batches(Archives, EchoReader, options)


def stored_actions(batches: Batches) -> list[Any]:
    return list(batches.snapshot().actions)


def test_action_threads_read_nothing_that_the_coordinators_thread_changes() -> None:
    """The holder may reset at any moment: a thread of actions could find no coordinator, or another one."""
    touched: list[str] = []

    class Watched(CoordinatorHolder):
        def __getattribute__(self, name: str) -> Any:
            if threading.current_thread().name == "flip27-action":
                touched.append(name)
            return super().__getattribute__(name)

    class WatchedBatches(Batches):
        def new_holder(self) -> CoordinatorHolder:
            return Watched(self.source, self.boundedness, store=self.store)

    batches = WatchedBatches(Archives, EchoReader)
    batches.shelve("a")
    batches.batch()
    batches.trigger()
    assert performed("archive a")
    assert touched == []


def test_the_actions_of_the_last_batch_are_performed_after_a_restart_S97() -> None:
    batches = archiving()
    batches.shelve("a")
    assert batches.batch() == ["a"]
    batches.restart()
    assert batches.batch() is None
    assert performed("archive a")


def test_a_run_without_new_data_performs_the_actions_that_are_due_before_it_ends() -> None:
    begin = threading.Event()

    class StartsOnceWaitedFor(ActionRunner):
        def wait(self) -> None:
            begin.set()
            super().wait()

    class Short(Batches):
        def environment(self) -> Environment:
            def held(perform: Callable[[Any], None]) -> ActionRunner:
                return StartsOnceWaitedFor(lambda action: perform(action) if begin.wait(20) else None)

            return replace(super().environment(), new_actions=held)

    batches = Short(Archives, EchoReader, boundedness=Boundedness.BOUNDED)
    batches.shelve("a")
    batches.batch()
    batches.restart()
    assert batches.batch() is None
    assert Archives.done == ["archive a"]


def test_an_action_that_failed_before_a_crash_is_stored_and_performed_after_the_restart() -> None:
    batches = archiving()
    Archives.broken.add("archive a")
    batches.shelve("a")
    batches.batch()
    batches.trigger()
    assert performed("archive a")
    batches.shelve("b")
    batches.batch()
    (action,) = stored_actions(batches)
    assert (action.action, action.due_checkpoint_id) == ("archive a", 1)
    batches.restart()
    Archives.broken.clear()
    batches.trigger()
    assert performed("archive a", "archive a", "archive b")


def test_a_performed_action_is_in_no_later_document() -> None:
    batches = archiving()
    batches.shelve("a")
    batches.batch()
    batches.trigger()
    assert performed("archive a")

    def next_document_has_none() -> bool:
        batches.shelve("b")
        batches.batch()
        return all(item.action != "archive a" for item in stored_actions(batches))

    until(next_document_has_none)


def test_an_action_that_keeps_failing_fails_the_query_by_default() -> None:
    batches = archiving(maxActionAttempts="2")
    Archives.broken.add("archive a")
    batches.shelve("a")

    def batch_after_batch() -> bool:
        batches.batch()
        batches.shelve("b")
        return False

    with pytest.raises(
        ActionError, match="'archive a' of checkpoint 1 failed 2 times: OSError: archive is full"
    ):
        until(batch_after_batch)


def test_by_policy_an_action_that_keeps_failing_stays_in_the_state_with_its_error() -> None:
    batches = archiving(maxActionAttempts="1", onActionError="keep")
    Archives.broken.add("archive a")
    batches.shelve("a")
    batches.batch()

    def given_up() -> bool:
        batches.trigger()
        return (batches.holder.report() or {}).get("actionsGivenUp") == 1

    until(given_up)
    batches.shelve("b")
    batches.batch()
    kept = [item for item in stored_actions(batches) if item.action == "archive a"]
    assert [(item.attempts, item.error) for item in kept] == [(1, "OSError: archive is full")]


def test_an_action_requested_outside_of_a_checkpoint_waits_for_the_next_one() -> None:
    batches = archiving()
    batches.enumerator().context.perform_after_completion("say hello")
    batches.trigger()
    assert Archives.done == []
    batches.shelve("a")
    batches.batch()
    assert [item.action for item in stored_actions(batches)] == ["say hello"]
    batches.trigger()
    assert performed("say hello", "archive a")


def test_a_restart_resets_the_attempts_of_every_action() -> None:
    stored = PendingAction(action="a", due_checkpoint_id=1, attempts=5, error="full")
    actions = PendingActions(ActionPolicy(max_attempts=2), [stored])
    ((number, _),) = actions.take_due(1)
    actions.ended(number, "still full")
    assert actions.given_up == 0
    assert actions.pending[0].attempts == 1


def test_an_action_is_taken_once_and_not_before_its_checkpoint() -> None:
    actions = PendingActions(ActionPolicy())
    actions.add("a", 2)
    assert actions.take_due(1) == []
    assert [action for _, action in actions.take_due(2)] == ["a"]
    assert actions.take_due(3) == []


def test_a_closed_runner_starts_no_further_action() -> None:
    began, release, seen = threading.Event(), threading.Event(), []

    def perform(action: str) -> None:
        seen.append(action)
        began.set()
        release.wait(20)

    runner = ActionRunner(perform, threads=1)
    runner.submit([(0, "a"), (1, "b")])
    assert began.wait(20)
    runner.close()
    release.set()
    until(lambda: runner.drain() == [(0, None)])
    assert seen == ["a"]


def test_a_runner_that_ends_waits_for_running_actions_and_starts_no_more() -> None:
    begun, go = threading.Event(), threading.Event()

    def perform(action: str) -> None:
        begun.set()
        assert go.wait(20)

    class LetsGoOnceClosed(ActionRunner):
        def close(self) -> None:
            super().close()
            go.set()

    runner = LetsGoOnceClosed(perform, threads=1)
    runner.submit([(1, "a"), (2, "b")])
    assert begun.wait(20)
    assert runner.end() == [(1, None)]
