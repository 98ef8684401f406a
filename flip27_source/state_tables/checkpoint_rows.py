"""Rows of the views ``checkpoints``, ``reports``, ``actions``, ``losses`` and ``source``. Read-only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..snapshots.documents import CheckpointDocument, timestamp
from ..snapshots.driver_condition import DriverCondition
from ..snapshots.event_codec import StoredAction
from ..snapshots.file_names import CheckpointName
from ..snapshots.late_reports import FIRST_LATE_SUBTASK
from ..values.times import datetime_or_none, event_time
from .history import History, canonical, canonical_text
from .predicates import Predicate
from .split_rows import Row


def checkpoint_rows(history: History, asked: Predicate) -> Iterator[Row]:
    """One row for each retained checkpoint, including those that a restarted query abandoned."""
    line = history.line()
    for name in line.orphans_first:
        document = history.document(name) if asked.checkpoint(name.checkpoint_id) else None
        row = None if document is None else _checkpoint_row(history, name, document)
        if row is not None:
            yield row | {"status": line.status[name]}


def report_rows(history: History, asked: Predicate) -> Iterator[Row]:
    for name in history.line().names:
        if asked.checkpoint(name.checkpoint_id):
            yield from reports_of(history, name)


def reports_of(history: History, name: CheckpointName) -> Iterator[Row]:
    """One row for each task of a batch that has reported; late reports are of no task."""
    for subtask in history.reports.get(name, ()):
        report = None if subtask >= FIRST_LATE_SUBTASK else history.report(name, subtask)
        if report is not None:
            metrics = report.metrics
            yield {
                "checkpoint_id": name.checkpoint_id,
                "batch_id": history.batch_id(name),
                "subtask": subtask,
                "attempt": metrics.attempt_number,
                "host": metrics.host,
                "rows": metrics.rows,
                "bytes": metrics.bytes,
                "splits": metrics.splits,
                "duration_ms": metrics.duration_ms,
                "max_event_time": event_time(metrics.max_event_time),
                "events": len(report.events),
                "results": canonical(report.results),
            }


def action_rows(history: History, _asked: Predicate) -> Iterator[Row]:
    """One row for each pending side effect of the newest checkpoint: those that are due come first."""
    head = history.newest()
    if head is None:
        return
    name, document = head
    due = document.raw.actions
    for item in (due and history.values(name, document, due, StoredAction)) or ():
        yield {
            "checkpoint_id": name.checkpoint_id,
            "due_checkpoint": item.due,
            "action": canonical_text(item.action),
            "attempts": item.attempts,
            "error": item.error,
        }
    delay_ms = document.raw.action_delay
    for group in history.delayed_actions(name, document):
        for action in group.actions:
            yield {
                "checkpoint_id": name.checkpoint_id,
                "due_checkpoint": group.due_checkpoint_id,
                "waits_since": timestamp(group.since_ms),
                "due_at": None if delay_ms is None else timestamp(group.since_ms + delay_ms),
                "action": canonical_text(action),
                "attempts": 0,
            }


def loss_rows(history: History, asked: Predicate) -> Iterator[Row]:
    newest = history.newest()
    if newest is None:
        return
    name, document = newest
    reports = (history.report(name, subtask) for subtask in history.reports.get(name, ()))
    reported = [loss for report in reports if report is not None for loss in report.losses]
    for item in (*document.raw.ledger.losses, *reported):
        if asked.checkpoint(item.checkpoint_id) and (item.split_id is None or asked.split(item.split_id)):
            yield {"checkpoint_id": item.checkpoint_id, "split_id": item.split_id, "what": item.what}


def source_rows(history: History, _asked: Predicate) -> Iterator[Row]:
    line = history.line()
    source = history.source()
    if source is None:
        return
    yield {
        **_driver(history.driver),
        "uid": source.uid,
        "enumerator": source.enumerator,
        "reader": source.reader,
        "state_version": source.state_version,
        "split_version": source.split_version,
        "library": source.library,
        "start_options": source.start_options,
        "checkpoints": len(line.status),
        "newest_checkpoint": line.names[-1].checkpoint_id if line.names else None,
    }


def _driver(newest: DriverCondition | None) -> Row:
    """The columns of the newest driver, as far as they are known."""
    if newest is None:
        return {}
    record = newest.driver.record
    known = {
        "epoch": newest.driver.epoch,
        "driver": newest.condition.value,
        "driver_since": datetime_or_none(newest.since_ms),
    }
    if record is None:
        return known
    return known | {
        "error": record.error,
        "remedy": record.remedy,
        "failed_checkpoints": len(record.failed),
        "last_failure": record.last_failure,
        "driver_host": record.host,
        "driver_process": record.process,
        "driver_started_at": datetime_or_none(record.started_ms),
    }


def _checkpoint_row(history: History, name: CheckpointName, document: CheckpointDocument) -> Row | None:
    raw = document.raw

    def counted(segments: list[str]) -> tuple[int, int] | None:
        found = []
        for segment in segments:
            counts = history.counted(name, document, segment)
            if counts is None:
                return None  # clean-up has removed it
            found.append(counts)
        return sum(splits for splits, _ in found), sum(files for _, files in found)

    plan = counted([item.splits for item in raw.plan])
    waiting = counted([item.splits for item in raw.ledger.waiting])
    actions: list[Any] | None = []
    if raw.actions is not None:
        actions = history.values(name, document, raw.actions, msgspec.Raw)
    if plan is None or waiting is None or actions is None:
        return None
    return {
        "checkpoint_id": name.checkpoint_id,
        "batch_id": history.batch_id(name),
        "created_at": timestamp(document.timestamp_ms),
        "kind": raw.kind,
        "splits": plan[0],
        "files": plan[1],
        "subtasks": len(raw.plan),
        "live": len(raw.ledger.live),
        "waiting": waiting[0] + len(raw.ledger.ranges),
        "finished": raw.ledger.finished,
        "quarantined": raw.ledger.quarantined_count,
        "ignored": raw.ledger.ignored_count,
        "data_losses": raw.ledger.loss_count,
        "sized": None if raw.times is None or raw.times.decided is None else canonical(raw.times.decided),
        "event_time": None if raw.event_time is None else canonical(raw.event_time),
        "horizon": None if raw.horizon is None else canonical(raw.horizon),
        "actions": len(actions),
        "delayed_actions": sum(page.count - page.done for page in raw.delayed),
        "report_demand": raw.reports,
        "state": canonical_text(raw.enumerator.state),
        "state_version": raw.enumerator.version,
        "library": raw.source.library,
        "document_bytes": len(msgspec.json.encode(raw)),
        "segment_bytes": sum(item.bytes or 0 for item in raw.segments.values()),
        "digest": name.digest,
        "parent": raw.parent,
        "edits": canonical(raw.edits) if raw.edits else None,
        "restored_from": document.raw.savepoint,
    }
