"""Reads the rows of COPY ... TO STDOUT, many at a time.

psycopg's own iteration takes more time per row than PostgreSQL needs to produce the row, so this loop gets
the rows from libpq directly.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flip27_source.enumerators.postgres.connection import Connection


@dataclass(frozen=True, slots=True)
class CopiedBlock:
    """Rows, concatenated."""

    data: bytearray
    lengths: list[int]


def copied_rows(
    connection: Connection, sql: str, parameters: Sequence[Any], *, most_rows: int, block_bytes: int = 8 << 20
) -> Iterator[CopiedBlock]:
    """The CopyData messages of a COPY statement in blocks; each message is one row.

    A block ends with the row that reaches one of the limits. If the iteration is not finished, close the
    connection: the server is still sending.

    Args:
        most_rows, block_bytes: the limits of a block.
        parameters: inserted into the text of the statement, because COPY takes no parameters.

    Raises:
        psycopg.Error: the server refused the statement or cancelled it.
    """
    import psycopg
    from psycopg import pq

    text = psycopg.ClientCursor(connection).mogrify(sql, list(parameters))
    pgconn = connection.pgconn
    result = pgconn.exec_(text.encode())
    if result.status != pq.ExecStatus.COPY_OUT:
        raise _error_of(result)
    get = pgconn.get_copy_data
    # select.select cannot wait for a socket with a file descriptor above 1023.
    arrival = select.poll()
    arrival.register(pgconn.socket, select.POLLIN)
    # Copy each row immediately: keeping every row in separate memory would cost more than the copy.
    data, lengths = bytearray(), []
    while True:
        count, row = get(1)
        if count > 0:
            data += row
            lengths.append(count)
            if len(data) >= block_bytes or len(lengths) >= most_rows:
                yield CopiedBlock(data, lengths)
                data, lengths = bytearray(), []
        elif count == 0:
            arrival.poll()
            pgconn.consume_input()
        else:
            break
    while (ended := pgconn.get_result()) is not None:
        if ended.status != pq.ExecStatus.COMMAND_OK:
            raise _error_of(ended)
    if lengths:
        yield CopiedBlock(data, lengths)


def _error_of(result: Any) -> Exception:
    """The error of a failed statement; libpq gives that of a lost connection no code."""
    import psycopg
    from psycopg.errors import error_from_result

    error = error_from_result(result, encoding="utf-8")
    return error if error.sqlstate is not None else psycopg.OperationalError(str(error))
