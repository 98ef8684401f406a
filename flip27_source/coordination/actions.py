"""Pending actions: side effects that are due once a checkpoint is complete (R7). Pure.

An action is stored in every checkpoint document, from the one that it was added for until it has been
performed, so it is performed at least once despite crashes; actions must be idempotent. An action that keeps
failing stays in the state with its error, where it is visible. Actions that also wait for a delay are in
``delayed_actions`` until they are due.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ActionError
from .delayed_actions import DelayedAction, DelayedActions, Taken


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAction:
    """An action that is not known to be done.

    Attributes:
        action: the author's value, passed to ``perform``.
        due_checkpoint_id: the action is due when this checkpoint is complete.
        attempts: number of failures. error: the last error.
    """

    action: Any
    due_checkpoint_id: int
    attempts: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPolicy:
    """How failed actions are handled.

    Attributes:
        max_attempts: after this many failures an action is not tried again in this run.
        fail: whether the query then fails; otherwise the action stays in the state.
    """

    max_attempts: int = 5
    fail: bool = True


class PendingActions:
    """The actions of one coordinator, in the order in which they were added.

    Attributes:
        delayed: those that wait for a time.
    """

    def __init__(
        self,
        policy: ActionPolicy,
        restored: Iterable[PendingAction] = (),
        *,
        delayed: DelayedActions | None = None,
    ) -> None:
        self._policy = policy
        self._next = 0
        self.delayed = DelayedActions() if delayed is None else delayed
        self._taken: dict[int, tuple[DelayedAction, Taken]] = {}
        self._actions: dict[int, PendingAction] = {}
        self._running: set[int] = set()
        self._given_up: set[int] = set()
        for action in restored:
            # After a restart attempts count from 0: the cause may have been fixed.
            self._add(replace(action, attempts=0))

    @property
    def pending(self) -> tuple[PendingAction, ...]:
        """All actions that are due and not known to be done; the next document contains them."""
        return tuple(self._actions.values())

    @property
    def given_up(self) -> int:
        """Number of actions that failed too often and are not tried again in this run."""
        return len(self._given_up)

    def add(self, action: Any, due_checkpoint_id: int) -> None:
        self._add(PendingAction(action=action, due_checkpoint_id=due_checkpoint_id))

    def add_delayed(self, action: Any, due_checkpoint_id: int) -> None:
        """Add an action that waits for ``delay_ms`` from the next :meth:`take_delayed`."""
        if self.delayed.delay_ms == 0:
            self.add(action, due_checkpoint_id)
        else:
            self.delayed.add(action, due_checkpoint_id)

    def take_delayed(self, now_ms: int) -> list[tuple[int, Any]]:
        """Take the actions whose delay is over, each with its number; at most a few thousand at a time."""
        due = []
        for item, taken in self.delayed.take_due(now_ms):
            number = self._next
            self._next += 1
            self._running.add(number)
            self._taken[number] = (item, taken)
            if taken.page is None:
                self._keep(number)
            due.append((number, item.action))
        return due

    def take_due(self, checkpoint_id: int) -> list[tuple[int, Any]]:
        """Take the actions that are due when ``checkpoint_id`` is complete and not running, with numbers."""
        due = [
            (number, item.action)
            for number, item in self._actions.items()
            if item.due_checkpoint_id <= checkpoint_id
            and number not in self._running
            and number not in self._given_up
        ]
        self._running.update(number for number, _ in due)
        return due

    def ended(self, number: int, error: str | None) -> None:
        """An action that was taken has succeeded or failed.

        Raises:
            ActionError: the action failed too often, and the policy is to fail.
        """
        self._running.discard(number)
        if error is not None:
            self._keep(number)
        if number in self._taken:
            self.delayed.ended(self._taken.pop(number)[1])
        if error is None:
            self._actions.pop(number, None)
            return
        item = replace(self._actions[number], attempts=self._actions[number].attempts + 1, error=error)
        self._actions[number] = item
        if item.attempts < self._policy.max_attempts:
            return
        self._given_up.add(number)
        if self._policy.fail:
            raise ActionError(
                f"action {item.action!r:.300} of checkpoint {item.due_checkpoint_id} failed "
                f"{item.attempts} times: {error}",
                remedy="fix the cause and restart the query: the action is in the state and is tried "
                "again; with onActionError=keep the query continues and the action stays listed",
            )

    def _keep(self, number: int) -> None:
        """Add an action to those that are stored in the document itself, if it is only in a page."""
        if number not in self._actions:
            item = self._taken[number][0]
            self._actions[number] = PendingAction(
                action=item.action, due_checkpoint_id=item.due_checkpoint_id
            )

    def _add(self, action: PendingAction) -> None:
        self._actions[self._next] = action
        self._next += 1
