"""The source's assumptions about the contents of the log, checked on a real server."""

from __future__ import annotations

import psycopg
import pytest

from tests.enumerators.postgres import log
from tests.enumerators.postgres.database import TestedDatabase


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


def test_an_update_that_changes_no_value_is_in_the_log(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)", "UPDATE t SET id = 1")
    assert [(change.op, change.old) for change in database.changes_in_log()] == [("I", None), ("U", None)]


def test_truncate_is_one_message_for_all_its_published_tables(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int REFERENCES a)")
    database.execute("TRUNCATE a CASCADE", "TRUNCATE a, b")
    first, second = database.changes_in_log()
    assert (first.op, sorted(first.tables)) == ("T", ["public.a", "public.b"])
    assert (second.op, sorted(second.tables)) == ("T", ["public.a", "public.b"])


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
