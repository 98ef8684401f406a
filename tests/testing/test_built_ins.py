"""Every source that comes with the package keeps the laws."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flip27_source.testing import check_enumerator, check_reader, check_source

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})


def as_json(rows: list[tuple[int, str]], file: Path) -> None:
    file.write_text("".join(json.dumps({"id": number, "name": name}) + "\n" for number, name in rows))


def as_gzipped_json(rows: list[tuple[int, str]], file: Path) -> None:
    as_json(rows, file)
    content = file.read_bytes()
    file.unlink()
    file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(content))


def as_csv(rows: list[tuple[int, str]], file: Path) -> None:
    file.write_text("".join(f'{number},"{name}"\n' for number, name in rows))


def as_parquet(rows: list[tuple[int, str]], file: Path) -> None:
    pq.write_table(pa.table({"id": [row[0] for row in rows], "name": [row[1] for row in rows]}), file)


FILES: dict[str, tuple[str, Callable[[list[tuple[int, str]], Path], None], pa.Schema | None]] = {
    "json": ("json", as_json, SCHEMA), "json.gz": ("json", as_gzipped_json, SCHEMA),
    "csv": ("csv", as_csv, SCHEMA), "parquet": ("parquet", as_parquet, SCHEMA),
    "text": ("text", as_csv, None), "binary": ("binary", as_csv, None),
}  # fmt: skip


class Landing:
    """A folder of small files that can grow."""

    def __init__(self, folder: Path, write: Callable[[list[tuple[int, str]], Path], None]) -> None:
        self.folder = folder
        self._write = write
        self._numbers = itertools.count()
        for rows in (3, 1, 4):
            self.add(rows)

    def add(self, rows: int = 2) -> None:
        """Add a file with this many rows, atomically."""
        number = next(self._numbers)
        beside = self.folder.parent / "beside"
        beside.mkdir(exist_ok=True)
        self._write(
            [(number * 10 + at, f"name {at}, of {number}") for at in range(rows)], beside / f"{number}"
        )
        for file in beside.iterdir():
            file.rename(self.folder / file.name)


@pytest.mark.parametrize("kind", FILES)
def test_files_keep_the_laws(kind: str, tmp_path: Path) -> None:
    reader, write, schema = FILES[kind]
    folder = tmp_path / "landing"
    folder.mkdir()
    landing = Landing(folder, write)
    options = {"enumerator": "files", "reader": reader, "path": str(folder)}
    check_enumerator(options, grow=landing.add)
    check_reader(options, schema=schema)
    # The enumerator is the same for all readers, so only one of them gets the thorough check.
    check_source(options, schema=schema, grow=landing.add, fast=kind != "json")


def test_the_sequence_keeps_the_laws() -> None:
    options = {"enumerator": "sequence", "numSplits": "3", "end": "20"}
    check_enumerator(options)
    check_reader(options)
    check_source(options, rows=[(number,) for number in range(20)])


def test_a_sequence_without_end_keeps_the_laws_of_its_parts() -> None:
    options = {"enumerator": "sequence", "numSplits": "2", "rowsPerSplit": "5"}
    check_enumerator(options)
    check_reader(options)


def test_a_sequence_with_small_cuts_keeps_the_laws() -> None:
    check_source({"enumerator": "sequence", "end": "20", "rowsPerSplit": "5"})


@pytest.mark.parametrize("kind", ["cursor", "since"])
def test_http_keeps_the_laws(kind: str) -> None:
    http_api = pytest.importorskip("tests.http_api")
    reading = pytest.importorskip("tests.readers.http_api.reading")
    with http_api.http_api() as api:
        api.records = reading.records(*range(6))
        api.page_size = 3
        options = {
            "enumerator": "http", "path": api.url, "endpoints": f"{kind}/a, {kind}/b", **reading.KINDS[kind],
        }  # fmt: skip
        options |= {"pageSize": "3"} if "pageSize" in options else {}
        check_enumerator(options)
        check_reader(options, schema=reading.SCHEMA)
        if kind == "cursor":
            check_source(options, schema=reading.SCHEMA, fast=True)
