"""tolerableFailedCheckpoints: calls that failed because the state could not be reached are made again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flip27_source.driver.environment import Environment
from flip27_source.errors import ContractError, StateLocationError
from flip27_source.snapshots.driver_epochs import newest_driver
from flip27_source.snapshots.store import MemoryStore
from tests.driver.batches import Batches
from tests.toy_sources import FEEDS, EchoReader, Feed, items


class Unreachable(MemoryStore):
    """A store that fails for some calls.

    Attributes:
        failing: the beginning of such a call, such as "create orders-1/checkpoints". left: how many fail.
    """

    failing = ""
    left = 0

    def create(self, name: str, data: bytes) -> bool:
        self._at(f"create {name.split('/')[1]}")
        return super().create(name, data)

    def read(self, name: str, limit: int | None = None) -> bytes:
        self._at(f"read {name.split('/')[1]}")
        return super().read(name, limit)

    def _at(self, call: str) -> None:
        if self.left and call == self.failing:
            self.left -= 1
            raise StateLocationError("the bucket does not answer", remedy="wait") from TimeoutError(
                "timed out"
            )


class Pausing(Batches):
    """A query whose pauses are noted."""

    def environment(self) -> Environment:
        self.pauses: list[float] = []
        return replace(super().environment(), pause=self.pauses.append)


@pytest.fixture
def batches(request: pytest.FixtureRequest) -> Any:
    FEEDS[request.node.name] = items("a")
    options = {"feed": request.node.name, "stateLocation": "/unused", "tolerableFailedCheckpoints": "2"}
    return Pausing(Feed, EchoReader, options, store=Unreachable())


def fail(batches: Pausing, call: str, times: int) -> None:
    assert isinstance(batches.store, Unreachable)
    batches.store.failing, batches.store.left = call, times


def test_a_checkpoint_that_cannot_be_written_is_made_again_after_a_pause_that_doubles(batches: Any) -> None:
    fail(batches, "create checkpoints", 2)
    assert batches.batch() == ["a"]
    assert batches.pauses == [1.0, 2.0]
    assert batches.holder.report()["failedCheckpoints"] == 2


def test_one_failure_in_a_row_more_ends_the_query(batches: Any) -> None:
    fail(batches, "create checkpoints", 3)
    with pytest.raises(StateLocationError, match="the bucket does not answer"):
        batches.batch()


def test_a_success_in_between_starts_the_count_again(batches: Any) -> None:
    for name in "bcd":
        fail(batches, "create checkpoints", 2)
        assert batches.batch() is not None
        batches.source_feed.extend(items(name))
    assert batches.batch() == ["d"]


def test_a_plan_that_cannot_be_read_is_read_again(batches: Any) -> None:
    batches.batch()
    batches.source_feed.extend(items("b"))
    batches.trigger()
    batches.restart()
    fail(batches, "read checkpoints", 2)
    assert batches.batch() == ["b"]


def test_an_error_that_no_pause_can_mend_ends_the_query_at_once(batches: Any) -> None:
    batches.batch()
    batches.source_feed.append(None)
    with pytest.raises(ContractError, match="cannot be stored as JSON"):
        batches.batch()
    assert batches.pauses == []


def test_the_record_of_the_driver_has_the_failures(batches: Any) -> None:
    batches.batch()
    batches.source_feed.extend(items("b"))
    fail(batches, "create checkpoints", 1)
    batches.now_ms = 7_000
    batches.batch()
    batches.holder.close()
    (lineage,) = {name.partition("/")[0] for name in batches.files()}
    found = newest_driver(batches.store, lineage)
    assert found is not None
    assert found.driver.record is not None
    (failure,) = found.driver.record.failed
    assert failure.at_ms >= 7_000
    assert failure.error.startswith("StateLocationError: the bucket does not answer")
