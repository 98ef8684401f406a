"""Absence: when a topic or a partition that the brokers do not report counts as gone. Pure.

Brokers that restart do not know their topics for a moment. So the absence must last for some time and must be
seen in several descriptions: many of them within a moment are not enough, and neither are two far apart.
"""

from __future__ import annotations

from dataclasses import dataclass

GONE_AFTER_S = 10.0
"""How long the brokers must not report a topic; in a task, no longer than half of its timeout."""

DESCRIPTIONS_UNTIL_GONE = 3
"""How many descriptions in a row must lack the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """An absence that several descriptions in a row have shown.

    Attributes:
        since_s, until_s: the times of the first and the last of them, by a clock that never goes back.
        descriptions: the number of these descriptions.
    """

    since_s: float
    until_s: float
    descriptions: int = 1

    @property
    def is_final(self) -> bool:
        """Whether the topic or partition counts as gone."""
        lasted_s = self.until_s - self.since_s
        return lasted_s >= GONE_AFTER_S and self.descriptions >= DESCRIPTIONS_UNTIL_GONE

    def then(self, later: Absence) -> Absence:
        """This absence and the one that follows it, joined into one."""
        return Absence(
            since_s=self.since_s,
            until_s=later.until_s,
            descriptions=self.descriptions + later.descriptions,
        )
