"""Handles records whose values cannot be decoded: fails the query, delivers null, or sets them aside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from flip27_source.enumerators.kafka.split import record_id_of
from flip27_source.errors import SplitReadError
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.kafka.arrow_records import Run
from flip27_source.readers.kafka.decoding.options import ON_RECORD_ERROR
from flip27_source.readers.kafka.poisoned_records import PoisonedMessage, split_of

if TYPE_CHECKING:
    from confluent_kafka import Message

QUARANTINE = "quarantine"

_READ_BEFORE = "it could not be read when its batch was first read"


class RecordErrors:
    """Handles the records of a task that cannot be decoded, as ``onRecordError`` requires."""

    def __init__(self, context: SourceReaderContext) -> None:
        self._context = context
        self._policy = context.options[ON_RECORD_ERROR]

    def left_out(self, failures: Mapping[int, str], runs: Sequence[Run]) -> list[int]:
        """Handle the failures of a block; return the rows of the records that are set aside.

        Args:
            failures: why a value cannot be decoded, by its row in the block.
            runs: the records of the block, in order.

        Raises:
            SplitReadError: a value cannot be decoded, and ``onRecordError`` is fail.
        """
        aside = self._set_aside_before(runs)
        left = {row: why for row, why in failures.items() if row not in aside}
        if left and self._policy == "fail":
            raise _not_decoded(left, runs)
        if self._policy == QUARANTINE:
            aside |= left
        if aside:
            self._set_aside(aside, runs)
        return sorted(aside)

    def _set_aside_before(self, runs: Sequence[Run]) -> dict[int, str]:
        """The rows that an earlier attempt set aside and reported, with the reason.

        They stay set aside, because the rows that it delivered may already be in the sink.
        """
        before = self._context.set_aside_before
        if not before:
            return {}
        return {
            row: _READ_BEFORE
            for row, (run, message) in enumerate(_records(runs))
            if record_id_of(run.topic, run.partition, message.offset() or 0) in before
        }

    def _set_aside(self, failures: Mapping[int, str], runs: Sequence[Run]) -> None:
        for row, (run, message) in enumerate(_records(runs)):
            if row in failures:
                self._context.set_aside(
                    split_of(run.topic, run.partition, message),
                    error=f"the value of the record {_place(run, message)} cannot be decoded: "
                    f"{failures[row]}",
                    split_id=run.range_id,
                )


def _not_decoded(failures: Mapping[int, str], runs: Sequence[Run]) -> SplitReadError:
    row = min(failures)
    place = next(_place(*record) for number, record in enumerate(_records(runs)) if number == row)
    more = f", and {len(failures) - 1} more of the same block" if len(failures) > 1 else ""
    return SplitReadError(
        f"the value of the record {place} cannot be decoded: {failures[row]}{more}",
        remedy="correct the schema, if the value itself is correct; onRecordError=quarantine sets such "
        "records aside, and onRecordError=null delivers them with a null value",
    )


def _records(runs: Sequence[Run]) -> Iterator[tuple[Run, Message | PoisonedMessage]]:
    for run in runs:
        for message in run.messages:
            yield run, message


def _place(run: Run, message: Message | PoisonedMessage) -> str:
    return f"{run.topic}/{run.partition} at offset {message.offset()}"
