"""The splits of the postgres source, and the events that its readers send about them. Pure values.

Positions in the log are LSNs as numbers of bytes (``0/16B3748`` is 23,803,720). A window of the log has the
transactions whose commit record begins at ``first`` or later, and before ``end``.
"""

from __future__ import annotations

from dataclasses import dataclass

from flip27_source.enumerators.postgres.chunk_transactions import RowRule
from flip27_source.enumerators.tables_with_log.split import ChunkOrLog, KeyRange
from flip27_source.events import SourceEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumn:
    """A column by which a table is cut into chunks.

    Attributes:
        type: the type as SQL names it, without a length, for casts from text: ``character varying``; of a
            domain its base type. The name of a type with an oid is valid in the session that has found it.
        collation: the collation as SQL names it, if the column has one.
        labels: the values of its enum, if it has one: the number that a value always keeps, and its text.
        type_oid: the number of a type that is not one of PostgreSQL's own; None in an older release's state.
    """

    name: str
    type: str
    collation: str | None = None
    labels: dict[str, str] | None = None
    type_oid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """A table.

    Attributes:
        oid: the number of the table in its database, which changes if the table is recreated.
    """

    oid: int
    schema: str
    name: str

    @property
    def table_id(self) -> int:
        return self.oid

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChunk(KeyRange[TableName, KeyColumn]):
    """A chunk of a table.

    Attributes:
        lsn: position in the log: every event of these rows that is delivered commits there or later.
        horizon: the snapshot of the chunk has to see every transaction up to and including this id.
        exported: the exported snapshot in which the chunk is read, in a batch read.
    """

    lsn: int
    horizon: int
    exported: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """Which events of a table are delivered, by ranges of its key.

    Attributes:
        bounds: the keys, as text and ascending, where one range ends and the next begins.
        rules: the rule of each range: one more than there are bounds.
    """

    table: TableName
    key: tuple[KeyColumn, ...]
    bounds: tuple[tuple[str, ...], ...]
    rules: tuple[RowRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKeys:
    """The keys that a table has had, as names of columns, the newest first."""

    oid: int
    keys: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A transaction with changes: the position of its commit, and its time in microseconds since 1970 UTC."""

    lsn: int
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWindow:
    """A part of the log: the transactions that commit in ``[first, end)``; without ``end``, all later ones.

    Attributes:
        rules: the rules of the tables whose snapshot is still needed.
        slot, publication: those by which the window is read; set with ``end``.
        system: the identifier of the server that has the window; None in a window of an older version.
        known: the oids of the tables of which every event is delivered. Events of a table that is neither
            here nor in ``rules`` are dropped: its snapshot comes later and has them. None in a window of an
            older version without a snapshot, which knows tables by their names alone.
        also_by_name: whether the events of other tables are delivered if the option ``tables`` has the name
            in the log: without a snapshot, a new table's events are in the log before its oid is known. None
            instead of false, which ``flip27 state splits`` would show.
        keys: those of tables whose log does not have them (REPLICA IDENTITY FULL or NOTHING), if any.
        after: the last transaction with changes before the window; None if it is not known.
    """

    first: int
    end: int | None = None
    rules: tuple[TableRules, ...] = ()
    known: tuple[int, ...] | None = None
    slot: str | None = None
    publication: str | None = None
    system: str | None = None
    also_by_name: bool | None = None
    keys: tuple[TableKeys, ...] | None = None
    after: Committed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSplit(ChunkOrLog):
    """A chunk of a table, or the log: exactly one of ``chunk`` and ``log`` is set.

    Attributes:
        split_id: ``log``, or ``public.orders/16384/17``: the table, its oid and the number of the chunk.
        rows: the number of rows in the chunk when it was cut; None for the log.
        lag_bytes, lag_s: for the log, how far it was behind when this position was planned; only for display.
    """

    split_id: str
    chunk: TableChunk | None = None
    log: LogWindow | None = None
    rows: int | None = None
    lag_bytes: int | None = None
    lag_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChunkRead(SourceEvent):
    """A chunk was read to its end.

    Attributes:
        snapshot: the value of ``pg_current_snapshot()`` in the transaction that read it.
        end: a position in the log after the snapshot; 0 in a report of an older release.
        timeline: the number of the server's timeline, which has this position.
    """

    split_id: str
    snapshot: str
    rows: int
    end: int = 0
    timeline: int = 0


@dataclass(frozen=True, slots=True)
class LogRead(SourceEvent):
    """A window of the log was read to its end.

    Attributes:
        truncated: the oids of tables with a TRUNCATE that some chunks saw and others did not.
        committed_at: when the last change in the window was committed, in microseconds since 1970 UTC.
        last: the last transaction in the window that has changes; None if there is none.
    """

    first: int
    end: int
    rows: int
    truncated: tuple[int, ...] = ()
    committed_at: int | None = None
    last: Committed | None = None


@dataclass(frozen=True, slots=True)
class TableLeftOut(SourceEvent):
    """A chunk of the table with this oid was not read: the option ``tables`` no longer names the table."""

    oid: int


def lsn_text(lsn: int) -> str:
    """The LSN as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """The LSN that PostgreSQL writes as ``16/B374D848``."""
    high, slash, low = text.strip().partition("/")
    try:
        numbers = int(high, 16), int(low, 16)
    except ValueError:
        numbers = (-1, -1)
    if not slash or not all(0 <= number < 1 << 32 for number in numbers):
        raise ValueError(f"an LSN such as 16/B374D848 is expected, not {text[:40]!r}")
    return numbers[0] << 32 | numbers[1]
