"""Sources of one application that wait for each other; each is in a driver of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest

from flip27_source.coordination.groups import Member
from flip27_source.testing import MicroBatchEngine
from tests.event_logs import LogQuery, write_logs

S_US = 1_000_000
NOW_MS = 1_700_000_000_000
DAY_AGO_US = (NOW_MS - 86_400_000) * 1000
ALIGNED = {"alignmentGroup": "orders", "maxEventTimeDrift": "10s", "maxRowsPerTrigger": "20"}


@pytest.fixture
def application(tmp_path: Path) -> Path:
    folder = tmp_path / "blockmgr-0f3a"
    folder.mkdir()
    return folder


def query(
    application: Path, name: str, times_s: Sequence[int], options: dict[str, str] | None = None, **more: bool
) -> LogQuery:
    """A query of one log, whose records are at these seconds of the day before."""
    folder = application.parent / name
    write_logs(folder, {name: [DAY_AGO_US + second * S_US for second in times_s]})
    given = {"uid": name, **(ALIGNED if options is None else options)}
    return settled(LogQuery(str(folder), given, application=application, now_ms=NOW_MS, **more))


def settled(one: LogQuery) -> LogQuery:
    """A run that has begun a minute ago: it does not wait for members that have not planned yet."""
    one.now_ms -= 60_000
    one.holder.coordinator_at(one.logs.committed)
    one.now_ms += 60_000
    return one


def seconds(one: LogQuery) -> list[int]:
    return [(us - DAY_AGO_US) // S_US for us in one.next_us()]


def all_seconds(one: LogQuery) -> list[int]:
    return [(row[1] - DAY_AGO_US) // S_US for row in one.rows]


def test_a_source_that_is_ahead_waits_for_the_slowest(application: Path) -> None:
    slow = query(application, "slow", range(200))
    fast = query(application, "fast", range(0, 2000, 10))
    # The first one to plan is alone.
    assert seconds(slow) == list(range(20))
    # The slowest can reach second 40 with its next batch.
    assert seconds(fast) == [0, 10, 20, 30, 40, 50]
    assert fast.numbers()["alignmentSlowest"] == "slow"
    assert seconds(fast) == []
    assert seconds(slow) == list(range(20, 40))
    assert seconds(fast) == [60, 70]


@pytest.mark.parametrize("first", ["slow", "fast"])
def test_sources_that_start_together_wait_for_each_other_from_the_first_batch_on(
    application: Path, first: str
) -> None:
    """Also without limits: the first one to plan does not know yet who else will."""
    unlimited = {"alignmentGroup": "orders", "maxEventTimeDrift": "10s"}
    slow = query(application, "slow", range(100), unlimited)
    fast = query(application, "fast", range(0, 2000, 10), unlimited)
    for one in (slow, fast):
        one.restart()
    for one in [slow, fast] if first == "slow" else [fast, slow]:
        assert max(seconds(one)) == (10 if one.source.uid == first else 99 if one is slow else 100)
    for one in [slow, fast] if first == "slow" else [fast, slow]:
        one.run_batch()
    assert all_seconds(slow) == list(range(100))
    assert all_seconds(fast) == list(range(0, 110, 10))


def test_a_source_that_is_alone_goes_on_by_one_drift_until_the_timeout(application: Path) -> None:
    one = query(application, "one", range(200), {"alignmentGroup": "orders", "maxEventTimeDrift": "10s"})
    one.restart()
    assert seconds(one) == list(range(11))
    assert seconds(one) == list(range(11, 22))
    one.now_ms += 60_000
    assert seconds(one) == list(range(22, 200))


def test_a_source_in_which_nothing_waits_any_more_holds_the_others_until_the_timeout(
    application: Path,
) -> None:
    slow = query(application, "slow", range(5))
    fast = query(application, "fast", range(0, 100, 10))
    assert seconds(slow) == list(range(5))
    assert seconds(fast) == [0, 10]
    for one in (slow, fast):
        one.now_ms += 59_000
        assert seconds(one) == []
    slow.now_ms += 1_000
    assert seconds(slow) == []
    assert seconds(fast) == list(range(20, 100, 10))


def test_a_source_does_not_wait_for_its_own_run_before(application: Path) -> None:
    one = query(application, "one", range(200))
    seconds(one)
    one.restart(options={"maxRowsPerTrigger": None})
    assert seconds(settled(one)) == list(range(20, 200))


def test_after_a_restart_a_source_in_which_nothing_waits_holds_nobody(application: Path) -> None:
    """No mark of the run before is kept (FLINK-40505)."""
    slow = query(application, "slow", range(5))
    fast = query(application, "fast", range(0, 100, 10))
    seconds(slow)
    assert seconds(fast) == [0, 10]
    slow.restart()
    assert seconds(slow) == []
    assert seconds(fast) == list(range(20, 100, 10))


def test_a_source_in_which_nothing_waits_does_not_hold_others_until_its_next_trigger(
    application: Path,
) -> None:
    """It is alive, and is not asked: its query waits for a trigger, or its batch takes long."""
    slow = query(application, "slow", range(5))
    fast = query(application, "fast", range(0, 100, 10))
    assert seconds(slow) == list(range(5))
    assert seconds(fast) == [0, 10]
    fast.now_ms += 60_000
    assert seconds(fast) == list(range(20, 100, 10))


def test_a_member_that_is_silent_for_too_long_does_not_count(application: Path) -> None:
    slow = query(application, "slow", range(100))
    fast = query(application, "fast", range(0, 100, 10))
    seconds(slow)
    assert seconds(fast) == [0, 10, 20, 30, 40, 50]
    # In this environment no thread shows that its driver is alive.
    fast.now_ms += 60_000
    assert seconds(fast) == []
    fast.now_ms += 1
    assert seconds(fast) == [60, 70, 80, 90]


def test_a_source_shows_four_times_a_second_at_most_that_it_is_alive(application: Path) -> None:
    seconds(query(application, "one", range(5), ALIGNED | {"alignmentTimeout": "1ms"}))
    (path,) = application.glob("*/*")
    assert msgspec.json.decode(path.read_bytes(), type=Member).timeout_ms == 1000


def test_a_query_that_was_stopped_does_not_count(application: Path) -> None:
    slow = query(application, "slow", range(100))
    fast = query(application, "fast", range(0, 100, 10))
    seconds(slow)
    assert len(seconds(fast)) == 6
    slow.stop()
    assert seconds(fast) == [60, 70, 80, 90]


def test_other_groups_and_applications_do_not_count(application: Path) -> None:
    fast = query(application, "fast", range(0, 100, 10))
    elsewhere = application.parent / "blockmgr-1"
    elsewhere.mkdir()
    others = [
        query(application, "other", range(100), ALIGNED | {"alignmentGroup": "other"}),
        query(application, "none", range(100), {"maxRowsPerTrigger": "20"}),
    ]
    others[1].application = elsewhere
    for one in others:
        assert len(seconds(one)) == 20
    assert len(seconds(fast)) == 10


def test_after_a_restart_the_run_before_does_not_count(application: Path) -> None:
    """The driver before may still be there: here it is not stopped, and keeps its file."""
    one = query(application, "one", range(100))
    fast = query(application, "fast", range(0, 400, 10))
    seconds(one)
    seconds(one)
    one.restart()
    assert seconds(settled(one)) == list(range(40, 60))
    assert seconds(fast) == list(range(0, 100, 10))
    folder = next(application.iterdir())
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("seed", range(8))
def test_all_is_read_once_in_any_order_of_plannings(application: Path, seed: int) -> None:
    """Batches, restarts and data that comes later, of three sources; then all of them end."""
    random = Random(seed)
    queries, expected = [], {}
    for name in ("a", "b", "c"):
        times_s = sorted(random.choices(range(500), k=random.choice([0, 10, 150])))
        options = ALIGNED | {"maxRowsPerTrigger": str(random.choice([5, 20, 100]))}
        queries.append(query(application, name, times_s, options))
        expected[name] = times_s
    for _ in range(60):
        one = random.choice(queries)
        what = random.random()
        if what < 0.1:
            one.restart()
        elif what < 0.2:
            first_s = (expected[one.source.uid] or [0])[-1]
            times_s = sorted(random.choices(range(first_s, first_s + 300), k=4))
            write_logs(
                application.parent / one.source.uid,
                {one.source.uid: [t * S_US + DAY_AGO_US for t in times_s]},
            )
            expected[one.source.uid] += times_s
        else:
            one.run_batch()
    for _ in range(2000):
        for one in queries:
            one.now_ms += 1_000
            one.run_batch()
        if all(all_seconds(one) == expected[one.source.uid] for one in queries):
            break
    for one in queries:
        assert all_seconds(one) == expected[one.source.uid]


@pytest.mark.parametrize("first", ["slow", "fast"])
def test_runs_that_end_read_all(application: Path, first: str) -> None:
    """``Trigger.AvailableNow``: one that is held goes on with batches without data until it may read."""
    slow = query(application, "slow", range(100), available_now=True)
    fast = query(application, "fast", range(0, 1000, 10), available_now=True)
    order: list[MicroBatchEngine] = [slow, fast] if first == "slow" else [fast, slow]
    running = list(order)
    for _ in range(100):
        running = [one for one in running if one.run_batch() is not None]
    assert running == []
    assert all_seconds(slow) == list(range(100))
    assert all_seconds(fast) == list(range(0, 1000, 10))


def test_sources_are_replayed_in_step(application: Path) -> None:
    """The source with the earliest data sets the pace, also if it plans later."""
    options = {"alignmentGroup": "orders", "replaySpeed": "10"}
    late = query(application, "late", range(60, 120), options)
    early = query(application, "early", range(120), options)
    assert seconds(late) == [60]
    assert seconds(early) == [0]
    for passed_ms in range(100, 12_100, 100):
        for one in (late, early):
            one.now_ms = NOW_MS + passed_ms
            assert (
                seconds(one) == [passed_ms // 100] * (one is early or passed_ms >= 6_100)
                or passed_ms == 12_000
            )
    assert len(all_seconds(late)) == 60
    assert len(all_seconds(early)) == 120


def test_the_pace_of_a_query_that_was_stopped_holds_nobody_for_longer_than_the_timeout(
    application: Path,
) -> None:
    options = {"alignmentGroup": "orders", "replaySpeed": "10"}
    old = query(application, "old", [-10_000_000, 0], options)
    members = [query(application, name, range(60), options) for name in ("one", "other")]
    assert seconds(old) == [-10_000_000]
    assert [seconds(one) for one in members] == [[], []]
    old.stop()
    for passed_ms, expected in ((59_000, []), (60_000, [0]), (61_000, list(range(1, 11)))):
        for one in members:
            one.now_ms = NOW_MS + passed_ms
        assert [seconds(one) for one in members] == [expected, expected]


def test_a_folder_that_cannot_be_used_holds_nobody(
    application: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slow = query(application, "slow", range(100))
    fast = query(application, "fast", range(0, 100, 10))
    elsewhere = application.parent / "elsewhere"
    elsewhere.mkdir()
    seconds(slow)
    (folder,) = application.iterdir()
    folder.rename(application.parent / "moved")
    folder.symlink_to(elsewhere)
    assert len(seconds(fast)) == 10
    assert seconds(slow) == list(range(20, 40))
    told = [record.message for record in caplog.records if "alignmentGroup" in record.message]
    assert len(told) == 2
