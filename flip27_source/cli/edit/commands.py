"""``flip27 edit``: change the state of a source at its next batch boundary. A dry run by default."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from flip27_source import edits
from flip27_source.coordination.edit_values import EditOperation
from flip27_source.enumerator_mixins import NamedPosition

from ..answers import Answer, Table
from ..commands import REFUSED, Lineage, Storage, command, storage_options
from ..help_texts import CommandGroup

group = typer.Typer(no_args_is_help=True)
quarantine = typer.Typer(cls=CommandGroup, help="Retry or drop quarantined splits.", no_args_is_help=True)
group.add_typer(quarantine, name="quarantine")

State = Annotated[
    str,
    typer.Option("--state", help="The query's stateLocation, or a checkpointLocation that contains it."),
]
Why = Annotated[str, typer.Option("--why", help="The reason, for the history.")]
Who = Annotated[
    str | None, typer.Option("--who", help="The author, for the history; by default user and host.")
]
Execute = Annotated[
    bool, typer.Option("--execute", help="Apply the edit; without this option nothing is changed.")
]
Splits = Annotated[
    list[str] | None, typer.Option("--split", metavar="ID", help="The id of a split. Repeatable.")
]
Glob = Annotated[
    str | None, typer.Option("--glob", help="Splits whose ids match the glob, such as */2026-01-03/*.")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Splits that were read in a batch whose checkpoint was created at this time or later "
        "(ISO 8601).",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME",
        help="Splits that were read in a batch whose checkpoint was created at this time or "
        "earlier; times without a zone are local.",
    ),
]

_SHOWN = 100
_ANSWERS = "an object: request, changes (split_id, now, then, checkpoint_id), notes, submitted."


def _of_splits(operation: EditOperation, doc: str) -> Callable[..., Answer]:
    """A command for an edit that only needs a selection of splits."""

    def ask(
        state: State,
        why: Why,
        splits: Splits = None,
        glob: Glob = None,
        since: Since = None,
        until: Until = None,
        who: Who = None,
        execute: Execute = False,
        lineage: Lineage = None,
        storage: Storage = None,
    ) -> Answer:
        plan = edits.plan(
            operation,
            state=state,
            why=why,
            who=who,
            lineage=lineage,
            splits=splits or (),
            glob=glob,
            since=_time(since, "--since"),
            until=_time(until, "--until"),
            storage_options=storage_options(storage),
        )
        return _planned(plan, execute=execute)

    ask.__doc__ = doc
    return ask


command(
    group,
    "skip",
    example="flip27 edit skip --state /ckpt/orders/flip27 --glob '*/broken-*' --why 'bad upload'",
    answers=_ANSWERS,
)(
    _of_splits(
        EditOperation.SKIP,
        "Skip splits that have not been read to their end (waiting, live, or held by the enumerator): the "
        "rest is never read.",
    )
)
command(
    group,
    "replay",
    example="flip27 edit replay --state /ckpt/orders/flip27 --since 2026-01-03T10:00 --why 'sink lost rows'",
    answers=_ANSWERS,
)(_of_splits(EditOperation.REPLAY, "Read splits of retained batches again, as they were."))
command(
    quarantine,
    "retry",
    example="flip27 edit quarantine retry --state /ckpt/orders/flip27 --glob '*' --why 'disk repaired'",
    answers=_ANSWERS,
)(_of_splits(EditOperation.QUARANTINE_RETRY, "Retry quarantined splits, which could not be read."))
command(
    quarantine,
    "drop",
    example="flip27 edit quarantine drop --state /ckpt/orders/flip27 --split /landing/a.json --why empty",
    answers=_ANSWERS,
)(_of_splits(EditOperation.QUARANTINE_DROP, "Drop quarantined splits: they are never read."))
command(
    group,
    "forget",
    example="flip27 edit forget --state /ckpt/orders/flip27 --split /landing/a.json --why rewritten",
    answers=_ANSWERS,
)(
    _of_splits(
        EditOperation.FORGET,
        "Make the enumerator forget splits, so that discovery finds them again, as they are now.",
    )
)


@command(
    group,
    "rewind",
    example="flip27 edit rewind --state /ckpt/orders/flip27 --to-time 2026-01-03T10:00 --why 'bad deploy'",
    answers=_ANSWERS,
)
def rewind(
    state: State,
    why: Why,
    to_checkpoint: Annotated[
        int | None,
        typer.Option("--to-checkpoint", metavar="N", help="Go back to this retained checkpoint."),
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option(
            "--to-time",
            metavar="TIME",
            help="Go back to the last checkpoint created at this time or earlier, ISO 8601; times without a "
            "zone are local.",
        ),
    ] = None,
    who: Who = None,
    execute: Execute = False,
    lineage: Lineage = None,
    storage: Storage = None,
) -> Answer:
    """Return the whole source to its state after a retained checkpoint."""
    plan = edits.plan(
        EditOperation.REWIND,
        state=state,
        why=why,
        who=who,
        lineage=lineage,
        to_checkpoint=to_checkpoint,
        to_time=_time(to_time, "--to-time"),
        storage_options=storage_options(storage),
    )
    return _planned(plan, execute=execute)


@command(
    group,
    "set-position",
    example="flip27 edit set-position --state /ckpt/orders/flip27 --split orders/3 --to-offset 1000 "
    "--why 'bad deploy'",
    answers=_ANSWERS,
)
def set_position(
    state: State,
    why: Why,
    position: Annotated[
        str | None,
        typer.Option(
            "--position", metavar="JSON", help="A JSON object with fields of the split and their new values."
        ),
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", metavar="N", help="An offset of a Kafka partition.")
    ] = None,
    to_timestamp: Annotated[
        str | None,
        typer.Option(
            "--to-timestamp",
            metavar="TIME",
            help="The first record at this time or later, ISO 8601 or milliseconds since 1970; times without "
            "a zone are local.",
        ),
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help="earliest or latest, of a Kafka partition.")] = None,
    splits: Splits = None,
    glob: Glob = None,
    who: Who = None,
    execute: Execute = False,
    lineage: Lineage = None,
    storage: Storage = None,
) -> Answer:
    """Move live splits, which are read in parts, to another position."""
    plan = edits.plan(
        EditOperation.SET_POSITION,
        state=state,
        why=why,
        who=who,
        lineage=lineage,
        splits=splits or (),
        glob=glob,
        position=_position(position, to_offset, to_timestamp, to),
        storage_options=storage_options(storage),
    )
    return _planned(plan, execute=execute)


@command(
    group,
    "list",
    example="flip27 edit list --state /ckpt/orders/flip27",
    answers="a list of objects: request_id, request (null if it cannot be read), error, applied_in (the "
    "checkpoint that has applied it; its batch may not be complete).",
)
def list_pending(state: State, lineage: Lineage = None, storage: Storage = None) -> Answer:
    """List the edits that wait for the next batch boundary. Applied edits are listed in the checkpoints."""
    found = edits.pending(state=state, lineage=lineage, storage_options=storage_options(storage))
    columns = ("request", "edit", "splits", "who", "why", "applied in", "problem")
    rows = []
    for item in found:
        asked = item.request
        what = (None,) * 4 if asked is None else (asked.operation, asked.selected, asked.who, asked.why)
        rows.append((item.request_id, *what, item.applied_in, item.error))
    return Answer(data=found, shown=[Table(columns=columns, rows=rows)])


@command(
    group,
    "withdraw",
    example="flip27 edit withdraw 0f3a5c1e --state /ckpt/orders/flip27",
    answers="an object: request_id, applied_in (null if the edit is never applied).",
)
def withdraw(
    request: Annotated[
        str, typer.Argument(metavar="REQUEST", help="The id from `edit list`, or the beginning of it.")
    ],
    state: State,
    lineage: Lineage = None,
    storage: Storage = None,
) -> Answer:
    """Withdraw a waiting edit; the exit code is 1 if it was applied meanwhile."""
    done = edits.withdraw(request, state=state, lineage=lineage, storage_options=storage_options(storage))
    if done.applied_in is None:
        return Answer(data=done, shown=[f"withdrawn: {done.request_id}"])
    said = f"{done.request_id} was applied by checkpoint {done.applied_in}: to undo it, edit the state again"
    return Answer(data=done, shown=[said], exit_code=REFUSED)


def _planned(plan: edits.EditPlan, *, execute: bool) -> Answer:
    if execute:
        edits.submit(plan)
        done = (
            f"request {plan.request.request_id} waits for the next batch boundary, or for the next start of "
            "a stopped query"
        )
    else:
        done = "dry run: nothing was changed; add --execute to apply the edit"
    shown, more = plan.changes[:_SHOWN], len(plan.changes) - _SHOWN
    return Answer(
        data={
            "request": plan.request,
            "changes": plan.changes,
            "notes": plan.notes,
            "submitted": execute,
        },
        shown=[
            Table(
                columns=("split", "checkpoint", "now", "then"),
                rows=[(item.split_id, item.checkpoint_id, item.now, item.then) for item in shown],
            )
        ],
        notes=[*([f"and {more} more; --json shows all of them"] if more > 0 else []), *plan.notes, done],
    )


def _time(text: str | None, option: str) -> dt.datetime | None:
    if text is None:
        return None
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a valid time: write 2026-01-03T10:00, or with a zone 2026-01-03T10:00+01:00",
            param_hint=option,
        ) from None


def _position(
    fields: str | None, offset: int | None, timestamp: str | None, word: str | None
) -> dict[str, Any] | NamedPosition:
    if [fields, offset, timestamp, word].count(None) != 3:
        raise typer.BadParameter(
            "give one position", param_hint="--position, --to-offset, --to-timestamp or --to"
        )
    if fields is not None:
        return _fields(fields)
    return NamedPosition(offset=offset, timestamp_ms=_milliseconds(timestamp), word=word)


def _milliseconds(text: str | None) -> int | None:
    if text is None or (text.isascii() and text.isdigit()):
        return None if text is None else int(text)
    found = _time(text, "--to-timestamp")
    return None if found is None else round(found.timestamp() * 1000)


def _fields(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise typer.BadParameter(
            f'{text!r} is not a JSON object: write fields of the split, such as {{"next": 500}}',
            param_hint="--position",
        )
    return found
