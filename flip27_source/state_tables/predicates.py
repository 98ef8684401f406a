"""Predicate: the wanted rows of a view, used to avoid reading files. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

CHECKPOINT_COLUMN = "checkpoint_id"
SPLIT_COLUMN = "split_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """Rows that do not match may be left out; the caller filters again.

    Attributes:
        lowest, highest: inclusive bounds of ``checkpoint_id``.
        checkpoint_ids, split_ids: the wanted ids; None for all.
    """

    lowest: int | None = None
    highest: int | None = None
    checkpoint_ids: frozenset[int] | None = None
    split_ids: frozenset[str] | None = None

    @property
    def bounds_checkpoints(self) -> bool:
        """Whether rows without a checkpoint are excluded."""
        return not (self.lowest is None and self.highest is None and self.checkpoint_ids is None)

    def checkpoint(self, checkpoint_id: int) -> bool:
        return (
            (self.lowest is None or checkpoint_id >= self.lowest)
            and (self.highest is None or checkpoint_id <= self.highest)
            and (self.checkpoint_ids is None or checkpoint_id in self.checkpoint_ids)
        )

    def split(self, split_id: str) -> bool:
        return self.split_ids is None or split_id in self.split_ids

    def narrowed(self, column: str, comparison: str, values: Collection[Any]) -> Predicate:
        """This predicate and ``column comparison value``; unchanged if that avoids no reading.

        Args:
            comparison: ``=`` (to one of the values), ``>=``, ``>``, ``<=`` or ``<``.
        """
        if column == SPLIT_COLUMN and comparison == "=":
            texts = frozenset(str(value) for value in values)
            return replace(self, split_ids=texts if self.split_ids is None else self.split_ids & texts)
        if column != CHECKPOINT_COLUMN or not all(isinstance(value, int) for value in values):
            return self
        if comparison == "=":
            known = self.checkpoint_ids
            ids = frozenset(values)
            return replace(self, checkpoint_ids=ids if known is None else known & ids)
        (value,) = values
        if comparison in (">=", ">"):
            lowest = value + (comparison == ">")
            return replace(self, lowest=lowest if self.lowest is None else max(lowest, self.lowest))
        if comparison in ("<=", "<"):
            highest = value - (comparison == "<")
            return replace(self, highest=highest if self.highest is None else min(highest, self.highest))
        return self


EVERYTHING = Predicate()
