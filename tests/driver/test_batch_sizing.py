"""Batches that size themselves: the driver measures them from trigger to trigger, also over restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from flip27_source.errors import OptionError
from flip27_source.reader import SplitReader, YieldsProgress
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine
from tests.toy_sources import FEEDS, EchoReader, Feed, Item, items

from .batches import SCHEMA

TARGET = {"feed": "sized", "targetBatchDuration": "30s"}
START_MS = 1_700_000_012_345


class PagedReader(YieldsProgress, SplitReader[Item]):
    """A reader that only has to exist."""

    def read(self, split: Item) -> Iterator[Any]:
        yield from ()


def new_engine(options: dict[str, str], splits: int = 6_000) -> MicroBatchEngine:
    FEEDS["sized"] = items(*(f"split-{number:05}" for number in range(splits)))
    engine = MicroBatchEngine(options, enumerator=Feed, reader=EchoReader, schema=SCHEMA)
    engine.now_ms = START_MS
    return engine


def sizes(engine: MicroBatchEngine, batches: int, split_ms: int = 20) -> list[int]:
    """Run batches on a clock that goes on by a second and this time for each split; return their splits."""
    found: list[int] = []
    for _ in range(batches):
        batch = engine.run_batch()
        assert batch is not None
        found.append(len(batch.rows))
        engine.now_ms += 1000 + len(batch.rows) * split_ms
    return found


def sized(engine: MicroBatchEngine) -> dict[str, Any]:
    """What the offset of the newest batch says of its size."""
    found: dict[str, Any] = json.loads(engine.logs.offsets[-1])["summary"]["sized"]
    return found


def test_batches_grow_until_they_take_the_target_and_the_offset_says_why() -> None:
    engine = new_engine(TARGET)
    assert sizes(engine, 5) == [100, 1000, 1450, 1450, 1450]
    assert sized(engine) == {
        "target_ms": 30_000, "files": 1450, "rows": 100_000, "bytes": 33_554_432,
        "reason": "50 files/s and 1.0 s overhead in 3 batches",
    }  # fmt: skip


def test_the_limits_of_the_options_hold() -> None:
    assert sizes(new_engine(TARGET | {"maxFilesPerTrigger": "500"}), 4) == [100, 500, 500, 500]


def test_a_restarted_query_goes_on_with_what_it_has_measured() -> None:
    engine = new_engine(TARGET)
    sizes(engine, 3)
    engine.restart()
    engine.now_ms += 3_600_000  # it was down for an hour, which is no duration of a batch
    assert sizes(engine, 2) == [1450, 1450]


def test_without_a_target_nothing_is_measured_or_stored() -> None:
    engine = new_engine({"feed": "sized", "maxFilesPerTrigger": "10"})
    assert sizes(engine, 2) == [10, 10]
    assert "sized" not in json.loads(engine.logs.offsets[-1])["summary"]


def test_a_batch_of_trigger_once_holds_everything_and_says_nothing_of_a_limit() -> None:
    engine = new_engine(TARGET)
    sizes(engine, 2)
    engine.restart()
    assert engine.log(engine.latest_offset(None))
    summary = json.loads(engine.logs.offsets[-1])["summary"]
    assert summary["splits"] == 6_000 - 1_100
    assert "sized" not in summary
    run = engine.holder.cycle.run
    assert run is not None
    assert run.coordinator.pending is not None
    times = run.coordinator.pending.snapshot.times
    assert times is not None
    assert times.decided is None


def test_a_target_can_be_set_changed_and_removed_between_runs() -> None:
    engine = new_engine({"feed": "sized", "maxFilesPerTrigger": "300"})
    sizes(engine, 1)
    engine.restart(options={"maxFilesPerTrigger": None, "targetBatchDuration": "11s"})
    assert sizes(engine, 4) == [100, 367, 500, 500]
    engine.restart(options={"targetBatchDuration": "21s"})
    assert sizes(engine, 2) == [1000, 1000]
    engine.restart(options={"targetBatchDuration": None})
    assert sizes(engine, 1) == [6_000 - 300 - 100 - 1367 - 2000]


def test_while_a_batch_is_waiting_the_target_of_the_backlog_applies() -> None:
    engine = new_engine(TARGET | {"targetBacklogDuration": "2 minutes"}, splits=20_000)
    assert sizes(engine, 5) == [100, 1000, 5950, 5950, 5950]
    assert sizes(engine, 1) == [20_000 - 100 - 1000 - 3 * 5950]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"targetBatchDuration": "0s"}, "a duration above 0 is expected, such as 30 seconds"),
        ({"targetBacklogDuration": "60s"}, "targetBatchDuration is not set"),
        (
            {"targetBatchDuration": "60s", "targetBacklogDuration": "30s"},
            "option targetBacklogDuration is 30 s, and targetBatchDuration is 60 s",
        ),
    ],
)
def test_targets_that_make_no_sense_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Source.resolve({"feed": "sized", **options}, enumerator=Feed, reader=EchoReader)


def test_a_reader_that_decides_how_much_it_reads_has_no_target() -> None:
    with pytest.raises(OptionError, match=r"PagedReader decides itself .*\n.*maxSplitDuration limits"):
        Source.resolve(TARGET, enumerator=Feed, reader=PagedReader)
