"""Rows are held back until their time is old enough."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import ExitStack, closing
from zoneinfo import ZoneInfo

import pytest

from flip27_source.enumerators.sql.lag import newest_allowed, with_zone
from flip27_source.enumerators.sql.table import CursorTable
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine
from tests.batch_read import planned_read
from tests.deadline import until
from tests.enumerators.sql.shops import Shop, batches_of, of_postgres, polled
from tests.postgres_server import postgres_server, postgres_standby

Engine = Callable[..., MicroBatchEngine]

NOW = dt.datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=dt.UTC)
UTC = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")


def allowed(text: str, kind: str, lag_s: float | None = 60, zone: ZoneInfo = UTC) -> str | None:
    return newest_allowed(text, kind, now=NOW, lag_s=lag_s, zone=zone)


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("2024-05-01 12:00:00+00", "timestamp[us, tz=UTC]", "2024-05-01 11:59:00+00"),
        ("2024-05-01 12:00:00.123456", "timestamp[us]", "2024-05-01 11:59:00.250000"),
        ("2024-05-01T12:00:00Z", "string", "2024-05-01T11:59:00Z"),
        ("2024-05-01T14:00:00.1+02:00", "string", "2024-05-01T13:59:00.2+02:00"),
        ("2024-05-01 07:00:00-0500", "string", "2024-05-01 06:59:00-0500"),
    ],
)
def test_the_newest_allowed_time_has_the_format_of_the_column(text: str, kind: str, found: str) -> None:
    assert allowed(text, kind) == found


def test_a_time_without_a_zone_is_taken_in_the_time_zone_of_the_option() -> None:
    assert allowed("2024-05-01 14:00:00", "timestamp[us]", zone=BERLIN) == "2024-05-01 13:59:00"


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ("2024-10-26 23:59:59", "2024-10-27 01:59:59"),
        ("2024-10-27 00:30:00", "2024-10-27 01:59:59"),
        ("2024-10-27 01:30:00", "2024-10-27 02:30:00"),
        ("2024-10-27 02:00:00", "2024-10-27 03:00:00"),
        ("2024-03-31 01:30:00", "2024-03-31 03:30:00"),
    ],
)
def test_times_of_an_hour_that_the_zone_repeats_wait_until_it_begins_again(now: str, found: str) -> None:
    moment = dt.datetime.fromisoformat(f"{now}+00:00") + dt.timedelta(seconds=60)
    newest = "2024-12-31 00:00:00"
    assert newest_allowed(newest, "timestamp[us]", now=moment, lag_s=60, zone=BERLIN) == found


@pytest.mark.parametrize(
    ("name", "put_back"),
    [
        ("Europe/Berlin", "2024-10-27 01:00"),
        ("America/New_York", "2024-11-03 06:00"),
        ("Australia/Lord_Howe", "2024-04-06 15:00"),  # by half an hour
    ],
)
def test_rows_around_an_hour_that_the_zone_repeats_are_all_read_once(
    sqlite: Shop, flip27_engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, put_back: str
) -> None:
    now = dt.datetime.fromisoformat(f"{put_back}+00:00") - dt.timedelta(hours=2)
    monkeypatch.setattr(CursorTable, "now", lambda _: now)
    engine = flip27_engine(sqlite.with_options(timeZone=name, lag="5m"))
    read = []
    for number in range(30):
        sqlite.insert([(number, 1.0, now.astimezone(ZoneInfo(name)).strftime("%Y-%m-%d %H:%M:%S"))])
        now += dt.timedelta(minutes=10)
        read += [row for batch in polled(engine) for row in batch]
    assert sorted(read) == list(range(30))


def test_a_date_is_read_once_its_day_has_ended_and_the_lag_has_passed() -> None:
    assert allowed("2024-05-01", "date32[day]") == "2024-04-30"
    assert allowed("2024-05-01", "string", lag_s=13 * 3600) == "2024-04-29"


def test_times_are_held_back_for_ten_seconds_if_no_lag_is_set() -> None:
    assert allowed("2024-05-01 12:00:00", "string", lag_s=None) == "2024-05-01 11:59:50"


@pytest.mark.parametrize(("text", "kind"), [("17", "int64"), ("b-17", "string"), ("2024", "string")])
def test_other_values_are_not_held_back(text: str, kind: str) -> None:
    assert allowed(text, kind, lag_s=None) is None
    with pytest.raises(ValueError, match="is not a time"):
        allowed(text, kind, lag_s=60)


def test_a_lag_of_zero_holds_nothing_back() -> None:
    assert allowed("2024-05-01 12:00:00", "string", lag_s=0) is None


def at(seconds: int) -> str:
    return (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")


def test_rows_wait_until_they_are_old_enough(shop: Shop, flip27_engine: Engine) -> None:
    shop.insert([(1, 1.0, at(-7200)), (2, 1.0, at(-60)), (3, 1.0, at(3600))])
    engine = flip27_engine(shop.with_options(lag="1h"))
    assert batches_of(engine) == [[1]]
    shop.insert([(4, 1.0, at(-7100))])
    assert polled(engine) == [[4]]
    assert batches_of(flip27_engine(shop.with_options(lag="0s"))) == [[1, 2, 3, 4]]


def test_a_batch_read_has_the_rows_that_a_stream_would_hold_back(sqlite: Shop) -> None:
    sqlite.insert([(1, 1.0, at(-7200)), (2, 1.0, at(0))])
    assert sorted(row[0] for row in planned_read(sqlite.options).rows()) == [1, 2]


def test_a_time_in_the_future_is_logged_once_with_the_time_zone(
    sqlite: Shop, flip27_engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    sqlite.insert([(1, 1.0, at(-60)), (2, 1.0, at(7200))])
    engine = flip27_engine(sqlite.options)
    assert batches_of(engine) == [[1]]
    assert polled(engine) == []
    [warning] = [text for text in caplog.messages if "ahead of the clock" in text]
    assert "times in UTC: option timeZone" in warning


def test_a_start_at_the_latest_row_leaves_out_only_rows_that_are_old_enough(
    sqlite: Shop, flip27_engine: Engine
) -> None:
    sqlite.insert([(1, 1.0, at(-7200)), (2, 1.0, at(-60))])
    engine = flip27_engine(sqlite.with_options(startingCursor="latest", lag="1h"))
    assert batches_of(engine) == []
    sqlite.insert([(3, 1.0, at(-7100))])
    assert polled(engine) == [[3]]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2024-05-01 08:00:00", "2024-05-01 08:00:00+02:00"),
        ("2024-01-01T08:00:00.5", "2024-01-01 08:00:00.500000+01:00"),
        ("2024-05-01", "2024-05-01 00:00:00+02:00"),
        ("2024-05-01 08:00:00+00", "2024-05-01 08:00:00+00"),
        ("2024-05-01T08:00:00Z", "2024-05-01T08:00:00Z"),
        ("-infinity", "-infinity"),
        ("2024-02-31 08:00:00", "2024-02-31 08:00:00"),
    ],
)
def test_a_time_without_a_zone_gets_one(text: str, found: str) -> None:
    assert with_zone(text, BERLIN) == found


def test_the_clock_of_a_standby_stands_still_while_the_standby_shows_no_new_rows() -> None:
    with postgres_server() as primary, primary.role() as role, primary.connect() as writer:
        writer.execute("CREATE TABLE orders (at timestamptz)")
        writer.execute(f"GRANT SELECT ON orders TO {role.name}")
        writer.execute("SELECT pg_create_physical_replication_slot('standby')")
        with postgres_standby(primary, slot="standby", database="postgres") as standby, ExitStack() as stack:
            owner = stack.enter_context(standby.connect())
            user = f"{role.name}:{role.password}"
            options = Source.resolve(of_postgres(standby, "postgres", user=user, cursorColumns="at")).options
            table = stack.enter_context(closing(CursorTable(options)))
            owner.execute("SELECT pg_wal_replay_pause()")
            until(lambda: owner.execute("SELECT pg_get_wal_replay_pause_state()").fetchone() == ("paused",))
            row = writer.execute("INSERT INTO orders VALUES (clock_timestamp()) RETURNING at").fetchone()
            assert row is not None
            assert table.now() < row[0]
            owner.execute("SELECT pg_wal_replay_resume()")
            until(lambda: table.now() >= row[0], table.now)
            assert owner.execute("SELECT at FROM orders").fetchone() == row
        writer.execute("DROP TABLE orders")
