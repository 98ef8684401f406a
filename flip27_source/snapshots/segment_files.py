"""The stored form of a segment: eight bytes of size, then zstd. Pure functions over bytes."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from ..errors import CorruptStateError

_SIZE_BYTES = 8
_LARGEST_SEGMENT_BYTES = 4 << 30
_CHUNK_BYTES = 1 << 20


def pack_segment(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return len(data).to_bytes(_SIZE_BYTES, "big") + packed


def most_packed_bytes(size: int | None) -> int | None:
    """Maximum size of the file of a segment of ``size`` bytes; None if the size is not known."""
    # Incompressible data grows by less than this (ZSTD_compressBound).
    return None if size is None else _SIZE_BYTES + size + (size >> 7) + (128 << 10)


def unpack_segment(name: str, stored: bytes, size: int | None = None) -> bytes:
    """The data that :func:`pack_segment` packed.

    Args:
        size: size of the segment according to the document; None if the document does not contain it.

    Raises:
        CorruptStateError: the file is truncated or altered, or its size is wrong.
    """
    try:
        return bytes(pa.decompress(stored[_SIZE_BYTES:], _size_of(stored, size), codec="zstd", asbytes=True))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(name, stored, error) from error


def check_packed(name: str, stored: bytes, size: int | None) -> int:
    """Check the file of a segment against the digest in its name, chunk by chunk; return the data's size.

    Raises:
        CorruptStateError: as for :func:`unpack_segment`, or the content does not match the name.
    """
    digest, read = hashlib.sha256(), 0
    try:
        expected = _size_of(stored, size)
        with pa.CompressedInputStream(pa.py_buffer(stored)[_SIZE_BYTES:], "zstd") as stream:
            while read <= expected and (chunk := stream.read(_CHUNK_BYTES)):
                digest.update(chunk)
                read += len(chunk)
        if read != expected:
            raise ValueError(f"its size is not the {expected} bytes in its header")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(name, stored, error) from error
    if not digest.hexdigest().startswith(name.partition(".")[0]):
        raise CorruptStateError(f"the content of segment {name} does not match the digest in its name")
    return read


def _size_of(stored: bytes, size: int | None) -> int:
    in_header = int.from_bytes(stored[:_SIZE_BYTES], "big")
    if len(stored) < _SIZE_BYTES or in_header > _LARGEST_SEGMENT_BYTES:
        raise ValueError("its header is damaged")
    if size is not None and in_header != size:
        raise ValueError(f"its header says {in_header} bytes, its document {size} bytes")
    return in_header


def _damaged(name: str, stored: bytes, error: Exception) -> CorruptStateError:
    return CorruptStateError(
        f"segment {name} cannot be unpacked (its file has {len(stored)} bytes): {error}",
        remedy="restore the file from a backup of the state location, or restart from an "
        "older checkpoint or a savepoint",
    )
