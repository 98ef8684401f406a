"""The splits of the mysql source, and the events that its readers send about them. Pure values.

A position is a number: that of the log's file, times 2**32, plus the position in the file; and for each
failover of the query 2**55 more, because positions in the log of another server mean something else. A window
of the log has the transactions that begin at ``first`` or later, and before ``end``.

A GTID is a global transaction id such as ``0-1-42``: domain, server and number. A position by GTIDs has the
last one of each domain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from flip27_source.enumerators.mysql.table_patterns import quoted
from flip27_source.enumerators.table_patterns import TablePattern
from flip27_source.enumerators.tables_with_log.split import ChunkOrLog, KeyRange
from flip27_source.errors import DiscoveryError
from flip27_source.events import SourceEvent
from flip27_source.snapshot_then_log.tables import Key, TableProgress, TablesState

FIRST_IN_FILE = 4
"""The position of the first event of each file."""

_FILE_BITS = 23
_FAILOVER_SHIFT = 32 + _FILE_BITS
MOST_FAILOVERS = (1 << 63 - _FAILOVER_SHIFT) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """A table, which the log knows by its name. Its text has names with a dot or a backquote quoted."""

    schema: str
    name: str

    @property
    def table_id(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return ".".join(quoted(one) if {*one} & {*".`"} else one for one in (self.schema, self.name))


Progress = TableProgress[TableName, str]
Tables = TablesState[TableName, Progress]
Prepared = tuple[tuple[str, tuple[TableName, ...]], ...]
"""The XA transactions that are neither committed nor rolled back, with the tables that they have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChunk(KeyRange[TableName, str]):
    """A chunk of a table, which is cut by integers.

    Attributes:
        barrier: the snapshot of the chunk has everything before this position; 0 if no log is read.
        server: the identity of the server to which positions belong; None if no log is read.
    """

    barrier: int
    server: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """Which changes of a table are delivered, by ranges of its key.

    Attributes:
        bounds: the keys where one range ends and the next begins, ascending.
        marks: for each range, the position of the snapshot in which it was read, as text: changes before it
            are dropped. None if the range is not read yet: then all are dropped.
    """

    table: TableName
    key: tuple[str, ...]
    bounds: tuple[Key, ...]
    marks: tuple[str | None, ...]

    @classmethod
    def of(cls, progress: Progress) -> Self:
        bounds, marks = progress.ranges()
        return cls(table=progress.table, key=progress.key, bounds=bounds, marks=marks)

    def chunks_have(self, position: int) -> set[bool]:
        """Of the chunks, whether they have what is at a position; one that is not read yet will have it."""
        return {mark is None or int(mark) > position for mark in self.marks}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWindow:
    """A part of the log: the transactions that begin in ``[first, end)``; without ``end``, all later ones.

    Attributes:
        log: the name of the log's files, without their numbers.
        server: the identity of the server that has the log.
        file_began, skips, prepared: see MysqlState.
        rules: the rules of the tables whose snapshot is still needed.
        known: the names of the tables of which every change is delivered.
        named: without a snapshot, the option ``tables``: changes of a new table are in the log before the
            table is found.
    """

    first: int
    end: int | None = None
    log: str | None = None
    server: str | None = None
    file_began: int | None = None
    skips: tuple[str, ...] = ()
    prepared: Prepared = ()
    rules: tuple[TableRules, ...] = ()
    known: tuple[TableName, ...] = ()
    named: tuple[TablePattern, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlSplit(ChunkOrLog):
    """A chunk of a table, or the log: exactly one of ``chunk`` and ``log`` is set.

    Attributes:
        split_id: ``log``, or ``shop.orders/17``: the table and the number of the chunk.
        rows: the rows in the chunk when it was cut; None for the log, and if they are not known.
    """

    split_id: str
    chunk: TableChunk | None = None
    log: LogWindow | None = None
    rows: int | None = None

    @classmethod
    def of_chunk(cls, progress: Progress, number: int, barrier: int) -> Self:
        """A chunk, to be read in a snapshot that has everything before the barrier."""
        chunk = TableChunk.of(progress, number, barrier=barrier)
        return cls(split_id=progress.split_id(number), chunk=chunk, rows=progress.rows[number])


@dataclass(frozen=True, slots=True)
class ChunkRead(SourceEvent):
    """A chunk was read to its end, in a snapshot at this position.

    Attributes:
        gtids: the snapshot has no transaction after these; empty if no log is read.
    """

    split_id: str
    position: int
    gtids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogRead(SourceEvent):
    """A window of the log was read to its end.

    Attributes:
        end: where the next transaction begins: at the end of the window or after it. If it is ``first``,
            nothing was read, because another server has answered.
        emptied: the tables with a TRUNCATE that some chunks have and others do not.
        gtids: the GTIDs before ``end`` of the domains that the window has; of several in one the last counts.
        file_began, prepared: see MysqlState, for ``end``.
    """

    first: int
    end: int
    emptied: tuple[TableName, ...] = ()
    gtids: tuple[str, ...] = ()
    file_began: int | None = None
    prepared: Prepared = ()


def position_of(file: str, offset: int, *, failovers: int = 0) -> int:
    """The position in a file of the log, such as ``binlog.000017``, after so many failovers."""
    number = int(file.rpartition(".")[2])
    if number >> _FILE_BITS or offset >> 32 or failovers > MOST_FAILOVERS:
        raise DiscoveryError(
            f"byte {offset} of file {file} of the log has no position after {failovers} failovers: files are "
            f"counted to {(1 << _FILE_BITS) - 1}, bytes to {2**32 - 1}, and failovers to {MOST_FAILOVERS}",
            remedy="start a query with a new stateLocation, whose snapshot has all rows; if the file's "
            "number is too high, first RESET MASTER, which numbers files anew",
        )
    return failovers << _FAILOVER_SHIFT | number << 32 | offset


def failovers_of(position: int) -> int:
    """After how many failovers of the query a position was read."""
    return position >> _FAILOVER_SHIFT


def file_and_offset(log: str, position: int) -> tuple[str, int]:
    return f"{log}.{_file(position):06}", position & 0xFFFFFFFF


def position_text(position: int) -> str:
    """A position for messages and options: the number of the file, and the position in it."""
    failovers = failovers_of(position)
    return f"{_file(position):06}:{position & 0xFFFFFFFF}" + (f" (failover {failovers})" if failovers else "")


def _file(position: int) -> int:
    return position >> 32 & (1 << _FILE_BITS) - 1


def by_domain(gtids: Iterable[str]) -> dict[str, str]:
    """GTIDs by their domains; of several in a domain the last one."""
    return {gtid.partition("-")[0]: gtid for gtid in gtids}


def parse_gtids(text: str | None) -> tuple[str, ...]:
    """The GTIDs in a list such as ``0-1-42,5-1-7``."""
    return tuple(filter(None, map(str.strip, (text or "").split(","))))


def parse_position(text: str) -> int:
    """The position in ``binlog.000017:1234`` or ``000017:1234``."""
    file, colon, offset = text.strip().rpartition(":")
    number = file.rpartition(".")[2]
    if not colon or not number.isdecimal() or not offset.isdecimal() or int(offset) >= 1 << 32:
        raise ValueError(f"a position such as binlog.000017:1234 is expected, not {text[:60]!r}")
    return int(number) << 32 | max(FIRST_IN_FILE, int(offset))
