"""Database: an open connection, which the enumerator and the reader both use.

Every error of a driver becomes a DatabaseFailure whose text contains no secret. Callers convert it to an
error of the enumerator or the reader.
"""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from flip27_source.enumerators.sql.dialects import Dialect, dialect_of
from flip27_source.errors import Flip27Error, OptionError
from flip27_source.file_systems.encoded_secrets import EncodedSecrets
from flip27_source.optional_packages import needed

_NAMED_SECRET = re.compile(
    # In quotation marks; or words up to the next "=", because the quotation marks may be missing.
    r"(?:password|passwd|pwd|token|secret|key)\s*=\s*"
    r"(?:'((?:[^'\\]|\\.)*)'|([^\s'&;]+(?:\s+[^\s=]+(?=\s|$))*))",
    re.IGNORECASE,
)
_NO_AUTHORITY = re.compile(r"file:|/|[A-Za-z]:[/\\]|\s*\w+\s*=")  # paths, and names with values
_DELIMITERS = re.compile(r"[\s/@?#:%\[\]]+")
_REMEDIES = (
    (r"password|authentication|access denied", "check the user in uri, and the password in passwordEnv"),
    (r"no such table|does not exist|unknown table|catalog error|undefinedtable|no such column|binder error",
     "check options table, query and cursorColumns, and the rights of the user"),
    (r"readonly database|read-only database",
     "remove the journal of a writer that was killed: sqlite3 FILE 'SELECT 1 FROM sqlite_master'"),
    (r"permission denied|not authorized", "give the user of uri the right to SELECT"),
    (r"invalid byte sequence",
     "correct the texts that are not UTF-8; or select bytes by option query: convert_to(name, 'SQL_ASCII')"),
    (r"codec can't decode", "correct the texts that are not UTF-8, or leave them out with option query"),
    (r"lock timeout|could not obtain lock",
     "end the transaction that holds the lock (pg_locks), or set a longer lock_timeout"),
    (r"\block(ed)?\b", "wait until the process that writes has closed the file; the read is retried"),
    (r"connect|unable to open|failed to open|could not open|cannot open",
     "check uri, and whether this machine can reach the database"),
)  # fmt: skip

driver_needed = partial(needed, by="the sql source", extra="sql", error_type=OptionError)


class DatabaseFailure(Flip27Error):  # noqa: N818 - the callers' errors say what failed
    """A driver raised an error, whose text has no secrets here. The error itself is the hidden context."""


class StatementFailure(DatabaseFailure):
    """The database refuses the statement whatever rows there are, such as for a missing table or column."""


def _refuses_statement(error: BaseException) -> bool:
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if isinstance(state, str):
        return state.startswith(("0A", "3F", "42"))
    is_known = re.search(r"no such (table|column)|(catalog|binder) error", str(error), re.IGNORECASE)
    return is_known is not None or "ProgrammingError" in {kind.__name__ for kind in type(error).__mro__}


class Secrets:
    """The secrets of a connection, which no text may contain."""

    def __init__(self, uri: str, password: str | None) -> None:
        secrets = {password or ""}
        with contextlib.suppress(ValueError):
            secrets.add(urlsplit(uri).password or "")
        # Drivers may split a URI elsewhere if its password contains an unescaped / or @.
        # A DSN, or a mistyped URI, has no "://"; with Oracle, a slash is before the password.
        is_uri = "://" in uri
        authority = uri.partition("://")[2] or ("" if _NO_AUTHORITY.match(uri) else uri)
        name, *password_of = re.split(":" if is_uri else "[:/]", authority.rpartition("@")[0], maxsplit=1)
        if not (is_uri and "@" in name):
            secrets.update(password_of)
        secrets.update(text for groups in _NAMED_SECRET.findall(uri) for text in groups)
        # A driver may name a part of a password in which characters are not escaped.
        secrets.update(part for text in tuple(secrets) for part in (*_DELIMITERS.split(text), unquote(text)))
        self._hidden = EncodedSecrets(secrets, shortest=2)
        self._uri = uri

    def failure(self, error: BaseException) -> DatabaseFailure:
        said = " ".join(str(error).split()) or type(error).__name__
        lowered = said.lower()
        known = (remedy for pattern, remedy in _REMEDIES if re.search(pattern, lowered))
        remedy = next(known, "fix the cause, which the database names")
        kind = StatementFailure if _refuses_statement(error) else DatabaseFailure
        return kind(self.masked(said)[:1000], remedy=remedy)

    def masked(self, text: str) -> str:
        if "://" in self._uri:
            text = text.replace(self._uri, "***")
        return self._hidden.masked(text)


ROWS_PER_BATCH = 65_536


def check_sqlite_file(file: str) -> None:
    """Refuse a missing file, which SQLite would create."""
    if not Path(file).is_file():
        raise DatabaseFailure(
            f"the SQLite file {file} does not exist", remedy="check uri; use an absolute path"
        ) from ConnectionError(file)


class Database(ABC):
    """A connection on which each statement sees everything that was committed before it.

    Attributes:
        secrets, errors: those of the connection, and of its driver; both are set before the first statement.
    """

    dialect: Dialect
    secrets: Secrets
    errors: tuple[type[Exception], ...]

    def set_up(self, find_dialect: Callable[[], str]) -> None:
        """Find the dialect by the name of the database, and set its settings."""
        try:
            self.dialect = dialect_of(find_dialect())
            for statement in self.dialect.settings:
                self.rows(statement)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Errors of the driver in this block become DatabaseFailures."""
        try:
            yield
        except self.errors as error:
            # SQLAlchemy wraps the errors of drivers.
            raise self.secrets.failure(getattr(error, "orig", None) or error) from None

    @abstractmethod
    def fields(self, sql: str) -> pa.Schema:
        """The columns of a query. If the database has no types, they are inferred from the first row."""

    @abstractmethod
    def rows(self, sql: str, *, columns: int | None = None) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """The Arrow types of a short result, and its rows.

        Args:
            columns: the number of first columns whose values are returned; None for all columns. Python
                cannot represent all times of all databases.
        """

    @abstractmethod
    def row_bytes(self, sql: str) -> int:
        """The average size of the rows of a short result."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""

    def value(self, sql: str) -> Any:
        """The first value of the first row; None without a row."""
        _, rows = self.rows(sql)
        return rows[0][0] if rows else None
