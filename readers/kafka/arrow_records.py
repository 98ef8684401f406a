"""Kafka's records as Arrow columns, made of blocks of messages, column by column. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from flip27_source.enumerators.kafka.client import Message
from flip27_source.errors import SplitReadError
from flip27_source.readers.scalars.text_bytes import array_of, bounds_of

VALUE = "value"
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

RECORD_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field(VALUE, pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
"""The columns of Spark's Kafka source."""

_MOST_BYTES = (1 << 31) - 1
"""The most bytes of values in one array."""

_MOST_MILLISECONDS = ((1 << 63) - 1) // 1000
"""The largest time that a timestamp in microseconds can hold."""


def record_schema(*, include_headers: bool) -> pa.Schema:
    """The columns, in Spark's order."""
    return RECORD_SCHEMA.append(pa.field("headers", HEADERS)) if include_headers else RECORD_SCHEMA


@dataclass(frozen=True, slots=True)
class Run:
    """Messages of one partition, in the order of their offsets.

    Attributes:
        range_id: the id that the range of these messages has if it is quarantined.
    """

    topic: str
    partition: int
    messages: Sequence[Message]
    size: int
    range_id: str


def columns(names: Iterable[str], runs: Sequence[Run]) -> list[pa.Array]:
    """The columns of these names, with the messages of all runs in order."""
    messages = runs[0].messages if len(runs) == 1 else [item for run in runs for item in run.messages]
    arrays = []
    times: np.ndarray | None = None
    for name in names:
        if name == "topic":
            arrays.append(_topics(runs))
        elif name == "partition":
            arrays.append(_partitions(runs))
        elif name in _OF_TIMES:
            if times is None:
                times = _times(messages)
            arrays.append(_OF_TIMES[name](times))
        else:
            arrays.append(_COLUMNS[name](messages))
    return arrays


def _topics(runs: Sequence[Run]) -> pa.Array:
    names = [run.topic.encode() for run in runs]
    counts = [len(run.messages) for run in runs]
    lengths = np.repeat(np.fromiter(map(len, names), np.int64, len(names)), counts)
    data = b"".join(name * count for name, count in zip(names, counts, strict=True))
    return array_of(pa.string(), data, bounds_of(lengths))


def _partitions(runs: Sequence[Run]) -> pa.Array:
    partitions = np.fromiter((run.partition for run in runs), np.int32, len(runs))
    return _numbers(np.repeat(partitions, [len(run.messages) for run in runs]), pa.int32())


# pa.array and pa.scalar import pandas if it is installed, which takes a third of a second in each Python
# worker. So the columns that every record has are built from buffers.
def _numbers(values: np.ndarray, kind: pa.DataType, validity: pa.Buffer | None = None) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(np.ascontiguousarray(values))])


def _bytes(values: list[bytes | None]) -> pa.Array:
    """A binary column; None becomes null."""
    given = [value for value in values if value is not None]
    data = b"".join(given)
    if len(data) > _MOST_BYTES:
        return pa.array(values, pa.binary())
    validity = None
    if len(given) == len(values):
        lengths = np.fromiter(map(len, given), np.int64, len(given))
    else:
        lengths = np.fromiter((0 if value is None else len(value) for value in values), np.int64, len(values))
        is_given = np.fromiter((value is not None for value in values), np.bool_, len(values))
        validity = pa.py_buffer(np.packbits(is_given, bitorder="little"))
    return array_of(pa.binary(), data, bounds_of(lengths), validity)


# Map the method of the class over the messages: a loop in Python would cost as much again as the calls.
def _called(name: str, messages: Sequence[Any]) -> Iterator[Any]:
    return map(getattr(type(messages[0]), name), messages)


def _offsets(messages: Sequence[Message]) -> pa.Array:
    return _numbers(np.fromiter(_called("offset", messages), np.int64, len(messages)), pa.int64())


def _times(messages: Sequence[Message]) -> np.ndarray:
    """The type and the milliseconds of each timestamp.

    The tuples are not kept, because a million of them would slow down Python's garbage collector.
    """
    numbers = chain.from_iterable(_called("timestamp", messages))
    return np.fromiter(numbers, np.int64, 2 * len(messages)).reshape(-1, 2)


def _timestamps(times: np.ndarray) -> pa.Array:
    milliseconds = times[:, 1]
    fits = (milliseconds >= -_MOST_MILLISECONDS) & (milliseconds <= _MOST_MILLISECONDS)
    validity = None if fits.all() else pa.py_buffer(np.packbits(fits, bitorder="little"))
    # The product of a null wraps around, and is not read.
    return _numbers(milliseconds * 1000, pa.timestamp("us", tz="UTC"), validity)


def headers_of(messages: Sequence[Any]) -> list[list[tuple[str, bytes | None]] | None]:
    """The headers of each message.

    Raises:
        SplitReadError: a name is not UTF-8; confluent-kafka does not give such a name.
    """
    lists: list[list[tuple[str, bytes | None]] | None] = []
    try:
        # A direct call would return a damaged list; after an error in extend, the length tells where it is.
        lists.extend(_called("headers", messages))
    except SystemError:
        message = messages[len(lists)]
        raise SplitReadError(
            f"the record {message.topic()}/{message.partition()} at offset {message.offset()} has a header "
            "whose name is not UTF-8",
            remedy="leave the column headers out (includeHeaders=false), or leave the records for later "
            "(onSplitError=quarantine)",
        ) from None
    return lists


def bytes_of(messages: Sequence[Message], *, with_headers: bool) -> int:
    """The size of the values, keys and headers."""
    size = sum(map(len, messages)) + sum(map(len, filter(None, _called("key", messages))))
    if with_headers:
        for headers in filter(None, headers_of(messages)):
            size += sum(len(name) + len(value or b"") for name, value in headers)
    return size


def _headers(messages: Sequence[Message]) -> pa.Array:
    lists = headers_of(messages)
    if not any(lists):
        return pa.nulls(len(messages), HEADERS)
    return pa.array([headers or None for headers in lists], HEADERS)


_COLUMNS: Mapping[str, Callable[[Sequence[Any]], pa.Array]] = {
    "key": lambda messages: _bytes(list(_called("key", messages))),
    VALUE: lambda messages: _bytes(list(_called("value", messages))),
    "offset": _offsets,
    "headers": _headers,
}
_OF_TIMES: Mapping[str, Callable[[np.ndarray], pa.Array]] = {
    "timestamp": _timestamps,
    # librdkafka uses 0 for none, 1 for CreateTime and 2 for LogAppendTime; Spark uses -1, 0 and 1.
    "timestampType": lambda times: _numbers((times[:, 0] - 1).astype(np.int32), pa.int32()),
}
