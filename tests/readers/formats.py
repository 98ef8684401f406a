"""The formats of files: their readers, and writers of Arrow tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather, ipc, orc

from flip27_source.reader import SplitReader
from flip27_source.readers.columnar.arrow_files import ArrowReader
from flip27_source.readers.columnar.avro import AvroReader
from flip27_source.readers.columnar.orc import OrcReader
from flip27_source.readers.columnar.parquet import ParquetReader
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from flip27_source.readers.json_lines.reader import JsonLinesReader
from flip27_source.readers.text import TextReader
from tests.fuzz.avro_files import write_avro

COLUMNAR = ("parquet", "orc", "arrow", "avro")
LINES = ("text", "csv", "json")
READERS: dict[str, type[SplitReader[Any]]] = {
    "text": TextReader, "csv": CsvLinesReader, "json": JsonLinesReader, "parquet": ParquetReader,
    "orc": OrcReader, "arrow": ArrowReader, "avro": AvroReader,
}  # fmt: skip


def write_text(table: pa.Table, path: Path) -> None:
    """Write the values of each row as a line, separated by commas."""
    path.write_text("".join(",".join(map(str, row.values())) + "\n" for row in table.to_pylist()))


def write_csv_with_header(table: pa.Table, path: Path) -> None:
    """Write the names of the columns, then the rows."""
    write_text(table, path)
    path.write_text(",".join(table.column_names) + "\n" + path.read_text())


def write_json(table: pa.Table, path: Path) -> None:
    """Write each row as an object."""
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


WRITERS: dict[str, Callable[[pa.Table, Any], object]] = {
    "text": write_text, "csv": write_text, "json": write_json, "parquet": pq.write_table,
    "orc": orc.write_table, "arrow": feather.write_feather, "avro": write_avro,
}  # fmt: skip
"""Each writes a table to a path; those of columnar formats also write to a binary stream."""


def write_ids(name: str, path: Path, ids: list[str]) -> None:
    """Write a file with the column ``id``."""
    WRITERS[name](pa.table({"id": ids}), path)


def write_ipc(table: pa.Table, path: Path, *, stream: bool, rows: int = 100) -> None:
    """Write record batches of at most ``rows`` rows."""
    with (ipc.new_stream if stream else ipc.new_file)(str(path), table.schema) as writer:
        for batch in table.to_batches(rows):
            writer.write_batch(batch)
