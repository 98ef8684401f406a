"""Sources of authors whose splits tell their event times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from flip27_source import (
    BoundedRange,
    Budget,
    DiscoveringEnumerator,
    Discovery,
    EventTimeRange,
    SplitEnumerator,
    SplitReader,
)
from flip27_source.errors import OptionError
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine
from tests.toy_sources import EchoReader, Feed, Item

HOUR_US = 3_600_000_000
ORDERED = {"eventTimeOrder": "true", "maxFilesPerTrigger": "1", "discoveryInterval": "0s"}


@dataclass(frozen=True)
class Hour:
    number: int

    @property
    def split_id(self) -> str:
        return f"hour-{self.number}"

    @property
    def event_time(self) -> EventTimeRange | None:
        if self.number < 0:
            return None
        return EventTimeRange(self.number * HOUR_US, (self.number + 1) * HOUR_US - 1)


class Hours(DiscoveringEnumerator[Hour]):
    """Finds hours in two rounds."""

    def discover(self, position: int | None) -> Discovery[Hour, int]:
        rounds = {0: (7, 3, -1, 5), 1: (4, 6, 0)}
        found = rounds.get(position or 0, ())
        return Discovery([Hour(number) for number in found], (position or 0) + 1)


class HourReader(SplitReader[Hour]):
    def read(self, split: Hour) -> Iterator[tuple[int]]:
        yield (split.number,)


def test_splits_of_any_source_are_read_in_the_order_of_their_event_times() -> None:
    schema = pa.schema([("number", pa.int64())])
    engine = MicroBatchEngine(ORDERED, enumerator=Hours, reader=HourReader, schema=schema)
    engine.process_all_available()
    first, *numbers = [row[0] for row in engine.rows]
    assert first == -1
    assert numbers in ([3, 0, 4, 5, 6, 7], [0, 3, 4, 5, 6, 7])
    summary = json.loads(engine.logs.offsets[-1])["summary"]
    assert summary["smallestWatermarkDelayMs"] == 0


class CutHours(Hours):
    def bound_split(self, split: Hour, budget: Budget) -> BoundedRange[Hour] | None:
        return BoundedRange(read=split, rest=None)


class Bare(DiscoveringEnumerator[Item]):
    def discover(self, position: int | None) -> Discovery[Item, int]:
        return Discovery([], 0)


@pytest.mark.parametrize(
    ("enumerator", "said"),
    [
        (Feed, "option eventTimeOrder is unknown"),
        (Bare, "the splits of Bare have no event_time"),
        (CutHours, "the splits of CutHours are not read whole, each in one batch"),
    ],
)
def test_the_order_is_refused_for_splits_that_it_cannot_put_in_order(
    enumerator: type[SplitEnumerator[Any]], said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        Source.resolve({"eventTimeOrder": "true"}, enumerator=enumerator, reader=EchoReader)
