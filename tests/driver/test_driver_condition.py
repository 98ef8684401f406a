"""Whether the driver of a source runs, as its state tells: running, stopped, failed or lost; since when."""

from __future__ import annotations

from threading import Event, Thread

import msgspec
import pytest

from flip27_source.errors import LONGEST_KEPT, OptionError
from flip27_source.snapshots.driver_epochs import (
    Condition,
    DriverCondition,
    DriverEpoch,
    Heard,
    newest_driver,
)
from flip27_source.snapshots.store import MemoryStore
from tests.driver.batches import Batches
from tests.toy_sources import FEEDS, EchoReader, Feed, items


class Fails(Feed):
    """A source that fails if the error is set."""

    error: Exception | None = None

    def handle_split_request(self, subtask_id: int) -> None:
        if self.error is not None:
            raise self.error
        super().handle_split_request(subtask_id)


@pytest.fixture
def batches(request: pytest.FixtureRequest) -> Batches:
    Fails.error = None
    FEEDS[request.node.name] = items("a")
    made = Batches(Fails, EchoReader, {"feed": request.node.name, "stateLocation": "/unused"})
    made.batch()
    return made


def seen(batches: Batches, *, after_s: float = 0, heard: Heard | None = None) -> DriverCondition:
    (lineage,) = {name.partition("/")[0] for name in batches.files()}
    found = newest_driver(batches.store, lineage, heard=heard, wall_s=lambda: batches.now_ms / 1000 + after_s)
    assert found is not None
    return found


def test_a_driver_runs_from_its_start_to_its_end(batches: Batches) -> None:
    started_ms = batches.now_ms
    assert seen(batches)[1:] == (Condition.RUNNING, started_ms, started_ms)
    batches.now_ms += 5_000
    batches.holder.cycle.driving.renew()
    assert seen(batches)[1:] == (Condition.RUNNING, started_ms, started_ms + 5_000)
    batches.holder.close()
    assert seen(batches)[1:] == (Condition.STOPPED, started_ms + 5_000, started_ms + 5_000)
    batches.restart()
    batches.trigger()
    assert seen(batches)[1:] == (Condition.RUNNING, started_ms + 5_000, started_ms + 5_000)


@pytest.mark.parametrize("ahead_s", [-3_600.0, -60.0, 0.0, 60.0, 3_600.0])
def test_who_looks_repeatedly_needs_no_clock_that_agrees_with_the_drivers(
    ahead_s: float, batches: Batches
) -> None:
    """Renewals that change between two looks say that the driver lives, and without them it does not."""
    steady = [0.0]
    heard = Heard(steady_s=lambda: steady[0])

    def look(after_s: float) -> Condition:
        batches.now_ms += round(1_000 * after_s)
        steady[0] += after_s
        return seen(batches, after_s=ahead_s, heard=heard).condition

    look(0)
    for _ in range(10):
        batches.now_ms += 10
        batches.holder.cycle.driving.renew()
        assert look(15) is Condition.RUNNING
    assert [look(15) for _ in range(4)] == [Condition.RUNNING] + [Condition.LOST] * 3


@pytest.mark.parametrize("ahead_s", [-3_600.0, -60.0, 0.0, 60.0, 3_600.0])
def test_who_looks_once_a_minute_needs_no_clock_that_agrees_with_the_drivers_either(
    ahead_s: float, batches: Batches
) -> None:
    steady = [0.0]
    heard = Heard(steady_s=lambda: steady[0])

    def look(silent_s: int) -> Condition:
        batches.now_ms += 1_000 * (60 - silent_s)
        batches.holder.cycle.driving.renew()
        batches.now_ms += 1_000 * silent_s
        steady[0] += 60
        return seen(batches, after_s=ahead_s, heard=heard).condition

    batches.now_ms += 1_000_000_000
    look(5)
    assert {look(silent_s) for silent_s in (9, 0, 3, 30, 1)} == {Condition.RUNNING}
    assert look(50) is Condition.LOST
    batches.now_ms -= 7_200_000  # its clock is set back
    look(0)
    assert {look(silent_s) for silent_s in (9, 0, 3)} == {Condition.RUNNING}
    batches.restart()
    batches.now_ms -= 7_200_000  # on another host
    batches.trigger()
    assert {look(silent_s) for silent_s in (9, 0, 3)} == {Condition.RUNNING}
    assert look(50) is Condition.LOST


def test_after_a_pause_of_looking_a_driver_that_has_said_little_meanwhile_is_lost(batches: Batches) -> None:
    steady = [0.0]
    heard = Heard(steady_s=lambda: steady[0])
    assert seen(batches, heard=heard).condition is Condition.RUNNING
    batches.now_ms += 10_000
    batches.holder.cycle.driving.renew()  # its last one
    batches.now_ms += 600_000
    steady[0] = 610.0
    assert seen(batches, heard=heard).condition is Condition.LOST


def test_a_driver_that_has_not_been_heard_of_for_40_seconds_is_lost(batches: Batches) -> None:
    assert seen(batches, after_s=40).condition is Condition.RUNNING
    assert seen(batches, after_s=41)[1:] == (Condition.LOST, batches.now_ms, batches.now_ms)


def failed(batches: Batches, error: Exception) -> DriverCondition:
    Fails.error = error
    with pytest.raises(type(error)):
        batches.batch()
    batches.holder.close()
    return seen(batches)


def test_the_error_that_ends_a_query_is_kept_with_its_remedy(batches: Batches) -> None:
    driver, condition, since_ms, _ = failed(batches, OptionError("no topic 'orders'", remedy="create it"))
    assert (condition, since_ms) == (Condition.FAILED, batches.now_ms)
    assert driver.record is not None
    assert (driver.record.error, driver.record.remedy) == ("OptionError: no topic 'orders'", "create it")


def test_a_kept_error_has_a_bounded_length_and_no_credentials(batches: Batches) -> None:
    driver, *_ = failed(batches, ValueError("s3://me:secret@host/x " + "y" * 5_000))
    assert driver.record is not None
    error = driver.record.error or ""
    assert error.startswith("ValueError: s3://")
    assert "secret" not in error
    assert len(error) <= LONGEST_KEPT


def test_a_query_that_goes_on_after_an_error_has_not_failed(batches: Batches) -> None:
    Fails.error = OSError("the network is unreachable")
    with pytest.raises(OSError, match="unreachable"):
        batches.batch()
    Fails.error = None
    batches.source_feed.extend(items("b"))
    assert batches.batch() == ["b"]
    assert seen(batches).condition is Condition.RUNNING
    batches.holder.close()
    assert seen(batches).condition is Condition.STOPPED


class SlowStore(MemoryStore):
    """A store in which a record of a driver that is replaced waits, if ``waits`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = False
        self.has_begun, self.may_end = Event(), Event()

    def replace(self, name: str, data: bytes) -> None:
        if self.waits and "/drivers/" in name:
            self.waits = False
            self.has_begun.set()
            assert self.may_end.wait(60)
        super().replace(name, data)


def test_a_renewal_that_takes_long_does_not_undo_the_end() -> None:
    store = SlowStore()
    epoch = DriverEpoch(store, "orders-1", 1_000, is_renewed=True)
    epoch.completed("1-a")
    store.waits = True
    renewing = Thread(target=epoch.renew, args=(11_000,))
    renewing.start()
    assert store.has_begun.wait(60)
    ending = Thread(target=epoch.end, args=(12_000, OptionError("no topic")))
    ending.start()
    ending.join(0.2)  # without a turn it ends here
    store.may_end.set()
    renewing.join()
    ending.join()
    found = newest_driver(store, "orders-1")
    assert found is not None
    assert found[1:] == (Condition.FAILED, 12_000, 12_000)


class MuteError(Exception):
    """An error of a library whose text needs a connection that is lost."""

    def __str__(self) -> str:
        raise ConnectionError("the gateway is closed")


def test_an_error_that_has_no_text_is_kept_by_its_type(batches: Batches) -> None:
    driver, condition, *_ = failed(batches, MuteError())
    assert condition is Condition.FAILED
    assert driver.record is not None
    assert driver.record.error == "MuteError: its text raises ConnectionError"


def test_a_record_with_an_impossible_process_is_not_an_error(batches: Batches) -> None:
    driver = seen(batches).driver
    assert driver.record is not None
    assert isinstance(batches.store, MemoryStore)
    (name,) = (name for name in batches.files() if name.endswith("drivers/1.json"))
    record = msgspec.structs.replace(driver.record, process=2**63)
    batches.store.files[name] = msgspec.json.encode(record)
    assert seen(batches).condition is Condition.RUNNING


def test_the_record_has_the_last_discovery_and_how_long_checkpoints_took(batches: Batches) -> None:
    for name in ("b", "c"):
        batches.source_feed.extend(items(name))
        batches.now_ms += 1_000
        batches.batch()
    discovered_ms = batches.now_ms
    batches.now_ms += 5_000
    batches.holder.close()
    record = seen(batches).driver.record
    assert record is not None
    assert record.discovered_ms in (None, discovered_ms)  # None: this source is told, and does not look
    assert [item.checkpoint_id for item in record.written] == [1, 2, 3]
    assert all(item.planning_ms >= 0 and item.write_ms >= 0 for item in record.written)


class CountsRecords(MemoryStore):
    """A store that counts how often a record of a driver is replaced."""

    records = 0

    def replace(self, name: str, data: bytes) -> None:
        self.records += "/drivers/" in name
        super().replace(name, data)


def test_that_discovery_goes_on_is_written_once_a_minute() -> None:
    store, notes = CountsRecords(), {"failed": (), "discovered_ms": None, "written": ()}
    epoch = DriverEpoch(store, "orders-1", 0, is_renewed=True, notes=notes)
    for second in range(10, 180, 10):
        notes["discovered_ms"] = 1_000_000 + 1_000 * second
        epoch.renew(1_000 * second)
    assert store.records == 3
    epoch.completed("1-a")  # with anything else it costs nothing
    epoch.renew(180_000)
    found = newest_driver(store, "orders-1", wall_s=lambda: 180.0)
    assert found is not None
    assert found.driver.record is not None
    assert found.driver.record.discovered_ms == 1_170_000
    assert store.records == 4
