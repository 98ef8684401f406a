"""How far a query lags behind the log: for literal polls, and as a query of a real server reports it."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flip27_source.cli.main import main
from flip27_source.enumerators.postgres.assigner import TableProgress
from flip27_source.enumerators.postgres.log_lag import MOST_POLLS, LogClock, LogLag
from flip27_source.enumerators.postgres.split import KeyColumn, TableName
from flip27_source.enumerators.tables_with_log.enumerator import chunks_left, waiting_rows
from flip27_source.testing import MicroBatchEngine
from tests.cli.command_line import cells_of
from tests.deadline import until
from tests.enumerators.postgres.database import TestedDatabase

NOON = dt.datetime(2026, 1, 3, 12, tzinfo=dt.UTC)
ID = (KeyColumn(name="id", type="integer"),)
ORDERS = TableName(oid=16384, schema="public", name="orders")


def at(seconds: float) -> dt.datetime:
    return NOON + dt.timedelta(seconds=seconds)


def clock(*polls: tuple[int, float], committed_at: int | None = None) -> LogClock:
    """Return a clock that has seen the log end at these positions, each given seconds after noon."""
    found = LogClock(committed_at)
    for end, seconds in polls:
        found.seen(end, at(seconds))
    return found


def test_a_position_at_the_end_of_the_log_has_no_lag() -> None:
    assert clock((500, 0)).lag(500, 500) == LogLag(bytes=0, seconds=0.0)


def test_the_age_of_the_unread_log_counts_from_the_last_poll_that_did_not_see_it() -> None:
    found = clock((500, 0), (500, 3), (700, 4), (900, 10))
    assert found.lag(500, 900) == LogLag(bytes=400, seconds=7.0, since=at(3))
    assert found.lag(650, 900) == LogLag(bytes=250, seconds=7.0, since=at(3))
    assert found.lag(700, 900) == LogLag(bytes=200, seconds=6.0, since=at(4))


def test_a_log_without_changes_of_the_tables_has_an_age_of_zero() -> None:
    assert clock((500, 0), (900, 10)).lag(500, 900, has_changes=False) == LogLag(bytes=400, seconds=0.0)


def test_before_the_first_poll_the_age_counts_from_the_last_change_that_was_read() -> None:
    found = clock((500, 60), committed_at=int(at(-30).timestamp() * 1_000_000))
    assert found.lag(100, 500) == LogLag(bytes=400, seconds=90.0, since=at(-30))
    found.read(int(at(20).timestamp() * 1_000_000))
    found.read(None)
    assert found.lag(100, 500).seconds == 40.0


def test_without_an_earlier_poll_the_age_is_unknown() -> None:
    assert clock((500, 0)).lag(100, 500) == LogLag(bytes=400, seconds=None)


def test_after_polls_are_thinned_out_the_age_is_still_an_upper_bound() -> None:
    found = clock(*((number, number) for number in range(5 * MOST_POLLS)))
    newest = 5 * MOST_POLLS - 1
    for position in (0, 1, 777, newest - 3, newest - 1):
        seconds = found.lag(position, newest).seconds
        assert seconds is not None
        assert newest - position <= seconds <= 1.5 * (newest - position) + 40


def test_chunks_count_as_waiting_until_assigned_and_as_remaining_until_read() -> None:
    progress = TableProgress(
        table=ORDERS,
        key=ID,
        bounds=(("10",), ("20",), ("30",)),
        rows=(10, 10, 10, None),
        snapshots=("5:5:", None, None, None),
        assigned={"public.orders/16384/1": 700},
        is_cut=True,
    )
    assert chunks_left([progress]) == 3
    assert waiting_rows([progress], chunk_rows=10) == [10, 10]


@pytest.mark.parametrize(("key", "is_cut"), [(ID, False), ((), True)])
def test_the_number_of_rows_of_an_uncut_table_is_unknown(key: tuple[KeyColumn, ...], is_cut: bool) -> None:
    assert waiting_rows([TableProgress(table=ORDERS, key=key, is_cut=is_cut)], chunk_rows=10) == [None]


@pytest.fixture
def query(database: TestedDatabase, tmp_path: Path) -> Iterator[MicroBatchEngine]:
    """A query of a table of 25 rows, in chunks of 10."""
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, note text)",
        "INSERT INTO orders SELECT generate_series(11, 35)",
    )
    limits = {"snapshotChunkRows": "10", "maxRowsPerTrigger": "10", "maxBytesPerTrigger": "16k"}
    options = {"tables": "orders", "stateLocation": str(tmp_path / "state"), "uid": "orders", **limits}
    engine = MicroBatchEngine(database.server.options(database.name, **options))
    yield engine
    engine.stop()


def numbers(engine: MicroBatchEngine) -> dict[str, Any]:
    """Return the numbers in the newest offset, which progress events show."""
    return json.loads(engine.logs.offsets[-1])["summary"]


def next_batch(engine: MicroBatchEngine) -> dict[str, Any]:
    """Run triggers until one has a batch, because not every poll asks for changes; return its numbers."""
    until(lambda: engine.run_batch() is not None, lambda: str(numbers(engine)))
    return numbers(engine)


def read_all(engine: MicroBatchEngine, rows: int) -> None:
    """Run batches until exactly ``rows`` rows have been read."""

    def is_read() -> bool:
        engine.run_batch()
        return len(engine.rows) >= rows

    until(is_read, lambda: f"{len(engine.rows)} rows, {numbers(engine)}")
    assert len(engine.rows) == rows


def test_a_query_counts_its_read_and_its_remaining_chunks(
    query: MicroBatchEngine, database: TestedDatabase
) -> None:
    until(lambda: next_batch(query)["chunksRead"] == 1, lambda: str(numbers(query)))
    assert (numbers(query)["chunksLeft"], numbers(query)["backlogRows"]) == (2, 10)
    read_all(query, 25)
    database.execute("INSERT INTO orders VALUES (100)")
    found = next_batch(query)
    assert (found["chunksRead"], found["chunksLeft"]) == (3, 0)


def test_a_query_reports_its_lag_in_bytes_and_seconds(
    query: MicroBatchEngine, database: TestedDatabase
) -> None:
    read_all(query, 25)
    database.execute("INSERT INTO orders VALUES (99)")
    read_all(query, 26)
    began = database.one("SELECT clock_timestamp()")
    for first in range(100, 200, 10):
        database.execute(
            f"INSERT INTO orders SELECT g, repeat('x', 1000) FROM generate_series({first}, {first + 9}) g"
        )
    found, now = next_batch(query), database.one("SELECT clock_timestamp()")
    assert found["logLagBytes"] == found["backlogBytes"] > 50_000
    since = dt.datetime.fromisoformat(found["backlogOldestEventTime"])
    assert since <= began
    assert 0 < found["logLagSeconds"] <= (now - since).total_seconds()
    assert "backlogRows" not in found
    assert found["slotKeptBytes"] >= found["logLagBytes"]
    ((slot, kept),) = query.holder.report()["parts"]["slotKeptBytes"].items()
    assert slot.startswith("flip27_orders_")
    assert kept >= found["logLagBytes"]
    assert f"lag_bytes={found['logLagBytes']} lag_s=" in found["positions"]["log"]
    read_all(query, 126)

    def is_at_the_end() -> bool:
        database.execute("UPDATE orders SET note = 'y' WHERE id = 100")
        return next_batch(query)["logLagBytes"] == 0

    until(is_at_the_end, lambda: str(numbers(query)))
    found = numbers(query)
    assert (found["logLagSeconds"], found["backlogBytes"], found["backlogSplits"]) == (0, 0, 0)
    assert "lag_bytes=0 lag_s=0" in found["positions"]["log"]


def test_after_a_restart_the_age_of_the_log_counts_from_the_last_change_that_was_read(
    query: MicroBatchEngine, database: TestedDatabase
) -> None:
    read_all(query, 25)
    read_at = database.one("SELECT clock_timestamp()")
    database.execute("INSERT INTO orders VALUES (100)")
    read_all(query, 26)
    database.execute("INSERT INTO orders VALUES (101)")
    read_all(query, 27)  # the state of this batch contains the report of the batch before it
    query.stop()
    database.execute("SELECT pg_sleep(0.3)", "INSERT INTO orders SELECT generate_series(200, 2000)")
    query.restart()
    found, now = next_batch(query), database.one("SELECT clock_timestamp()")
    assert found["logLagBytes"] > 50_000
    assert 0.3 <= found["logLagSeconds"] <= (now - read_at).total_seconds()


def test_the_table_of_splits_has_each_chunk_and_the_lag_of_the_log(
    query: MicroBatchEngine, database: TestedDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    read_all(query, 25)
    database.execute("INSERT INTO orders VALUES (100)")
    read_all(query, 26)
    assert main(["state", "splits", query.source.options["stateLocation"]]) == 0
    rows = cells_of(capsys.readouterr().out)
    chunks = [row for row in rows if row[0].startswith("public.orders/")]
    assert [row[0].rpartition("/")[2] for row in sorted(chunks)] == ["0", "1", "2"]
    (log,) = [row for row in rows if row[0] == "log"]
    assert log[1] == "live"
    assert re.fullmatch(r"lag_bytes=\d+ lag_s=\d+\.\d+ lsn=\d+", log[2])
