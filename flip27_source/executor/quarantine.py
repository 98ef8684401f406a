"""Quarantine: quarantines or ignores splits that cannot be read; delivers all rows of a split or none (R12).

The rows of a split are buffered until the split has ended, up to a size limit, so that a failure costs
only one attempt. The rows of a larger split are delivered while it is read. If it then fails, the task
fails too; the next attempt finds the recorded failure, reads the split once without delivering rows, and
reads it again, with rows, if that succeeded.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ..coordination.split_rules import SplitErrorPolicy
from ..coordination.subtask_reports import SplitResult, SplitStatus
from ..errors import AttemptError, DataLossError, QuarantineError, kept_text
from ..file_systems.secrets_in_texts import hidden_of_store
from ..log import LOG
from ..reader import SourceReaderContext
from ..snapshots.failure_counts import FailureLog, FailureRecord
from .buffered_rows import bytes_of
from .events_and_losses import LossReports, SentEvents
from .split_read import Item, Reading

BUFFERED_BYTES = 64 * 1024 * 1024
"""Maximum size of the rows of one split that are buffered in memory."""


@dataclass(eq=False, repr=False)
class Quarantine:
    """Reads the splits of one subtask so that an unreadable split does not affect the others.

    Args:
        log: failures of other attempts; None if they are not stored: then every split that is too
            large to be buffered is read twice.
        losses: collects the losses of splits that are ignored because their data was lost.
        sent: the events of the reader; those of failed tries are taken back.
    """

    _policy: SplitErrorPolicy
    _log: FailureLog | None
    _losses: LossReports
    sent: SentEvents
    _context: SourceReaderContext
    _quarantined: int = field(default=0, init=False)

    def _kept(self, error: Exception) -> str:
        """The text of an error for the state, without the secrets of its store."""
        return kept_text(error, hidden_of_store(self._context.options).in_text)

    def may_give_up(self, error: Exception) -> bool:
        """Whether a split that fails with this error may be given up; otherwise its task fails."""
        return self._policy.outcome(error) is not None

    def read(
        self,
        split_id: str,
        reading: Callable[[], Reading],
        demanded: SplitResult[Any] | None = None,
        *,
        is_required: bool = False,
    ) -> Reading:
        """Yield and return as ``reading()`` does; give the split up after ``maxSplitAttempts`` failures.

        The result of a split that is given up is FAILED or IGNORED.

        Args:
            demanded: the result of the attempt that reported first, which this attempt must reach, too (R5).
            is_required: the split is given up only if it is lost, and ``onDataLoss`` reports that.
        """
        policy = self._policy.of_split(is_required=is_required)
        tries = 0
        before = self.sent.mark()
        while True:
            rows, size = [], 0
            run = reading()
            try:
                while size <= BUFFERED_BYTES:
                    item = next(run)
                    rows.append(item)
                    size += bytes_of(item)
                if self._log is None or self._log.count(split_id):
                    # The split may fail, or has failed before: read it without delivering rows, then again.
                    rows.clear()
                    for _ in run:
                        pass
                    self.sent.take_back(before)
                    run = reading()
            except StopIteration as end:
                yield from rows
                result: SplitResult[Any] = end.value
                return result
            except Exception as error:
                rows.clear()
                self.sent.take_back(before)
                outcome = policy.outcome(error)
                if outcome is None:
                    raise
                tries += 1
                number = tries if policy.names(error) else self._failed(split_id, error) or tries
                if number >= self._policy.max_attempts:
                    if demanded is not None:
                        self._report_gone_since(demanded, error)
                        return demanded
                    return self._give_up(split_id, outcome, error, number)
                continue
            return (yield from self._for_real(split_id, rows, run, policy))

    def _for_real(self, split_id: str, rows: list[Item], run: Reading, policy: SplitErrorPolicy) -> Reading:
        yield from rows
        rows.clear()
        try:
            return (yield from run)
        except Exception as error:
            if policy.outcome(error) is not None:
                self._failed(split_id, error)
            raise

    def _failed(self, split_id: str, error: Exception) -> int:
        """Record a failure and return the number of failures; 0 if nothing is recorded."""
        if self._log is None:
            return 0
        record = FailureRecord(
            split=split_id,
            error=self._kept(error),
            subtask=self._context.subtask_id,
            attempt=self._context.attempt_number,
            host=socket.gethostname(),
        )
        return self._log.add(record)

    def _report_gone_since(self, demanded: SplitResult[Any], error: Exception) -> None:
        """Report the loss of a split that the attempt that reported first has read; it is then ignored.

        Raises:
            DataLossError: losses are fatal. AttemptError: the split is not lost, but cannot be read.
        """
        split_id = demanded.split_id
        if isinstance(error, DataLossError):
            what = f"{error.what} (the attempt that reported first has read it)"
            self._losses.report(what, split_id, error.remedy)
            if demanded.status is SplitStatus.FINISHED:
                lost = replace(demanded, status=SplitStatus.IGNORED, error=self._kept(error), attempts=1)
                self._losses.lost_splits.append(lost)
            return
        raise AttemptError(
            f"the attempt that reported first has read split {split_id!r}, and this attempt cannot read it: "
            f"{self._kept(error)}",
            remedy="restore the split's data: its rows may already be in the sink, so the batch can only be "
            "repeated with them",
        ) from error

    def _give_up(
        self, split_id: str, outcome: SplitStatus, error: Exception, attempts: int
    ) -> SplitResult[Any]:
        if outcome is SplitStatus.IGNORED:
            LOG.warning("split %s cannot be read and is ignored: %s", split_id, self._kept(error))
        else:
            self._check_limit(split_id, error)
        if self._policy.is_reported_loss(error):
            self._losses.report(
                error.what if isinstance(error, DataLossError) else self._kept(error), split_id
            )
        return SplitResult(split_id=split_id, status=outcome, error=self._kept(error), attempts=attempts)

    def _check_limit(self, split_id: str, error: Exception) -> None:
        self._quarantined += 1
        limit = self._policy.max_quarantined
        if self._quarantined > limit:
            raise QuarantineError(
                f"{self._quarantined} splits of one task cannot be read, more than "
                f"maxQuarantinedSplits={limit}; the last one is {split_id!r}: {self._kept(error)}",
                remedy="fix the cause and restart the query, or raise maxQuarantinedSplits; no row of "
                "the batch was delivered",
            ) from error
