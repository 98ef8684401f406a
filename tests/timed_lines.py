"""A reader of lines with times, which tells the times of a file by its name; both may disagree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.event_time import EventTimeRange
from flip27_source.options import Options
from flip27_source.reader import KnowsEventTimes, ReadsEventTimeBuckets
from flip27_source.readers.files.input import open_file, reading
from flip27_source.readers.files.reader import FileReader

HOUR_US = 3_600_000_000
TIMED = pa.schema([("value", pa.string()), ("at", pa.timestamp("us", "UTC"))])
OPTIONS = {"reader": "tests.timed_lines:TimedLines", "eventTimeOrder": "true", "eventTimeColumn": "at"}


class TimedLines(KnowsEventTimes, ReadsEventTimeBuckets, FileReader):
    """A line is a row, a space and the number of an hour since 1970, which may be missing.

    The name of a file begins with its first and last hour: ``5-9_name``.
    """

    @classmethod
    def event_times(cls, split: FileSplit, column: str, options: Options) -> EventTimeRange | None:
        found = re.match("([0-9]+)-([0-9]+)_", split.path.rpartition("/")[2])
        return found and EventTimeRange(int(found[1]) * HOUR_US, (int(found[2]) + 1) * HOUR_US - 1)

    def prepare(self) -> None:
        """There is nothing to prepare."""

    def rows_of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        options: Any = self.context.options
        for split in splits:
            with reading(split.path, options), open_file(split, options) as file:
                lines = [line.rpartition(" ") for line in file.read().decode().splitlines()]
            hours = pa.array([int(hour) * HOUR_US if hour else None for _, _, hour in lines], pa.int64())
            columns = [
                pa.array([row for row, _, _ in lines], pa.string()),
                hours.cast(TIMED.field("at").type),
            ]
            batch = pa.RecordBatch.from_arrays(columns, schema=TIMED)
            yield split.bucket.rows_of(batch, split.path) if split.bucket else batch


def line_of(row: str, hour: int | None) -> str:
    """The line of a row."""
    return f"{row} {'' if hour is None else hour}\n"
