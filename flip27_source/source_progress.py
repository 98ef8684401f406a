"""Progress of a source, for people: what its stored state tells, and what waits in the source. Pure."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Cell: TypeAlias = str | int | float | dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressTable:
    """A part of what is told: ``flip27 ui``, ``watch`` and ``state show`` show it.

    Attributes:
        title: what it is about, in a word or two.
        said: the same in one line.
        columns, rows: the details; the first column names a row.
    """

    title: str
    said: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()


class TellsProgress(ABC):
    """Optional mix-in of an enumerator: how far its splits are, in the words of its source."""

    @classmethod
    @abstractmethod
    def progress(cls, state: Any, live: Sequence[Any], numbers: Mapping[str, Any]) -> Iterable[ProgressTable]:
        """What a checkpoint tells. No I/O; the source may be out of reach.

        Args:
            state: a value of ``snapshot_state``.
            live: the live splits, at their positions.
            numbers: the gauges and the backlog that the driver has told last, by the names that offsets use;
                ``parts`` has those of parts. Empty if the state has none.
        """


class LooksIntoSource(ABC):
    """Optional mix-in of an enumerator: what waits in the source itself (``--look``)."""

    @abstractmethod
    def look(self, live: Sequence[Any]) -> Iterable[ProgressTable]:
        """One discovery, which nobody keeps.

        The enumerator was made from the newest checkpoint and is not started: its driver may run meanwhile,
        on another machine. So nothing in the source may be created, taken, moved or locked. I/O is allowed;
        it runs on a thread that is left alone if it takes too long. What it raises is shown.

        Args:
            live: the live splits, at their positions.
        """
