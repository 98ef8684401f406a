"""The events of the binary log, as the server sends them to a replica."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import takewhile

from flip27_source.enumerators.mysql.connection import Connection, connect, doing, imported, rows_of
from flip27_source.enumerators.mysql.event_blocks import BEGINS, BETWEEN, GTID, EventBlock, event_blocks
from flip27_source.enumerators.mysql.split import FIRST_IN_FILE, file_and_offset
from flip27_source.options import Options

_ENDS_AT_THE_END = 1


def log_blocks(
    connection: Connection, options: Options, *, log: str, first: int, end: int = 0
) -> Iterator[EventBlock]:
    """The events from a position, at which one has to begin, to the present end of the log.

    The connection cannot be used for anything else afterwards.

    Args:
        end: events after this position are not needed.

    Raises:
        NotInTheLogError: the server does not have the position.
        ServerError: the server refuses.
    """
    return event_blocks(_events(connection, options, *file_and_offset(log, first)), first=first, end=end)


def file_began(options: Options, *, log: str, position: int) -> int:
    """When the server began the file in which a position is, in seconds since 1970 UTC.

    A log that was deleted and begun anew has files of the same names, at another time.
    """
    with connect(options) as stream:
        found = log_blocks(stream, options, log=log, first=position >> 32 << 32 | FIRST_IN_FILE)
        return next(at_s for block in found for _, at_s in block.files_began())


def begin_of(options: Options, *, log: str, position: int) -> int:
    """Where the transaction begins within which a position is; the position if it is within none."""
    with connect(options) as stream:
        after = log_blocks(stream, options, log=log, first=position)
        kinds = (kind for block in after for kind in block.kinds.tolist() if kind not in BETWEEN)
        if next(kinds, GTID) in BEGINS:
            return position
    with connect(options) as stream:
        file = log_blocks(stream, options, log=log, first=position >> 32 << 32 | FIRST_IN_FILE, end=position)
        before = takewhile(lambda block: block.positions[0] < position, file)
        begins = (begin for block in before for begin in block.positions[block.begins].tolist())
        return max(int(begin) for begin in begins if begin < position)


def _events(connection: Connection, options: Options, file: str, offset: int) -> Iterator[bytes]:
    """The events as they are, with headers and checksums."""
    command = struct.pack("<IHI", offset, _ENDS_AT_THE_END, 0) + file.encode()
    with doing(options, "reading the log"):
        rows_of(
            connection,
            "SET @master_binlog_checksum = @@global.binlog_checksum, @mariadb_slave_capability = 4",
        )
        connection._execute_command(imported().constants.COMMAND.COM_BINLOG_DUMP, command)
        while not (packet := connection._read_packet()).is_eof_packet():
            yield packet.get_all_data()[1:]
