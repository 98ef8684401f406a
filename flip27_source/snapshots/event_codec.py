"""EventCodec: events as JSON, by the name and the field types of their class. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from ..enumerator import SplitEnumerator
from ..errors import ContractError, CorruptStateError
from ..events import SourceEvent
from ..reader import SplitReader
from ..values.stored_json import decode_json
from ..values.stored_values import stored_events


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
            ContractError: the receiver does not take it, or it could not be read again.
        """
        name = type(event).__name__
        values = self._values.get(type(event))
        if values is None:
            raise ContractError(
                f"{self._receiver.__qualname__} takes no {name}",
                remedy=f"define handle_source_event with the annotation event: {name} there",
            )
        stored = _StoredEvent(event=msgspec.Raw(values.encode(event, {})), type=name)
        return msgspec.Raw(msgspec.json.encode(stored, order="sorted"))

    def check(self, event: SourceEvent) -> None:
        """Raises what :meth:`encode` would."""
        self.encode(event)

    def decode(self, raw: Any) -> SourceEvent:
        """The event in some JSON.

        Raises:
            CorruptStateError: its type is not known any more, or it does not fit its type.
        """
        try:
            stored = decode_json(raw, _StoredEvent)
            kind = self._types.get(stored.type)
            if kind is None:
                raise CorruptStateError(
                    f"a {stored.type} is on its way and {self._receiver.__qualname__} does not take it",
                    remedy="deploy the code that sent it until it has arrived",
                )
            return decode_json(stored.event, kind)
        except msgspec.MsgspecError as error:
            raise CorruptStateError(
                f"a stored event to {self._receiver.__qualname__} does not fit its type: {error}",
                remedy="give new fields defaults, or deploy the code that sent it until it has arrived",
            ) from error
