"""SplitErrorPolicy: how a source's options handle splits that cannot be read (R12). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import (
    AttemptError,
    ContractError,
    HeldRowsError,
    NewColumnsError,
    OptionError,
    RegistryError,
    SplitReadError,
    StateError,
)
from ..source import Source
from ..source_options import MAX_QUARANTINED_SPLITS, MAX_SPLIT_ATTEMPTS, ON_SPLIT_ERROR
from .subtask_reports import SplitStatus

_NOT_THE_SPLIT = (
    ContractError,
    AttemptError,
    HeldRowsError,
    NewColumnsError,
    OptionError,
    RegistryError,
    StateError,
    ImportError,
    MemoryError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitErrorPolicy:
    """How the options handle a split that cannot be read.

    Attributes:
        on_error: ``onSplitError``.
        ignored_by: names of the enabled options that skip splits with a certain error.
        max_attempts: attempts to read a split. max_quarantined: maximum number of quarantined splits.
    """

    on_error: str
    ignored_by: frozenset[str]
    max_attempts: int
    max_quarantined: int

    @classmethod
    def of(cls, source: Source) -> SplitErrorPolicy:
        """The policy of a source."""
        options = source.options
        return cls(
            on_error=options[ON_SPLIT_ERROR],
            ignored_by=frozenset(name for name in source.reader_type.ignored_by if options.get(name, False)),
            max_attempts=options[MAX_SPLIT_ATTEMPTS],
            max_quarantined=options[MAX_QUARANTINED_SPLITS],
        )

    @property
    def fails_always(self) -> bool:
        """Whether every split must be read; then no rows are held back."""
        return self.on_error == "fail" and not self.ignored_by

    def outcome(self, error: Exception) -> SplitStatus | None:
        """The result of a split that fails with this error; None: its task fails.

        An option for this specific error takes precedence over ``onSplitError``.
        """
        if isinstance(error, _NOT_THE_SPLIT) or isinstance(error.__cause__, _NOT_THE_SPLIT):
            return None
        return SplitStatus.IGNORED if self.names(error) else _OUTCOMES.get(self.on_error)

    def names(self, error: Exception) -> bool:
        """Whether an enabled option applies to this specific error."""
        return isinstance(error, SplitReadError) and error.ignored_by in self.ignored_by


_OUTCOMES = {"quarantine": SplitStatus.FAILED, "ignore": SplitStatus.IGNORED}
