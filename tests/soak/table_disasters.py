"""Processes killed while a query copies tables of PostgreSQL, the server with all its sessions among them."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from tests.postgres_server import PostgresServer, postgres_server

from .disasters import OURS, Disasters, Outcome
from .life import Life
from .shapes import Places, Shape
from .table_copies import TableCopy, WrittenTables

SERVER = "server"
KILLS_PER_TABLE = 5
"""So many kills later there is one more table."""
TRUNCATES = 0.3
"""How often a table is emptied after a kill."""

SERVER_DIED = re.compile(
    r"server closed the connection|connection .*failed|terminating connection|starting up"
)


class TableDisasters(Disasters):
    """So many kills while tables are copied; no other faults."""

    victims: ClassVar[Mapping[str, int]] = {
        SERVER: 30, "worker": 25, "coordinator": 15, "planner": 8, "driver": 12, "jvm": 10,
    }  # fmt: skip
    known: ClassVar[Mapping[str, Callable[[Places, Mapping[str, str]], Shape]]] = {TableCopy.name: TableCopy}

    def __init__(
        self,
        root: Path,
        server: PostgresServer,
        database: str,
        *,
        seed: int,
        kills: int,
        longest_pause_s: float = 2.0,
        say: Callable[[str], None] = print,
    ) -> None:
        self._server = server
        self.tables = WrittenTables(server, database, seed)
        super().__init__(
            root,
            seed=seed,
            kills=kills,
            shapes=[TableCopy.name],
            fault_rate=0.0,
            longest_pause_s=longest_pause_s,
            given={"postgres": json.dumps(self.tables.options)},
            say=say,
        )
        self._server_died = False

    def _write(self, stop: threading.Event) -> None:
        try:
            self.tables.write(stop)
        except Exception as error:  # noqa: BLE001 - told with the outcome
            self.outcome.unexplained.append(f"the writers have stopped: {error!r}")

    def _kill(self, life: Life, victim: str) -> Life:
        if victim != SERVER:
            life = super()._kill(life, victim)
        else:
            self._server_died = True
            self._server.kill()
            self._killed(victim, life)
            # Some queries notice that it is away, others only that their sessions are gone.
            life.wait_for_an_error(self.chance.choice((0.0, 0.0, 3.0)))
            self._server.start()
        if self.outcome.kills.total() % KILLS_PER_TABLE == 0:
            self.tables.add()
        if self.chance.random() < TRUNCATES:
            self.tables.empty_one()
        return life

    def _all_go_on(self, life: Life) -> None:
        super()._all_go_on(life)
        self._server_died = False

    def _finish(self, life: Life) -> None:
        super()._finish(life)
        (shape,) = self._shapes.values()
        assert isinstance(shape, TableCopy)
        letters = "  ".join(f"{letter} {count}" for letter, count in sorted(shape.letters().items()))
        self.outcome.told.append(f"statements {self.tables.statements}  rows by _op: {letters}")

    def _kind_of(self, error: str) -> str | None:
        kind = super()._kind_of(error)
        ours = OURS.search(error)
        if kind is None and ours is not None and self._server_died and SERVER_DIED.search(error):
            return f"{ours[1]}: the server is away" if "What to do:" in error else None
        return kind


@contextmanager
def table_disasters(
    root: Path, *, seed: int, kills: int, version: int, say: Callable[[str], None]
) -> Iterator[TableDisasters]:
    """The disasters, on a server of their own that ends with them."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(postgres_server(version))
        database = stack.enter_context(server.database())
        yield TableDisasters(root, server, database, seed=seed, kills=kills, say=say)


def play(root: Path, *, seed: int, kills: int, version: int, say: Callable[[str], None]) -> Outcome:
    """All of it."""
    with table_disasters(root, seed=seed, kills=kills, version=version, say=say) as disasters:
        return disasters.run()
