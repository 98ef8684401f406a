"""``flip27 export``: starts a query of another system where a flip27 query has stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from flip27_source.enumerators.files.migration.exported_files import ReadFiles, read_files
from flip27_source.enumerators.files.migration.hadoop_uris import HadoopUris
from flip27_source.enumerators.files.options import PATHS
from flip27_source.errors import OptionError
from flip27_source.savepoints.committed_state import CommittedState, committed_state
from flip27_source.snapshots.converted_checkpoint import check_convertible, write_converted
from flip27_source.snapshots.spark_file_log import LoggedFile
from flip27_source.snapshots.store import open_store
from flip27_source.source import Source
from flip27_source.source_options import PATH

from ..answers import Answer, Table
from ..commands import CHECK_FAILED, DONE, Lineage, Storage, command, pairs, storage_options

group = typer.Typer(no_args_is_help=True)

_SHOWN = 5


@command(
    group,
    "spark-files",
    example="flip27 export spark-files --state /ckpt/orders/flip27 --checkpoint /ckpt/orders-by-spark "
    "--option path=/landing/orders",
    answers="an object: options (for the query of Spark: path and checkpointLocation), files (how many are "
    "in the log), unread (how many Spark will read first), read_twice and left_out (lists of paths), "
    "batch_id (Spark's query continues after that batch).",
)
def export_spark_files(
    state: Annotated[
        str, typer.Option("--state", help="The stateLocation of the query, which has to be stopped.")
    ],
    checkpoint: Annotated[
        str,
        typer.Option(
            "--checkpoint",
            metavar="SPARK_CHECKPOINT",
            help="A new directory: the checkpoint location of a query of Spark's file source.",
        ),
    ],
    option: Annotated[
        list[str],
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="An option of the query: path as Spark will read it (s3a://...), and fileNameOnly, "
            "pathGlobFilter or recursiveFileLookup if they are set. Repeatable.",
        ),
    ],
    checkpoint_location: Annotated[
        str | None,
        typer.Option(
            "--checkpoint-location",
            help="The query's checkpointLocation; not needed if it contains the state.",
        ),
    ] = None,
    lineage: Lineage = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Write the checkpoint; without this option nothing is written.")
    ] = False,
    storage: Storage = None,
) -> Answer:
    """Write a checkpoint from which Spark's own file source continues with the first file that was not read.

    The log of the new checkpoint lists the files that the query has read and that still exist. The watermark
    and the state of operators, such as aggregates, are copied. Exit code 3: Spark would read files twice, or
    leave files out.
    """
    options = storage_options(storage)
    found = committed_state(state, checkpoint_location, lineage, options)
    source = _source(option, found, storage)
    files = read_files(found.enumerator_state.position, found.unread, source.options)
    path = source.options[PATH] or ""
    number = check_convertible(found.checkpoint, options, found.batch_id)
    if execute:
        uris = HadoopUris(path)
        number = write_converted(
            open_store(checkpoint, options),
            found.checkpoint,
            options,
            batch_id=found.batch_id,
            replaced=found.name,
            files=(
                LoggedFile(path=uris(path), modified_ms=info.modified_us // 1000, batch=0)
                for path, info in files.read
            ),
        )
    return _answer(files, {"path": path, "checkpointLocation": checkpoint}, number, is_dry_run=not execute)


def _source(option: list[str], found: CommittedState, storage: list[str] | None) -> Source:
    if found.source.enumerator != "files":
        raise OptionError(
            f"the source {found.source.uid} has the enumerator {found.source.enumerator}, not files",
            remedy="give --lineage if the query has several sources",
        )
    of_storage = {f"storage.{name}": value for name, value in pairs(storage, "--storage").items()}
    given = {"reader": "binary", **found.source.start_options, **of_storage, **pairs(option, "--option")}
    source = Source.resolve({**given, "enumerator": "files"})
    if source.options[PATHS]:
        raise OptionError(
            "option paths is set, but Spark's file source takes only one path",
            remedy="give one path, which may be a glob such as /landing/{a,b}",
        )
    source.options.require(PATH, why="it is listed to find the files that were read")
    return source


def _answer(files: ReadFiles, options: dict[str, str], number: int, *, is_dry_run: bool) -> Answer:
    named = [("would be read twice", path) for path in files.partly]
    named += [("would be left out", path) for path in files.old]
    notes = []
    if files.old:
        notes.append(
            "files that are older than the newest file of the log by more than 7 days are left out by Spark: "
            "set its option maxFileAge to a longer time"
        )
    if is_dry_run:
        notes.append("dry run: nothing was written; add --execute to write the checkpoint")
    return Answer(
        data={
            "options": options,
            "files": len(files.read),
            "unread": len(files.unread),
            "read_twice": files.partly,
            "left_out": files.old,
            "batch_id": number,
        },
        shown=[
            Table(
                columns=("files", "number"),
                rows=[
                    ("in the log", len(files.read)),
                    ("in the path and not read", len(files.unread)),
                    ("read in part, will be read again", len(files.partly)),
                    ("not read, and too old for Spark", len(files.old)),
                ],
            ),
            *(f"{what}: {path}" for what, path in named[:_SHOWN]),
            *([f"... and {len(named) - _SHOWN} more"] if len(named) > _SHOWN else []),
            *(f'.option("{name}", {value!r})' for name, value in options.items()),
        ],
        notes=notes,
        exit_code=CHECK_FAILED if named else DONE,
    )
