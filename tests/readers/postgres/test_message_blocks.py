"""How messages are put into blocks."""

from __future__ import annotations

import pytest

from flip27_source.readers.postgres.message_blocks import MessageBlock, blocks_of
from tests.readers.postgres.pgoutput_messages import insert

SMALL = insert(1, b"x")
LARGE = insert(1, b"x" * 10_000)


def blocks(
    messages: list[bytes], *, block_bytes: int = 1 << 20, most_bytes: int = 1 << 30
) -> list[MessageBlock]:
    return list(blocks_of(messages, first_number=1, skip=0, block_bytes=block_bytes, most_bytes=most_bytes))


def messages_in(found: list[MessageBlock]) -> list[bytes]:
    return [block.message(index) for block in found for index in range(len(block.kinds))]


def test_messages_that_fit_are_in_one_block() -> None:
    (block,) = blocks([SMALL, LARGE, SMALL])
    assert messages_in([block]) == [SMALL, LARGE, SMALL]


@pytest.mark.parametrize("block_bytes", [1, 100, 1000])
def test_many_messages_are_cut_into_blocks_of_about_the_usual_size(block_bytes: int) -> None:
    messages = [SMALL] * 1000
    found = blocks(messages, block_bytes=block_bytes)
    assert messages_in(found) == messages
    assert max(block.data.size for block in found) <= block_bytes + len(SMALL) + 8


def test_a_block_of_several_messages_never_exceeds_the_maximum() -> None:
    messages = [SMALL, *[LARGE] * 20] * 100
    messages[:: len(messages) // 256 + 1] = [SMALL] * len(messages[:: len(messages) // 256 + 1])
    found = blocks(messages, most_bytes=30_000)
    assert messages_in(found) == messages
    assert max(block.data.size for block in found) <= 30_000
    assert len(found) < 1500


def test_a_message_beyond_the_maximum_is_a_block_of_its_own() -> None:
    found = blocks([SMALL, LARGE, LARGE, SMALL], most_bytes=5000)
    assert messages_in(found) == [SMALL, LARGE, LARGE, SMALL]
    assert all(len(block.kinds) == 1 for block in found if block.data.size > 5000)


def test_errors_name_the_number_of_a_message_in_all_blocks() -> None:
    for block_bytes, most_bytes in [(1, 1 << 30), (1 << 20, 30), (1 << 20, 1 << 30)]:
        numbers = [
            str(block.error(index, "wrong")).split()[1]
            for block in blocks([SMALL] * 5, block_bytes=block_bytes, most_bytes=most_bytes)
            for index in range(len(block.kinds))
        ]
        assert numbers == ["1", "2", "3", "4", "5"]
