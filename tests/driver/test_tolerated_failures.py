"""tolerableFailedCheckpoints: calls that failed because the state could not be reached are made again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flip27_source.driver.background import BackgroundRunner
from flip27_source.driver.environment import Environment
from flip27_source.errors import ContractError, MissingStateError, StaleDriverError, StateLocationError
from flip27_source.snapshots.driver_condition import Condition
from flip27_source.snapshots.driver_epochs import DriverEpoch
from flip27_source.snapshots.store import LocalStore, MemoryStore
from tests.driver.batches import Batches
from tests.toy_sources import FEEDS, EchoReader, Feed, items


class Unreachable(MemoryStore):
    """A store that fails for some calls.

    Attributes:
        failing: such a call, without the lineage: "create checkpoints". left: how many fail.
        takes_effect: whether only the answers to these calls are lost.
    """

    failing = ""
    left = 0
    takes_effect = False

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        with self._at("create", name):
            return super().create(name, data, exclusive=exclusive)

    def read(self, name: str, limit: int | None = None) -> bytes:
        with self._at("read", name):
            return super().read(name, limit)

    def list(self, folder: str) -> list[str]:
        with self._at("list", folder):
            return super().list(folder)

    def replace(self, name: str, data: bytes) -> None:
        with self._at("replace", name):
            super().replace(name, data)

    def delete(self, name: str) -> None:
        with self._at("delete", name):
            super().delete(name)

    @contextmanager
    def _at(self, verb: str, name: str) -> Iterator[None]:
        fails = self.left > 0 and f"{verb} {name.split('/')[1]}" == self.failing
        self.left -= fails
        if self.takes_effect:
            yield
        if fails:
            raise StateLocationError("the bucket does not answer", remedy="wait") from TimeoutError(
                "timed out"
            )
        if not self.takes_effect:
            yield


class Noted(BackgroundRunner):
    """Repeats nothing by itself."""

    def __init__(self, repeated: list[Callable[[], object]]) -> None:
        super().__init__()
        self._repeated = repeated

    def repeat(self, work: Callable[[], object], period_s: float) -> None:
        self._repeated.append(work)

    def close(self) -> None:
        self._repeated.clear()
        super().close()


class Pausing(Batches):
    """A query whose pauses are noted.

    Attributes:
        in_pause: called in each pause. repeated: the work that threads repeat now.
    """

    in_pause: Callable[[], object] | None = None

    def environment(self) -> Environment:
        self.pauses: list[float] = []
        self.repeated: list[Callable[[], object]] = []
        given = super().environment()
        return replace(given, pause=self._pause, new_runner=lambda: Noted(self.repeated))

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if self.in_pause is not None:
            self.in_pause()


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


@pytest.mark.parametrize("call", ["list drivers", "replace drivers"])
def test_the_end_of_a_driver_that_cannot_be_recorded_is_recorded_again(batches: Any, call: str) -> None:
    assert batches.batch() == ["a"]
    fail(batches, call, 1)
    batches.holder.close()
    assert batches.driver().condition is Condition.STOPPED


@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("call", ["create source.json", "create checkpoints", "create drivers"])
def test_each_try_of_the_first_checkpoint_removes_the_one_before(
    batches: Any, call: str, takes_effect: bool
) -> None:
    batches.store.takes_effect = takes_effect
    fail(batches, call, 2)
    assert batches.batch() == ["a"]
    assert len({name.partition("/")[0] for name in batches.files()}) == 1


def test_a_lineage_that_cannot_be_removed_at_once_is_removed_later(batches: Any) -> None:
    create = batches.store.create

    def fails_once(name: str, data: bytes, **given: Any) -> bool:
        if "/checkpoints/" in name:
            batches.store.create = create
            fail(batches, "delete source.json", 1)
            raise StateLocationError("no answer", remedy="wait") from TimeoutError("timed out")
        return bool(create(name, data, **given))

    batches.store.create = fails_once
    assert batches.batch() == ["a"]
    assert len({name.partition("/")[0] for name in batches.files()}) == 1


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


@pytest.mark.parametrize("gone", ["checkpoints", "drivers"])
def test_state_that_is_gone_does_not_come_back_by_waiting(
    gone: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """That its files are not there is an OSError, too."""
    FEEDS[request.node.name] = items("a")
    options = {"feed": request.node.name, "stateLocation": "/unused", "tolerableFailedCheckpoints": "2"}
    batches = Pausing(Feed, EchoReader, options, store=LocalStore(str(tmp_path)))
    batches.batch()
    batches.source_feed.extend(items("b"))
    if gone == "checkpoints":
        batches.restart()
    for file in tmp_path.glob(f"*/{gone}/*"):
        file.unlink()
    with pytest.raises(MissingStateError):
        batches.batch()
    assert batches.pauses == []
    assert "failedCheckpoints" not in (batches.holder.report() or {})


def test_the_record_of_the_driver_has_the_failures(batches: Any) -> None:
    batches.batch()
    batches.source_feed.extend(items("b"))
    fail(batches, "create checkpoints", 1)
    batches.now_ms = 7_000
    batches.batch()
    batches.holder.close()
    record = batches.driver().driver.record
    assert record is not None
    (failure,) = record.failed
    assert failure.at_ms >= 7_000
    assert failure.error.startswith("StateLocationError: the bucket does not answer")


def test_a_query_that_is_stopped_in_a_pause_has_not_failed(batches: Any) -> None:
    batches.batch()
    batches.source_feed.extend(items("b"))
    fail(batches, "create checkpoints", 1)
    batches.in_pause = sys.exit  # Spark sends a signal
    with pytest.raises(SystemExit):
        batches.batch()
    batches.holder.close()
    assert batches.driver().condition is Condition.STOPPED


@pytest.mark.parametrize("then", ["", "create drivers", "replace drivers"])
def test_a_driver_in_a_pause_is_alive(batches: Any, then: str) -> None:
    """Also if it has failed to claim its next epoch, or to confirm it."""
    batches.batch()
    batches.source_feed.extend(items("b"))
    fail(batches, "create checkpoints", 1)
    seen = []

    def in_pause() -> None:
        batches.now_ms += 60_000
        fail(batches, then, 0)
        for work in batches.repeated:
            work()
        seen.append(batches.driver().condition)
        if len(seen) == 1 and then:
            fail(batches, then, 1 + then.startswith("replace"))

    batches.in_pause = in_pause
    assert batches.batch() == ["b"]
    assert seen == [Condition.RUNNING] * (1 + bool(then))


@pytest.mark.parametrize("call", ["create drivers", "list checkpoints", "replace drivers"])
@pytest.mark.parametrize("takes_effect", [False, True])
def test_a_driver_that_takes_over_in_a_pause_is_not_driven_out(
    batches: Any, call: str, takes_effect: bool
) -> None:
    """Also if this driver has failed to claim its next epoch, or to confirm it, before."""
    batches.batch()
    lineage = batches.lineage
    batches.source_feed.extend(items("b"))
    fail(batches, "create checkpoints", 1)
    batches.store.takes_effect = takes_effect

    def in_pause() -> None:
        if len(batches.pauses) == 1:
            # The record of the epoch before is brought up to date first: that may fail.
            fail(batches, call, 1 + call.startswith("replace"))
        else:
            fail(batches, call, 0)
            DriverEpoch(batches.store, lineage, batches.now_ms, process=lambda: 77)

    batches.in_pause = in_pause
    with pytest.raises(StaleDriverError, match=r"process 77 .* has taken over"):
        batches.batch()


@pytest.mark.parametrize("call", ["create drivers", "list checkpoints", "replace drivers", "delete drivers"])
@pytest.mark.parametrize("takes_effect", [False, True])
def test_a_claim_that_has_failed_is_not_that_of_another_driver(
    batches: Any, call: str, takes_effect: bool
) -> None:
    batches.batch()
    batches.source_feed.extend(items("b"))
    fail(batches, "create checkpoints", 1)
    batches.store.takes_effect = takes_effect
    batches.in_pause = lambda: fail(batches, call, 2 if len(batches.pauses) == 1 else 0)
    assert batches.batch() == ["b"]
