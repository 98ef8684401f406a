"""The decoder with the messages of a real server."""

from __future__ import annotations

from collections.abc import Sequence

from tests.postgres_server import PostgresServer
from tests.readers.postgres.pgoutput_messages import UNCHANGED
from tests.readers.postgres.pgoutput_rows import Row, decoded, read_one_by_one

_HEADER_BYTES = 19
_FRAME_BYTES = 6
_LARGE = "md5(0::text) || string_agg(md5(i::text), '') FROM generate_series(1, 500) i"


def messages_of(postgres: PostgresServer, *transactions: Sequence[str]) -> list[bytes]:
    """Run the transactions; return the rows of COPY, each with the bytes that COPY puts before a message."""
    with postgres.database() as name, postgres.connect(name) as connection:
        slot = f"slot_of_{name}"
        connection.autocommit = True
        connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        try:
            for statements in transactions:
                with connection.transaction():
                    for statement in statements:
                        connection.execute(statement)
            with (
                connection.cursor() as cursor,
                cursor.copy(
                    "COPY (SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, "
                    "'proto_version', '1', 'publication_names', 'p')) TO STDOUT (FORMAT binary)",
                    [slot],
                ) as copy,
            ):
                header, *rows = [bytes(row) for row in copy]
        finally:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    assert rows.pop() == b"\xff\xff"
    return [header[_HEADER_BYTES:], *rows]


def shown(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    return [(row.relation.name, row.op, row.seq, row.new, row.old_kind, row.old) for row in rows]


def test_changes_of_a_server_are_decoded(postgres: PostgresServer) -> None:
    messages = messages_of(
        postgres,
        [
            "CREATE TABLE orders (id int PRIMARY KEY, name text, note text)",
            "CREATE TABLE whole (id int, name text)",
            "ALTER TABLE whole REPLICA IDENTITY FULL",
        ],
        [
            "INSERT INTO orders VALUES (1, '', NULL), (2, 'größe 🦉', 'x')",
            "INSERT INTO whole VALUES (7, 'a')",
        ],
        [f"INSERT INTO orders SELECT 3, 'large', {_LARGE}", "UPDATE orders SET name = 'same' WHERE id = 3"],
        ["UPDATE orders SET id = 4 WHERE id = 1", "UPDATE whole SET name = 'b'", "DELETE FROM whole"],
        [
            "DELETE FROM orders WHERE id = 4",
            "ALTER TABLE orders ADD COLUMN more int DEFAULT 5",
            "INSERT INTO orders VALUES (5, 'e', NULL, 6)",
            "ALTER TABLE orders DROP COLUMN name",
            "UPDATE orders SET more = 8 WHERE id = 2",
        ],
        ["TRUNCATE orders, whole"],
    )
    rows = decoded(messages, skip=_FRAME_BYTES)
    large = rows[3].new[2] if rows[3].new else None
    assert isinstance(large, bytes)
    assert len(large) == 501 * 32
    assert shown(rows) == [
        ("orders", "I", 1, (b"1", b"", None), "", None),
        ("orders", "I", 2, (b"2", "größe 🦉".encode(), b"x"), "", None),
        ("whole", "I", 3, (b"7", b"a"), "", None),
        ("orders", "I", 1, (b"3", b"large", large), "", None),
        ("orders", "U", 2, (b"3", b"same", UNCHANGED), "", None),
        ("orders", "U", 1, (b"4", b"", None), "K", (b"1", None, None)),
        ("whole", "U", 2, (b"7", b"b"), "O", (b"7", b"a")),
        ("whole", "D", 3, None, "O", (b"7", b"b")),
        ("orders", "D", 1, None, "K", (b"4", None, None)),
        ("orders", "I", 2, (b"5", b"e", None, b"6"), "", None),
        ("orders", "U", 3, (b"2", b"x", b"8"), "", None),
        ("orders", "T", 1, None, "", None),
        ("whole", "T", 2, None, "", None),
    ]
    assert rows == read_one_by_one(message[_FRAME_BYTES:] for message in messages)
    assert decoded(*([message] for message in messages), skip=_FRAME_BYTES) == rows


def test_a_window_of_a_server_has_complete_transactions(postgres: PostgresServer) -> None:
    setup = ["CREATE TABLE orders (id int PRIMARY KEY)"]
    messages = messages_of(
        postgres, setup, *([f"INSERT INTO orders VALUES ({i}), (-{i})"] for i in range(1, 5))
    )
    positions = sorted({row.lsn for row in decoded(messages, skip=_FRAME_BYTES)})
    inside = decoded(messages, first=positions[1], end=positions[3], skip=_FRAME_BYTES)
    assert [row.new for row in inside] == [(b"2",), (b"-2",), (b"3",), (b"-3",)]
