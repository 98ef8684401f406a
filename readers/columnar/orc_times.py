"""The smallest and largest time in a column of an ORC file, by the statistics in its footer.

Arrow reads the footer, and does not tell the statistics: they are parsed from its protobuf message. Field
numbers are those of ``orc_proto.proto``.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator, Mapping

from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.event_time import EventTimeRange, local_range
from flip27_source.readers.columnar.column_times import (
    dates_have_no_buckets,
    no_statistics,
    place_of_column,
    range_of_days,
)
from flip27_source.readers.columnar.varints import signed, varint

_FOOTER = 2
_TYPES, _STATISTICS = 4, 7
_KIND, _CHILDREN, _NAMES, _ATTRIBUTES = 1, 2, 3, 7
_LONG, _TIMESTAMP, _DATE, _INSTANT = 4, 9, 15, 18
_COUNT, _OF_INTEGERS, _OF_DATES, _OF_TIMESTAMPS = 1, 2, 7, 9
_MINIMUM, _MINIMUM_IN_UTC = 1, 3
_DAY_MS = 86_400_000

_Message = Mapping[int, list["int | bytes"]]


def times_in_tail(
    path: str, tail: bytes, column: str, zone: dt.tzinfo | None, *, by_instants: bool = False
) -> EventTimeRange | None:
    """The times in a column; None if no row has one.

    Args:
        tail: the end of the file as a message (``FileTail``), which Arrow has decompressed.
        zone: of timestamps, which ORC stores as clock times, and of dates; None: not set.
        by_instants: dates are refused, because the files are cut by single instants.

    Raises:
        DiscoveryError: there is no such column of times, or the file has no statistics of it.
        OptionError: the zone is needed.
    """
    footer = _parsed(_bytes(_parsed(tail), _FOOTER))
    types = [_parsed(one) for one in footer.get(_TYPES, ()) if isinstance(one, bytes)]
    names = [name.decode(errors="replace") for name in types[0].get(_NAMES, ()) if isinstance(name, bytes)]
    number = list(_varints(_bytes(types[0], _CHILDREN)))[place_of_column(path, names, column)]
    kind = next((one for one in types[number].get(_KIND, ()) if isinstance(one, int)), 0)
    is_local_time = kind == _LONG and any(
        b"timestamp_ntz" in one for one in types[number].get(_ATTRIBUTES, ()) if isinstance(one, bytes)
    )
    if kind not in (_TIMESTAMP, _DATE, _INSTANT) and not is_local_time:
        raise DiscoveryError(
            f"{path}: column {column} (option eventTimeColumn) has no times: it has the ORC type {kind}",
            remedy="set eventTimeColumn to a column of timestamps or dates, or eventTimePattern if the paths "
            "have dates",
        )
    if kind == _DATE and by_instants:
        raise dates_have_no_buckets(path, column)
    if kind == _TIMESTAMP and zone is None:
        raise OptionError(
            f"{path}: column {column} (option eventTimeColumn) has clock times without a zone, as ORC stores "
            "timestamps, and Spark does not tell a source in Python the zone of the session",
            remedy="set timeZone to the zone of the session, such as UTC",
        )
    known = [one for one in footer.get(_STATISTICS, ()) if isinstance(one, bytes)]
    statistics = _parsed(known[number]) if number < len(known) else {}
    if statistics.get(_COUNT) == [0]:
        return None
    place = _OF_INTEGERS if is_local_time else _OF_DATES if kind == _DATE else _OF_TIMESTAMPS
    bounds = _parsed(_bytes(statistics, place))
    first = _MINIMUM_IN_UTC if place == _OF_TIMESTAMPS else _MINIMUM
    found = [one for field in (first, first + 1) for one in bounds.get(field, ()) if isinstance(one, int)]
    if len(found) != 2:
        raise no_statistics(path, column)
    earliest, latest = map(signed, found)
    if is_local_time:
        return EventTimeRange(earliest, latest)
    if kind == _DATE:
        return range_of_days(earliest, latest, zone or dt.UTC)
    earliest_us, latest_us = (
        (earliest - _slack_ms(earliest)) * 1000,
        (latest + _slack_ms(latest)) * 1000 + 999,
    )
    if kind == _INSTANT or zone is None:
        return EventTimeRange(earliest_us, latest_us)
    return local_range(earliest_us, latest_us, zone)


def _slack_ms(time_ms: int) -> int:
    """How wrong a bound can be: before 1970 in some zone, writers round fractions in different directions."""
    return 1001 if time_ms < _DAY_MS else 0


def _parsed(message: bytes) -> _Message:
    """The fields of a protobuf message: its numbers as they are stored, and its texts and messages."""
    fields: dict[int, list[int | bytes]] = {}
    stream = io.BytesIO(message)
    while stream.tell() < len(message):
        key = varint(stream)
        wire, number = key & 7, varint(stream) if key & 7 in (0, 2) else 0
        value = stream.read(number if wire == 2 else {1: 8, 5: 4}.get(wire, 0)) if wire else number
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _bytes(message: _Message, field: int) -> bytes:
    """The last value of a field that is a message or a packed list; empty if it is not set."""
    return next((one for one in reversed(message.get(field, ())) if isinstance(one, bytes)), b"")


def _varints(packed: bytes) -> Iterator[int]:
    stream = io.BytesIO(packed)
    while stream.tell() < len(packed):
        yield varint(stream)
