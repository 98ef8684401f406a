"""The stream of events of the binary log, as the server sends it to a replica."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from flip27_source.enumerators.mysql import options as opts
from flip27_source.enumerators.mysql.connection import REMEDIES, Connection, ServerError, connect, rows_of
from flip27_source.enumerators.mysql.split import FIRST_IN_FILE, failovers_of, file_and_offset, position_of
from flip27_source.options import Options

_COM_BINLOG_DUMP = 0x12
_ENDS_AT_THE_END = 1
_WHOLE_PACKET = 0xFFFFFF
_OK, _END, _ERROR = 0x00, 0xFE, 0xFF
_HEADER = struct.Struct("<IBIIIH")
HEADER_BYTES = _HEADER.size
_PACKET_HEADER = struct.Struct("<I")
_READ_BYTES = 1 << 18
_CRC_BYTES = 4

ROTATE, FORMAT_DESCRIPTION, GTID = 4, 15, 162
NOT_IN_THE_LOG = 1236
"""The server's error for a position that its log does not have."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the log.

    Attributes:
        position, end: where it begins, and where the next event does.
        at_s: seconds since 1970 UTC.
        body: without the header and the checksum.
    """

    kind: int
    position: int
    end: int
    at_s: int
    server_id: int
    body: bytes


def events(connection: Connection, options: Options, *, log: str, position: int) -> Iterator[Event]:
    """The events of ``packets``, parsed."""
    file, _ = file_and_offset(log, position)
    file_starts = position >> 32 << 32
    has_crc = False
    for packet in packets(connection, options, log=log, position=position):
        at_s, kind, server_id, size, end, _ = _HEADER.unpack_from(packet)
        is_whole = zlib.crc32(packet[:-_CRC_BYTES]) == int.from_bytes(packet[-_CRC_BYTES:], "little")
        if kind == FORMAT_DESCRIPTION:
            has_crc = packet[-_CRC_BYTES - 1] == 1
        if has_crc and kind != ROTATE and not is_whole:
            raise ServerError(f"an event of {file} has a wrong checksum, before the position {end}")
        # The first event comes before the one that tells whether there are checksums.
        has_own = is_whole if kind == ROTATE else has_crc
        body = packet[HEADER_BYTES : -_CRC_BYTES if has_own else None]
        if kind == ROTATE:
            file = body[8:].decode()
            file_starts = position_of(file, 0, failovers=failovers_of(position))
            # The server sends this event in advance, too; then it has no position.
            yield Event(kind, file_starts | FIRST_IN_FILE, file_starts | FIRST_IN_FILE, at_s, server_id, body)
        else:
            yield Event(kind, file_starts | max(0, end - size), file_starts | end, at_s, server_id, body)


def file_began(options: Options, *, log: str, position: int) -> tuple[int, int] | None:
    """The file in which a position is, without its offset, and when the server began it, in seconds.

    A log that was deleted and begun anew has files of the same names, at another time.
    """
    with closing(connect(options)) as stream:
        found = events(stream, options, log=log, position=position)
        began = (event.at_s for event in found if event.kind == FORMAT_DESCRIPTION)
        at_s = next(began, None)
    return None if at_s is None else (position >> 32, at_s)


def packets(connection: Connection, options: Options, *, log: str, position: int) -> Iterator[bytes]:
    """The events as they are, with headers and checksums, from a position to the present end of the log.

    An event has to begin at the position. The connection cannot be used for anything else afterwards.

    Raises:
        ServerError: the server refuses; with the code ``NOT_IN_THE_LOG`` if it does not have the position.
    """
    rows_of(
        connection, "SET @master_binlog_checksum = @@global.binlog_checksum, @mariadb_slave_capability = 4"
    )
    file, offset = file_and_offset(log, position)
    command = struct.pack("<IHI", offset, _ENDS_AT_THE_END, 0) + file.encode()
    connection._execute_command(_COM_BINLOG_DUMP, command)
    connection._sock.settimeout(options[opts.READ_TIMEOUT])
    yield from _packets(connection)


def _packets(connection: Connection) -> Iterator[bytes]:
    """The events as the server sends them: in one packet each, or in several if they are long."""
    file, unpack = connection._rfile, _PACKET_HEADER.unpack_from
    data, at, begun = b"", 0, b""
    while True:
        stop = at + _PACKET_HEADER.size
        if stop <= len(data):
            stop += unpack(data, at)[0] & _WHOLE_PACKET
        if stop > len(data):
            lacks = stop - len(data)
            more = file.read1(_READ_BYTES) if lacks < _READ_BYTES else file.read(lacks)
            if not more:
                raise ServerError(
                    "the server has closed the connection while it sent its log",
                    remedy="nothing is lost: the task is repeated; if it happens again, see the server's log",
                )
            data, at = data[at:] + more, 0
            continue
        packet = begun + data[at + _PACKET_HEADER.size : stop]
        is_begun = stop - at - _PACKET_HEADER.size == _WHOLE_PACKET
        begun, at = (packet if is_begun else b""), stop
        if is_begun:
            continue
        if packet[0] == _OK:
            yield packet[1:]
        elif packet[0] == _ERROR:
            (code,) = struct.unpack_from("<H", packet, 1)
            said = packet[3:].decode("utf-8", "replace")
            raise ServerError(
                f"the server does not send its log: {said[6:]} [{code}]", remedy=REMEDIES.get(code), code=code
            )
        elif packet[0] == _END:
            return
