"""SQLAlchemy connections, whose results are rows of Python values, which is slower than ADBC."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

from flip27_source.enumerators.sql.database import (
    ROWS_PER_BATCH,
    Database,
    Secrets,
    check_sqlite_file,
    driver_needed,
)
from flip27_source.errors import OptionError

_TIMESTAMPTZ, _JSONB = 1184, 3802
"""PostgreSQL's numbers for types that a value, or a table without rows, does not show."""


def imported_sqlalchemy() -> Any:
    with driver_needed("sqlalchemy", also="sqlalchemy"):
        import sqlalchemy
    return sqlalchemy


class SqlAlchemyDatabase(Database):
    """A connection whose long results are blocks of rows."""

    def __init__(self, uri: str, password: str | None) -> None:
        self.secrets = Secrets(uri, password)
        sqlalchemy = imported_sqlalchemy()
        self.errors = (sqlalchemy.exc.SQLAlchemyError,)
        self._text = sqlalchemy.text
        try:
            url = sqlalchemy.engine.make_url(uri)
        except sqlalchemy.exc.ArgumentError:
            raise OptionError(
                "option uri (not shown) is not a SQLAlchemy URL, and option driver is not set",
                remedy='add .option("driver", "sqlite"), duckdb or postgresql; or write uri as '
                "SQLAlchemy does: mysql+pymysql://user@host/shop",
            ) from None
        if password is not None:
            url = url.set(password=password)
        if url.get_backend_name() == "sqlite" and url.database and not url.database.startswith(":"):
            if not url.database.startswith("file:") or "uri" not in url.query:
                check_sqlite_file(url.database)
            elif url.database != "file::memory:" and url.query.get("mode") != "memory":
                url = url.set(database=url.database.partition("#")[0])  # SQLite ignores a fragment
                url = url.update_query_dict({"mode": "ro"})
        # psycopg2 decodes texts by the encoding that it finds when it connects, whatever is set later.
        arguments = {"client_encoding": "utf8"} if url.get_driver_name().startswith("psycopg") else {}
        with self.guarded(), driver_needed(url.drivername, also=""):
            self.engine = sqlalchemy.create_engine(
                url, poolclass=sqlalchemy.NullPool, hide_parameters=True, connect_args=arguments
            )
            self._connection = self.engine.connect()
        self.set_up(lambda: self.engine.dialect.name)

    def fields(self, sql: str) -> pa.Schema:
        with self.guarded(), self._executed(sql) as result:
            names = list(result.keys())
            codes = [column[1] for column in result.cursor.description]
            rows = result.fetchmany(1)
            kinds = map(self._type_of, rows[0] if rows else [None] * len(names), codes)
            return pa.schema(list(zip(names, kinds, strict=True)))

    def rows(self, sql: str, *, columns: int | None = None) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        with self.guarded(), self._executed(sql) as result:
            if not result.returns_rows:
                return (), []
            codes = [column[1] for column in result.cursor.description]
            rows = [tuple(row) for row in result.fetchall()]
        kinds = tuple(map(self._kind_of, rows[0], codes)) if rows else ()
        return kinds, [row[:columns] for row in rows]

    def row_bytes(self, sql: str) -> int:
        _, rows = self.rows(sql)
        sizes = [len(value) if isinstance(value, str | bytes) else 8 for row in rows for value in row]
        return sum(sizes) // max(1, len(rows))

    def named_rows(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The names of the columns of a short result, and its rows."""
        with self.guarded(), self._executed(sql) as result:
            return list(result.keys()), [tuple(row) for row in result.fetchall()]

    def columns(self, table: str, schema: str | None) -> list[Any]:
        """The columns of a table as SQLAlchemy reflects them; empty if it cannot."""
        import sqlalchemy

        try:
            return list(sqlalchemy.inspect(self._connection).get_columns(table, schema=schema))
        except sqlalchemy.exc.SQLAlchemyError:
            return []

    def blocks(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        with self.guarded(), self._executed(sql, stream_results=True) as result:
            while block := result.fetchmany(ROWS_PER_BATCH):
                yield [tuple(row) for row in block]

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()
            self.engine.dispose()

    def _kind_of(self, value: Any, code: Any) -> str:
        """The name of a type; PostgreSQL's own for arrays and JSON, whose values show different types."""
        has_parts = code == _JSONB or isinstance(value, list | dict)
        if has_parts and self.engine.dialect.name == "postgresql":
            # With a prefix, because date[] is no date.
            return f"PostgreSQL {self.value(f'SELECT format_type({code}, NULL)')}"
        return str(self._type_of(value, code))

    def _type_of(self, value: Any, code: Any) -> pa.DataType:
        """The type of a value; null for arrays and JSON."""
        if self.engine.dialect.name == "postgresql" and code == _TIMESTAMPTZ:
            return pa.timestamp("us", "UTC")
        if isinstance(value, list | dict):
            return pa.null()
        if isinstance(value, Decimal):
            return pa.decimal128(38)  # Arrow has no type for Infinity, or for more digits
        try:
            return pa.infer_type([value])
        except pa.ArrowException:
            return pa.string()

    @contextlib.contextmanager
    def _executed(self, sql: str, **settings: Any) -> Iterator[Any]:
        # text() would take a colon before a name for the start of a parameter.
        sql = sql.replace(":", r"\:")
        try:
            with contextlib.closing(
                self._connection.execution_options(**settings).execute(self._text(sql))
            ) as result:
                yield result
        except BaseException:
            with contextlib.suppress(Exception):
                self._connection.rollback()
            raise
        # The next statement has to see what others have committed by then.
        self._connection.commit()
