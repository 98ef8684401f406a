"""Event-time order in some of the simulated queries of files, whose names then have dates or hours."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from typing import Any

from flip27_source.coordination.checkpoints import Snapshot
from flip27_source.coordination.event_time_order import needed_delay_ms
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.options import EVENT_TIME_BUCKET, EVENT_TIME_PATTERN, LATEST_FIRST
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.enumerators.files.time_pattern import TimePattern
from flip27_source.event_time import EventTimeBucket, event_time_of, place_of
from flip27_source.file_systems.file_ids import FileSplitId
from flip27_source.source_options import EVENT_TIME_ORDER, MAX_EVENT_TIME_DRIFT, WATERMARK_DELAY
from tests.timed_lines import HOUR_US, OPTIONS, line_of

from .lives import DefectFound

_OF_BUCKETS = (*OPTIONS, EVENT_TIME_BUCKET.name, WATERMARK_DELAY.name)
_NAMES = (EVENT_TIME_ORDER.name, EVENT_TIME_PATTERN.name, WATERMARK_DELAY.name)
_DRIFT = MAX_EVENT_TIME_DRIFT.name
_PATTERNS = ("/%Y-%m-%d_", "/%Y-%m-%d_", "/%Y-%m-")
FIRST_DAY = dt.date(2024, 1, 1)


class Ordering:
    """The options of event-time order, and the dates in the names of files.

    It draws from a generator of its own: seeds without this order are the same with and without it.
    """

    def __init__(self, seed: int, name: str) -> None:
        self._random = random.Random(f"order {seed} {name}")
        self._drifts = random.Random(f"drift {seed} {name}")
        self.is_used = self._random.random() < 0.3

    def dated(self, name: str) -> str:
        """The name of a file, with the date of its rows."""
        if not self.is_used:
            return name
        return f"{FIRST_DAY + dt.timedelta(days=self._random.randrange(90))}_{name}"

    def redraw(self, options: dict[str, str]) -> dict[str, str]:
        """The options with another pattern, or in another order."""
        if not self.is_used:
            return options
        others = {name: value for name, value in options.items() if name not in (*_NAMES, _DRIFT)}
        if self._random.random() < 0.25:
            return others
        others.pop(LATEST_FIRST.name, None)
        values = ("true", self._random.choice(_PATTERNS), self._random.choice(("0s", "3 days")))
        drift = {_DRIFT: "3 days"} if self._drifts.random() < 0.4 else {}
        return others | drift | dict(zip(_NAMES, values, strict=True))


class Bucketing:
    """The options of buckets of event times, and rows with hours, of which the names of files tell some.

    It draws from a generator of its own, and has no seeds in common with ``Ordering``.
    """

    def __init__(self, seed: int, name: str, ordering: Ordering) -> None:
        self._random = random.Random(f"buckets {seed} {name}")
        self.is_used = self._random.random() < 0.3 and not ordering.is_used
        self._hours: dict[str, int | None] = {}

    def redraw(self, options: dict[str, str]) -> dict[str, str]:
        """The options with buckets of another width, or without any."""
        if not self.is_used:
            return options
        kept = {name: value for name, value in options.items() if name not in _OF_BUCKETS}
        kept |= {"reader": OPTIONS["reader"]}
        if self._random.random() < 0.2:
            return kept
        kept.pop(LATEST_FIRST.name, None)
        kept |= OPTIONS | {WATERMARK_DELAY.name: self._random.choice(("0s", "3 days"))}
        width = self._random.choice((None, "1h", "1h", "2h", "1 day"))
        return kept if width is None else kept | {EVENT_TIME_BUCKET.name: width}

    def timed(self, name: str, rows: Sequence[str]) -> tuple[str, bytes]:
        """The name of a file with these rows, and its content."""
        if not self.is_used:
            return name, "".join(f"{row}\n" for row in rows).encode()
        first = self._random.randrange(60)
        last = first + self._random.choice((0, 0, 1, 3))
        for row in rows:
            # Some rows have no time, or one that the name does not tell.
            hour = self._random.choice((first, last, last, first - 1, last + 2, None))
            self._hours[row] = None if hour is None else max(0, hour)
        content = "".join(line_of(row, self._hours[row]) for row in rows).encode()
        return f"{first}-{last}_{name}", content

    def rows_of(self, split_id: FileSplitId, rows: list[str]) -> list[str]:
        """Those of the rows of a file that a split has."""
        if split_id.bucket is None:
            return rows
        bucket = EventTimeBucket("at", *split_id.bucket)
        hours = ((row, self._hours[row]) for row in rows)
        return [row for row, hour in hours if bucket.has(None if hour is None else hour * HOUR_US)]


def check_order(before: Snapshot[FileSplit], snapshot: Snapshot[FileSplit]) -> None:
    """Check the order of a batch, and the watermark delay that was computed for it.

    Args:
        before, snapshot: the state of the checkpoint before it, and its own.

    Raises:
        DefectFound: a file that waits has another event time than its name, or should have been in the batch,
            or the delay loses rows.
    """
    progress = snapshot.event_time
    if progress is None:
        return
    number, state = snapshot.metadata.checkpoint_id, snapshot.enumerator_state
    held: list[FileSplit] = list(FilesEnumerator.splits_in(state))
    _check_times(number, None if state.position is None else state.position.times_by, held)
    planned = [split for item in snapshot.plan.assignments for split in item.splits]
    latest_us = None if before.event_time is None else before.event_time.latest_us
    _check_delay(number, latest_us, planned, progress.smallest_delay_ms)
    waiting = [*held, *(item.split for item in snapshot.ledger.waiting)]
    _check_delay(number, progress.latest_us, waiting, progress.smallest_delay_ms)
    known = {split.split_id for item in before.plan.assignments for split in item.splits}
    known |= {item.split.split_id for item in before.ledger.waiting}
    known |= {item.split.split_id for item in before.ledger.quarantined}
    taken = [] if snapshot.metadata.edits else [one for one in planned if one.split_id not in known]
    if max(map(place_of, taken), default=0) > min(map(place_of, held), default=float("inf")):
        raise DefectFound(f"checkpoint {number} has read files before earlier ones: {taken} before {held}")


def check_told_delay(before: Snapshot[Any] | None, snapshot: Snapshot[Any], held: Sequence[Any]) -> None:
    """Check the delay that a chain tells by all that waits in its present part.

    Args:
        before: the checkpoint before it, if it told a delay. held: the splits that enumerators hold.

    Raises:
        DefectFound: the delay loses rows of the batch, or of what waits after it.
    """
    progress = snapshot.event_time
    if progress is None:
        return
    number, ledger = snapshot.metadata.checkpoint_id, snapshot.ledger
    earlier = None if before is None else before.event_time
    planned = [split for item in snapshot.plan.assignments for split in item.splits]
    latest_us = None if earlier is None else earlier.latest_us
    _check_delay(number, latest_us, planned, progress.smallest_delay_ms)
    waiting = [*held, *ledger.live, *(item.split for item in ledger.waiting)]
    _check_delay(number, progress.latest_us, waiting, progress.smallest_delay_ms)


def _check_times(number: int, times_by: Any, held: list[FileSplit]) -> None:
    if not isinstance(times_by, str) or times_by.startswith("column"):
        return  # they are being found again, or by a reader
    pattern = TimePattern.parse(times_by.partition(" in ")[0])
    wrong = [one for one in held if one.event_time != pattern.times_in(one.path, dt.UTC)]
    if wrong:
        raise DefectFound(f"files that wait after checkpoint {number} have event times of others: {wrong}")


def _check_delay(number: int, latest_us: int | None, splits: Sequence[Any], delay_ms: int) -> None:
    times = [one for one in map(event_time_of, splits) if one is not None]
    needed_ms = max((needed_delay_ms(latest_us, one.earliest_us) for one in times), default=0)
    if needed_ms > delay_ms:
        raise DefectFound(f"checkpoint {number} needs a delay of {needed_ms} ms, and says {delay_ms} ms")
