"""Markers: what test data can hold beside rows, to have reading fail there: ``[1, 2, CRASH, 3]``.

What has taken effect is remembered outside of sources and readers, so that a restart sees it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from .steps import Killed


class DataError(Exception):
    """What reading fails with where the data says so."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The process that reads dies here, without any clean-up: an executor, or all in ``one_process``.

    Attributes:
        times: how often; None for every time.
    """

    times: int | None = 1


@dataclass(frozen=True, slots=True)
class Fail:
    """Reading fails here with a DataError.

    Attributes:
        message: what the error says.
        times: how often; None for every time.
    """

    message: str = "the data says fail"
    times: int | None = 1


CRASH = Crash()
"""The process dies, once."""
FAIL = Fail()
"""The attempt fails, once."""
BOOM = Fail("the data says fail every time", times=None)
"""Poison: every attempt fails."""

Marker = Crash | Fail


class Markers:
    """How often each marker of some data has taken effect."""

    def __init__(self) -> None:
        self._effects: Counter[Any] = Counter()

    @property
    def effects(self) -> int:
        """How often any marker has taken effect."""
        return self._effects.total()

    def reset(self) -> None:
        """From now on every marker is new."""
        self._effects.clear()

    def come_by(self, marker: Marker, place: Any) -> None:
        """Let a marker take effect, if it still does.

        Args:
            place: what tells it from other markers in the same data.

        Raises:
            Killed, DataError: as it says.
        """
        if marker.times is not None and self._effects[place] >= marker.times:
            return
        self._effects[place] += 1
        if isinstance(marker, Crash):
            raise Killed(f"the data says crash at {place}")
        raise DataError(f"{marker.message} (at {place})")
