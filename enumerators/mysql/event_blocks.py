"""Parses the headers of many events of the binary log at once, as arrays. Pure.

What must not live here: the bodies of events.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flip27_source.enumerators.mysql.errors import ServerError
from flip27_source.enumerators.mysql.split import FIRST_IN_FILE, failovers_of, position_of, position_text
from flip27_source.snapshot_then_log.delivery import Int64s

Bytes = npt.NDArray[np.uint8]

ROTATE, FORMAT_DESCRIPTION, GTID = 4, 15, 162
_ANONYMOUS_GTID = 34
BEGINS = (GTID, _ANONYMOUS_GTID)
COMPRESSED = range(166, 172)
"""Events with compressed rows."""
BETWEEN = (3, ROTATE, FORMAT_DESCRIPTION, 26, 161, 163, 164)
"""Events that are in no transaction."""

_HEADER_BYTES, _CRC_BYTES = 19, 4
_RESIDUE = 0x2144DF1C
"""The CRC-32 of bytes that end with their own CRC-32."""
_MOST_BYTES, _LEAST_BYTES = 8 << 20, 64 << 10
PADDING = bytes(64)
"""Bytes after the events, so that a value can be looked for at their end, where a NULL has no bytes."""


class EventBlock(NamedTuple):
    """Events of one file of the log, one after the other.

    Attributes:
        follows: what comes after the block: ``begin``, another transaction; ``rest``, maybe that of its last
            transaction, because it is large; ``end``, nothing in this file.
        raw: the events, and what ``PADDING`` has; ``data`` are the same bytes.
        positions, ends: where each event begins, and where the next one does.
        at_s: seconds since 1970 UTC.
        starts, stops: where the body of each event is in ``raw``, without its header and checksum.
    """

    follows: str
    raw: bytes
    data: Bytes
    kinds: Bytes
    positions: Int64s
    ends: Int64s
    at_s: Int64s
    starts: Int64s
    stops: Int64s

    @property
    def begins(self) -> Int64s:
        """The events with which transactions begin, and statements that are none."""
        return np.flatnonzero(np.isin(self.kinds, BEGINS))

    def body(self, number: int) -> bytes:
        return self.raw[self.starts[number] : self.stops[number]]

    def files_began(self) -> list[tuple[int, int]]:
        """Of each file that begins, its position without an offset, and when the server began it."""
        is_first = self.kinds == FORMAT_DESCRIPTION
        return list(zip((self.positions[is_first] >> 32).tolist(), self.at_s[is_first].tolist(), strict=True))


def event_blocks(packets: Iterator[bytes], *, first: int, end: int) -> Iterator[EventBlock]:
    """The events in blocks that end between transactions, if these are not very large.

    Args:
        first: the position of the first event.
        end: events after this position are not needed: a block does not have many of them.

    Raises:
        ServerError: the checksum of an event is wrong.
    """
    found: list[bytes] = []
    size, most = 0, min(_MOST_BYTES, max(_LEAST_BYTES, end - first))
    file, crc_bytes = first >> 32 << 32, 0
    for packet in packets:
        kind = packet[4]
        if kind in (ROTATE, FORMAT_DESCRIPTION):
            if found:
                yield _block(found, file, crc_bytes, follows="end")
            found, size = [], 0
            if kind == ROTATE:
                # The first event comes before the one that tells whether there are checksums.
                name = packet[_HEADER_BYTES + 8 : -_CRC_BYTES if zlib.crc32(packet) == _RESIDUE else None]
                file = position_of(name.decode(), 0, failovers=failovers_of(first))
            else:
                crc_bytes = _CRC_BYTES * (packet[-_CRC_BYTES - 1] == 1)
        found.append(packet)
        size += _weight(packet)
        if size >= most:
            last = next((at for at in range(len(found) - 1, 0, -1) if found[at][4] in BEGINS), None)
            if last is None and size < _MOST_BYTES:
                # It is one transaction, whose end may undo it.
                most = min(_MOST_BYTES, 2 * size)
                continue
            block = _block(found[:last], file, crc_bytes, follows="rest" if last is None else "begin")
            found = [] if last is None else found[last:]
            size = sum(map(_weight, found))
            most = min(_MOST_BYTES, max(_LEAST_BYTES, end - int(block.ends[-1])))
            yield block
    if found:
        yield _block(found, file, crc_bytes, follows="end")


def _weight(packet: bytes) -> int:
    """The bytes of an event as far as they count: of a compressed one more, but not all that it may become.

    All rows of a block together have less than 2 GB: zlib compresses to no less than a 1,032nd.
    """
    return len(packet) << 4 * (packet[4] in COMPRESSED)


def _block(packets: Sequence[bytes], file: int, crc_bytes: int, *, follows: str) -> EventBlock:
    raw = b"".join([*packets, PADDING])
    data = np.frombuffer(raw, np.uint8)
    stops = np.cumsum(np.fromiter(map(len, packets), np.int64))
    starts = np.append(0, stops[:-1])
    kinds = data[starts + 4]
    is_rotate = kinds == ROTATE
    ends = file | numbers_at(data, starts + 13, 4)
    positions = np.maximum(file, ends - numbers_at(data, starts + 9, 4))
    if crc_bytes:
        is_wrong = (np.fromiter(map(zlib.crc32, packets), np.int64) != _RESIDUE) & ~is_rotate
        if is_wrong.any():
            where = position_text(int(ends[is_wrong.argmax()]))
            raise ServerError(f"an event of the log has a wrong checksum, before the position {where}")
    # The server sends the event also in advance; then it has no position.
    positions[is_rotate] = ends[is_rotate] = file | FIRST_IN_FILE
    at_s = numbers_at(data, starts, 4)
    starts, stops = starts + _HEADER_BYTES, stops - crc_bytes
    return EventBlock(follows, raw, data, kinds, positions, ends, at_s, starts, stops)


def numbers_at(data: Bytes, at: Int64s, size: int, *, is_big_endian: bool = False) -> Int64s:
    """The unsigned numbers of ``size`` bytes at these positions; those of eight bytes wrap around."""
    if size == 1:
        return data[at].astype(np.int64)
    # A view of the eight bytes at every position.
    eights = np.ndarray(len(data) - 7, ">u8" if is_big_endian else "<u8", data, strides=1)
    words = eights[at].astype(np.uint64)
    numbers = words >> (64 - 8 * size) if is_big_endian else words & ((1 << 8 * size) - 1)
    return numbers.view(np.int64)
