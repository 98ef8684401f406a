"""Converts events to JSON, by the name and field types of their class, and actions to a segment. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..coordination.actions import PendingAction
from ..enumerator import SplitEnumerator
from ..errors import ContractError, CorruptStateError
from ..events import SourceEvent
from ..reader import SplitReader
from ..segment import Segment
from ..values.stored_json import decode_json
from ..values.stored_values import stored_actions, stored_events


class _StoredEvent(msgspec.Struct, frozen=True):
    event: msgspec.Raw
    type: str


class EventCodec:
    """Encodes and decodes the events that one class takes."""

    def __init__(self, receiver: type[SplitEnumerator[Any] | SplitReader[Any]]) -> None:
        self._receiver = receiver
        self._values = stored_events(receiver)
        self._types = {kind.__name__: kind for kind in self._values}

    def __bool__(self) -> bool:
        """Whether the receiver takes any events."""
        return bool(self._types)

    def encode(self, event: SourceEvent) -> msgspec.Raw:
        """The JSON of an event.

        Raises:
            ContractError: the receiver does not take the event, or the event could not be restored.
        """
        name = type(event).__name__
        values = self._values.get(type(event))
        if values is None:
            raise ContractError(
                f"{self._receiver.__qualname__} takes no {name}",
                remedy=f"define handle_source_event in it with the annotation event: {name}",
            )
        stored = _StoredEvent(event=msgspec.Raw(values.encode(event, {})), type=name)
        return msgspec.Raw(msgspec.json.encode(stored, order="sorted"))

    def check(self, event: SourceEvent) -> None:
        """Raise the errors of :meth:`encode`."""
        self.encode(event)

    def decode(self, raw: Any) -> SourceEvent:
        """Decode an event.

        Raises:
            CorruptStateError: the receiver no longer knows the event's type, or the event does not match it.
        """
        try:
            stored = decode_json(raw, _StoredEvent)
            kind = self._types.get(stored.type)
            if kind is None:
                raise CorruptStateError(
                    f"an event of type {stored.type} is stored for {self._receiver.__qualname__}, which does "
                    "not take it",
                    remedy="deploy the code that sent the event until it is delivered",
                )
            return decode_json(stored.event, kind)
        except msgspec.MsgspecError as error:
            raise CorruptStateError(
                f"a stored event for {self._receiver.__qualname__} does not match its type: {error}",
                remedy="give new fields defaults, or deploy the sender's code until the event is delivered",
            ) from error


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
