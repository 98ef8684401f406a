"""Connections of ADBC drivers, whose results are Arrow batches."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from flip27_source.enumerators.sql.database import (
    ROWS_PER_BATCH,
    Database,
    Secrets,
    check_sqlite_file,
    driver_needed,
)
from flip27_source.errors import OptionError

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

# When the session began: the driver looks up the types before it can be set.
_QUOTES_ALL = "SELECT 1 FROM pg_settings WHERE name = 'quote_all_identifiers' AND reset_val = 'on'"


class AdbcDatabase(Database):
    """A connection of an ADBC driver, whose long results are Arrow batches."""

    def __init__(self, driver: str, uri: str, password: str | None) -> None:
        self.secrets = Secrets(uri, password)
        dbapi = imported_adbc()
        self.errors = (dbapi.Error, OSError, pa.ArrowException, UnicodeDecodeError)
        arguments = _adbc_arguments(driver, uri, password)
        with self.guarded():
            self._connection = dbapi.connect(**arguments, autocommit=True)
        with self.guarded():
            self.set_up(lambda: str(self._connection.adbc_get_info().get("vendor_name", "")))
        if self.dialect.name == "postgresql" and self.value(_QUOTES_ALL) is not None:
            self.close()
            raise OptionError(
                "quote_all_identifiers is on for the user or the database of uri, so the driver cannot tell "
                "the types of columns",
                remedy="ALTER ROLE ... or ALTER DATABASE ... SET quote_all_identifiers = off; or add to uri "
                "the parameter options=-c%20quote_all_identifiers%3Doff",
            )

    def fields(self, sql: str) -> pa.Schema:
        with self.guarded(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            schema = cursor.fetch_record_batch().schema
        if self.dialect.name != "duckdb":
            return schema
        # Different types of DuckDB have the same type of Arrow.
        _, described = self.rows(f"DESCRIBE {sql}")
        kinds = [{"DUCKDB:type": row[1]} for row in described]
        return pa.schema([field.with_metadata(kind) for field, kind in zip(schema, kinds, strict=True)])

    def rows(self, sql: str, *, columns: int | None = None) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        table = self._fetched(sql)
        with self.guarded():
            values = [column.to_pylist() for column in table.columns[:columns]]
        return tuple(map(_kind, table.schema)), list(zip(*values, strict=True))

    def row_bytes(self, sql: str) -> int:
        table = self._fetched(sql)
        size: int = table.nbytes
        return size // max(1, int(table.num_rows))

    def _fetched(self, sql: str) -> pa.Table:
        with self.guarded(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            table: pa.Table = cursor.fetch_arrow_table()
            return table

    def batches(self, sql: str, *, first_rows: int) -> Iterator[pa.RecordBatch]:
        """A long result; on SQLite, which has no types, more rows than ``first_rows`` decide the types."""
        settings = {}
        if self.dialect.name == "sqlite":
            settings["adbc.sqlite.query.batch_rows"] = str(first_rows + ROWS_PER_BATCH)
        with self.guarded(), self._connection.cursor(adbc_stmt_kwargs=settings) as cursor:
            cursor.execute(sql)
            # The reader that fetch_record_batch returns raises errors without their SQLSTATE.
            results: Any = cursor._results
            yield from results.reader

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()


def _adbc_arguments(driver: str, uri: str, password: str | None) -> dict[str, Any]:
    module = _MODULES.get(driver.lower(), driver)
    arguments: dict[str, Any] = {"driver": driver_path(driver)}
    if module == "adbc_driver_duckdb":
        return arguments | {
            "entrypoint": "duckdb_adbc_init",
            "db_kwargs": {"path": uri, "access_mode": "READ_ONLY"},
        }
    if module == "adbc_driver_sqlite":
        return arguments | {"uri": _sqlite_uri(uri)}
    if module == "adbc_driver_postgresql":
        return arguments | {"uri": with_password(uri, password)}
    return arguments | {"uri": uri, "db_kwargs": {} if password is None else {"password": password}}


def imported_adbc() -> Any:
    """The module of the driver manager that connects to databases."""
    with driver_needed("adbc_driver_manager", also="adbc-driver-manager"):
        from adbc_driver_manager import dbapi
    return dbapi


def driver_path(driver: str) -> str:
    """The shared library of a driver's Python module; any other name is left to the driver manager."""
    module = _MODULES.get(driver.lower(), driver)
    if module not in _PACKAGES and not (
        re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", module) and importlib.util.find_spec(module.partition(".")[0])
    ):
        return module
    with driver_needed(module, also=_PACKAGES.get(module, module)):
        found = importlib.import_module(module)
    path = getattr(found, "_driver_path", None) or getattr(found, "driver_path", None)
    return module if path is None else str(path())


def _sqlite_uri(uri: str) -> str:
    """The URI of an existing file, opened read-only."""
    if uri.startswith("file:"):
        name, _, query = uri.partition("#")[0].partition("?")  # SQLite ignores a fragment
        settings = [setting for setting in query.split("&") if setting]
        if name == "file::memory:" or "mode=memory" in settings:
            return uri
        kept = (setting for setting in settings if not setting.startswith("mode="))
        return f"{name}?{'&'.join([*kept, 'mode=ro'])}"
    check_sqlite_file(uri)
    return f"file:{quote(os.path.abspath(uri))}?mode=ro"


def with_password(uri: str, password: str | None) -> str:
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


def _kind(field: pa.Field) -> str:
    """The type of a cursor column as stored."""
    kind = field.type
    name = getattr(kind, "type_name", None) or getattr(kind, "extension_name", None)
    return str(name) if isinstance(name, str) else str(kind)
