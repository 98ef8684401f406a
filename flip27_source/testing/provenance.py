"""Provenance: which splits gave a row, in which batches; the part of a finding that names the mistake.

Only for messages: a task may read several splits, and then all of them are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..values.differences import shown
from .engine import MicroBatchEngine
from .spark_side import Row

SHOWN = 2
"""Maximum number of rows whose origin is told, and of splits that are named for each."""


def told(found: MicroBatchEngine, steady: MicroBatchEngine, missing: list[Row], excess: list[Row]) -> str:
    """Where rows come from that a run lacks or has twice, compared with a run that was not disturbed."""
    texts = [_of_excess(found, row) for row in excess[:SHOWN]]
    texts += [_of_missing(found, steady, row) for row in missing[:SHOWN] if not excess]
    if found.restarts and any(texts):
        texts.append(f"the driver was restarted before batch {_listed(found.restarts)}")
    return "".join(f"\n  {text}" for text in texts if text)


def _of_excess(found: MicroBatchEngine, row: Row) -> str:
    origins = list(_origins(found, row))
    if not origins:
        return ""
    came = f"{shown(row)} came with " + " and again with ".join(
        f"{_named(splits)} in batch {batch_id}" for batch_id, splits in origins
    )
    if len(origins) < 2:
        return came
    (_, first), (_, second) = origins[:2]
    if not {split.split_id for split in first} & {split.split_id for split in second}:
        return f"{came}: two splits give the same row, as a snapshot and a log do without a filter in between"
    if [split for split in first if split in second]:
        return (
            f"{came}: a split that was read came back. Its position is not in what snapshot_state returns, "
            "or it was found twice, or an event was handled twice"
        )
    return (
        f"{came}: the ranges overlap. The second one has to begin where the first one ended: the rest of "
        "bound_split, the split in a Progress, or a position in what snapshot_state returns"
    )


def _of_missing(found: MicroBatchEngine, steady: MicroBatchEngine, row: Row) -> str:
    for _, splits in _origins(steady, row):
        ids = {split.split_id for split in splits}
        given = f"{shown(row)} is in {_named(splits)}"
        plans = [(batch_id, split) for batch_id, split in _planned(found) if split.split_id in ids]
        if plans:
            here = "; ".join(f"{_named([split])} in batch {batch_id}" for batch_id, split in plans[-3:])
            return f"{given}. This run has read {here}"
        if found.restarts:
            return (
                f"{given}, which was in no batch of this run: it was found, and a restart has lost it. "
                "snapshot_state returns all that was found and not assigned yet, and __init__ takes all of it"
            )
        last = "; ".join(_named([split]) for _, split in list(_planned(found))[-SHOWN:])
        return f"{given}, if it is there at the start. No split of this run gave it; the last were {last}"
    return ""


def _origins(engine: MicroBatchEngine, row: Row) -> Iterator[tuple[int, list[Any]]]:
    """The batches that delivered a row, with the splits of the task that gave it."""
    wanted = repr(row)
    for batch in engine.batches:
        tasks = engine.tasks.get(batch.batch_id, [])
        for attempt in batch.attempts:
            times = sum(repr(given) == wanted for given in attempt.rows) if attempt.accepted else 0
            if times and attempt.task < len(tasks):
                yield from [(batch.batch_id, engine.splits_of(tasks[attempt.task]))] * times


def _planned(engine: MicroBatchEngine) -> Iterator[tuple[int, Any]]:
    for batch_id, tasks in sorted(engine.tasks.items()):
        for split in engine.splits_of_all(tasks):
            yield batch_id, split


def _named(splits: Sequence[Any]) -> str:
    more = f" or {len(splits) - SHOWN} more" if len(splits) > SHOWN else ""
    return " or ".join(f"split {split.split_id!r:.60} ({shown(split)})" for split in splits[:SHOWN]) + more


def _listed(batch_ids: Sequence[int]) -> str:
    known = list(dict.fromkeys(batch_ids))
    few = ", ".join(map(str, known[:8]))
    return few if len(known) <= 8 else f"{few}, ..."
