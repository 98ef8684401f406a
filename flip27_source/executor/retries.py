"""SubtaskAttempt: reads a subtask and acknowledges its checkpoint (rules R4, R5).

The report is written after the last row and before the task can succeed. An attempt that finds a
report must read exactly the ranges in the report. Data lost since then is recorded in a late report.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..coordination.data_losses import DataLoss
from ..coordination.split_rules import SplitErrorPolicy
from ..coordination.subtask_reports import CheckpointMetrics, SplitResult, SplitStatus, SubtaskReport
from ..errors import AttemptError, StateError, StateLocationError
from ..log import LOG
from ..reader import SourceReaderContext, SplitReader
from ..snapshots import file_names
from ..snapshots.codec import SnapshotCodec
from ..snapshots.failure_counts import FailureLog
from ..snapshots.late_reports import LateReports, ids_in_reports, with_late
from ..snapshots.report_files import ReportPlace, ReportStorage, check_same_ranges
from ..snapshots.store import LocalStore, Store, open_store
from ..source import Source
from ..source_options import EVENT_TIME_COLUMN, STATE_LOCATION
from .events_and_losses import LossReports, QuarantinedParts, SentEvents
from .failed_tasks import READ_BEFORE
from .meter import Meter
from .quarantine import Quarantine
from .split_read import Item, opened
from .subtask_splits import SplitsOfSubtask

_NOT_READ = (SplitStatus.FAILED, SplitStatus.IGNORED, SplitStatus.RETURNED)

_SetApart = Callable[[Any], Any]


class SubtaskAttempt:
    def __init__(
        self,
        source: Source,
        place: ReportPlace,
        context: SourceReaderContext,
        codec: SnapshotCodec,
        store: Store | None,
        splits: Sequence[Any],
    ) -> None:
        self._source = source
        self._place = place
        self._codec = codec
        if store is None:
            location = source.options[STATE_LOCATION]
            assert location is not None, "the driver has written the document there"
            store = open_store(location, source.options.with_prefix("storage."))
        _check_is_shared(store, place)
        self._storage = ReportStorage(store, codec, source.enumerator_type)
        reported: SubtaskReport[Any] | None = self._storage.rely_on(place)
        self._late = LateReports(store, place.lineage, place.name)
        self._splits = splits
        self._first = None if reported is None else self._with_lost_splits(reported)
        self._lacks_splits = self._first is not reported
        self._meter = Meter(source.options[EVENT_TIME_COLUMN], context.schema)
        results = () if self._first is None else self._first.results
        # A split that was read whole has no result.
        whole = set() if self._first is None else {split.split_id for split in splits}
        whole -= {item.split_id for item in results}
        policy = SplitErrorPolicy.of(source)
        self._losses = LossReports(policy, context.checkpoint_id, source.options)
        self._parts = QuarantinedParts(policy, self._first, codec.check_split, source.options)
        self._sent = SentEvents(self._storage.events.check, self._parts)
        self._context = replace(
            context,
            checkpoint_name=f"{place.lineage}/{place.name}",
            end_positions=dict.fromkeys(whole)
            | {
                item.split_id: item.position
                for item in results
                if item.status in (SplitStatus.LIVE, SplitStatus.FINISHED)
            },
            event_sender=self._sent.send,
            loss_reporter=self._losses.report,
            quarantined_before=self._parts.before,
            sent_before=() if self._first is None else self._first.events,
            part_taker=self._parts.take,
        )
        self._quarantine = None
        if not policy.fails_always:
            log = FailureLog(store, place.lineage, place.name)
            self._quarantine = Quarantine(policy, log, self._losses, self._sent, context)

    def _with_lost_splits(self, reported: SubtaskReport[Any]) -> SubtaskReport[Any]:
        """The report that counts, with the splits that a later attempt has lost: no other one reads them."""
        late = [replace(item, losses=()) for item in self._late.read(durably=True)]
        return with_late(reported, late, ids_in_reports(self._splits, self._source.enumerator_type))

    def read(self, reader: SplitReader[Any], events: Sequence[bytes]) -> Iterator[Item]:
        """The rows of the subtask; the report is written after the last row."""
        began = time.monotonic()
        self._is_repeatable = self._source.enumerator_type.repeatable and all(
            map(reader.is_repeatable, self._splits)
        )
        reading = SplitsOfSubtask(
            reader,
            self._context,
            self._quarantine,
            self._first,
            self._codec.check_split,
            self._source.enumerator_type.set_apart,
        )
        try:
            with opened(reader, self._context, map(self._codec.events_to_readers.decode, events)):
                for item in reading.rows(self._splits):
                    self._meter.count(item)
                    yield item
            self._acknowledge(reading.results, time.monotonic() - began)
        except Exception as error:
            if self._first is not None:
                error.add_note(READ_BEFORE)
            raise

    def _acknowledge(self, results: Sequence[SplitResult[Any]], duration_s: float) -> None:
        splits, set_apart = self._splits, self._source.enumerator_type.set_apart
        not_read = _ids_unread(results, splits, set_apart)
        report = SubtaskReport(
            checkpoint_id=self._context.checkpoint_id,
            subtask_id=self._context.subtask_id,
            results=(*_with_ranges(results, splits, set_apart), *self._parts.results(not_read)),
            events=self._sent.events,
            losses=tuple(self._losses.losses),
            metrics=CheckpointMetrics(
                rows=self._meter.rows,
                bytes=self._meter.bytes,
                splits=len(splits) - sum(item.status in _NOT_READ for item in results),
                duration_ms=round(duration_s * 1000),
                attempt_number=self._context.attempt_number,
                host=socket.gethostname(),
                max_event_time=self._meter.max_event_time,
            ),
        )
        if self._first is not None:
            self._follow(report, self._first)
            return
        try:
            first = self._storage.write(self._place, report)
            if first is not report:
                _check_rows_are_complete(report, first)
                if not self._is_repeatable:
                    _check_same_events(report, first)
                self._follow(report, first)
        except AttemptError:
            raise
        except StateError as error:
            # Without a report, a split with a result would count as finished.
            if self._place.required or report.results:
                raise
            LOG.warning("the report of subtask %d could not be written: %s", report.subtask_id, error)

    def _follow(self, mine: SubtaskReport[Any], first: SubtaskReport[Any]) -> None:
        """Check this attempt against the report that counts; record data lost since then (R5, R12, R16)."""
        further = _further_losses(mine, first)
        lacks_data = self._lacks_splits or bool(further)
        check_same_ranges(_with_lost_parts(mine, first) if lacks_data else mine, first)
        may_lack_rows = lacks_data and mine.metrics.rows < first.metrics.rows
        if self._is_repeatable and mine.metrics.rows != first.metrics.rows and not may_lack_rows:
            raise _other_rows(mine, first)
        if further or self._losses.lost_splits:
            self._late.add_losses(further, self._losses.lost_splits)


def _further_losses(mine: SubtaskReport[Any], first: SubtaskReport[Any]) -> list[DataLoss]:
    return [loss for loss in mine.losses if loss not in first.losses]


def _with_lost_parts(mine: SubtaskReport[Any], first: SubtaskReport[Any]) -> SubtaskReport[Any]:
    """``mine`` with the lost parts that the first attempt quarantined, because its report keeps them."""
    split_ids = {item.split_id for item in mine.results}
    lost = [
        item
        for item in first.results
        if item.status is SplitStatus.FAILED and item.position is not None and item.split_id not in split_ids
    ]
    return replace(mine, results=(*mine.results, *lost))


def _check_rows_are_complete(mine: SubtaskReport[Any], first: SubtaskReport[Any]) -> None:
    """Refuse this attempt's rows if they lack data that another attempt, which has just ended, could read.

    The rows of the other attempt are delivered if it is still alive. If it has died, a retry of this attempt
    follows its report.
    """
    further = _further_losses(mine, first)
    if further and mine.metrics.rows < first.metrics.rows:
        raise AttemptError(
            f"attempt {mine.metrics.attempt_number} of subtask {mine.subtask_id} lacks data that "
            f"attempt {first.metrics.attempt_number} on {first.metrics.host or 'another host'} has read: "
            f"{further[0]}",
            remedy="nothing is lost: this attempt's rows are discarded and the task is tried again",
        )


def _check_same_events(mine: SubtaskReport[Any], first: SubtaskReport[Any]) -> None:
    """Refuse rows that may be older than those of which the events of another attempt tell.

    For example, the driver drops the changes that the rows of the other attempt already have. A retry follows
    the report, so its rows are newer.
    """
    if mine.events != first.events:
        raise AttemptError(
            f"attempt {mine.metrics.attempt_number} of subtask {mine.subtask_id} has sent other events than "
            f"attempt {first.metrics.attempt_number} on {first.metrics.host or 'another host'}, whose report "
            "was first",
            remedy="nothing is lost: this attempt's rows are discarded and the task is tried again",
        )


def _other_rows(mine: SubtaskReport[Any], first: SubtaskReport[Any]) -> AttemptError:
    return AttemptError(
        f"attempt {mine.metrics.attempt_number} of subtask {mine.subtask_id} read "
        f"{mine.metrics.rows} rows; the report of checkpoint {mine.checkpoint_id}, of attempt "
        f"{first.metrics.attempt_number} on {first.metrics.host or 'another host'}, "
        f"has {first.metrics.rows}",
        remedy="its data or an option of its reader has changed since then: restore the data as it was, or "
        "set the option as before until this batch is complete, and restart the query. If the rows of the "
        "source may change, set repeatable = False in the class of its reader or enumerator, or define "
        "is_repeatable in the reader if the rows of some splits may; the "
        'documentation, "Sources whose rows change", says what is guaranteed then',
    )


def _check_is_shared(store: Store, place: ReportPlace) -> None:
    """Refuse a state location in which the driver does not see what this task writes.

    Servers and object stores are the same for all; a path may name another disk on another host.
    """
    if not isinstance(store, LocalStore):
        return
    document = file_names.checkpoint_file(place.lineage, place.name)
    if not store.has(document):
        raise StateLocationError(
            f"the state location {store.location} on host {socket.gethostname()} does not contain "
            f"{document}, whose batch this task reads: driver and executors do not share that directory",
            remedy="set stateLocation to a directory that all hosts mount at this path, or to object storage",
        )


def _with_ranges(
    results: Sequence[SplitResult[Any]], splits: Sequence[Any], set_apart: _SetApart
) -> list[SplitResult[Any]]:
    """The results; each failed range is added to its result as a split that can be retried alone."""
    if all(item.status is not SplitStatus.FAILED for item in results):
        return list(results)
    ranges = {apart.split_id: apart for split in splits if (apart := set_apart(split)) != split}
    return [
        replace(item, position=ranges[item.split_id])
        if item.status is SplitStatus.FAILED and item.split_id in ranges
        else item
        for item in results
    ]


def _ids_unread(results: Sequence[SplitResult[Any]], splits: Sequence[Any], set_apart: _SetApart) -> set[str]:
    """The ids of ranges that were not read, and of splits of which nothing was read."""
    ids = {item.split_id for item in results if item.status in _NOT_READ}
    if not ids:
        return ids
    read = {split.split_id for split in splits if ids.isdisjoint((split.split_id, set_apart(split).split_id))}
    return ids | ({split.split_id for split in splits} - read)
