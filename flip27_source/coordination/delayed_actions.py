"""Delayed actions, which become due a certain time after their checkpoint is complete. Pure.

An action is *fresh* until the next document, which stores it in a page. A page is opened when its first
action is due: its actions are taken in order, a few thousand at a time, and end in any order. The page
does not change in the meantime; documents only store how many actions at its front are done. After a crash
the actions after those are taken again, which is harmless because actions are idempotent.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from ..enumerator import SplitEnumerator
from ..enumerator_mixins import PerformsActions
from ..errors import ProtocolError
from ..options import Options
from ..values.stored_values import StoredValues, stored_actions
from .action_pages import ActionGroup, ActionPage, actions_of, merged

MOST_TAKEN = 20_000
"""Maximum number of actions that are taken and have not ended; all of them are in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedAction:
    """An action that is due.

    Attributes:
        due_checkpoint_id: the complete checkpoint that it belongs to.
    """

    action: Any
    due_checkpoint_id: int


@dataclass(slots=True, eq=False)
class _Fresh:
    """Actions that are in no document yet; ``since_ms`` is None until ``take_due`` sets it."""

    due_checkpoint_id: int
    actions: deque[Any]
    since_ms: int | None = None


class _OpenPage:
    """A page whose actions are being taken."""

    def __init__(self, page: ActionPage, stored: StoredValues) -> None:
        self.page = page
        self.taken = page.done
        self._left: deque[tuple[int, DelayedAction]] = deque(
            (group.since_ms, DelayedAction(action=action, due_checkpoint_id=group.due_checkpoint_id))
            for group in page.groups()
            for action in actions_of(group, stored)
        )
        self._ended: set[int] = set()

    @property
    def since_ms(self) -> int | None:
        """The time from which the next action waits; None if all are taken."""
        return self._left[0][0] if self._left else None

    def take(self) -> tuple[int, DelayedAction]:
        """The next action, and its place in the page."""
        self.taken += 1
        return self.taken - 1, self._left.popleft()[1]

    def ended(self, place: int) -> None:
        self._ended.add(place)
        done = self.page.done
        while done in self._ended:
            self._ended.discard(done)
            done += 1
        self.page = replace(self.page, done=done)


class Taken(NamedTuple):
    """Where a taken action came from; passed to :meth:`DelayedActions.ended`.

    Attributes:
        page: the page that contains the action until it has ended; None if no document contains it yet.
    """

    page: _OpenPage | None
    place: int = 0


class DelayedActions:
    """The delayed actions of one coordinator, in the order in which they were added.

    Attributes:
        delay_ms: how long each waits; None: they are not due in this run.
    """

    def __init__(
        self,
        delay_ms: int | None = None,
        stored: Callable[[], StoredValues] | None = None,
        restored: Iterable[ActionPage] = (),
    ) -> None:
        """``stored`` returns the stored form of the enumerator's actions; None if it performs none."""
        self.delay_ms = delay_ms
        self._stored = stored
        self._closed = deque(restored)
        self._open: deque[_OpenPage] = deque()
        self._fresh: deque[_Fresh] = deque()
        self._taken = 0

    @classmethod
    def of(
        cls, enumerator_type: type[SplitEnumerator[Any]], options: Options, restored: Iterable[ActionPage]
    ) -> DelayedActions:
        """Those of an enumerator that was restored with these pages."""
        kind: Any = enumerator_type
        if not issubclass(kind, PerformsActions):
            return cls(restored=restored)
        delay_s: float | None = kind.action_delay_s(options)
        delay_ms = None if delay_s is None else round(delay_s * 1000)
        return cls(delay_ms, functools.partial(stored_actions, enumerator_type), restored)

    def __len__(self) -> int:
        """The number of actions that wait, or are taken from a page and have not ended."""
        pages = (*self._closed, *(item.page for item in self._open))
        return sum(page.left for page in pages) + sum(len(group.actions) for group in self._fresh)

    @property
    def has_fresh(self) -> bool:
        """Whether an action is in memory only: after a crash its delay would start again."""
        return bool(self._fresh)

    def add(self, action: Any, due_checkpoint_id: int) -> None:
        """Add an action of a checkpoint that is being completed."""
        newest = self._fresh[-1] if self._fresh else None
        if newest is None or newest.since_ms is not None or newest.due_checkpoint_id != due_checkpoint_id:
            newest = _Fresh(due_checkpoint_id, deque())
            self._fresh.append(newest)
        newest.actions.append(action)

    def start_waiting(self, now_ms: int) -> None:
        """Actions that were added since the last call wait from ``now_ms`` on."""
        for group in self._fresh:
            if group.since_ms is None:
                group.since_ms = now_ms

    def take_due(self, now_ms: int) -> Iterator[tuple[DelayedAction, Taken]]:
        self.start_waiting(now_ms)
        while self.delay_ms is not None and self._taken < MOST_TAKEN:
            since_ms = self._next_since_ms()
            if since_ms is None or since_ms + self.delay_ms > now_ms:
                return
            # A page's time is that of its first action, which may be done: check again once the page is open.
            if not self._opens_next_page():
                self._taken += 1
                yield self._take()

    def ended(self, taken: Taken) -> None:
        """A taken action is done, or is kept elsewhere with its error."""
        self._taken -= 1
        if taken.page is not None:
            taken.page.ended(taken.place)
        while self._open and not self._open[0].page.left:
            self._open.popleft()

    def stored(self) -> tuple[ActionPage, ...]:
        """The pages for the next document, which contain all actions that wait.

        Raises:
            ProtocolError: an action has no time yet: neither :meth:`take_due` nor :meth:`start_waiting` was
                called since it was added.
        """
        if self._fresh:
            self._closed.append(ActionPage.of([_encoded(group) for group in self._fresh]))
            self._fresh.clear()
            self._closed = deque(merged(self._closed))
        for page in self._closed:
            page.forget()
        return (*(item.page for item in self._open if item.page.left), *self._closed)

    @property
    def _current(self) -> _OpenPage | None:
        """The open page with the next action; None if all actions of open pages are taken."""
        return self._open[-1] if self._open and self._open[-1].since_ms is not None else None

    def _next_since_ms(self) -> int | None:
        if self._current is not None:
            return self._current.since_ms
        if self._closed:
            return self._closed[0].since_ms
        return self._fresh[0].since_ms if self._fresh else None

    def _opens_next_page(self) -> bool:
        """Open the next page if all actions of the last one are taken; False if no page is opened."""
        if self._current is not None or not self._closed:
            return False
        if self._stored is None:
            raise ProtocolError("there are delayed actions, and the enumerator performs none")
        self._open.append(_OpenPage(self._closed.popleft(), self._stored()))
        return True

    def _take(self) -> tuple[DelayedAction, Taken]:
        page = self._current
        if page is not None:
            place, action = page.take()
            return action, Taken(page, place)
        group = self._fresh[0]
        action = DelayedAction(action=group.actions.popleft(), due_checkpoint_id=group.due_checkpoint_id)
        if not group.actions:
            self._fresh.popleft()
        return action, Taken(None)


def _encoded(group: _Fresh) -> ActionGroup:
    if group.since_ms is None:
        raise ProtocolError("delayed actions are stored before the time from which they wait is known")
    # The context has checked that these values can be restored.
    encoded = [msgspec.Raw(msgspec.json.encode(action, order="sorted")) for action in group.actions]
    return ActionGroup(group.since_ms, group.due_checkpoint_id, encoded)
