"""Reads a window of the log: blocks of pgoutput's messages, which stay in the slot."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from typing import Any, TypeVar

from flip27_source.enumerators.postgres.connection import Connection
from flip27_source.enumerators.postgres.server import OBJECT_IN_USE
from flip27_source.enumerators.postgres.split import lsn_text
from flip27_source.enumerators.postgres.table_patterns import quoted
from flip27_source.errors import SplitReadError
from flip27_source.log import LOG
from flip27_source.readers.postgres.copied_rows import CopiedBlock, copied_rows

T = TypeVar("T")

THREAD = "flip27-produced-ahead"

_END: Any = object()


def produced_ahead(
    items: Generator[T, None, None], *, interrupt: Callable[[], None], most: int = 2
) -> Iterator[T]:
    """Yield the same items in the same order, and raise the same error at the end.

    A thread makes items while the items before them are used: Spark's JVM takes a batch while its Python
    worker waits, and vice versa, and while one long log is read, there is no other task that could use the
    processor in these pauses. The thread has ended when the iteration ends, even if it ends early.

    Args:
        interrupt: called if the iteration is left early; makes the generator fail soon if it is still
            working on an item.
        most: the maximum number of items that are made and not yet taken.
    """
    with closing(items), ThreadPoolExecutor(1, thread_name_prefix=THREAD) as thread:
        ahead = deque(thread.submit(next, items, _END) for _ in range(most))
        try:
            while (item := ahead.popleft().result()) is not _END:
                ahead.append(thread.submit(next, items, _END))
                yield item
        except (GeneratorExit, KeyboardInterrupt):
            for future in ahead:
                future.cancel()
            interrupt()
            raise


MESSAGES_PER_BLOCK = 196_608
BLOCK_BYTES = 4 << 20
"""Each column of a block is read in a separate pass, which is twice as fast if the block fits in a cache."""

FIELD_BYTES = 6
"""The bytes before the message in each row of COPY's binary format: the number of fields, and a length."""

_HEADER_BYTES = 19
_TRAILER = b"\xff\xff"
_POLL_S = 0.05


def log_blocks(
    connection: Connection, slot: str, publication: str, *, end: int, timeout_s: float
) -> Iterator[CopiedBlock]:
    """The rows of COPY, each with ``FIELD_BYTES`` bytes before its message.

    They contain the transactions up to ``end``, and maybe one more. Waits while another connection reads the
    slot, such as that of a killed attempt or of a speculative copy.

    Raises:
        SplitReadError: another connection still reads the slot after ``timeout_s``.
        psycopg.Error: the server refuses the statement or cancels it.
    """
    import psycopg

    # COPY takes no parameters, so psycopg writes them into the statement.
    sql = (
        "COPY (SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, NULL, 'proto_version', "
        "'1', 'publication_names', %s)) TO STDOUT (FORMAT binary)"
    )
    parameters = [slot, lsn_text(end), quoted(publication)]
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            blocks = copied_rows(
                connection, sql, parameters, most_rows=MESSAGES_PER_BLOCK, block_bytes=BLOCK_BYTES
            )
            first = next(blocks)
            first.lengths[0] -= _HEADER_BYTES
            del first.data[:_HEADER_BYTES]
            yield from _messages(chain([first], blocks))
            return
        except psycopg.Error as error:
            if error.sqlstate != OBJECT_IN_USE:
                raise
            if time.monotonic() > deadline:
                raise SplitReadError(
                    f"slot {slot} has been read by another connection for {timeout_s:.0f} s: "
                    f"{error.diag.message_primary}",
                    remedy="end the other reader (pg_terminate_backend), or give each query its own slotName",
                ) from None
            LOG.info("slot %s is read by another connection; waiting", slot)
            time.sleep(_POLL_S)


def _messages(blocks: Iterator[CopiedBlock]) -> Iterator[CopiedBlock]:
    for block in blocks:
        if block.data.endswith(_TRAILER) and block.lengths[-1] == len(_TRAILER):
            block.lengths.pop()
            del block.data[-len(_TRAILER) :]
        if block.lengths:
            yield block
