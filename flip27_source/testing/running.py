"""Running a source without Spark: its rows, its first batch, its first rows.

For notebooks and for the first minutes of a new source. All state is in memory; ``stateLocation`` is ignored.
No action is performed (nothing is archived, deleted or acknowledged), so nothing changes. Each call begins
where a new query would begin.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from ..enumerator import SplitEnumerator
from ..executor.split_read import Item
from ..reader import SplitReader
from ..snapshots.store import MemoryStore
from ..source_options import STATE_LOCATION
from ..split import size_of
from .engine import MicroBatchEngine
from .headway import Headway
from .under_test import GivenSource, SourceUnderTest, under_test

PLAN_SCHEMA = pa.schema(
    {
        "subtask": pa.int32(),
        "split": pa.string(),
        "files": pa.int64(),
        "rows": pa.int64(),
        "bytes": pa.int64(),
    }
)
"""The columns of ``plan``; a size is null if the split does not state it."""


def run(
    source: GivenSource = None,
    *,
    until: int | Callable[[pa.RecordBatch], bool] | None = None,
    enumerator: type[SplitEnumerator[Any]] | None = None,
    reader: type[SplitReader[Any]] | None = None,
    schema: pa.Schema | None = None,
    parallelism: int = 2,
) -> Iterator[pa.RecordBatch]:
    """Run a source from its beginning and return its rows as they are read.

    Args:
        source: options, or a SourceUnderTest.
        until: when the run ends. None: after all data that exists now, as with Trigger.AvailableNow; never
            if the source has no end. A number: after the record batch that reaches this number of rows. A
            function: after the first record batch for which it returns True. With a number or a function,
            the run also ends when nothing is new.
        enumerator, reader, schema: as in SourceUnderTest.
        parallelism: number of subtasks of a batch; they are read one after the other.

    Raises:
        Flip27Error: the source is invalid, cannot be read, or goes on for ever without anything new.
    """
    given = under_test(source, enumerator=enumerator, reader=reader, schema=schema)
    return _run(_engine(given, available_now=until is None, parallelism=parallelism), _end(until))


def plan(
    source: GivenSource = None,
    *,
    enumerator: type[SplitEnumerator[Any]] | None = None,
    reader: type[SplitReader[Any]] | None = None,
    schema: pa.Schema | None = None,
    parallelism: int = 2,
) -> pa.Table:
    """The plan of the first batch of a new query; no split is read.

    Args and errors as for ``run``.

    Returns:
        One row per split, in the order in which the subtasks read them; its schema is PLAN_SCHEMA.
    """
    given = under_test(source, enumerator=enumerator, reader=reader, schema=schema)
    engine = _engine(given, available_now=True, parallelism=parallelism)
    planned = []
    if _trigger(engine):
        for task in engine.partitions():
            for split in engine.splits_of(task):
                size = size_of(split)
                planned.append((task.subtask_id, split.split_id, size.files, size.rows, size.bytes))
    engine.stop()
    columns = zip(*planned, strict=True) if planned else [()] * len(PLAN_SCHEMA)
    return pa.table([list(column) for column in columns], schema=PLAN_SCHEMA)


def peek(
    source: GivenSource = None,
    n: int = 10,
    *,
    enumerator: type[SplitEnumerator[Any]] | None = None,
    reader: type[SplitReader[Any]] | None = None,
    schema: pa.Schema | None = None,
) -> pa.Table:
    """The first ``n`` rows of a new query, or fewer if there are no more.

    Args and errors otherwise as for ``run``.
    """
    given = under_test(source, enumerator=enumerator, reader=reader, schema=schema)
    engine = _engine(given, available_now=False, parallelism=2)
    batches = list(_run(engine, _end(n))) if n > 0 else []
    return pa.Table.from_batches(batches, schema=engine.schema).slice(0, max(n, 0))


def _engine(given: SourceUnderTest, *, available_now: bool, parallelism: int) -> MicroBatchEngine:
    """An engine that changes nothing and leaves nothing behind, even at the source's state location."""
    return MicroBatchEngine(
        given.without_option(STATE_LOCATION.name),
        store=MemoryStore(),
        available_now=available_now,
        parallelism=parallelism,
        performs_actions=False,
    )


def _run(engine: MicroBatchEngine, ends: Callable[[pa.RecordBatch], bool]) -> Iterator[pa.RecordBatch]:
    headway = Headway(engine.source)
    try:
        while _trigger(engine):
            rows = 0
            tasks = engine.partitions()
            for task in tasks:
                for batch in _batches(engine.read(task), engine.schema):
                    rows += batch.num_rows
                    yield batch
                    if ends(batch):
                        return
            engine.finish(())
            headway.made(tasks, engine.splits_of_all, has_rows=rows > 0)
    finally:
        engine.stop()


def _trigger(engine: MicroBatchEngine) -> bool:
    """Plan the next batch; False when nothing is new."""
    engine.now_ms = time.time_ns() // 1_000_000
    number = engine.logs.next_batch_id
    # Spark runs its first batch even if it is empty; this function does not.
    return engine.trigger() and engine.logs.offsets[number] != engine.logs.start_of(number)


def _batches(items: Iterator[Item], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Record batches unchanged, and single rows combined into record batches."""
    for is_batch, group in itertools.groupby(items, lambda item: isinstance(item, pa.RecordBatch)):
        if is_batch:
            yield from group
        else:
            rows: Any = group
            names = schema.names
            yield pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)


def _end(until: int | Callable[[pa.RecordBatch], bool] | None) -> Callable[[pa.RecordBatch], bool]:
    if until is None:
        return lambda _: False
    if callable(until):
        return until
    most: int = until
    seen = 0

    def reached(batch: pa.RecordBatch) -> bool:
        nonlocal seen
        seen += int(batch.num_rows)
        return seen >= most

    return reached
