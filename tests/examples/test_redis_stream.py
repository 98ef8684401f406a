"""The example redis_stream, on a real server: entries are read once, and deleted after their batch."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
import redis

from examples.redis_stream.source import RedisStreamEnumerator, RedisStreamReader
from flip27_source.errors import DiscoveryError, SplitReadError
from flip27_source.testing import Crashed, MicroBatchEngine, SourceUnderTest, Step, check_source, run
from tests.examples.redis_server import redis_server

Engine = Callable[..., MicroBatchEngine]
Entry = tuple[str, dict[Any, Any]]

MORNING: list[Entry] = [
    ("1-1", {"user": "ada", "page": "/"}),
    ("1-2", {"user": "bob"}),
    ("2-1", {"user": "ada", "page": "/cart"}),
    ("10-1", {"user": "eve"}),
    ("10-2", {"user": "bob", "page": "/"}),
]

STEPS_OF_REPORTS = (Step.REPORT_WRITE, Step.REPORT_WRITTEN)
"""The steps of reports, which this source does not have: its splits are bounded before they are read."""

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 13) and shutil.which("redis-server") is None,
    reason="PyPI has no Redis server for this Python; these tests need redis-server on the PATH",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def server(url: str) -> Iterator[redis.Redis]:
    """A client of the server, which has only the entries of ``MORNING``."""
    with redis.Redis.from_url(url, decode_responses=True) as server:
        server.flushall()
        add(server, MORNING)
        yield server


@pytest.fixture
def source(url: str) -> SourceUnderTest:
    return SourceUnderTest(
        options={"url": url, "entriesPerSplit": "2"},
        enumerator=RedisStreamEnumerator,
        reader=RedisStreamReader,
    )


def add(server: redis.Redis, entries: list[Entry]) -> None:
    for entry_id, fields in entries:
        server.xadd("events", fields, id=entry_id)


def ids_of(rows: list[tuple[Any, ...]]) -> list[str]:
    return sorted(entry_id for entry_id, _ in rows)


def test_a_redis_stream_keeps_the_laws(source: SourceUnderTest, server: redis.Redis) -> None:
    deleting = source.with_options(deleteEntries="true")
    check_source(deleting, grow=lambda: server.xadd("events", {"user": "zoe"}))
    assert server.xrange("events", max="10-2") == MORNING


def test_entries_become_rows_with_their_id_and_fields(source: SourceUnderTest, server: redis.Redis) -> None:
    table = pa.Table.from_batches(run(source))
    assert [(row["id"], dict(row["fields"])) for row in table.to_pylist()] == MORNING


def test_entries_are_kept_unless_the_user_wants_them_deleted(
    source: SourceUnderTest, server: redis.Redis, flip27_engine: Engine
) -> None:
    flip27_engine(source).process_all_available()
    assert server.xrange("events") == MORNING


@pytest.mark.parametrize("step", [step for step in Step if step not in STEPS_OF_REPORTS])
def test_each_entry_is_delivered_once_and_then_deleted_despite_a_crash(
    step: Step, source: SourceUnderTest, server: redis.Redis, flip27_engine: Engine
) -> None:
    engine = flip27_engine(source.with_options(deleteEntries="true", maxRowsPerTrigger="2"))
    engine.crash_at(step, batch_id=1)
    with pytest.raises(Crashed):
        engine.process_all_available()
    engine.restart()
    engine.process_all_available()
    engine.restart()
    add(server, [("11-1", {"user": "zoe"})])
    engine.process_all_available()
    assert ids_of(engine.rows) == ["1-1", "1-2", "10-1", "10-2", "11-1", "2-1"]
    assert server.xrange("events") == []


def test_entries_of_a_quarantined_split_stay(
    source: SourceUnderTest, server: redis.Redis, flip27_engine: Engine
) -> None:
    server.xadd("events", {"user": b"\xff"}, id="11-1")
    add(server, [("12-1", {"user": "zoe"})])
    engine = flip27_engine(source.with_options(deleteEntries="true", onSplitError="quarantine"))
    engine.process_all_available()
    engine.restart()
    engine.process_all_available()
    assert ids_of(engine.rows) == ["1-1", "1-2", "10-1", "12-1", "2-1"]
    assert server.xlen("events") == 2


def test_entries_of_an_uncommitted_batch_are_kept(
    source: SourceUnderTest, server: redis.Redis, flip27_engine: Engine
) -> None:
    engine = flip27_engine(source.with_options(deleteEntries="true", maxRowsPerTrigger="2"))
    engine.run_batch()
    engine.trigger()
    assert server.xrange("events") == MORNING[2:]


def test_entries_deleted_by_others_before_they_are_read_stop_the_query(
    source: SourceUnderTest, server: redis.Redis, flip27_engine: Engine
) -> None:
    engine = flip27_engine(source)
    engine.trigger()
    server.xdel("events", "2-1")
    with pytest.raises(SplitReadError, match="stream events, 2-1 to 10-1: 1 of 2 entries are left"):
        engine.run_batch()


def test_a_stream_that_was_recreated_stops_the_query(
    source: SourceUnderTest, server: redis.Redis, flip27_engine: Engine
) -> None:
    engine = flip27_engine(source.with_options(discoveryRetries="0"))
    engine.process_all_available()
    server.delete("events")
    server.xadd("events", {"user": "zoe"}, id="5-1")
    engine.restart()
    with pytest.raises(DiscoveryError, match="stream events ends at 5-1, before 10-2"):
        engine.process_all_available()
