"""Quarantine: splits that cannot be read are set aside, with all of their rows or none (R12).

What a split yields is held back until it has ended, up to a limit; so a failure costs nothing but
the attempt to read it. A split too large for that is read for real at once; when it fails then,
the task fails with it, and the next attempt, which finds the failure on record, reads it once
without giving rows, and again with them when that went well.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from ..coordination.reports import SplitResult, SplitStatus
from ..errors import (
    AttemptError,
    ContractError,
    OptionError,
    QuarantineError,
    RegistryError,
    StateError,
)
from ..snapshots.failures import FailureLog, FailureRecord
from .reading import Item, Reading

HELD_BACK_BYTES = 64 * 1024 * 1024
"""How much of one split is held back in memory."""

TUPLE_BYTES = 200
"""What a row that is a tuple is taken to cost in memory."""

LONGEST_ERROR = 2000
"""Characters of an error that are kept."""

_NOT_THE_SPLIT = (
    ContractError,
    AttemptError,
    OptionError,
    RegistryError,
    StateError,
    ImportError,
    MemoryError,
)


class Quarantine:
    """Reads splits of one subtask so that those which cannot be read harm nobody else."""

    def __init__(
        self,
        log: FailureLog,
        *,
        max_attempts: int,
        max_splits: int,
        subtask_id: int,
        attempt_number: int,
    ) -> None:
        self._log = log
        self._max_attempts = max_attempts
        self._max_splits = max_splits
        self._subtask_id = subtask_id
        self._attempt_number = attempt_number
        self._set_aside = 0

    def read(self, split_id: str, reading: Callable[[], Reading]) -> Reading:
        """What ``reading()`` yields and returns; FAILED after ``maxSplitAttempts`` failures."""
        while True:
            held, size = [], 0
            run = reading()
            try:
                while size <= HELD_BACK_BYTES:
                    item = next(run)
                    held.append(item)
                    size += _bytes_of(item)
                if self._log.count(split_id):
                    # It failed before: read it to its end without giving rows, then again.
                    held.clear()
                    _exhaust(run)
                    run = reading()
            except StopIteration as end:
                yield from held
                result: SplitResult[Any] = end.value
                return result
            except Exception as error:
                held.clear()
                if _not_the_split(error):
                    raise
                number = self._failed(split_id, error)
                if number >= self._max_attempts:
                    return self._give_up(split_id, error, number)
                continue
            return (yield from self._for_real(split_id, held, run))

    def _for_real(self, split_id: str, held: list[Item], run: Reading) -> Reading:
        yield from held
        held.clear()
        try:
            return (yield from run)
        except Exception as error:
            if not _not_the_split(error):
                self._failed(split_id, error)
            raise

    def _failed(self, split_id: str, error: Exception) -> int:
        record = FailureRecord(
            split=split_id,
            error=_told(error),
            subtask=self._subtask_id,
            attempt=self._attempt_number,
            host=socket.gethostname(),
        )
        return self._log.add(record)

    def _give_up(self, split_id: str, error: Exception, attempts: int) -> SplitResult[Any]:
        self._set_aside += 1
        if self._set_aside > self._max_splits:
            raise QuarantineError(
                f"{self._set_aside} splits of one task cannot be read, more than "
                f"maxQuarantinedSplits={self._max_splits}; the last one is {split_id!r}: {_told(error)}",
                remedy="mend the cause and restart the query, or raise maxQuarantinedSplits; no row of "
                "the batch was delivered",
            ) from error
        return SplitResult(
            split_id=split_id, status=SplitStatus.FAILED, error=_told(error), attempts=attempts
        )


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:LONGEST_ERROR]


def _not_the_split(error: Exception) -> bool:
    return isinstance(error, _NOT_THE_SPLIT) or isinstance(error.__cause__, _NOT_THE_SPLIT)


def _bytes_of(item: Item) -> int:
    return int(item.nbytes) if isinstance(item, pa.RecordBatch) else TUPLE_BYTES


def _exhaust(items: Iterator[Item]) -> None:
    for _ in items:
        pass
