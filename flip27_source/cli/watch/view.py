"""Watching: the progress of a source, from its state location alone. Read-only; draws nothing."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import msgspec

from flip27_source.coordination.alignment import BatchHorizon
from flip27_source.coordination.batch_sizing import SizedLimits
from flip27_source.coordination.edit_values import AppliedEdit
from flip27_source.coordination.event_time_order import EventTimeProgress
from flip27_source.coordination.subtask_reports import SplitStatus
from flip27_source.errors import Flip27Error, MissingStateError
from flip27_source.snapshots.documents import CheckpointDocument, timestamp
from flip27_source.snapshots.driver_condition import Condition
from flip27_source.snapshots.file_names import CheckpointName
from flip27_source.snapshots.late_reports import report_is_demanded
from flip27_source.source_progress import ProgressTable
from flip27_source.state_tables.checkpoint_rows import reports_of
from flip27_source.state_tables.history import COMPLETE, Ancestry, History, unassigned_pages
from flip27_source.values.times import event_time

from ..state.rows import Looks, Place, Row, checkpoint_row, driver_said, newest_complete
from .look import Look, looked
from .standing import Standing, numbers_of, of_driver, progress_of, rows_planned, standing

T = TypeVar("T")

WINDOW = 10
"""Number of newest batches from which rates are computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskProgress:
    """One subtask of the newest batch.

    Attributes:
        done: how many of its splits are known to be read: all once it has reported or the batch is complete,
            0 before that.
        rows, duration_ms, host: what it has reported.
    """

    subtask: int
    splits: int
    done: int
    rows: int | None = None
    duration_ms: int | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One lineage at one moment.

    Attributes:
        at: when the state was read.
        driver, condition: whether its driver runs, in words and in one word; None if no driver is known.
        unread: why its state cannot be read; None if it can.
        error, remedy: with which its driver has failed, and what to do about it, or about ``unread``.
        failed_checkpoints, last_failure: how many of its checkpoints have failed, of the newest ten, and when
            and why the last one.
        checkpoint_id, batch_id, status, created_at: of the newest checkpoint; None before the first.
        complete_id, complete_at: of the newest checkpoint whose batch is complete, and when it was created.
        lag_s: seconds since the newest checkpoint was created.
        event_time_lag_s: seconds between the largest event time reported and now.
        checkpoint_bytes: size of the newest checkpoint, with the segments that it shares with others.
        backlog: splits that were found and are not in a batch yet. waiting: those of them that a limit has
            postponed. live: splits that continue.
        backlog_rows, backlog_bytes, backlog_age_s: rows and bytes of the backlog, and the age of its oldest
            record, from the summary in the checkpoint's offset; None unless Spark's checkpoint was given.
        backlog_per_s: growth of the backlog in splits per second over the newest batches; negative if it
            shrinks; None before the second batch.
        limited_by: the limits that have ended the newest batch, by ``files``, ``rows``, ``bytes``; empty if
            it has all that was there, or Spark's checkpoint is not known.
        sized: with ``targetBatchDuration``, the limits of the newest batch and why they are these.
        event_time: with ``eventTimeOrder``, how far batches are, and the smallest watermark delay that loses
            nothing.
        horizon: with ``maxEventTimeDrift`` or ``replaySpeed``, how far the newest batch was read.
        finished, quarantined, ignored: numbers of splits since the source's first start.
        data_losses: how often data was lost before it was read. These three include the reports of the
            newest batch.
        rows_per_s, splits_per_s: averages over the newest batches, which fall while no new batch begins;
            rows_per_s is None if neither tasks report nor splits tell their rows.
        batches: number of retained checkpoints.
        report_demand: whether the tasks of the newest batch report: none, wanted or required.
        subtasks: of the newest batch.
        standing: what is known besides numbers. looked: what a look into the source itself has found.
    """

    lineage: str
    at: dt.datetime
    driver: str | None = None
    condition: str | None = None
    unread: str | None = None
    error: str | None = None
    remedy: str | None = None
    failed_checkpoints: int = 0
    last_failure: str | None = None
    checkpoint_id: int | None = None
    batch_id: int | None = None
    status: str | None = None
    created_at: dt.datetime | None = None
    complete_id: int | None = None
    complete_at: dt.datetime | None = None
    lag_s: float | None = None
    event_time_lag_s: float | None = None
    checkpoint_bytes: int | None = None
    backlog: int = 0
    waiting: int = 0
    backlog_rows: int | None = None
    backlog_bytes: int | None = None
    backlog_age_s: float | None = None
    backlog_per_s: float | None = None
    limited_by: Mapping[str, int] = field(default_factory=dict)
    sized: SizedLimits | None = None
    event_time: EventTimeProgress | None = None
    horizon: BatchHorizon | None = None
    live: int = 0
    finished: int = 0
    quarantined: int = 0
    ignored: int = 0
    data_losses: int = 0
    rows_per_s: float | None = None
    splits_per_s: float | None = None
    batches: int = 0
    report_demand: str | None = None
    subtasks: Sequence[SubtaskProgress] = ()
    standing: Standing = field(default_factory=Standing)
    looked: Look | None = None

    @property
    def tables(self) -> list[ProgressTable]:
        """What the enumerator tells of the state, and of the source itself."""
        return [*self.standing.progress, *(self.looked.tables if self.looked else ())]

    @property
    def level_in_s(self) -> float | None:
        """Seconds until the backlog is read, if it goes on shrinking as it does; None if it does not."""
        if not self.backlog:
            return 0.0
        growth = self.backlog_per_s or 0.0
        return -self.backlog / growth if self.condition == Condition.RUNNING and growth < 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A checkpoint and the work of its batch.

    Attributes:
        row: of the view checkpoints. reports: rows of the view reports, by subtask.
        backlog: splits that were found and in no batch yet when it was planned.
        planned_rows: if not all tasks have reported, the rows that it reads by its splits; None: they do not
            tell.
        quarantined, ignored, losses: how many its reports tell.
        edits: those that it has applied. target: where its checkpoint is a savepoint.
    """

    row: Row
    reports: dict[int, Row]
    backlog: int
    planned_rows: int | None
    quarantined: int
    ignored: int
    losses: int
    edits: Sequence[AppliedEdit] = ()
    target: str | None = None

    @property
    def slowest_ms(self) -> int | None:
        """How long its slowest task worked; None if none has reported."""
        return max((report["duration_ms"] for report in self.reports.values()), default=None)

    def total(self, column: str) -> int | None:
        """The sum of a column of the reports; None if none has reported."""
        return sum(report[column] for report in self.reports.values()) if self.reports else None

    def rows_of_one(self, subtask: int) -> int | None:
        """The rows of a subtask that read a single split; None if it read several, or has not reported."""
        report = self.reports.get(subtask)
        return report["rows"] if report is not None and report["splits"] == 1 else None

    @property
    def rows(self) -> int | None:
        """The rows that it has read, by its reports or else by its splits; None if neither tells them."""
        told = len(self.reports) == self.row["subtasks"]
        return sum(report["rows"] for report in self.reports.values()) if told else self.planned_rows


@dataclass(slots=True)
class Watcher:
    """Reads a location repeatedly; what the last look needed is not read again, and all else is forgotten.

    Attributes:
        is_brief: whether frames have numbers only, and no ``standing``, which takes two requests more.
        looked: by lineage, what the newest look into a source itself has found.
    """

    place: Place
    is_brief: bool = False
    _looks: Looks = field(init=False)
    _last: dict[Any, Any] = field(default_factory=dict)
    _needed: dict[Any, Any] = field(default_factory=dict)
    looked: dict[str, Look] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._looks = Looks(self.place)

    def frames(self, now: dt.datetime) -> list[Frame]:
        """One frame for each lineage; one that cannot be read does not hide the others.

        Raises:
            StateError: nothing is there, or nothing can be read.
        """
        unread: dict[str, Flip27Error] = {}
        frames = [frame for _, frame in self.look(now, unread)]
        for error in () if frames else unread.values():
            raise error
        damaged = (
            Frame(lineage=name, at=now, unread=error.what, remedy=error.remedy)
            for name, error in unread.items()
        )
        return [*frames, *damaged]

    def look_into_sources(self, given: Mapping[str, str], now: dt.datetime, only: str | None = None) -> None:
        """Look into each source itself, once; later frames show it.

        Args:
            given: the options that the states do not have. only: a lineage; None: all of them.
        """
        for history in self._looks.histories():
            if only in (None, history.lineage.name):
                self.looked[history.lineage.name] = looked(history, given, now)

    def look(
        self, now: dt.datetime, unread: dict[str, Flip27Error] | None = None
    ) -> list[tuple[History, Frame]]:
        """Each lineage with its frame; raises as :meth:`frames` does.

        Args:
            unread: takes the errors of lineages that cannot be read, by name, which are raised without it.
        """
        self._last, self._needed = self._needed, {}
        try:
            return list(self._framed(now, unread, again=False))
        except MissingStateError:  # clean-up may have been quicker: a new look does not ask for it
            return list(self._framed(now, unread, again=True))

    def _framed(
        self, now: dt.datetime, unread: dict[str, Flip27Error] | None, *, again: bool
    ) -> Iterator[tuple[History, Frame]]:
        for history in self._looks.histories():
            try:
                yield history, self._frame(history, now)
            except Flip27Error as error:
                if unread is None or (isinstance(error, MissingStateError) and not again):
                    raise
                unread[history.lineage.name] = error

    @property
    def kept(self) -> int:
        """The number of batches and sizes of segments that are kept for the next look."""
        return len(self._needed)

    def _once(self, key: Any, read: Callable[[], T]) -> T:
        """What the last look has read for this key, or ``read()``; kept for the next look."""
        value: T = self._needed[key] if key in self._needed else self._last.get(key) or read()
        self._needed[key] = value
        return value

    def _frame(self, history: History, now: dt.datetime) -> Frame:
        line = history.line()
        names = line.names[-WINDOW - 1 :]
        lineage = history.lineage.name
        # All except the newest are final.
        earlier = [self._once((lineage, name), partial(read_batch, history, name)) for name in names[:-1]]
        newest_one = (read_batch(history, name) for name in names[-1:])
        batches = [batch for batch in (*earlier, *newest_one) if batch]
        document = history.head(line)
        driver, record = history.driver, history.record
        frame = Frame(
            lineage=lineage,
            at=now,
            driver=driver_said(driver),
            condition=driver and driver.condition.value,
            error=None if record is None else record.error,
            remedy=None if record is None else record.remedy,
            failed_checkpoints=0 if record is None else len(record.failed),
            last_failure=None if record is None else record.last_failure,
            looked=self.looked.get(lineage),
            standing=of_driver(history),
        )
        if document is None or not batches:
            return frame
        newest, batch = names[-1], batches[-1]
        row, reports = batch.row, batch.reports
        is_complete = line.status[newest] == COMPLETE
        read = batches if is_complete else batches[:-1]
        passed_s = _passed_s(batches, now, is_complete=is_complete)
        summary = history.summary(newest)
        complete = newest_complete(line)
        of_complete = complete and history.document(complete)
        oldest = event_time(summary.get("backlogOldestEventTime"))
        return replace(
            frame,
            checkpoint_id=newest.checkpoint_id,
            batch_id=row["batch_id"],
            status=line.status[newest],
            created_at=row["created_at"],
            complete_id=None if complete is None else complete.checkpoint_id,
            complete_at=None if not of_complete else timestamp(of_complete.timestamp_ms),
            lag_s=(now - row["created_at"]).total_seconds(),
            event_time_lag_s=_event_time_lag_s(batches, now),
            checkpoint_bytes=row["document_bytes"] + row["segment_bytes"],
            backlog=batch.backlog,
            waiting=row["waiting"],
            backlog_rows=_count_in(summary, "backlogRows"),
            backlog_bytes=_count_in(summary, "backlogBytes"),
            backlog_age_s=None if oldest is None else (now - oldest).total_seconds(),
            backlog_per_s=_rate(batch.backlog - batches[0].backlog, passed_s) if batches[1:] else None,
            **bounds_of(document, summary),
            live=row["live"],
            finished=row["finished"],
            quarantined=row["quarantined"] + batch.quarantined,
            ignored=row["ignored"] + batch.ignored,
            data_losses=row["data_losses"] + batch.losses,
            rows_per_s=_rate(_rows(read), passed_s),
            splits_per_s=_rate(sum(batch.row["splits"] for batch in read) if read else None, passed_s),
            batches=len(line.names),
            report_demand=row["report_demand"],
            standing=frame.standing if self.is_brief else self._standing(history, line, document, batches),
            subtasks=[
                _subtask(
                    item.subtask,
                    history.split_count(newest, document, item.splits),
                    reports.get(item.subtask, {}),
                    is_complete,
                )
                for item in document.raw.plan
            ],
        )

    def _standing(
        self, history: History, line: Ancestry, document: CheckpointDocument, batches: Sequence[Batch]
    ) -> Standing:
        newest = line.names[-1]
        numbers = numbers_of(history, newest)
        # Nothing else changes what is told of a checkpoint.
        key = (history.lineage.name, newest, msgspec.json.encode(numbers, enc_hook=str, order="sorted"))
        told = self._once(key, lambda: progress_of(history, document, numbers))
        return standing(history, batches, self._started_from(history, line), told)

    def _started_from(self, history: History, line: Ancestry) -> str | None:
        """The savepoint of the oldest checkpoint, which is the first one as long as a claim matters."""
        first = line.names[0]

        def read() -> tuple[str | None]:
            document = history.document(first)
            return (None if document is None else document.raw.savepoint,)

        return self._once((history.lineage.name, first, "savepoint"), read)[0]


def _subtask(subtask: int, splits: int, report: Row, is_complete: bool) -> SubtaskProgress:
    reported = {name: report.get(name) for name in ("rows", "duration_ms", "host")}
    done = splits if is_complete or report else 0
    return SubtaskProgress(subtask=subtask, splits=splits, done=done, **reported)


def read_batch(history: History, name: CheckpointName) -> Batch | None:
    row = checkpoint_row(history, name)
    if row is None:
        return None
    reports = {report["subtask"]: report for report in reports_of(history, name)}
    document = history.document(name)
    # What a DiscoveringEnumerator has found and not assigned.
    pages = [] if document is None else [(document, page) for page in unassigned_pages(document)]
    held = sum(history.split_count(name, of, page.splits) - page.taken for of, page in pages)
    noted = _count_in(history.summary(name), "backlogSplits") or 0
    told = [report for number in history.reports.get(name, ()) if (report := history.report(name, number))]
    if row["report_demand"] == "none" and (reports or any(map(report_is_demanded, told))):
        row["report_demand"] = "required"
    is_told = len(reports) == row["subtasks"]
    statuses = Counter(result.status for report in told for result in report.results)
    return Batch(
        row=row,
        reports=reports,
        backlog=max(noted, row["waiting"] + held),
        planned_rows=None if is_told or document is None else rows_planned(history, name, document),
        quarantined=statuses[SplitStatus.FAILED],
        ignored=statuses[SplitStatus.IGNORED],
        losses=sum(len(report.losses) for report in told),
        edits=() if document is None else document.raw.edits,
        target=None if document is None or document.raw.kind != "savepoint" else document.raw.target,
    )


def _count_in(summary: Mapping[str, Any], name: str) -> int | None:
    value = summary.get(name)
    return value if isinstance(value, int) else None


def bounds_of(document: CheckpointDocument, summary: Mapping[str, Any]) -> dict[str, Any]:
    """What bounds a batch, as a frame of the batch has it; ``summary``: in its offset."""
    limits, raw = summary.get("limitedBy"), document.raw
    known = limits if isinstance(limits, Mapping) else {}
    return {
        "limited_by": {
            name: n for name in ("files", "rows", "bytes") if isinstance(n := known.get(name), int)
        },
        "sized": None if raw.times is None else raw.times.decided,
        "event_time": raw.event_time,
        "horizon": raw.horizon,
    }


def _rows(read: Sequence[Batch]) -> int | None:
    """The rows of these batches; None if there are none, or if those of one are not known."""
    rows = [batch.rows for batch in read]
    known = [count for count in rows if count is not None]
    return sum(known) if known and len(known) == len(rows) else None


def _passed_s(batches: Sequence[Batch], now: dt.datetime, *, is_complete: bool) -> float:
    """The time in which the batches of the window were read, as the divisor of the rates.

    If the newest batch is complete, its splits count, and so does all time since it began. If it is still
    running, its splits do not count, and of its time only what exceeds the average of the earlier batches.
    """
    oldest, newest = batches[0].row["created_at"], batches[-1].row["created_at"]
    until_newest_s: float = (newest - oldest).total_seconds()
    since_newest_s: float = (now - newest).total_seconds()
    if is_complete:
        return until_newest_s + since_newest_s
    usual_s = until_newest_s / max(1, len(batches) - 1)
    return until_newest_s + max(0.0, since_newest_s - usual_s)


def _rate(amount: int | None, passed_s: float) -> float | None:
    return amount / passed_s if amount is not None and passed_s > 0 else None


def _event_time_lag_s(batches: Sequence[Batch], now: dt.datetime) -> float | None:
    times = [
        report["max_event_time"]
        for batch in batches
        for report in batch.reports.values()
        if report["max_event_time"] is not None
    ]
    return (now - max(times)).total_seconds() if times else None
