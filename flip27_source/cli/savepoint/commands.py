"""``flip27 savepoint``: creates, shows, verifies and deletes savepoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from flip27_source import savepoints
from flip27_source.file_systems.paths import location

from ..commands import DONE, REFUSED, FileSystem, Query, Yes, argument, command, option, seconds
from ..rendering import Answer, Table, say_meanwhile

group = typer.Typer(no_args_is_help=True)

Savepoint = Annotated[
    str, argument("SAVEPOINT", "The directory of a savepoint, or its _metadata file.", location)
]
To = Annotated[str, option("--to", "Directory in which the savepoint gets its own directory.")]
_FAILED_SHOWN = 5


@command(
    group,
    example="flip27 savepoint create --state /ckpt/orders/flip27 --to /savepoints",
    answers="an object: directory, checkpoint_id, batch_id (null if Spark's checkpoint is not known), "
    "requested (whether a running query took it).",
)
def create(
    query: Query,
    to: To,
    whole: Annotated[
        bool, option("--query", "Copy the whole query: Spark's checkpoint and all its sources.")
    ] = False,
    copy: Annotated[
        bool, option("--copy", "Copy the newest complete checkpoint at once, even of a running query.")
    ] = False,
    timeout: Annotated[
        float, option("--timeout SECONDS", "How long to wait for a running query.", seconds)
    ] = 600.0,
) -> Answer:
    """Create a savepoint: a running query takes it at its next batch boundary; otherwise it is a copy.

    While the command waits, it reports progress on standard error. After a timeout it withdraws the request.
    """
    savepoint = savepoints.create(
        to=to, query=whole, copy=copy, timeout_s=timeout, progress=say_meanwhile, **query.named
    )
    said = f"checkpoint {savepoint.checkpoint_id}"
    if savepoint.batch_id is not None:
        said += f", the state after batch {savepoint.batch_id}"
    elif not savepoint.requested:
        said += (
            ", the newest that is known to be complete (give --checkpoint-location for the very last batch)"
        )
    said += "; created by the running query" if savepoint.requested else ""
    return Answer(data=savepoint, shown=[savepoint.directory], notes=[said])


@command(
    group,
    example="flip27 savepoint request --state /ckpt/orders/flip27 --to /savepoints",
    answers="an object: request_id, lineage, target.",
)
def request(query: Query, to: To) -> Answer:
    """Request a savepoint without waiting; a stopped query takes it at its next start."""
    requested = savepoints.request(to=to, **query.named)
    said = f"{requested.lineage} takes the savepoint at its next batch boundary, in {requested.target}"
    failed = [
        f"an earlier request failed, {item.request_id} for {item.target}: {item.error}"
        for item in savepoints.pending(**query.named)
        if item.error is not None
    ]
    return Answer(data=requested, shown=[requested.request_id], notes=[said, *failed[-_FAILED_SHOWN:]])


@command(
    group,
    "requests",
    example="flip27 savepoint requests --state /ckpt/orders/flip27",
    answers="a list of objects: request_id, lineage, target, error (null while it waits), failed_at.",
)
def list_requests(query: Query) -> Answer:
    """List the requested savepoints of a query: waiting requests, and failed ones with the reason."""
    requests = savepoints.pending(**query.named)
    columns = {"request": "request_id", "target": "target", "failed at": "failed_at", "problem": "error"}
    return Answer(data=requests, shown=[_table(columns, requests)])


@command(
    group,
    example="flip27 savepoint withdraw 0f3a5c1e --state /ckpt/orders/flip27",
    answers="an object: request_id, lineage, target, error (of a failed request, which is deleted), "
    "failed_at.",
)
def withdraw(
    request_id: Annotated[str, argument("REQUEST", "The id, or the beginning of it.")], query: Query
) -> Answer:
    """Withdraw a request for a savepoint that is not finished yet, or delete a failed request."""
    withdrawn = savepoints.withdraw(request_id, **query.named)
    return Answer(data=withdrawn, shown=[withdrawn.withdrawn])


@command(
    group,
    example="flip27 savepoint restore /savepoints/savepoint-17-0f3a... "
    "--checkpoint-location /ckpt/orders-fork",
    answers="an object: checkpoint_location, state_location, batch_id (the fork continues after that batch).",
)
def restore(
    savepoint: Savepoint,
    checkpoint: Annotated[
        str, option("--checkpoint-location", "A new directory: checkpointLocation of the fork.")
    ],
    state: Annotated[
        str | None,
        option("--state LOCATION", "stateLocation of the fork; by default flip27 in its checkpoint."),
    ] = None,
    *,
    files: FileSystem,
) -> Answer:
    """Create a checkpoint that starts a fork of a whole query, from a savepoint that create --query made."""
    fork = savepoints.restore_query(savepoint, checkpoint, state=state, storage_options=files.options)
    return Answer(
        data=fork,
        shown=[fork.checkpoint_location],
        notes=[f"continues after batch {fork.batch_id}; set stateLocation to {fork.state_location}"],
    )


@command(
    group,
    "list",
    example="flip27 savepoint list /savepoints",
    answers="a list of objects: directory, status (readable, damaged, unfinished), problem, created_at, "
    "checkpoint_id, lineage, uid, claimed_by.",
)
def list_all(
    directory: Annotated[str, argument("DIRECTORY", "Directory of savepoints (--to of create).")],
    files: FileSystem,
) -> Answer:
    """List the savepoints in a directory, including damaged and unfinished ones."""
    entries = savepoints.list_savepoints(directory, files.options)
    columns = (
        "directory",
        "status",
        "created_at",
        "checkpoint_id",
        "uid",
        "lineage",
        "claimed_by",
        "problem",
    )
    return Answer(data=entries, shown=[_table(dict(zip(columns, columns, strict=True)), entries)])


@command(
    group,
    example="flip27 savepoint show /savepoints/savepoint-17-0f3a...",
    answers="an object: directory, checkpoint_id, digest, checkpoint_at, created_at, lineage, source, live, "
    "finished, quarantined, segments, reports, query_batch, claimed_by.",
)
def show(savepoint: Savepoint, files: FileSystem) -> Answer:
    """Show the source, the checkpoint and the counts of a savepoint."""
    description = savepoints.describe(savepoint, files.options)
    names = [field.name for field in dataclasses.fields(description) if field.name != "directory"]
    rows = [(name, getattr(description, name)) for name in names]
    return Answer(data=description, shown=[Table(columns=("savepoint", description.directory), rows=rows)])


@command(
    group,
    example="flip27 savepoint verify /savepoints/savepoint-17-0f3a...",
    answers="an object: directory, is_whole, files (name, bytes, problem).",
)
def verify(savepoint: Savepoint, files: FileSystem) -> Answer:
    """Read every file of a savepoint and check its digest; the exit code is 1 if a file is damaged."""
    verified = savepoints.verify(savepoint, files.options)
    said = f"{len(verified.files)} files, {len(verified.damaged)} damaged"
    return Answer(
        data={"directory": verified.directory, "is_whole": verified.is_whole, "files": verified.files},
        shown=[_table({"file": "name", "bytes": "bytes", "problem": "problem"}, verified.files)],
        notes=[said if verified.damaged else f"{said}: the savepoint is complete"],
        exit_code=DONE if verified.is_whole else REFUSED,
    )


@command(
    group,
    example="flip27 savepoint delete /savepoints/savepoint-17-0f3a... --yes",
    answers="an object: directory, files (their number).",
)
def delete(savepoint: Savepoint, yes: Yes = False, *, files: FileSystem) -> Answer:
    """Delete a savepoint after confirmation. A directory that is not a savepoint is refused."""
    description = savepoints.describe(savepoint, files.options)
    if not yes:
        question = f"Delete the savepoint {description.directory} of checkpoint {description.checkpoint_id}?"
        typer.confirm(question, abort=True, err=True)
    deleted = savepoints.delete(savepoint, files.options)
    return Answer(data=deleted, shown=[f"deleted {deleted.directory}, {deleted.files} files"])


def _table(attributes: dict[str, str], items: Sequence[Any]) -> Table:
    """A row for each item; ``attributes``: the attribute in each column, by the column's name."""
    rows = [[getattr(item, name) for name in attributes.values()] for item in items]
    return Table(columns=tuple(attributes), rows=rows)
