"""``flip27 import kafka``: the positions at which a query starts where another reader stops. Read-only."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flip27_source.enumerators.kafka import migration
from flip27_source.enumerators.kafka import options as opts
from flip27_source.enumerators.kafka.migration import StartPosition
from flip27_source.enumerators.kafka.positions import TopicPartition
from flip27_source.enumerators.kafka.split import EARLIEST
from flip27_source.errors import OptionError
from flip27_source.options import Options
from flip27_source.snapshots.spark_checkpoint import newest_committed, newest_planned
from flip27_source.snapshots.store import open_store

from ..answers import Answer, Table
from ..commands import CHECK_FAILED, DONE, Storage, command, pairs, storage_options
from .chosen_source import chosen_source
from .group import group

_SERVERS = "kafka.bootstrap.servers"


@command(
    group,
    "kafka",
    example="flip27 import kafka --checkpoint /ckpt/old-orders --option kafka.bootstrap.servers=kafka1:9092",
    answers="an object: options (those for the new query: subscribe and startingOffsets), batch_id (the last "
    "committed one; null for a group), is_replanned (whether the old query has planned a batch that it has "
    "not committed), positions (a list of objects: topic, partition, offset, first, end, records, "
    "problem).",
)
def import_kafka(
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="SPARK_CHECKPOINT",
            help="The checkpoint location of a query of Spark's Kafka source, which has to be stopped.",
        ),
    ] = None,
    consumer_group: Annotated[
        str | None,
        typer.Option("--group", metavar="NAME", help="A consumer group: the offsets that it has committed."),
    ] = None,
    source: Annotated[
        int | None,
        typer.Option("--source", help="Which Kafka source of the query, from 0, if it has more than one."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="An option kafka.* of the source. With kafka.bootstrap.servers, the command asks the "
            "cluster which offsets exist. Needed with --group. Repeatable.",
        ),
    ] = None,
    storage: Storage = None,
) -> Answer:
    """Prepare a query that continues where a query of Spark's Kafka source, or a consumer group, has stopped.

    Prints the options for the first start of the new query, and how many records it will read from each
    partition. Nothing is changed: neither the checkpoint, nor the group, nor the cluster. Partitions that the
    other reader did not know start at earliest. Exit code 3: records are gone, or partitions are missing.
    """
    if (checkpoint is None) == (consumer_group is None):
        raise OptionError(
            "give either --checkpoint or --group", remedy="name the reader whose positions are imported"
        )
    given = pairs(option, "--option")
    batch_id, is_replanned = None, False
    if checkpoint is not None:
        batch_id, known, is_replanned = _of_spark(checkpoint, source, storage)
    else:
        if _SERVERS not in given:
            raise OptionError(
                "the brokers store the group's offsets", remedy=f"add --option {_SERVERS}=HOST:PORT"
            )
        known = migration.offsets_of_group(_options(given), consumer_group or "")
    topics = sorted({topic for topic, _ in known})
    bounds = migration.bounds_of(_options(given), set(topics)) if _SERVERS in given else None
    return _answer(migration.start_positions(known, bounds), topics, batch_id, is_replanned=is_replanned)


def _options(given: dict[str, str]) -> Options:
    return Options.parse(given, opts.KAFKA_OPTIONS)


def _of_spark(
    checkpoint: str, source: int | None, storage: list[str] | None
) -> tuple[int, dict[TopicPartition, int], bool]:
    """The last committed batch, its end offsets, and whether a later batch was planned."""
    store = open_store(checkpoint, storage_options(storage))
    committed = newest_committed(store)
    found = [
        known for line in committed.lines.values() if (known := migration.offsets_of_spark(line)) is not None
    ]
    known = chosen_source(
        found,
        source,
        kind="Kafka",
        batch=f"batch {committed.batch_id} in {checkpoint}",
        remedy="give the checkpoint location of a query that reads Kafka, and --source from 0",
    )
    return committed.batch_id, known, newest_planned(store) > committed.batch_id


def _answer(
    positions: list[StartPosition], topics: list[str], batch_id: int | None, *, is_replanned: bool
) -> Answer:
    options = {"subscribe": ",".join(topics), "startingOffsets": migration.starting_offsets(positions)}
    problems = [position for position in positions if position.problem is not None]
    notes = []
    if is_replanned and batch_id is not None:
        notes.append(
            f"batch {batch_id + 1} was planned and not committed: its records are read by the new query. If "
            "the sink has them already, let the old query commit the batch first"
        )
    if all(position.bounds is None for position in positions):
        notes.append(
            f"the cluster was not queried: add --option {_SERVERS}=HOST:PORT to find partitions that were "
            "added, and records that are gone"
        )
    if problems:
        notes.append("with onDataLoss=report the query starts even though records are gone")
    return Answer(
        data={
            "options": options,
            "batch_id": batch_id,
            "is_replanned": is_replanned,
            "positions": [_row(position) for position in positions],
        },
        shown=[
            Table(
                columns=("topic", "partition", "starts at", "records", "problem"),
                rows=[
                    (
                        position.topic,
                        position.partition,
                        "earliest" if position.offset == EARLIEST else position.offset,
                        position.records,
                        position.problem,
                    )
                    for position in positions
                ],
            ),
            *(f'.option("{name}", {value!r})' for name, value in options.items()),
        ],
        notes=notes,
        exit_code=CHECK_FAILED if problems else DONE,
    )


def _row(position: StartPosition) -> dict[str, Any]:
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
