"""An archive that is read until a log has all records (``readUntil=next``), in some of the simulated chains.

The archive has all records before an hour, perhaps in buckets; the log has those that retention has left of
each of its partitions, of which some have their first record late.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source import DiscoveringEnumerator, Discovery, EventTimeRange, Option, Options, SplitReader
from flip27_source.event_time import moment_of
from flip27_source.options import integer
from tests.timed_lines import HOUR_US, OPTIONS, TIMED, line_of

_FIRST_DAY = dt.date(2014, 1, 1)
_FIRST_HOUR = (_FIRST_DAY - dt.date(1970, 1, 1)).days * 24
_HOURS = 60
_MONTH = "/%Y-%m-"
_PATTERNS = (None, "/%Y-%m-%d_", "/%Y-%m-%d_", _MONTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The records of a partition in one hour."""

    split_id: str
    hour: int
    names: tuple[str, ...]

    @property
    def event_time(self) -> EventTimeRange:
        return EventTimeRange(self.hour * HOUR_US, self.hour * HOUR_US)


class LogOfHours(DiscoveringEnumerator[Records]):
    """Finds all that is left in its partitions from a time on."""

    logs: ClassVar[dict[str, Mapping[int, Sequence[Records]]]] = {}
    options: ClassVar[tuple[Option[Any], ...]] = (
        Option(name="log", parse=str, default_text="", doc="Which log."),
        Option(name="since", parse=integer(minimum=0), default=0, doc="In milliseconds since 1970."),
    )

    def discover(self, position: bool | None) -> Discovery[Records, bool]:
        since_us = self.options_given["since"] * 1000
        partitions = () if position else self.logs[self.options_given["log"]].values()
        there = [one for records in partitions for one in records if one.hour * HOUR_US >= since_us]
        return Discovery(there, True)

    @classmethod
    def beginning(cls, options: Options) -> dt.datetime | None:
        """As Kafka's: the latest of the first records, since older ones may have been removed."""
        partitions = cls.logs[options["log"]].values()
        if not all(partitions):
            return None
        return moment_of(max(records[0].hour for records in partitions) * HOUR_US)


class RecordsReader(SplitReader[Records]):
    """Rows as archived files have them."""

    def read(self, split: Records) -> Iterator[Any]:
        hours = pa.array([split.hour * HOUR_US] * len(split.names), pa.int64())
        names = pa.array([f"log {name}" for name in split.names], pa.string())
        yield pa.RecordBatch.from_arrays([names, hours.cast(TIMED.field("at").type)], schema=TIMED)


class History:
    """The records of a chain, and the files and the log that have them.

    It draws from a generator of its own: other seeds are the same with and without it.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"history {seed}")
        self.is_used = self._random.random() < 0.4
        self._name = f"log-{seed}"
        self._names: list[str] = []

    def begin(self) -> tuple[dict[str, bytes], dict[str, Any], tuple[Any, dict[str, Any]]]:
        """The files of the archive, the options of their source, and the part of the log."""
        draw = self._random
        archived_to = draw.randint(0, _HOURS)
        archive: dict[int, list[str]] = {}
        log: dict[int, list[Records]] = {}
        for partition in range(draw.randint(1, 2)):
            log[partition] = []
            left_from = draw.randint(0, archived_to)
            for hour in sorted(draw.sample(range(draw.choice((0, 0, 20, 50)), _HOURS), draw.randint(1, 8))):
                names = tuple(f"{partition}-{hour}-{number}" for number in range(draw.randint(1, 2)))
                self._names += names
                if hour < archived_to:
                    archive.setdefault(hour, []).extend(names)
                if hour >= left_from:
                    split_id = f"{partition}-{hour}"
                    log[partition].append(Records(split_id=split_id, hour=_FIRST_HOUR + hour, names=names))
        LogOfHours.logs[self._name] = log
        pattern = draw.choice(_PATTERNS)
        files = {**OPTIONS, "discoveryRetries": 3, "readUntil": "next"}
        files |= {} if pattern is None else {"eventTimePattern": pattern}
        width = draw.choice((None, "1 day") if pattern == _MONTH else (None, "1h", "1h", "6h", "1 day"))
        files |= {} if width is None else {"eventTimeBucket": width}
        of_log = {"log": self._name, "since": "{switch}", "reader": RecordsReader, "eventTimeOrder": True}
        return self._files(archive, dated=pattern is not None), files, (LogOfHours, of_log)

    def _files(self, archive: Mapping[int, Sequence[str]], *, dated: bool) -> dict[str, bytes]:
        """Each file has some of the records of one day."""
        contents: dict[tuple[int, int], dict[int, list[str]]] = {}
        for hour, names in archive.items():
            for name in names:
                file = contents.setdefault((hour // 24, self._random.randrange(2)), {})
                file.setdefault(hour, []).append(name)
        found: dict[str, bytes] = {}
        for (day, number), hours in contents.items():
            spans = f"{_FIRST_HOUR + min(hours)}-{_FIRST_HOUR + max(hours)}"
            date = f"{_FIRST_DAY + dt.timedelta(days=day)}"
            lines = [line_of(f"file {name}", _FIRST_HOUR + hour) for hour in hours for name in hours[hour]]
            found[f"{date if dated else spans}_{number}"] = "".join(lines).encode()
        return found

    def end(self) -> None:
        LogOfHours.logs.pop(self._name, None)

    def expected(self, rows: Sequence[str]) -> Counter[str]:
        """Each record that was delivered, by a file, by the log or by both, once, and those that were not."""
        ours = {f"{source} {name}" for name in self._names for source in ("file", "log")}
        found = ours.intersection(rows)
        missing = [name for name in self._names if not {f"file {name}", f"log {name}"} & found]
        return Counter([*found, *missing])
