"""ReaderRun: runs one reader split by split, without Spark and without a coordinator.

ReaderUnderTest holds the input of a check: the reader's class, options, splits and schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec
import pyarrow as pa

from ..errors import SchemaError
from ..events import Progress, ReturnSplit, SourceEvent
from ..executor.split_read import conform
from ..options import Options
from ..reader import ReadsTogether, SourceReaderContext, SplitReader
from ..values.differences import shown
from .law import Disagreement
from .spark_side import Row, rows_of

MOST_ROWS = 1_000_000
"""A split with more rows is assumed to be endless."""


@dataclass(slots=True)
class Share:
    """The result of reading a split.

    Attributes:
        marks: the position in each Progress, and the number of rows before it.
        events: the events sent to the enumerator.
        quarantined: the parts that the reader has quarantined, in order.
        returned: whether the reader has returned the split to the enumerator.
    """

    rows: list[Row] = field(default_factory=list)
    marks: list[tuple[Any, int]] = field(default_factory=list)
    events: list[SourceEvent] = field(default_factory=list)
    quarantined: list[Any] = field(default_factory=list)
    returned: bool = False


class ReaderRun:
    """One reader from open to close.

    Args:
        end_positions, quarantined_before: as in SourceReaderContext.
    """

    def __init__(
        self,
        reader_type: type[SplitReader[Any]],
        options: Options,
        schema: pa.Schema,
        *,
        end_positions: Mapping[str, Any] | None = None,
        attempt_number: int = 0,
        subtask_id: int = 0,
        quarantined_before: frozenset[str] = frozenset(),
    ) -> None:
        self._schema = schema
        self._quarantined: list[Any] = []
        self._kind: str | None = None
        self._events: list[SourceEvent] = []
        self.reader = reader_type()
        self.reader.open(
            SourceReaderContext(
                options=options,
                schema=schema,
                end_positions=end_positions or {},
                attempt_number=attempt_number,
                subtask_id=subtask_id,
                checkpoint_id=1,
                event_sender=self._events.append,
                quarantined_before=quarantined_before,
                part_taker=lambda part, _error, _split_id: self._quarantined.append(part),
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()

    def read(self, split: Any, *, until: Any = None, pages: int | None = None) -> Share:
        """Read a split to its end, to the Progress at position ``until``, or to ``pages`` Progress marks."""
        return self._share(self.reader.read(split), until, pages, what=f"split {split.split_id!r}")

    def read_together(self, splits: Sequence[Any]) -> Share:
        assert isinstance(self.reader, ReadsTogether)
        return self._share(self.reader.read_together(splits))

    def read_a_little(self, split: Any) -> None:
        """Read the first item, then stop."""
        items = self.reader.read(split)
        next(iter(items), None)
        if hasattr(items, "close"):
            items.close()

    def _share(
        self, items: Iterator[Any], until: Any = None, pages: int | None = None, what: str = "these splits"
    ) -> Share:
        share = Share()
        before, parts = len(self._events), len(self._quarantined)
        try:
            for item in items:
                if isinstance(item, Progress):
                    share.marks.append((item.split, len(share.rows)))
                    if len(share.marks) == pages or (until is not None and item.split == until):
                        break
                else:
                    share.rows.extend(self._checked(item))
                    if len(share.rows) > MOST_ROWS:
                        raise Disagreement(
                            f"{what} gives more than {MOST_ROWS:,} rows: let read come to an end"
                        )
        except ReturnSplit:
            share.returned = True
        share.events = self._events[before:]
        share.quarantined = self._quarantined[parts:]
        return share

    def _checked(self, item: Any) -> Sequence[Row]:
        kind = "Arrow batches" if isinstance(item, pa.RecordBatch) else "tuples"
        self._kind = self._kind or kind
        if kind != self._kind:
            raise Disagreement(f"the reader yields {self._kind} and then {kind}: yield only one kind")
        if isinstance(item, pa.RecordBatch):
            try:
                return rows_of(conform(item, self._schema))
            except SchemaError as error:
                raise Disagreement(str(error)) from None
        if not isinstance(item, tuple):
            raise Disagreement(f"the reader yields {shown(item)}, which is not a tuple, batch or Progress")
        check_row(item, self._schema)
        return [item]


def check_row(row: Row, schema: pa.Schema) -> None:
    """Raise Disagreement unless a row fits the schema."""
    if len(row) != len(schema):
        raise Disagreement(
            f"row {shown(row)} has {len(row)} values; the schema has {len(schema)}: {schema.names}"
        )
    for value, column in zip(row, schema, strict=True):
        if value is None and not column.nullable:
            raise Disagreement(f"row {shown(row)} has null in column {column.name!r}, which is NOT NULL")
        if isinstance(value, float) and pa.types.is_integer(column.type):
            raise Disagreement(
                f"{shown(value)} does not fit column {column.name!r} of type {column.type}: it is truncated"
            )
        try:
            pa.array([value], column.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise Disagreement(
                f"{shown(value)} does not fit column {column.name!r} of type {column.type}: {error}"
            ) from None


@dataclass(slots=True, kw_only=True)
class ReaderUnderTest:
    """A reader, its input, and the result of an undisturbed run."""

    reader_type: type[SplitReader[Any]]
    options: Options
    schema: pa.Schema
    splits: list[Any]
    shares: dict[str, Share] = field(default_factory=dict)

    def run(self, **more: Any) -> ReaderRun:
        return ReaderRun(self.reader_type, self.options, self.schema, **more)

    def read_all(self, splits: Sequence[Any] | None = None, **more: Any) -> dict[str, Share]:
        """The result of one reader for each split, in the given order."""
        with self.run(**more) as run:
            return {split.split_id: run.read(split) for split in (self.splits if splits is None else splits)}

    @property
    def rows(self) -> list[Row]:
        return [row for split in self.splits for row in self.shares[split.split_id].rows]


def stored(split: Any) -> Any:
    """A split as it arrives on an executor: encoded as JSON and decoded."""
    return msgspec.json.decode(msgspec.json.encode(split), type=type(split))
