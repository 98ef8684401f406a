"""What the mysql source relies on, shown on a real server."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from tests.mysql_server import MysqlServer


def rows_of(connection: Any, *statements: str) -> list[tuple[Any, ...]]:
    """Run these statements; return the rows of the last one."""
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def snapshot(connection: Any) -> tuple[str, int]:
    """The file and the position of a snapshot that is taken now."""
    begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
    (_, file), (_, offset) = rows_of(connection, begin, "SHOW STATUS LIKE 'binlog_snapshot_%'")
    return file, int(offset)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO first VALUES (7)",
        "INSERT INTO unsafe VALUES (7)",
        "FLUSH BINARY LOGS",
        "TRUNCATE first",
    ],
)
def test_a_snapshot_is_at_the_end_of_the_log_if_nothing_is_written(
    mysql: MysqlServer, statement: str
) -> None:
    with mysql.database() as database, closing(mysql.connect(database)) as one:
        rows_of(one, "CREATE TABLE first (id INT PRIMARY KEY)", "CREATE TABLE unsafe (id INT) ENGINE=MyISAM")
        rows_of(one, statement)
        ((file, offset, *_),) = rows_of(one, "SHOW MASTER STATUS")
        assert snapshot(one) == (file, offset)


def test_a_snapshot_has_what_is_before_its_position_and_nothing_else(mysql: MysqlServer) -> None:
    with (
        mysql.database() as database,
        closing(mysql.connect(database)) as reader,
        closing(mysql.connect(database)) as writer,
    ):
        rows_of(writer, "CREATE TABLE t (id INT PRIMARY KEY)")
        rows_of(writer, "START TRANSACTION", "INSERT INTO t VALUES (1)")
        before = snapshot(reader)
        rows_of(writer, "COMMIT")
        assert rows_of(reader, "SELECT * FROM t") == []
        rows_of(reader, "COMMIT")
        after = snapshot(reader)
        rows_of(writer, "INSERT INTO t VALUES (2)")
        assert before < after
        assert rows_of(reader, "SELECT * FROM t") == [(1,)]


def test_the_log_lacks_what_a_foreign_key_deletes(mysql: MysqlServer) -> None:
    with mysql.database() as database, closing(mysql.connect(database)) as one:
        key = "FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE"
        rows_of(
            one,
            "CREATE TABLE parents (id INT PRIMARY KEY)",
            f"CREATE TABLE children (id INT PRIMARY KEY, parent INT, {key})",
            "INSERT INTO parents VALUES (1)",
            "INSERT INTO children VALUES (1, 1)",
        )
        ((file, offset, *_),) = rows_of(one, "SHOW MASTER STATUS")
        rows_of(one, "DELETE FROM parents")
        assert rows_of(one, "SELECT * FROM children") == []
        events = rows_of(one, f"SHOW BINLOG EVENTS IN '{file}' FROM {offset}")
        kinds = [kind for _, _, kind, *_ in events if "rows" in kind]
        assert kinds == ["Annotate_rows", "Delete_rows_v1"]
        (parents,) = (text.split()[1] for *_, text in events if text.endswith(f"({database}.parents)"))
        (deleted,) = (text for _, _, kind, _, _, text in events if kind == "Delete_rows_v1")
        assert deleted.startswith(f"table_id: {parents} ")
