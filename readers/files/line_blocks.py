"""Reads file splits as blocks of whole lines, for the JSON, CSV and text readers.

A block is about 16 MiB of lines, from one large file or from many small files: parsing a thousand tiny
files one by one costs far more than parsing them joined. What must not live here: the content of lines.

Lines are those of Hadoop's LineRecordReader: ``\n``, ``\r\n`` and a lone ``\r`` end a line, and a byte
order mark at the start of a file is not part of the line. A line belongs to the range that contains its
first byte, so the ranges of a file give every line exactly once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from io import FileIO
from itertools import accumulate, pairwise
from typing import BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SplitReadError
from flip27_source.options import Options
from flip27_source.readers.files.input import (
    CorruptFileError,
    Fetched,
    check_length,
    is_compressed,
    open_file,
    read_whole,
    reading,
    refuse_unknown_compression,
)
from flip27_source.readers.files.read_ahead import SMALL_BYTES, fetched_ahead
from flip27_source.readers.files.text_options import MAX_LINE_BYTES

BLOCK_BYTES = 16 << 20
SAMPLE_BYTES = 1 << 20
"""The size of the sample of a file for schema inference."""

BOM = b"\xef\xbb\xbf"
_SLACK_BYTES = 1 << 16
_MOST_BYTES = (1 << 31) - 2
"""The most bytes that Arrow's parsers accept at once."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BLANK_LINE = rb"[\x00-\x09\x0b-\x20]*\n"
BLANKS = bytes(range(0x21))
"""The characters that Java's String.trim removes."""


class Place(NamedTuple):
    """The place of a line: the file, and the position of the line's first byte in it (decompressed)."""

    split: FileSplit
    position: int

    def __str__(self) -> str:
        return f"{self.split.path}, byte {self.position}"


class LinePart(NamedTuple):
    """The part of a block that comes from one split.

    Attributes:
        offset: the start of the part in the block.
        split: the split of the part.
        position: position in the file (decompressed) of the first byte of the part.
        raw: the original bytes of the part if line ends had to be rewritten.
        raw_offset: the start of the part in ``raw``.
    """

    offset: int
    split: FileSplit
    position: int
    raw: bytes | None = None
    raw_offset: int = 0


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Whole lines, each ending in a single newline byte.

    Attributes:
        data: the lines, with the bytes of the file; they are not checked to be UTF-8.
        parts: the split of each part of ``data``, in order.
    """

    data: bytes
    parts: tuple[LinePart, ...]

    def place(self, offset: int) -> Place:
        """The place of the line that starts at ``offset`` in ``data``."""
        part = self.parts[bisect_right(self.parts, offset, key=lambda part: part.offset) - 1]
        distance = offset - part.offset
        if part.raw is not None:
            lines = self.data.count(b"\n", part.offset, offset)
            distance = _end_of_lines(part.raw, part.raw_offset, lines) - part.raw_offset
        return Place(part.split, part.position + distance)

    def place_of_line(self, number: int) -> Place:
        """The place of line ``number`` of ``data``, counted from 0."""
        return self.place(_end_of_lines(self.data, 0, number))

    def splits_of_lines(self, numbers: Iterable[int]) -> list[FileSplit]:
        """The split of each of these lines, found in one pass through the block."""
        starts = [part.offset for part in self.parts]
        lines = (self.data.count(b"\n", *ends) for ends in pairwise(starts))
        lines_before = [0, *accumulate(lines)]
        return [self.parts[bisect_right(lines_before, number) - 1].split for number in numbers]


def _end_of_lines(data: bytes, start: int, lines: int) -> int:
    """Position just after the next ``lines`` lines of ``data`` from ``start`` on."""
    position = start
    for _, match in zip(range(lines), _LINE_END.finditer(data, start), strict=False):
        position = match.end()
    return position


def as_array(data: bytes) -> pa.Array:
    """A binary array with ``data`` as its only value, without a copy."""
    offsets = pa.array([0, len(data)], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(data)])


def lines_of(data: bytes) -> pa.Array:
    """The lines of a block as binary values without newlines."""
    return pc.split_pattern(as_array(data), "\n").values[:-1]


def line_blocks(
    splits: Iterable[FileSplit],
    options: Options,
    *,
    block_bytes: int = BLOCK_BYTES,
    drop_header: bool = False,
    comment: bytes = b"",
) -> Generator[LineBlock]:
    """All lines of ``splits``, in order, in blocks of about ``block_bytes``.

    Args:
        block_bytes: the target size; a longer line makes a larger block.
        drop_header: skip the first non-blank line of each file and the blank lines before it, in
            whichever range of the file it is.
        comment: the prefix of lines that are not a header either; empty for none.
    """
    pieces: list[bytes] = []
    parts: list[LinePart] = []
    size = 0
    # Up to the end of the first line that is neither blank nor a comment.
    passed = _BLANK_LINE if not comment else _BLANK_LINE + b"|" + re.escape(comment) + rb"[^\n]*\n"
    header_pattern = re.compile(rb"(?:" + passed + rb")*+[^\n]*\n")
    for split, fetched in fetched_ahead(splits, options, min(block_bytes, SMALL_BYTES)):
        header_due = drop_header and not _has_header_before(split, options, header_pattern)
        for position, raw in _aligned_chunks(split, options, block_bytes, fetched):
            if len(raw) > options[MAX_LINE_BYTES]:
                _check_lines(split, position, raw, options[MAX_LINE_BYTES])
            start = 3 if position == 0 and raw.startswith(BOM) else 0
            if start == len(raw):
                continue
            lines = _normalised(raw)
            end_of_header = start
            if header_due:
                header = header_pattern.match(lines, start)
                header_due = header is None
                end_of_header = len(lines) if header is None else header.end()
            if end_of_header == len(lines):
                continue
            parts.append(_part(size, split, position, raw, lines, end_of_header))
            piece = lines[end_of_header:] if end_of_header else lines
            pieces.append(piece)
            size += len(piece)
            if size >= block_bytes // 2:  # a whole chunk of a large file becomes a separate block
                yield _block(pieces, parts)
                pieces, parts, size = [], [], 0
    if pieces:
        yield _block(pieces, parts)


def _has_header_before(split: FileSplit, options: Options, header_pattern: re.Pattern[bytes]) -> bool:
    """True if the header of the file starts before the range."""
    if split.start == 0:
        return False
    before = replace(split, start=0, end=split.start)
    return any(
        header_pattern.match(_normalised(raw), 3 if position == 0 and raw.startswith(BOM) else 0)
        for position, raw in _aligned_chunks(before, options, _SLACK_BYTES, None)
    )


def first_lines(split: FileSplit, options: Options) -> bytes:
    """The first lines of a file, about 1 MiB, as in a block; empty if the file has no lines."""
    blocks = line_blocks([split], options, block_bytes=SAMPLE_BYTES)
    block = next(blocks, None)
    blocks.close()
    return b"" if block is None else block.data


def _part(offset: int, split: FileSplit, position: int, raw: bytes, lines: bytes, dropped: int) -> LinePart:
    if b"\r" not in raw:
        return LinePart(offset, split, position + dropped)
    raw_start = _end_of_lines(raw, 0, lines.count(b"\n", 0, dropped)) or (3 if dropped else 0)
    return LinePart(offset, split, position + raw_start, raw, raw_start)


def _block(pieces: list[bytes], parts: list[LinePart]) -> LineBlock:
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if len(data) > _MOST_BYTES:
        raise SplitReadError(
            f"{parts[-1].split.path} has a line of about {len(data)} bytes, but a block can contain at most "
            f"{_MOST_BYTES}",
            remedy="check the line ends of the file",
        )
    return LineBlock(data, tuple(parts))


def _normalised(raw: bytes) -> bytes:
    """``raw`` with a single newline byte at the end of every line, including the last."""
    lines = raw
    if b"\r" in raw:
        lines = raw.replace(b"\r\n", b"\n")
        if b"\r" in lines:
            lines = lines.replace(b"\r", b"\n")
    return lines if lines.endswith(b"\n") else lines + b"\n"


def _aligned_chunks(
    split: FileSplit, options: Options, block_bytes: int, fetched: Fetched | None
) -> Iterator[tuple[int, bytes]]:
    """The original lines of a split in chunks, with the position of each chunk; no chunk is empty."""
    refuse_unknown_compression(split.path)
    compressed = is_compressed(split.path)
    if split.is_whole and not compressed and 0 <= split.length <= block_bytes:
        content = read_whole(split, options) if fetched is None else fetched.result()
        if content:
            yield 0, content
        return
    with open_file(split, options, fetched) as stream, reading(split.path, options):
        first = max(split.start - 1, 0)
        if first:
            stream.seek(first)
        pieces = _range_pieces(split, stream, first, block_bytes)
        yield from _whole_lines(split, pieces, options[MAX_LINE_BYTES])


def _whole_lines(
    split: FileSplit, pieces: Iterable[tuple[int, memoryview]], max_line_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """The same bytes, cut at line ends where possible."""
    carried: list[memoryview | bytes] = []
    line_position = 0
    for position, piece in pieces:
        if not carried:
            line_position = position
        cut = _after_last_line_end(piece)
        if cut == len(piece) and not carried:
            yield line_position, _as_bytes(piece)
        elif cut:
            carried.append(piece[:cut])
            yield line_position, b"".join(carried)
            carried = []
            line_position = position + cut
        if cut < len(piece):
            carried.append(piece[cut:])
            if position + len(piece) - line_position > max_line_bytes:
                # Stop here: the line may be the rest of a large file.
                raise too_long(split, line_position, max_line_bytes)
    if carried:
        yield line_position, b"".join(carried)


def _check_lines(split: FileSplit, position: int, raw: bytes, max_line_bytes: int) -> None:
    start = 0
    for end in _LINE_END.finditer(raw):
        if end.start() - start > max_line_bytes:
            break
        start = end.end()
    else:
        if len(raw) - start <= max_line_bytes:
            return
    raise too_long(split, position + start, max_line_bytes)


def too_long(
    split: FileSplit,
    position: int,
    max_line_bytes: int,
    *,
    check: str = "check the line ends of the file; if they are correct",
) -> CorruptFileError:
    return CorruptFileError(
        f"{split.path}, byte {position}: the line is longer than {max_line_bytes} bytes",
        remedy=f"{check}, raise maxLineBytes",
    )


def _as_bytes(piece: memoryview) -> bytes:
    whole = piece.obj
    return whole if isinstance(whole, bytes) and len(whole) == len(piece) else bytes(piece)


def _range_pieces(
    split: FileSplit, stream: BinaryIO, position: int, block_bytes: int
) -> Iterator[tuple[int, memoryview]]:
    """The bytes of the lines that start in the range; ``stream`` is at ``position``.

    They reach from the first start of a line at or after ``split.start`` to the first start at or after
    ``split.end``. The byte before a position shows whether a line starts there.
    """
    skipping = split.start > 0
    end = split.end
    while chunk := _read_chunk(
        stream, _lines_bytes(stream, position, _read_bytes(position, end, block_bytes))
    ):
        start = 0
        if skipping:
            start = _after_first_line_end(chunk, 0)
            if start >= 0 and end is not None and position + start >= end:
                return
        stop = -1
        if end is not None and position + len(chunk) >= end:
            stop = _after_first_line_end(chunk, max(end - 1 - position, 0))
        if start >= 0:
            skipping = False
            yield position + start, memoryview(chunk)[start : None if stop < 0 else stop]
        if stop >= 0:
            return
        position += len(chunk)
    if not is_compressed(split.path):
        check_length(split, position)


def _read_bytes(position: int, end: int | None, block_bytes: int) -> int:
    if end is None:
        return block_bytes
    # A little more than the range, because the last line probably ends there.
    return min(block_bytes, max(end - position, 0) + _SLACK_BYTES)


def _lines_bytes(stream: BinaryIO, position: int, size: int) -> int:
    """How many of the next ``size`` bytes to read to end at a line end, if possible.

    Bytes that end with a line need no joining with the next read. So the last few bytes are read ahead
    where that costs next to nothing.
    """
    if size < 2 * _SLACK_BYTES or not isinstance(stream, FileIO):
        return size
    tail_position = position + size - _SLACK_BYTES
    stream.seek(tail_position)
    tail = stream.read(_SLACK_BYTES)
    stream.seek(position)
    return tail_position - position + (tail.rfind(b"\n") + 1 or _SLACK_BYTES)


def _read_chunk(stream: BinaryIO, size: int) -> bytes:
    """About ``size`` bytes that never end between the two bytes of a line end; empty at the end."""
    chunk = stream.read(size)
    if not chunk.endswith(b"\r"):
        return chunk
    pieces = [chunk, stream.read(1)]
    while pieces[-1] == b"\r":
        pieces.append(stream.read(1))
    return b"".join(pieces)


def _after_first_line_end(data: bytes, start: int) -> int:
    """The end of the line that contains ``start``, or -1 if it does not end in ``data``."""
    newline = data.find(b"\n", start)
    carriage_return = data.find(b"\r", start, len(data) if newline < 0 else newline)
    if carriage_return < 0 or carriage_return + 1 == newline:
        return newline + 1 if newline >= 0 else -1
    return carriage_return + 1


def _after_last_line_end(piece: memoryview) -> int:
    """The end of the last line, or of one near it, in ``piece``; 0 if no line ends."""
    tail = bytes(piece[-_SLACK_BYTES:])
    after_newline = tail.rfind(b"\n") + 1
    if after_newline:
        return len(piece) - len(tail) + after_newline
    whole = bytes(piece)
    return whole.rfind(b"\n") + 1 or whole.rfind(b"\r") + 1
