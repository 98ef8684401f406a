"""Connections: ADBC, or SQLAlchemy as the slower way. Rows for the enumerator, Arrow batches for the reader.

Everything that a driver raises becomes a DatabaseFailure whose text contains no secret. Callers turn it into
an error of their own half.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa

from flip27_source.enumerators.sql.dialects import Dialect, dialect_of
from flip27_source.enumerators.sql.options import DRIVER, PASSWORD_ENV, URI, URI_ENV
from flip27_source.errors import OptionError
from flip27_source.options import Options

ROWS_PER_BATCH = 65_536

_MODULES = {
    "sqlite": "adbc_driver_sqlite",
    "duckdb": "adbc_driver_duckdb",
    "postgresql": "adbc_driver_postgresql",
}
_PACKAGES = {
    "adbc_driver_sqlite": "adbc-driver-sqlite",
    "adbc_driver_duckdb": "duckdb",
    "adbc_driver_postgresql": "adbc-driver-postgresql",
}
_NAMED_SECRET = re.compile(r"(?:password|passwd|pwd|token|secret|key)\s*=\s*'?([^\s'&;]+)", re.IGNORECASE)
_REMEDIES = (
    (r"password|authentication|access denied", "check the user in uri, and the password in passwordEnv"),
    (r"no such table|does not exist|unknown table|catalog error|undefinedtable|no such column|binder error",
     "check options table, query and cursorColumns, and the rights of the user"),
    (r"permission denied|not authorized", "give the user of uri the right to SELECT"),
    (r"\block(ed)?\b", "wait until the process that writes has closed the file; the read is retried"),
    (r"connect|unable to open|failed to open|could not open|cannot open",
     "check uri, and whether this machine can reach the database"),
)  # fmt: skip


class DatabaseFailure(Exception):  # noqa: N818 - the callers' errors say what failed
    """A driver raised an error.

    Attributes:
        what: its text without secrets.
        remedy: what the user can do.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy


class Database(ABC):
    """A connection; statements see what was committed before each of them."""

    dialect: Dialect

    @abstractmethod
    def fields(self, sql: str) -> pa.Schema:
        """The columns of a query. Their types are those of its first row where the database has none."""

    @abstractmethod
    def rows(self, sql: str, *, columns: int | None = None) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """The Arrow types of a short result, and its rows.

        Args:
            columns: only the values of so many columns; Python cannot represent the times of all databases.
        """

    @abstractmethod
    def row_bytes(self, sql: str) -> int:
        """The average size of the rows of a short result."""

    @abstractmethod
    def batches(self, sql: str, *, first_rows: int) -> Iterator[pa.RecordBatch]:
        """A long result.

        Args:
            first_rows: how many rows SQLite, which has no types, looks at to choose the Arrow types.
        """

    @abstractmethod
    def close(self) -> None:
        """End the connection."""

    def value(self, sql: str) -> Any:
        """The first value of the first row; None without a row."""
        _, rows = self.rows(sql)
        return rows[0][0] if rows else None


def connected(options: Options) -> Database:
    """A new connection.

    Raises:
        DatabaseFailure: the database cannot be reached, or refuses the user.
        OptionError: a driver is not installed, or an environment variable is not set.
    """
    uri, password = _uri(options), _of_environment(options, PASSWORD_ENV)
    driver = options[DRIVER]
    if driver is None:
        return SqlAlchemyDatabase(uri, password)
    return AdbcDatabase(driver, uri, password)


class AdbcDatabase(Database):
    """A connection of an ADBC driver.

    Args:
        driver, uri, password: as given by the options.
    """

    def __init__(self, driver: str, uri: str, password: str | None) -> None:
        self._secrets = Secrets(uri, password)
        with _needed("adbc_driver_manager", "adbc-driver-manager"):
            from adbc_driver_manager import dbapi
        arguments = _adbc_arguments(driver, uri, password)
        with self._guarded():
            self._connection = dbapi.connect(**arguments, autocommit=True)
        try:
            with self._guarded():
                self.dialect = dialect_of(str(self._connection.adbc_get_info().get("vendor_name", "")))
            for statement in self.dialect.settings:
                self.rows(statement)
        except BaseException:
            self.close()
            raise

    def fields(self, sql: str) -> pa.Schema:
        with self._guarded(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetch_record_batch().schema

    def rows(self, sql: str, *, columns: int | None = None) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        table = self._fetched(sql)
        values = [column.to_pylist() for column in table.columns[:columns]]
        return tuple(map(_kind, table.schema)), list(zip(*values, strict=True))

    def row_bytes(self, sql: str) -> int:
        table = self._fetched(sql)
        size: int = table.nbytes
        return size // max(1, int(table.num_rows))

    def _fetched(self, sql: str) -> pa.Table:
        with self._guarded(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            table: pa.Table = cursor.fetch_arrow_table()
            return table

    def batches(self, sql: str, *, first_rows: int) -> Iterator[pa.RecordBatch]:
        settings = {}
        if self.dialect.name == "sqlite":
            settings["adbc.sqlite.query.batch_rows"] = str(max(first_rows, ROWS_PER_BATCH))
        with self._guarded(), self._connection.cursor(adbc_stmt_kwargs=settings) as cursor:
            cursor.execute(sql)
            yield from cursor.fetch_record_batch()

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        from adbc_driver_manager import Error

        try:
            yield
        except (Error, OSError, pa.ArrowException) as error:
            raise self._secrets.failure(error) from None


class SqlAlchemyDatabase(Database):
    """A connection of SQLAlchemy."""

    def __init__(self, uri: str, password: str | None) -> None:
        self._secrets = Secrets(uri, password)
        with _needed("sqlalchemy", "sqlalchemy"):
            import sqlalchemy
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
        with self._guarded(), _needed(url.drivername, url.drivername):
            engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, hide_parameters=True)
            self._connection = engine.connect()
        base = dialect_of(engine.dialect.name)
        self.dialect = base
        self.engine = engine
        try:
            for statement in self.dialect.settings:
                self.rows(statement)
        except BaseException:
            self.close()
            raise

    def fields(self, sql: str) -> pa.Schema:
        with self._guarded(), self._executed(sql) as result:
            names = list(result.keys())
            rows = result.fetchmany(1)
            values = rows[0] if rows else [None] * len(names)
            return pa.schema([(name, _type_of(value)) for name, value in zip(names, values, strict=True)])

    def rows(self, sql: str, *, columns: int | None = None) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        with self._guarded(), self._executed(sql) as result:
            if not result.returns_rows:
                return (), []
            rows = [tuple(row) for row in result.fetchall()]
            kinds = tuple(str(_type_of(value)) for value in rows[0]) if rows else ()
            return kinds, [row[:columns] for row in rows]

    def row_bytes(self, sql: str) -> int:
        _, rows = self.rows(sql)
        sizes = [len(value) if isinstance(value, str | bytes) else 8 for row in rows for value in row]
        return sum(sizes) // max(1, len(rows))

    def batches(self, sql: str, *, first_rows: int) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError("SQLAlchemy gives rows: use blocks")

    def named_rows(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The names of the columns of a short result, and its rows."""
        with self._guarded(), self._executed(sql) as result:
            return list(result.keys()), [tuple(row) for row in result.fetchall()]

    def columns(self, table: str, schema: str | None) -> list[Any]:
        """The columns of a table as SQLAlchemy reflects them; empty if it cannot."""
        import sqlalchemy

        try:
            return list(sqlalchemy.inspect(self._connection).get_columns(table, schema=schema))
        except sqlalchemy.exc.SQLAlchemyError:
            return []

    def blocks(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a long result, in blocks."""
        with self._guarded(), self._executed(sql, stream_results=True) as result:
            while block := result.fetchmany(ROWS_PER_BATCH):
                yield [tuple(row) for row in block]

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()
            self.engine.dispose()

    @contextlib.contextmanager
    def _executed(self, sql: str, **settings: Any) -> Iterator[Any]:
        # text() takes a colon before a name for a parameter.
        result = self._connection.execution_options(**settings).execute(self._text(sql.replace(":", r"\:")))
        try:
            yield result
        finally:
            result.close()
            # The next statement has to see what others commit until then.
            self._connection.commit()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except SQLAlchemyError as error:
            said = getattr(error, "orig", None) or error
            raise self._secrets.failure(said) from None


class Secrets:
    """The secrets of a connection, which no text may contain."""

    def __init__(self, uri: str, password: str | None) -> None:
        found = {password or ""}
        with contextlib.suppress(ValueError):
            parts = urlsplit(uri)
            found.update(filter(None, (parts.password, unquote(parts.password or ""))))
        found.update(_NAMED_SECRET.findall(uri))
        spellings = {quote(text, safe=safe) for text in found for safe in ("", "/", "!*'()")} | found
        self._hidden = sorted((text for text in spellings if len(text) > 1), key=len, reverse=True)
        self._uri = uri

    def failure(self, error: BaseException) -> DatabaseFailure:
        """The failure for an error of a driver."""
        said = " ".join(str(error).split()) or type(error).__name__
        return DatabaseFailure(self.masked(said)[:1000], _remedy(said))

    def masked(self, text: str) -> str:
        """The text without the secrets."""
        if "://" in self._uri:
            text = text.replace(self._uri, "***")
        for secret in self._hidden:
            text = text.replace(secret, "***")
        return text


def _remedy(said: str) -> str:
    lowered = said.lower()
    found = next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, lowered)), None)
    return found or "fix the cause, which the database names"


def _uri(options: Options) -> str:
    uri = options[URI]
    if uri is None:
        uri = _of_environment(options, URI_ENV)
    if uri is None:
        raise OptionError("option uri is not set", remedy=f'add .option("uri", ...): {URI.doc}')
    return uri


def _of_environment(options: Options, option: Any) -> str | None:
    name = options[option]
    if name is None:
        return None
    value = os.environ.get(name)
    if value is None:
        raise OptionError(
            f"the environment variable {name} of option {option.name} is not set on this machine",
            remedy="set the variable on the driver and for the Python workers of all executors "
            "(spark.executorEnv.* in the configuration of Spark)",
        )
    return value


def _adbc_arguments(driver: str, uri: str, password: str | None) -> dict[str, Any]:
    module = _MODULES.get(driver.lower(), driver)
    arguments: dict[str, Any] = {"driver": _driver_path(module)}
    if module == "adbc_driver_duckdb":
        return arguments | {
            "entrypoint": "duckdb_adbc_init",
            "db_kwargs": {"path": uri, "access_mode": "READ_ONLY"},
        }
    if module == "adbc_driver_sqlite":
        return arguments | {"uri": _sqlite_uri(uri)}
    if module == "adbc_driver_postgresql":
        return arguments | {"uri": _with_password(uri, password)}
    secret = {} if password is None else {"password": password}
    return arguments | {"uri": uri, "db_kwargs": secret}


def _driver_path(module: str) -> str:
    """The shared library of a driver's Python module; any other name is left to the driver manager."""
    if module not in _PACKAGES and not (
        re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", module) and importlib.util.find_spec(module.partition(".")[0])
    ):
        return module
    with _needed(module, _PACKAGES.get(module, module)):
        found = importlib.import_module(module)
    path = getattr(found, "_driver_path", None) or getattr(found, "driver_path", None)
    return module if path is None else str(path())


def _sqlite_uri(uri: str) -> str:
    """A file that is only read: SQLite would create a missing file."""
    if uri.startswith("file:"):
        return uri
    if not Path(uri).is_file():
        raise DatabaseFailure(f"the SQLite file {uri} does not exist", "check uri; use an absolute path")
    return f"file:{quote(os.path.abspath(uri))}?mode=ro"


def _with_password(uri: str, password: str | None) -> str:
    if password is None:
        return uri
    if "://" not in uri:
        escaped = password.replace("\\", "\\\\").replace("'", "\\'")
        return f"{uri} password='{escaped}'"
    scheme, _, rest = uri.partition("://")
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    if not at:
        mark = "&" if "?" in uri else "?"
        return f"{uri}{mark}password={quote(password, safe='')}"
    return f"{scheme}://{user.partition(':')[0]}:{quote(password, safe='')}@{host}{slash}{path}"


@contextlib.contextmanager
def _needed(module: str, package: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise OptionError(
            f"the sql source needs {module}, which is not installed: {error}",
            remedy=f"pip install 'flip27-source[sql]' {package} on the driver and on every node",
        ) from error


def _kind(field: pa.Field) -> str:
    """The type of a cursor column as stored."""
    kind = field.type
    name = getattr(kind, "type_name", None) or getattr(kind, "extension_name", None)
    return str(name) if isinstance(name, str) else str(kind)


def _type_of(value: Any) -> pa.DataType:
    try:
        return pa.infer_type([value])
    except pa.ArrowException:
        return pa.string()
