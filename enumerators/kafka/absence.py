"""Absence: when a topic or a partition that the brokers do not know counts as gone. Pure.

Brokers that restart do not know their topics for a moment. So the absence must last for some time, and be
seen in several descriptions: neither many looks within a moment nor two looks far apart are enough.
"""

from __future__ import annotations

from dataclasses import dataclass

GONE_AFTER_S = 10.0
"""How long brokers must not know a topic; for a task no longer than half the time that it waits."""

DESCRIPTIONS_UNTIL_GONE = 3
"""How many descriptions in a row must lack it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """What descriptions in a row lack.

    Attributes:
        since_s, until_s: when the first and the last of them were made, by a clock that never goes back.
        descriptions: their number.
    """

    since_s: float
    until_s: float
    descriptions: int = 1

    @property
    def is_final(self) -> bool:
        """Whether what they lack is gone."""
        lasted_s = self.until_s - self.since_s
        return lasted_s >= GONE_AFTER_S and self.descriptions >= DESCRIPTIONS_UNTIL_GONE

    def then(self, later: Absence) -> Absence:
        """This absence and the one that follows it, as one."""
        return Absence(
            since_s=self.since_s,
            until_s=later.until_s,
            descriptions=self.descriptions + later.descriptions,
        )
