"""``flip27 savepoint``: creates, shows, verifies and deletes savepoints."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from flip27_source import savepoints

from ..answers import Answer, Table
from ..commands import DONE, REFUSED, Lineage, Storage, command, storage_options
from ..rendering import say_meanwhile

group = typer.Typer(no_args_is_help=True)

Savepoint = Annotated[
    str, typer.Argument(metavar="SAVEPOINT", help="The directory of a savepoint, or its _metadata file.")
]
State = Annotated[str, typer.Option("--state", help="The query's stateLocation.")]
To = Annotated[str, typer.Option("--to", help="Directory in which the savepoint gets its own directory.")]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint-location",
        help="The query's checkpointLocation; not needed if it contains the state.",
    ),
]
_FAILED_SHOWN = 5
_REQUEST = "an object: request_id, lineage, target."


@command(
    group,
    "create",
    example="flip27 savepoint create --state /ckpt/orders/flip27 --to /savepoints",
    answers="an object: directory, checkpoint_id, batch_id (null if Spark's checkpoint is not known), "
    "requested (whether a running query took it).",
)
def create(
    state: State,
    to: To,
    checkpoint: Checkpoint = None,
    lineage: Lineage = None,
    query: Annotated[
        bool, typer.Option("--query", help="Copy the whole query: Spark's checkpoint and all its sources.")
    ] = False,
    copy: Annotated[
        bool,
        typer.Option("--copy", help="Copy the newest complete checkpoint at once, even of a running query."),
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", help="How long to wait for a running query, in seconds.")
    ] = 600.0,
    storage: Storage = None,
) -> Answer:
    """Create a savepoint: a running query takes it at its next batch boundary; otherwise it is a copy.

    While the command waits, it reports progress on standard error. After a timeout it withdraws the request.
    """
    made = savepoints.create(
        state=state,
        to=to,
        checkpoint=checkpoint,
        lineage=lineage,
        query=query,
        copy=copy,
        timeout_s=timeout,
        progress=say_meanwhile,
        storage_options=storage_options(storage),
    )
    said = f"checkpoint {made.checkpoint_id}"
    if made.batch_id is not None:
        said += f", the state after batch {made.batch_id}"
    elif not made.requested:
        said += ", the newest that is known to be complete (give --checkpoint-location for the very last "
        "batch)"
    said += "; created by the running query" if made.requested else ""
    return Answer(data=made, shown=[made.directory], notes=[said])


@command(
    group,
    "request",
    example="flip27 savepoint request --state /ckpt/orders/flip27 --to /savepoints",
    answers=_REQUEST,
)
def request(
    state: State,
    to: To,
    checkpoint: Checkpoint = None,
    lineage: Lineage = None,
    storage: Storage = None,
) -> Answer:
    """Request a savepoint without waiting; a stopped query takes it at its next start."""
    asked = savepoints.request(
        state=state, to=to, checkpoint=checkpoint, lineage=lineage, storage_options=storage_options(storage)
    )
    said = f"{asked.lineage} takes the savepoint at its next batch boundary, in {asked.target}"
    earlier = savepoints.pending(
        state=state, checkpoint=checkpoint, lineage=lineage, storage_options=storage_options(storage)
    )
    failed = [
        f"an earlier request failed, {item.request_id} for {item.target}: {item.error}"
        for item in earlier
        if item.error is not None
    ]
    return Answer(data=asked, shown=[asked.request_id], notes=[said, *failed[-_FAILED_SHOWN:]])


@command(
    group,
    "requests",
    example="flip27 savepoint requests --state /ckpt/orders/flip27",
    answers="a list of objects: request_id, lineage, target, error (null while it waits), failed_at.",
)
def list_requests(
    state: State, checkpoint: Checkpoint = None, lineage: Lineage = None, storage: Storage = None
) -> Answer:
    """List the requested savepoints of a query: waiting requests, and failed ones with the reason."""
    found = savepoints.pending(
        state=state, checkpoint=checkpoint, lineage=lineage, storage_options=storage_options(storage)
    )
    columns = ("request", "target", "failed at", "problem")
    rows = [(item.request_id, item.target, item.failed_at, item.error) for item in found]
    return Answer(data=found, shown=[Table(columns=columns, rows=rows)])


@command(
    group,
    "withdraw",
    example="flip27 savepoint withdraw 0f3a5c1e --state /ckpt/orders/flip27",
    answers=_REQUEST,
)
def withdraw(
    request_id: Annotated[str, typer.Argument(metavar="REQUEST", help="The id, or the beginning of it.")],
    state: State,
    checkpoint: Checkpoint = None,
    lineage: Lineage = None,
    storage: Storage = None,
) -> Answer:
    """Withdraw a request for a savepoint, or delete a failed one; a started savepoint is still finished."""
    asked = savepoints.withdraw(
        request_id,
        state=state,
        checkpoint=checkpoint,
        lineage=lineage,
        storage_options=storage_options(storage),
    )
    return Answer(data=asked, shown=[f"withdrawn {asked.request_id}, a savepoint in {asked.target}"])


@command(
    group,
    "restore",
    example="flip27 savepoint restore /savepoints/savepoint-17-0f3a... "
    "--checkpoint-location /ckpt/orders-fork",
    answers="an object: checkpoint_location, state_location, batch_id (the fork continues after that batch).",
)
def restore(
    savepoint: Savepoint,
    checkpoint: Annotated[
        str,
        typer.Option("--checkpoint-location", help="A new directory: checkpointLocation of the fork."),
    ],
    state: Annotated[
        str | None,
        typer.Option("--state", help="stateLocation of the fork; by default flip27 in its checkpoint."),
    ] = None,
    storage: Storage = None,
) -> Answer:
    """Create a checkpoint that starts a fork of a whole query, from a savepoint that create --query made."""
    made = savepoints.restore_query(
        savepoint, checkpoint, state=state, storage_options=storage_options(storage)
    )
    return Answer(
        data=made,
        shown=[made.checkpoint_location],
        notes=[f"continues after batch {made.batch_id}; set stateLocation to {made.state_location}"],
    )


@command(
    group,
    "list",
    example="flip27 savepoint list /savepoints",
    answers="a list of objects: directory, status (readable, damaged, unfinished), problem, created_at, "
    "checkpoint_id, lineage, uid.",
)
def list_all(
    directory: Annotated[
        str, typer.Argument(metavar="DIRECTORY", help="Directory of savepoints (--to of create).")
    ],
    storage: Storage = None,
) -> Answer:
    """List the savepoints in a directory, including damaged and unfinished ones."""
    found = savepoints.list_savepoints(directory, storage_options(storage))
    columns = ("directory", "status", "created_at", "checkpoint_id", "uid", "lineage", "problem")
    rows = [[getattr(entry, column) for column in columns] for entry in found]
    return Answer(data=found, shown=[Table(columns=columns, rows=rows)])


@command(
    group,
    "show",
    example="flip27 savepoint show /savepoints/savepoint-17-0f3a...",
    answers="an object: directory, checkpoint_id, digest, checkpoint_at, created_at, lineage, source, live, "
    "finished, quarantined, segments, reports, query_batch, claimed_by.",
)
def show(savepoint: Savepoint, storage: Storage = None) -> Answer:
    """Show the source, the checkpoint and the counts of a savepoint."""
    found = savepoints.describe(savepoint, storage_options(storage))
    fields = [field.name for field in dataclasses.fields(found) if field.name != "directory"]
    rows = [(name, getattr(found, name)) for name in fields]
    return Answer(data=found, shown=[Table(columns=("savepoint", found.directory), rows=rows)])


@command(
    group,
    "verify",
    example="flip27 savepoint verify /savepoints/savepoint-17-0f3a...",
    answers="an object: directory, is_whole, files (name, bytes, problem).",
)
def verify(savepoint: Savepoint, storage: Storage = None) -> Answer:
    """Read every file of a savepoint and check its digest; the exit code is 1 if a file is damaged."""
    found = savepoints.verify(savepoint, storage_options(storage))
    columns = ("file", "bytes", "problem")
    rows = [(file.name, file.bytes, file.problem) for file in found.files]
    said = f"{len(found.files)} files, {len(found.damaged)} damaged"
    return Answer(
        data={"directory": found.directory, "is_whole": found.is_whole, "files": found.files},
        shown=[Table(columns=columns, rows=rows)],
        notes=[said if found.damaged else f"{said}: the savepoint is complete"],
        exit_code=DONE if found.is_whole else REFUSED,
    )


@command(
    group,
    "delete",
    example="flip27 savepoint delete /savepoints/savepoint-17-0f3a... --yes",
    answers="an object: directory, files (their number).",
)
def delete(
    savepoint: Savepoint,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    storage: Storage = None,
) -> Answer:
    """Delete a savepoint after confirmation. A directory that is not a savepoint is refused."""
    options = storage_options(storage)
    found = savepoints.describe(savepoint, options)
    if not yes:
        question = f"Delete the savepoint {found.directory} of checkpoint {found.checkpoint_id}?"
        typer.confirm(question, abort=True, err=True)
    done = savepoints.delete(savepoint, options)
    return Answer(data=done, shown=[f"deleted {done.directory}, {done.files} files"])
