"""``flip27 export``: starts a query of another system where a flip27 query has stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from flip27_source import edits
from flip27_source.enumerators.files.migration.hadoop_uris import HadoopUris
from flip27_source.enumerators.files.migration.known_files import ReadFiles, read_files
from flip27_source.enumerators.files.options import PATHS
from flip27_source.errors import OptionError
from flip27_source.savepoints.committed_state import CommittedState, committed_state
from flip27_source.snapshots.spark_file_log import LoggedFile, check_convertible, write_converted
from flip27_source.snapshots.store import open_store
from flip27_source.source import Source
from flip27_source.source_options import PATH

from ..commands import CHECK_FAILED, DONE, Execute, Query, as_code, command, option, some, source_options
from ..rendering import Answer, Table

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
    query: Query,
    target: Annotated[
        str,
        option(
            "--checkpoint SPARK_CHECKPOINT",
            "A new directory: the checkpoint location of a query of Spark's file source.",
        ),
    ],
    given_options: Annotated[
        list[str],
        option(
            "--option NAME=VALUE",
            "An option of the query: path as Spark will read it (s3a://...), and fileNameOnly, "
            "pathGlobFilter or recursiveFileLookup if they are set. Repeatable.",
        ),
    ],
    execute: Execute = False,
) -> Answer:
    """Write a checkpoint from which Spark's own file source continues with the first file that was not read.

    The query has to be stopped. The log of the new checkpoint lists the files that it has read and that still
    exist. The watermark and the state of operators, such as aggregates, are copied. Files of a batch that the
    query has planned and not committed are read by Spark. Exit code 3: Spark would read files twice, or leave
    files out.
    """
    storage = query.files.options
    committed = committed_state(query.state, query.checkpoint, query.lineage, storage)
    source = _source(source_options(given_options, query.files.storage), committed)
    files = read_files(committed.enumerator_state.position, committed.unread, source.options)
    path = source.options[PATH] or ""
    number = check_convertible(committed.checkpoint, storage, committed.batch_id)
    if execute:
        uris = HadoopUris(path)
        number = write_converted(
            open_store(target, storage),
            committed.checkpoint,
            storage,
            batch_id=committed.batch_id,
            replaced=committed.name,
            files=(
                LoggedFile(path=uris(path), modified_ms=info.modified_us // 1000, batch=0)
                for path, info in files.read
            ),
        )
    requests = edits.pending(state=query.state, lineage=committed.lineage, storage_options=storage)
    exported = committed.name.checkpoint_id
    waits = any(item.error is None and (item.applied_in or exported + 1) > exported for item in requests)
    notes = ["the export does not contain the edits that wait: flip27 edit list"] if waits else []
    options = {"path": path, "checkpointLocation": target}
    unsure = {split.path for split in committed.uncommitted}.intersection(files.unread)
    if unsure:
        files = replace(files, partly=sorted(unsure.union(files.partly)))
        notes.append(
            f"batch {committed.batch_id + 1} of the query is planned and not committed: its files are read "
            "by Spark. If the sink has them already, let the old query commit the batch first"
        )
    return _answer(files, options, number, notes, is_dry_run=not execute)


def _source(given: dict[str, str], committed: CommittedState) -> Source:
    if committed.source.enumerator != "files":
        raise OptionError(
            f"the source {committed.source.uid} has the enumerator {committed.source.enumerator}, not files",
            remedy="give --lineage if the query has several sources",
        )
    source = Source.resolve(
        {"reader": "binary", **committed.source.start_options, **given, "enumerator": "files"}
    )
    if source.options[PATHS]:
        raise OptionError(
            "option paths is set, but Spark's file source takes only one path",
            remedy="give one path, which may be a glob such as /landing/{a,b}",
        )
    source.options.require(PATH, why="it is listed to find the files that were read")
    return source


def _answer(
    files: ReadFiles, options: dict[str, str], number: int, notes: list[str], *, is_dry_run: bool
) -> Answer:
    named = [f"would be read twice: {path}" for path in files.partly]
    named += [f"would be left out: {path}" for path in files.old]
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
                    ("read in part, or perhaps, will be read again", len(files.partly)),
                    ("not read, and too old for Spark", len(files.old)),
                ],
            ),
            *some(named, _SHOWN),
            *as_code(options),
        ],
        notes=notes,
        exit_code=CHECK_FAILED if named else DONE,
    )
