"""Large files of an SFTP server, whose file system splits requests by itself and limits their size."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.reader import SplitReader
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from flip27_source.readers.text import TextReader
from tests.other_file_systems import PASSWORD, USER, sftp_server

from ..spark_reading import read_batches

OPTIONS = {"storage.username": USER, "storage.password": PASSWORD}


@pytest.mark.parametrize("reader", [TextReader, CsvLinesReader])
def test_a_file_of_20_megabytes_is_read(reader: type[SplitReader[FileSplit]], tmp_path: Path) -> None:
    lines = [f"{number:0999d}" for number in range(20_000)]
    (tmp_path / "large").write_text("\n".join(lines) + "\n")
    with sftp_server(tmp_path) as server:
        split = FileSplit(path=f"{server.url}/large", length=20_000_000, modified_us=0)
        batches = read_batches(reader(), [split], pa.schema([("line", pa.string())]), OPTIONS)
    assert pa.Table.from_batches(batches).column("line").to_pylist() == lines
