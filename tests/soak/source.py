"""The source of the soak: counters with pages that the reader bounds, and numbered events in both directions.

Readers report every page to the enumerator, which answers with a numbered note to a subtask; the subtask
reports the arrival of the note. The enumerator counts pages and notes in its state. The split ``audit`` is
assigned once all have arrived. Its one row reports how many were repeated, skipped or out of order.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source import (
    Option,
    Options,
    Progress,
    SourceEvent,
    SplitEnumerator,
    SplitReader,
    YieldsProgress,
)
from flip27_source.options import integer, optional, text

PAGE_ROWS = 25
AUDIT = "audit"

COUNTERS = Option(name="counters", parse=integer(minimum=1), default=4, doc="How many splits there are.")
ROWS = Option(name="rows", parse=integer(minimum=1), default=1000, doc="Rows of each of them.")
PAGE_MS = Option(name="pageMs", parse=integer(minimum=0), default=0, doc="How long a page takes, in ms.")
FAIL_FIRST = Option(name="failFirst", parse=integer(minimum=0), default=0, doc="1: first attempts fail.")
SLOW_FIRST_MS = Option(
    name="slowFirstMs", parse=integer(minimum=0), default=0, doc="How long first attempts of subtask 0 hang."
)

HANG_IN = Option(
    name="hangIn",
    parse=optional(text),
    default=None,
    doc="A folder: two first attempts write their process id there, worker and executor, and hang.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A split. ``words`` is the text of the audit."""

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
    """What the enumerator knows: reported rows by split, and sent and received notes by subtask."""

    assigned: bool = False
    audited: bool = False
    told: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    anomalies: int = 0


class SoakEnumerator(SplitEnumerator[Counter]):
    """Assigns the counters, counts the events, and assigns the audit at the end."""

    options: ClassVar[tuple[Option[Any], ...]] = (COUNTERS, ROWS)

    def __init__(self, context: Any, options: Options, state: Account | None = None) -> None:
        super().__init__(context, options, state)
        self.account = state or Account()

    def start(self) -> None:
        pass

    def handle_split_request(self, subtask_id: int) -> None:
        rows = self.options_given[ROWS]
        names = [f"counter-{number}" for number in range(self.options_given[COUNTERS])]
        if not self.account.assigned:
            self.account = replace(self.account, assigned=True)
            for name in names:
                self.context.assign_split(Counter(split_id=name, last=rows))
            return
        account = self.account
        all_told = all(account.told.get(name) == rows for name in names)
        if all_told and account.heard == account.sent and not account.audited:
            self.account = replace(account, audited=True)
            words = f"notes={sum(account.sent.values())} anomalies={account.anomalies}"
            self.context.assign_split(Counter(split_id=AUDIT, last=1, words=words))

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


class SoakReader(YieldsProgress, SplitReader[Counter]):
    """Yields numbers, page by page. Options let first attempts fail or hang."""

    options: ClassVar[tuple[Option[Any], ...]] = (PAGE_MS, FAIL_FIRST, SLOW_FIRST_MS, HANG_IN)

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return pa.schema([("split", pa.string()), ("number", pa.int64()), ("words", pa.string())])

    def handle_source_event(self, event: Note) -> None:
        self.context.send_event_to_coordinator(NoteHeard(number=event.number))

    def read(self, split: Counter) -> Iterator[Any]:
        options, first_attempt = self.context.options, self.context.attempt_number == 0
        if first_attempt and self.context.subtask_id == 0:
            time.sleep(options[SLOW_FIRST_MS] / 1000)  # the load: a subtask that hangs
        while split.next < split.last:
            end = min(split.next + PAGE_ROWS, split.last)
            time.sleep(options[PAGE_MS] / 1000)  # the load: a page takes its time
            yield self._page(split, end)
            if first_attempt and options[HANG_IN] is not None:
                hang_in(Path(options[HANG_IN]))
            if options[FAIL_FIRST] and first_attempt:
                raise RuntimeError("first attempts fail")
            if split.split_id != AUDIT:
                page = PageRead(split_id=split.split_id, first=split.next, end=end)
                self.context.send_event_to_coordinator(page)
            split = replace(split, next=end)
            if end < split.last:
                yield Progress(split)
        yield Progress(None)

    def _page(self, split: Counter, end: int) -> pa.RecordBatch:
        count = end - split.next
        columns = [[split.split_id] * count, list(range(split.next, end)), [split.words] * count]
        arrays = [
            pa.array(values, field.type) for values, field in zip(columns, self.context.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.context.schema)


def hang_in(folder: Path) -> None:
    """Wait to be killed: the first process that calls this as ``worker``, the second as ``executor``."""
    for what in ("worker", "executor"):
        if not (folder / what).exists():
            hidden = folder / f".{what}-{os.getpid()}"
            hidden.write_text(str(os.getpid()))
            try:
                os.link(hidden, folder / what)
            except FileExistsError:
                continue
            while True:
                time.sleep(1)
