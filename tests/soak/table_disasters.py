"""Kills processes while a query copies PostgreSQL tables, and the server with all its sessions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from tests.postgres_server import PostgresServer, postgres_server

from .life import Life
from .server_disasters import PROCESSES, ServerDisasters
from .table_copies import TableCopy, WrittenTables

SERVER = "server"


class TableDisasters(ServerDisasters):
    """A given number of kills while tables are copied; no other faults."""

    shape = TableCopy
    victims: ClassVar[Mapping[str, int]] = {SERVER: 30, **PROCESSES}
    server = SERVER
    away = re.compile(r"server closed the connection|connection .*failed|terminating connection|starting up")

    def __init__(self, root: Path, server: PostgresServer, database: str, *, seed: int, **more: Any) -> None:
        self.tables = WrittenTables(server, database, seed)
        super().__init__(root, {"postgres": json.dumps(server.options(database))}, seed=seed, **more)

    @property
    def _written(self) -> WrittenTables:
        return self.tables

    def _finish(self, life: Life) -> None:
        super()._finish(life)
        (shape,) = self._shapes.values()
        assert isinstance(shape, TableCopy)
        letters = "  ".join(f"{letter} {count}" for letter, count in sorted(shape.letters().items()))
        self.outcome.told.append(f"statements {self.tables.statements}  rows by _op: {letters}")


@contextmanager
def table_disasters(root: Path, *, version: int, **more: Any) -> Iterator[TableDisasters]:
    """The disasters with a new server, which is stopped at the end."""
    with postgres_server(version) as server, server.database() as database:
        yield TableDisasters(root, server, database, **more)
