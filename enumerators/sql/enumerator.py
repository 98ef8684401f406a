"""The sql enumerator: ranges of cursors of a table or query, found by polling.

What lives here: the rounds of discovery. A round ends at a cursor below which no more rows are expected
(option lag; on PostgreSQL :mod:`.open_transactions`), and cuts the rows up to there into ranges.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.enumerator_context import Boundedness, SplitEnumeratorContext
from flip27_source.enumerators.sql import options as opts
from flip27_source.enumerators.sql.check import FUTURE, findings
from flip27_source.enumerators.sql.database import DatabaseFailure
from flip27_source.enumerators.sql.lag import ahead_of, is_time, newest_allowed
from flip27_source.enumerators.sql.log_position import cluster_of, log_position
from flip27_source.enumerators.sql.open_transactions import Waiting, settled, writers_of
from flip27_source.enumerators.sql.split import Cursor, SqlPosition, SqlSplit
from flip27_source.enumerators.sql.table import BrokenConnection, CursorTable, PolledTable, check_driver
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.log import LOG
from flip27_source.options import Option, Options
from flip27_source.source_checks import ChecksBeforeStart, ChecksSource, Finding
from flip27_source.source_options import (
    MAX_BYTES_PER_TRIGGER,
    MAX_PARTITION_BYTES,
    MAX_ROWS_PER_TRIGGER,
    TIME_ZONE,
)
from flip27_source.time_zones import java_zone

_CUTS_AT_ONCE = 64
_MOST_SPLITS = 128
"""The most ranges of one round, so that the first batch need not wait for all cuts. A bounded run has only
one round, and no such limit."""
_PAUSE_S = 0.2
_LONGEST_ID = 200


class SqlEnumerator(ChecksSource, ChecksBeforeStart, DiscoveringEnumerator[SqlSplit]):
    """Polls a table or query by columns that grow."""

    options: ClassVar[tuple[Option[Any], ...]] = opts.ENUMERATOR_OPTIONS
    default_reader: ClassVar[str | None] = "sql"

    def __init__(
        self, context: SplitEnumeratorContext[SqlSplit], options: Options, state: Any = None
    ) -> None:
        super().__init__(context, options, state)
        self._waiting: Waiting | None = None  # used by discover only
        self._has_warned = False
        self._has_seen_lowest = False
        self._table = PolledTable(options)
        self._is_start_stored = state is not None
        self._stored_behind = _behind(self._position)

    @classmethod
    def check_before_start(cls, options: Options) -> None:
        """Check the options and the driver; the database may be down for a moment."""
        opts.check_sql_options(options)
        check_driver(options[opts.DRIVER])

    @classmethod
    def check_source(cls, options: Options) -> Iterator[Finding]:
        return findings(options, cls._check_kinds)

    @classmethod
    def left_at_end(cls, options: Options) -> tuple[str, str] | None:
        if options[opts.LAG] == 0:
            return None
        return (
            "rows whose time is less than its lag ago are left for a later run (10 seconds by default)",
            "set its lag to 0s, and read it when no transaction is open",
        )

    def start(self) -> None:
        opts.check_sql_options(self.options_given)
        super().start()

    def wants_checkpoint(self) -> bool:
        """Whether a restart would forget the start ``latest``, or how many rows are below the position."""
        position: SqlPosition | None = self._position
        if _behind(position) != self._stored_behind:
            return True
        return (
            not self._is_start_stored and opts.starts_at_latest(self.options_given) and position is not None
        )

    def snapshot_state(self, checkpoint_id: int) -> Any:
        self._stored_behind = _behind(self._position)
        self._is_start_stored = self._is_start_stored or self._position is not None
        return super().snapshot_state(checkpoint_id)

    def discover(self, position: SqlPosition | None) -> Discovery[SqlSplit, SqlPosition | None]:
        """The ranges up to the newest cursor that is safe to read."""
        try:
            with self._table.opened() as table:
                return self._round(table, position)
        except BrokenConnection:
            # Perhaps the server was restarted. If a new connection fails too, its error is reported.
            return self.discover(position)
        except DatabaseFailure as failure:
            raise DiscoveryError(failure.what, remedy=failure.remedy) from None

    def close(self) -> None:
        self._table.end()

    def _round(
        self, table: CursorTable, before: SqlPosition | None
    ) -> Discovery[SqlSplit, SqlPosition | None]:
        if self.options_given[opts.ON_NULL_CURSOR] == "ignore":
            self.context.metrics.gauge("nullCursorRows", table.null_rows())
        else:
            table.check_nulls()
        newest = table.newest()
        table.check_newest(newest)
        self._check_kind(table, None if before is None else before.done, newest)
        if before is None and opts.starts_at_latest(self.options_given):
            start = self._safe(table, newest)
            if start is None and self._waiting is not None:
                return Discovery((), None)  # an open transaction may still commit a row before the start
            return Discovery((), SqlPosition(done=start, newest=newest))
        position = before or SqlPosition()
        done = position.done
        if newest == position.newest and newest == done:
            self._waiting = None
            return Discovery((), position)
        rows_behind, lost = self._rows_behind(table, position, newest)
        upto = self._safe(table, newest)
        row_bytes = position.row_bytes
        splits: list[SqlSplit] = []
        if upto is not None and upto != done and rows_behind is None:
            row_bytes = row_bytes or table.row_bytes(done, upto)
            splits = list(self._splits(table, done, upto, row_bytes))
            seen_at, cluster = log_position(table.database), cluster_of(table.database)
            splits = [replace(split, log_position=seen_at, cluster=cluster) for split in splits]
        if lost is not None:
            # Last: a round that fails is retried, maybe with more rows. The number tells equal losses apart.
            self.context.report_data_loss(
                f"{lost} (loss {position.losses + 1})",
                remedy="if the table was emptied or restored, read it in a new query",
            )
        reached = replace(
            position,
            done=splits[-1].upto if splits else done,
            newest=newest,
            rows_behind=rows_behind,
            row_bytes=row_bytes,
            losses=position.losses + (lost is not None),
        )
        return Discovery(splits, reached)

    def _check_kind(self, table: CursorTable, done: Cursor | None, newest: Cursor | None) -> None:
        """Refuse a greatest cursor of another kind, such as a text that is no time: it hides later rows."""
        if newest is None or self.context.reads_once:
            return
        _check_types(table, done, newest)
        lowest = None if self._has_seen_lowest and done is not None else table.lowest()
        self._has_seen_lowest = True
        self._check_kinds(table, self.options_given, done, lowest, newest)

    @staticmethod
    def _check_kinds(
        table: CursorTable, options: Options, done: Cursor | None, lowest: Cursor | None, newest: Cursor
    ) -> None:
        # Only SQLite has values of several types in a column.
        is_typed = table.database.dialect.has_types
        if done is None and not is_typed and lowest is not None and lowest.types[0] != newest.types[0]:
            raise _other_kind(table, lowest, newest, f"{lowest.types[0]} and {newest.types[0]}")
        if options[opts.LAG] is not None or is_time(table.plain(newest), newest.types[0]):
            return
        for cursor in (done, lowest):
            if cursor is not None and is_time(table.plain(cursor), cursor.types[0]):
                raise _other_kind(
                    table, cursor, newest, "a time and another text", "; if they are not times, set lag=0s"
                )

    def _splits(
        self, table: CursorTable, after: Cursor | None, upto: Cursor, row_bytes: int
    ) -> Iterator[SqlSplit]:
        step = self._rows_of_a_range(row_bytes)
        most = None if self._is_bounded else _MOST_SPLITS
        count = 0
        while most is None or count < most:
            cuts = table.cuts(after, upto, rows=step, most=_CUTS_AT_ONCE)
            for cut in cuts:
                yield _split(after, cut, step, row_bytes)
                after = cut
                count += 1
            if not cuts:
                rows = table.count(after, upto)
                if rows:
                    yield _split(after, upto, rows, row_bytes)
                return

    def _rows_of_a_range(self, row_bytes: int) -> int:
        """The rows of a full range, so that a batch can be filled up to its limit."""
        options = self.options_given
        step = min(options[opts.PARTITION_ROWS], max(1, options[MAX_PARTITION_BYTES] // row_bytes))
        rows, size = options[MAX_ROWS_PER_TRIGGER], options[MAX_BYTES_PER_TRIGGER]
        if rows is not None:
            step = rows // _parts(rows, step)
        if size is not None:
            # A batch ends with the range that reaches the limit on bytes.
            enough = _parts(size, row_bytes)
            step = _parts(enough, _parts(enough, step))
        return step

    def _safe(self, table: CursorTable, newest: Cursor | None) -> Cursor | None:
        """The greatest cursor that is old enough, and below which no open transaction can commit."""
        if self.context.reads_once:
            return newest  # there is no later run that could miss a row
        allowed = self._old_enough(table, newest)
        options = self.options_given
        if table.database.dialect.name != "postgresql" or not options[opts.WAIT_FOR_TRANSACTIONS]:
            return allowed
        deadline = time.monotonic() + options[opts.TRANSACTION_TIMEOUT]
        while True:
            writers = writers_of(table.database, options[opts.TABLE])
            safe, self._waiting = settled(self._waiting, allowed, writers)
            waiting = self._waiting
            processes = {} if waiting is None else waiting.writers
            self.context.metrics.gauge("openTransactions", len(processes))
            if safe is not None or waiting is None or not self._is_bounded:
                return safe
            if time.monotonic() > deadline:
                named = ", ".join(sorted(set(processes.values())))
                raise DiscoveryError(
                    f"writing transactions have been open for {options[opts.TRANSACTION_TIMEOUT]:g} seconds, "
                    f"and rows of {table.name} wait for them (processes {named})",
                    remedy="end these transactions (pg_stat_activity, pg_prepared_xacts), or set a longer "
                    "transactionTimeout",
                )
            time.sleep(_PAUSE_S)

    def _old_enough(self, table: CursorTable, newest: Cursor | None) -> Cursor | None:
        if newest is None:
            return None
        kind = newest.types[0]
        zone, now = java_zone(self.options_given[TIME_ZONE] or "UTC"), table.now()
        try:
            allowed = newest_allowed(
                table.plain(newest), kind, now=now, lag_s=self.options_given[opts.LAG], zone=zone
            )
        except ValueError as error:
            raise OptionError(
                f"option lag is set, but the first cursor column is not a time: {error}",
                remedy="remove lag, or begin cursorColumns with a column of times",
            ) from None
        if allowed is None:
            return newest
        self._warn_of_the_future(table, newest, now, zone)
        return table.newest(not_after=table.given(allowed, kind))

    def _warn_of_the_future(
        self, table: CursorTable, newest: Cursor, now: dt.datetime, zone: dt.tzinfo
    ) -> None:
        """Warn once in a run that rows wait for a time in the future, often because of a wrong time zone."""
        ahead = ahead_of(table.plain(newest), now, zone)
        if ahead > FUTURE and not self._has_warned:
            self._has_warned = True
            LOG.warning(
                "%s has a row with the cursor %s, %s ahead of the clock; it waits until then. Times without "
                "a zone are taken as times in %s: option timeZone",
                table.name, newest, ahead, zone,
            )  # fmt: skip

    def _rows_behind(
        self, table: CursorTable, position: SqlPosition, newest: Cursor | None
    ) -> tuple[int | None, str | None]:
        """The number of rows, if all are below the position; and what is lost if rows have appeared there."""
        done, lost = position.done, None
        if done is None:
            return None, None
        is_behind = newest is None or not table.reaches(done)
        if position.rows_behind is None and not is_behind:
            return None, None
        rows = table.count(None, done)
        if position.rows_behind is None:
            LOG.warning(
                "%s no longer has a row at or above the cursor %s, up to which it was read; rows that appear "
                "below it will be reported as a data loss",
                table.name,
                done,
            )
        # Rows that are deleted in the meantime make up in the number for rows that appear, but not above
        # the newest one of before.
        elif rows > position.rows_behind or (rows and table.count(position.newest, done)):
            lost = (
                f"rows of {table.name} have appeared at or below the cursor {done}, up to which it was "
                f"already read: the cursor columns went back; {rows} rows are there, "
                f"and {position.rows_behind} were"
            )
        return rows if is_behind else None, lost

    @property
    def _is_bounded(self) -> bool:
        return self.context.boundedness is Boundedness.BOUNDED


def _behind(position: SqlPosition | None) -> tuple[int, Cursor | None] | None:
    """What later polls compare with while all rows are below the position."""
    if position is None or position.rows_behind is None:
        return None
    return position.rows_behind, position.newest


def _parts(whole: int, part: int) -> int:
    """The number of parts of this size that cover the whole."""
    return -(-whole // part)


def _split(after: Cursor | None, upto: Cursor, rows: int, row_bytes: int) -> SqlSplit:
    return SqlSplit(split_id=_id_of(after), after=after, upto=upto, rows=rows, bytes=rows * row_bytes)


def _id_of(after: Cursor | None) -> str:
    if after is None:
        return "from the start"
    name = f"after {after}"
    # A comma and a blank in a value could also be those between two values.
    is_unique = len(after.values) == 1 or not any(", " in value for value in after.values)
    if is_unique and len(name) <= _LONGEST_ID:
        return name
    return f"{name[:_LONGEST_ID]}... {hashlib.sha256(repr(after.values).encode()).hexdigest()[:32]}"


def _other_kind(
    table: CursorTable, lower: Cursor, newest: Cursor, kinds: str, more: str = ""
) -> DiscoveryError:
    return DiscoveryError(
        f"{table.name} has rows with the cursors {lower} and {newest}: {kinds}. Later rows like the first "
        "one would be below the position, and never be read",
        remedy=f"correct the row with {newest}, or leave such rows out with option query{more}",
    )


def _check_types(table: CursorTable, done: Cursor | None, newest: Cursor | None) -> None:
    if done is not None and newest is not None and done.types != newest.types:
        raise DiscoveryError(
            f"the cursor columns of {table.name} have the types {', '.join(newest.types)}; they had "
            f"{', '.join(done.types)} when {done} was read",
            remedy="positions of another type cannot be compared: restore the types, or option driver if it "
            "has changed, because drivers name some types differently; or start a new query with a "
            "startingCursor",
        )
