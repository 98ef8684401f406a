"""Pending actions as a segment of JSON values, and back. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..coordination.actions import PendingAction
from ..enumerator import PerformsActions, SplitEnumerator
from ..errors import ContractError, CorruptStateError
from ..segment import Segment


class StoredAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """One pending action."""

    action: msgspec.Raw
    due: int
    attempts: int = 0
    error: str | None = None


def encode_actions(
    enumerator_type: type[SplitEnumerator[Any]], actions: Sequence[PendingAction]
) -> Segment | None:
    """A segment with the actions; None when there are none.

    Raises:
        ContractError: the enumerator performs no actions, or one could not be read again.
    """
    if not actions:
        return None
    wanted = _type_of_actions(enumerator_type)
    try:
        stored = [
            StoredAction(
                action=msgspec.Raw(msgspec.json.encode(item.action, order="sorted")),
                due=item.due_checkpoint_id,
                attempts=item.attempts,
                error=item.error,
            )
            for item in actions
        ]
        for item in stored:
            msgspec.json.decode(item.action, type=wanted)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise ContractError(
            f"an action of {enumerator_type.__qualname__} cannot be stored as {wanted}: {error}",
            remedy="make it what the annotation of perform says: a str, a frozen dataclass of such, ...",
        ) from error
    return Segment.of_values("actions", stored)


def decode_actions(
    enumerator_type: type[SplitEnumerator[Any]], segment: Segment
) -> tuple[PendingAction, ...]:
    """The actions in a segment.

    Raises:
        CorruptStateError: one does not fit the type of actions.
    """
    wanted = _type_of_actions(enumerator_type)
    try:
        return tuple(
            PendingAction(
                action=msgspec.json.decode(item.action, type=wanted),
                due_checkpoint_id=item.due,
                attempts=item.attempts,
                error=item.error,
            )
            for item in segment.values(StoredAction)
        )
    except msgspec.MsgspecError as error:
        raise CorruptStateError(
            f"a stored action of {enumerator_type.__qualname__} does not fit its type {wanted}: {error}",
            remedy="deploy the code that wrote it until its actions are done, or give new fields defaults",
        ) from error


def _type_of_actions(enumerator_type: type[SplitEnumerator[Any]]) -> Any:
    if not issubclass(enumerator_type, PerformsActions):
        raise ContractError(
            f"{enumerator_type.__qualname__} has actions and no method to perform them",
            remedy=f"write class {enumerator_type.__name__}(PerformsActions[YourAction], ...) "
            "with a method perform",
        )
    return enumerator_type.resolve_action_type()
