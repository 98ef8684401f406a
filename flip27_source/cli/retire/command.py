"""``flip27 retire``: removes what a query leaves that will not run again. A dry run by default."""

from __future__ import annotations

from time import sleep
from typing import Annotated

import typer

from flip27_source.errors import OptionError, StateLocationError
from flip27_source.file_systems.paths import redacted
from flip27_source.leftovers import Leftover
from flip27_source.snapshots.locations import chosen_lineage, find_lineages, normal_location
from flip27_source.snapshots.spark_checkpoint import OFFSETS
from flip27_source.snapshots.store import open_store

from ..commands import CHECK_FAILED, DONE, Execute, Yes, argument, command, option, source_options
from ..rendering import Answer, Table, say_meanwhile
from ..state.rows import StoredState
from .query_remains import Remains, RetiredQuery, StoredSource

group = typer.Typer()


@command(
    group,
    example="flip27 retire /ckpt/orders --option host=db.internal --option database=shop --execute",
    answers="an object: location, things (a list of objects: kind, name, details, outcome), problems (a list "
    "of objects: lineage, what, remedy), notes (a list of texts), is_done.",
)
def retire(
    location: Annotated[
        str | None,
        argument(
            "LOCATION",
            "The checkpoint location of the query (best, since Spark's logs name its sources), its "
            "stateLocation, or a lineage in it; by default --state.",
        ),
    ] = None,
    given_options: Annotated[
        list[str] | None,
        option(
            "--option NAME=VALUE",
            "An option of a source, to reach what it has left: host, database, user, passwordEnv; path, "
            "notificationQueues. Repeatable.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        option(
            "--keep KIND",
            "Keep the things of this kind, by the first column; elsewhere: all that sources have left on "
            "other systems. Repeatable.",
        ),
    ] = None,
    with_checkpoint: Annotated[
        bool,
        option(
            "--with-checkpoint-location",
            "Remove Spark's checkpoint too, which LOCATION is; it stays otherwise.",
        ),
    ] = False,
    execute: Execute = False,
    yes: Yes = False,
    *,
    stored: StoredState,
) -> Answer:
    """Remove what a query leaves that will not run again; a dry run without --execute.

    This is its state, inferred schemas, the slot and the publication of PostgreSQL, and a queue that flip27
    notifications create has created. Data, archived files, savepoints and the output of the query stay. The
    command refuses while the query runs, which a query without a stateLocation does not show. If it was
    interrupted, run it again: it removes the rest.
    """
    states = stored.state_locations or []
    if location is None and len(states) != 1:
        raise OptionError(
            "no query is given",
            remedy="give its checkpoint location, or its only state location: flip27 retire PATH",
        )
    place = states[0] if location is None else location
    sources, checkpoint = _sources(place, stored)
    query = RetiredQuery(
        sources=sources,
        checkpoint=checkpoint,
        storage=stored.files.options,
        with_checkpoint=with_checkpoint,
        given=source_options(given_options, stored.files.storage),
        kept=frozenset(keep or ()),
    )
    _check(query, stored.lineage)
    remains = query.remains()
    todo = [thing for thing in remains.things if thing.remove is not None]
    is_done = execute and bool(todo)
    if execute and remains.problems:
        raise remains.problems[0].error
    if is_done:
        if not yes:
            said = "\n".join(f"{thing.kind} {thing.name}: {thing.details}" for thing in todo)
            typer.confirm(f"{said}\nRemove these for good?", abort=True, err=True)
        for thing in query.remove(remains, _wait):
            say_meanwhile(f"removed: {thing.kind} {thing.name}")
    return _answer(redacted(place), remains, is_done=is_done)


def _wait(seconds: float) -> None:
    say_meanwhile(
        "a driver that has not recorded its end may be alive, since the clocks of two hosts may differ: "
        f"waiting {seconds:g} s"
    )
    sleep(seconds)


def _sources(place: str, stored: StoredState) -> tuple[list[StoredSource], str | None]:
    """The sources to retire, and Spark's checkpoint location if ``place`` is one."""
    storage, states = stored.files.options, stored.state_locations or ()
    place = normal_location(place)
    lineages = find_lineages(place, storage, state_locations=states, even_missing=True)
    if lineages[0].is_savepoint:
        raise StateLocationError(
            f"{redacted(place)} is a savepoint",
            remedy="delete it with flip27 savepoint delete, or give the location of the query",
        )
    sources = [StoredSource(lineage=lineage, storage=storage) for lineage in lineages]
    is_checkpoint = OFFSETS in open_store(place, storage).list("")
    if not is_checkpoint and (lineages[0].parent or "").startswith(f"{place}/"):
        # An interrupted removal leaves only the names of lineages below what was a checkpoint.
        is_checkpoint = not any(one.removal is None or one.removal.files() for one in sources)
    checkpoint = place if is_checkpoint else None
    if stored.lineage is not None:
        name = chosen_lineage([lineage.name for lineage in lineages], stored.lineage, place)
        sources = [source for source in sources if source.lineage.name == name]
    elif checkpoint is None and len(lineages) > 1:
        names = ", ".join(lineage.name for lineage in lineages)
        raise OptionError(
            f"{redacted(place)} contains {len(lineages)} lineages, maybe of several queries: {names}",
            remedy="give the checkpoint location of the query to retire, or choose a lineage with --lineage",
        )
    return sources, checkpoint


def _check(query: RetiredQuery, lineage: str | None) -> None:
    if query.with_checkpoint and (query.checkpoint is None or lineage is not None):
        raise OptionError(
            "--with-checkpoint-location is given, but LOCATION is not a checkpoint location of Spark"
            if query.checkpoint is None
            else "--with-checkpoint-location is given with --lineage, but all sources need the checkpoint",
            remedy="give the checkpoint location of the query as LOCATION, without --lineage",
        )
    unknown = sorted(query.kept - query.kinds)
    if unknown:
        raise OptionError(
            f"--keep {unknown[0]} is unknown", remedy=f"use one of {', '.join(sorted(query.kinds))}"
        )


def _answer(location: str, remains: Remains, *, is_done: bool) -> Answer:
    rows = [
        (thing.kind, thing.name, _outcome(thing, is_done=is_done), thing.details) for thing in remains.things
    ]
    problems = [
        {"lineage": problem.lineage, "what": problem.error.what, "remedy": problem.error.remedy}
        for problem in remains.problems
    ]
    notes = [*remains.notes, *(f"{item['what']}\n  What to do: {item['remedy']}" for item in problems)]
    is_there = any(thing.remove is not None for thing in remains.things)
    if not is_done:
        end = "dry run: nothing was changed; add --execute to remove these things"
        notes += [] if problems else [end] if is_there else ["there is nothing to remove"]
    columns = ("kind", "name", "outcome", "details")
    return Answer(
        data={
            "location": location,
            "things": [dict(zip(columns, row, strict=True)) for row in rows],
            "problems": problems,
            "notes": list(remains.notes),
            "is_done": is_done,
        },
        shown=[Table(columns=columns, rows=rows)],
        notes=notes,
        exit_code=CHECK_FAILED if problems and not is_done else DONE,
    )


def _outcome(thing: Leftover, *, is_done: bool) -> str:
    if thing.remove is None:
        return "stays"
    return "removed" if is_done else "would be removed"
