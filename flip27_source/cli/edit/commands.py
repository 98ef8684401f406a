"""``flip27 edit``: change the state of a source at its next batch boundary. A dry run by default."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from flip27_source import edits
from flip27_source.coordination.edit_values import EditOperation
from flip27_source.edits.dry_run import EditPlan
from flip27_source.edits.moves import plan_shift
from flip27_source.edits.submitted import submit_all
from flip27_source.enumerator_mixins import NamedPosition
from flip27_source.file_systems.paths import path_text
from flip27_source.options import MOST_INTEGER, integer

from ..app import CommandGroup
from ..commands import (
    DONE,
    REFUSED,
    Execute,
    FileSystem,
    Lineage,
    OptionGroup,
    argument,
    command,
    instant,
    option,
)
from ..rendering import Answer, Table
from .positions import fields, milliseconds

group = typer.Typer(no_args_is_help=True)
quarantine = typer.Typer(cls=CommandGroup, help="Retry or drop quarantined splits.", no_args_is_help=True)
group.add_typer(quarantine, name="quarantine")

WAITS = "waits for the next batch boundary, or for the next start of a stopped query"
_SHOWN = 100
_ANSWERS = "an object: request, changes (split_id, now, then, checkpoint_id), notes, submitted."


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedState(OptionGroup):
    state: Annotated[
        str,
        option("--state LOCATION", "The query's stateLocation, or a checkpointLocation that contains it."),
    ]
    lineage: Lineage = None
    files: FileSystem

    @property
    def named(self) -> dict[str, Any]:
        """The state in the form that functions of ``edits`` take."""
        return {"state": self.state, "lineage": self.lineage, "storage_options": self.files.options}


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(OptionGroup):
    """What every edit has."""

    why: Annotated[str, option("--why", "The reason, for the history.")]
    who: Annotated[str | None, option("--who", "The author, for the history; by default user and host.")] = (
        None
    )
    execute: Execute = False
    edited: EditedState

    def planned(self, operation: EditOperation, **what: Any) -> Answer:
        """Plan the edit, and with ``--execute`` submit it."""
        answer = self.answer([edits.plan(operation, why=self.why, who=self.who, **self.edited.named, **what)])
        (data,) = answer.data
        return replace(answer, data=data)

    def answer(self, plans: Sequence[EditPlan]) -> Answer:
        """The answer to plans of one source, which ``--execute`` submits."""
        if self.execute:
            done = [f"request {request_id} {WAITS}" for request_id in submit_all(plans)]
        else:
            done = ["dry run: nothing was changed; add --execute to apply the edit"]
        rows = [
            (item.split_id, item.checkpoint_id, item.now, item.then)
            for plan in plans
            for item in plan.changes
        ]
        more = len(rows) - _SHOWN
        notes = dict.fromkeys(note for plan in plans for note in plan.notes)
        return Answer(
            data=[
                {
                    "request": plan.request,
                    "changes": plan.changes,
                    "notes": plan.notes,
                    "submitted": self.execute,
                }
                for plan in plans
            ],
            shown=[Table(columns=("split", "checkpoint", "now", "then"), rows=rows[:_SHOWN])],
            notes=[*([f"and {more} more; --json shows all of them"] if more > 0 else []), *notes, *done],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits(OptionGroup):
    splits: Annotated[list[str] | None, option("--split ID", "The id of a split. Repeatable.", path_text)] = (
        None
    )
    glob: Annotated[
        str | None, option("--glob", "Splits whose ids match the glob, such as */2026-01-03/*.", path_text)
    ] = None

    @property
    def named(self) -> dict[str, Any]:
        """The splits in the form that ``edits.plan`` takes."""
        return {"splits": self.splits or (), "glob": self.glob}


def _of_splits(operation: EditOperation, doc: str) -> Callable[..., Answer]:
    """A command for an edit that only needs a selection of splits."""

    def ask(
        splits: Splits,
        since: Annotated[
            dt.datetime | None,
            option(
                "--since TIME",
                "Splits of batches planned at this time or later; ISO 8601, local without a zone.",
                instant,
            ),
        ] = None,
        until: Annotated[
            dt.datetime | None,
            option("--until TIME", "Splits of batches planned at this time or earlier; as --since.", instant),
        ] = None,
        *,
        edit: Edit,
    ) -> Answer:
        return edit.planned(operation, **splits.named, since=since, until=until)

    ask.__doc__ = doc
    return ask


for _group, _name, _operation, _arguments, _doc in (
    (
        group, "skip", EditOperation.SKIP, "--glob '*/broken-*' --why 'bad upload'",
        "Skip splits that are not read to their end (waiting, live, or held): the rest is never read.",
    ),
    (
        group, "replay", EditOperation.REPLAY, "--since 2026-01-03T10:00 --why 'sink lost rows'",
        "Read splits of retained batches again, as they were.",
    ),
    (
        quarantine, "retry", EditOperation.QUARANTINE_RETRY, "--glob '*' --why 'disk repaired'",
        "Retry quarantined splits, which could not be read.",
    ),
    (
        quarantine, "drop", EditOperation.QUARANTINE_DROP, "--split /landing/a.json --why empty",
        "Drop quarantined splits: they are never read.",
    ),
    (
        group, "forget", EditOperation.FORGET, "--split /landing/orders/a.json --why rewritten",
        "Make the enumerator forget splits, so that discovery finds them again, as they are now.",
    ),
):  # fmt: skip
    _words = f"flip27 edit {'quarantine ' if _group is quarantine else ''}{_name}"
    command(_group, _name, example=f"{_words} --state /ckpt/orders/flip27 {_arguments}", answers=_ANSWERS)(
        _of_splits(_operation, _doc)
    )


@command(
    group,
    example="flip27 edit rewind --state /ckpt/orders/flip27 --to-time 2026-01-03T10:00 --why 'bad deploy'",
    answers=_ANSWERS,
)
def rewind(
    to_checkpoint: Annotated[
        int | None, option("--to-checkpoint N", "Go back to this retained checkpoint.", integer(minimum=0))
    ] = None,
    to_time: Annotated[
        dt.datetime | None,
        option(
            "--to-time TIME",
            "Go back to the last checkpoint created at this time or earlier; ISO 8601, local without a zone.",
            instant,
        ),
    ] = None,
    *,
    edit: Edit,
) -> Answer:
    """Return the whole source to its state after a retained checkpoint."""
    return edit.planned(EditOperation.REWIND, to_checkpoint=to_checkpoint, to_time=to_time)


@command(
    group,
    example="flip27 edit set-position --state /ckpt/orders/flip27 --split orders/3 --to-offset 1000 "
    "--why 'bad deploy'",
    answers=f"{_ANSWERS} With --shift a list of such objects, one for each new position.",
)
def set_position(
    splits: Splits,
    position: Annotated[
        dict[str, Any] | None,
        option("--position JSON", "A JSON object with fields of the split and their new values.", fields),
    ] = None,
    to_offset: Annotated[
        int | None, option("--to-offset N", "An offset of a Kafka partition.", integer(minimum=0))
    ] = None,
    to_timestamp: Annotated[
        int | None,
        option(
            "--to-timestamp TIME",
            "The first record at this time or later, ISO 8601 or milliseconds since 1970; times without "
            "a zone are local.",
            milliseconds,
        ),
    ] = None,
    to: Annotated[str | None, option("--to", "earliest or latest, of a Kafka partition.")] = None,
    shift: Annotated[
        int | None,
        option(
            "--shift N",
            "So many records forward, or back if negative, from where each Kafka partition stands; one edit "
            "for each position.",
            integer(minimum=-MOST_INTEGER),
        ),
    ] = None,
    *,
    edit: Edit,
) -> Answer:
    """Move live splits, which are read in parts, to another position."""
    if [position, to_offset, to_timestamp, to, shift].count(None) != 4:
        raise typer.BadParameter(
            "give one position", param_hint="--position, --to-offset, --to-timestamp, --to or --shift"
        )
    if shift is not None:
        return edit.answer(plan_shift(shift, why=edit.why, who=edit.who, **splits.named, **edit.edited.named))
    named = NamedPosition(offset=to_offset, timestamp_ms=to_timestamp, word=to)
    return edit.planned(
        EditOperation.SET_POSITION, **splits.named, position=named if position is None else position
    )


@command(
    group,
    "list",
    example="flip27 edit list --state /ckpt/orders/flip27",
    answers="a list of objects: request_id, request (null if it cannot be read), error, applied_in (the "
    "checkpoint that has applied it; its batch may not be complete).",
)
def list_pending(edited: EditedState) -> Answer:
    """List the edits that wait for the next batch boundary. Applied edits are listed in the checkpoints."""
    pending = edits.pending(**edited.named)
    columns = ("request", "edit", "splits", "who", "why", "applied in", "problem")
    rows = []
    for item in pending:
        request = item.request
        what = (None,) * 4 if request is None else (
            request.operation, request.selected, request.who, request.why
        )  # fmt: skip
        rows.append((item.request_id, *what, item.applied_in, item.error))
    return Answer(data=pending, shown=[Table(columns=columns, rows=rows)])


@command(
    group,
    example="flip27 edit withdraw 0f3a5c1e --state /ckpt/orders/flip27",
    answers="an object: request_id, applied_in (null if no checkpoint has applied it), is_certain (false if "
    "the batch of that checkpoint may not be complete), error (of a failed, refused or unreadable request, "
    "which is deleted).",
)
def withdraw(
    request: Annotated[str, argument("REQUEST", "The id from `edit list`, or the beginning of it.")],
    edited: EditedState,
) -> Answer:
    """Withdraw a waiting edit, or delete a failed one; the exit code is 1 if it was already applied."""
    withdrawn = edits.withdraw(request, **edited.named)
    return Answer(
        data=withdrawn, shown=[withdrawn.said], exit_code=DONE if withdrawn.applied_in is None else REFUSED
    )
