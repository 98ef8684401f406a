"""A correct source of the changes of a table: the snapshot gives what is there now, the log all changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from flip27_source.enumerator import BoundedRange, Budget
from flip27_source.options import Options
from flip27_source.reader import SplitReader
from tests.testing import table_and_log
from tests.testing.table_and_log import LOG, TABLE, Part, TableThenLog

VALUES: dict[int, int] = {}
"""The rows that the table has now."""
LOGGED: list[int | None] = []
"""For each position of the log the new value of the key; None: the row was deleted."""
KEPT_FROM = [0]
"""The first position that the log still has."""


def make_table() -> None:
    table_and_log.make_table()
    LOGGED.clear()
    KEPT_FROM[:] = [0]
    VALUES.clear()
    VALUES.update(dict.fromkeys(TABLE, 0))


def change() -> None:
    """Update a row of the first chunk and one of the last; sometimes insert, delete, and bring one back."""
    number = len(LOG) + 1
    write(0, number)
    write(7, number)
    if number % 4 == 3:
        write(4, None if 4 in VALUES else number)
        for key in [key for key in VALUES if key > 100]:
            write(key, None)
        write(100 + number, number)


def write(key: int, value: int | None) -> None:
    LOG.append(key)
    LOGGED.append(value)
    if value is None:
        del VALUES[key]
    else:
        VALUES[key] = value


def lose() -> None:
    """The log is cut off at its present end."""
    KEPT_FROM[:] = [len(LOG)]


def key_of(row: tuple[Any, ...]) -> int:
    return int(row[0])


def replay(rows: Sequence[tuple[Any, ...]]) -> Mapping[int, int]:
    """The newest value of each key that is not deleted."""
    newest: dict[int, tuple[int, int | None]] = {}
    for key, value, position in rows:
        newest[key] = max(newest.get(key, (-1, None)), (position, value), key=lambda known: known[0])
    return {key: value for key, (_, value) in sorted(newest.items()) if value is not None}


def replay_in_order(rows: Sequence[tuple[Any, ...]]) -> Mapping[int, int]:
    """The value of each key that came last, if it is not deleted."""
    last = {key: value for key, value, _ in rows}
    return {key: value for key, value in sorted(last.items()) if value is not None}


class FollowsChanges(TableThenLog):
    def bound_split(self, split: Part, budget: Budget) -> BoundedRange[Part] | None:
        if split.is_log and split.low < KEPT_FROM[0]:
            self.context.report_data_loss(f"the log begins at {KEPT_FROM[0]}", split_id=split.split_id)
        return super().bound_split(split, budget)


class ChangeReader(SplitReader[Part]):
    repeatable = False

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return pa.schema({"key": pa.int64(), "value": pa.int64(), "position": pa.int64()})

    def read(self, split: Part) -> Iterator[Any]:
        if split.is_log:
            for at in range(split.low, split.high or 0):
                yield LOG[at], LOGGED[at], 2 * at + 1
        else:
            # One line: the rows, and the position at which they were so.
            rows, position = list(VALUES.items()), 2 * len(LOG)
            for key, value in rows:
                if split.low <= key and (split.high is None or key < split.high):
                    yield key, value, position
