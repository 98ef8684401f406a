"""Fakes: whole sources made of literal data, with markers where reading fails.

Their data is passed in and kept in memory; it can grow while a query runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from ..discovery import DiscoveringEnumerator, Discovery
from ..enumerator import SplitEnumerator
from ..errors import ContractError
from ..events import Progress, SourceEvent
from ..options import Options
from ..reader import SplitReader, YieldsProgress
from ..split import SplitSize
from .markers import Crash, Fail, Marker, Markers
from .spark_side import Row
from .under_test import SourceUnderTest

TASK_BYTES = 4 * 1024 * 1024
"""The declared size of fake splits: large enough for one task per split, up to ``parallelism``."""


@dataclass(frozen=True, slots=True)
class Link:
    """In the data of a ``linked_source``: the reader finds the split with this name here."""

    name: str


class End:
    """The type of ``END``."""


END = End()
"""In the data of a ``paged_source``, as the last page: the split is finished."""

Item: TypeAlias = Any
"""A value, which is a row of one column; a tuple, which is a row; or a marker."""


@dataclass(slots=True, kw_only=True)
class FakeData:
    """The data of a fake source. Survives every crash of its query.

    Attributes:
        splits: the items of each split.
        markers: the markers that have taken effect.
        heard: the events handled by the enumerator, in order, with repetitions.
    """

    splits: dict[str, list[Any]]
    markers: Markers = field(default_factory=Markers)
    heard: list[Any] = field(default_factory=list)

    def rows(self, items: Sequence[Item], place: str) -> Iterator[Row]:
        """The rows among ``items``; markers take effect."""
        for index, item in enumerate(items):
            if isinstance(item, Crash | Fail):
                self.markers.come_by(item, f"{place}[{index}]")
            elif not isinstance(item, Link):
                yield item if isinstance(item, tuple) else (item,)


@dataclass(frozen=True, kw_only=True)
class FakeSource(SourceUnderTest):
    """A fake source for the engine and the checks."""

    data: FakeData

    @property
    def rows(self) -> list[Row]:
        """All current rows, split by split, without markers."""
        parts = (part for items in self.data.splits.values() for part in items)
        return [
            item if isinstance(item, tuple) else (item,)
            for page in (part if isinstance(part, list) else [part] for part in parts)
            for item in page
            if not isinstance(item, Marker | Link | End)
        ]

    @property
    def markers(self) -> Markers:
        """The markers that have taken effect."""
        return self.data.markers

    def add(self, name: str, *items: Item) -> None:
        """Add a split, or append to an existing one: rows, or pages of a paged source."""
        self.data.splits.setdefault(name, []).extend(items)


def literal_source(
    splits: Mapping[str, Sequence[Item]], *, schema: pa.Schema | None = None, **options: str
) -> FakeSource:
    """A source of splits that are read whole: ``literal_source({"a": [1, 2, CRASH, 3], "b": [4]})``.

    Args:
        splits: the items of each split: values, or tuples with a ``schema``, and markers.
        schema: the columns; if None, one column ``value`` of the type of the values.
        options: options of the source.
    """
    return _fake(LiteralEnumerator, LiteralReader, splits, schema, options)


def paged_source(
    splits: Mapping[str, Sequence[Sequence[Item] | End]], *, schema: pa.Schema | None = None, **options: str
) -> FakeSource:
    """A source whose reader yields Progress: ``paged_source({"orders": [[1, 2], [3, CRASH], [4]]})``.

    Each list is a page, followed by a Progress. ``END`` after the last page finishes the split; without it,
    reading continues when pages are added. Needs a store, like every source with Progress.
    """
    return _fake(PagedEnumerator, PagedReader, splits, schema, options)


def linked_source(
    splits: Mapping[str, Sequence[Item]], *, schema: pa.Schema | None = None, **options: str
) -> FakeSource:
    """A source whose splits are found by reading: ``linked_source({"a": [1, Link("b")], "b": [2]})``.

    Only the first split is known at the start. The reader sends an event for every Link; the enumerator
    assigns each linked split once. Needs a store.
    """
    return _fake(LinkedEnumerator, LinkedReader, splits, schema, options)


class _ReadsFakeData:
    """The base of fake enumerators and readers; each fake is a subclass with its own data."""

    data: ClassVar[FakeData]


class _YieldsFakeRows(_ReadsFakeData):
    schema: ClassVar[pa.Schema]

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return cls.schema


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralSplit:
    """One entry of the literal data."""

    split_id: str
    rows: int = 0

    @property
    def size(self) -> SplitSize:
        return SplitSize(rows=self.rows, bytes=TASK_BYTES)


class LiteralEnumerator(_ReadsFakeData, DiscoveringEnumerator[LiteralSplit]):
    """Finds the entries in order; its position is the number of found entries."""

    def discover(self, position: int | None) -> Discovery[LiteralSplit, int]:
        found = list(self.data.splits.items())
        return Discovery([_literal_split(name, items) for name, items in found[position or 0 :]], len(found))


class LiteralReader(_YieldsFakeRows, SplitReader[LiteralSplit]):
    def read(self, split: LiteralSplit) -> Iterator[Row]:
        yield from self.data.rows(self.data.splits[split.split_id], split.split_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedSplit:
    """One entry, starting at a page."""

    split_id: str
    page: int = 0

    @property
    def size(self) -> SplitSize:
        return SplitSize(bytes=TASK_BYTES)


class PagedEnumerator(_ReadsFakeData, DiscoveringEnumerator[PagedSplit]):
    def discover(self, position: int | None) -> Discovery[PagedSplit, int]:
        names = list(self.data.splits)
        return Discovery([PagedSplit(split_id=name) for name in names[position or 0 :]], len(names))


class PagedReader(_YieldsFakeRows, YieldsProgress, SplitReader[PagedSplit]):
    """Yields page after page, with a Progress after each."""

    def read(self, split: PagedSplit) -> Iterator[Row | Progress[PagedSplit]]:
        """The pages from the split's page to the last one, including pages added in the meantime."""
        pages = self.data.splits[split.split_id]
        number = split.page
        while number < len(pages):
            if isinstance(pages[number], End):
                yield Progress(None)
                return
            yield from self.data.rows(pages[number], f"{split.split_id}[{number}]")
            number += 1
            yield Progress(replace(split, page=number))


@dataclass(frozen=True, slots=True)
class Linked(SourceEvent):
    """The reader has found a link."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedState:
    """The names of all linked splits, and the splits that are not assigned yet."""

    known: tuple[str, ...]
    waiting: tuple[LiteralSplit, ...]


class LinkedEnumerator(_ReadsFakeData, SplitEnumerator[LiteralSplit]):
    """Assigns each split that readers have found, once."""

    def __init__(self, context: Any, options: Options, state: LinkedState | None = None) -> None:
        super().__init__(context, options, state)
        if state is None:
            first, items = next(iter(self.data.splits.items()))
            state = LinkedState(known=(first,), waiting=(_literal_split(first, items),))
        self._known = list(state.known)
        self._waiting = list(state.waiting)

    def start(self) -> None:
        """Nothing to do: readers find the splits."""

    def handle_split_request(self, subtask_id: int) -> None:
        if self._waiting:
            self.context.assign_split(self._waiting.pop(0))

    def handle_source_event(self, subtask_id: int, event: Linked) -> None:
        self.data.heard.append(event)
        if event.name not in self._known:
            self._known.append(event.name)
            self._waiting.append(_literal_split(event.name, self.data.splits[event.name]))

    def add_splits_back(self, splits: Sequence[LiteralSplit], subtask_id: int) -> None:
        """Queue them to be assigned again."""
        self._waiting = [*splits, *self._waiting]

    def snapshot_state(self, checkpoint_id: int) -> LinkedState:
        return LinkedState(known=tuple(self._known), waiting=tuple(self._waiting))


class LinkedReader(LiteralReader):
    """Yields the rows of an entry, and sends an event for each of its links."""

    def read(self, split: LiteralSplit) -> Iterator[Row]:
        for index, item in enumerate(self.data.splits[split.split_id]):
            if isinstance(item, Link):
                self.context.send_event_to_coordinator(Linked(item.name))
            yield from self.data.rows([item], f"{split.split_id}[{index}]")


def _literal_split(name: str, items: Sequence[Item]) -> LiteralSplit:
    return LiteralSplit(split_id=name, rows=sum(not isinstance(i, Marker | Link) for i in items))


def _fake(
    enumerator: type[_ReadsFakeData],
    reader: type[_ReadsFakeData],
    splits: Mapping[str, Sequence[Any]],
    schema: pa.Schema | None,
    options: Mapping[str, str],
) -> FakeSource:
    """Create subclasses that hold this data."""
    data = FakeData(splits={name: list(items) for name, items in splits.items()})
    made = FakeSource(data=data, options=dict(options))
    columns = _inferred(made.rows) if schema is None else schema
    own = {"data": data, "schema": columns, "__module__": __name__}
    return replace(
        made,
        schema=columns,
        enumerator=type(enumerator.__name__, (enumerator,), own),
        reader=type(reader.__name__, (reader,), own),
    )


def _inferred(rows: Sequence[Row]) -> pa.Schema:
    if any(len(row) != 1 for row in rows):
        raise ContractError(
            "rows of several columns need a schema",
            remedy='pass one: schema=pa.schema({"id": pa.int64(), "name": pa.string()})',
        )
    return pa.schema([pa.field("value", pa.array([row[0] for row in rows]).type if rows else pa.int64())])
