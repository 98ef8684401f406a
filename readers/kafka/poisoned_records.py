"""Poisoned records, whose values could not be decoded: their bytes in splits, to be read later.

Nothing else is needed to read them, not even the broker. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from flip27_source.enumerators.kafka.split import KafkaSplit, record_id_of
from flip27_source.errors import CorruptStateError
from flip27_source.readers.kafka.arrow_records import Run

if TYPE_CHECKING:
    from confluent_kafka import Message


class PoisonedRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record, as JSON in ``KafkaSplit.record``; bytes are in Base64.

    Attributes:
        timestamp_ms: milliseconds since 1970 UTC.
        timestamp_type: librdkafka's number of the type.
    """

    timestamp_ms: int
    timestamp_type: int
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes | None]] | None = None


class PoisonedMessage:
    """A poisoned record with those methods of a message from which columns are made."""

    def __init__(self, offset: int, record: PoisonedRecord) -> None:
        self._offset = offset
        self._record = record

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._record.key

    def value(self) -> bytes | None:
        return self._record.value

    def timestamp(self) -> tuple[int, int]:
        """The type of the timestamp, and its milliseconds."""
        return self._record.timestamp_type, self._record.timestamp_ms

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self._record.headers


def split_of(topic: str, partition: int, message: Message | PoisonedMessage) -> KafkaSplit:
    """The split that keeps a record."""
    kind, milliseconds = message.timestamp()
    headers: Any = message.headers()
    offset = message.offset() or 0
    record = PoisonedRecord(
        timestamp_ms=milliseconds,
        timestamp_type=kind,
        key=message.key(),
        value=message.value(),
        headers=None if headers is None else [(name, value) for name, value in headers],
    )
    return KafkaSplit(
        split_id=record_id_of(topic, partition, offset),
        next=offset,
        end=offset + 1,
        record=msgspec.json.encode(record).decode(),
    )


def run_of(split: KafkaSplit) -> Run:
    """A run of the one record that the split keeps."""
    try:
        record = msgspec.json.decode(split.record or "", type=PoisonedRecord)
    except msgspec.MsgspecError as error:
        raise CorruptStateError(
            f"the record that {split.split_id} keeps is damaged: {error}",
            remedy="restore the state location from a backup",
        ) from None
    messages: list[Any] = [PoisonedMessage(split.next, record)]
    return Run(split.topic, split.partition, messages, len(record.value or b""), split.split_id)
