"""Database: an open connection, which the enumerator and the reader both use.

Every error of a driver becomes a DatabaseFailure whose text contains no secret. Callers convert it to an
error of the enumerator or the reader.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from flip27_source.enumerators.sql.dialects import Dialect, dialect_of
from flip27_source.enumerators.sql.failures import Secrets

ROWS_PER_BATCH = 65_536


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
