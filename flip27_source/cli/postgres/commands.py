"""``flip27 postgres``: drops what a query has left on a PostgreSQL server."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import Annotated

import msgspec
import typer

from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres.clean_up import Leftovers, StateOfSlot, drop, leftovers
from flip27_source.enumerators.postgres.connection import checked, connect, place
from flip27_source.enumerators.postgres.publication import Publication, find_publication
from flip27_source.errors import MissingStateError, OptionError, StateLocationError
from flip27_source.options import Options
from flip27_source.values.stored_json import decode_json

from ..commands import Execute, Yes, argument, command, option, pairs
from ..rendering import Answer, Table
from ..state.rows import Place, StoredState

group = typer.Typer(no_args_is_help=True)


@command(
    group,
    "drop",
    example="flip27 postgres drop /ckpt/orders --host db.internal --database shop --user flip27 "
    "--password-env SHOP_PASSWORD",
    answers="an object: database, slot and publication (null if there is none to drop), shared_publication "
    "(one that stays), tables (of the publication), other_slots (whose queries may read the publication), "
    "kept_bytes, released_bytes, held_by (the slot that still needs the rest of kept_bytes), statements, "
    "is_dropped.",
)
def drop_leftovers(
    location: Annotated[
        str | None,
        argument(
            "LOCATION",
            "The query's checkpoint location or stateLocation. Its slot is dropped, and the publication "
            "that the query created.",
        ),
    ] = None,
    slot: Annotated[
        str | None,
        option(
            "--slot",
            "The slot, if the state no longer exists or has another one; publications stay unless named.",
        ),
    ] = None,
    publication: Annotated[
        str | None,
        option(
            "--publication",
            "Drop this publication too, whoever may read it; by default only the state's, if it has the "
            "slot's name and the database has no other slot of pgoutput.",
        ),
    ] = None,
    host: Annotated[str | None, option("--host", "The option host.")] = None,
    port: Annotated[str | None, option("--port N", "The option port.")] = None,
    database: Annotated[str | None, option("--database", "The option database.")] = None,
    user: Annotated[str | None, option("--user", "The option user.")] = None,
    password_env: Annotated[str | None, option("--password-env NAME", "The option passwordEnv.")] = None,
    given_options: Annotated[
        list[str] | None,
        option("--option NAME=VALUE", "Any other option of the connection, such as sslmode. Repeatable."),
    ] = None,
    execute: Execute = False,
    yes: Yes = False,
    *,
    stored: StoredState,
) -> Answer:
    """Drop the slot and the publication of a query that will not run again; a dry run without --execute.

    A slot that is no longer read makes the server keep WAL until its disk is full. The command refuses while
    the query runs. The query and its savepoints cannot continue afterwards; forks with own slots can.
    """
    given = {"host": host, "port": port, "database": database, "user": user, "passwordEnv": password_env}
    raw = {name: value for name, value in given.items() if value is not None}
    options = Options.parse(raw | pairs(given_options, "--option"), opts.CONNECTION_OPTIONS)
    state = None if location is None else _state(Place(location=location, stored=stored))
    slot = _slot(state, slot)
    if slot is None:
        return _answer(Leftovers(slot=None, publication=None), options, is_dropped=False)
    # A publication of another name is not the query's own; without the state, another query may read it.
    read = slot if state is None else state.publication
    is_named = publication is not None
    if not is_named and state is not None:
        publication = state.own_publication
    system = None if state is None else state.system
    read_to = None if state is None else state.read_to
    with connect(options, purpose="drop") as connection:
        left: Leftovers = checked(
            options,
            "querying the slot",
            lambda: leftovers(
                connection, slot, publication, is_named=is_named, system=system, read_to=read_to
            ),
        )
        kept = checked(
            options,
            "querying the publication",
            lambda: None if read in (None, publication) else find_publication(connection, read),
        )
        if not execute or not left.statements:
            return _answer(left, options, kept, is_dropped=False)
        if not yes:
            typer.confirm(f"{'; '.join(left.statements)}; on {place(options)}?", abort=True, err=True)
        checked(options, "dropping", lambda: drop(connection, left))
    return _answer(left, options, kept, is_dropped=True)


def _slot(state: StateOfSlot | None, slot: str | None) -> str | None:
    """The name of the slot; None if the query reads no log."""
    if state is None:
        if slot is None:
            raise OptionError(
                "neither the state of a query nor --slot is given",
                remedy="give the checkpoint location of the query, or the slot with --slot",
            )
        return slot
    if slot not in (None, state.slot):
        raise OptionError(
            f"--slot is {slot}, and the state has the slot {state.slot}", remedy="give only one of the two"
        )
    return state.slot


def _state(at: Place) -> StateOfSlot:
    history = at.history()
    newest = history.newest()
    if newest is None:
        raise MissingStateError(
            f"{history.lineage.name} has no checkpoint yet",
            remedy="give the slot with --slot; SELECT slot_name FROM pg_replication_slots; lists them",
        )
    _, document = newest
    with suppress(msgspec.MsgspecError):
        if document.source.enumerator == "postgres":
            return decode_json(document.raw.enumerator.state, StateOfSlot)
    raise StateLocationError(
        f"{history.lineage.name} is the state of the enumerator {document.source.enumerator}: it has no slot",
        remedy="give the state of a query of the postgres source, or choose its lineage with --lineage",
    )


def _answer(
    left: Leftovers, options: Options, kept: Publication | None = None, *, is_dropped: bool
) -> Answer:
    done = "dropped" if is_dropped else "would be dropped"
    rows = []
    if left.slot is not None:
        rows.append(("slot", left.slot, done, f"keeps {left.kept_bytes:,} bytes of WAL"))
    if left.publication is not None:
        rows.append(("publication", left.publication, done, ", ".join(left.tables)))
    notes = []
    if left.slot is not None:
        rest = "" if left.held_by is None else f"; slot {left.held_by} needs the rest"
        verb = "can be" if is_dropped else "could then be"
        notes.append(
            f"{left.released_bytes:,} bytes of WAL {verb} removed at the server's next checkpoint{rest}"
        )
    name = left.shared_publication if kept is None else kept.name
    if name is not None:
        why = f", because {left.readers} may read it" if kept is None else ""
        notes.append(
            f"publication {name} stays{why}; if no query reads it, drop it too: --publication {name}"
        )
    if not rows:
        notes.append(
            "nothing is left to drop: the slot does not exist"
            + (", and neither does a publication that the query created" if name is None else "")
        )
    elif not is_dropped:
        notes.append(f"dry run: nothing was changed on {place(options)}; add --execute to drop them")
    return Answer(
        data={
            "database": options[opts.DATABASE],
            **dataclasses.asdict(left),
            "statements": left.statements,
            "is_dropped": is_dropped,
        },
        shown=[Table(columns=("what", "name", "outcome", "details"), rows=rows)] if rows else [],
        notes=notes,
    )
