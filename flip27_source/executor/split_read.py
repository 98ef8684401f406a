"""Reading one split: names the split in errors, converts rows to the schema, and ends its share of a batch.

The functions are generators: they yield rows and return the split's result.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from ..access_errors import access_error
from ..coordination.split_rules import may_be_of_split
from ..coordination.subtask_reports import SplitResult, SplitStatus
from ..errors import (
    AccessError,
    AttemptError,
    ContractError,
    DataLossError,
    Flip27Error,
    SchemaError,
    SplitReadError,
)
from ..events import Progress, ReturnSplit
from ..reader import SourceReaderContext, SplitReader, YieldsProgress
from .buffered_rows import BufferedRows
from .events_and_losses import SentEvents

Item: TypeAlias = pa.RecordBatch | tuple[Any, ...]
"""What Spark accepts: a batch, or one row as a tuple."""

Reading: TypeAlias = Generator[Item, None, SplitResult[Any]]


@contextlib.contextmanager
def opened(reader: SplitReader[Any], context: SourceReaderContext, events: Iterable[Any]) -> Iterator[None]:
    """Open a reader and pass it the events of the enumerator; close it at the end, also after an error."""
    name = type(reader).__name__
    try:
        with _saying(f"starting reader {name} failed"):
            reader.open(context)
            for event in events:
                reader.handle_source_event(event)
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            reader.close()
        raise
    with _saying(f"closing reader {name} failed"):
        reader.close()


@contextlib.contextmanager
def _saying(failed: str) -> Iterator[None]:
    """Say in an error of a reader what has failed."""
    try:
        yield
    except (ReturnSplit, AccessError):
        raise
    except Exception as error:
        no_access = access_error(error, failed)
        if no_access is not None:
            raise no_access from error
        if isinstance(error, Flip27Error):
            raise
        raise SplitReadError(
            f"{failed}: {type(error).__name__}: {error}",
            remedy="fix the split or the reader, and restart the query: the batch is then tried again; no "
            "row of it was delivered",
        ) from error


def conformed(
    read: Callable[[Any], Iterator[Any]], what: Any, splits: Sequence[Any], context: SourceReaderContext
) -> Iterator[Item | Progress[Any]]:
    """The items that ``read(what)`` yields, converted to the schema; an error names the ``splits``."""
    named = ", ".join(repr(split.split_id) for split in splits[:3])
    more = f" and {len(splits) - 3} more" if len(splits) > 3 else ""
    with _saying(f"reading split {named}{more} failed"):
        for item in read(what):
            if isinstance(item, pa.RecordBatch):
                yield conform(item, context.schema)
            else:
                yield item


def unmarked(
    items: Iterator[Item | Progress[Any]], *, reader: SplitReader[Any] | None = None
) -> Iterator[Item]:
    """The rows of splits that are read whole, in tasks that write no report or by a ReadsTogether."""
    try:
        for item in items:
            if not isinstance(item, Progress):
                yield item
            elif not isinstance(reader, YieldsProgress):
                raise _not_declared(reader)
    except ReturnSplit as returned:
        raise ContractError(
            f"the reader returned a split ({returned}), but the source's tasks write no reports, which would "
            "return the split to the enumerator, or read_together was called for several splits",
            remedy="set taskReports=always and a stateLocation, and write the reader without ReadsTogether; "
            "a batch read must read every split",
        ) from None


def read_whole(
    reader: SplitReader[Any], split: Any, context: SourceReaderContext, first: SplitResult[Any] | None = None
) -> Reading:
    """Read a whole split; ``first`` is its result in the report of an earlier attempt, if there is one."""
    if first is not None and first.status is not SplitStatus.FINISHED:
        return first
    began = False
    try:
        for item in conformed(reader.read, split, [split], context):
            if isinstance(item, Progress):
                raise _not_declared(reader)
            began = True
            yield item
    except ReturnSplit:
        return _returned(split.split_id, began=began)
    return SplitResult(split_id=split.split_id, status=SplitStatus.FINISHED)


def _returned(split_id: str, *, began: bool) -> SplitResult[Any]:
    if began:
        raise ContractError(
            f"the reader returned split {split_id!r} after it had yielded rows or Progress",
            remedy="raise ReturnSplit before the first row",
        ) from None
    return SplitResult(split_id=split_id, status=SplitStatus.RETURNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitBudget:
    """Limits on a batch's share of a split that the reader bounds; None means no limit."""

    rows: int | None = None
    bytes: int | None = None
    duration_s: float | None = None
    clock: Callable[[], float] = time.monotonic

    def used_up(self, rows: int, size: int, since: float) -> bool:
        return (
            (self.rows is not None and rows >= self.rows)
            or (self.bytes is not None and size >= self.bytes)
            or (self.duration_s is not None and self.clock() - since >= self.duration_s)
        )


def read_bounded(
    reader: SplitReader[Any],
    split: Any,
    context: SourceReaderContext,
    budget: SplitBudget,
    first: SplitResult[Any] | None = None,
    *,
    sent: SentEvents | None = None,
    check_position: Callable[[Any], None] | None = None,
) -> Reading:
    """Read a split up to one of the reader's Progress marks, where its share of the batch ends (rule R5).

    Args:
        first: the split's result in the report of an earlier attempt: this attempt ends at the same place.
        sent: the events of the reader, if failures must not cost whole pages: rows are then buffered until
            the Progress that covers them. If reading fails after a Progress, the share ends at that Progress
            instead of failing, and the events after it are taken back.
        check_position: raises if a position cannot be stored; None if no position is stored.
    """
    if first is not None and (
        first.status in (SplitStatus.RETURNED, SplitStatus.FAILED, SplitStatus.IGNORED)
        or first.position == split
    ):
        return first
    pages = _Pages(split, budget, first)
    items = conformed(reader.read, split, [split], context)
    buffer = BufferedRows(f"split {split.split_id!r}")
    covered = (0, 0)
    try:
        for item in items:
            pages.check_goes_on()
            if not isinstance(item, Progress):
                pages.count(item)
                if sent is not None:
                    buffer.add(item)
                else:
                    yield item
                continue
            if check_position is not None and item.split is not None:
                check_position(item.split)
            pages.mark(item.split)
            covered = covered if sent is None else sent.mark()
            yield from buffer.given()
            if (ended := pages.ended()) is not None:
                return ended
        return pages.exhausted()
    except ReturnSplit:
        return pages.returned()
    except Exception as error:
        if sent is None or not pages.may_end_before(error):
            raise
        sent.take_back(covered)
        return pages.exhausted(after_error=True)
    finally:
        buffer.close()
        items.close()  # type: ignore[attr-defined]


class _Pages:
    """The progress of reading a split, from one Progress mark to the next."""

    def __init__(self, split: Any, budget: SplitBudget, first: SplitResult[Any] | None) -> None:
        self._split_id: str = split.split_id
        self._position = split
        self._budget = budget
        self._first = first
        self._since = budget.clock()
        self._rows = 0
        self._bytes = 0
        self._rows_at_mark = 0
        self._has_moved = False

    def may_end_before(self, error: Exception) -> bool:
        """Whether the share may end at the last mark because the page after it cannot be read."""
        may_end = self._first is None or self._position is None or isinstance(error, DataLossError)
        return may_end and self._has_moved and may_be_of_split(error)

    def check_goes_on(self) -> None:
        if self._position is None:
            raise ContractError(
                f"the reader of split {self._split_id!r} yielded more after Progress(None), which says that "
                "the split is finished for good",
                remedy="yield Progress(None) last",
            )

    def count(self, item: Item) -> None:
        """Count rows, which the next mark must cover."""
        if isinstance(item, pa.RecordBatch):
            self._rows += item.num_rows
            self._bytes += item.nbytes
        else:
            self._rows += 1

    def mark(self, position: Any) -> None:
        """Handle a Progress: it covers all rows so far."""
        if position is not None and position.split_id != self._split_id:
            raise ContractError(
                f"the reader of split {self._split_id!r} yielded a Progress for split {position.split_id!r}",
                remedy="keep split_id; only the position may change",
            )
        if position == self._position and self._rows > self._rows_at_mark:
            raise ContractError(
                f"the reader yielded {self._rows - self._rows_at_mark} rows of split {self._split_id!r} and "
                f"then a Progress whose position has not changed: {position!r:.300}",
                remedy="yield the position after those rows, from which reading continues",
            )
        self._has_moved = self._has_moved or position != self._position
        self._position = position
        self._rows_at_mark = self._rows

    def ended(self) -> SplitResult[Any] | None:
        """The result if the share ends at the last mark; None if the reader goes on, or has to end now."""
        if self._position is None:
            return None
        if self._first is not None:
            return self._first if self._first.position == self._position else None
        if self._budget.used_up(self._rows, self._bytes, self._since):
            return self._result(caught_up=False)
        return None

    def exhausted(self, *, after_error: bool = False) -> SplitResult[Any]:
        """The result after the reader has no more data for now, or failed."""
        if self._rows > self._rows_at_mark and not after_error:
            raise ContractError(
                f"the reader of split {self._split_id!r} ended with "
                f"{self._rows - self._rows_at_mark} rows after its last Progress",
                remedy="yield Progress after the last rows: the split at its new position, or "
                "Progress(None) when it is finished for good",
            )
        # After an error there may be more data: a bounded run has to try again.
        return self._checked(self._result(caught_up=not after_error))

    def returned(self) -> SplitResult[Any]:
        return self._checked(_returned(self._split_id, began=bool(self._rows) or self._has_moved))

    def _result(self, *, caught_up: bool) -> SplitResult[Any]:
        return SplitResult(
            split_id=self._split_id,
            status=SplitStatus.FINISHED if self._position is None else SplitStatus.LIVE,
            position=self._position,
            caught_up=caught_up and self._position is not None,
        )

    def _checked(self, result: SplitResult[Any]) -> SplitResult[Any]:
        if self._first is None or result.same_range(self._first):
            return result
        raise AttemptError(
            f"the attempt that reported first read split {self._split_id!r} up to "
            f"{self._first.position or 'its end'!r:.300}; this attempt reached "
            f"{result.position or 'its end'!r:.300} without passing that position",
            remedy="nothing is lost: the rows of this attempt are discarded. Make the reader's positions "
            "reproducible, read no further than context.end_positions if it contains the split, or have "
            "the source return the same pages again",
        )


def _not_declared(reader: SplitReader[Any] | None) -> ContractError:
    name = "the reader" if reader is None else type(reader).__name__
    return ContractError(
        f"{name} yielded Progress, but is not a YieldsProgress",
        remedy=f"write class {name}(YieldsProgress, SplitReader[...])",
    )


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """``batch`` with the columns, order, types and nullability of ``schema``.

    Raises:
        SchemaError: a column is missing, cannot be cast, or is NOT NULL and has nulls.
    """
    if not batch.schema.equals(schema):
        columns = [_column(batch, field) for field in schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    for field, column in zip(schema, batch.columns, strict=True):
        # Spark's own error has no name of a column.
        if not field.nullable and column.null_count:
            raise SchemaError(
                f"column {field.name!r} is NOT NULL in the schema and has {column.null_count} nulls",
                remedy="remove NOT NULL from the schema, or correct the data",
            )
    return batch


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        times = batch.schema.names.count(field.name)
        has = f"has the column {field.name!r} {times} times" if times else f"has no column {field.name!r}"
        raise SchemaError(
            f"the reader's batch {has}; it has {batch.schema.names}",
            remedy="yield batches with each column of context.schema once",
        )
    column = batch.column(index)
    if column.type.equals(field.type):
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise SchemaError(
            f"column {field.name!r} has type {column.type} and cannot be cast to {field.type}: {error}",
            remedy="change the schema given to .schema(...), or the reader",
        ) from error
