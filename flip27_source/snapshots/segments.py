"""The stored form of a segment: eight bytes of size, then zstd. Pure functions over bytes."""

from __future__ import annotations

import pyarrow as pa

from ..errors import CorruptStateError
from ..segment import Segment

_SIZE_BYTES = 8
_LARGEST_SEGMENT_BYTES = 4 << 30


def pack_segment(data: bytes) -> bytes:
    """The bytes of the file that holds ``data``."""
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return len(data).to_bytes(_SIZE_BYTES, "big") + packed


def unpack_segment(name: str, stored: bytes) -> bytes:
    """What :func:`pack_segment` packed.

    Raises:
        CorruptStateError: the file is cut off or altered.
    """
    size = int.from_bytes(stored[:_SIZE_BYTES], "big")
    try:
        if len(stored) < _SIZE_BYTES or size > _LARGEST_SEGMENT_BYTES:
            raise ValueError("its header is damaged")
        return bytes(pa.decompress(stored[_SIZE_BYTES:], size, codec="zstd", asbytes=True))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptStateError(
            f"segment {name} cannot be unpacked ({len(stored)} bytes are there): {error}",
            remedy="restore the file from a backup of the state location, or restart from an "
            "older checkpoint or a savepoint",
        ) from error


def check_segment(name: str, stored: bytes) -> None:
    """Raise CorruptStateError unless the file of a segment holds the bytes that its name promises."""
    Segment(name, data=None, load=lambda _: unpack_segment(name, stored)).data  # noqa: B018 - reading checks
