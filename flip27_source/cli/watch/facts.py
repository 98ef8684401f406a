"""Facts about a source in words, the same in ``state show``, ``watch`` and on the page of ``ui``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.filesize import decimal

from flip27_source import errors
from flip27_source.snapshots.driver_condition import Condition
from flip27_source.state_tables.history import COMPLETE

from ..rendering import ago, counted, seconds_since
from .look import Look
from .standing import Deed
from .view import Frame

RUNBOOK = "docs/troubleshooting.md"
_SECTION_OF = {"KafkaError": "AccessError", "ServerError": "AccessError", "DatabaseFailure": "AccessError"}
"""The sections about errors of one source, by the errors' names."""
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    said: str


def facts(frame: Frame) -> list[Fact]:
    """What is to be said about a source besides its numbers, its driver and its error."""
    return [
        *_links(frame),
        *(Fact("batch in progress", said) for said in _in_progress(frame)),
        *_discovery(frame),
        *_looked(frame.looked),
        *(Fact(table.title, table.said) for table in frame.standing.progress),
        *_deeds("edit", frame.standing.edits, frame.at),
        *_deeds("savepoint", frame.standing.savepoints, frame.at),
        *_origin(frame),
    ]


def numbers(frame: Frame) -> list[Fact]:
    """The numbers of a source, and of its newest batch with what its tasks have reported."""
    if frame.checkpoint_id is None:
        return []
    complete = "none yet"
    if frame.complete_id is not None and frame.complete_at is not None:
        complete = f"{frame.complete_id}, planned {seconds_since(frame.at, frame.complete_at)} ago"
    batch = "" if frame.batch_id is None else f", batch {frame.batch_id}"
    said = {
        "checkpoint": f"{frame.checkpoint_id}{batch}, {frame.status}",
        "last complete": complete,
        "backlog": _backlog(frame),
        "lag": _measured(frame.lag_s, " s"),
        "rows/s": _measured(frame.rows_per_s),
        "splits/s": _measured(frame.splits_per_s),
        "live": counted(frame.live, "split"),
        "finished": counted(frame.finished, "split"),
        "quarantined": counted(frame.quarantined, "split"),
        "ignored": counted(frame.ignored, "split"),
        "data lost": counted(frame.data_losses, "time"),
        "event time lag": _measured(frame.event_time_lag_s, " s"),
        "retained": counted(frame.batches, "checkpoint"),
    }
    return [Fact(name, text) for name, text in said.items()]


def failed_checkpoints(frame: Frame) -> str | None:
    """How many checkpoints have failed, and why the last one; None if none has."""
    if not frame.failed_checkpoints:
        return None
    return f"{counted(frame.failed_checkpoints, 'failed checkpoint')}, the last one: {frame.last_failure}"


def runbook(error: str | None) -> str | None:
    """The part of the documentation about a kept error, which begins with its type; None without one."""
    if error is None:
        return None
    name = error.partition(":")[0]
    section = _SECTION_OF.get(name, name)
    known = section != "Flip27Error" and isinstance(getattr(errors, section, None), type)
    return f"{RUNBOOK}#{section.lower()}" if known else RUNBOOK


def _links(frame: Frame) -> Iterator[Fact]:
    where = runbook(frame.error)
    if where is not None:
        yield Fact("runbook", where)
    if frame.quarantined:
        yield Fact("runbook, not delivered", f"{RUNBOOK}#splitreaderror")


def _in_progress(frame: Frame) -> Iterator[str]:
    """Which tasks of the newest batch have reported, and whose gateways are closed."""
    if frame.checkpoint_id is None or frame.status == COMPLETE or not frame.subtasks:
        return
    reported = [item.subtask for item in frame.subtasks if item.done or item.rows is not None]
    missing = [item.subtask for item in frame.subtasks if item.subtask not in reported]
    if frame.report_demand == "none":
        yield (
            f"{counted(len(missing), 'task')}, without reports; all gateways are closed until Spark has "
            "committed the batch"
        )
        return
    yield f"reported: {_numbers(reported)}; gateways closed until they report: {_numbers(missing)}"


def _numbers(subtasks: Sequence[int]) -> str:
    shown = ", ".join(map(str, subtasks[:_MOST_NAMED])) or "none"
    return shown + (f" and {len(subtasks) - _MOST_NAMED} more" if len(subtasks) > _MOST_NAMED else "")


def _discovery(frame: Frame) -> Iterator[Fact]:
    heard_at = frame.standing.heard_at
    # By a clock that is ahead it would be in the future.
    if frame.condition == Condition.RUNNING and heard_at is not None and heard_at <= frame.at:
        yield Fact("last renewal", ago(frame.at, heard_at))
    if frame.standing.discovered_at is not None:
        yield Fact("last discovery", ago(frame.at, frame.standing.discovered_at))


def _looked(look: Look | None) -> Iterator[Fact]:
    if look is None:
        return
    when = f"asked at {look.at:%Y-%m-%d %H:%M:%S} UTC, in {look.took_s:.1f} s"
    if look.error is not None:
        advice = "" if look.remedy is None else f"; what to do: {look.remedy}"
        yield Fact("in the source", f"not known: {look.error}{advice} ({when})")
    for table in look.tables:
        yield Fact(table.title, f"{table.said} ({when})")


def _backlog(frame: Frame) -> str:
    parts = [counted(frame.backlog, "split")]
    if frame.backlog_rows is not None:
        parts.append(counted(frame.backlog_rows, "row"))
    if frame.backlog_bytes is not None:
        parts.append(decimal(frame.backlog_bytes))
    if frame.backlog_age_s is not None:
        parts.append(f"since {_measured(frame.backlog_age_s, ' s')}")
    return ", ".join(parts)


def _measured(number: float | None, unit: str = "") -> str:
    return "not measured" if number is None else f"{number:,.1f}{unit}"


def _deeds(name: str, deeds: Sequence[Deed], now: dt.datetime) -> Iterator[Fact]:
    for deed in deeds:
        where = "" if deed.checkpoint_id is None else f"checkpoint {deed.checkpoint_id}, "
        yield Fact(name, f"{deed.said}: {where}{ago(now, deed.at)}")


def _origin(frame: Frame) -> Iterator[Fact]:
    standing = frame.standing
    if standing.started_from is not None:
        claim = "" if standing.owns is None else f"; it owns {standing.owns}, and will delete it"
        yield Fact("started from", f"savepoint {standing.started_from}{claim}")
