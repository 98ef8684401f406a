"""Pages of delayed actions: the stored form of actions that wait for a time. Pure.

Millions of actions may wait for weeks. So they are not part of the documents: a page is a segment that is
written once, and a document contains only the name of the page and how many of its actions are done. Small
pages are merged as in a log-structured merge tree, so that there are few pages and each action is written
only a few times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import CorruptStateError
from ..segment import Segment
from ..values.merged_blocks import merged_blocks
from ..values.stored_json import decode_json
from ..values.stored_values import StoredValues

PAGE_ACTIONS = 1 << 16
"""Maximum number of actions in a page that results from a merge."""

_KEPT_ACTIONS = 1 << 12
"""The bytes of larger pages are not kept in memory."""


class ActionGroup(msgspec.Struct, frozen=True, array_like=True):
    """Actions that became delayed together.

    Attributes:
        since_ms: the time from which they wait, in milliseconds since the epoch.
        due_checkpoint_id: the complete checkpoint that they belong to.
        actions: their JSON, by the type of the enumerator's actions.
    """

    since_ms: int
    due_checkpoint_id: int
    actions: list[msgspec.Raw]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPage:
    """Delayed actions in one segment, in the order in which they become due.

    Attributes:
        actions: the segment with all of them.
        count: their number.
        since_ms: the time from which the first of them waits.
        done: the number of actions at the front that are done.
    """

    actions: Segment
    count: int
    since_ms: int
    done: int = 0

    @classmethod
    def of(cls, groups: Sequence[ActionGroup]) -> ActionPage:
        """A page with at least one action."""
        return cls(
            actions=Segment._of_values("delayed", groups),
            count=sum(len(group.actions) for group in groups),
            since_ms=groups[0].since_ms,
        )

    @property
    def left(self) -> int:
        """The number of actions that are not done."""
        return self.count - self.done

    def groups(self) -> list[ActionGroup]:
        groups = self.actions.values(ActionGroup)
        self.forget()
        return _without_first(groups, self.done)

    def forget(self) -> None:
        """Drop the bytes of a large page from memory, if they are stored."""
        if self.count > _KEPT_ACTIONS:
            self.actions.forget()


def merged(pages: Iterable[ActionPage]) -> list[ActionPage]:
    """The pages, with small ones merged into their neighbours; the order of the actions stays the same."""
    return merged_blocks(
        pages,
        size_of=lambda page: page.left,
        join=lambda joined: ActionPage.of([group for page in joined for group in page.groups()]),
        largest=PAGE_ACTIONS,
    )


def kept_where(
    pages: Iterable[ActionPage], is_kept: Callable[[ActionGroup], Sequence[bool]]
) -> tuple[ActionPage, ...]:
    """The pages without the actions for which ``is_kept`` is false; other pages stay as they are."""
    remaining = []
    for page in pages:
        left = [_filtered(group, is_kept(group)) for group in page.groups()]
        kept = sum(len(group.actions) for group in left)
        if kept == page.left:
            remaining.append(page)
        elif kept:
            remaining.append(ActionPage.of([group for group in left if group.actions]))
    return tuple(remaining)


def actions_of(group: ActionGroup, stored: StoredValues) -> list[Any]:
    """The values of a group's actions.

    Raises:
        CorruptStateError: an action does not match the type of actions.
    """
    try:
        return [decode_json(raw, stored.declared) for raw in group.actions]
    except msgspec.MsgspecError as error:
        raise CorruptStateError(
            f"a delayed action does not match its type {stored.declared}: {error}",
            remedy="deploy the code that stored the action until its actions are done, or give new fields "
            "defaults",
        ) from error


def _filtered(group: ActionGroup, flags: Sequence[bool]) -> ActionGroup:
    kept = [raw for raw, flag in zip(group.actions, flags, strict=True) if flag]
    return msgspec.structs.replace(group, actions=kept)


def _without_first(groups: list[ActionGroup], done: int) -> list[ActionGroup]:
    left = []
    for group in groups:
        if done < len(group.actions):
            left.append(msgspec.structs.replace(group, actions=group.actions[done:]))
        done = max(0, done - len(group.actions))
    return left
