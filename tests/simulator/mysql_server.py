"""A model of a MariaDB server with one table.

Its sessions are what PyMySQL's connections are for the source. The log has the bytes that a server has.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Self

FILE = "binlog.000001"
BEGAN_S = 1_763_596_800
_QUERY, _ROTATE, _FORMAT, _XID, _TABLE_MAP, _GTID = 2, 4, 15, 16, 19, 162
_ROWS = {"c": 23, "u": 24, "d": 25}

Row = tuple[int, str]
"""The key of a row, and its value."""
Change = tuple[Row | None, Row | None]
"""A row before the change and after it."""
TRUNCATE: Change = (None, None)


def _event(kind: int, body: bytes, *, end: int) -> bytes:
    return struct.pack("<IBIIIH", BEGAN_S, kind, 1, 19 + len(body), end, 0) + body


def _part(kind: int, data: bytes) -> bytes:
    """A part of what the log has about the columns of a table."""
    return bytes([kind, len(data)]) + data


_DESCRIPTION = (
    struct.pack("<IHH", 7, 0, 0) + b"\4shop\0\6orders\0" + b"\2\3\x0f" + b"\2\x50\0" + b"\2"
    + _part(1, b"\0") + _part(2, bytes([45])) + _part(4, b"\2id\1v") + _part(8, b"\0")
)  # fmt: skip
"""The table: an INT and a VARCHAR(20) in utf8mb4, and its key."""


def _image(row: Row) -> bytes:
    key, value = row
    return b"\0" + struct.pack("<iB", key, len(value)) + value.encode()


def _events(number: int, changes: Sequence[Change]) -> Iterator[tuple[int, bytes]]:
    """The kinds and bodies of the events of a transaction; a TRUNCATE is one by itself."""
    is_alone = changes[0] == TRUNCATE
    yield _GTID, struct.pack("<QIB", number, 0, is_alone) + bytes(6)
    if is_alone:
        yield _QUERY, bytes(8) + b"\4" + bytes(4) + b"shop\0TRUNCATE orders"
        return
    for before, after in changes:
        op = "c" if before is None else "d" if after is None else "u"
        bitmaps = b"\3\3" if op == "u" else b"\3"
        images = b"".join(_image(row) for row in (before, after) if row is not None)
        yield _TABLE_MAP, _DESCRIPTION
        yield _ROWS[op], struct.pack("<IHHB", 7, 0, 0, 2) + bitmaps + images
    yield _XID, bytes(8)


class MysqlServer:
    """The server.

    Attributes:
        rows: those of the table after each number of transactions.
    """

    def __init__(self) -> None:
        self.rows: list[dict[int, str]] = [{}]
        self._log = [b"\xfebin", _event(_FORMAT, bytes(57), end=80)]
        self._ends = [80]

    @property
    def committed(self) -> int:
        """The number of transactions."""
        return len(self.rows) - 1

    def commit(self, changes: Sequence[Change]) -> None:
        """Commit a transaction."""
        rows, end = dict(self.rows[-1]), self._ends[-1]
        for before, after in changes:
            if (before, after) == TRUNCATE:
                rows.clear()
            if before is not None:
                del rows[before[0]]
            if after is not None:
                assert after[0] not in rows
                rows[after[0]] = after[1]
        self.rows.append(rows)
        for kind, body in _events(self.committed, changes):
            end += 19 + len(body)
            self._log.append(_event(kind, body, end=end))
        self._ends.append(end)

    def end(self, transactions: int) -> int:
        """Where the log ends after so many transactions."""
        return self._ends[transactions]

    def transactions_before(self, position: int) -> int:
        return sum(end <= position for end in self._ends[1:])

    def sent(self, position: int) -> Iterator[bytes]:
        """The events from a position on, and before them what the server makes for a replica."""
        yield _event(_ROTATE, struct.pack("<Q", position) + FILE.encode(), end=0)
        if position > len(self._log[0]):
            yield _event(_FORMAT, bytes(57), end=0)
        at = 0
        for event in self._log:
            if position <= at:
                yield event
            at += len(event)

    def selected(self, sql: str, transactions: int) -> list[tuple[Any, ...]]:
        """The rows of a query of the table after so many transactions."""
        with closing(sqlite3.connect(":memory:")) as found:
            found.executescript(
                "ATTACH ':memory:' AS shop; CREATE TABLE shop.orders (id INTEGER PRIMARY KEY, v)"
            )
            found.executemany("INSERT INTO orders VALUES (?, ?)", self.rows[transactions].items())
            return found.execute(sql).fetchall()


_VARIABLES = {
    "server_id": "1", "server_uid": "uid", "log_bin": "ON", "binlog_format": "ROW",
    "binlog_row_image": "FULL", "binlog_row_metadata": "FULL", "log_slave_updates": "ON",
    "lower_case_table_names": "0",
}  # fmt: skip
_CATALOG = {
    "information_schema.tables": [("shop", "orders", "InnoDB", "BASE TABLE")],
    "information_schema.columns": [
        ("id", "int", "int(11)", "10", "0", None, "PRI"),
        ("v", "varchar", "varchar(20)", "0", "0", "utf8mb4", ""),
    ],
    "information_schema.statistics": [("PRIMARY", "id")],
    "information_schema.collation_character_set_applicability": [("utf8mb4", "45")],
    "SHOW GLOBAL STATUS LIKE 'Slaves_running'": [("Slaves_running", "0")],
    "SHOW BINARY LOGS": [(FILE, "0")],
    "SHOW CREATE TABLE": [("orders", "CREATE TABLE `orders` (`id` int(11) PRIMARY KEY, `v` varchar(20))")],
}


class _Packet:
    def __init__(self, event: bytes | None) -> None:
        self._event = event

    def is_eof_packet(self) -> bool:
        return self._event is None

    def get_all_data(self) -> bytes:
        return b"\0" + (self._event or b"")


class MysqlSession:
    """A session, and its only cursor.

    Args:
        step: called before each statement.
    """

    def __init__(self, server: MysqlServer, step: Callable[[], None]) -> None:
        self._server = server
        self._step = step
        self._snapshot: int | None = None
        self._found: list[tuple[Any, ...]] = []
        self._packets: Iterator[bytes] = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass

    def cursor(self, _: object = None) -> Self:
        return self

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> None:
        self._step()
        self._found = list(self._answer(" ".join(sql.split()), parameters or ()))

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._found

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._found)

    def _answer(self, sql: str, parameters: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        server, seen = self._server, self._server.committed if self._snapshot is None else self._snapshot
        if sql.startswith("SHOW GLOBAL VARIABLES"):
            found = {**_VARIABLES, "gtid_binlog_pos": f"0-1-{server.committed}"}
            yield from ((name, found[name]) for name in parameters[0] if name in found)
        elif sql.startswith("SHOW STATUS LIKE 'binlog_snapshot_%'"):
            yield from (("binlog_snapshot_file", FILE), ("binlog_snapshot_position", str(server.end(seen))))
        elif sql == "SHOW MASTER STATUS":
            yield FILE, str(server.end(server.committed)), "", ""
        elif sql.startswith("SELECT BINLOG_GTID_POS"):
            yield (f"0-1-{server.transactions_before(int(parameters[1]))}",)
        elif rows := next((rows for name, rows in _CATALOG.items() if name in sql), None):
            yield from rows
        elif "FROM `shop`.`orders`" in sql:
            yield from (tuple(map(str, row)) for row in server.selected(sql, seen))
        else:
            self._set(sql)

    def _set(self, sql: str) -> None:
        """A statement without rows."""
        if sql.startswith("START TRANSACTION"):
            self._snapshot = self._server.committed
        elif sql == "COMMIT":
            self._snapshot = None
        elif not sql.startswith("SET "):
            raise AssertionError(f"the model has no answer to {sql}")

    def _execute_command(self, _: int, command: bytes) -> None:
        self._step()
        self._packets = self._server.sent(struct.unpack_from("<I", command)[0])

    def _read_packet(self) -> _Packet:
        return _Packet(next(self._packets, None))
