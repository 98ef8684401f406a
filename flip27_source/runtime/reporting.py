"""ReportingSubtask: reads a subtask and acknowledges its checkpoint (rules R4, R5).

The report is written when everything has been read and before the task can end well. An attempt
that finds a report has to read exactly what that one says, and writes nothing.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..coordination.reports import CheckpointMetrics, SplitResult, SplitStatus, SubtaskReport
from ..errors import AttemptError, StateError, StateLocationError
from ..events import SourceEvent
from ..reader import ReadsTogether, SourceReaderContext, SplitReader, YieldsProgress
from ..snapshots.codec import SnapshotCodec
from ..snapshots.failures import FailureLog
from ..snapshots.reports import ReportPlace, ReportStorage, check_same_ranges
from ..snapshots.store import Store, open_store
from ..source import Source
from ..source_options import (
    EVENT_TIME_COLUMN,
    MAX_BYTES_PER_SPLIT,
    MAX_QUARANTINED_SPLITS,
    MAX_ROWS_PER_SPLIT,
    MAX_SPLIT_ATTEMPTS,
    MAX_SPLIT_DURATION,
    ON_SPLIT_ERROR,
    STATE_LOCATION,
)
from ..split import size_of
from .meter import Meter
from .quarantine import Quarantine
from .reading import Item, Reading, SplitBudget, conformed, read_bounded, read_whole, unmarked

_log = logging.getLogger("flip27_source")

TOGETHER_BYTES = 8 * 1024 * 1024
"""With quarantine, so much is read together: what is read again when one of it cannot be read."""


class ReportingSubtask:
    """One attempt of one subtask that reports."""

    def __init__(
        self,
        source: Source,
        place: ReportPlace,
        context: SourceReaderContext,
        codec: SnapshotCodec,
        store: Store | None,
    ) -> None:
        self._source = source
        self._place = place
        self._codec = codec
        store = store or _store_of(source)
        self._storage = ReportStorage(store, codec, source.enumerator_type)
        self._first: SubtaskReport[Any] | None = self._storage.read(place)
        self._sent: list[SourceEvent] = []
        self._results: list[SplitResult[Any]] = []
        self._meter = Meter(source.options[EVENT_TIME_COLUMN])
        results = () if self._first is None else self._first.results
        self._expected: dict[str, SplitResult[Any]] = {item.split_id: item for item in results}
        self._context = replace(
            context,
            end_positions={
                item.split_id: item.position
                for item in results
                if item.status in (SplitStatus.LIVE, SplitStatus.FINISHED)
            },
            event_sender=self._send,
        )
        self._quarantine = None
        if source.options[ON_SPLIT_ERROR] == "quarantine":
            self._quarantine = Quarantine(
                FailureLog(store, place.lineage, place.name),
                max_attempts=source.options[MAX_SPLIT_ATTEMPTS],
                max_splits=source.options[MAX_QUARANTINED_SPLITS],
                subtask_id=place.subtask_id,
                attempt_number=context.attempt_number,
            )

    def read(
        self, reader: SplitReader[Any], splits: Sequence[Any], events: Sequence[bytes]
    ) -> Iterator[Item]:
        """The rows of the subtask; at their end the report is there."""
        began = time.monotonic()
        reader.open(self._context)
        try:
            for event in events:
                reader.handle_source_event(self._codec.events_to_readers.decode(event))
            for item in self._rows(reader, splits):
                self._meter.count(item)
                yield item
        finally:
            reader.close()
        self._acknowledge(len(splits), time.monotonic() - began)

    def _rows(self, reader: SplitReader[Any], splits: Sequence[Any]) -> Iterator[Item]:
        if isinstance(reader, YieldsProgress):
            for split in splits:
                yield from self._kept(self._bounded(reader, split))
        elif not isinstance(reader, ReadsTogether):
            for split in splits:
                yield from self._kept(self._whole(reader, split))
        elif self._quarantine is None:
            yield from unmarked(conformed(reader.read_together, splits, splits, self._context))
        else:
            for group in _groups(splits):
                yield from self._together(reader, group)

    def _kept(self, reading: Reading) -> Generator[Item, None, None]:
        result = yield from reading
        # A split that was read whole is what the absence of a result means: reports stay small.
        if result.status is not SplitStatus.FINISHED or issubclass(self._source.reader_type, YieldsProgress):
            self._results.append(result)

    def _whole(self, reader: SplitReader[Any], split: Any) -> Reading:
        expected = self._expected_of_whole(split)

        def reading() -> Reading:
            return read_whole(reader, split, self._context, expected)

        return reading() if self._quarantine is None else self._quarantine.read(split.split_id, reading)

    def _bounded(self, reader: SplitReader[Any], split: Any) -> Reading:
        options = self._source.options
        budget = SplitBudget(
            rows=options[MAX_ROWS_PER_SPLIT],
            bytes=options[MAX_BYTES_PER_SPLIT],
            duration_s=options[MAX_SPLIT_DURATION],
        )
        expected = self._expected.get(split.split_id)
        whole_pages = self._quarantine is not None

        def reading() -> Reading:
            return read_bounded(reader, split, self._context, budget, expected, whole_pages=whole_pages)

        return reading() if self._quarantine is None else self._quarantine.read(split.split_id, reading)

    def _together(self, reader: SplitReader[Any], group: Sequence[Any]) -> Iterator[Item]:
        """A group of small splits in one go; one by one where that fails, to find the bad one."""
        assert isinstance(reader, ReadsTogether)
        read = [split for split in group if split.split_id not in self._expected]
        try:
            rows = list(unmarked(conformed(reader.read_together, read, read, self._context)))
        except Exception as error:  # noqa: BLE001 - what it was shows when they are read one by one
            _log.warning("%d splits cannot be read together, and are read one by one: %s", len(read), error)
        else:
            yield from rows
            self._results.extend(
                self._expected[split.split_id] for split in group if split.split_id in self._expected
            )
            return
        for split in group:
            yield from self._kept(self._whole(reader, split))

    def _expected_of_whole(self, split: Any) -> SplitResult[Any] | None:
        expected = self._expected.get(split.split_id)
        if expected is None and self._first is not None:
            return SplitResult(split_id=split.split_id, status=SplitStatus.FINISHED)
        return expected

    def _send(self, event: SourceEvent) -> None:
        self._storage.events.check(event)  # refused here, where the author sees who sent it
        self._sent.append(event)

    def _acknowledge(self, splits: int, duration_s: float) -> None:
        report = SubtaskReport(
            checkpoint_id=self._context.checkpoint_id,
            subtask_id=self._context.subtask_id,
            results=tuple(self._results),
            events=tuple(self._sent),
            metrics=CheckpointMetrics(
                rows=self._meter.rows,
                bytes=self._meter.bytes,
                splits=splits - len([r for r in self._results if r.status is SplitStatus.FAILED]),
                duration_ms=round(duration_s * 1000),
                attempt_number=self._context.attempt_number,
                host=socket.gethostname(),
                max_event_time=self._meter.max_event_time,
            ),
        )
        if self._first is not None:
            check_same_ranges(report, self._first)
            return
        try:
            self._storage.write(self._place, report)
        except AttemptError:
            raise
        except StateError as error:
            if self._place.required:
                raise
            _log.warning("the report of subtask %d could not be written: %s", report.subtask_id, error)


def _store_of(source: Source) -> Store:
    location = source.options[STATE_LOCATION]
    if location is None:
        raise StateLocationError(
            f"the tasks of source {source.uid} write reports, and option stateLocation is not set",
            remedy='set .option("stateLocation", "<checkpointLocation>/flip27")',
        )
    return open_store(location, source.options.with_prefix("storage."))


def _groups(splits: Sequence[Any]) -> Iterator[list[Any]]:
    group: list[Any] = []
    total = 0
    for split in splits:
        size = size_of(split).bytes
        size = TOGETHER_BYTES if size is None else size
        if group and total + size > TOGETHER_BYTES:
            yield group
            group, total = [], 0
        group.append(split)
        total += size
    if group:
        yield group
