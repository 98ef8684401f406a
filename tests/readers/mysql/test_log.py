"""Statements and transactions in the log, on literal events."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pytest

from flip27_source.enumerators.mysql.errors import ServerError
from flip27_source.enumerators.mysql.event_blocks import FORMAT_DESCRIPTION, ROTATE, event_blocks
from flip27_source.enumerators.mysql.split import LogWindow, TableName, position_text
from flip27_source.enumerators.mysql.statements import Writing
from flip27_source.errors import SplitReadError
from flip27_source.readers.mysql.log import Emptied, WindowLog

ORDERS = TableName(schema="shop", name="orders")
ODD = TableName(schema="shop", name="a#b -- `c")
QUERY, XID, INCIDENT, GTID = 2, 16, 26, 162
FILE = 1 << 32


def packet(kind: int, body: bytes, *, size: int, end: int) -> bytes:
    return struct.pack("<IBIIIH", 0, kind, 1, size, end, 0) + body


def events(*parts: tuple[int, bytes]) -> list[bytes]:
    """Events one after the other, each with a length of 100."""
    return [
        packet(kind, body, size=100, end=4 + 100 * number)
        for number, (kind, body) in enumerate(parts, start=1)
    ]


def begin(
    *, is_statement: bool = False, number: int = 5, domain: int = 0, more: bytes = bytes(6)
) -> tuple[int, bytes]:
    return GTID, struct.pack("<QIB", number, domain, int(is_statement)) + more


def statement(sql: str, schema: str = "shop") -> tuple[int, bytes]:
    return QUERY, bytes(8) + bytes([len(schema)]) + bytes(4) + schema.encode() + b"\0" + sql.encode()


def read(found: Iterable[bytes], *, end: int = 1 << 40) -> tuple[list[str], list[str], WindowLog]:
    """The tables that were emptied, the losses, and the log."""
    losses: list[str] = []
    tables = (ORDERS, ODD)
    log = WindowLog(
        window=LogWindow(first=FILE + 4, end=end, file_began=0, known=tables), is_wanted=tables.__contains__,
        report_loss=losses.append, rules={}, writing=Writing(lambda text, _: text.decode()),
    )  # fmt: skip
    changes = log.changes(event_blocks(iter(found), first=FILE + 4, end=end))
    emptied = [str(change.table) for change in changes if isinstance(change, Emptied)]
    return emptied, losses, log


def test_a_truncate_empties_a_table_whatever_its_flags_are() -> None:
    truncate = events(begin(is_statement=True), statement("TRUNCATE `a#b -- ``c`"))
    assert read(truncate)[:2] == ([str(ODD)], [])
    thread_specific = truncate[1][:17] + b"\4\0" + truncate[1][19:]
    assert read([truncate[0], thread_specific])[:2] == ([str(ODD)], [])


def test_changes_without_rows_are_losses() -> None:
    emptied, losses, _ = read(events(begin(is_statement=True), statement("DROP TABLE others, `orders`")))
    assert emptied == []
    what = "dropped, renamed or replaced (or hidden by a temporary table, or given another engine)"
    assert losses == [f"shop.orders was {what} at 000001:104 of the log"]


@pytest.mark.parametrize(("phase", "count"), [(2, 0), (4, 1), (8, 0)])
def test_an_alter_table_in_two_phases_counts_when_it_has_succeeded(phase: int, count: int) -> None:
    alter = statement("ALTER TABLE orders DROP PARTITION a")
    alone = (begin(is_statement=True, more=bytes([phase]) + bytes(8)), alter)
    # Transactions that were committed together have a number of eight bytes in front.
    together = ((GTID, struct.pack("<QIBQB", 6, 0, 1 | 2, 7, phase) + bytes(8)), alter)
    assert len(read(events(*alone, *together))[1]) == 2 * count


def test_a_transaction_ends_with_its_commit_and_not_with_a_savepoint() -> None:
    parts = [begin(), statement("SAVEPOINT a"), statement("ROLLBACK TO `a`"), statement("COMMIT")]
    log = read(events(*parts))[2]
    assert position_text(log.next_begins) == "000001:404"
    with pytest.raises(SplitReadError, match="the log ends within the transaction at 000001:4"):
        read(events(*parts[:3]))


def test_a_window_has_the_transactions_that_begin_before_its_end() -> None:
    parts = [begin(), (XID, bytes(8)), begin(), (XID, bytes(8)), begin(), (XID, bytes(8))]
    log = read(events(*parts), end=FILE + 205)[2]
    assert position_text(log.next_begins) == "000001:404"


def next_file() -> list[bytes]:
    """What the server sends before the events of the next file, and the first of these events."""
    return [
        packet(ROTATE, bytes(8) + b"binlog.000002", size=100, end=0),
        packet(FORMAT_DESCRIPTION, bytes(5), size=100, end=104),
    ]


def test_a_transaction_that_a_killed_server_did_not_finish_is_not_read() -> None:
    unfinished = (begin(number=6), statement("TRUNCATE orders"))
    broken = events(begin(is_statement=True), statement("COMMIT"), *unfinished)
    emptied, _, log = read([*broken, *next_file()])
    assert emptied == []
    assert position_text(log.next_begins) == "000002:104"
    assert log.last == {"0": "0-1-5"}


def test_a_large_transaction_that_a_killed_server_did_not_finish_is_an_error() -> None:
    long = [statement("TRUNCATE orders"), statement(f"SAVEPOINT {'a' * 9_000_000}")]
    assert read(events(begin(), *long, statement("COMMIT"), begin(), (XID, b"")), end=FILE + 500)[0] == [
        "shop.orders"
    ]
    broken = events(begin(), *long, statement("SAVEPOINT b"))
    with pytest.raises(SplitReadError, match="the transaction at 000001:4 of the log has no end"):
        read([*broken, *next_file()], end=FILE + 500)


def test_changes_that_the_server_has_lost_are_losses_between_transactions_too() -> None:
    losses = read(events(begin(), (XID, bytes(8)), (INCIDENT, bytes(2)), begin(), (XID, bytes(8))))[1]
    assert losses == ["the server has lost changes at 000001:204 of its log"]


@pytest.mark.parametrize(("kind", "most"), [(30, 8), (166, 1)])
def test_a_block_has_fewer_bytes_of_compressed_events(kind: int, most: int) -> None:
    transactions = [begin(), (kind, bytes(1_000_000)), (XID, bytes(8))] * 12
    blocks = event_blocks(iter(events(*transactions)), first=FILE + 4, end=1 << 40)
    assert max(int(sum(block.kinds == kind)) for block in blocks) == most


def test_an_event_with_a_wrong_checksum_is_an_error() -> None:
    first = packet(FORMAT_DESCRIPTION, b"\1" + bytes(4), size=100, end=0)
    with pytest.raises(ServerError, match="an event of the log has a wrong checksum, before the position"):
        read([first, *events(begin())])


def test_a_file_with_positions_that_are_too_large_for_its_events_is_an_error() -> None:
    body = statement(f"SAVEPOINT {'a' * 9_000_000}")[1]
    # An event has the last 32 bits of the position after it.
    ends = [4_000_000_000, 4_290_000_000, 5_000_000]
    large = [packet(QUERY, body, size=100, end=end) for end in ends]
    with pytest.raises(SplitReadError, match="file 000001 of the log is larger than 4 GB"):
        read([*events(begin()), *large, packet(XID, bytes(8), size=100, end=5_000_100)], end=FILE + 500)


@pytest.mark.parametrize("kind", [39, 172, 255])
def test_an_event_of_a_kind_that_is_not_known_is_an_error(kind: int) -> None:
    with pytest.raises(SplitReadError, match=f"an event of an unknown kind, {kind}, at 000001:104"):
        read(events(begin(), (kind, bytes(8)), (XID, bytes(8))))
