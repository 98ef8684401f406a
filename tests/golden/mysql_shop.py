"""A model of a MariaDB server with one table, whose transactions commit while a story is played.

Its sessions are what PyMySQL's connections are for the source. The log has the bytes that a server has.
"""

from __future__ import annotations

import itertools
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import pytest

from flip27_source.enumerators.mysql import connection

FILE = "binlog.000001"
BEGAN_S = 1_763_596_800
_ROTATE, _FORMAT, _XID, _TABLE_MAP, _GTID = 4, 15, 16, 19, 162
_ROWS = {"c": 23, "u": 24, "d": 25}

Change = tuple[int, str | None, str | None]
"""The key of a row, and its value before the change and after it."""


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


def _image(key: int, value: str) -> bytes:
    return b"\0" + struct.pack("<iB", key, len(value)) + value.encode()


def _rows(change: Change) -> tuple[int, bytes]:
    key, before, after = change
    op = "c" if before is None else "d" if after is None else "u"
    images = b"".join(_image(key, value) for value in (before, after) if value is not None)
    return _ROWS[op], struct.pack("<IHHB", 7, 0, 0, 2) + (b"\3\3" if op == "u" else b"\3") + images


class MysqlShop:
    """The server.

    Attributes:
        present: the server on which sessions are opened.
        committed: the number of transactions that are committed.
    """

    present: ClassVar[MysqlShop]
    TRANSACTIONS: ClassVar[Sequence[Sequence[Change]]] = (
        [(key, None, f"c{key}") for key in range(1, 11)],
        [(1, "c1", "u1"), (10, "c10", "u1")],
        [(1, "u1", None), (10, "u1", "u2")],
        [(2, "c2", "u3"), (10, "u2", "u3")],
        [(11, None, "c4")],
    )

    def __init__(self) -> None:
        self.committed = 0
        self._log = [b"\xfebin", _event(_FORMAT, bytes(57), end=80)]
        self._ends = [80]
        for number, changes in enumerate(self.TRANSACTIONS, start=1):
            events = [(_GTID, struct.pack("<QIB", number, 0, 0) + bytes(6))]
            for change in changes:
                events += [(_TABLE_MAP, _DESCRIPTION), _rows(change)]
            end = self._ends[-1]
            for kind, body in (*events, (_XID, bytes(8))):
                end += 19 + len(body)
                self._log.append(_event(kind, body, end=end))
            self._ends.append(end)

    @classmethod
    def opened(cls, transactions: int) -> None:
        """Open a new server after so many transactions."""
        cls.present = cls()
        cls.present.committed = transactions

    def commit_next(self) -> None:
        """Commit the next transaction."""
        self.committed += 1

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
            if position <= at < self.end(self.committed):
                yield event
            at += len(event)

    def table(self, transactions: int) -> sqlite3.Connection:
        """A database with the rows after so many transactions."""
        found = sqlite3.connect(":memory:")
        found.executescript("ATTACH ':memory:' AS shop; CREATE TABLE shop.orders (id INTEGER PRIMARY KEY, v)")
        for key, _, value in itertools.chain(*self.TRANSACTIONS[:transactions]):
            found.execute("DELETE FROM orders WHERE id = ?", [key])
            if value is not None:
                found.execute("INSERT INTO orders VALUES (?, ?)", [key, value])
        return found


_VARIABLES = {
    "server_id": "1", "server_uid": "uid", "log_bin": "ON", "binlog_format": "ROW",
    "binlog_row_image": "FULL", "binlog_row_metadata": "FULL", "log_slave_updates": "ON",
    "lower_case_table_names": "0",
}  # fmt: skip
_CATALOG = {
    "information_schema.tables": [("shop", "orders", "InnoDB", "BASE TABLE")],
    "information_schema.columns": [
        ("id", "int", "int(11)", "10", "0", None),
        ("v", "varchar", "varchar(20)", "0", "0", "utf8mb4"),
    ],
    "information_schema.statistics": [("id",)],
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


class _Session:
    """A session, and its only cursor."""

    def __init__(self, **_: Any) -> None:
        self._server = MysqlShop.present
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
        self._found = list(self._answer(" ".join(sql.split()), parameters or ()))

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._found

    def fetchmany(self, count: int) -> list[tuple[Any, ...]]:
        found, self._found = self._found[:count], self._found[count:]
        return found

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
            yield from (tuple(map(str, row)) for row in server.table(seen).execute(sql))
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
        self._packets = self._server.sent(struct.unpack_from("<I", command)[0])

    def _read_packet(self) -> _Packet:
        return _Packet(next(self._packets, None))


@contextmanager
def mysql_shop() -> Iterator[None]:
    """The server after all transactions."""
    MysqlShop.opened(len(MysqlShop.TRANSACTIONS))
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(connection, "_connection_type", lambda: _Session)
        yield
