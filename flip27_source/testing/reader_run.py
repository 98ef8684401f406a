"""ReaderRun: one reader and what it gives for each split, without Spark and without a coordinator.

Also what a reader is checked with: its class, its options, its splits and its schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec
import pyarrow as pa

from ..errors import SchemaError
from ..events import Progress, ReturnSplit, SourceEvent
from ..executor.spark_schema import conform
from ..options import Options
from ..reader import ReadsTogether, SourceReaderContext, SplitReader
from .law import Disagreement, shown
from .spark_side import Row, rows_of

MOST_ROWS = 1_000_000
"""A split of a test that gives more of them is taken to have no end."""


@dataclass(slots=True)
class Share:
    """What reading a split gave.

    Attributes:
        marks: the position behind each Progress, and how many rows came before it.
        events: what was sent to the enumerator.
        is_returned: whether the reader gave the split back.
    """

    rows: list[Row] = field(default_factory=list)
    marks: list[tuple[Any, int]] = field(default_factory=list)
    events: list[SourceEvent] = field(default_factory=list)
    is_returned: bool = False


class ReaderRun:
    """One reader from open to close.

    Args:
        end_positions: as in SourceReaderContext.
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
    ) -> None:
        self._schema = schema
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
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()

    def read(self, split: Any, *, until: Any = None, pages: int | None = None) -> Share:
        """Read a split to its end, up to the Progress that says ``until``, or up to so many of them."""
        return self._share(self.reader.read(split), until, pages)

    def read_together(self, splits: Sequence[Any]) -> Share:
        """Read splits in one go."""
        assert isinstance(self.reader, ReadsTogether)
        return self._share(self.reader.read_together(splits))

    def read_a_little(self, split: Any) -> None:
        """Read the first item and give up."""
        items = self.reader.read(split)
        next(iter(items), None)
        if hasattr(items, "close"):
            items.close()

    def _share(self, items: Iterator[Any], until: Any = None, pages: int | None = None) -> Share:
        share = Share()
        before = len(self._events)
        try:
            for item in items:
                if isinstance(item, Progress):
                    share.marks.append((item.split, len(share.rows)))
                    if len(share.marks) == pages or (until is not None and item.split == until):
                        break
                else:
                    share.rows.extend(self._checked(item))
                    if len(share.rows) > MOST_ROWS:
                        raise Disagreement(f"more than {MOST_ROWS:,} rows of one split, and no end")
        except ReturnSplit:
            share.is_returned = True
        share.events = self._events[before:]
        return share

    def _checked(self, item: Any) -> Sequence[Row]:
        kind = "Arrow batches" if isinstance(item, pa.RecordBatch) else "tuples"
        self._kind = self._kind or kind
        if kind != self._kind:
            raise Disagreement(f"the reader gives {self._kind} and then {kind}: only one kind is taken")
        if isinstance(item, pa.RecordBatch):
            try:
                return rows_of(conform(item, self._schema))
            except SchemaError as error:
                raise Disagreement(str(error)) from None
        if not isinstance(item, tuple):
            raise Disagreement(f"the reader gives {shown(item)}, which is no tuple, batch or Progress")
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
            raise Disagreement(f"row {shown(row)} has no {column.name!r}, which is NOT NULL")
        if isinstance(value, float) and pa.types.is_integer(column.type):
            raise Disagreement(
                f"{shown(value)} is no {column.type}, which column {column.name!r} is: it is cut"
            )
        try:
            pa.array([value], column.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise Disagreement(
                f"{shown(value)} is no {column.type}, which column {column.name!r} is: {error}"
            ) from None


@dataclass(slots=True, kw_only=True)
class ReaderUnderTest:
    """A reader, what it reads, and what it gives when nothing disturbs it."""

    reader_type: type[SplitReader[Any]]
    options: Options
    schema: pa.Schema
    splits: list[Any]
    shares: dict[str, Share] = field(default_factory=dict)

    def run(self, **more: Any) -> ReaderRun:
        """A reader of its own."""
        return ReaderRun(self.reader_type, self.options, self.schema, **more)

    def read_all(self, splits: Sequence[Any] | None = None, **more: Any) -> dict[str, Share]:
        """What one reader gives for each split, in the order given."""
        with self.run(**more) as run:
            return {split.split_id: run.read(split) for split in (self.splits if splits is None else splits)}

    @property
    def rows(self) -> list[Row]:
        """All rows, split by split."""
        return [row for split in self.splits for row in self.shares[split.split_id].rows]


def stored(split: Any) -> Any:
    """A split as it arrives on an executor: through JSON and back."""
    return msgspec.json.decode(msgspec.json.encode(split), type=type(split))
