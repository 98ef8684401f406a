"""``flip27 state``: shows the stored state of sources, for people and programs. Writes nothing."""

from __future__ import annotations

import datetime as dt
import enum
import heapq
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Annotated, Any

import typer

from flip27_source.coordination.edit_values import AppliedEdit
from flip27_source.errors import Flip27Error
from flip27_source.file_systems.paths import path_text
from flip27_source.options import integer
from flip27_source.snapshots.offsets import readable_position
from flip27_source.source_progress import ProgressTable
from flip27_source.state_tables.history import ORPHAN, CheckpointStatus, History
from flip27_source.state_tables.predicates import EVERYTHING, Predicate
from flip27_source.state_tables.split_rows import ShownStatus
from flip27_source.state_tables.views import VIEWS
from flip27_source.values.stored_json import decode_json

from ..commands import DONE, REFUSED, OptionGroup, argument, command, option
from ..rendering import Answer, Table
from ..watch.facts import Fact, facts, numbers
from ..watch.look import Looking
from ..watch.remarks import remarks
from ..watch.standing import edit_said
from ..watch.view import Frame, Watcher
from .diff import changes, point_at
from .rows import Place, Row, StoredState, checkpoint_row, driver_said, newest_complete

group = typer.Typer(no_args_is_help=True)


Limit = Annotated[int | None, option("--limit N", "Maximum number of rows.", integer(minimum=1))]


def _status_option(statuses: type[enum.StrEnum]) -> Any:
    return option("--status", f"Only with this status: {', '.join(statuses)}. Repeatable.")


SplitStatuses = Annotated[list[ShownStatus] | None, _status_option(ShownStatus)]
CheckpointStatuses = Annotated[list[CheckpointStatus] | None, _status_option(CheckpointStatus)]


def _checkpoints(text: str) -> Predicate:
    match = re.fullmatch(r"([0-9]*)(\.\.)?([0-9]*)", text)
    if match is None or not (match[1] or match[3]):
        raise ValueError("17, 17..20, 17.. or ..20 is expected")
    first, last = (integer(minimum=0)(number) if number else None for number in match.group(1, 3))
    if not match[2]:
        return EVERYTHING.narrowed("checkpoint_id", "=", [first])
    predicate = EVERYTHING if first is None else EVERYTHING.narrowed("checkpoint_id", ">=", [first])
    return predicate if last is None else predicate.narrowed("checkpoint_id", "<=", [last])


Checkpoints = Annotated[
    Predicate | None, option("--checkpoint N|N..M|N..|..M", "Only these checkpoints.", _checkpoints)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(OptionGroup):
    """Which splits of a state are shown."""

    split: Annotated[list[str] | None, option("--split ID", "Only this split. Repeatable.", path_text)] = None
    checkpoints: Checkpoints = None
    status: SplitStatuses = None
    limit: Limit = None

    def rows(self, place: Place, view: str, is_chosen: Callable[[Row, Predicate], bool]) -> list[Row]:
        predicate = self.checkpoints or EVERYTHING
        if self.split:
            predicate = predicate.narrowed("split_id", "=", self.split)
        rows = chain.from_iterable(VIEWS[view].rows(history, predicate) for history in place.histories())
        chosen = (
            row
            for row in rows
            if is_chosen(row, predicate) and predicate.split(row["split_id"]) and _one_of(self.status, row)
        )
        return list(islice(chosen, self.limit))


@command(
    group,
    example="flip27 state show /ckpt/orders",
    answers="a list with one object for each lineage: lineage, source (the view source), driver (whether it "
    "runs, in words), newest_complete and pending (rows of the view checkpoints), checkpoints (counts by "
    "status), facts (name, said: the lines that `watch` has too), tables (what they are made of: title, "
    "said, columns, rows); of one that cannot be read: lineage, unread, remedy.",
)
def show(place: Place, *, looking: Looking) -> Answer:
    """Show the source, the newest checkpoints, and the counts and sizes of a state."""
    given, now = looking.options(place.stored.files.storage), dt.datetime.now(dt.UTC)
    watcher = Watcher(place=place)
    if given is not None:
        watcher.look_into_sources(given, now)
    unread: dict[str, Flip27Error] = {}
    overviews = [_overview(history, frame) for history, frame in watcher.look(now, unread)]
    for error in () if overviews else unread.values():
        raise error
    shown = [part for item in overviews for part in (_overview_table(item), *map(_details, item["tables"]))]
    damaged = [
        {"lineage": name, "unread": error.what, "remedy": error.remedy} for name, error in unread.items()
    ]
    notes = [f"{name} cannot be read: {error}" for name, error in unread.items()]
    code = REFUSED if unread else DONE
    return Answer(data=[*overviews, *damaged], shown=shown, notes=notes, exit_code=code)


@command(
    group,
    example="flip27 state splits /ckpt/orders --status quarantined",
    answers="a list of rows of the view splits.",
)
def splits(place: Place, chosen: Chosen) -> Answer:
    """List the splits in retained checkpoints, with their status.

    With --checkpoint: the splits in the batches of these checkpoints.
    """

    def is_chosen(row: Row, predicate: Predicate) -> bool:
        return row["last_checkpoint"] is not None or not predicate.bounds_checkpoints

    rows = chosen.rows(place, "splits", is_chosen)
    names = _position_names(place) if any(row["position"] for row in rows) else {}
    return Answer(data=rows, shown=[_table(positions_shortened(rows, names), _SPLIT_COLUMNS)])


@command(
    group,
    example="flip27 state files /ckpt/orders --path /landing/orders/a.json",
    answers="a list of rows of the view files.",
)
def files(
    place: Place,
    path: Annotated[
        list[str] | None, option("--path", "Only the file with this path. Repeatable.", path_text)
    ] = None,
    *,
    chosen: Chosen,
) -> Answer:
    """List files with the batches that read them, and when."""

    def is_chosen(row: Row, predicate: Predicate) -> bool:
        read_in = row["checkpoint_id"]
        is_known = not predicate.bounds_checkpoints if read_in is None else predicate.checkpoint(read_in)
        return is_known and (path is None or row["path"] in path)

    rows = chosen.rows(place, "files", is_chosen)
    return Answer(data=rows, shown=[_table(rows, _FILE_COLUMNS)])


@command(
    group,
    example="flip27 state history /ckpt/orders --limit 20",
    answers="a list of rows of the view checkpoints, each with rows, bytes and longest_task_ms of its tasks "
    "(null if they did not report).",
)
def history(
    place: Place, checkpoints: Checkpoints = None, status: CheckpointStatuses = None, limit: Limit = None
) -> Answer:
    """List the retained checkpoints, newest first, orphans last: splits, rows, sizes, times of each batch."""
    bounds = checkpoints or EVERYTHING
    newest_first = []
    for history in place.histories():
        predicate = bounds if status or limit is None else _newest(history, bounds, limit)
        oldest_first = [
            (row, history)
            for row in VIEWS["checkpoints"].rows(history, predicate)
            if bounds.checkpoint(row["checkpoint_id"]) and _one_of(status, row)
        ]
        newest_first.append(oldest_first[::-1])
    merged = heapq.merge(*newest_first, key=lambda item: item[0]["created_at"], reverse=True)
    rows = _with_work(list(islice(merged, limit)))
    shown_rows = [row | {"edits": "; ".join(map(edit_said, _edits(row)))} for row in rows]
    return Answer(data=rows, shown=[_table(shown_rows, _HISTORY_COLUMNS)])


@command(
    group,
    example="flip27 state diff /ckpt/orders@17 /ckpt/orders@20",
    answers="an object: before and after (lineage, checkpoint_id, digest, created_at), and changes (part: "
    "source, ledger, state or splits; what; before; after).",
)
def diff(
    before: Annotated[str, argument("BEFORE", "LOCATION or LOCATION@CHECKPOINT, as `state show` takes it.")],
    after: Annotated[str, argument("AFTER", "The location to compare with, in the same form.")],
    stored: StoredState,
) -> Answer:
    """Show the differences between two checkpoints of one or two queries, or between savepoints.

    Without @CHECKPOINT the newest complete checkpoint is used.
    """
    left, right = point_at(before, stored), point_at(after, stored)
    differences = changes(left, right)
    data = {"before": left.described(), "after": right.described(), "changes": differences}
    if not differences:
        return Answer(data=data, shown=["No difference."])
    rows = [(change.part, change.what, change.before, change.after) for change in differences]
    columns = ("part", "what", f"at {left.name.checkpoint_id}", f"at {right.name.checkpoint_id}")
    return Answer(data=data, shown=[Table(columns=columns, rows=rows)])


_SPLIT_COLUMNS = (
    "split_id", "status", "position", "first_checkpoint", "last_checkpoint", "subtask", "rows", "attempts",
    "error",
)  # fmt: skip
_FILE_COLUMNS = ("path", "checkpoint_id", "batch_id", "planned_at", "status", "start", "end", "length")
_HISTORY_COLUMNS = (
    "checkpoint_id", "batch_id", "status", "created_at", "splits", "rows", "longest_task_ms", "live",
    "waiting", "quarantined", "document_bytes", "segment_bytes", "edits",
)  # fmt: skip
_OVERVIEW_NUMBERS = (
    "batch_id", "created_at", "splits", "files", "waiting", "actions", "delayed_actions", "document_bytes",
    "segment_bytes", "restored_from",
)  # fmt: skip
_MOST_DETAILS = 20
_NO_WORK: Row = {"rows": None, "bytes": None, "longest_task_ms": None}


def _newest(history: History, bounds: Predicate, limit: int) -> Predicate:
    """Only the newest ``limit`` checkpoints, so that no others are read."""
    ids = [name.checkpoint_id for name in history.line().orphans_first]
    return bounds.narrowed(
        "checkpoint_id", "=", [number for number in ids if bounds.checkpoint(number)][-limit:]
    )


def _with_work(rows: Sequence[tuple[Row, History]]) -> list[Row]:
    """The rows of checkpoints, with the numbers that their tasks reported."""
    work: dict[tuple[str, int], Row] = {}
    histories = {history.lineage.name: history for _, history in rows}
    for lineage, history in histories.items():
        ids = {row["checkpoint_id"] for row, owner in rows if owner is history}
        for report in VIEWS["reports"].rows(history, EVERYTHING.narrowed("checkpoint_id", "=", ids)):
            sums = work.setdefault((lineage, report["checkpoint_id"]), dict.fromkeys(_NO_WORK, 0))
            sums["rows"] += report["rows"]
            sums["bytes"] += report["bytes"]
            sums["longest_task_ms"] = max(sums["longest_task_ms"], report["duration_ms"])
    found = []
    for row, _ in rows:
        known = _NO_WORK if row["subtasks"] else dict.fromkeys(_NO_WORK, 0)
        if row["status"] != ORPHAN:  # reports are read for the line, which may have the same ids
            known = work.get((row["lineage"], row["checkpoint_id"]), known)
        found.append(row | known)
    return found


def _overview(history: History, frame: Frame) -> dict[str, Any]:
    line = history.line()
    complete = newest_complete(line)
    newest = line.names[-1] if line.names else None
    counts = Counter(line.status.values())
    return {
        "lineage": history.lineage.name,
        "source": next(VIEWS["source"].rows(history), None),
        "driver": driver_said(history.driver),
        "newest_complete": checkpoint_row(history, complete),
        "pending": None if newest == complete else checkpoint_row(history, newest),
        "checkpoints": {status.value: counts[status] for status in CheckpointStatus},
        "facts": [*numbers(frame), *facts(frame), *(Fact("remark", said) for said in remarks(frame))],
        "tables": frame.tables,
    }


def _overview_table(item: dict[str, Any]) -> Table:
    source, complete = item["source"] or {}, item["newest_complete"] or {}
    shown = {name: source.get(name) for name in ("uid", "enumerator", "reader", "library", "start_options")}
    shown |= {
        "driver": item["driver"],
        "error": source.get("error"),
        "what to do": source.get("remedy"),
        "failed checkpoints": source.get("failed_checkpoints") or None,
        "last failure": source.get("last_failure"),
        "checkpoints": ", ".join(f"{n} {status}" for status, n in item["checkpoints"].items() if n),
        "newest complete": complete.get("checkpoint_id"),
        "pending": (item["pending"] or {}).get("checkpoint_id"),
    }
    shown |= {name.replace("_", " "): complete.get(name) for name in _OVERVIEW_NUMBERS}
    rows = [(name, value) for name, value in shown.items() if value not in (None, {})]
    rows += [(fact.name, fact.said) for fact in item["facts"]]
    return Table(columns=("lineage", item["lineage"]), rows=rows)


def _edits(row: Row) -> list[AppliedEdit]:
    return decode_json((row["edits"] or "[]").encode(), list[AppliedEdit])


def _details(table: ProgressTable) -> Table:
    """What a fact is made of, without its last rows if there are many."""
    rows = [list(row) for row in table.rows[:_MOST_DETAILS]]
    if len(table.rows) > _MOST_DETAILS:
        rows.append([f"... and {len(table.rows) - _MOST_DETAILS:,} more", *[None] * (len(table.columns) - 1)])
    return Table(columns=table.columns, rows=rows)


def _table(rows: list[Row], columns: Sequence[str]) -> Table:
    several = len({row["lineage"] for row in rows}) > 1
    names = (("lineage",) if several else ()) + tuple(columns)
    return Table(columns=names, rows=[[row[name] for name in names] for row in rows])


def positions_shortened(rows: Sequence[Row], names: Mapping[str, Mapping[str, str]]) -> list[Row]:
    """Rows of splits, with their positions in a form for people; ``names``: of fields, by lineage."""
    return [
        row
        if row["position"] is None
        else row | {"position": readable_position(json.loads(row["position"]), names.get(row["lineage"], {}))}
        for row in rows
    ]


def _position_names(place: Place) -> dict[str, Mapping[str, str]]:
    """The names that the newest checkpoints of the lineages give fields of their splits."""
    heads = {history.lineage.name: history.head(history.line()) for history in place.histories()}
    return {name: head.raw.position_names for name, head in heads.items() if head is not None}


def _one_of(statuses: Any, row: Row) -> bool:
    return not statuses or row["status"] in statuses
