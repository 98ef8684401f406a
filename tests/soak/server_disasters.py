"""Kills processes while a query reads from a server, and the server itself."""

from __future__ import annotations

import re
import threading
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from .disasters import OURS, Disasters
from .life import Life
from .shapes import Places, Shape
from .table_copies import WrittenTables
from .topic_copies import WrittenTopics

if TYPE_CHECKING:
    from .mysql_disasters import WrittenDatabase

PROCESSES = {"worker": 25, "coordinator": 15, "planner": 8, "driver": 12, "jvm": 10}
"""How often each process is killed, relative to 30 kills of the server."""


class ServerDisasters(Disasters):
    """A given number of kills while a query reads from a server; no other faults.

    Attributes:
        shape: the query.
        server: the name in ``victims`` that stands for the server.
        away: matches the errors of a query that has lost the server.
    """

    shape: ClassVar[type[Shape]]
    server: ClassVar[str]
    away: ClassVar[re.Pattern[str]]

    def __init__(self, root: Path, given: Mapping[str, str], **more: Any) -> None:
        """Create the disasters; ``given`` says where the server is, ``more`` is as in Disasters."""
        super().__init__(root, shapes=[self.shape.name], fault_rate=0.0, given=given, **more)
        self._server_died = False

    def _shape(self, name: str, places: Places) -> Shape:
        return self.shape(places, self._given)

    @property
    @abstractmethod
    def _written(self) -> WrittenTables | WrittenDatabase | WrittenTopics:
        """What the query reads."""

    def _write(self, stop: threading.Event) -> None:
        (shape,) = self._shapes.values()
        try:
            self._written.write(stop, shape.places.batches)
        except Exception as error:  # noqa: BLE001 - reported with the outcome
            self.outcome.unexplained.append(f"the writers have stopped: {error!r}")

    def _kill(self, life: Life, victim: str) -> Life:
        if victim == self.server:
            self._server_died = True
            with self._written.server_is_away():
                self._killed(victim, life)
                # Some queries notice that the server is down, others only that their sessions are gone.
                life.wait_for_an_error(self.chance.choice((0.0, 0.0, 3.0)))
        else:
            life = super()._kill(life, victim)
        self._written.grow()
        return life

    def _wait_for_progress(self, life: Life) -> None:
        super()._wait_for_progress(life)
        self._server_died = False

    def _kind_of(self, error: str) -> str | None:
        kind = super()._kind_of(error)
        ours = OURS.search(error)
        if kind is None and ours is not None and self._server_died and self.away.search(error):
            return f"{ours[1]}: the server is away" if "What to do:" in error else None
        return kind
