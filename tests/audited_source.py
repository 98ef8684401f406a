"""A source that keeps account of its own events, for tests that kill its processes.

Its splits are counters, which the reader bounds page by page. Readers report every page to the enumerator,
which answers with a numbered note to a subtask; the subtask reports the arrival of the note. The enumerator
counts pages and notes in its state. The split ``audit`` is assigned once all have arrived. Its one row says
how many notes were sent, and how many events were repeated, skipped or out of order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from flip27_source import Option, Options, Progress, SourceEvent, SplitEnumerator, SplitReader, YieldsProgress
from flip27_source.options import integer

AUDIT = "audit"

COUNTERS = Option(name="counters", parse=integer(minimum=1), default=4, doc="Number of splits.")
ROWS = Option(name="rows", parse=integer(minimum=1), default=1000, doc="Rows of each split.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A split that is read page by page. ``words`` is the text of the audit."""

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
    """A note for a subtask; after a restart with fewer subtasks another one receives it."""

    target: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteHeard(SourceEvent):
    target: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Reported rows by split, sent and received notes by target, and repeated, late or missing events."""

    assigned: bool = False
    audited: bool = False
    told: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    anomalies: int = 0


class AuditedEnumerator(SplitEnumerator[Counter]):
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
            words = f"notes={sum(account.sent.values())} anomalies={account.anomalies}"
            self.context.assign_split(Counter(split_id=AUDIT, last=1, words=words))

    def handle_source_event(self, subtask_id: int, event: PageRead | NoteHeard) -> None:
        account = self.account
        if isinstance(event, NoteHeard):
            key = str(event.target)
            in_order = event.number == account.heard.get(key, 0) + 1
            heard = account.heard | {key: event.number}
            self.account = replace(account, heard=heard, anomalies=account.anomalies + (not in_order))
            return
        in_order = event.first == account.told.get(event.split_id, 0)
        number = account.sent.get(str(subtask_id), 0) + 1
        self.account = replace(
            account,
            told=account.told | {event.split_id: event.end},
            sent=account.sent | {str(subtask_id): number},
            anomalies=account.anomalies + (not in_order),
        )
        self.context.send_event_to_reader(subtask_id, Note(target=subtask_id, number=number))

    def add_splits_back(self, splits: Sequence[Counter], subtask_id: int) -> None:
        raise AssertionError("no reader of this source returns splits")

    def snapshot_state(self, checkpoint_id: int) -> Account:
        return self.account


class AuditedReader(YieldsProgress, SplitReader[Counter]):
    """Yields numbers page by page, and reports each page and each note that arrives."""

    page_rows: ClassVar[int] = 3

    def handle_source_event(self, event: Note) -> None:
        self.context.send_event_to_coordinator(NoteHeard(target=event.target, number=event.number))

    def read(self, split: Counter) -> Iterator[Any]:
        while split.next < split.last:
            end = min(split.next + self.page_rows, split.last)
            yield from self.page(split, end)
            if split.split_id != AUDIT:
                page = PageRead(split_id=split.split_id, first=split.next, end=end)
                self.context.send_event_to_coordinator(page)
            split = replace(split, next=end)
            if end < split.last:
                yield Progress(split)
        yield Progress(None)

    def page(self, split: Counter, end: int) -> Iterator[Any]:
        """The rows of a split from its position to ``end``, as texts."""
        for number in range(split.next, end):
            yield (split.words or f"{split.split_id}:{number}",)


def audited_rows(counters: int, rows: int) -> list[str]:
    """All rows of an AuditedReader if every event arrives once."""
    names = [f"counter-{number}" for number in range(counters)]
    notes = counters * -(-rows // AuditedReader.page_rows)
    return [*(f"{name}:{number}" for name in names for number in range(rows)), f"notes={notes} anomalies=0"]
