"""Finds the changes of the tables in the events of a window of the log, transaction by transaction.

What must not live here: the images of rows, and which changes are delivered.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from flip27_source.enumerators.mysql.errors import START_AGAIN, AlteredKeyError, OtherLogError
from flip27_source.enumerators.mysql.event_blocks import COMPRESSED, GTID, PADDING, EventBlock, numbers_at
from flip27_source.enumerators.mysql.split import LogWindow, TableName, TableRules, by_domain, position_text
from flip27_source.enumerators.mysql.statements import LASTING, Statement, Writing
from flip27_source.errors import SplitReadError
from flip27_source.readers.changes.rows import Op
from flip27_source.readers.mysql.table_maps import TableMap, name_in, table_map
from flip27_source.readers.scalars.text_bytes import Bytes, Int64s

_QUERY, _XID, _EXECUTE_LOAD, _TABLE_MAP = 2, 16, 18, 19
_INCIDENT, _XA_PREPARE, _QUERY_COMPRESSED = 26, 38, 165
_STATEMENTS = (_QUERY, _EXECUTE_LOAD, _QUERY_COMPRESSED)
_LOAD_BYTES = 13
"""What LOAD DATA has before the variables of the session."""
OPS = np.zeros(256, np.uint8)
"""The operation of the rows of an event, by its kind; 0 for events without rows."""
OPS[[23, 30, 166, 169]], OPS[[24, 31, 167, 170]], OPS[[25, 32, 168, 171]] = Op.CREATE, Op.UPDATE, Op.DELETE
_SECOND_FORM = (30, 31, 32, 169, 170, 171)
_ROWS = frozenset(np.flatnonzero(OPS).tolist())
_UNKNOWN = (*range(39, 160), *range(172, 256))
"""Events of other servers, and of later versions: one may have rows, too."""
_IS_READ = OPS > 0
_IS_READ[[_TABLE_MAP, _INCIDENT, _XA_PREPARE, *_STATEMENTS, *_UNKNOWN]] = True
_FLAGS_AT = 12
_STANDALONE, _GROUP_COMMIT, _PREPARES_XA, _COMPLETES_XA = 1, 2, 64, 128
_STARTS_ALTER, _FAILS_TO_ALTER = 2 << 8, 8 << 8
_XA = _PREPARES_XA | _COMPLETES_XA
"""Flags of the GTID with which a transaction begins; those of a second byte are shifted."""


class Transaction(NamedTuple):
    """A transaction, or a statement that is none.

    Attributes:
        position: where it begins in the log.
        at_s: when it was committed, in seconds since 1970 UTC.
        flags: those of its GTID.
        xid: the id of the XA transaction that it prepares or completes, as SQL has it; empty for others.
    """

    position: int
    at_s: int
    gtid: str | None
    flags: int
    xid: str


_NONE = Transaction(0, 0, None, 0, "")


class Emptied(NamedTuple):
    """A TRUNCATE of a table."""

    table: TableName
    transaction: Transaction
    seq: int


class Part(NamedTuple):
    """The part of a block that is read: the events before ``stop``.

    Attributes:
        begins: the events with which transactions begin.
        transactions: these transactions; first the one, if any, that goes on from the block before.
    """

    block: EventBlock
    stop: int
    begins: Int64s
    transactions: Sequence[Transaction]
    writing: Writing

    def at(self, event: int) -> tuple[int, Transaction]:
        """The event with which the transaction of an event begins (-1: it is in another block), and it."""
        number = int(np.searchsorted(self.begins, event, "right"))
        return int(self.begins[number - 1]) if number else -1, self.transactions[number]

    def statement(self, event: int) -> Statement:
        body, kind = self.block.body(event), self.block.kinds[event]
        if kind == _EXECUTE_LOAD:
            body = body[:13] + body[13 + _LOAD_BYTES :]
        return Statement.read(body, self.writing, _decompressed if kind == _QUERY_COMPRESSED else bytes)

    def has_end(self) -> bool:
        """Whether the last transaction has ended."""
        begin = int(self.begins[-1]) if len(self.begins) else 0
        kinds = self.block.kinds[begin : self.stop]
        statements = begin + np.flatnonzero(np.isin(kinds, _STATEMENTS))
        return bool(np.isin(kinds, (_XID, _XA_PREPARE)).any()) or any(
            self.transactions[-1].flags & _STANDALONE or self.statement(event).ending
            for event in statements[::-1].tolist()
        )


class TableRows(NamedTuple):
    """Events of one table with the same columns, in the order of the log."""

    table: TableMap
    part: Part
    events: list[int]

    def images(self) -> tuple[Bytes, Int64s, Int64s]:
        """Some bytes, and where the images of the rows of each event begin and end in them.

        Raises:
            SplitReadError: the log has only some columns of the rows.
        """
        block, events, width = self.part.block, self.events, len(self.table.columns)
        kinds, data, stops = block.kinds[events], block.data, block.stops[events]
        starts = block.starts[events] + 8
        starts = starts + np.where(np.isin(kinds, _SECOND_FORM), numbers_at(data, starts, 2), 0)
        is_whole = data[starts] == width if width < 251 else numbers_at(data, starts + 1, 2) == width
        starts = starts + (1 if width < 251 else 3)
        bitmap = np.arange((width + 7) // 8)[:, None]
        for has in (kinds > 0, OPS[kinds] == Op.UPDATE):
            bits = np.unpackbits(data[starts + bitmap], axis=0, count=width, bitorder="little")
            is_whole &= bits.all(axis=0) | ~has
            starts = starts + len(bitmap) * has
        if not is_whole.all():
            raise SplitReadError(
                f"the log has only some columns of the rows of table {self.table.table}",
                remedy=f"SET GLOBAL binlog_row_image = FULL, and {START_AGAIN}",
            )
        is_compressed = np.isin(kinds, COMPRESSED)
        if not is_compressed.any():
            return data, starts, stops
        bodies = (block.raw[start:stop] for start, stop in zip(starts, stops, strict=True))
        images = [_decompressed(one) if it else one for it, one in zip(is_compressed, bodies, strict=True)]
        stops = np.cumsum(list(map(len, images)))
        return np.frombuffer(b"".join([*images, PADDING]), np.uint8), np.append(0, stops[:-1]), stops


@dataclass(slots=True, kw_only=True)
class WindowLog:
    """Reads the events of one window.

    Attributes:
        is_wanted: whether changes of a table are read.
        report_loss: called with a text for changes that the log does not have.
        rules: of the tables whose chunks are read.
        next_begins: where the next transaction begins, once all is read.
        files: when the server began each file that was read, by the number in its positions.
        prepared: by their xids, the XA transactions that are neither committed nor rolled back, with the
            tables that they have changed.
        last: the GTID of the last transaction of each domain.
    """

    window: LogWindow
    is_wanted: Callable[[TableName], bool]
    report_loss: Callable[[str], None]
    rules: Mapping[TableName, TableRules]
    writing: Writing
    next_begins: int = field(init=False)
    files: dict[int, int | None] = field(init=False)
    prepared: dict[str, tuple[TableName, ...]] = field(init=False)
    last: dict[str, str] = field(init=False, default_factory=dict)
    _until: int = field(init=False)
    _open: Transaction | None = field(init=False, default=None)
    _delivered_to: int = field(init=False, default=-1)
    _savepoints: dict[str, int] = field(init=False, default_factory=dict)
    _pending: dict[TableName, TableRows] = field(init=False, default_factory=dict)
    _described: dict[bytes, TableMap | None] = field(init=False, default_factory=dict)
    _present: dict[bytes, TableMap | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.next_begins, self._until = self.window.first, self.window.end or 0
        self.files = {self.window.first >> 32: self.window.file_began}
        self.prepared = dict(self.window.prepared)

    def changes(self, blocks: Iterable[EventBlock]) -> Iterator[TableRows | Emptied]:
        """The changes of the wanted tables; those of each table are in the order of the log."""
        for block in blocks:
            began = block.files_began()
            # The files must still be those that were read before.
            if any(self.files.setdefault(file, at_s) != at_s for file, at_s in began):
                raise OtherLogError(self.next_begins)
            if self._open is not None and block.ends[-1] < self.next_begins:
                raise SplitReadError(
                    f"file {position_text(self.next_begins)[:6]} of the log is larger than 4 GB",
                    remedy=f"it has no positions there: write in smaller transactions; {START_AGAIN}",
                )
            if self._open is not None and began:
                # A server that was killed while it wrote the transaction has not committed it.
                if self._delivered_to >= self._open.position:
                    raise SplitReadError(
                        f"the transaction at {position_text(self._open.position)} of the log has no end",
                        remedy=f"the server was killed while it wrote this large transaction; {START_AGAIN}",
                    )
                self._open = None
            yield from self._changes_in(self._part(block))
            if self._open is None and self.next_begins >= self._until:
                break
        if self._open is not None:
            raise SplitReadError(
                f"the log ends within the transaction at {position_text(self._open.position)}",
                remedy="the task is repeated; if it happens again, the server's log is damaged",
            )

    def _part(self, block: EventBlock) -> Part:
        """The events of the window, without a transaction at the end of the file that may be unfinished."""
        begins = block.begins
        count = int(np.searchsorted(block.positions[begins], self._until))
        stop = int(begins[count]) if count < len(begins) else len(block.kinds)
        if count < len(begins):
            # What comes before it, up to the end of the window, was left out by the server or is of no file.
            self.next_begins = max(self.next_begins, int(block.positions[stop]))
        begins = begins[:count]
        transactions = [self._open or _NONE, *transactions_of(block, begins)]
        part = Part(block, stop, begins, transactions, self.writing)
        last = transactions[-1]
        is_followed = stop < len(block.kinds) or block.follows == "begin"
        if last is _NONE or is_followed or part.has_end():
            self._open, ended = None, transactions
        else:
            self._open, ended = last, transactions[:-1]
            if block.follows == "end":
                stop = int(begins[-1]) if count else 0
        self.last |= by_domain(one.gtid for one in ended if one.gtid is not None)
        if stop:
            self.next_begins = max(self.next_begins, int(block.ends[:stop].max()))
        return part._replace(stop=stop)

    def _changes_in(self, part: Part) -> Iterator[TableRows | Emptied]:
        block, pending, rows = part.block, self._pending, None
        self._savepoints.clear()
        prepares = any(one.flags & _PREPARES_XA for one in part.transactions)
        found = np.flatnonzero(_IS_READ[block.kinds[: part.stop]])
        lists = (one[found].tolist() for one in (block.kinds, block.starts, block.stops))
        for event, kind, start, stop in zip(found.tolist(), *lists, strict=True):
            if kind == _TABLE_MAP:
                text = block.raw[start + 8 : stop]
                if text not in self._described:
                    self._described[text] = table_map(text, self.is_wanted, {*self.rules, *self.window.known})
                if prepares:
                    self._prepare(part.at(event)[1], name_in(text))
                self._present[block.raw[start : start + 6]] = self._described[text]
            elif kind not in _ROWS:
                yield from self._other(event, part)
                rows = None
            elif (table := self._present.get(block.raw[start : start + 6])) is not None:
                if rows is None or rows.table is not table:
                    rows = pending.get(table.table)
                    if rows is not None and rows.table is not table:
                        # The table had other columns before, in transactions that have ended.
                        yield pending.pop(table.table)
                    rows = pending.setdefault(table.table, TableRows(table, part, []))
                rows.events.append(event)
        yield from self._taken()

    def _taken(self) -> Iterator[TableRows]:
        """The rows that were found, which are no longer pending."""
        for rows in self._pending.values():
            self._delivered_to = max(self._delivered_to, rows.part.at(rows.events[-1])[1].position)
            yield rows
        self._pending.clear()

    def _other(self, event: int, part: Part) -> Iterator[TableRows | Emptied]:
        """An event that has no rows."""
        block, (_, transaction) = part.block, part.at(event)
        kind, position = block.kinds[event], int(block.positions[event])
        if kind in _UNKNOWN:
            raise SplitReadError(
                f"the log has an event of an unknown kind, {kind}, at {position_text(position)}",
                remedy=f"a newer server has written it: use a newer version of the source; {START_AGAIN}",
            )
        if kind == _INCIDENT:
            self.report_loss(f"the server has lost changes at {position_text(position)} of its log")
        elif kind == _XA_PREPARE:
            self.prepared.setdefault(transaction.xid, ())
        elif not transaction.flags & (_STARTS_ALTER | _FAILS_TO_ALTER):
            statement = part.statement(event)
            self._end(statement, event, part)
            rekeyed = statement.rekeyed
            rule = None if rekeyed is None else self.rules.get(rekeyed)
            if rule is not None and len(rule.chunks_have(position)) > 1:
                raise AlteredKeyError(rule.table, rule.key)
            if (emptied := statement.emptied) is not None and self.is_wanted(emptied):
                yield from self._taken()
                self._delivered_to = transaction.position
                yield Emptied(table=emptied, transaction=transaction, seq=position - transaction.position)
            where = f"at {position_text(position)} of the log"
            known = {*self.rules, *self.window.known, *(one.table for one in self._described.values() if one)}
            for table, loss in statement.losses(self.is_wanted, known):
                rule = self.rules.get(table)
                if loss in LASTING or rule is None or rule.chunks_have(position) != {True}:
                    self.report_loss(f"{table} was {loss.value.format(where)}")

    def _end(self, statement: Statement, event: int, part: Part) -> None:
        """Follow a statement that ends a transaction or a part of one."""
        begin, transaction = part.at(event)
        if (savepoint := statement.savepoint) is not None and savepoint.isascii():
            self._savepoints[savepoint] = event
        elif savepoint is not None:
            # The server takes some different letters for the same, such as é and e.
            self._savepoints.clear()
        elif statement.ending == "ROLLBACK":
            self._undo(begin, begin, transaction)
        elif statement.undone_to is not None:
            self._undo(begin, self._savepoints.get(statement.undone_to, -2), transaction)
        if transaction.flags & _COMPLETES_XA:
            changed = self.prepared.pop(transaction.xid, None)
            if statement.ending == "COMMIT" and (changed is None or any(map(self.is_wanted, changed))):
                where = position_text(transaction.position)
                self.report_loss(
                    f"the XA transaction {transaction.xid} was committed at {where} of the log, and its "
                    "changes were not read: it was prepared before the tables were found"
                )

    def _prepare(self, transaction: Transaction, changed: TableName) -> None:
        """Note that a transaction has changed a table, if it is an XA transaction: its rows are in the log
        where it is prepared, maybe long before its commit.
        """
        if transaction.flags & _PREPARES_XA:
            self.prepared[transaction.xid] = (*self.prepared.get(transaction.xid, ()), changed)
            if self.is_wanted(changed):
                raise SplitReadError(
                    f"the transaction at {position_text(transaction.position)} of the log is a part of an XA "
                    f"transaction, {transaction.xid}, which the mysql source does not read",
                    remedy=f"do not change these tables in XA transactions; {START_AGAIN}",
                )

    def _undo(self, begin: int, since: int, transaction: Transaction) -> None:
        """Drop the rows of the last transaction that come after an event of the block.

        Args:
            begin: the event with which the transaction begins; -1 if it is in another block.
            since: the event; if it is before ``begin``, it was not found.
        """
        has_rows = any(rows.events[-1] > begin for rows in self._pending.values())
        if (since < begin and has_rows) or (since < 0 and self._delivered_to >= transaction.position):
            raise SplitReadError(
                f"the transaction at {position_text(transaction.position)} of the log was undone in part, "
                "after rows of it were delivered, because it is large, or to a savepoint that is not found",
                remedy="do not change tables of another engine than InnoDB in large transactions, and write "
                f"savepoints in ASCII; {START_AGAIN}",
            )
        for table, rows in [*self._pending.items()]:
            rows.events[:] = [event for event in rows.events if event <= max(begin, since)]
            if not rows.events:
                del self._pending[table]


def transactions_of(block: EventBlock, begins: Int64s) -> Iterator[Transaction]:
    starts, data, has_gtid = block.starts[begins], block.data, block.kinds[begins] == GTID
    flags = np.where(has_gtid, data[starts + _FLAGS_AT], 0).astype(np.int64)
    more = starts + _FLAGS_AT + 1 + 8 * (flags & _GROUP_COMMIT > 0)
    has_more = (flags & _STANDALONE > 0) & (more < block.stops[begins])
    each = (flags | np.where(has_more, data[more], 0).astype(np.int64) << 8).tolist()
    servers = numbers_at(data, starts - 14, 4)  # in the header, which has 19 bytes
    gtids = zip(numbers_at(data, starts + 8, 4), servers, numbers_at(data, starts, 8), strict=True)
    return map(
        Transaction,
        block.positions[begins].tolist(),
        block.at_s[begins].tolist(),
        (f"{one[0]}-{one[1]}-{one[2]}" if has else None for has, one in zip(has_gtid, gtids, strict=True)),
        each,
        (_xid(block.body(event)) if flags & _XA else "" for flags, event in zip(each, begins, strict=True)),
    )


def _xid(body: bytes) -> str:
    """The id of an XA transaction in the body of its GTID, as SQL has it."""
    at = _FLAGS_AT + 1 + 8 * (body[_FLAGS_AT] & _GROUP_COMMIT > 0)
    middle = at + 6 + body[at + 4]
    first, second = body[at + 6 : middle], body[middle : middle + body[at + 5]]
    return f"X'{first.hex()}',X'{second.hex()}',{int.from_bytes(body[at : at + 4], 'little')}"


def _decompressed(data: bytes) -> bytes:
    return zlib.decompress(data[1 + (data[0] & 7) :])
