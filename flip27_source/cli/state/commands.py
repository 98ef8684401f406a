"""``flip27 state``: shows the stored state of sources, for people and programs. Writes nothing."""

from __future__ import annotations

import enum
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Annotated, Any

import typer

from flip27_source.snapshots.readable_positions import readable_position
from flip27_source.state_tables import split_rows
from flip27_source.state_tables.history import COMPLETE, ORPHAN, PENDING, History
from flip27_source.state_tables.predicates import EVERYTHING, Predicate

from ..answers import Answer, Table
from ..commands import Lineage, Location, StateLocation, Storage, command, storage_options
from .diff import changes, point_at
from .rows import Place, Row, checkpoint_row, newest_complete, view_rows

group = typer.Typer(no_args_is_help=True)


class SplitStatus(enum.StrEnum):
    """The statuses of a split."""

    WAITING = split_rows.WAITING
    PLANNED = split_rows.PLANNED
    FINISHED = split_rows.FINISHED
    LIVE = split_rows.LIVE
    RETURNED = split_rows.RETURNED
    QUARANTINED = split_rows.QUARANTINED
    IGNORED = split_rows.IGNORED


class CheckpointStatus(enum.StrEnum):
    """The statuses of a checkpoint."""

    COMPLETE = COMPLETE
    PENDING = PENDING
    ORPHAN = ORPHAN


Checkpoints = Annotated[
    str | None,
    typer.Option("--checkpoint", metavar="N|N..M|N..|..M", help="Only these checkpoints."),
]
Splits = Annotated[
    list[str] | None, typer.Option("--split", metavar="ID", help="Only this split. Repeatable.")
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Maximum number of rows.")]
SplitStatuses = Annotated[
    list[SplitStatus] | None,
    typer.Option("--status", help=f"Only with this status: {', '.join(SplitStatus)}. Repeatable."),
]
CheckpointStatuses = Annotated[
    list[CheckpointStatus] | None,
    typer.Option("--status", help=f"Only with this status: {', '.join(CheckpointStatus)}. Repeatable."),
]


@command(
    group,
    "show",
    example="flip27 state show /ckpt/orders",
    answers="a list with one object for each lineage: lineage, source (the view source), newest_complete and "
    "pending (rows of the view checkpoints), checkpoints (counts by status).",
)
def show(
    location: Location,
    lineage: Lineage = None,
    state_location: StateLocation = None,
    storage: Storage = None,
) -> Answer:
    """Show the source, the newest checkpoints, and the counts and sizes of a state."""
    place = _place(location, lineage, state_location, storage)
    found = [_overview(history) for history in place.histories()]
    return Answer(data=found, shown=[_overview_table(item) for item in found])


@command(
    group,
    "splits",
    example="flip27 state splits /ckpt/orders --status quarantined",
    answers="a list of rows of the view splits.",
)
def splits(
    location: Location,
    split: Splits = None,
    checkpoint: Checkpoints = None,
    status: SplitStatuses = None,
    limit: Limit = None,
    lineage: Lineage = None,
    state_location: StateLocation = None,
    storage: Storage = None,
) -> Answer:
    """List the splits in retained checkpoints, with their status.

    With --checkpoint: the splits in the batches of these checkpoints.
    """
    asked = _asked(split, checkpoint)

    def wanted(row: Row) -> bool:
        known = row["last_checkpoint"] is not None or not asked.bounds_checkpoints
        return known and asked.split(row["split_id"]) and _one_of(status, row)

    place = _place(location, lineage, state_location, storage)
    rows = _rows(place, "splits", asked, wanted, limit)
    return Answer(data=rows, shown=[_table(positions_shortened(rows), _SPLIT_COLUMNS)])


@command(
    group,
    "files",
    example="flip27 state files /ckpt/orders --path /landing/orders/a.json",
    answers="a list of rows of the view files.",
)
def files(
    location: Location,
    path: Annotated[
        list[str] | None, typer.Option("--path", help="Only the file with this path. Repeatable.")
    ] = None,
    split: Splits = None,
    checkpoint: Checkpoints = None,
    status: SplitStatuses = None,
    limit: Limit = None,
    lineage: Lineage = None,
    state_location: StateLocation = None,
    storage: Storage = None,
) -> Answer:
    """List files with the batches that read them, and when."""
    asked = _asked(split, checkpoint)

    def wanted(row: Row) -> bool:
        at = row["checkpoint_id"]
        known = not asked.bounds_checkpoints if at is None else asked.checkpoint(at)
        named = path is None or row["path"] in path
        return known and named and asked.split(row["split_id"]) and _one_of(status, row)

    place = _place(location, lineage, state_location, storage)
    rows = _rows(place, "files", asked, wanted, limit)
    return Answer(data=rows, shown=[_table(rows, _FILE_COLUMNS)])


@command(
    group,
    "history",
    example="flip27 state history /ckpt/orders --limit 20",
    answers="a list of rows of the view checkpoints, each with rows, bytes and longest_task_ms of its tasks "
    "(null if they did not report).",
)
def history(
    location: Location,
    checkpoint: Checkpoints = None,
    status: CheckpointStatuses = None,
    limit: Limit = None,
    lineage: Lineage = None,
    state_location: StateLocation = None,
    storage: Storage = None,
) -> Answer:
    """List the retained checkpoints, newest first: splits and rows of each batch, sizes, and task times."""
    asked = _asked(None, checkpoint)
    found: list[Row] = []
    for history in _place(location, lineage, state_location, storage).histories():
        wanted = asked if status or limit is None else _newest(history, asked, limit)
        rows = [
            row
            for row in view_rows("checkpoints", history, wanted)
            if asked.checkpoint(row["checkpoint_id"]) and _one_of(status, row)
        ]
        newest = rows[::-1][:limit]
        work = _work(history, {row["checkpoint_id"] for row in newest})
        found += [row | work.get(row["checkpoint_id"], _NO_WORK) for row in newest]
    shown_rows = [row | {"edits": _edits(row["edits"])} for row in found]
    return Answer(data=found, shown=[_table(shown_rows, _HISTORY_COLUMNS)])


@command(
    group,
    "diff",
    example="flip27 state diff /ckpt/orders@17 /ckpt/orders@20",
    answers="an object: before and after (lineage, checkpoint_id, digest, created_at), and changes (part: "
    "source, ledger, state or splits; what; before; after).",
)
def diff(
    before: Annotated[
        str,
        typer.Argument(metavar="BEFORE", help="LOCATION or LOCATION@CHECKPOINT, as `state show` takes it."),
    ],
    after: Annotated[
        str, typer.Argument(metavar="AFTER", help="The location to compare with, in the same form.")
    ],
    lineage: Lineage = None,
    state_location: StateLocation = None,
    storage: Storage = None,
) -> Answer:
    """Show the differences between two checkpoints of one or two queries, or between savepoints.

    Without @CHECKPOINT the newest complete checkpoint is used.
    """
    place = _place("", lineage, state_location, storage)
    one, other = point_at(before, place), point_at(after, place)
    found = changes(one, other)
    data = {"before": one.described(), "after": other.described(), "changes": found}
    if not found:
        return Answer(data=data, shown=["No difference."])
    rows = [(change.part, change.what, change.before, change.after) for change in found]
    columns = ("part", "what", f"at {one.name.checkpoint_id}", f"at {other.name.checkpoint_id}")
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
    "batch_id", "created_at", "splits", "files", "live", "waiting", "finished", "quarantined", "ignored",
    "actions", "delayed_actions", "document_bytes", "segment_bytes", "restored_from",
)  # fmt: skip
_NO_WORK: Row = {"rows": None, "bytes": None, "longest_task_ms": None}


def _newest(history: History, asked: Predicate, limit: int) -> Predicate:
    """Only the newest ``limit`` checkpoints, so that no others are read."""
    ids = sorted(name.checkpoint_id for name in history.line().status if asked.checkpoint(name.checkpoint_id))
    return asked.narrowed("checkpoint_id", ">=", ids[-limit:][:1]) if ids else asked


def _work(history: History, checkpoint_ids: set[int]) -> dict[int, Row]:
    """The numbers that the tasks of checkpoints reported, by checkpoint."""
    asked = EVERYTHING.narrowed("checkpoint_id", "=", checkpoint_ids)
    found: dict[int, Row] = {}
    for row in view_rows("reports", history, asked):
        known = found.setdefault(row["checkpoint_id"], dict.fromkeys(_NO_WORK, 0))
        known["rows"] += row["rows"]
        known["bytes"] += row["bytes"]
        known["longest_task_ms"] = max(known["longest_task_ms"], row["duration_ms"])
    return found


def _edits(text: str | None) -> str | None:
    """The edits of a checkpoint as text."""
    if text is None:
        return None
    return "; ".join(map(_edit, json.loads(text)))


def _edit(item: dict[str, Any]) -> str:
    came_of_it = "refused" if item.get("refused") else f"{item.get('splits', 0)} splits"
    return f"{item['operation']} by {item['who']}: {item['why']} ({came_of_it})"


def _overview(history: History) -> dict[str, Any]:
    line = history.line()
    complete = newest_complete(line)
    newest = line.names[-1] if line.names else None
    counts = Counter(line.status.values())
    return {
        "lineage": history.lineage.name,
        "source": next(view_rows("source", history), None),
        "newest_complete": checkpoint_row(history, complete),
        "pending": None if newest == complete else checkpoint_row(history, newest),
        "checkpoints": {status.value: counts[status.value] for status in CheckpointStatus},
    }


def _overview_table(item: dict[str, Any]) -> Table:
    source, complete = item["source"] or {}, item["newest_complete"] or {}
    shown = {name: source.get(name) for name in ("uid", "enumerator", "reader", "library", "start_options")}
    shown |= {
        "driver": _driver(source),
        "checkpoints": ", ".join(f"{n} {status}" for status, n in item["checkpoints"].items() if n),
        "newest complete": complete.get("checkpoint_id"),
        "pending": (item["pending"] or {}).get("checkpoint_id"),
    }
    shown |= {name.replace("_", " "): complete.get(name) for name in _OVERVIEW_NUMBERS}
    rows = [(name, value) for name, value in shown.items() if value not in (None, {})]
    return Table(columns=("lineage", item["lineage"]), rows=rows)


def _driver(source: Row) -> str | None:
    if source.get("driver_host") is None:
        return None
    return f"process {source['driver_process']} on {source['driver_host']}, epoch {source['epoch']}"


def _rows(
    place: Place, view: str, asked: Predicate, wanted: Callable[[Row], bool], limit: int | None
) -> list[Row]:
    rows: Iterator[Row] = chain.from_iterable(
        view_rows(view, history, asked) for history in place.histories()
    )
    return list(islice(filter(wanted, rows), limit))


def _table(rows: list[Row], columns: Sequence[str]) -> Table:
    several = len({row["lineage"] for row in rows}) > 1
    names = (("lineage",) if several else ()) + tuple(columns)
    return Table(columns=names, rows=[[row[name] for name in names] for row in rows])


def positions_shortened(rows: Sequence[Row]) -> list[Row]:
    """Rows of splits, with their positions in a form for people."""
    return [
        row if row["position"] is None else row | {"position": readable_position(json.loads(row["position"]))}
        for row in rows
    ]


def _one_of(statuses: Any, row: Row) -> bool:
    return not statuses or row["status"] in statuses


def _place(
    location: str, lineage: str | None, state_location: str | None, storage: list[str] | None
) -> Place:
    return Place(
        location=location, lineage=lineage, state_location=state_location, storage=storage_options(storage)
    )


def _asked(splits: list[str] | None, checkpoints: str | None) -> Predicate:
    asked = EVERYTHING
    if splits:
        asked = asked.narrowed("split_id", "=", splits)
    if checkpoints is None:
        return asked
    match = re.fullmatch(r"(\d*)(\.\.)?(\d*)", checkpoints)
    if match is None or not (match[1] or match[3]):
        raise typer.BadParameter(
            f"{checkpoints!r} is invalid: write 17, 17..20, 17.. or ..20", param_hint="--checkpoint"
        )
    if not match[2]:
        return asked.narrowed("checkpoint_id", "=", [int(checkpoints)])
    if match[1]:
        asked = asked.narrowed("checkpoint_id", ">=", [int(match[1])])
    return asked.narrowed("checkpoint_id", "<=", [int(match[3])]) if match[3] else asked
