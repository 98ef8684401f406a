"""Files that are found by the messages of SQS queues, on a real S3 server, through restarts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from flip27_source import savepoints
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.notifications import inbox
from flip27_source.enumerators.files.notifications.rounds import NotifiedDiscovery
from flip27_source.enumerators.files.notifications.state import RemovedFile
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import DiscoveryError, Flip27Error
from flip27_source.notifications import FileEvent, Message, NotificationQueue
from flip27_source.options import Options
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from flip27_source.testing.spark_side import as_value
from tests.deadline import until
from tests.enumerators.files.file_sources import write
from tests.file_queues import FileQueue, connect, message, new_queue, through_event_bridge, through_sns
from tests.quick_moto import quick_answers
from tests.s3_server import S3Bucket, new_bucket, s3_endpoint
from tests.toy_sources import planned_splits


@pytest.fixture(autouse=True)
def _no_long_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait in short polls: this server searches the whole queue for each answer."""
    monkeypatch.setattr(inbox, "_SHORT_POLL_S", 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A bucket, a queue and a state location."""

    bucket: S3Bucket
    queue: FileQueue
    state: Path

    def options(self, **more: str) -> dict[str, str]:
        return {
            "enumerator": "files", "reader": "text", "path": f"s3://{self.bucket.name}/landing",
            "discovery": "notifications", "notificationQueues": self.queue.url,
            "stateLocation": str(self.state), **self.bucket.options, **more,
        }  # fmt: skip

    def query(self, *, available_now: bool = True, **more: str) -> MicroBatchEngine:
        return MicroBatchEngine(self.options(**more), available_now=available_now)

    def started(self, **more: str) -> MicroBatchEngine:
        """A query that has read the object ``landing/first``."""
        self.put("landing/first")
        engine = self.query(**more)
        engine.process_all_available()
        return engine

    def put(self, *keys: str, content: str = "") -> None:
        for key in keys:
            self.bucket.file_system.pipe_file(f"{self.bucket.name}/{key}", (content or key).encode())

    def connect(self) -> None:
        """Make the bucket send the events of the landing folder to the queue."""
        connect(self.bucket, self.queue, "landing/")

    def message(self, *keys: str, event: str = "ObjectCreated:Put") -> str:
        return message(self.bucket.name, *keys, event=event)

    def send(self, *keys: str, event: str = "ObjectCreated:Put") -> None:
        """Send a message about these objects."""
        self.queue.send(self.message(*keys, event=event))

    def wait_until_deleted(self) -> None:
        """Wait until no message is left."""
        until(lambda: self.queue.left == 0)


@pytest.fixture
def landing(s3_bucket: S3Bucket, tmp_path: Path) -> Landing:
    return Landing(bucket=s3_bucket, queue=new_queue(s3_bucket), state=tmp_path)


def read(engine: MicroBatchEngine) -> Counter[Any]:
    return Counter(row[0] for row in engine.rows)


def gauges(engine: MicroBatchEngine) -> dict[str, int]:
    numbers = engine.holder.coordinator_at(as_value(engine.logs.offsets[-1])).gauges
    names = ("filesFoundByListing", "filesRemoved", "messagesSetAside")
    return {name: int(numbers[name]) for name in names if numbers.get(name)}


def stored(engine: MicroBatchEngine) -> Any:
    coordinator = engine.holder.coordinator_at(as_value(engine.logs.offsets[-1]))
    enumerator = coordinator.enumerator
    assert isinstance(enumerator, FilesEnumerator)
    return enumerator.snapshot_state(coordinator.last_checkpoint_id).position.notified


def planned(engine: MicroBatchEngine) -> dict[str, FileSplit]:
    splits = planned_splits(engine.source, engine.partitions())
    return {split.path: split for split in splits}


def run_again(engine: MicroBatchEngine) -> None:
    """Run the query again until nothing is left."""
    engine.restart(available_now=True)
    engine.process_all_available()


def test_each_object_of_a_bucket_that_sends_its_events_is_read_once(landing: Landing) -> None:
    landing.connect()
    engine = landing.started()
    landing.put("landing/b c+d%20ü", "landing/_hidden", "landing/below/x", "elsewhere/e")
    run_again(engine)
    assert read(engine) == Counter({"landing/first": 1, "landing/b c+d%20ü": 1})
    assert gauges(engine) == {}
    landing.wait_until_deleted()


def test_events_of_every_kind_are_read_and_events_of_other_files_are_deleted(landing: Landing) -> None:
    bucket = landing.bucket.name
    engine = landing.started(pathGlobFilter="*t")
    landing.put(*(f"landing/{name}.txt" for name in "abcd"), "landing/d=1/e.txt", "landing/f.csv")
    landing.queue.send(
        message(bucket, "landing/a.txt", "landing/d=1/e.txt"),
        through_sns(message(bucket, "landing/b.txt")),
        through_event_bridge(bucket, "landing/c.txt"),
        message(bucket, "landing/f.csv", "landing/x/y.txt", "landingg/g.txt", "landing/_h/i=1/j.txt"),
        message("another", "landing/a.txt"),
        message(bucket, "landing/never-there.txt"),
    )
    run_again(engine)
    assert read(engine) == Counter(
        ["landing/first", *(f"landing/{name}.txt" for name in ("a", "b", "c", "d", "d=1/e"))]
    )
    assert gauges(engine) == {"filesFoundByListing": 1}, "no message has named d"
    landing.wait_until_deleted()


def test_a_run_that_lists_makes_no_request_for_an_object_that_the_listing_found(tmp_path: Path) -> None:
    with s3_endpoint() as endpoint, quick_answers(endpoint) as server:
        bucket = new_bucket(server.url)
        landing = Landing(bucket=bucket, queue=new_queue(bucket), state=tmp_path)
        landing.connect()
        engine = landing.started()
        landing.put(*(f"landing/{number}" for number in range(30)))
        server.requests.clear()
        run_again(engine)
        assert len(read(engine)) == 31
        assert gauges(engine) == {}
        assert server.requests["LIST"] > 0
        assert server.requests["HEAD"] < 5
        engine.stop()


def test_the_split_of_a_notified_file_equals_the_split_from_a_listing(
    landing: Landing, tmp_path: Path
) -> None:
    more = {"cleanSource": "delete", "maxPartitionBytes": "1m"}
    landing.put("landing/first")
    engine = landing.query(available_now=False, **more)
    engine.run_batch()  # has listed
    landing.put("landing/a", "landing/b=1/c")
    landing.send("landing/a", "landing/b=1/c")
    until(engine.trigger)
    notified = planned(engine)
    listed = landing.query(discovery="listing", stateLocation=str(tmp_path / "listed"), **more)
    listed.trigger()
    expected = {path: split for path, split in planned(listed).items() if not path.endswith("first")}
    assert notified == expected
    assert all(split.etag for split in notified.values())


@pytest.mark.parametrize("step", [Step.OFFSET_RETURNED, Step.SINK_WRITTEN])
def test_a_message_is_not_deleted_before_its_batch_is_complete(landing: Landing, step: Step) -> None:
    engine = landing.started()
    landing.put("landing/a")
    landing.queue.send(landing.message("landing/a"), landing.message("landing/a"))
    engine.restart()
    engine.crash_at(step)
    with pytest.raises(Crashed):
        engine.process_all_available()
    assert landing.queue.left == 2
    landing.queue.show_hidden()
    run_again(engine)
    assert read(engine) == Counter({"landing/first": 1, "landing/a": 1})
    landing.wait_until_deleted()


def test_the_next_run_deletes_messages_of_a_complete_batch_with_their_stored_receipts(
    landing: Landing,
) -> None:
    engine = landing.started()
    landing.put("landing/a")
    landing.send("landing/a")
    engine.restart()
    assert engine.run_batch() is not None
    assert landing.queue.left == 1, "the batch was not yet reported as complete"
    engine.restart()
    engine.run_batch()
    assert landing.queue.left == 0, "the message is deleted while it is still hidden"


def test_a_late_message_about_a_file_that_was_read_has_no_effect(landing: Landing) -> None:
    engine = landing.started()
    batches = len(engine.batches)
    landing.send("landing/first")
    engine.restart()
    until(lambda: engine.run_batch() is None and landing.queue.left == 0)
    assert len(engine.batches) == batches


def test_a_message_that_cannot_be_understood_is_set_aside_with_its_text(
    landing: Landing, caplog: pytest.LogCaptureFixture
) -> None:
    engine = landing.started()
    landing.put("landing/a")
    landing.queue.send("<poison/>", landing.message("landing/a"))
    run_again(engine)
    assert read(engine)["landing/a"] == 1
    assert gauges(engine) == {"messagesSetAside": 1}
    [aside] = stored(engine).messages
    assert (aside.queue, aside.body) == (landing.queue.url, "<poison/>")
    assert "is not JSON" in aside.problem
    assert "<poison/>" in caplog.text
    landing.wait_until_deleted()
    engine.restart()
    engine.run_batch()
    assert gauges(engine) == {"messagesSetAside": 1}


def test_a_file_that_is_removed_while_it_waits_is_not_read_and_counts_as_new_when_it_is_written_again(
    landing: Landing,
) -> None:
    landing.connect()
    engine = landing.started(maxFilesPerTrigger="1", fileOrder="name")
    landing.put("landing/a", "landing/b", "landing/c")
    engine.restart(available_now=False)
    until(lambda: engine.run_batch() is not None)
    landing.bucket.file_system.rm(f"{landing.bucket.name}/landing/c")
    until(lambda: [engine.run_batch()] and gauges(engine).get("filesRemoved") == 1)
    landing.put("landing/c", content="written again")
    until(lambda: [engine.run_batch()] and read(engine)["written again"] == 1)
    assert read(engine) == Counter(["landing/first", "landing/a", "landing/b", "written again"])
    until(lambda: engine.run_batch() is None and landing.queue.left == 0)
    assert stored(engine).to_forget == ()


def test_a_file_that_exists_again_is_read_despite_a_late_message_about_its_removal(landing: Landing) -> None:
    engine = landing.started(maxFilesPerTrigger="1")
    names = ["landing/a", "landing/b", "landing/c"]
    landing.put(*names)
    landing.send(*names)
    engine.restart(available_now=False)
    until(lambda: engine.run_batch() is not None)
    landing.send(*names, event="ObjectRemoved:Delete")
    until(lambda: engine.run_batch() is None and landing.queue.left == 0)
    assert read(engine) == Counter(["landing/first", *names])
    assert gauges(engine) == {}


def test_with_allow_overwrites_each_version_is_read_once(landing: Landing) -> None:
    landing.connect()
    engine = landing.started(allowOverwrites="true")
    landing.put("landing/first", content="second version")
    run_again(engine)
    run_again(engine)
    assert read(engine) == Counter(["landing/first", "second version"])


def test_a_missing_queue_stops_the_query_and_no_file_is_lost_once_the_queue_exists_again(
    landing: Landing,
) -> None:
    engine = landing.started(discoveryRetries="0")
    landing.queue.remove()
    landing.put("landing/a")
    engine.restart()
    with pytest.raises(Flip27Error, match="flip27 notifications create") as error:
        engine.process_all_available()
    assert landing.queue.url in str(error.value)
    landing.queue.restore()
    landing.put("landing/b")
    landing.send("landing/b")
    run_again(engine)
    assert read(engine) == Counter(["landing/first", "landing/a", "landing/b"])
    assert gauges(engine) == {"filesFoundByListing": 1}


class Spool(NotificationQueue):
    """A user's own notification service: messages in memory."""

    queues: ClassVar[dict[str, dict[str, FileEvent]]] = {}
    arrived: ClassVar[set[str]] = set()

    def __init__(self, url: str, options: Options) -> None:
        super().__init__(url, options)
        self.lines, self.hidden = self.queues.setdefault(url, {}), set[str]()

    def receive(self, *, count: int, wait_s: float, hidden_s: float) -> Sequence[Message]:
        self.arrived.update(self.hidden)
        Event().wait(0.01)  # as for an answer over the network: the threads of several tests poll it
        shown = [item for item in list(self.lines.items()) if item[0] not in self.hidden][:count]
        self.hidden.update(receipt for receipt, _ in shown)
        return [Message(message_id=receipt, receipt=receipt, events=(event,)) for receipt, event in shown]

    def extend(self, receipts: Sequence[str], hidden_s: float) -> Mapping[str, str]:
        if not hidden_s:
            self.hidden.difference_update(receipts)
        return {}

    def delete(self, receipts: Sequence[str]) -> None:
        for receipt in receipts:
            self.lines.pop(receipt, None)


def lines_of(root: Path) -> dict[str, FileEvent]:
    return Spool.queues.setdefault(f"https://spool{root}", {})


def spooled(root: Path, **more: str) -> dict[str, str]:
    return {
        "enumerator": "files", "reader": "text", "path": str(root / "landing"),
        "stateLocation": str(root / "state"),
        "discovery": "notifications", "notificationQueues": f"https://spool{root}",
        "notificationService": f"{__name__}:Spool", **more,
    }  # fmt: skip


class Interleaved:
    """A query of one file for each batch, whose rounds of discovery the test runs and delivers."""

    def __init__(self, root: Path, *names: str, **more: str) -> None:
        self.folder = root / "landing"
        for name in ("0", *names):
            write(self.folder, name, data=name.encode())
        self._lines = lines_of(root)
        self.engine = MicroBatchEngine(spooled(root, maxFilesPerTrigger="1", fileOrder="name", **more))
        until(lambda: [self.engine.run_batch()] and read(self.engine))
        enumerator = self.engine.holder.coordinator_at(as_value(self.engine.logs.offsets[-1])).enumerator
        assert isinstance(enumerator, FilesEnumerator)
        self.enumerator: Any = enumerator
        self.deliver(self.round())

    def write(self, name: str, text: str, *, modified_s: int = 1) -> None:
        write(self.folder, name, data=text.encode())
        os.utime(self.folder / name, (modified_s, modified_s))
        self._send(name)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()
        self._send(name, removed=True)

    def _send(self, name: str, *, removed: bool = False) -> None:
        receipt = uuid4().hex
        self._lines[receipt] = FileEvent(path=str(self.folder / name), removed=removed)
        until(lambda: receipt in Spool.arrived)

    def round(self) -> NotifiedDiscovery:
        found: NotifiedDiscovery = self.enumerator._discover_next()
        return found

    def deliver(self, *rounds: NotifiedDiscovery) -> None:
        for done in rounds:
            self.enumerator._discovered(done, None)


def names_in(files: Iterable[FileSplit | RemovedFile]) -> list[str]:
    return [file.path[-1] for file in files]


def test_a_file_that_is_removed_and_written_again_before_the_query_knows_is_found(tmp_path: Path) -> None:
    query = Interleaved(tmp_path, "a", "b")
    query.remove("b")
    removed = query.round()
    query.write("b", "again")
    query.deliver(removed, query.round())
    assert names_in(query.round().splits) == ["b"]


def test_rounds_that_run_ahead_forget_each_removed_file_once(tmp_path: Path) -> None:
    query = Interleaved(tmp_path, "a", "b")
    query.remove("a")
    first = query.round()
    query.remove("b")
    second = query.round()
    query.deliver(first)
    query.write("a", "again")
    third = query.round()
    assert (names_in(third.forgotten), names_in(third.splits)) == (["a"], ["a"])
    query.deliver(second, third)
    fourth = query.round()
    assert (names_in(fourth.forgotten), names_in(fourth.splits)) == (["b"], [])


def test_a_file_is_not_read_if_it_is_removed_after_a_round_that_is_not_delivered(tmp_path: Path) -> None:
    query = Interleaved(tmp_path)
    query.write("a", "a")
    found = query.round()
    query.enumerator.snapshot_state(1)
    query.remove("a")
    query.deliver(found, query.round())
    assert query.enumerator.backlog([]).splits == 0


def test_each_waiting_version_of_a_removed_file_is_forgotten(tmp_path: Path) -> None:
    query = Interleaved(tmp_path, allowOverwrites="true")
    query.write("x", "first version", modified_s=1)
    query.deliver(query.round())
    query.write("x", "second", modified_s=2)
    query.deliver(query.round())
    query.remove("x")
    query.deliver(query.round())
    query.write("x", "first version", modified_s=1)
    query.deliver(query.round())
    query.engine.process_all_available()
    assert read(query.engine) == Counter(["0", "first version"])


def test_a_file_that_was_removed_before_a_change_to_listing_is_read_once_when_it_is_written_again(
    tmp_path: Path,
) -> None:
    query = Interleaved(tmp_path, "a", "b")
    query.remove("b")
    query.deliver(query.round())
    query.engine.process_all_available()
    query.engine.restart(available_now=True, options={"discovery": "listing"})
    query.engine.process_all_available()
    write(query.folder, "b", data=b"again")
    run_again(query.engine)
    query.engine.restart(available_now=True, options={"discovery": "notifications"})
    query.engine.process_all_available()
    assert read(query.engine) == Counter(["0", "a", "again"])
    assert stored(query.engine).to_forget == ()


def test_a_custom_service_has_three_methods_and_may_name_files_of_any_file_system(tmp_path: Path) -> None:
    folder = tmp_path / "landing"
    write(folder, "first", data=b"first")
    engine = MicroBatchEngine(spooled(tmp_path))
    engine.run_batch()
    write(folder, "a", data=b"a")
    paths = (folder / "a", folder / "gone", tmp_path / "a", folder / "\ud800")
    lines = lines_of(tmp_path)
    lines |= {str(number): FileEvent(path=str(path)) for number, path in enumerate(paths)}
    until(lambda: [engine.run_batch()] and not lines)
    assert read(engine) == Counter(["first", "a"])
    assert gauges(engine)["messagesSetAside"] > 0, "one path is not text"


def test_files_that_existed_at_the_first_start_can_be_left_out_although_messages_name_them(
    landing: Landing,
) -> None:
    landing.connect()
    landing.put("landing/old")
    engine = landing.query(available_now=False, includeExistingFiles="false")
    engine.run_batch()
    landing.put("landing/new")
    until(lambda: [engine.run_batch()] and landing.queue.left == 0)
    assert read(engine) == Counter(["landing/new"])


def test_a_query_can_change_between_listing_and_notifications(landing: Landing) -> None:
    landing.put("landing/a")
    engine = landing.query(discovery="listing", seenFiles="nameCursor")
    engine.process_all_available()
    for number, (discovery, seen) in enumerate((("notifications", "exact"), ("listing", "exact"))):
        landing.put(f"landing/b{number}")
        landing.send(f"landing/b{number}", "landing/a")
        options = landing.options(discovery=discovery, seenFiles=seen)
        after = MicroBatchEngine(options, store=engine.store, available_now=True)
        after.logs, after.sink = engine.logs, engine.sink
        after.process_all_available()
        engine = after
    assert read(engine) == Counter(["landing/a", "landing/b0", "landing/b1"])


def test_files_with_deleted_messages_are_found_again_when_a_query_returns_to_an_older_state(
    landing: Landing,
) -> None:
    landing.connect()
    engine = landing.started()
    landing.put("landing/a")
    run_again(engine)
    landing.wait_until_deleted()
    # A savepoint contains the checkpoint before the newest one, because that one is certainly complete.
    saved = savepoints.create(state=str(landing.state), to=str(landing.state / "saved")).directory
    state = str(landing.state / "fork")
    fork = landing.query(available_now=False, stateLocation=state, savepoint=saved)
    until(lambda: [fork.run_batch()] and read(fork) == Counter(["landing/a"]))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"notificationQueues": ""}, "reads the events of files there"),
        ({"notificationQueues": "files"}, "https://sqs"),
        ({"notificationQueues": "https://u:topsecret@sqs/1/files"}, "without credentials"),
        ({"notificationQueues": "https://sqs/1/files?X-Amz-Signature=topsecret"}, "without credentials"),
        ({"stateLocation": ""}, "stateLocation"),
        ({"seenFiles": "modifiedCursor"}, "seenFiles is modifiedCursor"),
        ({"path": "/landing"}, "path /landing has no events in sqs"),
        ({"notificationService": "sqss"}, "did you mean 'sqs'"),
        ({"notificationVisibilityTimeout": "13h"}, "12 hours"),
    ],
)
def test_options_that_are_incompatible_with_notifications_are_refused(
    landing: Landing, changed: dict[str, str], said: str
) -> None:
    landing.put("landing/a")
    given = {name: value for name, value in landing.options(**changed).items() if value}
    with pytest.raises(Flip27Error, match=said) as error:
        MicroBatchEngine(given, available_now=True).process_all_available()
    assert "topsecret" not in str(error.value)


def test_an_object_whose_event_time_is_not_known_leaves_its_message_in_the_queue(landing: Landing) -> None:
    order = {"eventTimeOrder": "true", "eventTimePattern": "%Y-%m-%d", "maxFilesPerTrigger": "1"}
    landing.connect()
    landing.put("landing/2024-01-03", "landing/2024-01-01")
    engine = landing.query(**order, discoveryRetries="0")
    engine.process_all_available()
    landing.put("landing/2024-01-02", "landing/undated")
    engine.restart(available_now=True)
    with pytest.raises(DiscoveryError, match="landing/undated has no event time by the option"):
        engine.process_all_available()
    assert landing.queue.left == 2
    landing.bucket.file_system.rm(f"{landing.bucket.name}/landing/undated")
    run_again(engine)
    assert [row[0] for row in engine.rows] == [f"landing/2024-01-0{day}" for day in (1, 3, 2)]
