"""Reports: written by executors for their part of a checkpoint, and read by the driver (R5).

A report is created once and never replaced: the first one counts. It belongs to one document, by
id and digest, so a report for a stale driver's document is never mistaken for this one's (R9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ..coordination.subtask_reports import SplitResult, SubtaskReport
from ..enumerator import SplitEnumerator
from ..errors import AttemptError
from . import file_names
from .codec import SnapshotCodec
from .event_codec import EventCodec
from .file_names import CheckpointName
from .report_contents import ABSENT, FORMAT, StoredReport, StoredResult
from .sealed import seal
from .store import Store
from .stored_lineage import StoredLineage


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

    def read(self, place: ReportPlace, *, surely: bool = False) -> SubtaskReport[Any] | None:
        """The report that counts; None if there is none yet. ``surely``: it must exist (R19).

        Raises:
            CorruptStateError: the report is truncated or altered.
        """
        stored = StoredLineage(self._store, place.lineage).report(place.name, place.subtask_id, surely=surely)
        return None if stored is None else self._decoded(stored)

    def rely_on(self, place: ReportPlace) -> SubtaskReport[Any] | None:
        """Like :meth:`read`, for an attempt that follows the report: the report is durable on return.

        The attempt that wrote the report may have failed or been killed before the report was durable.
        """
        report = self.read(place)
        if report is not None:
            self._store.make_durable(_file(place))
        return report

    def write(self, place: ReportPlace, report: SubtaskReport[Any]) -> SubtaskReport[Any]:
        """Write a report, and return the one that counts: this one, or an earlier one of the same ranges.

        Raises:
            AttemptError: another attempt reported first, and has not read the same ranges.
        """
        if self._store.create(_file(place), self._encode(place, report), exclusive=True):
            return report
        first = self.read(place, surely=True)
        if first is None:
            raise AttemptError(
                f"the report {_file(place)} was created by another attempt and cannot be found",
                remedy="the task is tried again; if this repeats, check the state location",
            )
        check_same_ranges(report, first)
        return first

    def _encode(self, place: ReportPlace, report: SubtaskReport[Any]) -> bytes:
        stored = StoredReport(
            format=FORMAT,
            checkpoint=str(place.name),
            subtask=report.subtask_id,
            split_version=self._split_version,
            results=[
                StoredResult.of(
                    item, ABSENT if item.position is None else self._codec.encode_split(item.position)
                )
                for item in report.results
            ],
            events=[self.events.encode(event) for event in report.events],
            losses=list(report.losses),
            metrics=report.metrics,
        )
        return seal("report", stored)

    def _decoded(self, stored: StoredReport) -> SubtaskReport[Any]:
        name = CheckpointName.parse(stored.checkpoint)
        return SubtaskReport(
            checkpoint_id=0 if name is None else name.checkpoint_id,
            subtask_id=stored.subtask,
            results=results_of(stored, self._codec),
            events=tuple(self.events.decode(event) for event in stored.events),
            losses=tuple(stored.losses),
            metrics=stored.metrics,
        )


def results_of(stored: StoredReport, codec: SnapshotCodec) -> tuple[SplitResult[Any], ...]:
    def position(raw: msgspec.Raw) -> Any:
        return codec.decode_split(stored.split_version, raw) if bytes(raw) else None

    return tuple(item.result(position(item.position)) for item in stored.results)


def _file(place: ReportPlace) -> str:
    return file_names.report_file(place.lineage, place.name, place.subtask_id)


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
