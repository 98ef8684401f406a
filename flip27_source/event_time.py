"""EventTimeRange: the event times in a split, the order of splits by them, and buckets of rows. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from .errors import OptionError
from .schemas.column_names import place_of_name

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NEVER_US = 2**63
MOST_BUCKETS = 1000
"""Of one file: each is a split in the state, and reads the file again."""


class EventTimeRange(msgspec.Struct, frozen=True, array_like=True):
    """The event times of the rows in a split.

    A split has one as the attribute or property ``event_time``, which is None if no row has a time. It may be
    wider than the rows, never narrower.

    Attributes:
        earliest_us, latest_us: the smallest and largest time, in microseconds since the epoch (UTC).
    """

    earliest_us: int
    latest_us: int

    @property
    def earliest(self) -> dt.datetime:
        """The smallest time, in UTC."""
        return moment_of(self.earliest_us)

    @property
    def latest(self) -> dt.datetime:
        """The largest time, in UTC."""
        return moment_of(self.latest_us)

    @property
    def middle_2us(self) -> int:
        """The middle, times two: by the middles splits are put in order."""
        return self.earliest_us + self.latest_us


def microseconds_of(moment: dt.datetime) -> int:
    """A time in microseconds since the epoch; one without a zone is in UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) - _EPOCH.replace(tzinfo=dt.UTC)) // (
        _MICROSECOND
    )


def moment_of(microseconds: int) -> dt.datetime:
    """A time; one beyond the years 1 to 9999 is the nearest of these."""
    try:
        return _EPOCH.replace(tzinfo=dt.UTC) + microseconds * _MICROSECOND
    except OverflowError:
        return (dt.datetime.min if microseconds < 0 else dt.datetime.max).replace(tzinfo=dt.UTC)


class EventTimeBucket(msgspec.Struct, frozen=True, array_like=True):
    """Rows of a file: those whose time in a column is in ``[start_us, end_us)``.

    The buckets of a file join one another, and the first and the last one are open: each row is in exactly
    one of them, whatever is known of the file.

    Attributes:
        column: the column of the times; a file that lacks it has no times.
        start_us: in microseconds since the epoch (UTC); None: all earlier times, and rows without a time.
        end_us: the end; None: all later times.
        zone: the zone in which stored clock times count that Spark takes for local ones.
    """

    column: str
    start_us: int | None
    end_us: int | None
    zone: str | None = None

    def has(self, time_us: int | None) -> bool:
        """Whether a row with this time is in the bucket."""
        if time_us is None:
            return self.start_us is None
        after_start = self.start_us is None or time_us >= self.start_us
        return after_start and (self.end_us is None or time_us < self.end_us)

    def cut(self, times: EventTimeRange) -> EventTimeRange | None:
        """Those of the times that are in the bucket; None if none is."""
        earliest_us = times.earliest_us if self.start_us is None else max(times.earliest_us, self.start_us)
        latest_us = times.latest_us if self.end_us is None else min(times.latest_us, self.end_us - 1)
        return EventTimeRange(earliest_us, latest_us) if earliest_us <= latest_us else None

    def of_part(self, times: EventTimeRange) -> EventTimeBucket | None:
        """What the bucket has of a part of the file whose times are said to be these; None: nothing.

        The first and the last bucket with some of the times have all rows before and after them, too.
        """
        if times.earliest_us > times.latest_us:
            return self
        if self.cut(times) is None:
            return None
        start_us = None if self.has(times.earliest_us) else self.start_us
        end_us = None if self.has(times.latest_us) else self.end_us
        return msgspec.structs.replace(self, start_us=start_us, end_us=end_us)

    def name_among(self, names: Sequence[str]) -> str | None:
        """The name of the column in a file, without regard to case if that is clear; None: it has none."""
        place = place_of_name(self.column, names)
        return None if place is None else names[place]

    def rows_of(
        self,
        batch: pa.RecordBatch,
        path: str,
        *,
        converted: Callable[[pa.Array], pa.Array] = lambda column: column,
    ) -> pa.RecordBatch:
        """Those of the rows that are in the bucket.

        Args:
            path: of the file, for an error. converted: makes stored times timestamps that can be compared.

        Raises:
            OptionError: the column has no timestamps.
        """
        if self.start_us is None and self.end_us is None:
            return batch
        name = self.name_among(batch.schema.names)
        if name is None:
            return batch if self.start_us is None else batch.slice(0, 0)
        return batch.filter(self._mask(converted(batch.column(name)), path))

    def _mask(self, column: pa.Array, path: str) -> pa.Array:
        import pyarrow as pa  # imported here because the import is slow
        import pyarrow.compute as pc

        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if not pa.types.is_timestamp(column.type):
            raise OptionError(
                f"{path}: column {self.column} is stored as {column.type}, and eventTimeBucket needs "
                "timestamps",
                remedy="set eventTimeColumn to a column of timestamps; files that wait keep the column that "
                "they were cut by: forget them with flip27 edit",
            )
        per_second, numbers = _PER_SECOND[column.type.unit], column.cast(pa.int64())

        def bound(time_us: int) -> pa.Scalar:
            return pa.scalar(max(-_NEVER_US, min(_NEVER_US - 1, -(-time_us * per_second // 1_000_000))))

        masks = []
        if self.start_us is not None:
            masks.append(pc.greater_equal(numbers, bound(self.start_us)))
        if self.end_us is not None:
            masks.append(pc.less(numbers, bound(self.end_us)))
        mask = masks[0] if len(masks) == 1 else pc.and_(*masks)
        return pc.fill_null(mask, self.start_us is None)


def bucket_width_us(times: EventTimeRange, width_us: int) -> int:
    """The width of the buckets of a file: doubled until it has at most ``MOST_BUCKETS``."""
    while times.latest_us // width_us - times.earliest_us // width_us >= MOST_BUCKETS:
        width_us *= 2
    return width_us


def bucket_ranges(
    times: EventTimeRange, width_us: int, column: str, zone: str | None = None
) -> list[tuple[EventTimeBucket, EventTimeRange]]:
    """The buckets of a file with these times, in order, each with its times; none if it has only one.

    They are aligned to the epoch.
    """
    width_us = bucket_width_us(times, width_us)
    first, last = times.earliest_us // width_us, times.latest_us // width_us
    if first >= last:
        return []
    numbers = range(first, last + 1)
    starts = [None, *(number * width_us for number in numbers[1:])]
    buckets = [
        EventTimeBucket(column, start_us, end_us, zone)
        for start_us, end_us in zip(starts, [*starts[1:], None], strict=True)
    ]
    return [(bucket, bucket.cut(times) or times) for bucket in buckets]


def local_range(earliest_us: int, latest_us: int, zone: dt.tzinfo) -> EventTimeRange:
    """The times between two local ones, in microseconds; where clocks change, it is as wide as they allow."""
    return EventTimeRange(min(_in_utc(earliest_us, zone)), max(_in_utc(latest_us, zone)))


def _in_utc(local_us: int, zone: dt.tzinfo) -> Iterator[int]:
    """A local time in UTC: with the offset before and after a change of the clocks."""
    for fold in (0, 1):
        try:
            local = (_EPOCH + dt.timedelta(microseconds=local_us)).replace(tzinfo=zone, fold=fold)
            offset = local.utcoffset() or dt.timedelta()
        except OverflowError:  # before year 1 or after year 9999
            offset = dt.timedelta()
        yield local_us - offset // _MICROSECOND


def event_time_of(split: Any) -> EventTimeRange | None:
    """The event times of a split; None if it has none, or if they are not known."""
    times = getattr(split, "event_time", None)
    return times if isinstance(times, EventTimeRange) else None


def place_of(split: Any) -> float:
    """Where a split is in event-time order; one without times is first, because its place does not matter.

    Two splits lose least in the order of their middles: between them, the watermark has to be delayed by the
    latest time of the first less the earliest of the second, and that is smaller than the other way round
    exactly if the middle of the first is the smaller one.
    """
    times = event_time_of(split)
    return float("-inf") if times is None else times.middle_2us


def begins_at(split: Any) -> float:
    """The smallest event time of a split; one without times is read before all others."""
    times = event_time_of(split)
    return float("-inf") if times is None else times.earliest_us
