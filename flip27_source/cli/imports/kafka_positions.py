"""Where a query starts in topics that another reader has read: the answer of ``flip27 import kafka``."""

from __future__ import annotations

from typing import Any

from flip27_source.enumerators.kafka import migration
from flip27_source.enumerators.kafka.migration import StartPosition
from flip27_source.enumerators.kafka.split import EARLIEST

from ..commands import CHECK_FAILED, DONE, as_code
from ..rendering import Answer, Table

SERVERS = "kafka.bootstrap.servers"


def positions_answer(
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
            f"the cluster was not queried: add --option {SERVERS}=HOST:PORT to find partitions that were "
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
            *as_code(options),
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
