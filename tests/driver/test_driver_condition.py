"""Whether the driver of a source runs, as its state tells: running, stopped, failed or lost; since when."""

from __future__ import annotations

from threading import Event, Thread

import msgspec
import pytest

from flip27_source.errors import LONGEST_KEPT, OptionError
from flip27_source.snapshots.driver_condition import Condition, DriverCondition, DriverWatch
from flip27_source.snapshots.driver_epochs import DriverEpoch
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


def test_a_driver_runs_from_its_start_to_its_end(batches: Batches) -> None:
    started_ms = batches.now_ms
    assert batches.driver()[1:4] == (Condition.RUNNING, started_ms, started_ms)
    batches.now_ms += 5_000
    batches.holder.cycle.driving.renew()
    assert batches.driver()[1:4] == (Condition.RUNNING, started_ms, started_ms + 5_000)
    batches.holder.close()
    assert batches.driver()[1:4] == (Condition.STOPPED, started_ms + 5_000, started_ms + 5_000)
    batches.restart()
    batches.trigger()
    assert batches.driver()[1:4] == (Condition.RUNNING, started_ms + 5_000, started_ms + 5_000)


class Watched:
    """A driver, and a process that looks at it and whose clock is ``ahead_s`` ahead of the driver's."""

    def __init__(self, ahead_s: float) -> None:
        self.now_s = 1_000_000_000.0
        self.store = MemoryStore()
        self.watch = DriverWatch(wall_s=lambda: self.now_s + ahead_s, steady_s=lambda: self.now_s)

    def start(self) -> DriverEpoch:
        return DriverEpoch(self.store, "orders-1", round(1_000 * self.now_s), is_renewed=True)

    def look(self, after_s: float = 0) -> Condition | None:
        self.now_s += after_s
        found = self.watch.newest(self.store, "orders-1")
        return None if found is None else found.condition

    def pass_s(self, seconds: int, renewed: DriverEpoch | None = None) -> None:
        for _ in range(seconds // 10):
            self.now_s += 10
            if renewed is not None:
                renewed.renew(round(1_000 * self.now_s))


@pytest.fixture(params=[-3_600.0, -60.0, 0.0, 60.0, 3_600.0])
def watched(request: pytest.FixtureRequest) -> Watched:
    return Watched(request.param)


def test_who_looks_repeatedly_needs_no_clock_that_agrees_with_the_drivers(watched: Watched) -> None:
    """Renewals that change between two looks say that the driver lives, and without them it does not."""
    driver = watched.start()
    watched.look()
    for _ in range(10):
        watched.pass_s(10, driver)
        assert watched.look(5) is Condition.RUNNING
    assert [watched.look(15) for _ in range(4)] == [Condition.RUNNING] * 2 + [Condition.LOST] * 2


def test_a_driver_that_starts_after_the_first_look_runs_whatever_its_clock_says(watched: Watched) -> None:
    assert watched.look() is None
    watched.start()
    assert watched.look(5) is Condition.RUNNING


@pytest.mark.parametrize("pause_s", [60, 600])
def test_a_living_driver_runs_however_rarely_it_is_looked_at(watched: Watched, pause_s: int) -> None:
    driver = watched.start()
    watched.look()
    for _ in range(10):
        watched.pass_s(pause_s, driver)
        assert watched.look() is Condition.RUNNING


def test_a_driver_that_was_killed_during_a_pause_of_looking_is_lost(watched: Watched) -> None:
    driver = watched.start()
    watched.look()
    watched.pass_s(10, driver)
    watched.pass_s(600)
    assert watched.look() is Condition.LOST


def test_a_driver_whose_clock_was_set_back_runs_and_is_lost_40_seconds_later(watched: Watched) -> None:
    driver = watched.start()
    watched.look()
    driver.renew(round(1_000 * watched.now_s) - 7_200_000)
    driver.renew(round(1_000 * watched.now_s) - 7_190_000)
    assert watched.look(5) is Condition.RUNNING
    assert watched.look(41) is Condition.LOST


@pytest.mark.parametrize("ahead_s", [41, 10 * 365 * 86_400])
def test_the_renewal_of_a_driver_whose_clock_is_far_ahead_says_nothing_until_it_changes(ahead_s: int) -> None:
    """A driver that was killed would seem to run for as long as its clock was ahead."""
    watched = Watched(-ahead_s)
    driver = watched.start()
    assert watched.look() is Condition.UNKNOWN
    assert watched.look(40) is Condition.UNKNOWN
    assert watched.look(1) is Condition.LOST
    watched.pass_s(10, driver)
    assert watched.look() is Condition.RUNNING


def test_a_driver_that_has_not_been_heard_of_for_40_seconds_is_lost(batches: Batches) -> None:
    assert batches.driver(after_s=40).condition is Condition.RUNNING
    assert batches.driver(after_s=41)[1:4] == (Condition.LOST, batches.now_ms, batches.now_ms)


def failed(batches: Batches, error: Exception) -> DriverCondition:
    Fails.error = error
    with pytest.raises(type(error)):
        batches.batch()
    batches.holder.close()
    return batches.driver()


def test_the_error_that_ends_a_query_is_kept_with_its_remedy(batches: Batches) -> None:
    driver, condition, since_ms, *_ = failed(batches, OptionError("no topic 'orders'", remedy="create it"))
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
    assert batches.driver().condition is Condition.RUNNING
    batches.holder.close()
    assert batches.driver().condition is Condition.STOPPED


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
    found = DriverWatch().newest(store, "orders-1")
    assert found is not None
    assert found[1:4] == (Condition.FAILED, 12_000, 12_000)


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
    driver = batches.driver().driver
    assert driver.record is not None
    assert isinstance(batches.store, MemoryStore)
    (name,) = (name for name in batches.files() if name.endswith("drivers/1.json"))
    record = msgspec.structs.replace(driver.record, process=2**63)
    batches.store.files[name] = msgspec.json.encode(record)
    assert batches.driver().condition is Condition.RUNNING


def test_the_record_has_the_last_discovery_and_how_long_checkpoints_took(batches: Batches) -> None:
    for name in ("b", "c"):
        batches.source_feed.extend(items(name))
        batches.now_ms += 1_000
        batches.batch()
    discovered_ms = batches.now_ms
    batches.now_ms += 5_000
    batches.holder.close()
    record = batches.driver().driver.record
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
    found = DriverWatch(wall_s=lambda: 180.0).newest(store, "orders-1")
    assert found is not None
    assert found.driver.record is not None
    assert found.driver.record.discovered_ms == 1_170_000
    assert store.records == 4
