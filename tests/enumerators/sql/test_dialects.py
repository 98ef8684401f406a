"""Literals, comparisons of tuples, and secrets in the errors of drivers."""

from __future__ import annotations

import datetime as dt
import sqlite3
from decimal import Decimal
from typing import Any

import adbc_driver_sqlite.dbapi
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flip27_source.enumerators.sql.adbc import AdbcDatabase, with_password
from flip27_source.enumerators.sql.database import DatabaseFailure, Secrets
from flip27_source.enumerators.sql.dialects import ANSI, MYSQL, POSTGRESQL, SQLITE, dialect_of, text_of
from flip27_source.enumerators.sql.sqlalchemy_rows import SqlAlchemyDatabase
from flip27_source.errors import OptionError


@pytest.mark.parametrize("operator", [">", ">=", "<=", "<"])
@given(
    rows=st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=8),
    values=st.lists(st.integers(0, 2), min_size=1, max_size=3),
)
def test_tuples_compare_equally_with_and_without_sql_row_values(
    operator: str, rows: list[tuple[int, int, int]], values: list[int]
) -> None:
    literals = list(map(str, values))
    found = []
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (a, b, c)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        for dialect in (SQLITE, ANSI):
            condition = dialect.compared(["a", "b", "c"], operator, literals)
            found.append(sorted(connection.execute(f"SELECT * FROM t WHERE {condition}").fetchall()))
    connection.close()
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("value", "kind", "literal"),
    [
        (17, "int64", "17"),
        (Decimal("1.50"), "decimal128(4, 2)", "1.50"),
        (0.1, "double", "0.1"),
        ("it's", "string", "'it''s'"),
        (dt.datetime(2024, 5, 1, 8), "timestamp[us]", "TIMESTAMP '2024-05-01 08:00:00'"),
        (dt.date(2024, 5, 1), "date32[day]", "DATE '2024-05-01'"),
        (True, "bool", "TRUE"),
        (b"\x00\xff", "binary", "X'00ff'"),
    ],
)
def test_values_are_stored_as_text_and_written_as_literals(value: Any, kind: str, literal: str) -> None:
    assert ANSI.literal(text_of(value), kind) == literal


def test_backslashes_are_doubled_in_dialects_that_use_them_as_escapes() -> None:
    assert MYSQL.literal("a\\'b", "string") == "'a\\\\''b'"


@pytest.mark.parametrize("value", ["1 OR 1=1", "'a' OR 'b'", "1; DROP TABLE t", "NULL", ""])
def test_a_stored_text_that_is_not_exactly_one_literal_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        SQLITE.literal(value, "number")
    with pytest.raises(ValueError, match="is not a number"):
        ANSI.literal(value, "int64")
    with pytest.raises(ValueError, match="is not a number"):
        SQLITE.given(value, "number")


@given(st.text())
def test_any_text_becomes_exactly_one_literal(value: str) -> None:
    assert POSTGRESQL.literal(value, "text")[1:-1].replace("''", "'") == value


@example("a\x00'0")
@given(
    st.one_of(
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
        st.binary(),
    )
)
def test_a_value_quoted_by_sqlite_is_read_back_unchanged(value: Any) -> None:
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        return
    # The driver's SQLite is newer than Python's; older ones read tiny floats inexactly.
    with adbc_driver_sqlite.dbapi.connect(":memory:") as connection, connection.cursor() as cursor:
        assert SQLITE.as_text is not None
        cursor.execute(f"SELECT {SQLITE.as_text('?1')}", (value,))
        ((stored,),) = cursor.fetchall()
        cursor.execute(f"SELECT {SQLITE.literal(stored, '')}")
        ((again,),) = cursor.fetchall()
    assert again == value
    assert type(again) is type(value)
    if isinstance(value, str):
        assert SQLITE.plain(stored) == value


def test_the_name_of_the_database_selects_the_dialect() -> None:
    assert dialect_of("PostgreSQL") is POSTGRESQL
    assert dialect_of("MariaDB") is MYSQL
    assert dialect_of("snowflake") is ANSI


@pytest.mark.parametrize(
    ("uri", "password"),
    [
        ("postgresql://flip27:s3cr%40t!@db/shop", None),
        ("postgresql://flip27@db/shop", "s3cr@t!"),
        ("host=db user=flip27 password=s3cr@t!", None),
        ("snowflake://u@account/db?token=s3cr@t!", None),
        ("flip27:s3cr@t!@tcp(localhost:3306)/shop", None),
        ("postgresql:/flip27:s3cr@t!@db/shop", None),
        ("jane@corp.com:s3cr@t!@account/db", None),
        ("postgresql:/jane@corp.com:s3cr@t!@db/shop", None),
        ("jane@corp.com/s3cr@t!@db", None),
    ],
)
def test_secrets_are_masked_in_the_errors_of_drivers(uri: str, password: str | None) -> None:
    said = Secrets(uri, password).failure(OSError(f"bad {uri}: 's3cr@t!' and s3cr%40t%21")).what
    assert "s3cr" not in said


@pytest.mark.parametrize(
    "uri",
    [
        "host=/var/run/postgresql user=jane@corp dbname=shop",
        "C:/Users/me@corp/shop.db",
        "C:\\run/me@corp.db",
        "/var/run/me@corp/shop.db",
    ],
)
def test_parts_of_paths_are_not_masked_in_errors(uri: str) -> None:
    said = "no such column run_id of Users in var, named by me"
    assert Secrets(uri, None).failure(OSError(said)).what == said


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://flip27:S3cr/etPw@127.0.0.1:1/shop",
        "postgresql://flip27:S3cr@etPw@127.0.0.1:1/shop",
        "postgresql://flip27:S3cr#etPw@127.0.0.1:1/shop",
        "postgresql://flip27:S3cr?etPw@127.0.0.1:1/shop",
        "postgresql:/flip27:S3cr@etPw@127.0.0.1:1/shop",
        "host=127.0.0.1 port=1 user=x password=S3cr etPw",
        "host=127.0.0.1 port=1 user=x password='S3cr etPw' sslmode=etPw",
    ],
)
def test_no_part_of_an_unescaped_password_is_in_the_error_of_a_driver(uri: str) -> None:
    with pytest.raises(DatabaseFailure) as failed:
        AdbcDatabase("postgresql", uri, None)
    assert "S3cr" not in failed.value.what
    assert "etPw" not in failed.value.what


def test_the_remedy_for_a_missing_driver_names_its_package() -> None:
    with pytest.raises(OptionError, match=r"pip install 'flip27-source\[sql\]' pymssql on the driver"):
        SqlAlchemyDatabase("mssql+pymssql://flip27@127.0.0.1:1/shop", None)


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("postgresql://u@db:5432/shop", "postgresql://u:p%40s@db:5432/shop"),
        ("postgresql://u:old@db/shop?sslmode=require", "postgresql://u:p%40s@db/shop?sslmode=require"),
        ("postgresql://db/shop?user=u", "postgresql://db/shop?user=u&password=p%40s"),
        ("host=db user=u", "host=db user=u password='p@s'"),
    ],
)
def test_the_password_is_put_into_the_uri_of_postgresql(uri: str, found: str) -> None:
    assert with_password(uri, "p@s") == found
