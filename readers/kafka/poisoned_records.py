"""Records whose values cannot be decoded: they fail the query, are delivered as null, or are quarantined.

The split of a quarantined record has its bytes. Nothing else is needed to read it, not even the broker. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from flip27_source.enumerators.kafka.client import Message
from flip27_source.enumerators.kafka.split import KafkaSplit, record_id_of
from flip27_source.errors import CorruptStateError, SplitReadError
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.kafka.arrow_records import Run, headers_of
from flip27_source.readers.kafka.decoding.options import ON_RECORD_ERROR

QUARANTINE = "quarantine"

_READ_BEFORE = "it could not be read when its batch was first read"


class RecordErrors:
    """Handles the records of a task that cannot be decoded, as ``onRecordError`` requires."""

    def __init__(self, context: SourceReaderContext) -> None:
        self._context = context
        self._policy = context.options[ON_RECORD_ERROR]

    def quarantined(self, failures: Mapping[int, str], runs: Sequence[Run]) -> list[int]:
        """Handle the failures of a block; return the rows of the records that are quarantined.

        Args:
            failures: why a value cannot be decoded, by its row in the block.
            runs: the records of the block, in order.

        Raises:
            SplitReadError: a value cannot be decoded, and ``onRecordError`` is fail.
        """
        quarantined = self._quarantined_before(runs)
        new = {row: why for row, why in failures.items() if row not in quarantined}
        if new and self._policy == "fail":
            raise _not_decoded(new, runs)
        if self._policy == QUARANTINE:
            quarantined |= new
        if quarantined:
            self._quarantine(quarantined, runs)
        return sorted(quarantined)

    def _quarantined_before(self, runs: Sequence[Run]) -> dict[int, str]:
        """The rows that an earlier attempt quarantined and reported, with the reason.

        They stay quarantined, because the rows that it delivered may already be in the sink.
        """
        before = self._context.quarantined_before
        if not before:
            return {}
        return {
            row: _READ_BEFORE
            for row, (run, message) in enumerate(_records(runs))
            if record_id_of(run.topic, run.partition, message.offset() or 0) in before
        }

    def _quarantine(self, failures: Mapping[int, str], runs: Sequence[Run]) -> None:
        for row, (run, message) in enumerate(_records(runs)):
            if row in failures:
                self._context.quarantine(
                    split_of(run.topic, run.partition, message),
                    error=f"the value of the record {_place(run, message)} cannot be decoded: "
                    f"{failures[row]}",
                    split_id=run.range_id,
                )


def _not_decoded(failures: Mapping[int, str], runs: Sequence[Run]) -> SplitReadError:
    row = min(failures)
    place = place_of(row, runs)
    more = f", and {len(failures) - 1} more of the same block" if len(failures) > 1 else ""
    return SplitReadError(
        f"the value of the record {place} cannot be decoded: {failures[row]}{more}",
        remedy="correct the schema, if the value itself is correct; onRecordError=quarantine leaves "
        "such records for later, and onRecordError=null delivers them with a null value",
    )


def _records(runs: Sequence[Run]) -> Iterator[tuple[Run, Message | PoisonedMessage]]:
    for run in runs:
        for message in run.messages:
            yield run, message


def place_of(row: int, runs: Sequence[Run]) -> str:
    """The partition and the offset of a record of a block."""
    return next(_place(*record) for number, record in enumerate(_records(runs)) if number == row)


def _place(run: Run, message: Message | PoisonedMessage) -> str:
    return f"{run.topic}/{run.partition} at offset {message.offset()}"


class PoisonedRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record, as JSON in ``KafkaSplit.record``; bytes are in Base64.

    Attributes:
        timestamp_ms: milliseconds since 1970 UTC.
        timestamp_type: librdkafka's number of the type.
        hides_headers: whether the headers are not known, because the name of one is not UTF-8.
    """

    timestamp_ms: int
    timestamp_type: int
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes | None]] | None = None
    hides_headers: bool = False


class PoisonedMessage:
    """A poisoned record with those methods of a message from which columns are made."""

    def __init__(self, split: KafkaSplit, record: PoisonedRecord) -> None:
        self._split = split
        self._record = record

    def topic(self) -> str:
        return self._split.topic

    def partition(self) -> int:
        return self._split.partition

    def offset(self) -> int:
        return self._split.next

    def key(self) -> bytes | None:
        return self._record.key

    def value(self) -> bytes | None:
        return self._record.value

    def timestamp(self) -> tuple[int, int]:
        """The type of the timestamp, and its milliseconds."""
        return self._record.timestamp_type, self._record.timestamp_ms

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        if self._record.hides_headers:
            raise SystemError("as of confluent-kafka")
        return self._record.headers


def split_of(topic: str, partition: int, message: Message | PoisonedMessage) -> KafkaSplit:
    """The split of a quarantined record."""
    kind, milliseconds = message.timestamp()
    headers, hides_headers = None, False
    try:
        (headers,) = headers_of([message])
    except SplitReadError:
        hides_headers = True
    offset = message.offset() or 0
    record = PoisonedRecord(
        timestamp_ms=milliseconds,
        timestamp_type=kind,
        key=message.key(),
        value=message.value(),
        headers=headers,
        hides_headers=hides_headers,
    )
    return KafkaSplit(
        split_id=record_id_of(topic, partition, offset),
        next=offset,
        end=offset + 1,
        record=msgspec.json.encode(record).decode(),
    )


def run_of(split: KafkaSplit) -> Run:
    try:
        record = msgspec.json.decode(split.record or "", type=PoisonedRecord)
    except msgspec.MsgspecError as error:
        raise CorruptStateError(
            f"the record in split {split.split_id} is damaged: {error}",
            remedy="restore the state location from a backup",
        ) from None
    messages: list[Any] = [PoisonedMessage(split, record)]
    return Run(split.topic, split.partition, messages, len(split.record or ""), split.split_id)
