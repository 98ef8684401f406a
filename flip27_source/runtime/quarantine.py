"""Quarantine: splits that cannot be read are set aside or left out, all of their rows or none (R12).

What a split yields is held back until it has ended, up to a limit; so a failure costs nothing but
the attempt to read it. A split too large for that is read for real at once; when it fails then,
the task fails with it, and the next attempt, which finds the failure on record, reads it once
without giving rows, and again with them when that went well.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..coordination.reports import SplitResult, SplitStatus
from ..errors import (
    AttemptError,
    ContractError,
    HeldRowsError,
    NewColumnsError,
    OptionError,
    QuarantineError,
    RegistryError,
    SplitReadError,
    StateError,
    kept_text,
)
from ..snapshots.failures import FailureLog, FailureRecord
from ..source import Source
from ..source_options import MAX_QUARANTINED_SPLITS, MAX_SPLIT_ATTEMPTS, ON_SPLIT_ERROR
from .held_rows import bytes_of
from .reading import Item, Reading

_log = logging.getLogger("flip27_source")

HELD_BACK_BYTES = 64 * 1024 * 1024
"""How much of one split is held back in memory."""

_NOT_THE_SPLIT = (
    ContractError,
    AttemptError,
    HeldRowsError,
    NewColumnsError,
    OptionError,
    RegistryError,
    StateError,
    ImportError,
    MemoryError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitErrorPolicy:
    """What the options make of a split that cannot be read.

    Attributes:
        on_error: ``onSplitError``.
        ignored_by: the options that leave out splits which fail in a certain way, as far as they are on.
        max_attempts: how many times reading a split is tried. max_quarantined: in all.
    """

    on_error: str
    ignored_by: frozenset[str]
    max_attempts: int
    max_quarantined: int

    @classmethod
    def of(cls, source: Source) -> SplitErrorPolicy:
        """The policy of a source."""
        options = source.options
        return cls(
            on_error=options[ON_SPLIT_ERROR],
            ignored_by=frozenset(name for name in source.reader_type.ignored_by if options.get(name, False)),
            max_attempts=options[MAX_SPLIT_ATTEMPTS],
            max_quarantined=options[MAX_QUARANTINED_SPLITS],
        )

    @property
    def fails_always(self) -> bool:
        """Whether every split has to be read: then nothing is held back."""
        return self.on_error == "fail" and not self.ignored_by

    def outcome(self, error: Exception) -> SplitStatus | None:
        """What becomes of a split that cannot be read for this; None: its task fails.

        The option that is for this very error goes before ``onSplitError``, which is for all.
        """
        if isinstance(error, _NOT_THE_SPLIT) or isinstance(error.__cause__, _NOT_THE_SPLIT):
            return None
        return SplitStatus.IGNORED if self.names(error) else _OUTCOMES.get(self.on_error)

    def names(self, error: Exception) -> bool:
        """Whether an option that is on is for this very error."""
        return isinstance(error, SplitReadError) and error.ignored_by in self.ignored_by


_OUTCOMES = {"quarantine": SplitStatus.FAILED, "ignore": SplitStatus.IGNORED}


class Quarantine:
    """Reads splits of one subtask so that those which cannot be read harm nobody else.

    Args:
        log: failures of other attempts; None where nothing is stored, and every split that is too
            large to be held back is read twice.
    """

    def __init__(
        self, policy: SplitErrorPolicy, log: FailureLog | None, *, subtask_id: int, attempt_number: int
    ) -> None:
        self._policy = policy
        self._log = log
        self._subtask_id = subtask_id
        self._attempt_number = attempt_number
        self._set_aside = 0

    def read(self, split_id: str, reading: Callable[[], Reading], *, demanded: bool) -> Reading:
        """What ``reading()`` yields and returns; FAILED or IGNORED after ``maxSplitAttempts`` failures.

        ``demanded``: the attempt that reported first has read it, so this one has to (R5).
        """
        tries = 0
        while True:
            held, size = [], 0
            run = reading()
            try:
                while size <= HELD_BACK_BYTES:
                    item = next(run)
                    held.append(item)
                    size += bytes_of(item)
                if self._log is None or self._log.count(split_id):
                    # It may fail, or has before: read it to its end without giving rows, then again.
                    held.clear()
                    _exhaust(run)
                    run = reading()
            except StopIteration as end:
                yield from held
                result: SplitResult[Any] = end.value
                return result
            except Exception as error:
                held.clear()
                outcome = self._policy.outcome(error)
                if outcome is None:
                    raise
                tries += 1
                number = tries if self._policy.names(error) else self._failed(split_id, error) or tries
                if number >= self._policy.max_attempts:
                    if demanded:
                        raise _has_been_read(split_id, error) from error
                    return self._give_up(split_id, outcome, error, number)
                continue
            return (yield from self._for_real(split_id, held, run))

    def _for_real(self, split_id: str, held: list[Item], run: Reading) -> Reading:
        yield from held
        held.clear()
        try:
            return (yield from run)
        except Exception as error:
            if self._policy.outcome(error) is not None:
                self._failed(split_id, error)
            raise

    def _failed(self, split_id: str, error: Exception) -> int:
        """Put a failure on record; how many there are, 0 where there is no record."""
        if self._log is None:
            return 0
        record = FailureRecord(
            split=split_id,
            error=kept_text(error),
            subtask=self._subtask_id,
            attempt=self._attempt_number,
            host=socket.gethostname(),
        )
        return self._log.add(record)

    def _give_up(
        self, split_id: str, outcome: SplitStatus, error: Exception, attempts: int
    ) -> SplitResult[Any]:
        if outcome is SplitStatus.IGNORED:
            _log.warning("split %s cannot be read and is left out: %s", split_id, kept_text(error))
        else:
            self._check_limit(split_id, error)
        return SplitResult(split_id=split_id, status=outcome, error=kept_text(error), attempts=attempts)

    def _check_limit(self, split_id: str, error: Exception) -> None:
        self._set_aside += 1
        limit = self._policy.max_quarantined
        if self._set_aside > limit:
            raise QuarantineError(
                f"{self._set_aside} splits of one task cannot be read, more than "
                f"maxQuarantinedSplits={limit}; the last one is {split_id!r}: {kept_text(error)}",
                remedy="mend the cause and restart the query, or raise maxQuarantinedSplits; no row of "
                "the batch was delivered",
            ) from error


def _has_been_read(split_id: str, error: Exception) -> AttemptError:
    return AttemptError(
        f"the attempt that reported first has read split {split_id!r}, and this one cannot: "
        f"{kept_text(error)}",
        remedy="put it back as it was: its rows may have arrived, so the batch is only repeated with them",
    )


def _exhaust(items: Iterator[Item]) -> None:
    for _ in items:
        pass
