"""Messages are collected in blocks."""

from __future__ import annotations

from flip27_source.readers.postgres.message_blocks import block_of
from tests.readers.postgres.pgoutput_messages import insert

SMALL = insert(1, b"x")
LARGE = insert(1, b"x" * 10_000)


def test_messages_keep_their_bytes_and_their_order() -> None:
    messages = [SMALL, LARGE, SMALL]
    block = block_of(bytearray(b"".join(messages)), list(map(len, messages)), first_number=1, skip=0)
    assert [block.message(index) for index in range(len(block.kinds))] == messages


def test_an_error_counts_messages_from_the_start_of_the_read() -> None:
    block = block_of(bytearray(SMALL * 2), [len(SMALL)] * 2, first_number=41, skip=0)
    assert [str(block.error(index, "wrong")).split()[1] for index in (0, 1)] == ["41", "42"]
