"""Numbers of variable length, as Avro, ORC, Parquet, Protobuf and Snappy store them: seven bits in a byte."""

from __future__ import annotations

from typing import BinaryIO

_MOST_BYTES = 10


def varint(stream: BinaryIO) -> int:
    """The next number.

    Raises:
        EOFError: the stream ends within it.
        ValueError: it has more than 10 bytes.
    """
    number = 0
    for shift in range(0, 7 * _MOST_BYTES, 7):
        byte = exactly(stream, 1)[0]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number
    raise ValueError("a number has more than 10 bytes")


def signed(number: int) -> int:
    """The number that is stored as this one in zigzag encoding."""
    return (number >> 1) ^ -(number & 1)


def exactly(stream: BinaryIO, size: int) -> bytes:
    """The next bytes. Raises EOFError if there are fewer."""
    data = stream.read(size)
    if len(data) < size:
        raise EOFError(f"the file ends after {len(data)} of {size} bytes")
    return data
