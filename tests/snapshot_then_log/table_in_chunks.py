"""A table with its log, and a query that reads both by the rules of the assigner, in one process.

A transaction is in the log before snapshots see it, as in MariaDB. Positions are ten times the number of the
transactions before them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from flip27_source.snapshot_then_log import delivery
from flip27_source.snapshot_then_log.assigner import PositionAssigner
from flip27_source.snapshot_then_log.tables import Cut, Key, TableProgress, TablesState

BOUNDS: tuple[int, ...] = (5, 10)
STEP = 10

Change = tuple[int, str, int, int | None]
"""Position, operation (r, c, u, d, or t for an emptying), key and value."""


@dataclass(frozen=True, slots=True)
class Table:
    name: str = "orders"

    @property
    def table_id(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name


Progress = TableProgress[Table, str]
State = TablesState[Table, Progress]


@dataclass
class Server:
    """The log of one table, from which the rows at each position follow.

    Attributes:
        visible: the number of transactions that snapshots see.
    """

    log: list[Change] = field(default_factory=list)
    visible: int = 0

    def write(self, key: int, value: int | None) -> None:
        """Insert or update a row, or delete it if the value is None and it is there."""
        rows = self.rows(len(self.log))
        if value is not None:
            self._add("u" if key in rows else "c", key, value)
        elif key in rows:
            self._add("d", key, None)

    def empty(self) -> None:
        self._add("t", -1, None)

    def _add(self, op: str, key: int, value: int | None) -> None:
        self.log.append((STEP * len(self.log), op, key, value))

    def rows(self, count: int) -> dict[int, int]:
        return copy_of(self.log[:count], is_exact=True)

    @property
    def end(self) -> int:
        """The position that a snapshot has now."""
        return STEP * self.visible

    @property
    def known_end(self) -> int:
        """The end of the log that a poll finds."""
        return self.end


def copy_of(changes: list[Change], *, is_exact: bool) -> dict[int, int]:
    """The rows after these changes; if they are exact, each must fit to those before it."""
    rows: dict[int, int] = {}
    for change in changes:
        _, op, key, value = change
        if is_exact and op in "rcud" and (key in rows) != (op in "ud"):
            raise AssertionError(f"{change} does not fit")
        if op == "t":
            rows.clear()
        elif value is None:
            rows.pop(key, None)
        else:
            rows[key] = value
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    split_id: str
    lower: Key | None
    upper: Key | None
    barrier: int

    def has(self, key: int) -> bool:
        return (self.lower is None or int(self.lower[0]) <= key) and (
            self.upper is None or key < int(self.upper[0])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of the log, with the rules of the table; without rules, all changes are delivered."""

    first: int
    end: int
    bounds: tuple[Key, ...]
    marks: tuple[str | None, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    state: State
    position: int
    live: tuple[Chunk, ...] = ()
    batch: tuple[Chunk | Window, ...] = ()


@dataclass
class Query:
    """A query in any order of its steps; a step that is not possible does nothing.

    Attributes:
        delivered: the changes of each batch that is complete.
        is_exact: false once rows have been read a second time, so that changes need not fit.
        windows_beside_chunks: how many windows were planned while chunks were missing.
    """

    server: Server
    rng: random.Random
    delivered: list[list[Change]] = field(default_factory=list)
    done: dict[int, tuple[list[Change], Callable[[], None]]] = field(default_factory=dict)
    is_exact: bool = True
    checks_barrier: bool = True
    windows_beside_chunks: int = 0
    stored: Checkpoint = field(init=False)

    def __post_init__(self) -> None:
        self.start_from(Checkpoint(state=TablesState(), position=0))
        self.assigner.add(TableProgress(table=Table(), key=("id",)))

    def start_from(self, checkpoint: Checkpoint) -> None:
        self.stored = checkpoint
        self.live, self.batch, self.done = list(checkpoint.live), checkpoint.batch, {}
        self.assigner: PositionAssigner[Table] = PositionAssigner(
            checkpoint.state,
            start=checkpoint.position,
            most_chunks=2,
            most_lag_bytes=self.rng.choice([0, 30, 100]),
        )

    def poll(self) -> None:
        self.assigner.log_ends_at(self.server.known_end)
        for progress in self.assigner.uncut:
            last = progress.last_bound
            left = [bound for bound in BOUNDS if last is None or bound > int(last[0])]
            some = left[: self.rng.randint(0, len(left))]
            bounds = tuple(((str(bound),), 5) for bound in some)
            is_end = len(some) == len(left)
            self.assigner.cut(Cut(table_id="orders", lower=last, bounds=bounds, is_end=is_end))

    def plan(self) -> None:
        if self.batch:
            return
        while (found := self.assigner.assign_next()) is not None:
            progress, number, barrier = found
            lower, upper = progress.range_of(number)
            split_id = progress.split_id(number)
            self.live.append(Chunk(split_id=split_id, lower=lower, upper=upper, barrier=barrier))
        first = self.assigner.position
        self.assigner.reads_up_to(first)
        end = self.assigner.window_end(first, self.rng.choice([None, 25]))
        planned: list[Chunk | Window] = [chunk for chunk in self.live if self.rng.random() < 0.7]
        self.live = [chunk for chunk in self.live if chunk not in planned]
        if end is not None:
            ranges = [progress.ranges() for progress in self.assigner.tables]
            bounds, marks = ranges[0] if ranges else ((), None)
            self.windows_beside_chunks += self.assigner.reads_chunks
            planned.append(Window(first=first, end=end, bounds=bounds, marks=marks))
        self.batch = tuple(planned)
        self.stored = Checkpoint(
            state=self.assigner.stored(), position=first, live=tuple(self.live), batch=self.batch
        )

    def read(self) -> None:
        missing = [number for number in range(len(self.batch)) if number not in self.done]
        if missing:
            number = self.rng.choice(missing)
            split = self.batch[number]
            self.done[number] = self._chunk(split) if isinstance(split, Chunk) else self._window(split)

    def _chunk(self, chunk: Chunk) -> tuple[list[Change], Callable[[], None]]:
        mark, rows = self.server.end, self.server.rows(self.server.visible)
        if self.checks_barrier and mark < chunk.barrier:
            raise AssertionError("the snapshot of a chunk is older than its barrier")
        self.is_exact &= "." not in chunk.split_id
        found: list[Change] = [(mark, "r", key, rows[key]) for key in sorted(rows) if chunk.has(key)]
        return found, lambda: self._mark(chunk.split_id, mark)

    def _mark(self, split_id: str, mark: int) -> None:
        self.assigner.mark(split_id, str(mark))

    def _window(self, window: Window) -> tuple[list[Change], Callable[[], None]]:
        changes = [change for change in self.server.log if window.first <= change[0] < window.end]
        found, again = changes, False
        if window.marks is not None and changes:
            positions = np.array([change[0] for change in changes])
            empties = np.array([change[1] == "t" for change in changes])
            bounds = [int(key[0]) for key in window.bounds]
            keys = np.array([change[2] for change in changes])
            has = [
                np.ones(len(changes), np.bool_) if mark is None else positions < int(mark)
                for mark in window.marks
            ]
            are = delivery.are_delivered(
                has, empties, lambda rows: np.searchsorted(bounds, keys[rows], side="right")
            )
            found = [change for change, is_delivered in zip(changes, are, strict=True) if is_delivered]
            again = bool(empties.any()) and delivery.is_emptied_between([one[empties] for one in has])
        return found, lambda: self._window_read(window, again=again)

    def _window_read(self, window: Window, *, again: bool) -> None:
        if again:
            self.assigner.read_again("orders")
        self.assigner.reads_up_to(window.end)

    def complete(self) -> None:
        if not self.batch or len(self.done) < len(self.batch):
            return
        self.delivered.append([change for changes, _ in self.done.values() for change in changes])
        facts = [fact for _, fact in self.done.values()]
        self.rng.shuffle(facts)
        for fact in facts:
            fact()
        self.batch, self.done = (), {}
        self.stored = replace(self.stored, batch=())

    def crash(self) -> None:
        """Continue from the last checkpoint; its batch is read again unless it was complete."""
        if self.batch:
            self.start_from(self.stored)

    @property
    def is_caught_up(self) -> bool:
        return not self.batch and not self.assigner.reads_chunks and self.assigner.position >= self.server.end
