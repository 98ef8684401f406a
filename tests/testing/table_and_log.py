"""A correct source of a table and its log ("snapshot, then log"), as a new author would write it.

The table is literal data in this module. Every inserted row is in the table and in the log; the snapshot
gives the rows that were there when it began, and the log gives all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from flip27_source.enumerator import BoundedRange, Budget, SplitEnumerator
from flip27_source.options import Options
from flip27_source.reader import SplitReader

TABLE: dict[int, int] = {}
"""The keys of the rows, each with the length of the log before it was inserted."""
LOG: list[int] = []
"""The keys that were inserted after the table was made, in order."""
CHUNK = 2
ROWS = [(key, f"name {key}") for key in range(8)]
"""The rows of the table before any is inserted."""


def make_table() -> None:
    TABLE.clear()
    LOG.clear()
    TABLE.update(dict.fromkeys(range(8), -1))


def insert() -> None:
    """Insert three rows."""
    for _ in range(3):
        key = len(TABLE)
        TABLE[key] = len(LOG)
        LOG.append(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Keys of the table, or positions of the log, from ``low`` to before ``high``.

    Attributes:
        mark: the length of the log when the snapshot began; rows that were inserted later are in the log.
        note: for sources that note something.
    """

    split_id: str
    low: int
    high: int | None = None
    mark: int = 0
    note: str = ""

    @property
    def is_log(self) -> bool:
        return self.split_id.startswith("log")


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What is left to assign, and the length of the log up to which it was looked at."""

    waiting: list[Part]
    seen: int


class TableThenWindows(SplitEnumerator[Part]):
    """Assigns chunks of the table, and windows of the log, at which it looks on a thread."""

    def __init__(self, context: Any, options: Options, state: Steps | None = None) -> None:
        super().__init__(context, options, state)
        self.is_new = state is None
        self.waiting = [] if state is None else list(state.waiting)
        self.seen = 0 if state is None else state.seen

    def start(self) -> None:
        if self.is_new:
            self.seen = len(LOG)
            lows = range(0, len(TABLE), CHUNK)
            self.waiting = [
                Part(split_id=f"keys from {low}", low=low, high=high, mark=self.seen)
                for low, high in zip(lows, [*lows[1:], None], strict=True)
            ]
        self.follow()

    def follow(self) -> None:
        self.context.call_async(self.look, self.looked, period_s=1.0)

    def look(self) -> int:
        return len(LOG)

    def looked(self, end: int | None, error: BaseException | None) -> None:
        assert end is not None, error
        self.waiting += [Part(split_id=f"log at {at}", low=at, high=at + 1) for at in range(self.seen, end)]
        self.seen = end

    def handle_split_request(self, subtask_id: int) -> None:
        if self.waiting:
            self.context.assign_split(self.waiting.pop(0))

    def add_splits_back(self, splits: Sequence[Part], subtask_id: int) -> None:
        self.waiting = [*splits, *self.waiting]

    def snapshot_state(self, checkpoint_id: int) -> Steps:
        return Steps(waiting=list(self.waiting), seen=self.seen)


class TableThenLog(TableThenWindows):
    """Assigns a chunk of the table in each batch, then one split for the log, which never ends."""

    at_work = False

    def follow(self) -> None:
        if self.is_new:
            self.waiting.append(Part(split_id="log", low=self.seen))

    def handle_split_request(self, subtask_id: int) -> None:
        if not self.at_work or self.context.reads_once:
            self.at_work = bool(self.waiting)
            super().handle_split_request(subtask_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.at_work = False

    def bound_split(self, split: Part, budget: Budget) -> BoundedRange[Part] | None:
        if not split.is_log:
            return BoundedRange(read=split, rest=None)
        end = len(LOG) if budget.rows is None else min(len(LOG), split.low + budget.rows)
        if end <= split.low:
            return None
        return BoundedRange(read=replace(split, high=end), rest=replace(split, low=end))


class TableReader(SplitReader[Part]):
    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return pa.schema({"key": pa.int64(), "name": pa.string()})

    def read(self, split: Part) -> Iterator[tuple[int, str]]:
        for key in self.keys(split):
            yield key, f"name {key}"

    def keys(self, split: Part) -> list[int]:
        if split.is_log:
            return LOG[split.low : split.high]
        return [key for key, at in TABLE.items() if self.is_inside(split, key) and at < split.mark]

    def is_inside(self, split: Part, key: int) -> bool:
        return split.low <= key and (split.high is None or key < split.high)
