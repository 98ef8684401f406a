"""SplitsOfSubtask: reads the splits of one subtask in order, and collects their results.

How a split is read depends on the reader's mix-ins; the quarantine, if there is one, handles splits
that cannot be read. Nothing is stored here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from ..coordination.subtask_reports import SplitResult, SplitStatus, SubtaskReport
from ..log import LOG
from ..reader import ReadsTogether, SourceReaderContext, SplitReader, YieldsProgress
from ..source_options import MAX_BYTES_PER_SPLIT, MAX_ROWS_PER_SPLIT, MAX_SPLIT_DURATION
from ..split import size_of
from .buffered_rows import BufferedRows
from .quarantine import Quarantine
from .split_read import Item, Reading, SplitBudget, conformed, read_bounded, read_whole, unmarked

TOGETHER_BYTES = 8 * 1024 * 1024
"""Maximum size of a group of splits read together if splits may fail: a failure rereads the whole group."""


class SplitsOfSubtask:
    """One attempt to read the splits of a subtask.

    Args:
        first: the report of an earlier attempt, if there is one.
        check_position: raises if the position of a Progress cannot be stored; None if none is stored.
        reports: whether the subtask reports. If it does not, splits that the reader bounds are read to their
            end, as in a batch read, and none can be returned.
        set_apart: the split that is quarantined instead of a range of a split. Its id is that of the range's
            result, because a task may read several ranges of one split.

    Attributes:
        results: results so far of splits that did not simply finish.
    """

    def __init__(
        self,
        reader: SplitReader[Any],
        context: SourceReaderContext,
        quarantine: Quarantine | None,
        first: SubtaskReport[Any] | None = None,
        check_position: Callable[[Any], None] | None = None,
        set_apart: Callable[[Any], Any] | None = None,
        *,
        reports: bool = True,
    ) -> None:
        self._set_apart = set_apart or (lambda split: split)
        self._reader = reader
        self._context = context
        self._quarantine = quarantine
        self._first = first
        self._check_position = check_position
        self._reports = reports
        before = () if first is None else first.results
        self._expected: Mapping[str, SplitResult[Any]] = {item.split_id: item for item in before}
        self.results: list[SplitResult[Any]] = []

    def rows(self, splits: Sequence[Any]) -> Iterator[Item]:
        reader = self._reader
        if isinstance(reader, YieldsProgress) and self._reports:
            for split in splits:
                yield from self._kept(self._bounded(split))
        elif isinstance(reader, ReadsTogether):
            # If splits may fail, a failure costs a second read of its whole group.
            for group in [list(splits)] if self._quarantine is None else _groups(splits):
                yield from self._together(reader, group)
        elif self._reports or self._quarantine is not None:
            for split in splits:
                yield from self._kept(self._whole(split))
        else:
            for split in splits:
                yield from unmarked(conformed(reader.read, split, [split], self._context), reader=reader)

    def _kept(self, reading: Reading) -> Generator[Item, None, None]:
        result = yield from reading
        # A split without a result was read whole: this keeps reports small.
        if result.status is not SplitStatus.FINISHED or isinstance(self._reader, YieldsProgress):
            self.results.append(result)

    def _whole(self, split: Any) -> Reading:
        expected = self._result_before(split)
        if expected is None and self._first is not None:
            expected = SplitResult(split_id=split.split_id, status=SplitStatus.FINISHED)
        reading = partial(read_whole, self._reader, split, self._context, expected)
        return self._guarded(split, self._set_apart(split).split_id, expected, reading)

    def _result_before(self, split: Any) -> SplitResult[Any] | None:
        """The result of a split, or of a range of a split, in the report of an earlier attempt."""
        if not self._expected:
            return None
        of_range = self._expected.get(self._set_apart(split).split_id)
        return self._expected.get(split.split_id) if of_range is None else of_range

    def _bounded(self, split: Any) -> Reading:
        options = self._context.options
        budget = SplitBudget(
            rows=options[MAX_ROWS_PER_SPLIT],
            bytes=options[MAX_BYTES_PER_SPLIT],
            duration_s=options[MAX_SPLIT_DURATION],
        )
        expected = self._expected.get(split.split_id)
        reading = partial(
            read_bounded,
            self._reader,
            split,
            self._context,
            budget,
            expected,
            sent=None if self._quarantine is None else self._quarantine.sent,
            check_position=self._check_position,
        )
        return self._guarded(split, split.split_id, expected, reading)

    def _guarded(
        self, split: Any, split_id: str, expected: SplitResult[Any] | None, reading: Callable[[], Reading]
    ) -> Reading:
        if self._quarantine is None:
            return reading()
        is_demanded = expected is not None and expected.status in (SplitStatus.FINISHED, SplitStatus.LIVE)
        return self._quarantine.read(
            split_id, reading, expected if is_demanded else None, is_required=self._reader.must_read(split)
        )

    def _together(self, reader: ReadsTogether[Any], group: Sequence[Any]) -> Iterator[Item]:
        """Read a group of splits together; if that fails and may, one by one to find the bad split.

        Splits of which an earlier attempt has reported something else than their end are left to ``_whole``.
        """
        read = [split for split in group if self._result_before(split) is None]
        if read and self._quarantine is None:
            yield from unmarked(conformed(reader.read_together, read, read, self._context))
            group = [split for split in group if self._result_before(split) is not None]
        elif len(read) > 1 and self._quarantine is not None:
            sent = self._quarantine.sent
            before = sent.mark()
            with closing(BufferedRows(f"{len(read)} splits that are read together")) as buffer:
                try:
                    for item in unmarked(conformed(reader.read_together, read, read, self._context)):
                        buffer.add(item)
                except Exception as error:
                    sent.take_back(before)
                    if not self._quarantine.may_give_up(error):
                        raise
                    # Reading one by one shows which split fails.
                    LOG.warning(
                        "%d splits cannot be read together and are read one by one: %s", len(read), error
                    )
                else:
                    yield from buffer.given()
                    group = [split for split in group if self._result_before(split) is not None]
        for split in group:
            yield from self._kept(self._whole(split))


def _groups(splits: Sequence[Any]) -> Iterator[list[Any]]:
    group: list[Any] = []
    total = 0
    for split in splits:
        size = size_of(split).bytes
        size = TOGETHER_BYTES if size is None else size
        if group and total + size > TOGETHER_BYTES:
            yield group
            group, total = [], 0
        group.append(split)
        total += size
    if group:
        yield group
