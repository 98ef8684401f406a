"""Converts pending actions to a segment of JSON values, and back. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..coordination.actions import PendingAction
from ..enumerator import SplitEnumerator
from ..errors import CorruptStateError
from ..segment import Segment
from ..values.stored_json import decode_json
from ..values.stored_values import stored_actions


class StoredAction(msgspec.Struct, frozen=True, omit_defaults=True):
    action: msgspec.Raw
    due: int
    attempts: int = 0
    error: str | None = None


def encode_actions(
    enumerator_type: type[SplitEnumerator[Any]], actions: Sequence[PendingAction]
) -> Segment | None:
    """A segment with the actions; None if there are none.

    Raises:
        ContractError: the enumerator performs no actions, or an action could not be restored.
    """
    if not actions:
        return None
    values = stored_actions(enumerator_type)
    stored = [
        StoredAction(
            action=msgspec.Raw(values.encode(item.action, {})),
            due=item.due_checkpoint_id,
            attempts=item.attempts,
            error=item.error,
        )
        for item in actions
    ]
    return Segment._of_values("actions", stored)


def decode_actions(
    enumerator_type: type[SplitEnumerator[Any]], segment: Segment
) -> tuple[PendingAction, ...]:
    """The actions in a segment.

    Raises:
        CorruptStateError: an action does not match the type of actions.
    """
    declared = stored_actions(enumerator_type).declared
    try:
        return tuple(
            PendingAction(
                action=decode_json(item.action, declared),
                due_checkpoint_id=item.due,
                attempts=item.attempts,
                error=item.error,
            )
            for item in segment.values(StoredAction)
        )
    except msgspec.MsgspecError as error:
        raise CorruptStateError(
            f"a stored action of {enumerator_type.__qualname__} does not match its type {declared}: {error}",
            remedy="deploy the code that stored the action until its actions are done, or give new fields "
            "defaults",
        ) from error
