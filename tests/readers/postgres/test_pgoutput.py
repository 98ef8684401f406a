"""The decoder of pgoutput's messages: literal ones, random histories, and those of a real server."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_source.errors import SplitReadError
from flip27_source.readers.postgres.message_blocks import MessageBlock
from flip27_source.readers.postgres.pgoutput import Changes, PgOutputDecoder
from flip27_source.readers.postgres.relations import Relation, RelationColumn
from tests.postgres_server import PostgresServer
from tests.readers.postgres.pgoutput_messages import (
    UNCHANGED,
    YEAR_2000_US,
    Value,
    begin,
    commit,
    delete,
    described,
    insert,
    logical_message,
    origin,
    relation,
    truncate,
    type_named,
    update,
)
from tests.readers.postgres.pgoutput_rows import EVERYTHING, Row, decode, decoded, read_one_by_one, rows_of

ORDERS = relation()
ITEMS = relation("items", ("id", "order_id", "note"), oid=16_500)


def transaction(lsn: int, *messages: bytes) -> list[bytes]:
    return [begin(lsn), *messages, commit(lsn)]


def decoder() -> PgOutputDecoder:
    return PgOutputDecoder(first=0, end=EVERYTHING)


def changes_in(*messages: bytes) -> list[Changes]:
    """Decode one transaction."""
    return decode(decoder(), transaction(9, *messages))


def rows_in(*messages: bytes) -> list[Row]:
    """Decode one transaction; return its rows in the order of the log."""
    return decoded(transaction(9, *messages))


def test_literal_bytes_of_a_server_are_decoded() -> None:
    description = b"R\x00\x00\x40\x01public\x00orders\x00d\x00\x02"
    description += b"\x01id\x00\x00\x00\x00\x17\xff\xff\xff\xff\x00price\x00\x00\x00\x06\xa4\x00\x0c\x00\x06"
    messages = [
        bytes.fromhex("42 00000000 0156ABC8 0002FC9A 4F2B1A40 000002EB"),
        description,
        b"I\x00\x00\x40\x01N\x00\x02t\x00\x00\x00\x0242t\x00\x00\x00\x059.990",
        bytes.fromhex("43 00 00000000 0156ABC8 00000000 0156ABF8 0002FC9A 4F2B1A40"),
    ]
    (changes,) = decode(decoder(), messages)
    assert changes.relation == Relation(
        oid=16_385,
        schema="public",
        name="orders",
        replica_identity="d",
        columns=(
            RelationColumn(name="id", type_oid=23, type_modifier=-1, is_key=True),
            RelationColumn(name="price", type_oid=1700, type_modifier=(12 << 16) + 6, is_key=False),
        ),
    )
    assert bytes(changes.op) == b"I"
    assert (changes.lsn[0], changes.seq[0], changes.xid[0]) == (0x156ABC8, 1, 747)
    assert changes.committed_at[0] == YEAR_2000_US + 0x2FC9A4F2B1A40
    assert [texts.to_pylist() for texts in changes.new.texts] == [[b"42"], [b"9.990"]]
    assert [texts.to_pylist() for texts in changes.old.texts] == [[None], [None]]
    assert changes.new.unchanged == [None, None]
    assert bytes(changes.old_kind) == b"\0"


def test_texts_of_more_than_255_and_65535_bytes_are_complete() -> None:
    texts = [b"a" * 255, b"b" * 256, b"c" * 65_535, b"d" * 65_536, b"e" * 5_000_000]
    rows = rows_in(described(ORDERS), *(insert(ORDERS, text, b"x") for text in texts))
    assert [row.new for row in rows] == [(text, b"x") for text in texts]


def test_a_table_has_no_mask_for_unchanged_values_of_another_table() -> None:
    orders, items = changes_in(
        described(ORDERS), described(ITEMS), update(ORDERS, b"1", b"a"), update(ITEMS, b"2", UNCHANGED, b"x")
    )
    assert orders.new.unchanged == [None, None]
    assert [mask is None for mask in items.new.unchanged] == [True, False, True]


def test_changes_of_alternating_tables_keep_the_order_of_the_log() -> None:
    messages = transaction(
        9,
        described(ORDERS),
        described(ITEMS),
        insert(ORDERS, b"1", b"a"),
        insert(ITEMS, b"2", b"1", b"x"),
        delete(ORDERS, key=(b"1", None)),
        update(ITEMS, b"2", b"1", UNCHANGED),
    )
    orders, items = decode(decoder(), messages)
    assert rows_of([orders]) == [
        Row(relation=ORDERS, op="I", lsn=9, seq=1, new=(b"1", b"a")),
        Row(relation=ORDERS, op="D", lsn=9, seq=3, old=(b"1", None), old_kind="K"),
    ]
    assert rows_of([items]) == [
        Row(relation=ITEMS, op="I", lsn=9, seq=2, new=(b"2", b"1", b"x")),
        Row(relation=ITEMS, op="U", lsn=9, seq=4, new=(b"2", b"1", UNCHANGED)),
    ]


def test_a_repeated_description_does_not_split_the_changes() -> None:
    (changes,) = changes_in(
        described(ORDERS), insert(ORDERS, b"1", b"a"), described(ORDERS), insert(ORDERS, b"2", b"b")
    )
    assert len(changes) == 2


def test_a_window_includes_its_first_lsn_and_excludes_its_end() -> None:
    messages = [begin(8), described(ORDERS), insert(ORDERS, b"8", b""), commit(8)]
    for lsn in (9, 10, 11, 12):
        messages += transaction(lsn, insert(ORDERS, b"%d" % lsn, b""))
    assert [row.lsn for row in decoded(messages, first=9, end=12)] == [9, 10, 11]
    assert decoded(messages, first=10, end=10) == []


def test_transactions_keep_their_xid_and_time() -> None:
    largest = 2**32 - 1
    before_2000 = YEAR_2000_US - 1
    messages = [
        begin(2**40, xid=largest, at_us=before_2000),
        described(ORDERS),
        insert(ORDERS, b"1", b""),
        commit(2**40, at_us=before_2000),
    ]
    (row,) = decoded(messages)
    assert (row.lsn, row.xid, row.committed_at) == (2**40, largest, before_2000)


def test_origins_types_and_logical_messages_are_not_changes() -> None:
    messages = [
        logical_message("heartbeat", b"outside of a transaction"),
        *transaction(
            9,
            origin("other server"),
            type_named(16_600, "mood"),
            described(ORDERS),
            logical_message("", b""),
            insert(ORDERS, b"1", b"a"),
        ),
    ]
    assert decoded(messages) == [Row(relation=ORDERS, op="I", lsn=9, seq=1, new=(b"1", b"a"))]


def test_a_row_of_1600_columns_is_decoded_among_narrow_rows() -> None:
    wide = relation("wide", [f"c{number}" for number in range(1600)], oid=17_000)
    values = [None if number % 7 == 0 else b"%d" % number for number in range(1600)]
    rows = rows_in(
        described(ORDERS),
        described(wide),
        insert(ORDERS, b"1", b"a"),
        insert(wide, *values),
        insert(ORDERS, b"2", b"b"),
    )
    assert [row.new for row in rows] == [(b"1", b"a"), tuple(values), (b"2", b"b")]


def test_the_schema_pg_catalog_is_sent_as_an_empty_text() -> None:
    table = relation(schema="")
    (row,) = rows_in(described(table), truncate(table))
    assert row.relation.schema == "pg_catalog"


def test_copy_rows_are_decoded_without_their_framing_bytes() -> None:
    messages = transaction(9, described(ORDERS), insert(ORDERS, b"1", b"a"))
    framed = [struct.pack(">hi", 1, len(message)) + message for message in messages]
    assert decoded(framed, skip=6) == decoded(messages)


def test_a_read_without_messages_has_no_changes() -> None:
    found = decoder()
    assert decode(found, []) == []
    found.finish()


def test_a_log_that_ends_within_a_transaction_is_refused() -> None:
    cut = decoder()
    decode(cut, transaction(9, described(ORDERS)))
    cut.finish()
    decode(cut, [begin(10)])
    with pytest.raises(SplitReadError, match="the log ends within a transaction, after message 4"):
        cut.finish()


SMALL = insert(1, b"x")
LARGE = insert(1, b"x" * 10_000)


def test_messages_keep_their_bytes_and_their_order() -> None:
    messages = [SMALL, LARGE, SMALL]
    block = MessageBlock(bytearray(b"".join(messages)), list(map(len, messages)), first_number=1, skip=0)
    assert [block.message(index) for index in range(len(block.kinds))] == messages


def test_an_error_counts_messages_from_the_start_of_the_read() -> None:
    block = MessageBlock(bytearray(SMALL * 2), [len(SMALL)] * 2, first_number=41, skip=0)
    assert [str(block.error(index, "wrong")).split()[1] for index in (0, 1)] == ["41", "42"]


OIDS = (1, 16_400, 2**32 - 1)
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.none(), st.just(UNCHANGED), st.binary(max_size=8), st.binary(min_size=250, max_size=600)
)
TABLES = st.builds(
    relation,
    name=st.sampled_from(["orders", "größe"]),
    columns=st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), max_size=4),
    oid=st.sampled_from(OIDS),
    identity=st.sampled_from("dnfi"),
)


@st.composite
def changes(draw: st.DrawFn, tables: dict[int, Relation]) -> bytes:
    table = draw(st.sampled_from(sorted(tables.values(), key=lambda known: known.oid)))
    row = st.lists(VALUES, min_size=len(table.columns), max_size=len(table.columns))
    kind = draw(st.sampled_from("IIIUUDT"))
    if kind == "I":
        return insert(table, *draw(row))
    if kind == "T":
        return truncate(*draw(st.lists(st.sampled_from(sorted(tables)), max_size=3)))
    before = draw(row)
    old_kind = draw(st.sampled_from(["key", "old"]))
    if kind == "D":
        return delete(table, key=before) if old_kind == "key" else delete(table, old=before)
    if draw(st.booleans()):
        return update(table, *draw(row))
    after = draw(row)
    return update(table, *after, key=before) if old_kind == "key" else update(table, *after, old=before)


@st.composite
def histories(draw: st.DrawFn) -> list[bytes]:
    """Draw the messages of some transactions, with descriptions of tables at any place."""
    messages: list[bytes] = []
    tables: dict[int, Relation] = {}
    for number in range(draw(st.integers(0, 6))):
        lsn = 100 * (number + 1)
        xid = draw(st.integers(0, 2**32 - 1))
        messages.append(begin(lsn, at_us=YEAR_2000_US + draw(st.integers(-5, 2**50)), xid=xid))
        for _ in range(draw(st.integers(0, 6))):
            kind = draw(st.sampled_from("RYOMcccccc"))
            if kind == "R" or (kind == "c" and not tables):
                table = draw(TABLES)
                tables[table.oid] = table
                messages.append(described(table))
            elif kind == "c":
                messages.append(draw(changes(tables)))
            else:
                messages.append(
                    {"Y": type_named(9, "mood"), "O": origin("n"), "M": logical_message("p", b"\0I")}[kind]
                )
        messages.append(commit(lsn))
    return messages


@given(data=st.data(), messages=histories())
def test_blocks_give_the_same_rows_as_single_messages(data: st.DataObject, messages: list[bytes]) -> None:
    first, end = data.draw(st.integers(0, 800)), data.draw(st.integers(0, 800))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(messages)), max_size=4)))
    blocks = [messages[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(messages)], strict=True)]
    assert decoded(*blocks, first=first, end=end) == read_one_by_one(messages, first, end)


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
