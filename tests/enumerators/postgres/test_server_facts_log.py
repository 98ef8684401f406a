"""The source's assumptions about the contents of the log, checked on a real server."""

from __future__ import annotations

import psycopg
import pytest

from tests.enumerators.postgres import log
from tests.enumerators.postgres.database import TestedDatabase
from tests.enumerators.postgres.log import UNCHANGED, Change

LARGE = "SELECT string_agg(md5(n::text), '') FROM generate_series(1, 400) AS n"


def test_an_update_has_the_old_key_only_if_the_key_changes(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a')")
    database.execute("UPDATE t SET v = 'b'", "UPDATE t SET id = 2", "DELETE FROM t")
    assert database.changes_in_log()[1:] == [
        Change(op="U", tables=("public.t",), new={"id": "1", "v": "b"}),
        Change(
            op="U",
            tables=("public.t",),
            new={"id": "2", "v": "b"},
            old={"id": "1", "v": None},
            old_kind="K",
        ),
        Change(op="D", tables=("public.t",), old={"id": "2", "v": None}, old_kind="K"),
    ]


def test_with_replica_identity_full_old_rows_are_complete(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)", "ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("INSERT INTO t VALUES (1, 'a')", "UPDATE t SET v = 'b'", "DELETE FROM t")
    _insert, update, delete = database.changes_in_log()
    assert (update.old_kind, update.old, update.new) == ("O", {"id": "1", "v": "a"}, {"id": "1", "v": "b"})
    assert (delete.old_kind, delete.old, delete.new) == ("O", {"id": "1", "v": "b"}, None)


def test_with_replica_identity_index_the_old_key_has_the_columns_of_the_index(
    database: TestedDatabase,
) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL UNIQUE, v text)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key",
        "INSERT INTO t VALUES (1, 'x', 'a')",
        "UPDATE t SET id = 2",
        "UPDATE t SET code = 'y'",
    )
    _insert, of_id, of_code = database.changes_in_log()
    assert (of_id.old_kind, of_id.new) == (None, {"id": "2", "code": "x", "v": "a"})
    assert (of_code.old_kind, of_code.old) == ("K", {"id": None, "code": "x", "v": None})


@pytest.mark.parametrize(
    "definition",
    [
        "CREATE TABLE t (id int)",
        "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING",
    ],
)
@pytest.mark.parametrize("statement", ["UPDATE t SET id = 2", "DELETE FROM t"])
def test_a_published_table_without_identity_takes_inserts_and_refuses_updates_and_deletes(
    database: TestedDatabase, definition: str, statement: str
) -> None:
    database.execute(definition, "INSERT INTO t VALUES (1)")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="does not have a replica identity"):
        database.execute(statement)
    assert [change.op for change in database.changes_in_log()] == ["I"]


def test_an_unchanged_large_value_is_missing_even_if_the_key_changes(
    database: TestedDatabase,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int, large text)")
    database.execute("ALTER TABLE t ALTER large SET STORAGE EXTERNAL")
    database.execute(f"INSERT INTO t SELECT 1, 1, ({LARGE})", "UPDATE t SET v = 2", "UPDATE t SET id = 2")
    insert, of_value, of_key = database.changes_in_log()
    assert insert.new is not None
    assert len(insert.new["large"]) == 400 * 32
    assert of_value.new == {"id": "1", "v": "2", "large": UNCHANGED}
    assert (of_key.new, of_key.old) == (
        {"id": "2", "v": "2", "large": UNCHANGED},
        {"id": "1", "v": None, "large": None},
    )


def test_an_unchanged_large_value_is_in_the_old_row_with_replica_identity_full(
    database: TestedDatabase,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int, large text)")
    database.execute("ALTER TABLE t ALTER large SET STORAGE EXTERNAL, REPLICA IDENTITY FULL")
    database.execute(f"INSERT INTO t SELECT 1, 1, ({LARGE})", "UPDATE t SET v = 2", "DELETE FROM t")
    _insert, update, delete = database.changes_in_log()
    assert update.new == {"id": "1", "v": "2", "large": UNCHANGED}
    assert update.old is not None
    assert len(update.old["large"]) == 400 * 32
    assert delete.old is not None
    assert len(delete.old["large"]) == 400 * 32


def test_an_update_that_changes_no_value_is_in_the_log(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)", "UPDATE t SET id = 1")
    assert [(change.op, change.old) for change in database.changes_in_log()] == [("I", None), ("U", None)]


def test_truncate_is_one_message_for_all_its_published_tables(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int REFERENCES a)")
    database.execute("TRUNCATE a CASCADE", "TRUNCATE a, b")
    first, second = database.changes_in_log()
    assert (first.op, sorted(first.tables)) == ("T", ["public.a", "public.b"])
    assert (second.op, sorted(second.tables)) == ("T", ["public.a", "public.b"])


def test_changes_of_an_unpublished_table_are_not_sent(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE a (id int)", "CREATE TABLE b (id int)", "CREATE PUBLICATION q FOR TABLE b")
    database.advance(database.flushed())
    database.execute("INSERT INTO a VALUES (1)")
    assert log.messages(database.session(), database.slot, publication="q") == []


def test_changes_of_partitions_belong_to_the_root_if_the_publication_says_so(
    database: TestedDatabase,
) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "CREATE PUBLICATION root FOR TABLE t WITH (publish_via_partition_root = true)",
        "CREATE PUBLICATION leaves FOR TABLE t",
    )
    database.advance(database.flushed())
    database.execute("INSERT INTO t VALUES (1, 'a')", "UPDATE t SET id = 11", "TRUNCATE t", "TRUNCATE low")

    def found(publication: str) -> list[tuple[str, tuple[str, ...]]]:
        peeked = log.peek(database.session(), database.slot, publication=publication)
        return [(change.op, tuple(sorted(change.tables))) for each in peeked for change in each.changes]

    # A row that moves to another partition is logged as a delete and an insert.
    assert found("leaves") == [
        ("I", ("public.low",)), ("D", ("public.low",)), ("I", ("public.high",)),
        ("T", ("public.high", "public.low")), ("T", ("public.low",)),
    ]  # fmt: skip
    # The truncation of a single partition is not in the log of the root.
    assert found("root") == [
        ("I", ("public.t",)), ("D", ("public.t",)), ("I", ("public.t",)), ("T", ("public.t",)),
    ]  # fmt: skip


def test_the_columns_of_a_table_may_change_in_the_middle_of_a_transaction(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, a text)", "INSERT INTO t VALUES (1, 'x')")
    session = database.session()
    session.execute("BEGIN; INSERT INTO t VALUES (2, 'y'); ALTER TABLE t ADD b int DEFAULT 5, DROP a")
    session.execute("INSERT INTO t VALUES (3, 6); COMMIT")
    assert [change.new for change in database.changes_in_log()] == [
        {"id": "1", "a": "x"},
        {"id": "2", "a": "y"},
        {"id": "3", "b": "6"},
    ]


def test_rewriting_a_table_sends_no_changes(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, a int)", "INSERT INTO t VALUES (1, 2)")
    database.execute("ALTER TABLE t ALTER a TYPE text", "UPDATE t SET id = 2")
    assert [(change.op, change.new) for change in database.changes_in_log()] == [
        ("I", {"id": "1", "a": "2"}),
        ("U", {"id": "2", "a": "2"}),
    ]


def test_generated_columns_are_not_sent(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)")
    database.execute("INSERT INTO t VALUES (1)")
    assert [change.new for change in database.changes_in_log()] == [{"id": "1"}]


def test_logical_messages_and_empty_transactions_are_not_sent(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    database.execute("SELECT pg_logical_emit_message(true, 'heartbeat', 'x')")
    database.execute("SELECT pg_logical_emit_message(false, 'heartbeat', 'x')", "DELETE FROM t")
    assert log.messages(database.session(), database.slot) == []


VALUES = {
    "d date": "2024-03-01",
    "ts timestamp": "2024-03-01 10:11:12.5",
    "tz timestamptz": "2024-03-01 10:11:12+00",
    "i interval": "1 year 2 days 03:04:05",
    "f float8": "0.30000000000000004",
    "b bytea": "\\xff00",
    "m money": "$1.50",
}


@pytest.mark.parametrize("is_hostile", [False, True])
def test_texts_in_the_log_follow_the_settings_of_the_reading_session(
    database: TestedDatabase, is_hostile: bool
) -> None:
    database.execute(f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(VALUES)})")
    writer = database.session()
    writer.execute("SET bytea_output = hex")
    writer.execute("INSERT INTO t VALUES (1, %s, %s, %s, %s, 0.1::float8 + 0.2, %s, 1.5::numeric::money)", [
        value for name, value in VALUES.items() if name not in ("f float8", "m money")
    ])  # fmt: skip
    settings = {
        "DateStyle": "ISO,MDY", "TimeZone": "UTC", "IntervalStyle": "postgres",
        "extra_float_digits": "1", "bytea_output": "hex",
    }  # fmt: skip
    if is_hostile:
        settings = {
            "DateStyle": "German", "TimeZone": "Asia/Kolkata", "IntervalStyle": "iso_8601",
            "extra_float_digits": "-3", "bytea_output": "escape",
        }  # fmt: skip
    reader = database.session(**settings)
    ((change,),) = [each.changes for each in log.peek(reader, database.slot)]
    with reader.cursor().copy("COPY (SELECT * FROM t) TO STDOUT") as copy:
        copied = b"".join(copy).decode().rstrip("\n").replace("\\\\", "\\").split("\t")
    assert change.new is not None
    found = list(change.new.values())
    assert found == copied
    hostile = [
        "01.03.2024", "01.03.2024 10:11:12.5", "01.03.2024 15:41:12 IST", "P1Y2DT3H4M5S", "0.3",
        "\\377\\000", "$1.50",
    ]  # fmt: skip
    plain = [
        "2024-03-01", "2024-03-01 10:11:12.5", "2024-03-01 10:11:12+00", "1 year 2 days 03:04:05",
        "0.30000000000000004", "\\xff00", "$1.50",
    ]  # fmt: skip
    assert found[1:] == (hostile if is_hostile else plain)
