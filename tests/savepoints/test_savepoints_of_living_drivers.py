"""``create``: it sends a request to a living driver and waits; without one, it copies a checkpoint."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flip27_source import savepoints
from flip27_source.cli.main import main
from flip27_source.errors import MissingStateError, StateLocationError
from flip27_source.savepoints import CreatedSavepoint
from flip27_source.snapshots import driver_epochs
from flip27_source.snapshots.driver_condition import DriverWatch
from flip27_source.snapshots.driver_epochs import Driver, DriverEpoch
from flip27_source.snapshots.store import LocalStore, MemoryStore, Store, open_store
from tests.deadline import until
from tests.driver.batches import Batches, InlineBatches
from tests.s3_server import S3Bucket
from tests.savepoints.test_requests import Remembering, made_in, waiting
from tests.savepoints.test_savepoints import log_as_spark
from tests.toy_sources import FEEDS, INITIAL, Feed, items

LINEAGE = "orders-0123456789abcdef"
DEADLINE_S = 20.0
AHEAD_MS = 2**47
"""A clock so far ahead that the driver's record never seems old, however slow the test is."""


def polling(state: str, store: Store, **options: str) -> Batches:
    """A query whose driver looks for requests before each batch."""
    given = {"feed": "living", "stateLocation": state, **options}
    return InlineBatches(Feed, Remembering, given, store=store)


class Query:
    """A query in this process that has read "first"; its state is inside Spark's checkpoint."""

    def __init__(self, root: Path, **options: str) -> None:
        self.checkpoint = root / "checkpoint"
        self.state = self.checkpoint / "flip27"
        self.saved = root / "saved"
        FEEDS["living"] = items("first")
        self.batches = polling(str(self.state), LocalStore(str(self.state)), **options)
        self.batches.now_ms = AHEAD_MS
        self.batch_id = 0
        self.batch()
        (self.checkpoint / "metadata").write_text("{}")

    def batch(self) -> list[Any] | None:
        rows = self.batches.batch()
        if rows is not None:
            log_as_spark(self.batches, self.checkpoint, self.batch_id)
            self.batch_id += 1
        return rows

    def poll(self) -> None:
        """Let the driver poll for requests, as it does every requestInterval."""
        self.batches.holder.look_for_requests()

    def create(self, meanwhile: Callable[[], object] | None = None, **options: Any) -> CreatedSavepoint:
        """Create a savepoint; ``meanwhile`` is called once the driver has the request."""

        def said(line: str) -> None:
            self.said.append(line)
            if meanwhile is not None and len(self.said) == 1:
                meanwhile()

        self.said: list[str] = []
        options = {"timeout_s": DEADLINE_S, **options}
        return savepoints.create(state=str(self.state), to=str(self.saved), progress=said, **options)

    def record(self) -> Path:
        (found,) = self.state.glob("*/drivers/*.json")
        return found

    def end_the_driver(self) -> None:
        """Make the driver's record name a process that no longer exists."""
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        record = json.loads(self.record().read_text())
        self.record().write_text(json.dumps({**record, "process": ended.pid}))


@pytest.fixture
def query(tmp_path: Path) -> Iterator[Query]:
    Remembering.told.clear()
    found = Query(tmp_path)
    yield found
    found.batches.holder.close()


def test_a_living_driver_makes_the_savepoint_at_its_next_batch_boundary(query: Query) -> None:
    def next_batch() -> None:
        FEEDS["living"] += items("a")
        assert query.batch() == ["a"]
        assert made_in(query.saved) == []
        assert len(waiting(query.state)) == 1
        assert query.batch() is None

    made = query.create(next_batch)
    assert [Path(made.directory)] == made_in(query.saved)
    assert (made.requested, made.checkpoint_id, made.batch_id) == (True, 2, 1)
    assert Remembering.told == [False, True]
    assert Path(made.directory, "readers", "0", "a.bin").read_bytes() == b"a"
    assert waiting(query.state) == []


def test_an_idle_query_makes_the_savepoint_at_once_with_an_empty_batch(query: Query) -> None:
    def idle() -> None:
        assert [query.batch(), query.batch()] == [[], None]

    assert query.create(idle).batch_id == 1


def test_a_driver_replaced_while_it_makes_a_savepoint_leaves_it_to_the_next_driver(query: Query) -> None:
    def killed() -> None:
        query.batches.trigger()
        query.batches.restart()
        query.batches.commit()
        assert query.batch() is None

    made = query.create(killed)
    assert (made.requested, made.checkpoint_id) == (True, 2)
    assert waiting(query.state) == []


def test_a_savepoint_that_was_finished_without_the_driver_and_deleted_does_not_come_back(
    query: Query,
) -> None:
    def last_batch() -> None:
        FEEDS["living"] += items("a")
        assert query.batch() == ["a"]

    savepoints.delete(query.create(last_batch).directory)
    query.poll()
    assert query.batch() is None
    assert made_in(query.saved) == []


def test_a_fork_does_not_take_the_savepoint_of_its_original_for_its_own(query: Query, tmp_path: Path) -> None:
    """Both have the same lineage, and are asked for a savepoint in the same directory at the same time."""
    whole = savepoints.create(state=str(query.state), to=str(tmp_path / "whole"), query=True)
    savepoints.restore_query(whole.directory, str(tmp_path / "fork"))
    fork = copy.copy(query)
    fork.checkpoint = tmp_path / "fork"
    fork.state = fork.checkpoint / "flip27"
    fork.batches = polling(str(fork.state), LocalStore(str(fork.state)))
    fork.batches.now_ms = AHEAD_MS
    fork.batches.committed = query.batches.committed
    fork.batches.restart()
    FEEDS["living"] += items("a")
    assert [fork.batch(), query.batch()] == [["a"], ["a"]]
    FEEDS["living"] += items("b")
    assert query.batch() == ["b"]

    def of_both() -> None:
        query.create(lambda: [query.batch(), query.batch()])
        assert [fork.batch(), fork.batch()] == [["b"], None]

    made = fork.create(of_both)
    assert (made.requested, made.checkpoint_id) == (True, 3)
    assert len(made_in(query.saved)) == 2
    fork.batches.holder.close()


def test_after_the_driver_has_ended_the_newest_complete_checkpoint_is_copied(query: Query) -> None:
    query.end_the_driver()
    made = query.create()
    assert (made.requested, made.checkpoint_id, made.batch_id) == (False, 1, 0)
    assert waiting(query.state) == []


def test_a_stopped_query_is_not_waited_for(query: Query) -> None:
    query.batches.holder.close()
    assert query.create().requested is False
    assert query.said == []


def test_no_request_is_sent_to_a_query_that_does_not_poll_for_requests(tmp_path: Path) -> None:
    assert Query(tmp_path, requestInterval="0s").create().requested is False


@pytest.mark.parametrize("way", ["copy", "query"])
def test_a_living_query_can_be_copied_without_a_request(query: Query, way: str) -> None:
    assert query.create(**{way: True}).requested is False


def test_a_request_to_a_driver_that_ends_meanwhile_is_withdrawn_and_a_copy_made(query: Query) -> None:
    made = query.create(query.end_the_driver)
    assert (made.requested, made.checkpoint_id) == (False, 1)
    assert waiting(query.state) == []
    assert [line.partition(") ")[2] or line for line in query.said] == [
        "has the request; waiting for its next batch boundary",
        "has ended",
        "the driver took no savepoint: copying the newest complete checkpoint",
    ]


def test_a_request_that_somebody_else_withdraws_is_answered_with_a_copy(query: Query) -> None:
    def withdraw() -> None:
        (request,) = query.state.glob("*/requests/*")
        request.unlink()

    assert query.create(withdraw).requested is False


def test_if_the_driver_cannot_make_the_savepoint_the_reason_is_reported_and_a_copy_made(query: Query) -> None:
    def the_driver_cannot_write_there() -> None:
        query.saved.write_text("no directory")
        query.batch()
        query.saved.unlink()

    made = query.create(the_driver_cannot_write_there)
    assert (made.requested, made.checkpoint_id) == (False, 1)
    assert "could not take the savepoint: cannot write" in "".join(query.said)
    assert waiting(query.state) == []


def test_a_savepoint_is_replaced_by_a_copy_if_a_reader_could_not_add_its_files(query: Query) -> None:
    def the_tasks_cannot_write_there() -> None:
        FEEDS["living"] += items("a")
        query.batches.trigger()
        query.saved.rmdir()
        query.saved.write_text("no directory")
        assert [row for task in query.batches.tasks() for row in query.batches.attempt(task)] == ["a"]
        query.saved.unlink()
        query.batches.commit()
        log_as_spark(query.batches, query.checkpoint, query.batch_id)

    made = query.create(the_tasks_cannot_write_there)
    assert (made.requested, made.checkpoint_id) == (False, 2)
    assert any("savepoint cannot be finished: subtask 0 could not add a.bin" in line for line in query.said)


def test_a_request_that_reaches_no_batch_boundary_in_time_is_withdrawn(query: Query) -> None:
    with pytest.raises(
        StateLocationError, match=r"is alive but reached no batch boundary.* was withdrawn"
    ) as caught:
        query.create(timeout_s=0)
    assert "--copy" in str(caught.value)
    assert waiting(query.state) == []
    assert not query.saved.exists()
    assert query.batch() is None


def test_a_savepoint_whose_batch_does_not_end_in_time_is_finished_after_it(query: Query) -> None:
    def begin_a_batch() -> None:
        FEEDS["living"] += items("a")
        query.batches.trigger()

    with pytest.raises(
        StateLocationError, match="checkpoint 2, which becomes the savepoint, was not known to be complete"
    ) as caught:
        query.create(begin_a_batch, timeout_s=0)
    assert made_in(query.saved) == []
    assert len(waiting(query.state)) == 1
    assert [row for task in query.batches.tasks() for row in query.batches.attempt(task)] == ["a"]
    query.batches.commit()
    query.batches.trigger()
    (made,) = made_in(query.saved)
    assert str(made) in str(caught.value)
    assert waiting(query.state) == []


def test_a_savepoint_whose_batch_is_committed_does_not_wait_for_the_next_trigger(query: Query) -> None:
    def last_batch_of_the_day() -> None:
        FEEDS["living"] += items("a")
        assert query.batch() == ["a"]

    made = query.create(last_batch_of_the_day)
    assert (made.requested, made.checkpoint_id, made.batch_id) == (True, 2, 1)
    assert Path(made.directory, "readers", "0", "a.bin").read_bytes() == b"a"
    assert waiting(query.state) == []
    before = {file: file.read_bytes() for file in query.saved.rglob("*") if file.is_file()}
    assert query.batch() is None
    assert {file: file.read_bytes() for file in query.saved.rglob("*") if file.is_file()} == before


def test_interrupting_the_wait_leaves_no_request(query: Query) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        query.create(interrupt)
    assert waiting(query.state) == []


def test_a_request_reaches_a_living_driver_through_a_bucket(s3_bucket: S3Bucket) -> None:
    FEEDS["living"] = items("first")
    state, saved = f"s3://{s3_bucket.name}/state", f"s3://{s3_bucket.name}/saved"
    batches = polling(state, open_store(state, s3_bucket.storage_options), **s3_bucket.options)
    batches.now_ms = AHEAD_MS
    batches.batch()

    def next_batch(said: str) -> None:
        batches.holder.look_for_requests()
        assert [batches.batch(), batches.batch()] == [[], None]

    given = s3_bucket.storage_options
    made = savepoints.create(
        state=state, to=saved, timeout_s=DEADLINE_S, progress=next_batch, storage_options=given
    )
    assert (made.requested, made.checkpoint_id) == (True, 2)
    assert savepoints.verify(made.directory, given).is_whole
    batches.holder.close()


def test_a_stop_with_savepoint_copies_what_was_committed_and_sends_no_request(query: Query) -> None:
    class Stops:
        def stop(self) -> None:
            """Leave the driver running: Spark ends it a little later."""

    made = savepoints.stop_with_savepoint(Stops(), str(query.saved), state=str(query.state))
    assert (made.requested, made.batch_id) == (False, 0)


def test_the_command_says_what_it_waits_for_and_answers_in_json(
    query: Query, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["savepoint", "create", "--state", str(query.state), "--to", str(query.saved), "--json"]
    assert main([*args, "--timeout", "0"]) == 1
    said = capsys.readouterr()
    assert "has the request; waiting for its next batch boundary" in said.err
    assert "reached no batch boundary" in json.loads(said.out)["error"]["what"]
    query.end_the_driver()
    assert main(args) == 0
    assert json.loads(capsys.readouterr().out)["requested"] is False


class Clocks:
    """The clocks of the process that watches a driver."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


class Sender:
    """A process that sends a request to a driver, and watches it."""

    def __init__(self, store: MemoryStore, clocks: Clocks) -> None:
        self._store, self._watch = store, DriverWatch(wall_s=clocks, steady_s=clocks)

    def living(self) -> Driver | None:
        return self._watch.living(self._store, LINEAGE)

    @property
    def is_doubtful(self) -> bool:
        found = self._watch.newest(self._store, LINEAGE)
        return found is not None and found.is_doubtful


def test_a_driver_counts_as_living_while_it_renews_its_record(clocks: Clocks) -> None:
    store = MemoryStore()
    assert Sender(store, clocks).living() is None
    epoch = DriverEpoch(store, LINEAGE, 1_000_000, is_renewed=True)
    watch = Sender(store, clocks)
    for _ in range(3):
        assert watch.living() is not None
        clocks.now_s += 30
        epoch.renew(int(clocks.now_s * 1000))
    assert watch.living() is not None
    clocks.now_s += 41
    assert watch.living() is None
    assert Sender(store, clocks).living() is None


@pytest.mark.parametrize("has_same_name", [False, True])
def test_a_driver_on_another_host_is_judged_by_its_record_alone(
    has_same_name: bool, clocks: Clocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    DriverEpoch(store, LINEAGE, 1_000_000, is_renewed=True)
    (file,) = (name for name in store.files if name.endswith(".json"))
    record = json.loads(store.files[file])
    with monkeypatch.context() as another:
        if has_same_name:  # such as localhost, or a container's hostname
            (tmp_path / "boot_id").write_text("01234567-0000")
            another.setattr(driver_epochs, "_BOOT_ID", tmp_path / "boot_id")
        else:
            another.setattr(driver_epochs.socket, "gethostname", lambda: "elsewhere")
        store.files[file] = json.dumps({**record, "process": 2**22 + 1}).encode()
        assert Sender(store, clocks).living() is not None
    store.files[file] = json.dumps({**record, "process": 2**22 + 1}).encode()
    assert Sender(store, clocks).living() is None


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_driver_whose_record_cannot_be_read_is_judged_by_its_renewals(
    is_damaged: bool, clocks: Clocks
) -> None:
    class Forgetful(MemoryStore):
        """As a file system on a network that remembers that a name was missing until its folder is listed."""

        missing = ""

        def read(self, name: str, limit: int | None = None) -> bytes:
            if name == self.missing:
                self.missing = ""
                raise MissingStateError(f"no {name}", remedy="look again")
            return super().read(name, limit)

    store = Forgetful()
    epoch = DriverEpoch(store, LINEAGE, 1_000_000, is_renewed=True)
    (file,) = (name for name in store.files if name.endswith(".json"))
    if is_damaged:
        store.files[file] = b'{"host": "a'
    store.missing = file
    watch = Sender(store, clocks)
    assert watch.living() is not None
    clocks.now_s += 41
    assert watch.living() is None
    assert watch.is_doubtful
    epoch.renew(1_041_000)
    assert watch.living() is not None
    epoch.end()
    assert watch.living() is None
    assert not watch.is_doubtful


def test_a_driver_that_has_recorded_its_end_does_not_live_even_if_its_renewal_stays(clocks: Clocks) -> None:
    store = MemoryStore()
    epoch = DriverEpoch(store, LINEAGE, 1_000_000, is_renewed=True)
    renewal = {name: data for name, data in store.files.items() if name.endswith(".alive")}
    epoch.end(1_001_000)
    store.files |= renewal
    assert Sender(store, clocks).living() is None


def test_a_driver_still_lives_whose_lineage_was_claimed_in_vain(clocks: Clocks) -> None:
    """``flip27 retire`` would remove its state before it renews again."""
    store = MemoryStore()
    DriverEpoch(store, LINEAGE, 1_000_000, is_renewed=True)
    DriverEpoch(store, LINEAGE, 1_000_000).give_back()
    assert Sender(store, clocks).living() is not None
    replaced = DriverEpoch(store, LINEAGE, 1_000_000)
    assert Sender(store, clocks).living() is None
    replaced.forget_claims()
    assert [name for name in store.files if name.endswith(".alive")] == []


def test_a_driver_that_was_replaced_or_lost_its_lineage_renews_no_record(clocks: Clocks) -> None:
    store = MemoryStore()
    older = DriverEpoch(store, LINEAGE, 1_000_000, is_renewed=True)
    DriverEpoch(store, LINEAGE, 1_000_000, is_renewed=True)
    before = dict(store.files)
    older.renew(2_000_000)
    assert store.files == before
    store.files.clear()
    older.renew(2_000_000)
    assert store.files == {}


def test_a_driver_that_has_ended_no_longer_lives_and_ends_without_an_error(
    clocks: Clocks, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    DriverEpoch(store, LINEAGE, 1_000_000, is_renewed=True).end()
    assert Sender(store, clocks).living() is None

    class Gone(MemoryStore):
        def delete(self, name: str) -> None:
            raise OSError("not mounted")

    DriverEpoch(Gone(), LINEAGE, 1_000_000, is_renewed=True).end()
    assert "drivers/1.1000000.alive cannot be deleted: OSError: not mounted" in caplog.text


class HeldStore(MemoryStore):
    """A store in which the next renewal stops half-way until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = False
        self.arrived, self.let_go = threading.Event(), threading.Event()

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        if self.holds and name.endswith(".alive"):
            self.holds = False
            self.arrived.set()
            assert self.let_go.wait(DEADLINE_S)
        return super().create(name, data, exclusive=exclusive)


def alive(store: MemoryStore) -> list[str]:
    return [name for name in store.files if name.endswith(".alive")]


def held_renewal(store: HeldStore, epoch: DriverEpoch, now_ms: int) -> threading.Thread:
    """Begin a renewal on a new thread, and return the thread once the renewal waits."""
    store.holds = True
    thread = threading.Thread(target=epoch.renew, args=(now_ms,))
    thread.start()
    assert store.arrived.wait(DEADLINE_S)
    return thread


def test_a_driver_that_ends_while_it_renews_its_record_no_longer_lives(clocks: Clocks) -> None:
    store = HeldStore()
    epoch = DriverEpoch(store, LINEAGE, 1_000_000, is_renewed=True)
    renewal = held_renewal(store, epoch, 1_000_005)
    epoch.end()
    store.let_go.set()
    renewal.join(DEADLINE_S)
    assert alive(store) == []
    assert Sender(store, clocks).living() is None
    epoch.renew(1_000_010)
    assert alive(store) == []


def test_two_renewals_at_once_leave_no_file_behind(clocks: Clocks) -> None:
    """A restarted query renews on a new thread while a renewal on the old one may be under way."""
    store = HeldStore()
    epoch = DriverEpoch(store, LINEAGE, 1_000_000, is_renewed=True)
    renewal = held_renewal(store, epoch, 1_000_005)
    epoch.renew(1_000_010)
    store.let_go.set()
    renewal.join(DEADLINE_S)
    assert len(alive(store)) == 1
    epoch.end()
    assert alive(store) == []


@pytest.mark.parametrize("ends_meanwhile", [False, True])
def test_a_renewal_whose_answer_was_lost_leaves_nothing_behind_when_the_driver_ends(
    clocks: Clocks, ends_meanwhile: bool
) -> None:
    class LosesAnswers(MemoryStore):
        def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
            if name.endswith("5.alive") and ends_meanwhile:
                epoch.end()
            created = super().create(name, data, exclusive=exclusive)
            if name.endswith("5.alive"):
                raise StateLocationError("the answer was lost")
            return created

    store = LosesAnswers()
    epoch = DriverEpoch(store, LINEAGE, 1_000_000, is_renewed=True)
    with pytest.raises(StateLocationError):
        epoch.renew(1_000_005)
    epoch.end()
    assert alive(store) == []


def test_a_query_that_goes_back_to_its_very_beginning_no_longer_drives_its_old_lineage(
    clocks: Clocks,
) -> None:
    FEEDS["begins again"] = items("a")
    batches = Batches(Feed, Remembering, {"feed": "begins again", "stateLocation": "/unused"})
    batches.batch()
    store = batches.store
    assert isinstance(store, MemoryStore)
    (old,) = {name.partition("/")[0] for name in store.files}
    batches.committed = INITIAL
    batches.batch()
    assert [name.partition("/")[0] == old for name in alive(store)] == [False]
    batches.holder.close()
    assert alive(store) == []


def test_a_driver_that_renews_its_record_never_appears_dead(clocks: Clocks) -> None:
    seen: list[bool] = []

    class Watched(MemoryStore):
        def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
            seen.append(Sender(self, clocks).living() is not None)
            created = super().create(name, data, exclusive=exclusive)
            seen.append(Sender(self, clocks).living() is not None)
            return created

        def delete(self, name: str) -> None:
            super().delete(name)
            seen.append(Sender(self, clocks).living() is not None)

    store = Watched()
    epoch = DriverEpoch(store, LINEAGE, 1_000_000, is_renewed=True)
    seen.clear()
    epoch.renew(1_000_005)
    assert seen == [True, True, True]
    assert len(store.files) == 2


def test_a_running_query_renews_its_record_independently_of_its_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flip27_source.driver.cycle.RENEWED_EVERY_MS", 1)
    FEEDS["renewed"] = items("first")
    state = tmp_path / "state"
    batches = Batches(
        Feed, Remembering, {"feed": "renewed", "stateLocation": str(state)}, store=LocalStore(str(state))
    )
    batches.batch()
    batches.now_ms = 77_000
    until(lambda: [file.name for file in state.glob("*/drivers/*.alive")] == ["1.77000.alive"])
    batches.holder.close()
