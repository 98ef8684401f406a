"""Reports: written by executors for their part of a checkpoint, and read by the driver (R5).

A report is created once and never replaced: the first one counts. It belongs to one document, by
id and digest, so a report for a stale driver's document is never mistaken for this one's (R9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ..coordination.subtask_reports import CheckpointMetrics, SplitResult, SplitStatus, SubtaskReport
from ..enumerator import SplitEnumerator
from ..errors import AttemptError, CorruptStateError, MissingStateError
from . import file_names
from .codec import SnapshotCodec
from .documents import StoredLoss
from .event_codec import EventCodec
from .file_names import CheckpointName
from .sealed import decode_sealed, seal
from .store import Store

FORMAT = 1

_REMEDY = "restore the file from a backup of the state location"

_ABSENT = msgspec.Raw()


class StoredResult(msgspec.Struct, frozen=True, omit_defaults=True):
    split: str
    status: str
    position: msgspec.Raw = _ABSENT
    caught_up: bool = False
    error: str | None = None
    attempts: int = 0


class StoredReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int
    checkpoint: str
    subtask: int
    split_version: int
    results: list[StoredResult] = []
    events: list[msgspec.Raw] = []
    losses: list[StoredLoss] = []
    metrics: CheckpointMetrics = CheckpointMetrics()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPlace:
    """Where a subtask writes its report; it is sent to the executor.

    Attributes:
        required: the task fails if the report cannot be written (R6).
    """

    lineage: str
    name: CheckpointName
    subtask_id: int
    required: bool


class ReportStorage:
    """Writes and reads the reports of one source; the same on the driver and on executors.

    Attributes:
        events: the codec of the events that the enumerator takes.
    """

    def __init__(
        self, store: Store, codec: SnapshotCodec, enumerator_type: type[SplitEnumerator[Any]]
    ) -> None:
        self._store = store
        self._codec = codec
        self.events = EventCodec(enumerator_type)
        self._split_version = enumerator_type.split_version

    def read(self, place: ReportPlace) -> SubtaskReport[Any] | None:
        """The report that counts; None if there is none yet.

        Raises:
            CorruptStateError: the report is truncated or altered.
        """
        file = file_names.report_file(place.lineage, place.name, place.subtask_id)
        try:
            data = self._store.read(file)
        except MissingStateError:
            return None
        return self._decode(file, data)

    def rely_on(self, place: ReportPlace) -> SubtaskReport[Any] | None:
        """Like :meth:`read`, for an attempt that follows the report: the report is durable on return.

        The attempt that wrote the report may have failed or been killed before the report was durable.
        """
        report = self.read(place)
        if report is not None:
            self._store.make_durable(file_names.report_file(place.lineage, place.name, place.subtask_id))
        return report

    def write(self, place: ReportPlace, report: SubtaskReport[Any]) -> SubtaskReport[Any]:
        """Write a report, and return the one that counts: this one, or an earlier one of the same ranges.

        Raises:
            AttemptError: another attempt reported first, and has not read the same ranges.
        """
        file = file_names.report_file(place.lineage, place.name, place.subtask_id)
        if self._store.create(file, self._encode(place, report), exclusive=True):
            return report
        first = self._decode(file, self._store.read(file))
        check_same_ranges(report, first)
        return first

    def _encode(self, place: ReportPlace, report: SubtaskReport[Any]) -> bytes:
        stored = StoredReport(
            format=FORMAT,
            checkpoint=str(place.name),
            subtask=report.subtask_id,
            split_version=self._split_version,
            results=[
                StoredResult(
                    split=item.split_id,
                    status=item.status.value,
                    position=_ABSENT if item.position is None else self._codec.encode_split(item.position),
                    caught_up=item.caught_up,
                    error=item.error,
                    attempts=item.attempts,
                )
                for item in report.results
            ],
            events=[self.events.encode(event) for event in report.events],
            losses=[StoredLoss.of(loss) for loss in report.losses],
            metrics=report.metrics,
        )
        return seal("report", stored)

    def _decode(self, file: str, data: bytes) -> SubtaskReport[Any]:
        try:
            stored = decode_stored_report(file, data)
            results = tuple(self._result(stored.split_version, item) for item in stored.results)
        except ValueError as error:
            raise _unreadable(file, error) from error
        name = CheckpointName.parse(stored.checkpoint)
        return SubtaskReport(
            checkpoint_id=0 if name is None else name.checkpoint_id,
            subtask_id=stored.subtask,
            results=results,
            events=tuple(self.events.decode(event) for event in stored.events),
            losses=tuple(loss.loss() for loss in stored.losses),
            metrics=stored.metrics,
        )

    def _result(self, split_version: int, item: StoredResult) -> SplitResult[Any]:
        raw = item.position
        return SplitResult(
            split_id=item.split,
            status=SplitStatus(item.status),
            position=self._codec.decode_split(split_version, raw) if bytes(raw) else None,
            caught_up=item.caught_up,
            error=item.error,
            attempts=item.attempts,
        )


def decode_stored_report(file: str, data: bytes) -> StoredReport:
    """A report whose author values are still JSON: no author code is needed to read it.

    Raises:
        CorruptStateError: the report is truncated or altered.
        IncompatibleStateError: this library does not know the report's format.
    """
    what = f"report {file}"
    return decode_sealed(data, "report", StoredReport, what=what, format_=FORMAT, remedy=_REMEDY)


def _unreadable(file: str, error: Exception) -> CorruptStateError:
    return CorruptStateError(f"report {file} cannot be read: {error}", remedy=_REMEDY)


def check_same_ranges(mine: SubtaskReport[Any], first: SubtaskReport[Any]) -> None:
    """Raise AttemptError unless both reports cover exactly the same rows."""
    if mine.same_ranges(first):
        return
    theirs: Mapping[str, SplitResult[Any]] = {item.split_id: item for item in first.results}
    for item in mine.results:
        other = theirs.get(item.split_id)
        if other is None or not item.same_range(other):
            said = "finished it" if other is None else f"reported {_stand(other)}"
            raise AttemptError(
                f"attempt {mine.metrics.attempt_number} of subtask {mine.subtask_id} read split "
                f"{item.split_id!r} and reports {_stand(item)}; attempt {first.metrics.attempt_number} on "
                f"{first.metrics.host or 'another host'} was first and {said}",
                remedy="nothing is lost: this attempt's rows are discarded and the task is tried again",
            )
    raise AttemptError(
        f"attempt {mine.metrics.attempt_number} of subtask {mine.subtask_id} finished splits that "
        f"attempt {first.metrics.attempt_number} did not, and the first report counts",
        remedy="nothing is lost: this attempt's rows are discarded and the task is tried again",
    )


def _stand(result: SplitResult[Any]) -> str:
    return result.status.value + ("" if result.position is None else f" at {result.position!r:.200}")
