"""Every kind of bad file, with every reader: a clear error with path and position, and all rows or none."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SplitReadError
from flip27_source.reader import ReadsRanges, SplitReader
from flip27_source.readers.binary import BinaryReader
from flip27_source.readers.files.input import CorruptFileError, FileMissingError
from tests.readers.formats import COLUMNAR, LINES, READERS, write_ids
from tests.readers.spark_reading import read_batches, split_of
from tests.without_root import run_without_root

ID = pa.schema([pa.field("id", pa.string())])
LENGTH = pa.schema([pa.field("length", pa.int64()), pa.field("content", pa.binary())])
Read = type[SplitReader[FileSplit]]


FORMATS: dict[str, tuple[Read, pa.Schema, Callable[[Path, list[str]], Any]]] = {
    **{name: (READERS[name], ID, partial(write_ids, name)) for name in (*LINES, *COLUMNAR)},
    "binary": (BinaryReader, LENGTH, partial(write_ids, "text")),
}
IDS = [f"id {number}" for number in range(1000)]

each_format = pytest.mark.parametrize("name", FORMATS)
beside_others = pytest.mark.parametrize("beside_others", [False, True], ids=["alone", "with other files"])


def failure(name: str, split: FileSplit, options: dict[str, str] | None = None, *, others: bool) -> Exception:
    """The error of reading the split, alone or with good files before and after it."""
    reader, schema, write = FORMATS[name]
    splits = [split]
    if others:
        good = Path(split.path).with_name("good")
        write(good, IDS)
        splits = [split_of(good), split, split_of(good)]
    with pytest.raises(SplitReadError) as caught:
        read_batches(reader(), splits, schema, options)
    return caught.value


@each_format
@beside_others
def test_a_file_that_vanished_is_reported_as_missing(tmp_path: Path, name: str, beside_others: bool) -> None:
    split = FileSplit(path=str(tmp_path / "gone"), length=10, modified_us=0)
    error = failure(name, split, others=beside_others)
    assert isinstance(error, FileMissingError)
    assert str(tmp_path / "gone") in str(error)
    assert "What to do: do not move" in str(error)
    assert error.ignored_by == "ignoreMissingFiles"


@each_format
def test_a_file_that_vanished_from_a_remote_store_is_reported_as_missing(name: str) -> None:
    split = FileSplit(path="memory://bad_files/gone", length=10, modified_us=0)
    error = failure(name, split, others=False)
    assert isinstance(error, FileMissingError)
    assert "memory://bad_files/gone no longer exists" in str(error)


@each_format
@pytest.mark.parametrize("by", [-7, 7], ids=["shrank", "grew"])
@beside_others
def test_a_file_that_changed_is_an_error_with_both_lengths(
    tmp_path: Path, name: str, by: int, beside_others: bool
) -> None:
    FORMATS[name][2](tmp_path / "a", IDS)
    found = split_of(tmp_path / "a")
    then = FileSplit(path=found.path, length=found.length - by, modified_us=0)
    error = failure(name, then, others=beside_others)
    assert not isinstance(error, CorruptFileError)
    assert f"/a had {then.length} bytes when it was discovered and has {found.length} now" in str(error)


@pytest.mark.parametrize("name", [name for name in FORMATS if issubclass(FORMATS[name][0], ReadsRanges)])
@pytest.mark.parametrize("ids", [[*IDS, *IDS], IDS], ids=["longer", "as long"])
@pytest.mark.parametrize("start", [0, 1])
def test_a_range_of_a_file_that_was_replaced_is_refused_unless_the_file_was_moved(
    tmp_path: Path, name: str, ids: list[str], start: int
) -> None:
    reader, schema, write = FORMATS[name]
    write(tmp_path / "a", IDS)
    found = split_of(tmp_path / "a", start, 1000)
    rows = sum(batch.num_rows for batch in read_batches(reader(), [found], schema))
    os.utime(tmp_path / "a", ns=(0, 1_000))
    moved = replace(found, moved=True)
    assert sum(batch.num_rows for batch in read_batches(reader(), [moved], schema)) == rows
    write(tmp_path / "a", ids)
    os.utime(tmp_path / "a", ns=(0, 1_000))
    what = "bytes when it was discovered" if len(ids) > len(IDS) else "its modification time differs"
    assert what in str(failure(name, found, others=False))


@pytest.mark.parametrize("name", LINES)
@beside_others
def test_a_truncated_gzip_file_is_reported_as_damaged_with_the_position(
    tmp_path: Path, name: str, beside_others: bool
) -> None:
    FORMATS[name][2](tmp_path / "plain", IDS)
    whole = gzip.compress((tmp_path / "plain").read_bytes())
    half = len(whole) // 2
    (tmp_path / "a.gz").write_bytes(whole[:half])
    error = failure(name, split_of(tmp_path / "a.gz"), others=beside_others)
    assert isinstance(error, CorruptFileError)
    assert "/a.gz is truncated or damaged: Compressed file ended" in str(error)
    assert f"within its first {half} stored bytes" in str(error)


@each_format
def test_a_file_without_bytes_has_no_rows(tmp_path: Path, name: str) -> None:
    reader, schema, write = FORMATS[name]
    write(tmp_path / "good", IDS)
    (tmp_path / "empty").touch()
    splits = [split_of(tmp_path / "empty"), split_of(tmp_path / "good"), split_of(tmp_path / "empty")]
    rows = sum(batch.num_rows for batch in read_batches(reader(), splits, schema))
    assert rows == (1 if name == "binary" else len(IDS))
    assert read_batches(reader(), [split_of(tmp_path / "empty")], schema) == []


@pytest.mark.parametrize("name", LINES)
def test_bytes_that_are_not_utf8_are_accepted_in_text_as_in_spark(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    reader, schema, _ = FORMATS[name]
    (tmp_path / "a").write_bytes(b'{"id": "caf\xe9"}\n' if name == "json" else b"caf\xe9\n")
    [batch] = read_batches(reader(), [split_of(tmp_path / "a")], schema)
    theirs = spark.read.schema("id string").format(name).load(str(tmp_path / "a"))
    assert batch["id"].view(pa.binary()).to_pylist() == [
        None if row.id is None else bytes(row.id) for row in theirs.selectExpr("cast(id as binary)").collect()
    ]


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_a_small_limit_of_line_bytes_is_exact_even_if_lines_are_read_in_blocks(
    tmp_path: Path, name: str, start: int, ending: str
) -> None:
    reader, schema, _ = FORMATS[name]
    line = '{"id":"12345"}'
    content = ending.join([line, line, line[:-2] + '6"}', line]) if start else line + ending + line
    (tmp_path / "a").write_bytes(content.encode())
    split = split_of(tmp_path / "a")
    if not start:
        read_batches(reader(), [split], schema, {"maxLineBytes": str(len(line))})
        return
    position = 2 * len(line + ending)
    with pytest.raises(CorruptFileError, match=rf"/a, byte {position}: the line is longer than 14 bytes"):
        read_batches(reader(), [split], schema, {"maxLineBytes": "14"})


PROGRAM = """
import sys
from tests.readers.files import test_bad_files as t
from pathlib import Path
for name, (reader, schema, _) in t.FORMATS.items():
    try:
        print(name, t.read_batches(reader(), [t.split_of(Path(sys.argv[1]))], schema))
    except t.SplitReadError as error:
        print(name, type(error).__name__, str(error).partition(chr(10))[0])
"""


def test_a_file_without_read_permission_is_an_error_in_each_reader(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("1\n")
    path.chmod(0)
    done = run_without_root(PROGRAM, path)
    said = f"AccessError {path} cannot be read: permission is denied: PermissionError: "
    told = [line.partition("[Errno")[0] for line in done.stdout.splitlines()]
    assert told == [f"{name} {said}" for name in FORMATS], done.stderr


READ_GIGABYTES = """
import json, sys
from itertools import product
from pathlib import Path
import pyarrow as pa
from flip27_source.errors import SplitReadError
from flip27_source.readers.binary import BinaryReader
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from flip27_source.readers.json_lines.reader import JsonLinesReader
from flip27_source.readers.text import TextReader
from tests.peak_memory import peak_mib
from tests.readers.spark_reading import read_batches, split_of

small, plain, zipped = map(Path, sys.argv[1:])
text = pa.schema([pa.field("id", pa.string())])
content = pa.schema([pa.field("length", pa.int64()), pa.field("content", pa.binary())])
readings = [
    (TextReader, text, {}, [plain, zipped]),
    (CsvLinesReader, text, {}, [plain, zipped]),
    (JsonLinesReader, text, {}, [plain, zipped]),
    (TextReader, text, {"lineSep": "|"}, [plain, zipped]),
    (TextReader, text, {"wholetext": "true"}, [plain]),
    (BinaryReader, content, {}, [plain]),
]

def read(reader, schema, options, *paths):
    limits = {"maxLineBytes": "32m"} if "wholetext" not in options and reader is not BinaryReader else {}
    return read_batches(reader(), map(split_of, paths), schema, {**options, **limits})

for reader, schema, options, _ in readings:
    read(reader, schema, options, small)
before = peak_mib()
for reader, schema, options, paths in readings:
    for others, path in product([[], [small]], paths):
        try:
            read(reader, schema, options, *others, path, *others)
        except SplitReadError as error:
            told = str(error).partition(chr(10))[0]
        else:
            told = "was read"
        print(json.dumps([reader.__name__, sorted(options), told, peak_mib() - before]))
"""


@pytest.mark.slow
def test_a_line_of_3_gigabytes_is_refused_with_little_memory(tmp_path: Path) -> None:
    small, plain, zipped = tmp_path / "small", tmp_path / "plain", tmp_path / "zipped.gz"
    small.write_bytes(b'{"id": "1"}\n')
    with plain.open("wb") as file:
        file.write(b"first\n")
        file.truncate(3 << 30)  # a sparse file, which takes no room on the disk
    zeros = gzip.compress(bytes(64 << 20), 1)
    with zipped.open("wb") as file:
        file.write(gzip.compress(b"first\n"))
        for _ in range(48):
            file.write(zeros)
    program = [sys.executable, "-c", READ_GIGABYTES, str(small), str(plain), str(zipped)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == 20, done.stderr
    for reader, options, error, mib in told:
        if options == ["wholetext"] or reader == "BinaryReader":
            assert error.startswith(f"{plain} has ")
            assert f"{(1 << 31) - 1} bytes" in error or f"can contain at most {(1 << 31) - 1}" in error
        else:
            start = 0 if options == ["lineSep"] else 6
            assert f", byte {start}: the line is longer than {32 << 20} bytes" in error
        assert mib < 256, (reader, options, mib)
