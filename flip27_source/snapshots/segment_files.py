"""The stored form of a segment: eight bytes of size, then zstd. Pure functions over bytes."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from ..errors import CorruptStateError

_SIZE_BYTES = 8
_LARGEST_SEGMENT_BYTES = 4 << 30
_CHUNK_BYTES = 1 << 20


def pack_segment(data: bytes) -> bytes:
    """The bytes of the file that holds ``data``."""
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return len(data).to_bytes(_SIZE_BYTES, "big") + packed


def most_packed_bytes(size: int | None) -> int | None:
    """The most bytes that the file of a segment of ``size`` bytes can have; None where that is not known."""
    # What cannot be compressed grows by less than this (ZSTD_compressBound).
    return None if size is None else _SIZE_BYTES + size + (size >> 7) + (128 << 10)


def unpack_segment(name: str, stored: bytes, size: int | None = None) -> bytes:
    """What :func:`pack_segment` packed.

    Args:
        size: how many bytes the document says that the segment has; None where it does not say.

    Raises:
        CorruptStateError: the file is cut off or altered, or holds another number of bytes.
    """
    try:
        found = _size_of(stored, size)
        return bytes(pa.decompress(stored[_SIZE_BYTES:], found, codec="zstd", asbytes=True))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(name, stored, error) from error


def check_packed(name: str, stored: bytes, size: int | None) -> int:
    """Check the file of a segment against its name, piece by piece; how many bytes it holds.

    Raises:
        CorruptStateError: as :func:`unpack_segment`, or its content is not what its name promises.
    """
    digest, read = hashlib.sha256(), 0
    try:
        found = _size_of(stored, size)
        with pa.CompressedInputStream(pa.py_buffer(stored)[_SIZE_BYTES:], "zstd") as stream:
            while read <= found and (chunk := stream.read(_CHUNK_BYTES)):
                digest.update(chunk)
                read += len(chunk)
        if read != found:
            raise ValueError(f"it holds another number of bytes than the {found} that its header says")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(name, stored, error) from error
    if not digest.hexdigest().startswith(name.partition(".")[0]):
        raise CorruptStateError(f"segment {name} does not hold the bytes that its name promises")
    return read


def _size_of(stored: bytes, size: int | None) -> int:
    found = int.from_bytes(stored[:_SIZE_BYTES], "big")
    if len(stored) < _SIZE_BYTES or found > _LARGEST_SEGMENT_BYTES:
        raise ValueError("its header is damaged")
    if size is not None and found != size:
        raise ValueError(f"it would have {found} bytes, and has {size} bytes according to its document")
    return found


def _damaged(name: str, stored: bytes, error: Exception) -> CorruptStateError:
    return CorruptStateError(
        f"segment {name} cannot be unpacked ({len(stored)} bytes are there): {error}",
        remedy="restore the file from a backup of the state location, or restart from an "
        "older checkpoint or a savepoint",
    )
