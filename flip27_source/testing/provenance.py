"""Provenance: which splits gave a row, in which batches; the part of a finding that names the mistake.

Only for messages: if a task has read several splits, each is read again to find out which one gave a row, and
all of them are named if that does not tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from ..values.differences import shown
from .engine import MicroBatchEngine
from .reader_run import ReaderRun
from .spark_side import Row

SHOWN = 2
"""Maximum number of rows whose origin is told, and of splits that are named for each."""
_BOTH = "two splits give the same row: they overlap, or are a snapshot and a log without a filter"


def told(found: MicroBatchEngine, steady: MicroBatchEngine, missing: list[Row], excess: list[Row]) -> str:
    """Where rows come from that a run lacks or has twice, compared with a run that was not disturbed."""
    texts = [_of_excess(found, row) for row in excess[:SHOWN]]
    texts += [_of_missing(found, steady, row) for row in missing[:SHOWN] if not excess]
    if found.restarts and any(texts):
        texts.append(f"the driver was restarted before batch {_listed(found.restarts)}")
    return "".join(f"\n  {text}" for text in texts if text)


def came(engine: MicroBatchEngine, row: Row) -> str:
    """Each split and batch with which a row came; empty if that is not known."""
    return _came(row, list(_origins(engine, row)))


def _came(row: Row, origins: Sequence[tuple[int, list[Any]]]) -> str:
    named = " and again with ".join(f"{_named(splits)} in batch {batch_id}" for batch_id, splits in origins)
    return f"{shown(row)} came with {named}" if named else ""


def _of_excess(found: MicroBatchEngine, row: Row) -> str:
    origins = list(_origins(found, row))
    text = _came(row, origins)
    if len(origins) < 2:
        return text
    (_, first), (_, second) = origins[:2]
    if _are_different(first, second):
        return f"{text}: {_BOTH}"
    if [split for split in first if split in second]:
        return (
            f"{text}: a split that was read came back. Its position is not in what snapshot_state returns, "
            "or it was found twice, or an event was handled twice"
        )
    return (
        f"{text}: the ranges overlap. The second one has to begin where the first one ended: the rest of "
        "bound_split, the split in a Progress, or a position in what snapshot_state returns"
    )


def _of_missing(found: MicroBatchEngine, steady: MicroBatchEngine, row: Row) -> str:
    origins = [splits for _, splits in _origins(steady, row)]
    if not origins:
        return ""
    text = _place_of_missing(found, origins[0], row)
    if len(origins) > 1 and _are_different(origins[0], origins[1]):
        text += f". It is also in {_named(origins[1])}: {_BOTH}"
    return text


def _place_of_missing(found: MicroBatchEngine, splits: Sequence[Any], row: Row) -> str:
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


def _origins(engine: MicroBatchEngine, row: Row) -> Iterator[tuple[int, list[Any]]]:
    """The batches that delivered a row, with the split that gave it, or all splits of its task."""
    wanted = repr(row)
    for batch in engine.batches:
        tasks = engine.tasks.get(batch.batch_id, [])
        for attempt in batch.attempts:
            times = sum(repr(given) == wanted for given in attempt.rows) if attempt.accepted else 0
            if times and attempt.task < len(tasks):
                splits = engine.splits_of(tasks[attempt.task])
                givers = _givers(engine, splits, wanted)
                for given in givers if len(givers) == times else [splits] * times:
                    yield batch.batch_id, given


def _givers(engine: MicroBatchEngine, splits: Sequence[Any], wanted: str) -> list[list[Any]]:
    """For each time that these splits give a row, the one that does; empty if that is not known."""
    source = engine.source
    with suppress(Exception), ReaderRun(source.reader_type, source.options, engine.schema) as run:
        return [[split] for split in splits for row in run.read(split).rows if repr(row) == wanted]
    return []


def _are_different(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return not {split.split_id for split in first} & {split.split_id for split in second}


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
