"""Columns of records: blocks of messages become Arrow arrays, a column at a time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from confluent_kafka import Message

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

RECORD_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
"""The columns of Spark's Kafka source."""


def record_schema(*, include_headers: bool) -> pa.Schema:
    """The columns, in Spark's order."""
    return RECORD_SCHEMA.append(pa.field("headers", HEADERS)) if include_headers else RECORD_SCHEMA


@dataclass(frozen=True, slots=True)
class Run:
    """Messages of one partition, in the order of their offsets.

    Attributes:
        size: bytes of their values.
        range_id: the id of the range that they are read with, if it is set aside.
    """

    topic: str
    partition: int
    messages: Sequence[Message]
    size: int
    range_id: str


def columns(names: Iterable[str], runs: Sequence[Run]) -> list[pa.Array]:
    """The columns of these names, with the messages of all runs in order."""
    counts = [len(run.messages) for run in runs]
    messages = runs[0].messages if len(runs) == 1 else [item for run in runs for item in run.messages]
    found = []
    times: np.ndarray | None = None
    for name in names:
        if name == "topic":
            found.append(_repeated([run.topic for run in runs], counts, pa.string()))
        elif name == "partition":
            found.append(_repeated([run.partition for run in runs], counts, pa.int32()))
        elif name in _OF_TIMES:
            if times is None:
                times = _times(messages)
            found.append(_OF_TIMES[name](times))
        else:
            found.append(_COLUMNS[name](messages))
    return found


def _repeated(values: Sequence[Any], counts: Sequence[int], kind: pa.DataType) -> pa.Array:
    if len(values) == 1:
        return pa.repeat(pa.scalar(values[0], kind), counts[0])
    return pa.array(values, kind).take(np.repeat(np.arange(len(values)), counts))


# Methods of a class are mapped: a loop in Python costs as much again as the call.
def _called(name: str, messages: Sequence[Any]) -> Iterator[Any]:
    return map(getattr(type(messages[0]), name), messages)


def _keys(messages: Sequence[Message]) -> pa.Array:
    return pa.array(list(_called("key", messages)), pa.binary())


def _values(messages: Sequence[Message]) -> pa.Array:
    return pa.array(list(_called("value", messages)), pa.binary())


def _offsets(messages: Sequence[Message]) -> pa.Array:
    return pa.array(np.fromiter(_called("offset", messages), np.int64, len(messages)))


def _times(messages: Sequence[Message]) -> np.ndarray:
    """The type and the milliseconds of each timestamp.

    The pairs are not kept: a million tuples at a time would occupy Python's garbage collector.
    """
    numbers = chain.from_iterable(_called("timestamp", messages))
    return np.fromiter(numbers, np.int64, 2 * len(messages)).reshape(-1, 2)


def _timestamps(times: np.ndarray) -> pa.Array:
    return pa.array(times[:, 1] * 1000).cast(pa.timestamp("us", tz="UTC"))


def _timestamp_types(times: np.ndarray) -> pa.Array:
    # librdkafka has 0 for none, 1 for CreateTime and 2 for LogAppendTime; Spark has -1, 0 and 1.
    return pa.array((times[:, 0] - 1).astype(np.int32))


def _headers(messages: Sequence[Message]) -> pa.Array:
    found = list(_called("headers", messages))
    if not any(found):
        return pa.nulls(len(messages), HEADERS)
    return pa.array([headers or None for headers in found], HEADERS)


_COLUMNS: Mapping[str, Callable[[Sequence[Any]], pa.Array]] = {
    "key": _keys,
    "value": _values,
    "offset": _offsets,
    "headers": _headers,
}
_OF_TIMES: Mapping[str, Callable[[np.ndarray], pa.Array]] = {
    "timestamp": _timestamps,
    "timestampType": _timestamp_types,
}
