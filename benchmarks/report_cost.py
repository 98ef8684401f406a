"""The time that reports add to a batch, measured on the same batches with and without them, without Spark.

All work for reports is done sequentially: eight subtasks look for a report and write one, and then the
coordinator reads all eight. On a cluster the subtasks run in parallel.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flip27_source import DiscoveringEnumerator, Discovery, SplitReader, SplitSize
from flip27_source.coordination.batch_limits import UNLIMITED
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.executor.subtask import read_subtask
from flip27_source.reader import SourceReaderContext
from flip27_source.snapshots.offsets import INITIAL_OFFSET
from flip27_source.source import Source

SUBTASKS = 8
_SCHEMA = pa.schema([("id", pa.string())])
_LARGE = SplitSize(bytes=8 * 1024 * 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A split so large that planning gives it a whole subtask."""

    split_id: str

    @property
    def size(self) -> SplitSize:
        return _LARGE


class Parts(DiscoveringEnumerator[Part]):
    """Finds the parts of all batches at once, eight for each."""

    batches = 0

    def discover(self, position: int | None) -> Discovery[Part, int]:
        end = self.batches * SUBTASKS
        return Discovery([Part(split_id=str(number)) for number in range(position or 0, end)], end)


class Ids(SplitReader[Part]):
    """One row for each split."""

    def read(self, split: Part) -> Iterator[tuple[str]]:
        yield (split.split_id,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCost:
    """The milliseconds of each batch of eight subtasks."""

    with_reports_ms: list[float]
    without_ms: list[float]

    @property
    def added_ms(self) -> list[float]:
        """The milliseconds that reports added to each batch."""
        return [a - b for a, b in zip(self.with_reports_ms, self.without_ms, strict=True)]


def measure(location: str, options: Mapping[str, str], batches: int) -> ReportCost:
    """Run batches with and without reports in turn, so that other load affects both alike."""
    taken: dict[str, list[float]] = {"always": [], "auto": []}
    with contextlib.ExitStack() as stack:
        runs = {
            choice: stack.enter_context(
                _run(f"{location}/{choice}", {**options, "taskReports": choice}, batches + 1)
            )
            for choice in taken
        }
        for number in range(batches + 1):
            for choice, run in runs.items():
                took = next(run)
                if number:  # the first batch creates folders and opens connections
                    taken[choice].append(took)
    return ReportCost(with_reports_ms=taken["always"], without_ms=taken["auto"])


@contextlib.contextmanager
def _run(location: str, options: Mapping[str, str], batches: int) -> Iterator[Iterator[float]]:
    """Open a coordinator and yield an iterator that runs one batch per step and gives its milliseconds."""
    enumerator = type("Parts", (Parts,), {"batches": batches})
    raw = {
        **options,
        "stateLocation": location,
        "parallelism": str(SUBTASKS),
        "maxFilesPerTrigger": str(SUBTASKS),
    }
    source = Source.resolve(raw, enumerator=enumerator, reader=Ids)
    holder = CoordinatorHolder(source, Boundedness.BOUNDED)
    try:
        yield _batches(source, holder)
    finally:
        holder.close()


def _batches(source: Source, holder: CoordinatorHolder) -> Iterator[float]:
    start: dict[str, Any] = INITIAL_OFFSET.to_json()
    while True:
        began = time.perf_counter()
        end = holder.latest_offset(start, UNLIMITED)
        holder.commit(start)
        rows = 0
        for task in holder.plan(start, end):
            context = SourceReaderContext(
                options=source.options,
                schema=_SCHEMA,
                subtask_id=task.subtask_id,
                checkpoint_id=task.checkpoint_id,
            )
            rows += sum(1 for _ in read_subtask(source, task, context))
        if rows != SUBTASKS:
            raise RuntimeError(f"a batch of {SUBTASKS} rows gave {rows}")
        start = end
        yield (time.perf_counter() - began) * 1000
