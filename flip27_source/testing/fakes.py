"""Fakes: whole sources made of literal data, with markers where reading is to go wrong.

What they read is handed in and kept in memory; it can grow while a query runs.
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
"""Splits of fakes say that they are so large, and so each is a task of its own, up to ``parallelism``."""


@dataclass(frozen=True, slots=True)
class Link:
    """In the data of a ``linked_source``: the split of this name is found here."""

    name: str


class End:
    """The type of ``END``."""


END = End()
"""In the data of a ``paged_source``, as the last page: the split is finished for good."""

Item: TypeAlias = Any
"""A value, which is a row of one column; a tuple, which is a row; or a marker."""


@dataclass(slots=True, kw_only=True)
class FakeData:
    """The world that a fake source reads. Lives as long as the source, whatever crashes.

    Attributes:
        splits: what each split holds.
        heard: events that the enumerator was told, in order, each as often as it was told.
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
    """A fake, to be given to the engine and to the checks like any other source."""

    data: FakeData

    @property
    def rows(self) -> list[Row]:
        """All rows that it holds now, split by split, markers left out."""
        items = (item for held in self.data.splits.values() for item in _flat(held))
        skipped = Marker | Link | End
        return [
            item if isinstance(item, tuple) else (item,) for item in items if not isinstance(item, skipped)
        ]

    @property
    def markers(self) -> Markers:
        """Which markers have taken effect."""
        return self.data.markers

    def add(self, name: str, *items: Item) -> None:
        """A new split, or more at the end of one that is there: rows, or pages of a paged source."""
        self.data.splits.setdefault(name, []).extend(items)


def literal_source(
    splits: Mapping[str, Sequence[Item]], *, schema: pa.Schema | None = None, **options: str
) -> FakeSource:
    """A source of splits that are read whole: ``literal_source({"a": [1, 2, CRASH, 3], "b": [4]})``.

    Args:
        splits: what each split holds: values, or tuples with a ``schema``, and markers.
        schema: the columns; one named ``value``, of the type that the values have, when None.
        options: options of the source.
    """
    return _fake(LiteralEnumerator, LiteralReader, splits, schema, options)


def paged_source(
    splits: Mapping[str, Sequence[Sequence[Item] | End]],
    *,
    schema: pa.Schema | None = None,
    **options: str,
) -> FakeSource:
    """A source whose reader tells how far it came: ``paged_source({"orders": [[1, 2], [3, CRASH], [4]]})``.

    Each list is a page, with a Progress after it. ``END`` after the last page finishes the split;
    otherwise it is read on when pages are added. Needs a store, as every such source.
    """
    return _fake(PagedEnumerator, PagedReader, splits, schema, options)


def linked_source(
    splits: Mapping[str, Sequence[Item]], *, schema: pa.Schema | None = None, **options: str
) -> FakeSource:
    """A source whose splits are found by reading: ``linked_source({"a": [1, Link("b")], "b": [2]})``.

    Only the first split is known at the start. The reader sends an event for every Link that it
    comes by; the enumerator hands out what is linked, once. Needs a store.
    """
    return _fake(LinkedEnumerator, LinkedReader, splits, schema, options)


class _ReadsFakeData:
    """What fake enumerators and readers share: the data, as an attribute of a class of their own."""

    data: ClassVar[FakeData]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralSplit:
    """One entry of the literal data."""

    split_id: str
    rows: int = 0

    @property
    def size(self) -> SplitSize:
        """Large enough for a task of its own."""
        return SplitSize(rows=self.rows, bytes=TASK_BYTES)


class LiteralEnumerator(_ReadsFakeData, DiscoveringEnumerator[LiteralSplit]):
    """Finds the entries in order; its position is how many it has found."""

    def discover(self, position: int | None) -> Discovery[LiteralSplit, int]:
        """Entries that were added since."""
        found = list(self.data.splits.items())
        return Discovery([_literal_split(name, items) for name, items in found[position or 0 :]], len(found))


class LiteralReader(_ReadsFakeData, SplitReader[LiteralSplit]):
    """Gives the rows of an entry."""

    schema: ClassVar[pa.Schema]

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        """The schema that the data was given."""
        return cls.schema

    def read(self, split: LiteralSplit) -> Iterator[Row]:
        """Row by row."""
        yield from self.data.rows(self.data.splits[split.split_id], split.split_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedSplit:
    """One entry, from a page on."""

    split_id: str
    page: int = 0

    @property
    def size(self) -> SplitSize:
        """Large enough for a task of its own."""
        return SplitSize(bytes=TASK_BYTES)


class PagedEnumerator(_ReadsFakeData, DiscoveringEnumerator[PagedSplit]):
    """Finds the entries in order."""

    def discover(self, position: int | None) -> Discovery[PagedSplit, int]:
        """Entries that were added since."""
        names = list(self.data.splits)
        return Discovery([PagedSplit(split_id=name) for name in names[position or 0 :]], len(names))


class PagedReader(_ReadsFakeData, YieldsProgress, SplitReader[PagedSplit]):
    """Gives page after page, with a Progress behind each."""

    schema: ClassVar[pa.Schema]

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        """The schema that the data was given."""
        return cls.schema

    def read(self, split: PagedSplit) -> Iterator[Row | Progress[PagedSplit]]:
        """The pages from the split's own on; those that are added meanwhile too."""
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
    """The reader came by a link."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedState:
    """Names that were ever linked, and those of them that nobody has."""

    known: tuple[str, ...]
    waiting: tuple[LiteralSplit, ...]


class LinkedEnumerator(_ReadsFakeData, SplitEnumerator[LiteralSplit]):
    """Hands out what readers have found, once."""

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
        """Hand out what was found first."""
        if self._waiting:
            self.context.assign_split(self._waiting.pop(0))

    def handle_source_event(self, subtask_id: int, event: Linked) -> None:
        """A split was found."""
        self.data.heard.append(event)
        if event.name not in self._known:
            self._known.append(event.name)
            self._waiting.append(_literal_split(event.name, self.data.splits[event.name]))

    def add_splits_back(self, splits: Sequence[LiteralSplit], subtask_id: int) -> None:
        """Hand them out again."""
        self._waiting = [*splits, *self._waiting]

    def snapshot_state(self, checkpoint_id: int) -> LinkedState:
        """What was found, and what of it nobody has."""
        return LinkedState(known=tuple(self._known), waiting=tuple(self._waiting))


class LinkedReader(LiteralReader):
    """Gives the rows of an entry and tells of its links."""

    def read(self, split: LiteralSplit) -> Iterator[Row]:
        """Row by row; links are told as they are come by."""
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
    """Classes of their own, so that they find this data and no other."""
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
            remedy='give one: schema=pa.schema({"id": pa.int64(), "name": pa.string()})',
        )
    kind = pa.array([row[0] for row in rows]).type if rows else pa.int64()
    return pa.schema([pa.field("value", kind)])


def _flat(items: Sequence[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, list):
            yield from item
        else:
            yield item
