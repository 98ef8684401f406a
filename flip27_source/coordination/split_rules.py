"""SplitRules: which planned splits are ranges, and who decides where a split ends in a batch. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

from ..enumerator import SplitEnumerator
from ..enumerator_mixins import CutsSomeSplits
from ..split import SplitT


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRules(Generic[SplitT]):
    """The kinds of split that a source has.

    Attributes:
        enumerator_type: its hooks tell ranges from whole splits.
        reader_bounds_splits: splits stay live until the reader finishes them.
        read_in_ranges: ids of splits that are read in ranges, for an enumerator whose class is not known.
    """

    enumerator_type: type[SplitEnumerator[SplitT]]
    reader_bounds_splits: bool = False
    read_in_ranges: frozenset[str] = frozenset()

    @property
    def cuts_splits(self) -> bool:
        """Whether the enumerator bounds splits (``bound_split``)."""
        return self.enumerator_type.bound_split is not SplitEnumerator.bound_split

    def is_range(self, split: SplitT) -> bool:
        """Whether a planned split is a range that was cut from a split which continues."""
        if split.split_id in self.read_in_ranges:
            return True
        kind: Any = self.enumerator_type
        return self.cuts_splits and (not issubclass(kind, CutsSomeSplits) or kind.is_cut_off(split))

    @property
    def names_ranges(self) -> bool:
        """Whether a range gets an id of its own when it is quarantined (``set_apart``)."""
        own: Any = self.enumerator_type.set_apart
        default: Any = SplitEnumerator.set_apart
        return own.__func__ is not default.__func__

    def result_id(self, split: SplitT) -> str:
        """The id of a planned split in its report: a task may read several ranges of one split."""
        return self.enumerator_type.set_apart(split).split_id
