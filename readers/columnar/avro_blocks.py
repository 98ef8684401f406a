"""The blocks of an Avro object container file and their positions: header, framing, compression.

What must not live here: the content of blocks.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.readers.columnar.varints import exactly, signed, varint
from flip27_source.readers.files.input import damaged

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_FIRST_SEARCH_BYTES = 1 << 16
_MOST_SEARCH_BYTES = 16 << 20
_MOST_HEADER_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroHeader:
    """The header of a file.

    Attributes:
        schema: the writer's schema, as JSON.
        sync: the mark that follows each block.
        end: position of the first block.
    """

    schema: Any
    codec: str
    sync: bytes
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroBlock:
    """Some records.

    Attributes:
        position: the position of the block in the file.
        records: the number of records in ``data``.
    """

    position: int
    records: int
    data: bytes


def read_header(stream: BinaryIO, path: str) -> AvroHeader:
    """Read the header from ``stream`` at position 0; afterwards ``stream`` is at the first block."""
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise damaged(path, "byte 0: the file does not start like an Avro file")
    try:
        meta: dict[str, bytes] = {}
        while count := signed(varint(stream)):
            if count < 0:  # a negative count is followed by the size of the block
                varint(stream)
            for _ in range(abs(count)):
                name = _sized(stream).decode()
                meta[name] = _sized(stream)
        sync = exactly(stream, _SYNC_BYTES)
        schema = json.loads(meta["avro.schema"])
    except (EOFError, KeyError, ValueError, RecursionError) as error:
        raise damaged(path, f"its header, up to byte {stream.tell()}: {error!r}") from None
    codec = meta.get("avro.codec", b"null").decode(errors="replace")
    if codec not in _CODECS:
        raise damaged(path, f"its codec {codec!r} is not supported; supported are {', '.join(_CODECS)}")
    return AvroHeader(schema=schema, codec=codec, sync=sync, end=stream.tell())


def blocks_of(stream: BinaryIO, header: AvroHeader, split: FileSplit) -> Iterator[AvroBlock]:
    """The blocks that start in the range of ``split``."""
    decompress = _CODECS[header.codec]
    position = header.end
    if split.start > header.end:
        position = _first_block(stream, header, split)
    stream.seek(position)
    while position < split.length and (split.end is None or position < split.end):
        try:
            records, size = _block_header(stream, position, split)
            stored = exactly(stream, size)
            _check_mark(stream, header)
        except (EOFError, ValueError) as error:
            raise damaged(split.path, f"block at byte {position}: {error}") from None
        try:
            data = decompress(stored)
        except (ValueError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            raise damaged(split.path, f"block at byte {position}: {error}") from None
        yield AvroBlock(position=position, records=records, data=data)
        position = stream.tell()


def _first_block(stream: BinaryIO, header: AvroHeader, split: FileSplit) -> int:
    """The position of the first block in the range: the end of the block that reaches into it.

    Searching the first mark in the range would be wrong if one before it is damaged: the blocks in between
    would belong to no range. So the block that reaches into the range must end with its mark.
    """
    position = _last_block(stream, header, split.start)
    if position == split.start:
        return position
    stream.seek(position)
    try:
        _, size = _block_header(stream, position, split)
        stream.seek(stream.tell() + size)
        _check_mark(stream, header)
    except (EOFError, ValueError) as error:
        where = f"block at byte {position}, which ends in the range from byte {split.start} on"
        raise damaged(split.path, f"{where}: {error}") from None
    return stream.tell()


def _last_block(stream: BinaryIO, header: AvroHeader, end: int) -> int:
    """The position of the last block that starts up to ``end``, found by the mark before it."""
    start, size, after = end, _FIRST_SEARCH_BYTES, b""
    while start > header.end:
        size = min(size, start - header.end)
        start -= size
        stream.seek(start)
        window = stream.read(size) + after
        at = window.rfind(header.sync)
        if at >= 0:
            return start + at + _SYNC_BYTES
        after = window[: _SYNC_BYTES - 1]
        size = min(4 * size, _MOST_SEARCH_BYTES)
    return header.end


def _block_header(stream: BinaryIO, position: int, split: FileSplit) -> tuple[int, int]:
    """The number of records and of bytes of the block at ``position``."""
    records = signed(varint(stream))
    size = signed(varint(stream))
    if records < 0 or not 0 <= size <= split.length - position:
        raise ValueError(f"a block of {records} records in {size} bytes")
    return records, size


def _check_mark(stream: BinaryIO, header: AvroHeader) -> None:
    if exactly(stream, _SYNC_BYTES) != header.sync:
        raise ValueError("the block does not end with the mark of this file")


def _sized(stream: BinaryIO) -> bytes:
    size = signed(varint(stream))
    if not 0 <= size <= _MOST_HEADER_BYTES:
        raise ValueError(f"a header field of {size} bytes")
    return exactly(stream, size)


def _snappy(stored: bytes) -> bytes:
    size = varint(io.BytesIO(stored))
    data = bytes(pa.decompress(stored[:-4], size, codec="snappy", asbytes=True))
    if zlib.crc32(data) != int.from_bytes(stored[-4:], "big"):
        raise ValueError("its checksum does not match")
    return data


def _zstandard(stored: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(stored), "zstd") as stream:
        return bytes(stream.read())


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda stored: stored,
    "deflate": lambda stored: zlib.decompress(stored, -15),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
}
