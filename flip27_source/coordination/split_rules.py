"""SplitRules: which planned splits are ranges, and who decides where a split ends in a batch. Pure.

SplitErrorPolicy: how a source's options handle splits that cannot be read (R12).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic

from ..enumerator import SplitEnumerator
from ..enumerator_mixins import CutsSomeSplits
from ..errors import (
    AccessError,
    AttemptError,
    ContractError,
    DataLossError,
    HeldRowsError,
    NewColumnsError,
    OptionError,
    QuarantineError,
    RegistryError,
    SplitReadError,
    StateError,
)
from ..source import Source
from ..source_options import MAX_QUARANTINED_SPLITS, MAX_SPLIT_ATTEMPTS, ON_DATA_LOSS, ON_SPLIT_ERROR
from ..split import SplitT
from .subtask_reports import SplitStatus


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
        return self.cuts_splits and not self.may_be_whole(split)

    def may_be_whole(self, split: SplitT) -> bool:
        """Whether the enumerator bounds splits, and says that this one is no range."""
        kind: Any = self.enumerator_type
        return self.cuts_splits and issubclass(kind, CutsSomeSplits) and not kind.is_cut_off(split)

    @property
    def names_ranges(self) -> bool:
        """Whether a range gets an id of its own when it is quarantined (``set_apart``)."""
        own: Any = self.enumerator_type.set_apart
        default: Any = SplitEnumerator.set_apart
        return own.__func__ is not default.__func__

    def result_id(self, split: SplitT) -> str:
        """The id of a planned split in its report: a task may read several ranges of one split."""
        return self.enumerator_type.set_apart(split).split_id


_NOT_THE_SPLIT = (
    AccessError,
    ContractError,
    AttemptError,
    HeldRowsError,
    NewColumnsError,
    OptionError,
    QuarantineError,
    RegistryError,
    StateError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitErrorPolicy:
    """How the options handle a split that cannot be read.

    Attributes:
        on_error: ``onSplitError``.
        reports_loss: whether the query continues after lost data: ``onDataLoss=report``.
        loses_whole_splits: whether a split may be lost as a whole; it is then ignored.
        ignored_by: the options that are set to true and ignore splits with a certain error.
        max_attempts: number of attempts to read a split. max_quarantined: ``maxQuarantinedSplits``.
    """

    on_error: str
    reports_loss: bool
    ignored_by: frozenset[str]
    max_attempts: int
    max_quarantined: int
    loses_whole_splits: bool = True

    @classmethod
    def of(cls, source: Source) -> SplitErrorPolicy:
        options = source.options
        return cls(
            on_error=options[ON_SPLIT_ERROR],
            reports_loss=options[ON_DATA_LOSS] != "fail",
            ignored_by=frozenset(name for name in source.reader_type.ignored_by if options.get(name, False)),
            max_attempts=options[MAX_SPLIT_ATTEMPTS],
            max_quarantined=options[MAX_QUARANTINED_SPLITS],
            loses_whole_splits=source.reader_type.loses_whole_splits,
        )

    @property
    def fails_always(self) -> bool:
        """Whether every split must be read, so that no rows are buffered."""
        leaves_out_lost = self.reports_loss and self.loses_whole_splits
        return self.on_error == "fail" and not self.ignored_by and not leaves_out_lost

    def of_split(self, *, is_required: bool) -> SplitErrorPolicy:
        """The policy for a split; if it is required, it is given up only if it is lost."""
        return replace(self, on_error="fail", ignored_by=frozenset()) if is_required else self

    def outcome(self, error: Exception) -> SplitStatus | None:
        """The result of a split that fails with this error; None: its task fails.

        An option for this specific error takes precedence over ``onSplitError``.
        """
        if not may_be_of_split(error):
            return None
        return SplitStatus.IGNORED if self.names(error) else _OUTCOMES.get(self.on_error)

    def names(self, error: Exception) -> bool:
        """Whether an option that is set to true covers this specific error."""
        named = isinstance(error, SplitReadError) and error.ignored_by in self.ignored_by
        return named or self.is_reported_loss(error)

    def is_reported_loss(self, error: Exception) -> bool:
        """Whether the error is a loss of data, and losses are reported instead of stopping the query."""
        return self.reports_loss and isinstance(error, DataLossError)


def may_be_of_split(error: Exception) -> bool:
    """Whether an error may come from the data of the split that was read (R21)."""
    return not (isinstance(error, _NOT_THE_SPLIT) or isinstance(error.__cause__, _NOT_THE_SPLIT))


_OUTCOMES = {"quarantine": SplitStatus.FAILED, "ignore": SplitStatus.IGNORED}
