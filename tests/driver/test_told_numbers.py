"""What a driver's record tells to those who read the state: the numbers of progress events."""

from __future__ import annotations

from typing import Any

import pytest

from flip27_source.driver.holder import MOST_GAUGES
from flip27_source.snapshots.driver_epochs import RENEWED_EVERY_MS, DriverRecord
from tests.driver.batches import Batches
from tests.driver.test_tolerated_failures import Unreachable, fail
from tests.toy_sources import FEEDS, EchoReader, Feed, Shelf, items


@pytest.fixture
def batches(request: pytest.FixtureRequest) -> Any:
    FEEDS[request.node.name] = items("a")
    options = {"feed": request.node.name, "stateLocation": "/unused"}
    return Batches(Feed, EchoReader, options, store=Unreachable())


def record(batches: Batches) -> DriverRecord:
    found = batches.driver().driver.record
    assert found is not None
    return found


def test_a_record_tells_the_numbers_of_the_last_progress_event_without_the_place_of_the_source(
    batches: Any,
) -> None:
    batches.batch()
    batches.source_feed.extend(items("b"))
    batches.batch()
    told = batches.holder.report()
    batches.holder.close()
    del told["source"]
    assert told["checkpoint"] == 2
    assert record(batches).numbers == told


def test_checkpoints_tell_what_they_took_and_how_large_they_are(batches: Any) -> None:
    batches.batch()
    told = batches.holder.report()
    (document,) = [data for name, data in batches.files().items() if "/checkpoints/" in name]
    segments = [data for name, data in batches.files().items() if "/segments/" in name]
    assert told["checkpointBytes"] == len(document) + sum(map(len, segments))
    assert told.keys() >= {"planningMs", "writeMs"}
    assert "restoreMs" not in told


def test_a_run_tells_what_its_restore_took(batches: Any) -> None:
    batches.batch()
    size = batches.holder.report()["checkpointBytes"]
    batches.restart()
    batches.trigger()
    told = batches.holder.report()
    assert told["restoreBytes"] == told["checkpointBytes"] == size
    assert told["restoreMs"] >= 0


def test_state_without_a_location_has_a_size_too() -> None:
    query = Batches(Shelf, EchoReader)
    query.shelve("a")
    query.batch()
    assert query.holder.report()["checkpointBytes"] > 100


def test_an_idle_source_tells_its_numbers_again_after_ten_seconds(batches: Any) -> None:
    batches.batch()
    metrics = batches.enumerator().context.metrics
    metrics.gauge("mine", 1)
    batches.trigger()
    assert "mine" not in batches.holder.cycle.driving.numbers
    batches.now_ms += RENEWED_EVERY_MS
    batches.trigger()
    assert batches.holder.cycle.driving.numbers["mine"] == 1


def test_a_failure_that_ends_the_query_is_told_with_its_class_and_the_last_numbers(batches: Any) -> None:
    batches.batch()
    batches.source_feed.extend(items("b"))
    fail(batches, "create checkpoints", 1)
    batches.now_ms = 7_000
    with pytest.raises(Exception, match="does not answer"):
        batches.batch()
    batches.holder.close()
    told = record(batches).numbers
    assert (told["failedCheckpoints"], told["lastFailure"]) == (1, "StateLocationError")
    assert told["lastFailureAt"].startswith("1970-01-01T00:00:07")
    assert told["checkpoint"] == 1


def test_numbers_of_parts_are_in_events_and_records_and_not_in_offsets(batches: Any) -> None:
    batches.batch()
    batches.enumerator().context.metrics.gauge_parts("lag", {"p1": 2, "p0": 5})
    batches.source_feed.extend(items("b"))
    end = batches.latest_offset(None)
    assert batches.holder.report()["parts"] == {"lag": {"p0": 5, "p1": 2}}
    batches.holder.close()
    assert record(batches).numbers["parts"] == {"lag": {"p0": 5, "p1": 2}}
    assert "parts" not in str(end["summary"])


def test_only_the_first_gauges_are_told_however_many_an_enumerator_publishes(batches: Any) -> None:
    batches.batch()
    for number in range(MOST_GAUGES + 5):
        batches.enumerator().context.metrics.gauge(f"of-{number:04}", number)
    told = batches.holder.report()
    assert len([name for name in told if name.startswith("of-")]) == MOST_GAUGES
    assert "of-0000" in told
    assert "checkpointBytes" in told


def test_whatever_an_enumerator_publishes_the_record_can_be_stored_at_the_end(batches: Any) -> None:
    batches.batch()
    metrics = batches.enumerator().context.metrics
    metrics.gauge("huge", 10**300)
    metrics.gauge("name \udcff", 1)
    metrics.gauge_parts("lag", {"bytes-\udcff": 10**300})
    batches.now_ms += RENEWED_EVERY_MS
    batches.trigger()
    batches.holder.close()
    found = record(batches)
    assert found.ended_ms is not None
    assert found.numbers["huge"] == 1e300
    assert found.numbers["name \\udcff"] == 1
    assert found.numbers["parts"] == {"lag": {"bytes-\\udcff": 1e300}}
