"""A listing of splits, page by page: those that wait, and then those of the batches, newest batch first.

A page costs what it shows, however many splits there are: other splits are not decoded. Read-only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, dropwhile
from typing import Any, NamedTuple

import msgspec

from ..snapshots.file_names import CheckpointName
from .history import Ancestry, History, StoredSplit, stored_text, unassigned_pages
from .split_rows import WAITING, Share
from .unassigned_splits import unassigned_by_class

PATIENCE_S = 5.0
"""How long one page looks for splits with a text or a status."""


class Cursor(NamedTuple):
    """Where a listing goes on: in a group of splits (those of a subtask, or some that wait)."""

    group: str = ""
    offset: int = 0

    @classmethod
    def parse(cls, text: str) -> Cursor:
        match = re.fullmatch(r"([^+]*)\+([0-9]{1,12})", text)
        return cls() if match is None else cls(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"{self.group}+{self.offset}"


class Listed(NamedTuple):
    """A split; ``name``: the checkpoint whose batch contains it, None if it waits."""

    split: StoredSplit
    status: str
    name: CheckpointName | None
    subtask: int | None


@dataclass(slots=True)
class Page:
    """A page of a listing.

    Attributes:
        after: where the next page begins; None at the end.
        is_cut: whether looking took too long, so that the page has fewer splits than it could.
    """

    splits: list[Listed] = field(default_factory=list)
    after: Cursor | None = None
    is_cut: bool = False


class _Group(NamedTuple):
    key: str
    raws: Callable[[], list[msgspec.Raw] | None]
    subtask: int | None = None
    name: CheckpointName | None = None
    share: Callable[[], Share] | None = None


def list_splits(
    history: History,
    after: Cursor,
    most: int,
    *,
    text: str | None = None,
    statuses: Collection[str] = (),
    only: CheckpointName | None = None,
    clock_s: Callable[[], float] = time.monotonic,
) -> Page:
    """The next splits of a listing.

    Args:
        most: the number of splits on a page.
        text: only splits whose stored form contains it.
        statuses: only splits with these, as the view files has them; none for all.
        only: only the batch of this checkpoint.
    """
    line = history.line()
    waiting = () if only else _waiting(history, line, text)
    planned = () if {*statuses} == {WAITING} else _planned(history, line, text, only)
    groups = chain(() if statuses and WAITING not in statuses else waiting, planned)
    page, end_s = Page(), clock_s() + PATIENCE_S
    for number, group in enumerate(dropwhile(lambda group: after.group not in ("", group.key), groups)):
        first = 0 if number else after.offset
        if number and clock_s() > end_s:
            return Page(page.splits, Cursor(group.key), is_cut=True)
        raws = group.raws() or []
        share = group.share() if group.share and raws[first:] else None
        for offset in range(first, len(raws)):
            is_late = offset > first and offset % 1000 == 0 and clock_s() > end_s
            if is_late or len(page.splits) == most:
                return Page(page.splits, Cursor(group.key, offset), is_cut=is_late)
            split = StoredSplit.of(raws[offset])
            status = WAITING if share is None else share.status(split.split_id)
            if not statuses or status in statuses:
                page.splits.append(Listed(split, status, group.name, group.subtask))
    return page


def _waiting(history: History, line: Ancestry, text: str | None) -> Iterator[_Group]:
    head = history.head(line)
    if head is None:
        return
    name, ledger = line.names[-1], head.raw.ledger
    for number, block in enumerate(ledger.waiting):
        yield _Group(f"w{number}", partial(history.raw_splits, name, head, block.splits, text), block.subtask)
    for number, page in enumerate(unassigned_pages(head)):
        if page.splits in head.raw.segments:
            taken = partial(history.raw_splits, name, head, page.splits, text, page.taken)
            yield _Group(f"p{number}", taken)

    def others() -> list[msgspec.Raw]:
        held = (msgspec.Raw(split.text.encode()) for split in unassigned_by_class(history, head))
        return [raw for raw in (*ledger.ranges, *held) if stored_text(text) in bytes(raw)]

    yield _Group("o", others)


def _planned(
    history: History, line: Ancestry, text: str | None, only: CheckpointName | None
) -> Iterator[_Group]:
    head = history.head(line)
    if head is None:
        return
    quarantined = history.quarantined(line.names[-1], head)
    aside = frozenset(StoredSplit.of(item.split).split_id for item in quarantined)
    undone = history.undone(line, only or line.names[0])
    for name in [only] if only else reversed(line.names):
        document = history.document(name)
        if document is None:
            continue  # clean-up has removed it
        for item in document.raw.plan:

            def share(name: CheckpointName = name, document: Any = document, item: Any = item) -> Share:
                return Share(
                    name=name,
                    document=document,
                    subtask=item.subtask,
                    splits=[],
                    alone=False,
                    report=history.report_with_late(name, item.subtask),
                    line=line,
                    is_undone=name in undone,
                    aside=aside,
                )

            raws = partial(history.raw_splits, name, document, item.splits, text)
            yield _Group(f"{name.checkpoint_id}.{item.subtask}", raws, item.subtask, name, share)
