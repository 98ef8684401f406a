"""Predicate: the wanted rows of a view, used to avoid reading files. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """Rows that do not match may be left out; the caller filters again.

    Attributes:
        lowest, highest: inclusive bounds of ``checkpoint_id``.
        checkpoint_ids, split_ids: the wanted ids; None for all.
        text: a text that the stored form of the wanted splits contains; None for all.
    """

    lowest: float = -math.inf
    highest: float = math.inf
    checkpoint_ids: frozenset[int] | None = None
    split_ids: frozenset[str] | None = None
    text: str | None = None

    @property
    def bounds_checkpoints(self) -> bool:
        """Whether rows without a checkpoint are excluded."""
        return (self.lowest, self.highest, self.checkpoint_ids) != (-math.inf, math.inf, None)

    def checkpoint(self, checkpoint_id: int) -> bool:
        is_listed = self.checkpoint_ids is None or checkpoint_id in self.checkpoint_ids
        return is_listed and self.lowest <= checkpoint_id <= self.highest

    def split(self, split_id: str) -> bool:
        return self.split_ids is None or split_id in self.split_ids

    def narrowed(self, column: str, comparison: str, values: Collection[Any]) -> Predicate:
        """This predicate and ``column comparison value``; unchanged if that avoids no reading.

        Args:
            comparison: ``=`` (to one of the values), ``>=``, ``>``, ``<=`` or ``<``.
        """
        if column == "split_id" and comparison == "=":
            texts = frozenset(str(value) for value in values)
            return replace(self, split_ids=texts if self.split_ids is None else self.split_ids & texts)
        if column != "checkpoint_id" or not all(isinstance(value, int) for value in values):
            return self
        if comparison == "=":
            known = self.checkpoint_ids
            ids = frozenset(values)
            return replace(self, checkpoint_ids=ids if known is None else known & ids)
        (value,) = values
        if comparison in (">=", ">"):
            return replace(self, lowest=max(value + (comparison == ">"), self.lowest))
        if comparison in ("<=", "<"):
            return replace(self, highest=min(value - (comparison == "<"), self.highest))
        return self


EVERYTHING = Predicate()
