"""Blocks of whole lines contain every line once, whatever the ranges, the line ends and the block size."""

from __future__ import annotations

import bz2
import gzip
import os
import random
import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import AccessError, SplitReadError
from flip27_source.options import Options
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from flip27_source.readers.files.input import is_compressed, open_file, reading
from flip27_source.readers.files.line_blocks import LineBlock, line_blocks
from flip27_source.readers.files.reader import LinesReader
from flip27_source.readers.json_lines.reader import JsonLinesReader
from flip27_source.readers.text import TextReader
from tests.readers.spark_reading import ranges_of, split_of

NO_OPTIONS = Options.parse({}, ())


def lines_of(content: bytes) -> list[bytes]:
    """The lines of a file as Hadoop splits them, computed in another way than by the code under test."""
    lines = re.split(rb"\r\n|\r|\n", content.removeprefix(b"\xef\xbb\xbf"))
    return lines[:-1] if lines[-1] == b"" else lines


def read_lines(
    splits: list[FileSplit], block_bytes: int = 1 << 20, *, drop_header: bool = False
) -> list[bytes]:
    blocks = list(line_blocks(splits, NO_OPTIONS, block_bytes=block_bytes, drop_header=drop_header))
    assert all(block.data.endswith(b"\n") for block in blocks)
    return [line for block in blocks for line in block.data.split(b"\n")[:-1]]


content_with_line_ends = st.lists(
    st.sampled_from([b"a", b"bcd", b"\n", b"\r", b"\r\n", b" ", b"\xef\xbb\xbf", b"\xc3\xa9"]), max_size=40
).map(b"".join)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("line_blocks") / "data.txt"


@given(
    content=content_with_line_ends,
    cuts=st.lists(st.integers(1, 100), max_size=8),
    block_bytes=st.integers(1, 40),
)
def test_ranges_give_every_line_once_wherever_they_are_cut(
    scratch: Path, content: bytes, cuts: list[int], block_bytes: int
) -> None:
    scratch.write_bytes(content)
    splits = ranges_of(scratch, (cut for cut in cuts if cut < len(content)))
    assert read_lines(splits, block_bytes) == lines_of(content)


@given(content=content_with_line_ends, cut=st.integers(1, 100), block_bytes=st.integers(1, 40))
def test_a_line_belongs_to_the_range_of_its_first_byte(
    scratch: Path, content: bytes, cut: int, block_bytes: int
) -> None:
    scratch.write_bytes(content)
    starts = [0, *(match.end() for match in re.finditer(rb"\r\n|\r|\n", content))]
    expected = sum(start < cut for start in starts if start < len(content))
    if content == b"\xef\xbb\xbf":
        expected = 0
    assert len(read_lines([split_of(scratch, 0, cut)], block_bytes)) == expected


@given(
    contents=st.lists(content_with_line_ends, min_size=1, max_size=5),
    block_bytes=st.integers(1, 60),
    drop_header=st.booleans(),
)
def test_a_block_knows_the_file_and_position_of_each_line(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], block_bytes: int, drop_header: bool
) -> None:
    folder = tmp_path_factory.mktemp("places")
    paths = [folder / str(number) for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    splits = [split_of(path) for path in paths]
    for block in line_blocks(splits, NO_OPTIONS, block_bytes=block_bytes, drop_header=drop_header):
        for number, line in enumerate(block.data.split(b"\n")[:-1]):
            place = block.place_of_line(number)
            found = Path(place.split.path).read_bytes()[place.position :]
            assert lines_of(b"x" + found)[0] == b"x" + line


def test_small_files_are_joined_into_one_block_separated_by_line_ends(tmp_path: Path) -> None:
    for name, content in (("a", b"1\n2"), ("b", b""), ("c", b"\xef\xbb\xbf3\r\n"), ("d", b"4")):
        (tmp_path / name).write_bytes(content)
    [block] = line_blocks([split_of(tmp_path / name) for name in "abcd"], NO_OPTIONS)
    assert block.data == b"1\n2\n3\n4\n"
    assert [Path(block.place_of_line(line).split.path).name for line in range(4)] == ["a", "a", "c", "d"]


def test_a_large_file_is_read_in_blocks_of_about_the_requested_size(tmp_path: Path) -> None:
    content = b"".join(b"line %d\n" % number for number in range(20_000))
    (tmp_path / "a").write_bytes(content)
    blocks = list(line_blocks([split_of(tmp_path / "a")], NO_OPTIONS, block_bytes=10_000))
    assert b"".join(block.data for block in blocks) == content
    assert max(len(block.data) for block in blocks) < 11_000
    assert len(blocks) < len(content) / 9_000


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("longest_line", [5, 3_000, 200_000])
def test_large_blocks_and_ranges_give_every_line_once(
    tmp_path: Path, longest_line: int, ending: bytes
) -> None:
    # Only reads as large as these search ahead for the end of a line.
    chance = random.Random(longest_line)
    line_lengths = [chance.randrange(longest_line) for _ in range(3_000_000 // (longest_line + 1))]
    content = b"".join(b"x" * length + ending for length in line_lengths)
    path = tmp_path / "a"
    path.write_bytes(content)
    for block_bytes in (1 << 17, (1 << 17) + 1, 300_000, 1 << 20):
        assert read_lines([split_of(path)], block_bytes) == lines_of(content)
        splits = ranges_of(path, chance.choices(range(len(content)), k=3))
        assert read_lines(splits, block_bytes) == lines_of(content)


def test_blocks_of_a_large_file_end_at_line_ends_so_that_no_partial_line_is_carried_over(
    tmp_path: Path,
) -> None:
    content = b"".join(b"line %d\n" % number for number in range(100_000))
    (tmp_path / "a").write_bytes(content)
    blocks = list(line_blocks([split_of(tmp_path / "a")], NO_OPTIONS, block_bytes=300_000))
    assert b"".join(block.data for block in blocks) == content
    start = 0
    for block in blocks[:-1]:
        end = content.rfind(b"\n", start, start + 300_000) + 1
        assert len(block.data) == end - start
        start = end


def test_one_huge_line_is_one_block(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 1_000_000)
    [block] = line_blocks([split_of(tmp_path / "a")], NO_OPTIONS, block_bytes=1_000)
    assert block == LineBlock(b"x" * 1_000_000 + b"\n", block.parts)


@pytest.mark.parametrize("suffix", [".gz", ".gzip", ".bz2", ".zst", ".zstd", ".GZ"])
def test_compressed_files_are_decompressed_even_with_several_members(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(compressed(b"1\n2\n", suffix) + compressed(b"3\n4", suffix))
    assert read_lines([split_of(path)], 3) == [b"1", b"2", b"3", b"4"]
    assert is_compressed(str(path))
    with open_file(split_of(path), NO_OPTIONS) as stream:
        assert stream.read() == b"1\n2\n3\n4"
    path.write_bytes(b"")
    assert read_lines([split_of(path)]) == []


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("kept", [0.02, 0.5, 0.999])
def test_a_truncated_compressed_file_is_an_error_that_names_the_file(
    tmp_path: Path, suffix: str, kept: float
) -> None:
    path = tmp_path / f"cut{suffix}"
    whole = compressed(os.urandom(10_000), suffix)
    path.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(SplitReadError, match=rf"cut{suffix} is truncated or damaged"):
        read_lines([split_of(path)])


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("members", [0, 1, 3])
def test_a_compressed_file_whose_length_has_changed_is_an_error_even_if_it_decompresses(
    tmp_path: Path, suffix: str, members: int
) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(compressed(b"1\n", suffix) * 2)
    found = split_of(path)
    path.write_bytes(compressed(b"1\n", suffix) * members)
    with pytest.raises(SplitReadError, match=r"when it was discovered and has \d+ now"):
        read_lines([found])


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_a_file_whose_compression_differs_from_its_extension_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"plain{suffix}"
    path.write_bytes(b"just text\n" * 100)
    with pytest.raises(SplitReadError, match=rf"plain{suffix} is truncated or damaged"):
        read_lines([split_of(path)])


@pytest.mark.parametrize("reader", [CsvLinesReader, JsonLinesReader, TextReader])
def test_documents_are_not_cut_into_ranges(reader: type[LinesReader]) -> None:
    option = "wholetext" if reader is TextReader else "multiLine"
    for texts, is_cut in ({option: "true"}, False), ({}, True):
        assert reader.can_read_ranges("/a", Options.parse(texts, reader.options)) is is_cut
        assert not reader.can_read_ranges("/a.gz", Options.parse(texts, reader.options))


def test_compression_that_would_be_read_as_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.snappy"
    path.write_bytes(b"?")
    with pytest.raises(SplitReadError, match=r"a\.snappy has a compression"):
        open_file(split_of(path), NO_OPTIONS)
    with pytest.raises(SplitReadError, match=r"a\.snappy has a compression"):
        read_lines([split_of(path)])


def test_remote_files_are_read_through_fsspec(tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/line_blocks/a.txt", b"1\r\n2\n3")
    packed = gzip.compress(b"4\n")
    memory.pipe("/line_blocks/b.txt.gz", packed)
    plain = FileSplit(path="memory://line_blocks/a.txt", length=6, modified_us=0)
    ranges = [
        FileSplit(path=plain.path, length=6, modified_us=0, start=s, end=e)
        for s, e in ((0, 2), (2, 4), (4, None))
    ]
    zipped = FileSplit(path="memory://line_blocks/b.txt.gz", length=len(packed), modified_us=0)
    assert read_lines([plain, *ranges, zipped]) == [b"1", b"2", b"3", b"1", b"2", b"3", b"4"]


def test_file_urls_are_local_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n")
    for prefix in ("file:", "file://"):
        assert read_lines([FileSplit(path=f"{prefix}{tmp_path}/a", length=2, modified_us=0)]) == [b"1"]


def test_secrets_of_storage_options_never_appear_in_a_message() -> None:
    account = "AccountName=lake;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net"
    given = {"key": "AKIA123", "client": '{"token": "hunter2"}', "connection_string": account, "region": "eu"}
    options = Options.parse({f"storage.{name}": value for name, value in given.items()}, ())
    with pytest.raises(AccessError) as told, reading("s3://in/a", options):
        raise PermissionError("AKIA123 with hunter2 and c2VjcmV0 was refused in region eu")
    assert "*** with *** and *** was refused in region eu" in str(told.value)


def compressed(content: bytes, suffix: str) -> bytes:
    if suffix.startswith(".zst"):
        return bytes(pa.compress(content, codec="zstd", asbytes=True))
    return bz2.compress(content) if suffix == ".bz2" else gzip.compress(content)
