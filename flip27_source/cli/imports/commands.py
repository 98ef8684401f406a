"""``flip27 import``: a query starts where another system has stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from flip27_source.enumerators.files.migration.hadoop_uris import OurPaths
from flip27_source.enumerators.kafka import migration
from flip27_source.enumerators.kafka import options as opts
from flip27_source.enumerators.kafka.migration import StartPosition
from flip27_source.enumerators.kafka.split import EARLIEST
from flip27_source.errors import OptionError, StateLocationError
from flip27_source.file_systems.paths import location
from flip27_source.options import Options, integer
from flip27_source.snapshots.spark_checkpoint import newest_committed, newest_planned
from flip27_source.snapshots.spark_file_log import log_offset, read_file_log
from flip27_source.snapshots.store import open_store
from flip27_source.source import Source

from ..commands import (
    CHECK_FAILED,
    DONE,
    Execute,
    FileSystem,
    OptionGroup,
    as_code,
    command,
    option,
    pairs,
    source_options,
)
from ..rendering import Answer, Table
from .file_lists import files_in_list
from .known_files import KnownFiles

T = TypeVar("T")

group = typer.Typer(no_args_is_help=True)

Number = Annotated[
    int | None,
    option(
        "--source N",
        "Which source of the query, from 0, if it has more than one of its kind.",
        integer(minimum=0),
    ),
]
_SERVERS = "kafka.bootstrap.servers"
_ANSWERS = (
    "options (for the new query: stateLocation, path if it is known, and savepoint unless it is a dry run), "
    "files (how many are known), pattern (path, which may be null, and is_recursive), read_twice (a list of "
    "paths), listing (null without a path; found, known, new, gone, old)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQuery(OptionGroup):
    """The query that continues after the files that another system has read."""

    state: Annotated[
        str,
        option("--state LOCATION", "The stateLocation of the new query; the savepoint is written below it."),
    ]
    given_options: Annotated[
        list[str] | None,
        option(
            "--option NAME=VALUE",
            "An option of the new query: path, to see what it would read first, and fileNameOnly or uid if "
            "they are set. Repeatable.",
        ),
    ] = None
    path_rewrite: Annotated[
        list[str] | None,
        option(
            "--path-rewrite OLD=NEW",
            "Replace the prefix OLD of file names by NEW in the new query, such as "
            "dbfs:/mnt/=/dbfs/mnt/. Repeatable.",
        ),
    ] = None
    execute: Execute = False
    files: FileSystem

    def paths(self, *, encoded: bool = True) -> OurPaths:
        """The names of files in the new query, by those in the other system."""
        return OurPaths(pairs(self.path_rewrite, "--path-rewrite"), encoded=encoded)

    def knowing(self, known_files: KnownFiles, **more: Any) -> Answer:
        """What the query would read; with ``--execute``, its savepoint is written first."""
        given = {"reader": "binary"} | source_options(self.given_options, self.files.storage)
        source = Source.resolve({**given, "enumerator": "files", "stateLocation": self.state})
        store = open_store(self.state, self.files.options) if self.execute else None
        return known_files.answer(source, self.state, store, more)


@command(
    group,
    "spark-files",
    example="flip27 import spark-files --checkpoint /ckpt/old-orders --state /ckpt/orders/flip27 "
    "--option path=/landing/orders",
    answers=f"an object: {_ANSWERS}, batch_id (the last committed one).",
)
def import_spark_files(
    checkpoint: Annotated[
        str,
        option(
            "--checkpoint SPARK_CHECKPOINT",
            "The checkpoint location of a query of Spark's file source, which has to be stopped.",
        ),
    ],
    number: Number = None,
    *,
    query: NewQuery,
) -> Answer:
    """Prepare a query that continues after the files that a query of Spark's file source has read.

    Writes a savepoint that the new query starts from: it knows every file of the old query's committed
    batches. Files of a batch that the old query has planned and not committed are read by the new query.
    With `--option path=...` existing files are compared with the known ones. Exit code 3: some files
    would be read twice, or the path contains no known file.
    """
    store = open_store(checkpoint, query.files.options)
    committed = newest_committed(store)
    sources = [
        (name, offset) for name, line in committed.lines.items() if (offset := log_offset(line)) is not None
    ]
    batch = f"batch {committed.batch_id} in {store.location}"
    name, offset = _chosen(sources, number, kind="file", batch=batch)
    log = read_file_log(store, name, offset)
    ours = query.paths()
    known = {ours(file.path): file.modified_ms for file in log.committed}
    known_files = KnownFiles(
        known=known,
        unsure=sorted({ours(file.path) for file in log.planned} - known.keys()),
        why_unsure=f"batch {committed.batch_id + 1} of the old query is planned and not committed: its files "
        "are read by the new query. If the sink has them already, let the old query commit the batch first",
    )
    return query.knowing(known_files, batch_id=committed.batch_id)


@command(
    group,
    "list",
    example="flip27 import list --file cloud_files_state.parquet --state /ckpt/orders/flip27 "
    "--option path=s3://in/orders",
    answers=f"an object: {_ANSWERS}.",
)
def import_list(
    file: Annotated[
        str,
        option(
            "--file LIST",
            "A list of the files that were read: Parquet or CSV with a column of their paths, a folder "
            "of such files, a text file with a path on each line, or - for such lines on standard input.",
            location,
        ),
    ],
    column: Annotated[str, option("--column", "The column of the paths.")] = "path",
    encoded: Annotated[
        bool, option("--encoded", "The paths are URIs: a%20b is the file with the name 'a b'.")
    ] = False,
    uncommitted: Annotated[
        bool,
        option(
            "--uncommitted",
            "Files whose commit_time is null were read too: the sink has all files of the list.",
        ),
    ] = False,
    *,
    query: NewQuery,
) -> Answer:
    """Prepare a query that continues after the files of a list, such as Auto Loader's `cloud_files_state`.

    Writes a savepoint that the new query starts from: it knows every file of the list. If the list has the
    column commit_time, as Auto Loader's list does, files without such a time are read by the new query. Exit
    code 3: some files would be read twice, or the path contains no known file.
    """
    listed_files = files_in_list(file, column, query.files.options)
    ours = query.paths(encoded=encoded)
    known = {ours(name): modified_ms for name, modified_ms in listed_files.read.items()}
    unsure = {ours(name) for name in listed_files.uncommitted} - known.keys()
    if uncommitted:
        known |= dict.fromkeys(unsure, 0)
    known_files = KnownFiles(
        known=known,
        unsure=[] if uncommitted else sorted(unsure),
        why_unsure="files whose commit_time is null are read by the new query. If the sink has them already, "
        "add --uncommitted",
    )
    return query.knowing(known_files)


@command(
    group,
    "kafka",
    example="flip27 import kafka --checkpoint /ckpt/old-orders --option kafka.bootstrap.servers=kafka1:9092",
    answers="an object: options (those for the new query: subscribe and startingOffsets), batch_id (the last "
    "committed one; null for a group), is_replanned (whether the old query has planned a batch that it has "
    "not committed), positions (a list of objects: topic, partition, offset (null if it is left out), first, "
    "end, records, problem).",
)
def import_kafka(
    checkpoint: Annotated[
        str | None,
        option(
            "--checkpoint SPARK_CHECKPOINT",
            "The checkpoint location of a query of Spark's Kafka source, which has to be stopped.",
        ),
    ] = None,
    consumer_group: Annotated[
        str | None, option("--group NAME", "A consumer group: the offsets that it has committed.")
    ] = None,
    number: Number = None,
    given_options: Annotated[
        list[str] | None,
        option(
            "--option NAME=VALUE",
            "An option kafka.* of the source. With kafka.bootstrap.servers, the command asks the cluster "
            "which offsets exist. Needed with --group. Repeatable.",
        ),
    ] = None,
    *,
    files: FileSystem,
) -> Answer:
    """Prepare a query that continues where a query of Spark's Kafka source, or a consumer group, has stopped.

    Prints the options for the first start of the new query, and how many records it will read from each
    partition. Nothing is changed: neither the checkpoint, nor the group, nor the cluster. Partitions that the
    other reader did not know, or that end before its position, start at earliest; those that the cluster does
    not have are left out. Exit code 3: records are gone, or partitions are missing.
    """
    if (checkpoint is None) == (consumer_group is None):
        raise OptionError(
            "give either --checkpoint or --group", remedy="name the reader whose positions are imported"
        )
    given = pairs(given_options, "--option")
    options = Options.parse(given, opts.KAFKA_OPTIONS)
    batch_id, is_replanned = None, False
    if checkpoint is not None:
        store = open_store(checkpoint, files.options)
        committed = newest_committed(store)
        batch_id, is_replanned = committed.batch_id, newest_planned(store) > committed.batch_id
        logged = map(migration.offsets_of_spark, committed.lines.values())
        sources = [offsets for offsets in logged if offsets is not None]
        known = _chosen(sources, number, kind="Kafka", batch=f"batch {batch_id} in {checkpoint}")
    elif _SERVERS not in given:
        raise OptionError(
            "the brokers store the group's offsets", remedy=f"add --option {_SERVERS}=HOST:PORT"
        )
    else:
        known = migration.offsets_of_group(options, consumer_group or "")
    bounds = migration.bounds_of(options, {topic for topic, _ in known}) if _SERVERS in given else None
    positions = migration.start_positions(known, bounds)
    return _positions_answer(positions, batch_id, is_replanned=is_replanned)


def _chosen(sources: Sequence[T], number: int | None, *, kind: str, batch: str) -> T:
    """The only source of one kind, or the one with the given number, from 0.

    Args:
        kind: the kind, for errors: file or Kafka.
        batch: the batch in whose offsets the sources were found.

    Raises:
        StateLocationError: there is no such source. OptionError: there are several, and no number is given.
    """
    if not sources or (number is not None and number >= len(sources)):
        raise StateLocationError(
            f"{batch} has {len(sources)} {kind} sources",
            remedy=f"give the checkpoint location of a query of Spark's {kind} source, and --source from 0",
        )
    if number is None and len(sources) > 1:
        raise OptionError(
            f"the query has {len(sources)} {kind} sources",
            remedy="add --source, and start a flip27 query for each of them",
        )
    return sources[number or 0]


def _positions_answer(positions: list[StartPosition], batch_id: int | None, *, is_replanned: bool) -> Answer:
    options = migration.options_of(positions)
    problems = [position for position in positions if position.problem is not None]
    notes = []
    if is_replanned and batch_id is not None:
        notes.append(
            f"batch {batch_id + 1} was planned and not committed: its records are read by the new query. If "
            "the sink has them already, let the old query commit the batch first"
        )
    if not problems and all(position.bounds is None for position in positions):
        notes.append(
            f"the cluster was not queried: add --option {_SERVERS}=HOST:PORT to find partitions that were "
            "added, and records that are gone"
        )
    if not options:
        notes.append("the cluster has none of these topics: there is nothing that a query could read")
    elif any(position.offset is None for position in problems):
        notes.append("partitions that the cluster does not have are left out")
    if any(position.offset == EARLIEST for position in problems):
        notes.append(
            "a partition that ends too early is read from its beginning; if it only lost its last records, "
            "set the offset of its end, so that no record arrives again"
        )
    if any(position.offset not in (EARLIEST, None) for position in problems):
        notes.append("records have expired: set onDataLoss=report, otherwise the query stops for them")
    return Answer(
        data={
            "options": options,
            "batch_id": batch_id,
            "is_replanned": is_replanned,
            "positions": [_position_row(position) for position in positions],
        },
        shown=[
            Table(
                columns=("topic", "partition", "starts at", "records", "problem"),
                rows=[
                    (
                        position.topic,
                        position.partition,
                        _START_NAMES.get(position.offset, position.offset),
                        position.records,
                        position.problem,
                    )
                    for position in positions
                ],
            ),
            *as_code(options),
        ],
        notes=notes,
        exit_code=CHECK_FAILED if problems else DONE,
    )


_START_NAMES = {EARLIEST: "earliest", None: "left out"}


def _position_row(position: StartPosition) -> dict[str, Any]:
    bounds = position.bounds
    return {
        "topic": position.topic,
        "partition": position.partition,
        "offset": position.offset,
        "first": None if bounds is None else bounds.first,
        "end": None if bounds is None else bounds.end,
        "records": position.records,
        "problem": position.problem,
    }
