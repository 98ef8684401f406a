"""The sql enumerator: each row is in one range of cursors, in every database."""

from __future__ import annotations

import importlib.util
import re
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.sql import database
from flip27_source.enumerators.sql.dialects import ANSI
from flip27_source.errors import DataLossError, DiscoveryError, Flip27Error, OptionError
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine, SourceUnderTest, plan, run
from flip27_source.testing.enumerator_run import EnumeratorRun
from tests.enumerators.sql.shops import (
    DAY,
    ORDERS,
    Shop,
    batches_of,
    duckdb_shop,
    enter_shop,
    of_postgres,
    polled,
    postgres_shop,
)
from tests.postgres_server import WHEELS, PostgresServer, postgres_server

Engine = Callable[..., MicroBatchEngine]


def ids(options: dict[str, str]) -> list[Any]:
    """Return the ids that a run with an end reads now."""
    return [number for batch in run(options) for number in batch.column("id").to_pylist()]


def ranges(options: dict[str, str]) -> list[tuple[str, int]]:
    found = plan(options)
    return sorted(zip(found["split"].to_pylist(), found["rows"].to_pylist(), strict=True))


def test_the_table_is_cut_into_ranges_of_partition_rows_even_between_equal_times(shop: Shop) -> None:
    shop.insert(ORDERS)
    options = shop.with_options(partitionRows="4")
    assert [rows for _, rows in ranges(options)] == [2, 4]
    assert [batch.column("id").to_pylist() for batch in run(options)] == [[1, 2, 3, 4], [5, 6]]


def test_new_rows_with_a_time_that_was_read_before_are_read_once(shop: Shop, flip27_engine: Engine) -> None:
    shop.insert(ORDERS[:4])
    engine = flip27_engine(shop.options)
    assert batches_of(engine) == [[1, 2, 3, 4]]
    shop.insert(ORDERS[4:])
    assert polled(engine) == [[5, 6]]
    assert polled(engine) == []


def test_changed_rows_are_read_again_with_their_new_time(shop: Shop, flip27_engine: Engine) -> None:
    shop.insert(ORDERS)
    engine = flip27_engine(shop.options)
    batches_of(engine)
    shop.execute(f"UPDATE orders SET amount = 0, updated_at = '{DAY} 10:00:00' WHERE id IN (2, 5)")
    assert polled(engine) == [[2, 5]]


def test_batches_have_exactly_as_many_rows_as_their_limit(shop: Shop, flip27_engine: Engine) -> None:
    shop.insert(ORDERS)
    engine = flip27_engine(shop.with_options(maxRowsPerTrigger="4", partitionRows="3"))
    assert batches_of(engine) == [[1, 2, 3, 4], [5, 6]]


def test_a_limit_on_bytes_makes_batches_of_fewer_rows(sqlite: Shop, flip27_engine: Engine) -> None:
    sqlite.insert(ORDERS)
    engine = flip27_engine(sqlite.with_options(maxBytesPerTrigger="70"))  # a row has about 40
    assert batches_of(engine) == [[1, 2], [3, 4], [5, 6]]


def test_a_cursor_may_be_greater_than_any_float(postgres: PostgresServer, flip27_engine: Engine) -> None:
    with postgres_shop(postgres) as shop:
        shop.execute("CREATE TABLE great (n numeric)")
        shop.execute("INSERT INTO great VALUES (1), (1e309)")
        engine = flip27_engine(
            shop.with_options(table="great", cursorColumns="n"), schema=pa.schema([("n", pa.string())])
        )
        assert batches_of(engine) == [["1", "1" + "0" * 309]]


@pytest.mark.parametrize("with_adbc", [True, False], ids=["adbc", "sqlalchemy"])
def test_a_numeric_cursor_may_begin_with_minus_infinity_but_not_end_with_infinity(
    with_adbc: bool, postgres: PostgresServer, flip27_engine: Engine
) -> None:
    with postgres_shop(postgres, with_adbc=with_adbc) as shop:
        shop.execute("CREATE TABLE great (n numeric)")
        shop.execute("INSERT INTO great VALUES ('-Infinity')")
        engine = flip27_engine(
            shop.with_options(table="great", cursorColumns="n", discoveryRetries="0"),
            schema=pa.schema([("n", pa.string())]),
        )
        assert batches_of(engine) == [["-Infinity"]]
        shop.execute("INSERT INTO great VALUES (1), (1e99)")
        assert polled(engine) == [["1", "1" + "0" * 99]]
        shop.execute("INSERT INTO great VALUES ('Infinity')")
        with pytest.raises(DiscoveryError, match=r"the cursor \(Infinity\): no later row could be greater"):
            polled(engine)


ARRAYS_AND_JSON = [
    ("int[]", ["{}", "{1}"], "{NULL}"),
    ("text[]", ["{}", "{a}"], "{b}"),
    ("jsonb", ["1", "2.5"], '{"a": 1}'),
]


@pytest.mark.parametrize("with_adbc", [True, False], ids=["adbc", "sqlalchemy"])
@pytest.mark.parametrize(("kind", "first", "later"), ARRAYS_AND_JSON)
def test_arrays_and_json_of_any_values_are_cursors(
    kind: str, first: list[str], later: str, with_adbc: bool, postgres: PostgresServer, flip27_engine: Engine
) -> None:
    with postgres_shop(postgres, with_adbc=with_adbc) as shop:
        shop.execute(f"CREATE TABLE keys (id int, k {kind})")
        for number, value in enumerate(first):
            shop.execute(f"INSERT INTO keys VALUES ({number}, '{value}')")
        schema = pa.schema([("k", pa.string())])
        engine = flip27_engine(shop.with_options(table="keys", cursorColumns="k,id"), schema=schema)
        assert sorted(batches_of(engine)[0]) == sorted(first)
        shop.execute(f"INSERT INTO keys VALUES (9, '{later}')")
        engine.restart()
        assert batches_of(engine) == [[later]]


@pytest.mark.parametrize(
    ("before", "after", "using"),
    [("text", "jsonb", "k::jsonb"), ("text", "text[]", "ARRAY[k]"), ("int[]", "text[]", "k::text[]")],
)
def test_a_cursor_that_becomes_an_array_or_json_of_another_order_stops_the_query(
    before: str, after: str, using: str, postgres: PostgresServer, flip27_engine: Engine
) -> None:
    with postgres_shop(postgres, with_adbc=False) as shop:
        shop.execute(f"CREATE TABLE keys (k {before})")
        first = "ARRAY[9]" if before == "int[]" else "'9'"
        shop.execute(f"INSERT INTO keys VALUES ({first})")
        options = shop.with_options(table="keys", cursorColumns="k", discoveryRetries="0")
        engine = flip27_engine(options, schema=pa.schema([("k", pa.string())]))
        batches_of(engine)
        shop.execute(f"ALTER TABLE keys ALTER k TYPE {after} USING {using}")
        had = {"text": "string", "int[]": "PostgreSQL integer[]"}[before]
        said = re.escape(f"have the types PostgreSQL {after}; they had {had}")
        engine.restart()
        with pytest.raises(DiscoveryError, match=said):
            polled(engine)


def test_a_text_that_reads_like_infinity_may_be_the_greatest_cursor(
    postgres: PostgresServer, flip27_engine: Engine
) -> None:
    with postgres_shop(postgres) as shop:
        shop.execute("CREATE EXTENSION citext")
        shop.execute("CREATE TABLE names (name citext)")
        shop.execute("INSERT INTO names VALUES ('a'), ('inf')")
        engine = flip27_engine(shop.with_options(table="names", cursorColumns="name"))
        assert batches_of(engine) == [["a", "inf"]]


def test_an_enum_of_duckdb_is_refused_as_a_cursor(tmp_path: Path) -> None:
    with duckdb_shop(tmp_path) as shop:
        shop.execute("CREATE TABLE moods AS SELECT unnest(['z', 'm', 'a'])::ENUM('z', 'm', 'a') AS mood")
        with pytest.raises(Flip27Error, match="contains 'mood', an ENUM"):
            list(run(shop.with_options(table="moods", cursorColumns="mood", partitionRows="1")))
        query = "SELECT mood, enum_code(mood) AS place FROM moods"
        options = shop.with_options(query=query, cursorColumns="place", partitionRows="1")
        del options["table"]
        assert [mood for batch in run(options) for mood in batch.column("mood").to_pylist()] == [
            "z",
            "m",
            "a",
        ]


def test_cursors_of_texts_that_look_equal_when_joined_begin_different_splits(tmp_path: Path) -> None:
    with duckdb_shop(tmp_path) as shop:
        shop.execute("CREATE TABLE streets (city VARCHAR, street VARCHAR, id BIGINT)")
        shop.execute("INSERT INTO streets VALUES ('a', 'b, c', 1), ('a, b', 'c', 2), ('b', 'x', 3)")
        options = shop.with_options(table="streets", cursorColumns="city,street", partitionRows="1")
        assert ids(options) == [1, 2, 3]
        names = [name for name, _ in ranges(options)]
        assert len(set(names)) == 3
        assert all(name.startswith(("after (a, b, c)... ", "from the start")) for name in names)


@pytest.mark.parametrize("with_adbc", [True, False], ids=["adbc", "sqlalchemy"])
def test_settings_of_a_postgresql_database_do_not_change_cursors(
    postgres: PostgresServer, flip27_engine: Engine, with_adbc: bool
) -> None:
    with postgres_shop(postgres, with_adbc=with_adbc) as shop:
        shop.execute("CREATE TABLE lists (list text[], id int)")
        shop.execute("INSERT INTO lists VALUES ('{a,b}', 1), ('{a,NULL}', 2)")
        schema = pa.schema([("id", pa.int32()), ("list", pa.string())])
        options = shop.with_options(table="lists", cursorColumns="list,id", discoveryRetries="0")
        engine = flip27_engine(options, schema=schema)
        assert batches_of(engine) == [[1, 2]]
        shop.execute(f"ALTER DATABASE {shop.more['database']} SET array_nulls = off")
        shop.execute("INSERT INTO lists VALUES ('{b}', 3)")
        engine.restart()
        assert polled(engine) == [[3]]
        shop.execute(f"ALTER DATABASE {shop.more['database']} SET quote_all_identifiers = on")
        shop.execute("INSERT INTO lists VALUES ('{c}', 4)")
        engine.restart()
        if with_adbc:
            with pytest.raises(Flip27Error, match=r"quote_all_identifiers is on(?s:.)*options=-c%20"):
                polled(engine)
            more = {"uri": f"{options['uri']}?options=-c%20quote_all_identifiers%3Doff"}
            engine = flip27_engine(options | more, schema=schema)
            assert batches_of(engine) == [[1, 2, 3, 4]]
        else:
            assert polled(engine) == [[4]]


@pytest.mark.parametrize(
    ("kind", "column", "value"),
    [
        ("sqlite", "name TEXT", "'a' || char(0) || '{}'"),
        ("sqlite", "name", "'a' || char(0) || '{}'"),
        ("sqlite by sqlalchemy", "name TEXT", "'a' || char(0) || '{}'"),
        ("sqlite by sqlalchemy", "name", "'a' || char(0) || '{}'"),
        ("duckdb", "name VARCHAR", "'a' || chr(0) || '{}'"),
        ("duckdb", "name VARCHAR[]", "['a, ''' || chr(0) || '{}', 'b']"),
        ("duckdb", "name STRUCT(a VARCHAR)", "row('a' || chr(0) || '{}')"),
    ],
)
def test_a_text_cursor_of_sqlite_or_duckdb_may_contain_a_nul(
    kind: str, column: str, value: str, tmp_path: Path, flip27_engine: Engine
) -> None:
    with ExitStack() as stack:
        shop = enter_shop(kind, stack, tmp_path, NotImplemented)
        shop.execute(f"CREATE TABLE keys ({column}, id INTEGER)")
        for number in range(1, 6):
            shop.execute(f"INSERT INTO keys VALUES ({value.format(number)}, {number})")
        options = shop.with_options(table="keys", cursorColumns="name", partitionRows="2")
        engine = flip27_engine(options, schema=pa.schema([("id", pa.int64())]))
        assert batches_of(engine) == [[1, 2, 3, 4, 5]]
        shop.execute(f"INSERT INTO keys VALUES ({value.format('5x')}, 6)")
        assert polled(engine) == [[6]]


def test_a_row_with_the_greatest_possible_cursor_stops_the_query(sqlite: Shop) -> None:
    sqlite.execute("CREATE TABLE scores (score REAL)")
    sqlite.execute("INSERT INTO scores VALUES (1.5), (9e999)")
    with pytest.raises(DiscoveryError, match="no later row could be greater"):
        ids(sqlite.with_options(table="scores", cursorColumns="score", discoveryRetries="0"))


@pytest.mark.parametrize("kind", ["sqlite", "sqlite by sqlalchemy", "duckdb", "postgresql"])
@pytest.mark.parametrize("score", ["-1e999", "1e999"])
def test_infinity_at_the_end_of_a_cursor_and_minus_infinity_do_not_stop_the_query(
    kind: str, score: str, tmp_path: Path, request: pytest.FixtureRequest, flip27_engine: Engine
) -> None:
    with ExitStack() as stack:
        shop = enter_shop(kind, stack, tmp_path, lambda: request.getfixturevalue("postgres"))
        shop.execute("CREATE TABLE scores (id BIGINT, score DOUBLE PRECISION)")
        infinite = score if kind.startswith("sqlite") else f"'{score[:-5]}infinity'"
        shop.execute(f"INSERT INTO scores VALUES (1, {infinite})")
        columns = "id,score" if score == "1e999" else "score,id"
        engine = flip27_engine(shop.with_options(table="scores", cursorColumns=columns))
        assert batches_of(engine) == [[1]]
        shop.execute("INSERT INTO scores VALUES (2, 0)")
        assert polled(engine) == [[2]]


def test_an_id_alone_can_be_the_cursor(shop: Shop, flip27_engine: Engine) -> None:
    shop.insert(ORDERS[:3])
    engine = flip27_engine(shop.with_options(cursorColumns="id", partitionRows="2"))
    assert batches_of(engine) == [[1, 2, 3]]
    shop.insert(ORDERS[3:])
    assert polled(engine) == [[4, 5, 6]]


def test_with_a_time_as_the_only_cursor_rows_of_equal_time_share_a_batch(
    shop: Shop, flip27_engine: Engine
) -> None:
    shop.insert(ORDERS)
    engine = flip27_engine(shop.with_options(cursorColumns="updated_at", maxRowsPerTrigger="1"))
    assert batches_of(engine) == [[1, 2], [3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("kind", "column", "values"),
    [
        ("sqlite", "TEXT COLLATE NOCASE", "('a'), ('A'), ('a'), ('A'), ('b')"),
        ("sqlite", "", "(1), (1.0), (1), (1.0), (2)"),
        ("duckdb", "VARCHAR COLLATE NOCASE", "('a'), ('A'), ('a'), ('A'), ('b')"),
        ("duckdb", "DOUBLE", "(0.0), ('-0.0'), (0.0), ('-0.0'), (1)"),
        ("postgresql", "numeric", "(1), (1.0), (1), (1.0), (2)"),
    ],
)
def test_rows_whose_cursors_are_equal_for_the_database_are_in_one_range(
    kind: str, column: str, values: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with ExitStack() as stack:
        shop = enter_shop(kind, stack, tmp_path, lambda: request.getfixturevalue("postgres"))
        shop.execute(f"CREATE TABLE equal (n {column})")
        shop.execute(f"INSERT INTO equal VALUES {values}")
        options = shop.with_options(table="equal", cursorColumns="n", partitionRows="1")
        assert [batch.num_rows for batch in run(options)] == [4, 1]


def test_a_query_is_read_like_a_table(shop: Shop) -> None:
    shop.insert(ORDERS)
    options = shop.with_options(
        query="SELECT id, 2 * amount AS a, updated_at FROM orders WHERE amount > 2 AND ':b%' LIKE ':%' -- x"
    )
    del options["table"]
    assert ids(options) == [1, 3, 5, 6]


@pytest.mark.parametrize(
    ("start", "found"),
    [
        ("earliest", [1, 2, 3, 4, 5, 6]),
        (f"{DAY} 08:00:01", [3, 4, 5, 6]),
        (f"{DAY} 08:00:02, 5", [5, 6]),
        (f'["{DAY} 08:00:02", 6]', [6]),
    ],
)
def test_a_query_starts_at_the_given_cursor(shop: Shop, start: str, found: list[int]) -> None:
    shop.insert(ORDERS)
    assert ids(shop.with_options(startingCursor=start)) == found


@pytest.mark.parametrize("kind", ["duckdb", "postgresql", "postgresql by sqlalchemy"])
def test_a_start_without_a_zone_is_in_the_time_zone_of_the_options(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, flip27_engine: Engine
) -> None:
    with ExitStack() as stack:
        shop = enter_shop(kind, stack, tmp_path, lambda: request.getfixturevalue("postgres"))
        shop.execute("CREATE TABLE zoned (id BIGINT, changed TIMESTAMPTZ)")
        more = {"startingCursor": f"{DAY} 08:00:00", "timeZone": "Asia/Tokyo"}
        options = shop.with_options(table="zoned", cursorColumns="changed,id", **more)
        engine = flip27_engine(options, schema=pa.schema([("id", pa.int64())]))
        assert batches_of(engine) == []
        shop.execute(f"INSERT INTO zoned VALUES (1, '{DAY} 07:59:59+09'), (2, '{DAY} 08:00:00+09')")
        assert polled(engine) == [[2]]


def test_the_first_round_fixes_the_latest_cursor_even_if_no_row_is_read(
    shop: Shop, flip27_engine: Engine
) -> None:
    shop.insert(ORDERS[:3])
    engine = flip27_engine(shop.with_options(startingCursor="latest"))
    assert batches_of(engine) == []
    shop.insert(ORDERS[3:])
    engine.restart()
    assert polled(engine) == [[4, 5, 6]]


def test_rows_that_are_added_to_an_empty_table_are_read(shop: Shop, flip27_engine: Engine) -> None:
    engine = flip27_engine(shop.options)
    assert batches_of(engine) == []
    shop.insert(ORDERS[:1])
    assert polled(engine) == [[1]]


def test_rows_without_a_cursor_stop_the_query(sqlite: Shop) -> None:
    sqlite.insert(ORDERS)
    sqlite.execute("UPDATE orders SET updated_at = NULL WHERE id = 3")
    with pytest.raises(DiscoveryError, match=r"NULL in its cursor column updated_at.*(?s:.)*onNullCursor"):
        ids(sqlite.options)


def test_rows_without_a_cursor_are_counted_if_the_option_leaves_them_out(
    sqlite: Shop, flip27_engine: Engine
) -> None:
    sqlite.insert(ORDERS)
    sqlite.execute("UPDATE orders SET updated_at = NULL WHERE id IN (3, 4)")
    engine = flip27_engine(sqlite.with_options(onNullCursor="ignore"))
    assert batches_of(engine) == [[1, 2, 5, 6]]
    assert engine.batches[-1].end["summary"]["nullCursorRows"] == 2


@pytest.mark.parametrize(
    ("deleted", "meanwhile", "appeared"),
    [
        ("id > 0", "false", ORDERS[:2]),
        ("id IN (1, 4, 5, 6)", "false", ORDERS[:1]),  # below the newest row
        ("id > 3", "id = 2", [ORDERS[3]]),  # as many as were deleted
        ("id > 3", "false", [ORDERS[3], (7, 1.0, f"{DAY} 11:00:00")]),  # together with a row to read
    ],
)
def test_rows_that_appear_below_a_position_that_no_row_reaches_are_a_data_loss(
    shop: Shop, flip27_engine: Engine, deleted: str, meanwhile: str, appeared: list[Any]
) -> None:
    shop.insert(ORDERS)
    engine = flip27_engine(shop.options)
    batches_of(engine)
    shop.execute(f"DELETE FROM orders WHERE {deleted}")
    assert polled(engine) == []
    shop.execute(f"DELETE FROM orders WHERE {meanwhile}")
    shop.insert(appeared)
    with pytest.raises(DataLossError, match="the cursor columns went back"):
        polled(engine)


@pytest.mark.parametrize("available_now", [False, True])
def test_a_restart_remembers_that_no_row_reaches_the_position(
    sqlite: Shop, flip27_engine: Engine, available_now: bool
) -> None:
    sqlite.insert(ORDERS)
    engine = flip27_engine(sqlite.options, available_now=available_now)
    assert batches_of(engine) == [[1, 2, 3, 4, 5, 6]]
    for deleted in ("id > 3", "id > 2"):
        sqlite.execute(f"DELETE FROM orders WHERE {deleted}")
        engine.restart()
        assert polled(engine) == []
    sqlite.insert([ORDERS[2]])
    for _ in range(2):  # until the user decides
        engine.restart()
        with pytest.raises(DataLossError, match="the cursor columns went back"):
            polled(engine)


def test_a_data_loss_that_is_reported_does_not_stop_later_rows(sqlite: Shop, flip27_engine: Engine) -> None:
    sqlite.insert(ORDERS)
    engine = flip27_engine(sqlite.with_options(onDataLoss="report"))
    batches_of(engine)
    sqlite.execute("DELETE FROM orders")
    assert polled(engine) == []
    sqlite.insert([(1, 1.0, f"{DAY} 07:00:00"), (7, 1.0, f"{DAY} 11:00:00")])
    assert polled(engine) == [[7]]


@pytest.mark.parametrize("is_emptied_each_time", [False, True])
def test_each_data_loss_at_one_position_is_reported(
    sqlite: Shop, flip27_engine: Engine, is_emptied_each_time: bool
) -> None:
    sqlite.insert(ORDERS)
    engine = flip27_engine(sqlite.with_options(onDataLoss="report"))
    batches_of(engine)
    for number in (1, 2, 3):
        if is_emptied_each_time or number == 1:
            sqlite.execute("DELETE FROM orders")
            assert polled(engine) == []
        sqlite.insert(ORDERS[:3] if is_emptied_each_time else [ORDERS[number]])
        assert polled(engine) == []
        engine.restart()
        assert polled(engine) == []
        assert engine.batches[-1].end["summary"]["dataLosses"] == number


def test_a_round_that_fails_and_is_retried_reports_its_data_loss_once(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses: list[str] = []
    with postgres_shop(postgres) as shop, postgres.connect(shop.more["database"]) as writer:
        source = Source.resolve(shop.with_options(onDataLoss="report", transactionTimeout="0s"))
        run = EnumeratorRun(source, start=False, boundedness=Boundedness.BOUNDED)
        monkeypatch.setattr(run.recorder, "report_data_loss", lambda what, _: losses.append(what))
        discover = run.enumerator.discover
        shop.insert(ORDERS)
        read = discover(None).position
        shop.execute("DELETE FROM orders")
        empty = discover(read).position
        writer.execute("BEGIN")
        writer.execute("LOCK TABLE orders IN ROW EXCLUSIVE MODE")
        shop.insert([ORDERS[0]])
        with pytest.raises(DiscoveryError, match="writing transactions"):
            discover(empty)
        writer.execute("ROLLBACK")
        shop.insert([ORDERS[1]])
        discover(empty)
        assert ["2 rows are there, and 0 were" in what for what in losses] == [True]
        run.enumerator.close()


def test_the_newest_row_may_be_deleted(shop: Shop, flip27_engine: Engine) -> None:
    shop.insert(ORDERS)
    engine = flip27_engine(shop.options)
    batches_of(engine)
    shop.execute("DELETE FROM orders WHERE id = 6")
    assert polled(engine) == []
    shop.insert([(7, 1.0, f"{DAY} 11:00:00")])
    assert polled(engine) == [[7]]


@pytest.mark.parametrize("start", ["earliest", "latest"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_text_that_is_no_time_among_the_times_of_a_cursor_stops_the_query(
    sqlite: Shop, flip27_engine: Engine, is_first: bool, start: str
) -> None:
    sqlite.insert([(1, 1.0, f"{DAY} 08:00:00")])
    engine = flip27_engine(sqlite.with_options(discoveryRetries="0", startingCursor=start))
    if not is_first:
        batches_of(engine)
    sqlite.insert([(2, 1.0, "CURRENT_TIMESTAMP")])
    with pytest.raises(DiscoveryError, match=r"CURRENT_TIMESTAMP.*: a time and another text(?s:.)*lag=0s"):
        polled(engine)
    sqlite.execute(f"UPDATE orders SET updated_at = '{DAY} 09:00:00' WHERE id = 2")
    engine.restart()
    assert polled(engine)[-1:] == ([] if is_first and start == "latest" else [[1, 2]] if is_first else [[2]])


def test_texts_that_are_no_times_may_follow_times_if_the_lag_is_zero(
    sqlite: Shop, flip27_engine: Engine
) -> None:
    sqlite.insert([(1, 1.0, f"{DAY} 08:00:00"), (2, 1.0, "CURRENT_TIMESTAMP")])
    assert batches_of(flip27_engine(sqlite.with_options(lag="0s"))) == [[1, 2]]


def test_a_text_among_the_numbers_of_a_cursor_stops_the_query_at_its_start(
    sqlite: Shop, flip27_engine: Engine
) -> None:
    sqlite.execute("CREATE TABLE loose (number)")
    sqlite.execute("INSERT INTO loose VALUES (1), ('n/a')")
    options = sqlite.with_options(table="loose", cursorColumns="number", discoveryRetries="0")
    with pytest.raises(DiscoveryError, match=r"the cursors \(1\) and \('n/a'\): number and string"):
        batches_of(flip27_engine(options, schema=pa.schema([("number", pa.string())])))


def test_a_changed_type_of_the_cursor_stops_the_query(sqlite: Shop, flip27_engine: Engine) -> None:
    sqlite.execute("CREATE TABLE loose (number)")
    sqlite.execute("INSERT INTO loose VALUES (1), (2)")
    engine = flip27_engine(sqlite.with_options(table="loose", cursorColumns="number"))
    batches_of(engine)
    sqlite.execute("INSERT INTO loose VALUES ('three')")
    with pytest.raises(DiscoveryError, match=r"have the types string; they had number when \(2\)"):
        polled(engine)


def test_decimals_are_cursors_whatever_their_digits(shop: Shop, flip27_engine: Engine) -> None:
    shop.execute("CREATE TABLE prices (price NUMERIC(12,3))")
    shop.execute("INSERT INTO prices VALUES (1.5)")
    options = shop.with_options(table="prices", cursorColumns="price")
    engine = flip27_engine(SourceUnderTest(options=options, schema=pa.schema([("price", pa.string())])))
    assert [float(price) for [price] in batches_of(engine)] == [1.5]
    shop.execute("INSERT INTO prices VALUES (10.255), (100)")
    assert [sorted(map(float, prices)) for prices in polled(engine)] == [[10.255, 100.0]]


def test_an_integer_cursor_may_become_wider(flip27_engine: Engine, postgres: PostgresServer) -> None:
    with postgres_shop(postgres) as shop:
        shop.execute("CREATE TABLE small AS SELECT 1::int AS id")
        engine = flip27_engine(shop.with_options(table="small", cursorColumns="id"))
        assert batches_of(engine) == [[1]]
        shop.execute("ALTER TABLE small ALTER id TYPE bigint")
        shop.execute("INSERT INTO small VALUES (2)")
        assert polled(engine) == [[2]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": "no_orders"}, "no_orders"),
        ({"cursorColumns": "changed_at"}, "which is not a column of table orders; it has id, amount"),
        ({"cursorColumns": "id", "lag": "1h"}, "lag is set, but the first cursor column is not a time"),
        ({"query": "SELECT 1"}, "table and query are both set"),
        ({"uriEnv": "SHOP"}, "uri and uriEnv are both set"),
        ({"startingCursor": "1,2,3"}, "has 3 values"),
        *[
            ({"cursorColumns": "id", "startingCursor": start}, rf"startingCursor contains .*{start}")
            for start in ("1__000", "abc", "0x1g", "NaN")
        ],
        ({"uriEnv": "NOT_SET", "uri": None}, "variable NOT_SET, which option uriEnv names, is not set"),
        ({"uri": "mysql+nonsense://u@h/d", "driver": None}, "nonsense"),
    ],
)
def test_the_error_names_what_cannot_be_polled(
    shop: Shop, change: dict[str, str | None], message: str
) -> None:
    shop.insert(ORDERS)
    options = {**shop.options, **change, "discoveryRetries": "0"}
    with pytest.raises(Flip27Error, match=message):
        ids({name: value for name, value in options.items() if value is not None})


@pytest.mark.parametrize(
    ("option", "value"),
    [("table", "orders; DROP TABLE orders"), ("table", "a b"), ("query", "DELETE FROM orders"),
     ("cursorColumns", ","), ("cursorColumns", "id,id")],
)  # fmt: skip
def test_option_values_that_are_not_a_table_query_or_columns_are_refused(
    sqlite: Shop, option: str, value: str
) -> None:
    with pytest.raises(OptionError, match=option):
        ids({**sqlite.options, option: value})


def test_a_file_that_does_not_exist_is_not_created(sqlite: Shop, tmp_path: Any) -> None:
    with pytest.raises(Flip27Error, match=r"missing\.db does not exist"):
        ids(sqlite.with_options(uri=str(tmp_path / "missing.db")))
    assert not (tmp_path / "missing.db").exists()


def test_polling_continues_after_a_restart_of_the_server(flip27_engine: Engine) -> None:
    with postgres_server() as server, server.database() as name:
        with server.connect(name) as connection:
            connection.execute("CREATE TABLE orders AS SELECT 1 AS id")
        engine = flip27_engine(of_postgres(server, name, cursorColumns="id", discoveryRetries="0"))
        assert batches_of(engine) == [[1]]
        server.restart()
        with server.connect(name) as connection:
            connection.execute("INSERT INTO orders VALUES (2)")
        assert polled(engine) == [[2]]


def test_a_wrong_password_is_an_error_without_the_password(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_DB_PASSWORD", "not-the-right-one")
    options = {"cursorColumns": "id", "passwordEnv": "SHOP_DB_PASSWORD", "discoveryRetries": "0"}
    with postgres.role() as role:
        for with_adbc in (True, False):
            with pytest.raises(Flip27Error, match="password authentication failed") as caught:
                ids(of_postgres(postgres, "postgres", user=role.name, with_adbc=with_adbc, **options))
            assert "not-the-right-one" not in "".join(traceback.format_exception(caught.value))
            assert "passwordEnv" in str(caught.value)


def test_a_password_from_the_environment_opens_the_database_and_is_stored_nowhere(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with postgres.role() as role, postgres.database() as name:
        with postgres.connect(name) as connection:
            connection.execute("CREATE TABLE orders AS SELECT generate_series(1, 3) AS id")
            connection.execute(f"GRANT SELECT ON orders TO {role.name}")
        monkeypatch.setenv("SHOP_DB_PASSWORD", role.password)
        in_variable = {"user": role.name, "passwordEnv": "SHOP_DB_PASSWORD"}
        given: list[dict[str, Any]] = [
            in_variable, {**in_variable, "with_adbc": False}, {"user": f"{role.name}:{role.password}"},
        ]  # fmt: skip
        for number, more in enumerate(given):
            stored_in = {"stateLocation": str(tmp_path), "uid": f"orders{number}"}
            engine = MicroBatchEngine(of_postgres(postgres, name, cursorColumns="id", **more, **stored_in))
            assert batches_of(engine) == [[1, 2, 3]]
            assert role.password not in repr([batch.end for batch in engine.batches])
            engine.stop()
        stored = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
        assert not any(role.password.encode() in content for content in stored)


def test_standard_sql_reads_a_table_without_tuples_and_casts(
    tmp_path: Path, flip27_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB stands in for a database whose name is unknown."""
    monkeypatch.setattr(database, "dialect_of", lambda _name: ANSI)
    with duckdb_shop(tmp_path) as shop:
        shop.insert(ORDERS[:4])
        start = f"{DAY} 08:00:00, 2"
        engine = flip27_engine(shop.with_options(partitionRows="1", startingCursor=start))
        assert batches_of(engine) == [[2, 3, 4]]
        shop.insert(ORDERS[4:])
        engine.restart()
        assert polled(engine) == [[5, 6]]


@pytest.mark.skipif(
    importlib.util.find_spec(WHEELS[16]) is None, reason="PostgreSQL 16 has no wheel for this Python"
)
def test_rows_wait_on_an_older_postgresql_too(flip27_engine: Engine) -> None:
    with postgres_server(16) as server, postgres_shop(server) as shop:
        shop.insert(ORDERS)
        engine = flip27_engine(shop.options)
        assert batches_of(engine) == [[1, 2, 3, 4, 5, 6]]
        with server.connect(shop.more["database"], autocommit=False) as late:
            late.execute(f"INSERT INTO orders VALUES (7, 1.0, '{DAY} 09:00:00')")
            shop.insert([(8, 1.0, f"{DAY} 09:00:00")])
            assert polled(engine) == []
            late.commit()
            assert polled(engine) == [[7, 8]]
