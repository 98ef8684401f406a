"""The events of the binary log, as the server sends them to a replica."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import takewhile

from flip27_source.enumerators.mysql import options as opts
from flip27_source.enumerators.mysql.connection import Connection, connect, doing, imported, rows_of
from flip27_source.enumerators.mysql.errors import ServerError
from flip27_source.enumerators.mysql.event_blocks import BEGINS, BETWEEN, GTID, EventBlock, event_blocks
from flip27_source.enumerators.mysql.split import FIRST_IN_FILE, file_and_offset
from flip27_source.options import Options

_COM_BINLOG_DUMP = 0x12
_ENDS_AT_THE_END = 1
_WHOLE_PACKET = 0xFFFFFF
_OK, _END, _ERROR = 0x00, 0xFE, 0xFF
_BUFFER_BYTES = 1 << 18


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


def file_began(options: Options, *, log: str, position: int) -> tuple[int, int] | None:
    """The file in which a position is, without its offset, and when the server began it, in seconds.

    A log that was deleted and begun anew has files of the same names, at another time.
    """
    with connect(options) as stream:
        found = log_blocks(stream, options, log=log, first=position)
        return next((file for block in found for file in block.files_began()), None)


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
        connection._execute_command(_COM_BINLOG_DUMP, command)
        connection._sock.settimeout(options[opts.READ_TIMEOUT])
        for packet in _packets(connection):
            if packet[0] == _OK:
                yield packet[1:]
            elif packet[0] == _ERROR:
                imported().err.raise_mysql_exception(packet)
            elif packet[0] == _END:
                return


def _packets(connection: Connection) -> Iterator[bytes]:
    """What the server sends; a long event is in several packets."""
    with connection._sock.makefile("rb", _BUFFER_BYTES) as stream:
        begun = b""
        while True:
            header = stream.read(4)
            size = int.from_bytes(header[:3], "little")
            packet = stream.read(size)
            if len(header) < 4 or len(packet) < size:
                raise ServerError(
                    "the server has closed the connection while it sent its log",
                    remedy="nothing is lost: the task is repeated; if it happens again, see the server's log",
                )
            begun += packet
            if size < _WHOLE_PACKET:
                yield begun
                begun = b""
