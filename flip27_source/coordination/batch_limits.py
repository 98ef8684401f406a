"""The limits of a batch: from the options, from Spark, and what a batch has used of them. Pure.

Only here is decided what a limit means; ``shares`` divides what is left among live splits.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..enumerator import Budget
from ..options import Options
from ..source_options import (
    MAX_BYTES_PER_TRIGGER,
    MAX_EVENT_TIME_DRIFT,
    MAX_FILES_PER_TRIGGER,
    MAX_ROWS_PER_TRIGGER,
    REPLAY_SPEED,
    TARGET_BATCH_DURATION,
)
from ..split import SplitSize


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Budget):
    """Limits of one batch; None means no limit. The first limit reached ends the batch."""

    @classmethod
    def of(cls, options: Options) -> Limits:
        return cls(
            files=options[MAX_FILES_PER_TRIGGER],
            rows=options[MAX_ROWS_PER_TRIGGER],
            bytes=options[MAX_BYTES_PER_TRIGGER],
        )

    def tightened_by(self, other: Limits) -> Limits:
        """The smaller of each pair of limits."""
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        known = {name: [v for v in pair if v is not None] for name, pair in pairs.items()}
        return Limits(**{name: min(values, default=None) for name, values in known.items()})


UNLIMITED = Limits()


def are_limited(options: Options) -> bool:
    """Whether options limit the batches of a source; otherwise a batch holds all available data."""
    own = (
        MAX_FILES_PER_TRIGGER, MAX_ROWS_PER_TRIGGER, MAX_BYTES_PER_TRIGGER, TARGET_BATCH_DURATION,
        MAX_EVENT_TIME_DRIFT, REPLAY_SPEED,
    )  # fmt: skip
    return any(options[option] is not None for option in own)


MOST_CARRIED_BYTES = 32 * 1024 * 1024
"""Maximum bytes of a batch's splits that carry data; ``spark.rpc.message.maxSize`` limits a task."""


class BatchBudget:
    """Counts the content of a batch against its limits. At least one split always fits."""

    __slots__ = ("_carried_bytes", "_limits", "_refused", "bytes", "files", "rows", "splits")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._carried_bytes = 0
        self._refused = SplitSize(files=0)
        self.splits = 0
        self.files = 0
        self.rows = 0
        self.bytes = 0

    @property
    def exhausted(self) -> bool:
        if self.splits == 0:
            return False
        limits = self._limits
        return (
            (limits.files is not None and self.files >= limits.files)
            or (limits.rows is not None and self.rows >= limits.rows)
            or (limits.bytes is not None and self.bytes >= limits.bytes)
        )

    def left(self) -> Budget:
        """The remaining limits, for enumerators that bound unbounded splits."""
        limits = self._limits
        return Budget(
            files=None if limits.files is None else max(0, limits.files - self.files),
            rows=None if limits.rows is None else max(0, limits.rows - self.rows),
            bytes=None if limits.bytes is None else max(0, limits.bytes - self.bytes),
        )

    def fits(self, size: SplitSize) -> bool:
        """Whether a split of this size may still join the batch.

        Only a batch of a single split can exceed the limits on files and rows. The limit on bytes is soft, as
        in Spark and Delta: the split that crosses the limit is the last one.
        """
        if self.splits == 0:
            return True
        limits = self._limits
        if self.exhausted:
            return False
        fits = not (
            (limits.files is not None and self.files + size.files > limits.files)
            or (limits.rows is not None and self.rows + (size.rows or 0) > limits.rows)
        )
        if not fits:
            self._refused = size
        return fits

    @property
    def limited_by(self) -> dict[str, int]:
        """The limits that the batch has reached, or would have crossed with a split that did not fit."""
        used = Budget(
            files=self.files + self._refused.files,
            rows=self.rows + (self._refused.rows or 0),
            bytes=self.bytes,
        )
        limits = ((f.name, getattr(self._limits, f.name)) for f in fields(self._limits))
        return {name: most for name, most in limits if most is not None and getattr(used, name) >= most}

    def take(self, size: SplitSize) -> None:
        """Count a split that joined the batch."""
        self.splits += 1
        self.files += size.files
        self.rows += size.rows or 0
        self.bytes += size.bytes or 0

    def carries(self, size: SplitSize) -> bool:
        """Count a split of this size that carries data; return False if it must wait for the next batch."""
        carried = self._carried_bytes + (size.bytes or 0)
        if self._carried_bytes and carried > MOST_CARRIED_BYTES:
            return False
        self._carried_bytes = carried
        return True
