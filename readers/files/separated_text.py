"""Reads text that is not split at ordinary line ends: whole files, and lines with another separator.

The files must be whole, because only ordinary line ends define the start of a range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.options import Options
from flip27_source.readers.files.input import (
    MOST_BYTES,
    check_length,
    is_compressed,
    open_file,
    reading,
    too_large,
)
from flip27_source.readers.files.line_blocks import BOM, as_array, too_long
from flip27_source.readers.files.text_options import MAX_LINE_BYTES

_CHUNK_BYTES = 8 << 20
_CHECK = "check that lineSep ends the lines of the file; if it does"


def whole_text(split: FileSplit, options: Options) -> bytes:
    """The content of a file, decompressed."""
    with open_file(split, options) as stream, reading(split.path, options):
        if split.length > MOST_BYTES and not is_compressed(split.path):
            raise too_large(split)
        return b"".join(_pieces(split, stream, MOST_BYTES))


def separated_lines(splits: Iterable[FileSplit], separator: bytes, options: Options) -> Iterator[pa.Array]:
    """The lines of files as binary values, without separators."""
    for split in splits:
        with open_file(split, options) as stream, reading(split.path, options):
            yield from _lines(split, stream, separator, options[MAX_LINE_BYTES])


def _lines(split: FileSplit, stream: BinaryIO, separator: bytes, longest: int) -> Iterator[pa.Array]:
    position = 0
    line: list[bytes] = []
    line_bytes = 0
    edge = b""
    for piece in _pieces(split, stream, None):
        if not position and not line and piece.startswith(BOM):
            position = len(BOM)
            piece = piece[position:]
        line.append(piece)
        line_bytes += len(piece)
        # A separator may have started before the piece. Bytes already searched are not searched again.
        edge += piece
        if separator in edge:
            data = b"".join(line)
            lines = pc.split_pattern(as_array(data), separator).values
            if len(data) > longest:
                _check(split, lines[:-1], separator, position, longest)
            yield lines[:-1]
            line_bytes = pc.binary_length(lines[-1]).as_py()
            edge = data[len(data) - line_bytes :]
            line = [edge]
            position += len(data) - line_bytes
        if line_bytes > longest:
            raise too_long(split, position, longest, check=_CHECK)
        edge = edge[len(edge) - min(len(edge), len(separator) - 1) :]
    if line_bytes:
        yield as_array(b"".join(line))


def _check(split: FileSplit, lines: pa.Array, separator: bytes, position: int, longest: int) -> None:
    sizes = pc.binary_length(lines)
    if (pc.max(sizes).as_py() or 0) > longest:
        at = pc.index(pc.greater(sizes, pa.scalar(longest, pa.int64())), True).as_py()
        before = pc.sum(sizes[:at]).as_py() or 0
        raise too_long(split, position + before + at * len(separator), longest, check=_CHECK)


def _pieces(split: FileSplit, stream: BinaryIO, most: int | None) -> Iterator[bytes]:
    size = 0
    while piece := stream.read(_CHUNK_BYTES):
        size += len(piece)
        if most is not None and size > most:
            raise too_large(split)
        yield piece
    if not is_compressed(split.path):
        check_length(split, size)
