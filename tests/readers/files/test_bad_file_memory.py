"""A line of 3 GB, also in a compressed file, is an error with its position, and needs little memory."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, sys
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

def read(reader, schema, options, path):
    limits = {"maxLineBytes": "32m"} if "wholetext" not in options and reader is not BinaryReader else {}
    return read_batches(reader(), [split_of(path)], schema, {**options, **limits})

for reader, schema, options, _ in readings:
    read(reader, schema, options, small)
before = peak_mib()
for reader, schema, options, paths in readings:
    for path in paths:
        try:
            read(reader, schema, options, path)
        except SplitReadError as error:
            told = str(error).partition(chr(10))[0]
        else:
            told = "was read"
        print(json.dumps([reader.__name__, sorted(options), told, peak_mib() - before]))
"""


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
    program = [sys.executable, "-c", PROGRAM, str(small), str(plain), str(zipped)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == 10, done.stderr
    for reader, options, error, mib in told:
        if options == ["wholetext"] or reader == "BinaryReader":
            assert error.startswith(f"{plain} has ")
            assert f"{(1 << 31) - 1} bytes" in error or f"can contain at most {(1 << 31) - 1}" in error
        else:
            start = 0 if options == ["lineSep"] else 6
            assert f", byte {start}: the line is longer than {32 << 20} bytes" in error
        assert mib < 256, (reader, options, mib)
