"""The tutorial source: integers from ``start`` on, without end or up to ``end``.

It shows an enumerator of unbounded splits. The enumerator assigns ``numSplits`` splits once, and limits at
every checkpoint how far each split is read in that batch (``bound_split``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from flip27_source.enumerator import Backlog, BoundedRange, Budget, SourceEnd, SplitEnumerator
from flip27_source.enumerator_context import Boundedness, SplitEnumeratorContext
from flip27_source.errors import OptionError
from flip27_source.options import FirstStartOption, NextBatchOption, Option, Options, integer, optional
from flip27_source.split import SplitSize

START: Option[int] = FirstStartOption(
    name="start", parse=integer(minimum=-(2**62)), default=0, doc="First number."
)
END: Option[int | None] = FirstStartOption(
    name="end",
    parse=optional(integer(minimum=-(2**62))),
    default_text="not set: the numbers never end",
    doc="The first number that is not read.",
)
NUM_SPLITS: Option[int] = FirstStartOption(
    name="numSplits",
    parse=integer(minimum=1, maximum=100_000),
    default=1,
    doc="Number of splits; the numbers are distributed over them in turn.",
)
ROWS_PER_SPLIT: Option[int] = NextBatchOption(
    name="rowsPerSplit",
    parse=integer(minimum=1),
    default=100_000,
    doc="Maximum count of numbers from one split in one batch.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceSplit:
    """The numbers ``next``, ``next + step``, ... before ``end`` (None: without end)."""

    split_id: str
    next: int
    step: int
    end: int | None

    @property
    def rows(self) -> int | None:
        """The count of remaining numbers; None if the numbers never end."""
        return None if self.end is None else max(0, -(-(self.end - self.next) // self.step))

    @property
    def size(self) -> SplitSize:
        """The rows, if their number is known; each row has eight bytes."""
        rows = self.rows
        return SplitSize(files=0, rows=rows, bytes=None if rows is None else 8 * rows)


class SequenceEnumerator(SplitEnumerator[SequenceSplit]):
    """Distributes the numbers over ``numSplits`` splits."""

    options: ClassVar[tuple[Option[Any], ...]] = (START, END, NUM_SPLITS, ROWS_PER_SPLIT)
    default_reader: ClassVar[str | None] = "sequence"

    def __init__(
        self,
        context: SplitEnumeratorContext[SequenceSplit],
        options: Options,
        state: list[SequenceSplit] | None = None,
    ) -> None:
        super().__init__(context, options, state)
        self._rows_per_split = options[ROWS_PER_SPLIT]
        self._unassigned = list(_first_splits(options) if state is None else state)

    def start(self) -> None:
        """Refuse a bounded run if the numbers never end."""
        if self.context.boundedness is Boundedness.BOUNDED and self.options_given[END] is None:
            raise OptionError(
                "the numbers never end, but this run reads to the end",
                remedy='add .option("end", ...), or use spark.readStream with a trigger other '
                "than availableNow",
            )

    def handle_split_request(self, subtask_id: int) -> None:
        if self._unassigned:
            self.context.assign_split(self._unassigned.pop(0))

    def add_splits_back(self, splits: Sequence[SequenceSplit], subtask_id: int) -> None:
        self._unassigned = [*splits, *self._unassigned]

    def snapshot_state(self, checkpoint_id: int) -> list[SequenceSplit]:
        return list(self._unassigned)

    def backlog(self, live: Sequence[SequenceSplit]) -> Backlog:
        """All remaining numbers, unless they never end."""
        return Backlog.of(split.size for split in (*self._unassigned, *live))

    def bound_split(self, split: SequenceSplit, budget: Budget) -> BoundedRange[SequenceSplit] | None:
        rows = self._rows_per_split if budget.rows is None else budget.rows
        rows = min(rows, self._rows_per_split)
        left = split.rows
        if left is not None and left <= rows:
            return BoundedRange(read=split, rest=None) if left else None
        if rows == 0:
            return None
        cut = split.next + rows * split.step
        return BoundedRange(read=replace(split, end=cut), rest=replace(split, next=cut))

    def switch_position(self, end: SourceEnd[SequenceSplit]) -> str:
        """The first number that is not read."""
        return str(self.options_given[END])


def _first_splits(options: Options) -> Iterator[SequenceSplit]:
    start, end, count = options[START], options[END], options[NUM_SPLITS]
    for index in range(count):
        split = SequenceSplit(split_id=f"sequence-{index}", next=start + index, step=count, end=end)
        if split.rows != 0:
            yield split
