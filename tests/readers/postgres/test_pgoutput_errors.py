"""Messages that the decoder refuses, and its errors, which never contain data."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from flip27_source.errors import SplitReadError
from tests.readers.postgres.pgoutput_messages import (
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
from tests.readers.postgres.pgoutput_rows import decoded

ORDERS = relation()
INSERT = insert(ORDERS, b"secret", b"secret")


def refusal(*messages: bytes, before: Sequence[bytes] = (begin(9), described(ORDERS))) -> str:
    """The error of decoding a transaction with these messages."""
    with pytest.raises(SplitReadError) as caught:
        decoded([*before, *messages, commit(9)])
    assert "secret" not in str(caught.value)
    assert caught.value.remedy
    return caught.value.what


def test_an_unknown_kind_of_message_is_refused_with_its_position() -> None:
    assert (
        refusal(b"S" + bytes(8))
        == "message 3 of this read of the log: the kind of the message, 'S', is unknown"
    )
    assert r"'\x00', is unknown" in refusal(bytes(8))


def test_positions_count_from_the_first_block() -> None:
    with pytest.raises(SplitReadError, match="message 5 of this read"):
        decoded([begin(9), described(ORDERS)], [INSERT], [INSERT, b"?"])


def test_an_empty_message_is_refused() -> None:
    assert refusal(b"") == "message 3 of this read of the log: the message is empty"


def test_a_copy_row_shorter_than_its_frame_is_refused() -> None:
    for skip in (6, 60):
        with pytest.raises(SplitReadError, match="message 1 of this read of the log: the message is empty"):
            decoded([b"\0\1"], skip=skip)


MESSAGES = [
    commit(9), described(ORDERS), origin("other"), type_named(9, "mood"), logical_message("p", b"content"),
    INSERT, update(ORDERS, b"1", b"a"), delete(ORDERS, key=(b"1", None)),
]  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [
        *MESSAGES, begin(9), insert(ORDERS, None, b""), insert(ORDERS, b"1", None),
        update(ORDERS, b"1", b"a", key=(b"1", None)), update(ORDERS, b"1", b"a", old=(b"1", b"secret")),
        delete(ORDERS, old=(b"1", b"secret")), truncate(ORDERS, ORDERS),
    ],
    ids=lambda message: f"{message[:1].decode()}{len(message)}",
)  # fmt: skip
def test_a_message_is_refused_wherever_it_is_truncated(message: bytes) -> None:
    before = [described(ORDERS)] if message[:1] == b"B" else [begin(9), described(ORDERS)]
    for length in range(len(message)):
        said = refusal(message[:length], INSERT, before=before)
        assert said.startswith(f"message {len(before) + 1} "), (length, said)
        assert any(what in said for what in ("truncated", "is empty", "without", "not the length")), said


@pytest.mark.parametrize("message", [*MESSAGES, truncate(ORDERS)], ids=lambda message: message[:1].decode())
def test_a_message_with_bytes_after_its_end_is_refused(message: bytes) -> None:
    assert refusal(message + b"n").startswith("message 3 ")


def test_a_tuple_with_too_few_or_too_many_columns_is_refused() -> None:
    for values in ([b"secret"], [b"secret"] * 3):
        said = refusal(insert(ORDERS, *values))
        assert said.startswith("message 3 (I) of this read of the log, byte 6: a tuple of public.orders has ")
        assert said.endswith(f"{len(values)} columns; its table has 2")


def test_an_old_tuple_with_a_wrong_number_of_columns_is_refused() -> None:
    assert "(D) of this read of the log, byte 6: a tuple of public.orders has 1 col" in refusal(
        delete(ORDERS, key=(b"secret",))
    )


def test_a_length_beyond_the_message_is_refused_with_the_column() -> None:
    for length in (7, 2**31 - 1, 2**31, 2**32 - 1):
        message = INSERT[:9] + struct.pack(">I", length) + INSERT[13:]
        said = refusal(message, INSERT)
        assert "message 3 (I) of this read of the log, byte" in said
        assert "of public.orders" in said


def test_a_text_that_is_longer_than_its_message_is_refused_even_if_the_block_continues() -> None:
    message = INSERT[:-10] + struct.pack(">I", 7) + b"secret"
    assert refusal(message, INSERT) == (
        "message 3 (I) of this read of the log, byte 19: a tuple is truncated in column name of public.orders"
    )


def test_values_in_binary_form_or_of_an_unknown_kind_are_refused() -> None:
    in_binary, unknown = INSERT[:-11] + b"b" + INSERT[-10:], INSERT[:8] + b"x" + INSERT[9:]
    said = refusal(in_binary)
    assert said.startswith("message 3 (I) of this read of the log, byte 19: ")
    assert said.endswith("the value of column name of public.orders is in binary form")
    said = refusal(INSERT, unknown)
    assert said.startswith("message 4 (I) of this read of the log, byte 8: ")
    assert said.endswith("the value of column id of public.orders is of an unknown kind")


def test_a_change_of_a_table_without_a_description_is_refused() -> None:
    for message in (insert(77, b"1"), truncate(ORDERS, 77)):
        assert "the table with oid 77 was not described" in refusal(message)
    assert "the table with oid 16400 was not described" in refusal(
        INSERT, described(ORDERS), before=[begin(9)]
    )


def test_a_delete_without_an_old_tuple_is_refused() -> None:
    assert "byte 5: a delete of public.orders without an old tuple" in refusal(b"D" + INSERT[1:])


def test_an_update_or_insert_without_a_new_tuple_is_refused() -> None:
    only_old = b"U" + delete(ORDERS, key=(b"1", None))[1:]
    assert "a change of public.orders without a new tuple" in refusal(only_old, INSERT)
    assert "byte 5: a change of public.orders without a new tuple" in refusal(INSERT[:5] + b"K" + INSERT[6:])


def test_changes_outside_of_a_transaction_are_refused() -> None:
    for blocks in ([[described(ORDERS), INSERT]], [[described(ORDERS)], [INSERT, begin(9), commit(9)]]):
        with pytest.raises(SplitReadError, match=r"message 2 \(I\) .* outside of any transaction"):
            decoded(*blocks)
    between = [begin(9), described(ORDERS), commit(9), INSERT, begin(10), INSERT, commit(10)]
    for blocks in ([between], [between[:1], between[1:]], [between[:3], between[3:]]):
        with pytest.raises(SplitReadError, match=r"message 4 \(I\) .* outside of any transaction"):
            decoded(*blocks)


def test_begin_and_commit_must_alternate() -> None:
    messages = [begin(9), commit(9), commit(9), begin(10)]
    for cut in range(4):
        with pytest.raises(SplitReadError, match=r"message 3 \(C\) .* ends without a beginning"):
            decoded(messages[:cut], messages[cut:])
    messages = [begin(9), commit(9), begin(10), begin(11), commit(11)]
    for cut in range(4):
        with pytest.raises(SplitReadError, match=r"message 4 \(B\) .* begins inside another one"):
            decoded(messages[:cut], messages[cut:])
    with pytest.raises(SplitReadError, match=r"message 1 \(C\) .* a transaction ends without a beginning"):
        decoded([commit(9), begin(9)])


def test_a_commit_whose_lsn_differs_from_its_begin_is_refused() -> None:
    for blocks in ([[begin(2**32 + 10), commit(9)]], [[begin(2**32 + 10)], [commit(9)]]):
        with pytest.raises(SplitReadError, match=r"message 2 \(C\) .* does not end at the LSN 1/A"):
            decoded(*blocks)


def test_an_invalid_description_is_refused() -> None:
    name = described(relation("größe")).replace("ß".encode(), b"\xff")
    assert (
        "(R) of this read of the log: the description of a table is invalid: a name is not valid UTF-8"
        in refusal(name)
    )
    assert "its replica identity is b'z', not one of d, n, f, i" in refusal(described(relation(identity="z")))


def test_a_truncate_of_impossibly_many_tables_is_refused() -> None:
    message = truncate(ORDERS)
    assert "10 bytes are not the length of a TRUNCATE of 4294967295 tables" in refusal(
        message[:1] + b"\xff\xff\xff\xff" + message[5:]
    )


def test_tables_outside_of_the_window_may_be_unknown() -> None:
    assert decoded([begin(9), INSERT, commit(9)], first=10) == []
