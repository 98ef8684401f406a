"""A source of logs whose records are event times: live splits that follow event time, on any driver.

The records of a log are the lines of a file, so that a test may append to it from another process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source import (
    BoundedRange,
    Budget,
    FollowsEventTime,
    Option,
    Options,
    SplitEnumerator,
    SplitReader,
)
from flip27_source.driver.environment import Environment
from flip27_source.options import text
from flip27_source.testing.engine import MicroBatchEngine

LOGS: Option[str] = Option(name="logs", parse=text, default="", doc="The folder of the logs.")
SCHEMA = pa.schema([("log", pa.string()), ("time_us", pa.int64())])


@dataclass(frozen=True)
class Log:
    """A log from a place on; ``end`` is the end of a range."""

    path: str
    place: int = 0
    end: int | None = None

    @property
    def split_id(self) -> str:
        return Path(self.path).stem


def records(path: str) -> list[int]:
    return [int(line) for line in Path(path).read_text().split()]


class LogEnumerator(SplitEnumerator[Log], FollowsEventTime[Log]):
    """Finds the logs of a folder at its first start. Their files stand for what a poller has found."""

    options: ClassVar[tuple[Option[Any], ...]] = (LOGS,)

    def __init__(self, context: Any, options: Options, state: bool | None = None) -> None:
        super().__init__(context, options, state)
        self.is_assigned = bool(state)

    def start(self) -> None:
        pass

    def handle_split_request(self, subtask_id: int) -> None:
        if not self.is_assigned:
            self.is_assigned = True
            for path in sorted(Path(self.options_given[LOGS]).glob("*.log")):
                self.context.assign_split(Log(str(path)))

    def add_splits_back(self, splits: Sequence[Log], subtask_id: int) -> None:
        raise AssertionError("no split is returned")

    def snapshot_state(self, checkpoint_id: int) -> bool:
        return self.is_assigned

    def bound_split(self, split: Log, budget: Budget) -> BoundedRange[Log] | None:
        waiting = records(split.path)[split.place :]
        taken = waiting if budget.rows is None else waiting[: max(1, budget.rows)]
        latest_us = budget.latest_us
        while latest_us is not None and taken and taken[-1] > latest_us:
            taken.pop()
        if not taken:
            return None
        end = split.place + len(taken)
        return BoundedRange(read=replace(split, end=end), rest=replace(split, place=end))

    def event_time_at(self, split: Log) -> int | None:
        known = records(split.path)
        return known[min(split.place, len(known) - 1)] if known else None


class LogReader(SplitReader[Log]):
    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return SCHEMA

    def read(self, split: Log) -> Iterator[tuple[str, int]]:
        for time_us in records(split.path)[split.place : split.end]:
            yield split.split_id, time_us


def write_logs(folder: Path, logs: Mapping[str, Sequence[int]]) -> str:
    """Append records, in order of time, to logs in a folder; returns its path."""
    folder.mkdir(exist_ok=True)
    for name, times_us in logs.items():
        with (folder / f"{name}.log").open("a") as file:
            file.writelines(f"{time_us}\n" for time_us in times_us)
    return str(folder)


class LogQuery(MicroBatchEngine):
    """A query on the logs of a folder.

    Args:
        application: the folder of its Spark application; None: it is alone.
        now_ms: the driver's clock at the start.
    """

    def __init__(
        self,
        folder: str,
        options: Mapping[str, str] | None = None,
        *,
        application: Path | None = None,
        now_ms: int = 0,
        **more: Any,
    ) -> None:
        self.application = application
        given = {"logs": folder, **(options or {})}
        super().__init__(given, enumerator=LogEnumerator, reader=LogReader, schema=SCHEMA, **more)
        self.now_ms = now_ms

    def environment(self) -> Environment:
        folder = None if self.application is None else str(self.application)
        return dataclasses.replace(super().environment(), application_folder=lambda: folder)

    def next_us(self) -> list[int]:
        """The times in the next batch, in order; none if there is no batch."""
        batch = self.run_batch()
        return [] if batch is None else sorted(row[1] for row in batch.rows)

    def at(self, now_ms: int) -> list[int]:
        """As :meth:`next_us`, at a time of the driver's clock."""
        self.now_ms = now_ms
        return self.next_us()

    def numbers(self) -> dict[str, Any]:
        """What a progress event shows."""
        return self.holder.report() or {}
