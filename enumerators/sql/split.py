"""Ranges of cursors: the splits, and the position of discovery. Pure: no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from flip27_source.split import SplitSize

MAX_COLUMNS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The values of a row's cursor columns.

    Attributes:
        values: as text, in the form from which the dialect makes SQL literals again.
        types: the types of the columns, as Arrow names them.
    """

    values: tuple[str, ...]
    types: tuple[str, ...]

    def __str__(self) -> str:
        return f"({', '.join(self.values)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSplit:
    """The rows whose cursors are greater than ``after`` and not greater than ``upto``.

    Attributes:
        split_id: made from ``after``, because ranges never overlap.
        after: None for the first range, which starts at startingCursor.
        rows: number of rows when the range was found.
        bytes: an estimate from the size of the rows that were found first.
        log_position: of PostgreSQL's log, in bytes; a standby that has replayed less may lack rows.
        cluster: whose log that is; the database may be moved to another one.
    """

    split_id: str
    after: Cursor | None
    upto: Cursor
    rows: int
    bytes: int
    log_position: int | None = None
    cluster: str | None = None

    @property
    def size(self) -> SplitSize:
        return SplitSize(files=0, rows=self.rows, bytes=self.bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlPosition:
    """The position of discovery.

    Attributes:
        done: the end of the last range that was found; None if there was no row yet.
        newest: the greatest cursor in the table at the last round; None if the table was empty.
        rows_behind: the number of rows, if all are below ``done`` because others were deleted.
        row_bytes: size of a row as Arrow data, from the first rows.
        losses: how many times rows have appeared below ``done``.
    """

    done: Cursor | None = None
    newest: Cursor | None = None
    rows_behind: int | None = None
    row_bytes: int | None = None
    losses: int = 0
