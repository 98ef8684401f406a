"""CoordinatorHolder: Spark's calls in the orders in which Spark makes them, with crashes in between."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_source.coordination.batch_limits import Limits
from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import DiscoveryError, StateLocationError
from flip27_source.snapshots.store import MemoryStore, Store
from flip27_source.source import Source
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.toy_sources import (
    FEEDS,
    INITIAL,
    BulkFeed,
    CountingStore,
    EchoReader,
    Feed,
    Item,
    Shelf,
    holder_of,
    items,
    read_ids,
    source_of,
    within,
)

ALL = None
AS_USUAL = Limits()


@pytest.fixture
def feed(request: pytest.FixtureRequest) -> list[Item]:
    """An empty feed, named after the test; ``source`` reads it."""
    FEEDS[request.node.name] = []
    return FEEDS[request.node.name]


@pytest.fixture
def source(request: pytest.FixtureRequest, feed: list[Item]) -> Source:
    return source_of(Feed, {"feed": request.node.name})


class Told(Shelf):
    """Records its instances; the first one of a test has a, b and c on its shelf."""

    made: ClassVar[list[Told]] = []

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if not self.made:
            self.shelf.extend(items("a", "b", "c"))
        self.made.append(self)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Told.made.clear()


def through_spark(offset: dict[str, Any]) -> dict[str, Any]:
    value = json.loads(json.dumps(offset))
    assert isinstance(value, dict)
    return value


STORES = [pytest.param(lambda: None, id="inline"), pytest.param(MemoryStore, id="files")]


@pytest.mark.parametrize("new_store", STORES)
def test_an_idle_stream_returns_its_offset_unchanged_and_writes_nothing_R2(
    source: Source, feed: list[Item], new_store: Callable[[], Store | None]
) -> None:
    store = new_store()
    holder = holder_of(source, store)
    assert holder.latest_offset(INITIAL, ALL) == INITIAL
    feed.extend(items("a"))
    offset = through_spark(holder.latest_offset(INITIAL, ALL))
    before = dict(store.files) if isinstance(store, MemoryStore) else {}
    for limits in (ALL, AS_USUAL, Limits(files=1)):
        again = holder.latest_offset(offset, limits)
        assert json.dumps(again) == json.dumps(offset)
    assert not isinstance(store, MemoryStore) or store.files == before


def test_an_idle_call_does_not_use_the_state_location(source: Source, feed: list[Item]) -> None:
    store = CountingStore()
    holder = holder_of(source, store)
    feed.extend(items("a"))
    offset = through_spark(holder.latest_offset(INITIAL, ALL))
    before = store.calls
    for _ in range(50):
        holder.latest_offset(offset, AS_USUAL)
    assert store.calls == before


@pytest.mark.parametrize("new_store", STORES)
def test_a_plan_depends_only_on_the_stored_state_S95(
    source: Source, feed: list[Item], new_store: Callable[[], Store | None]
) -> None:
    """The tasks are the same when plan is called again, later, or in a new process before latestOffset."""
    store = new_store()
    holder = holder_of(source, store)
    feed.extend(items("a", "b", "c"))
    first = through_spark(holder.latest_offset(INITIAL, Limits(files=2)))
    planned = holder.plan(INITIAL, first)
    second = through_spark(holder.latest_offset(first, Limits(files=2)))

    def stored_files() -> dict[str, bytes]:
        """All but the records of drivers: a new process shows that it is alive."""
        stored = store.files.items() if isinstance(store, MemoryStore) else ()
        return {name: data for name, data in stored if "/drivers/" not in name}

    before = stored_files()
    assert holder.plan(INITIAL, first) == planned
    fresh = holder_of(source, store)
    assert fresh.plan(INITIAL, first) == planned
    assert fresh.plan(INITIAL, first) == planned
    assert read_ids(source, fresh.plan(first, second)) == ["c"]
    assert sorted(read_ids(source, planned)) == ["a", "b"]
    assert stored_files() == before


def test_a_restart_before_the_first_checkpoint_starts_at_the_beginning_S48(
    source: Source, feed: list[Item]
) -> None:
    store = MemoryStore()
    feed.extend(items("a"))
    holder_of(source, store).latest_offset(INITIAL, ALL)
    restarted = holder_of(source, store)
    assert read_ids(source, restarted.plan(INITIAL, restarted.latest_offset(INITIAL, ALL))) == ["a"]


@pytest.mark.parametrize("new_store", STORES)
def test_a_start_offset_that_goes_back_resets_the_coordinator_and_loses_nothing_R8_S9_S11(
    source: Source, feed: list[Item], new_store: Callable[[], Store | None]
) -> None:
    """latestOffset(start=N) while memory is at N+1 treats N+1 as if it had never been made."""
    holder = holder_of(source, new_store())
    feed.extend(items("a", "b", "c"))
    first = through_spark(holder.latest_offset(INITIAL, Limits(files=1)))
    holder.latest_offset(first, Limits(files=1))
    feed.extend(items("d"))
    again = through_spark(holder.latest_offset(first, ALL))
    assert again["checkpoint"] == 2
    assert sorted(read_ids(source, holder.plan(first, again))) == ["b", "c", "d"]
    assert holder.latest_offset(again, ALL) == again


def test_going_back_to_the_initial_offset_starts_a_new_lineage(source: Source, feed: list[Item]) -> None:
    store = MemoryStore()
    holder = holder_of(source, store)
    feed.extend(items("a"))
    first = through_spark(holder.latest_offset(INITIAL, ALL))
    # All files but those of the driver of the lineage, which has none any more.
    before = {name: data for name, data in store.files.items() if "/drivers/" not in name}
    again = through_spark(holder.latest_offset(INITIAL, ALL))
    assert read_ids(source, holder.plan(INITIAL, again)) == ["a"]
    assert read_ids(source, holder.plan(INITIAL, first)) == ["a"]
    assert {name: store.files[name] for name in before} == before


def test_completion_is_notified_once_at_commit_or_at_the_next_latest_offset_R7_S24() -> None:
    holder = holder_of(source_of(Told, {}), MemoryStore())

    def completions() -> list[str]:
        return [call for call in Told.made[0].calls if call.startswith("complete")]

    first = through_spark(holder.latest_offset(INITIAL, Limits(files=1)))
    assert completions() == []
    holder.commit(first)
    holder.commit(first)
    assert completions() == ["complete 1"]
    second = through_spark(holder.latest_offset(first, Limits(files=1)))
    assert completions() == ["complete 1"]
    third = through_spark(holder.latest_offset(second, Limits(files=1)))
    holder.commit(second)
    assert completions() == ["complete 1", "complete 2"]
    holder.commit(third)
    assert completions() == ["complete 1", "complete 2", "complete 3"]


class FailingStore(MemoryStore):
    """A store that cannot write while ``fails`` is set."""

    fails = False

    def create(self, name: str, data: bytes) -> bool:
        if self.fails:
            raise StateLocationError("no room")
        return super().create(name, data)


def test_splits_of_a_checkpoint_that_could_not_be_written_are_in_the_next_one(
    source: Source, feed: list[Item]
) -> None:
    """Spark never learns of a checkpoint that is not durable; the coordinator returns to the last one."""
    store = FailingStore()
    holder = holder_of(source, store)
    feed.extend(items("a"))
    first = through_spark(holder.latest_offset(INITIAL, ALL))
    feed.extend(items("b"))
    store.fails = True
    with pytest.raises(StateLocationError, match="no room"):
        holder.latest_offset(first, ALL)
    store.fails = False
    assert read_ids(source, holder.plan(first, holder.latest_offset(first, ALL))) == ["b"]


@pytest.mark.parametrize(
    ("options", "limits", "first_batch"),
    [
        ({}, AS_USUAL, 6),
        ({"maxFilesPerTrigger": "2"}, AS_USUAL, 2),
        ({"maxFilesPerTrigger": "2"}, Limits(files=5), 2),
        ({"maxFilesPerTrigger": "5"}, Limits(files=2), 2),
        ({"maxRowsPerTrigger": "30"}, AS_USUAL, 3),
        ({"maxRowsPerTrigger": "30", "maxFilesPerTrigger": "4"}, AS_USUAL, 3),
        ({"maxBytesPerTrigger": "1001"}, AS_USUAL, 2),
        ({"maxBytesPerTrigger": "1"}, AS_USUAL, 1),
        ({"maxBytesPerTrigger": "3000", "maxFilesPerTrigger": "2"}, AS_USUAL, 2),
        ({"maxBytesPerTrigger": "3000", "maxFilesPerTrigger": "4"}, AS_USUAL, 3),
        ({"maxFilesPerTrigger": "1", "maxRowsPerTrigger": "1"}, ALL, 6),
    ],
    ids=str,
)
def test_limits_of_options_and_of_spark_together_bound_a_batch(
    request: pytest.FixtureRequest, options: dict[str, str], limits: Limits | None, first_batch: int
) -> None:
    name = request.node.name
    FEEDS[name] = [Item(split_id=str(i), rows=10, bytes=1000) for i in range(6)]
    source = source_of(Feed, {"feed": name, **options})
    holder = holder_of(source, MemoryStore())
    end = holder.latest_offset(INITIAL, limits)
    assert len(read_ids(source, holder.plan(INITIAL, end))) == first_batch
    assert end["summary"]["splits"] == first_batch


def test_parallelism_comes_from_the_option_or_the_cores_of_the_driver() -> None:
    """600 MiB make five partitions of 128 MiB; three cores read six in two full rounds."""
    FEEDS["wide"] = [Item(split_id=str(i), bytes=50 << 20) for i in range(12)]
    for options, cores, expected in (({}, 3, 6), ({"parallelism": "4"}, 3, 4), ({"parallelism": "4"}, 9, 4)):
        source = source_of(Feed, {"feed": "wide", **options})
        holder = holder_of(source, MemoryStore(), cores=cores)
        assert len(holder.plan(INITIAL, holder.latest_offset(INITIAL, ALL))) == expected


def test_a_report_exists_only_after_the_first_checkpoint(source: Source, feed: list[Item]) -> None:
    holder = holder_of(source, MemoryStore())
    assert holder.report() is None
    feed.extend(items("a"))
    holder.latest_offset(INITIAL, ALL)
    reported = holder.report()
    assert reported is not None
    took = {reported.pop(name) for name in ("planningMs", "writeMs")}
    assert all(isinstance(ms, int) for ms in took)
    assert reported.pop("checkpointBytes") > 100
    assert reported == {"checkpoint": 1, "source": "flip27[Feed]"}


@dataclass(frozen=True, slots=True)
class Found:
    split_id: str


class Lists(DiscoveringEnumerator[Found]):
    """Discovers by the functions that tests put into ``lists``, which may wait."""

    lists: ClassVar[dict[str, Callable[[int | None], Sequence[str]]]] = {}
    options: ClassVar[tuple[Any, ...]] = Feed.options

    def discover(self, position: int | None) -> Discovery[Found, int]:
        found = self.lists[self.options_given["feed"]](position)
        return Discovery([Found(name) for name in found], (position or 0) + len(found))


def lists_source(name: str, discover: Callable[[int | None], Sequence[str]], **options: str) -> Source:
    Lists.lists[name] = discover
    return source_of(Lists, {"feed": name, **options})


def bounded(source: Source, store: Store | None = None) -> CoordinatorHolder:
    return holder_of(source, store or MemoryStore(), boundedness=Boundedness.BOUNDED)


@pytest.mark.parametrize("limits", [ALL, AS_USUAL], ids=["all", "as usual"])
def test_a_run_waits_for_its_first_discovery_before_it_reports_that_there_is_no_data(
    limits: Limits | None,
) -> None:
    source = lists_source("first", lambda position: ["a", "b"] if position is None else [])
    holder = bounded(source)
    end = holder.latest_offset(INITIAL, limits)
    assert read_ids(source, holder.plan(INITIAL, end)) == ["a", "b"]
    assert holder.latest_offset(end, limits) == end


def test_a_discovery_that_ends_during_a_checkpoint_attempt_is_not_missed() -> None:
    """Its result arrives just after the mailbox was empty; an AvailableNow run must not end without it."""
    go = threading.Event()
    others = set(threading.enumerate())  # of holders that earlier tests have left running

    class EndsMeanwhile(Lists):
        def handle_split_request(self, subtask_id: int) -> None:
            go.set()
            for thread in set(threading.enumerate()) - others:
                if thread.name == "flip27-async":
                    thread.join(10)
            super().handle_split_request(subtask_id)

    Lists.lists["meanwhile"] = lambda position: ["a"] if position is None and go.wait(10) else []
    source = source_of(EndsMeanwhile, {"feed": "meanwhile", "requestInterval": "0s"})
    holder = bounded(source)
    assert read_ids(source, holder.plan(INITIAL, holder.latest_offset(INITIAL, AS_USUAL))) == ["a"]


def test_calls_started_by_a_handler_belong_to_the_first_rounds() -> None:
    """If topics are listed first and then their partitions, an AvailableNow run must wait for both."""

    asked = threading.Event()

    class TwoSteps(Shelf):
        def start(self) -> None:
            self.context.call_async(lambda: "topic", self._topic)

        def _topic(self, topic: str | None, error: BaseException | None) -> None:
            self.context.call_async(lambda: f"{topic}-{int(asked.wait(10))}", self._partition)

        def _partition(self, partition: str | None, error: BaseException | None) -> None:
            self.shelf.extend(items(str(partition)))

        def handle_split_request(self, subtask_id: int) -> None:
            asked.set()
            super().handle_split_request(subtask_id)

    source = source_of(TwoSteps, {})
    holder = bounded(source)
    assert read_ids(source, holder.plan(INITIAL, holder.latest_offset(INITIAL, ALL))) == ["topic-1"]


def test_a_discovery_that_keeps_failing_fails_the_query_with_its_cause() -> None:
    def fails(position: int | None) -> Sequence[str]:
        raise OSError("bucket is gone")

    holder = bounded(lists_source("fails", fails, discoveryRetries="0"))
    with pytest.raises(DiscoveryError, match="could not discover splits: bucket is gone") as caught:
        holder.latest_offset(INITIAL, ALL)
    assert isinstance(caught.value.__cause__, OSError)
    assert "nothing is lost" in str(caught.value)
    assert "option discoveryRetries" in str(caught.value)


def test_waiting_splits_are_assigned_while_discovery_is_running() -> None:
    """After a restart with waiting pages the first batch does not wait for the listing."""
    store = MemoryStore()
    held = threading.Event()
    source = lists_source("pages", lambda position: ["a", "b", "c"] if position is None else [])
    first = through_spark(bounded(source, store).latest_offset(INITIAL, Limits(files=1)))
    Lists.lists["pages"] = lambda _: ["late"] if held.wait(10) else []
    restarted = bounded(source, store)
    results: list[dict[str, Any]] = []
    try:
        assert within(5, lambda: results.append(restarted.latest_offset(first, Limits(files=1))))
        assert read_ids(source, restarted.plan(first, results[0])) == ["b"]
    finally:
        held.set()


class GatedStore(MemoryStore):
    """A store where a listing of segments, with which clean-up begins, waits for ``gate``."""

    def __init__(self) -> None:
        super().__init__()
        self.listing = threading.Event()
        self.gate = threading.Event()

    def list(self, folder: str) -> list[str]:
        if folder.endswith("/segments"):
            self.listing.set()
            self.gate.wait(10)
        return super().list(folder)


@pytest.mark.parametrize("limits", [ALL, AS_USUAL], ids=["all", "as usual"])
def test_a_slow_clean_up_holds_up_no_batch(source: Source, feed: list[Item], limits: Limits | None) -> None:
    store = GatedStore()
    holder = holder_of(source, store)
    start = INITIAL
    for number in range(11):
        feed.extend(items(str(number)))
        start = through_spark(holder.latest_offset(start, ALL))
        holder.commit(start)
    assert store.listing.wait(10), "no clean-up has begun"
    results: list[dict[str, Any]] = []
    try:
        assert within(5, lambda: results.append(holder.latest_offset(start, limits)))
    finally:
        store.gate.set()
    assert results == [start]


DEATHS = {
    "1": Step.OFFSET_RETURNED,
    "2": Step.OFFSET_LOGGED,
    "3": Step.PLANNED,
    "4": Step.SINK_WRITTEN,
    "5": Step.COMMIT_LOGGED,
}


def play(engine: MicroBatchEngine, step: str) -> None:
    """b: a batch; 1 to 5: the driver dies in it; r: a restart; u: a lost commit; i: an idle call."""
    if step in DEATHS or step == "b":
        with contextlib.suppress(Crashed):
            engine.run_batch(crash_at=DEATHS.get(step))
        engine.itinerary.crash_points.clear()
        if engine.is_alive:
            return
    elif step == "u" and not engine.logs.has_uncommitted:
        engine.logs.commits.discard(max(engine.logs.commits, default=-1))
    elif step == "i" and not engine.logs.has_uncommitted:
        engine.latest_offset(engine.default_limits())
    engine.restart()


@settings(max_examples=120, derandomize=True)
@given(st.lists(st.sampled_from("pppbbb12345rui"), max_size=40), st.sampled_from(["inline", "files", "bulk"]))
def test_every_split_is_read_exactly_once_wherever_the_driver_dies_R1_R2_R3_R8(
    steps: list[str], kind: str
) -> None:
    """Items arrive at p; the other steps are those of ``play``."""
    feed = FEEDS["engine"] = []
    engine = MicroBatchEngine(
        {"feed": "engine", "inlineStateLimit": "1g", "maxFilesPerTrigger": "2"},
        enumerator=BulkFeed if kind == "bulk" else Feed,
        reader=EchoReader,
        schema=pa.schema([("id", pa.string())]),
        inline_state=kind == "inline",
    )
    for step in steps:
        if step == "p":
            feed += items(str(len(feed)))
        else:
            play(engine, step)
    engine.process_all_available()
    assert sorted(int(row[0]) for row in engine.rows) == list(range(len(feed)))
    for before, after in engine.sink.overwritten:
        assert sorted(before.rows) == sorted(after.rows), "a replayed batch has read other splits"


def test_gauge_names_are_in_the_summary_of_the_offset_unchanged() -> None:
    source = lists_source("gauges", lambda position: ["a"] if position is None else [])
    offset = bounded(source, MemoryStore()).latest_offset(INITIAL, ALL)
    assert offset["summary"] == {
        "backlogBytes": 0, "backlogRows": 0, "backlogSplits": 0, "files": 1, "finishedSplits": 1,
        "pendingSplits": 0, "splits": 1,
    }  # fmt: skip
