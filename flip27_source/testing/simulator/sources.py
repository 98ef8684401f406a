"""Sources of the simulator other than files and kafka: one with events, and one with an author's mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from ...discovery import DiscoveringEnumerator, Discovery
from ...enumerator import SplitEnumerator
from ...events import Progress, SourceEvent
from ...options import Option, Options, integer
from ...reader import SplitReader, YieldsProgress

LINE = pa.schema([pa.field("value", pa.string())])

COUNTERS = Option(name="counters", parse=integer(minimum=1), default=3, doc="Number of splits.")
ROWS = Option(name="rows", parse=integer(minimum=1), default=10, doc="Rows of each split.")
_PAGE_ROWS = 3
_AUDIT = "audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A split that is read page by page; the audit reports its findings in ``words``."""

    split_id: str
    next: int = 0
    last: int = 0
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRead(SourceEvent):
    split_id: str
    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(SourceEvent):
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteHeard(SourceEvent):
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Reported rows by split, sent and received notes by subtask, and repeated, late or missing events."""

    assigned: bool = False
    audited: bool = False
    told: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    anomalies: int = 0


class TalkingEnumerator(SplitEnumerator[Counter]):
    """Answers every reported page with a numbered note, and records all events."""

    options: ClassVar[tuple[Option[Any], ...]] = (COUNTERS, ROWS)

    def __init__(self, context: Any, options: Options, state: Account | None = None) -> None:
        super().__init__(context, options, state)
        self.account = state or Account()

    def start(self) -> None:
        pass

    def handle_split_request(self, subtask_id: int) -> None:
        rows, account = self.options_given[ROWS], self.account
        names = [f"counter-{number}" for number in range(self.options_given[COUNTERS])]
        if not account.assigned:
            self.account = replace(account, assigned=True)
            for name in names:
                self.context.assign_split(Counter(split_id=name, last=rows))
        elif (
            not account.audited
            and account.heard == account.sent
            and all(account.told.get(name) == rows for name in names)
        ):
            self.account = replace(account, audited=True)
            words = f"anomalies={account.anomalies}"
            self.context.assign_split(Counter(split_id=_AUDIT, last=1, words=words))

    def handle_source_event(self, subtask_id: int, event: PageRead | NoteHeard) -> None:
        account, subtask = self.account, str(subtask_id)
        if isinstance(event, NoteHeard):
            in_order = event.number == account.heard.get(subtask, 0) + 1
            heard = account.heard | {subtask: event.number}
            self.account = replace(account, heard=heard, anomalies=account.anomalies + (not in_order))
            return
        in_order = event.first == account.told.get(event.split_id, 0)
        target = subtask_id % self.context.current_parallelism
        number = account.sent.get(str(target), 0) + 1
        self.account = replace(
            account,
            told=account.told | {event.split_id: event.end},
            sent=account.sent | {str(target): number},
            anomalies=account.anomalies + (not in_order),
        )
        self.context.send_event_to_reader(target, Note(number=number))

    def add_splits_back(self, splits: Sequence[Counter], subtask_id: int) -> None:
        raise AssertionError("no reader of this source returns splits")

    def snapshot_state(self, checkpoint_id: int) -> Account:
        return self.account


class TalkingReader(YieldsProgress, SplitReader[Counter]):
    """Yields numbers page by page, and reports each page and each note that arrives."""

    def handle_source_event(self, event: Note) -> None:
        self.context.send_event_to_coordinator(NoteHeard(number=event.number))

    def read(self, split: Counter) -> Iterator[Any]:
        while split.next < split.last:
            end = min(split.next + _PAGE_ROWS, split.last)
            yield from ((split.words or f"{split.split_id}:{number}",) for number in range(split.next, end))
            if split.split_id != _AUDIT:
                page = PageRead(split_id=split.split_id, first=split.next, end=end)
                self.context.send_event_to_coordinator(page)
            split = replace(split, next=end)
            if end < split.last:
                yield Progress(split)
        yield Progress(None)


def rows_of_talking(counters: int, rows: int) -> list[str]:
    """All rows of the source with events."""
    names = [f"counter-{number}" for number in range(counters)]
    return [*(f"{name}:{number}" for name in names for number in range(rows)), "anomalies=0"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A split with a single row: its name and number."""

    split_id: str
    number: int = 0
    weight: float = 1.0


class ItemReader(SplitReader[Item]):
    def read(self, split: Item) -> Iterator[Any]:
        yield (f"{split.split_id}:{split.number}",)


class CarelessEnumerator(DiscoveringEnumerator[Item]):
    """Finds an item in each round; a mistake of its author shows in one of the rounds.

    Attributes:
        mistake: one of ``MISTAKES``; None once the author has fixed it.
        comes_at: the round in which it shows.
    """

    mistake: ClassVar[str | None] = None
    comes_at: ClassVar[int] = 0
    last: ClassVar[int] = 0

    def discover(self, position: int | None) -> Discovery[Item, int | None]:
        at = position or 0
        if at >= self.last:
            return Discovery([], at)
        mistake = self.mistake if at == self.comes_at else None
        change = MISTAKES.get(mistake or "", {})
        if "instead" in change:
            return change["instead"]  # type: ignore[no-any-return] # that is the mistake
        item = replace(Item(split_id=f"item-{at}", number=at), **change.get("split", {}))
        return Discovery(change.get("splits", [item]), change.get("position", at + 1))


MISTAKES: dict[str, dict[str, Any]] = {
    "a position that is NaN": {"position": float("nan")},
    "a position that is a text": {"position": "1"},
    "a split_id that is a number": {"split": {"split_id": 7}},
    "a split_id that is not Unicode": {"split": {"split_id": "\udcff"}},
    "a field that is infinite": {"split": {"weight": float("inf")}},
    "a field that is a text": {"split": {"number": "7"}},
    "splits that are texts": {"splits": ["a"]},
    "a list instead of a Discovery": {"instead": ["a"]},
}
"""Mistakes of an author, each with the value that ``discover`` returns instead."""
