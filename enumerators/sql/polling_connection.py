"""The connection of discovery: kept open between rounds, or opened for each round."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from flip27_source.enumerators.sql.failures import DatabaseFailure
from flip27_source.enumerators.sql.table import CursorTable
from flip27_source.options import Options


class BrokenConnection(Exception):  # noqa: N818 - not an error yet
    """A statement failed on a connection that an earlier round had opened."""


class PollingConnection:
    """The connection of discovery, kept open between rounds for PostgreSQL.

    A database file is closed after each round, so that its writer can open it. The object is a context
    manager for one round. ``end`` may be called on another thread.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._in_use = threading.Lock()
        self._has_ended = False
        self._table: CursorTable | None = None
        self._is_old = False

    def table(self) -> CursorTable:
        if self._table is None:
            self._table = CursorTable(self._options)
        return self._table

    def end(self) -> None:
        self._has_ended = True
        if self._in_use.acquire(blocking=False):
            self._close()
            self._in_use.release()

    def __enter__(self) -> Self:
        self._in_use.acquire()
        self._is_old = self._table is not None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        table = self._table
        stays = table is not None and table.database.dialect.name == "postgresql"
        if error is not None or self._has_ended or not stays:
            self._close()
        self._in_use.release()
        if isinstance(error, DatabaseFailure) and self._is_old:
            raise BrokenConnection from error

    def _close(self) -> None:
        if self._table is not None:
            self._table.close()
            self._table = None
