"""The reader of a chain: each split is read by the reader of its part."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from flip27_source.enumerators.hybrid.parts import PartEvent
from flip27_source.errors import SplitReadError
from flip27_source.events import Progress
from flip27_source.options import Options
from flip27_source.reader import (
    ComposedOfReaders,
    Output,
    ReadsTogether,
    SourceReaderContext,
    SplitReader,
    YieldsProgress,
)

if TYPE_CHECKING:
    from flip27_source.enumerators.hybrid.parts import Part, PartSplit
    from flip27_source.enumerators.hybrid.switch import Switch


class HybridReader(ComposedOfReaders, SplitReader[Any]):
    """Opens the reader of a part at the first split of that part.

    Attributes:
        parts: the parts of the chain.
    """

    parts: ClassVar[tuple[Part, ...]] = ()

    def __init__(self) -> None:
        self._made: dict[int, SplitReader[Any]] = {}
        self._opened: set[int] = set()
        self._events: dict[int, list[PartEvent]] = {}

    @classmethod
    def composed(cls, enumerator: type[Any]) -> type[SplitReader[Any]]:
        return _class_for(enumerator.parts)

    @classmethod
    def quarantines(cls, options: Options) -> bool:
        return any(part.reader_type.quarantines(part.source(options).options) for part in cls.parts)

    def handle_source_event(self, event: PartEvent) -> None:
        """Keep the event until the first split of its part tells where that part has started."""
        part = self.parts[event.number - 1]
        if part.number in self._opened:
            self._made[part.number].handle_source_event(event.event)
        else:
            self._events.setdefault(part.number, []).append(event)

    def is_repeatable(self, split: PartSplit) -> bool:
        part = self.parts[split.number - 1]
        # Asked before the reader is opened.
        return part.enumerator_type.repeatable and self._unopened(part).is_repeatable(split.split)

    def must_read(self, split: PartSplit) -> bool:
        return self._reader(split).must_read(split.split)

    def read(self, split: PartSplit) -> Output:
        part = self.parts[split.number - 1]
        reader = self._reader(split)
        with _own_option(part), part.naming_itself():
            for item in reader.read(split.split):
                if isinstance(item, Progress) and item.split is not None:
                    yield Progress(part.changed(split, item.split))
                else:
                    yield item
        if issubclass(type(self), YieldsProgress) and not isinstance(reader, YieldsProgress):
            # Its source has whole splits, which end with their last row.
            yield Progress(None)

    def close(self) -> None:
        for number in self._events.keys() - self._opened:
            # Events alone are enough for a batch.
            self._open(self.parts[number - 1], self._events[number][0].switch)
        for number in self._opened:
            self._made[number].close()

    def _unopened(self, part: Part) -> SplitReader[Any]:
        return self._made.setdefault(part.number, part.reader_type())

    def _reader(self, split: PartSplit) -> SplitReader[Any]:
        """The reader of a split, opened at its first one."""
        part = self.parts[split.number - 1]
        if part.number not in self._opened:
            self._open(part, split.switch)
        return self._made[part.number]

    def _open(self, part: Part, switch: Switch | None) -> None:
        reader = self._unopened(part)
        with part.naming_itself():
            reader.open(_context_of(part, self.context, switch))
            self._opened.add(part.number)
            for event in self._events.pop(part.number, ()):
                reader.handle_source_event(event.event)


class _TogetherReader(HybridReader, ReadsTogether[Any]):
    """For a chain of which some part has a reader that reads splits together."""

    def read_together(self, splits: Sequence[PartSplit]) -> Output:
        for number, group in itertools.groupby(splits, key=lambda split: split.number):
            part, together = self.parts[number - 1], list(group)
            reader, own = self._reader(together[0]), [split.split for split in together]
            with _own_option(part), part.naming_itself():
                if isinstance(reader, ReadsTogether):
                    yield from reader.read_together(own)
                else:
                    for split in own:
                        yield from reader.read(split)


@functools.lru_cache(maxsize=64)
def _class_for(parts: tuple[Part, ...]) -> type[HybridReader]:
    """The class of the reader of a chain of these parts."""
    kinds = [part.reader_type for part in parts]
    together = any(issubclass(kind, ReadsTogether) for kind in kinds)
    pages = (YieldsProgress,) if any(issubclass(kind, YieldsProgress) for kind in kinds) else ()
    body = {
        "__module__": __name__,
        "parts": parts,
        "event_types": tuple(
            part.events[event] for part in parts for event in part.reader_type.resolve_event_types()
        ),
        "repeatable": all(kind.repeatable for kind in kinds),
        "loses_whole_splits": any(kind.loses_whole_splits for kind in kinds),
        "ignored_by": tuple(part.option_name(name) for part in parts for name in part.reader_type.ignored_by),
    }
    return type("HybridReader", (*pages, _TogetherReader if together else HybridReader), body)


def _context_of(part: Part, context: SourceReaderContext, switch: Switch | None) -> SourceReaderContext:
    """The context as the reader of a part sees it: its options, and the ids and splits of its source."""
    ours = part.split_id("")

    def lost(what: str, split_id: str | None, remedy: str | None) -> None:
        name = None if split_id is None else part.split_id(split_id)
        context.loss_reporter(what, name, remedy)

    def taken(split: Any, error: str, split_id: str) -> None:
        context.part_taker(part.wrapped(split, switch), error, part.split_id(split_id))

    return dataclasses.replace(
        context,
        options=part.source(context.options, switch).options,
        event_sender=lambda event: context.event_sender(part.wrapped_event(event)),
        sent_before=[
            event.event
            for event in context.sent_before
            if isinstance(event, PartEvent) and event.number == part.number
        ],
        end_positions={
            name.removeprefix(ours): None if end is None else end.split
            for name, end in context.end_positions.items()
            if name.startswith(ours)
        },
        quarantined_before=frozenset(
            name.removeprefix(ours) for name in context.quarantined_before if name.startswith(ours)
        ),
        savepoint_opener=lambda name: context.savepoint_opener(f"{part.number}-{name}"),
        loss_reporter=lost,
        part_taker=taken,
    )


@contextlib.contextmanager
def _own_option(part: Part) -> Iterator[None]:
    """Name the option that leaves an unreadable split out as the chain has it."""
    try:
        yield
    except SplitReadError as error:
        if error.ignored_by is not None:
            named: Any = error
            named.ignored_by = part.option_name(error.ignored_by)
        raise
