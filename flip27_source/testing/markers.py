"""Markers: entries of test data that make reading fail at their place: ``[1, 2, CRASH, 3]``.

The effects are counted outside of sources and readers, so they survive a restart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from .steps import Killed


class DataError(Exception):
    """The error of reading at a ``Fail`` marker."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The reading process dies here, without clean-up: an executor, or everything in ``one_process``.

    Attributes:
        times: how often; None for every time.
    """

    times: int | None = 1


@dataclass(frozen=True, slots=True)
class Fail:
    """Reading fails here with a DataError.

    Attributes:
        message: text of the error.
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
        """Forget all effects: every marker is new."""
        self._effects.clear()

    def come_by(self, marker: Marker, place: Any) -> None:
        """Let a marker take effect, unless it has done so ``times`` times.

        Args:
            place: identifies the marker in its data.

        Raises:
            Killed, DataError: the effect of the marker.
        """
        if marker.times is not None and self._effects[place] >= marker.times:
            return
        self._effects[place] += 1
        if isinstance(marker, Crash):
            raise Killed(f"the data says crash at {place}")
        raise DataError(f"{marker.message} (at {place})")
