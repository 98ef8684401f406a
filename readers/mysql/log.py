"""Finds the changes of the tables in the events of a window of the log, transaction by transaction.

What must not live here: the images of rows, and which changes are delivered.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from flip27_source.enumerators.mysql.connection import START_AGAIN
from flip27_source.enumerators.mysql.dump import FORMAT_DESCRIPTION, ROTATE, Event
from flip27_source.enumerators.mysql.split import TableName, position_text
from flip27_source.errors import SplitReadError
from flip27_source.readers.mysql.table_maps import TableMap, table_map, table_of, width_and_size

INSERT, UPDATE, DELETE = "c", "u", "d"

_QUERY, _XID, _TABLE_MAP, _XA_PREPARE, _GTID, _ANONYMOUS_GTID = 2, 16, 19, 38, 162, 34
_BEGINS = (_GTID, _ANONYMOUS_GTID)
_QUERY_COMPRESSED = 165
_ROWS = {
    23: INSERT, 24: UPDATE, 25: DELETE, 30: INSERT, 31: UPDATE, 32: DELETE,
    166: INSERT, 167: UPDATE, 168: DELETE, 169: INSERT, 170: UPDATE, 171: DELETE,
}  # fmt: skip
_FIRST_COMPRESSED = 166
_SECOND_FORM = (30, 31, 32, 169, 170, 171)
_INCIDENT = 26
_STANDALONE = 1
_MOST_BYTES = 4 << 20

_GTID_BODY = struct.Struct("<QIB")
_QUOTED = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`"
_COMMENTS = re.compile(rf"({_QUOTED})|/\*M?!\d*(.*?)\*/|/\*.*?\*/|--[ \t][^\n]*|\#[^\n]*", re.DOTALL)
"""The server runs what is in a comment with an exclamation mark."""
_NAME = r"(?:`(?:[^`]|``)+`|[^\s`.,;()]+)"
_EMPTIES = re.compile(rf"\s*TRUNCATE\s+(?:TABLE\s+)?(?:({_NAME})\s*\.\s*)?({_NAME})", re.IGNORECASE)
_GOES = re.compile(
    r"\s*(?:DROP\s+TABLE\b|RENAME\s+TABLE\b|CREATE\s+OR\s+REPLACE\s+TABLE\b|ALTER\s+(?:\w+\s+)*?TABLE\b.*"
    r"\b(?:RENAME\s+(?!COLUMN|INDEX|KEY)|(?:TRUNCATE|DROP|EXCHANGE)\s+PARTITION\b|TABLESPACE\b))",
    re.IGNORECASE | re.DOTALL,
)
"""Statements that remove rows of a table which the log does not have one by one."""
_DROPS_ALL = re.compile(rf"\s*DROP\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+EXISTS\s+)?({_NAME})", re.IGNORECASE)
_LAST = re.compile(r"\s*(?:XA\s+)?(?:COMMIT|ROLLBACK)\b(?!\s+(?:WORK\s+)?TO\b)", re.IGNORECASE)
_WRITES = re.compile(r"\s*(?:INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH|SET\s+STATEMENT)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transaction, or a statement that is none.

    Attributes:
        position: where it begins in the log.
        at_s: when it was committed, in seconds since 1970 UTC.
    """

    position: int
    gtid: str | None
    at_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsEvent:
    """An event with rows of a table.

    Attributes:
        seq: grows with the events of the transaction, by more than an event has rows.
        images: the images of the rows, one after the other.
    """

    op: str
    transaction: Transaction
    seq: int
    images: bytes


@dataclass(slots=True, kw_only=True)
class TableRows:
    """Events of one table with the same columns, in the order of the log."""

    table: TableMap
    events: list[RowsEvent] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptied:
    """A TRUNCATE of a table."""

    table: TableName
    transaction: Transaction
    seq: int


class WindowLog:
    """Reads the events of one window.

    Args:
        end: the window has the transactions that begin before this position.
        is_wanted: whether changes of a table are read.
        known: the tables that exist and are read.
        report_loss: called with a text for changes that the log does not have.

    Attributes:
        next_begins: where the next transaction begins, once all is read.
        last: the last transaction of the window.
    """

    def __init__(
        self,
        *,
        first: int,
        end: int,
        is_wanted: Callable[[TableName], bool],
        known: Collection[TableName],
        report_loss: Callable[[str], None],
    ) -> None:
        self._end = end
        self._is_wanted = is_wanted
        self._known = known
        self._report_loss = report_loss
        self.next_begins = first
        self.last: Transaction | None = None
        self._open: Transaction | None = None
        self._is_standalone = False
        self._flushed_last: Transaction | None = None
        self._maps: dict[bytes, TableMap | None] = {}
        self._present: dict[int, TableMap | None] = {}
        self._rows: dict[TableName, TableRows] = {}
        self._bytes = 0

    def changes(self, events: Iterator[Event]) -> Iterator[TableRows | Emptied]:
        """The changes of the wanted tables; those of each table are in the order of the log."""
        for event in events:
            if event.kind in _BEGINS:
                if event.position >= self._end:
                    break
                self._begin(event)
            elif event.kind in (ROTATE, FORMAT_DESCRIPTION):
                self._begin_file(event)
            elif self._open is not None:
                yield from self._of_transaction(event, self._open)
                self._end_if_last(event)
            elif _is_in_log(event):
                self.next_begins = max(self.next_begins, event.end)
            if self._open is None and self.next_begins >= self._end:
                break
        if self._open is not None:
            raise SplitReadError(
                f"the log ends within the transaction at {position_text(self._open.position)}",
                remedy="the task is repeated; if it happens again, the server's log is damaged",
            )
        yield from self._flushed()

    def _begin(self, event: Event) -> None:
        self._open, self._is_standalone = _begun(event)
        self.last = self._open

    def _begin_file(self, event: Event) -> None:
        """Go on with the next file, without a transaction that the server did not write to its end.

        A server that was killed while it wrote the transaction has not committed it.
        """
        if self._open is not None and _is_in_log(event):
            if self._flushed_last is self._open:
                raise SplitReadError(
                    f"the transaction at {position_text(self._open.position)} of the log has no end",
                    remedy=f"the server was killed while it wrote this large transaction; {START_AGAIN}",
                )
            for rows in self._rows.values():
                rows.events = [one for one in rows.events if one.transaction is not self._open]
            self._open = None
        if _is_in_log(event) or event.kind == ROTATE:
            self.next_begins = max(self.next_begins, event.end)

    def _end_if_last(self, event: Event) -> None:
        is_statement = event.kind in (_QUERY, _QUERY_COMPRESSED)
        if event.kind in (_XID, _XA_PREPARE) or (is_statement and (self._is_standalone or _ends(event))):
            self._open, self.next_begins = None, event.end

    def _of_transaction(self, event: Event, transaction: Transaction) -> Iterator[TableRows | Emptied]:
        if event.kind == _TABLE_MAP:
            yield from self._mapped(event.body)
        elif event.kind in _ROWS:
            yield from self._with_rows(event, transaction)
        elif event.kind in (_QUERY, _QUERY_COMPRESSED):
            yield from self._statement(event, transaction)
        elif event.kind == _XA_PREPARE:
            if self._touches(transaction):
                raise SplitReadError(
                    f"the transaction at {position_text(transaction.position)} is a part of an XA "
                    "transaction, which the mysql source does not read",
                    remedy=f"do not change these tables in XA transactions; {START_AGAIN}",
                )
        elif event.kind == _INCIDENT:
            self._report_loss(f"the server has lost changes at {position_text(event.position)} of its log")

    def _mapped(self, body: bytes) -> Iterator[TableRows]:
        number, name = table_of(body)
        text = body[6:]
        if text not in self._maps:
            self._maps[text] = table_map(body) if self._is_wanted(name) else None
        found = self._maps[text]
        known = self._rows.get(name)
        if found is not None and known is not None and known.table is not found:
            yield from self._flushed()
        self._present[number] = found

    def _with_rows(self, event: Event, transaction: Transaction) -> Iterator[TableRows]:
        body = event.body
        number = int.from_bytes(body[:6], "little")
        table = self._present.get(number)
        if table is None:
            return
        at = 8 + (int.from_bytes(body[8:10], "little") if event.kind in _SECOND_FORM else 0)
        width, size = width_and_size(body, at)
        at += size
        op = _ROWS[event.kind]
        present = body[at : at + (width + 7) // 8 * (2 if op == UPDATE else 1)]
        at += len(present)
        _check_whole(table, width, present)
        images = body[at:]
        if event.kind >= _FIRST_COMPRESSED:
            images = _decompressed(images)
        rows = self._rows.setdefault(table.table, TableRows(table=table))
        seq = event.position - transaction.position
        rows.events.append(RowsEvent(op=op, transaction=transaction, seq=seq, images=images))
        self._bytes += len(images)
        if self._bytes >= _MOST_BYTES:
            yield from self._flushed()

    def _statement(self, event: Event, transaction: Transaction) -> Iterator[TableRows | Emptied]:
        schema, sql = _query(event)
        text = _COMMENTS.sub(lambda found: found[1] or found[2] or " ", sql)
        if match := _EMPTIES.match(text):
            name = TableName(schema=_unquoted(match[1]) or schema, name=_unquoted(match[2]))
            if self._is_wanted(name):
                yield from self._flushed()
                yield Emptied(table=name, transaction=transaction, seq=event.position - transaction.position)
            return
        where = f"at {position_text(event.position)} of the log"
        if _GOES.match(text):
            for name in self._named(text, schema):
                self._report_loss(
                    f"{name} was dropped, renamed or replaced {where}, with rows or all of them"
                )
        elif match := _DROPS_ALL.match(text):
            for name in self._known:
                if name.schema == _unquoted(match[1]):
                    self._report_loss(f"{name} was dropped {where}, with its database")
        elif _WRITES.match(text):
            for name in self._named(text, schema):
                self._report_loss(
                    f"{name} was changed {where} by a statement whose rows the log does not have "
                    "(binlog_format)"
                )

    def _named(self, text: str, schema: str) -> list[TableName]:
        """The wanted tables that a statement names."""
        pairs = re.findall(rf"(?:({_NAME})\s*\.\s*)?({_NAME})", text)
        names = {TableName(schema=_unquoted(first) or schema, name=_unquoted(name)) for first, name in pairs}
        return [name for name in sorted(names, key=str) if self._is_wanted(name)]

    def _touches(self, transaction: Transaction) -> bool:
        """Whether a transaction, the last one, has changed a wanted table."""
        return any(rows.events and rows.events[-1].transaction is transaction for rows in self._rows.values())

    def _flushed(self) -> Iterator[TableRows]:
        rows, self._rows, self._bytes = self._rows, {}, 0
        self._flushed_last = self._open
        yield from (one for one in rows.values() if one.events)


def _begun(event: Event) -> tuple[Transaction, bool]:
    if event.kind == _ANONYMOUS_GTID:
        return Transaction(position=event.position, gtid=None, at_s=event.at_s), False
    seq, domain, flags = _GTID_BODY.unpack_from(event.body)
    gtid = f"{domain}-{event.server_id}-{seq}"
    is_standalone = bool(flags & _STANDALONE)
    return Transaction(position=event.position, gtid=gtid, at_s=event.at_s), is_standalone


def _query(event: Event) -> tuple[str, str]:
    """The default database of a statement, and its text."""
    body = event.body
    schema_size = body[8]
    variables = int.from_bytes(body[11:13], "little")
    at = 13 + variables
    schema, text = body[at : at + schema_size], body[at + schema_size + 1 :]
    if event.kind == _QUERY_COMPRESSED:
        text = _decompressed(text)
    return schema.decode(), text.decode("utf-8", "replace")


def _ends(event: Event) -> bool:
    """Whether a statement ends a transaction that has no XID event."""
    return _LAST.match(_query(event)[1]) is not None


def _is_in_log(event: Event) -> bool:
    """Whether the event was not made for the replica that reads the log."""
    return bool(event.end & 0xFFFFFFFF) and event.kind != ROTATE


def _check_whole(table: TableMap, width: int, present: bytes) -> None:
    """Refuse rows of which the log has only some columns."""
    whole = (1 << width) - 1
    size = (width + 7) // 8
    parts = [present[at : at + size] for at in range(0, len(present), size)]
    if width != len(table.columns) or any(int.from_bytes(part, "little") & whole != whole for part in parts):
        raise SplitReadError(
            f"the log has only some columns of the rows of table {table.table}",
            remedy=f"SET GLOBAL binlog_row_image = FULL, and {START_AGAIN}",
        )


def _decompressed(data: bytes) -> bytes:
    size = data[0] & 7
    return zlib.decompress(data[1 + size :])


def _unquoted(name: str | None) -> str:
    if not name:
        return ""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
