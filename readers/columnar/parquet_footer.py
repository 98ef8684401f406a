"""Rewrites Parquet footers whose lists Arrow does not accept; the values stay the same.

Spark's ``writeLegacyFormat`` stores a list without nulls as a repeated group. If its elements are lists
too, that group is also marked as a list. Arrow accepts this only if the inner elements cannot be null. This
module rewrites such a group to the current format: a repeated group with a required list inside. A required
group adds no level, so the column data stays unchanged. The only I/O is reading the footer.
"""

from __future__ import annotations

import io
import struct
from typing import Any

from flip27_source.readers.columnar.varints import exactly, signed, varint

_MAGIC = b"PAR1"
_TAIL_BYTES = 8
_BINARY, _LIST, _SET, _STRUCT = 8, 9, 10, 12
_FIXED_BYTES = {1: 0, 2: 0, 3: 1, 7: 8}
_SCHEMA = 2
_REPETITION, _CONVERTED_TYPE = 3, 6
_REPEATED, _CONVERTED_TO_LIST = b"\x04", b"\x06"
_REQUIRED = b"\x00"
_REPEATED_GROUP_OF_ONE = b"\x35\x04\x18\x04list\x15\x02\x00"
"""The schema element of a repeated group with the name list and one child."""


def with_plain_lists(source: Any) -> bytes | None:
    """A file with only the footer of this file, in the current list format; None if it is damaged.

    Args:
        source: the file, as Arrow reads it; its position is changed.
    """
    footer = _footer(source)
    if footer is None:
        return None
    try:
        rewritten = _with_plain_lists(footer)
    except (ValueError, EOFError, RecursionError):
        return None
    return _MAGIC + rewritten + struct.pack("<I", len(rewritten)) + _MAGIC


def _footer(source: Any) -> bytes | None:
    length = source.seek(0, 2)
    if length < _TAIL_BYTES:
        return None
    source.seek(length - _TAIL_BYTES)
    tail = bytes(source.read(_TAIL_BYTES))
    (size,) = struct.unpack("<I", tail[:4])
    if tail[4:] != _MAGIC or size > length - _TAIL_BYTES:
        return None
    source.seek(length - _TAIL_BYTES - size)
    return bytes(source.read(size))


def _with_plain_lists(footer: bytes) -> bytes:
    thrift = _Compact(footer)
    rewritten = footer
    for number, kind in thrift.fields():
        start = thrift.position
        if number == _SCHEMA and kind == _LIST:
            elements = [part for element in thrift.structs() for part in _with_plain_list(element)]
            schema = _list_header_of(len(elements)) + b"".join(elements)
            rewritten = footer[:start] + schema + footer[thrift.position :]
        else:
            thrift.skip(kind)
    return rewritten


def _with_plain_list(element: bytes) -> list[bytes]:
    """The schema element unchanged, or the two elements that mean the same to Arrow."""
    thrift = _Compact(element)
    values: dict[int, slice] = {}
    for number, kind in thrift.fields():
        start = thrift.position
        thrift.skip(kind)
        values[number] = slice(start, thrift.position)
    at = values.get(_REPETITION)
    if at is None or element[at] != _REPEATED:
        return [element]
    if _CONVERTED_TYPE not in values or element[values[_CONVERTED_TYPE]] != _CONVERTED_TO_LIST:
        return [element]
    return [_REPEATED_GROUP_OF_ONE, element[: at.start] + _REQUIRED + element[at.stop :]]


def _list_header_of(count: int) -> bytes:
    if count < 15:
        return bytes([count << 4 | _STRUCT])
    size = bytearray()
    while count > 0x7F:
        size.append(count & 0x7F | 0x80)
        count >>= 7
    return bytes([0xF0 | _STRUCT, *size, count])


class _Compact:
    """Parses data in Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._stream = io.BytesIO(data)

    @property
    def position(self) -> int:
        return self._stream.tell()

    def fields(self) -> Any:
        """The number and type of each field of a struct; the caller reads or skips each value."""
        number = 0
        while header := self._byte():
            delta, kind = header >> 4, header & 0x0F
            number = number + delta if delta else signed(varint(self._stream))
            yield number, kind

    def structs(self) -> list[bytes]:
        count, kind = self._list_header()
        if kind != _STRUCT:
            raise ValueError(f"a list of {kind}")
        encoded = []
        for _ in range(count):
            start = self.position
            self.skip(_STRUCT)
            encoded.append(self._data[start : self.position])
        return encoded

    def skip(self, kind: int, *, in_list: bool = False) -> None:
        if kind in _FIXED_BYTES:
            self._stream.seek(1 if in_list and kind < 3 else _FIXED_BYTES[kind], io.SEEK_CUR)
        elif kind in (4, 5, 6):
            varint(self._stream)
        elif kind == _BINARY:
            exactly(self._stream, varint(self._stream))
        elif kind in (_LIST, _SET):
            count, inner = self._list_header()
            for _ in range(count):
                self.skip(inner, in_list=True)
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        else:
            raise ValueError(f"a value of type {kind}")
        if self.position > len(self._data):
            raise ValueError("it ends within a value")

    def _list_header(self) -> tuple[int, int]:
        header = self._byte()
        count = header >> 4
        return varint(self._stream) if count == 15 else count, header & 0x0F

    def _byte(self) -> int:
        return exactly(self._stream, 1)[0]
