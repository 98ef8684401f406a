"""The horizon of a batch: the event time after which nothing is read in it. Pure.

Alignment and replay say how far a batch may go, by how far the source could get; the earliest of them counts.
All times are in microseconds since the epoch (UTC).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far in event time a source is, and how far it can get in its next batch.

    Attributes:
        waits_us: the smallest time that waits; None: nothing waits whose time is known.
        unit_us: the time that is reached with one unit: the largest one of the next split that is read whole,
            if that is later than the smallest time that waits.
        potential_us: the smallest time that one of its active splits reaches if only the limits end the
            batch; None: no split is active, so the source holds nobody back.
        waiting_us: the same of the splits in which something waits.
        idle_ms: when the others are idle, by the steady clock; None: there are none.
        slowest: the id of the split of ``potential_us``. slowest_waits: whether something waits in it.
    """

    waits_us: int | None = None
    unit_us: int | None = None
    potential_us: int | None = None
    waiting_us: int | None = None
    idle_ms: int | None = None
    slowest: str | None = None
    slowest_waits: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """How far a batch may be read.

    Attributes:
        latest_us: the latest event time in it.
        by: what it follows, for people: the id of a split, the name of another source, or an option.
        is_strict: whether nothing later is read at all. Otherwise, if the horizon is that of the slowest
            split itself and nothing of this split fits below it, one unit of the split is read.
    """

    latest_us: int
    by: str
    is_strict: bool = False


class SetsHorizon(Protocol):
    """Something outside the source that says how far its batches may be read: its group, a replay."""

    def horizon(self, reach: Reach, steady_ms: int) -> Horizon | None:
        """The horizon of the batch that is being planned; None: there is none now.

        Called once in each planning, on the coordinator's thread; it does no I/O.

        Args:
            reach: of the batch that is being planned.
            steady_ms: as for ``SourceCoordinator.checkpoint``.
        """

    def planned(self, reach: Reach, steady_ms: int, *, is_empty: bool, is_held: bool) -> None:
        """The batch was planned.

        Args:
            reach: of the next batch.
            is_empty: whether nothing was planned. is_held: whether the horizon has kept data out.
        """

    def numbers(self) -> Mapping[str, int]:
        """What offsets and progress events show, by the names that they use."""
