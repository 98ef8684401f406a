"""UnreadableFiles: files of a batch that cannot be read, by the policies of the source.

They are recorded before the other files are delivered. A batch that runs again after a crash leaves
out the same files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flip27_source.coordination.data_losses import DataLoss
from flip27_source.coordination.split_rules import SplitErrorPolicy
from flip27_source.coordination.subtask_reports import SplitResult, SplitStatus
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import DataLossError, QuarantineError, SplitReadError, kept_text
from flip27_source.file_systems.secrets_in_texts import hidden_of_store
from flip27_source.log import LOG
from flip27_source.options import Options
from flip27_source.schemas.column_comments import SourceOfSplits
from flip27_source.snapshots.late_reports import LateReports
from flip27_source.snapshots.store import open_store

_ATTEMPTS = 2
"""A file is given up after the batch has failed and the file alone has failed."""


class UnreadableFiles:
    def __init__(self, source: SourceOfSplits, checkpoint_name: str | None, options: Options) -> None:
        self._policy = SplitErrorPolicy(
            on_error=source.on_error,
            reports_loss=source.reports_loss,
            ignored_by=frozenset(source.ignored_by),
            max_attempts=_ATTEMPTS,
            max_quarantined=source.max_quarantined,
        )
        self._hide = hidden_of_store(options).in_text
        self._late: LateReports | None = None
        location = source.state_location
        if not (self._policy.fails_always or checkpoint_name is None or location is None):
            store = open_store(location, options.with_prefix("storage."))
            self._late = LateReports.of(store, checkpoint_name)

    @property
    def is_possible(self) -> bool:
        """Whether files may be given up; otherwise a file that cannot be read stops the query."""
        return self._late is not None

    def remaining(self, files: Sequence[FileSplit]) -> list[FileSplit]:
        """The files without those that an earlier run of the batch gave up."""
        late = self._late
        if late is None:
            return list(files)
        gone = {item.split_id for report in late.read() for item in report.results}
        return [file for file in files if file.split_id not in gone]

    def give_up(self, bad: Sequence[tuple[FileSplit, SplitReadError]]) -> None:
        """Record files; durable on return.

        Raises:
            SplitReadError: the policy does not allow the error of one of them.
            QuarantineError: more than ``maxQuarantinedSplits`` files of the batch cannot be read.
        """
        results: list[SplitResult[Any]] = []
        losses: list[DataLoss] = []
        for file, error in bad:
            status = self._policy.outcome(error)
            if status is None or self._late is None:
                raise error
            said, what = kept_text(error, self._hide), self._hide(error.what)
            results.append(SplitResult(split_id=file.split_id, status=status, error=said, attempts=_ATTEMPTS))
            if self._policy.is_reported_loss(error) and isinstance(error, DataLossError):
                losses.append(DataLoss(checkpoint_id=0, split_id=file.split_id, what=what))
            LOG.warning("%s cannot be read and is given up in this batch: %s", file.path, what)
        failed = [item for item in results if item.status is SplitStatus.FAILED]
        if len(failed) > self._policy.max_quarantined:
            raise QuarantineError(
                f"{len(failed)} files of one batch cannot be read, more than "
                f"maxQuarantinedSplits={self._policy.max_quarantined}; the last one is "
                f"{failed[-1].split_id!r}: {failed[-1].error}",
                remedy="fix the cause and restart the query, or raise maxQuarantinedSplits",
            )
        assert self._late is not None
        self._late.add(results, losses)
