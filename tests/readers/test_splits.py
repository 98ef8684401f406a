"""The splits reader returns one row for each file, if the file is as it was discovered."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.native.planned_files import PlannedFiles
from flip27_source.options import Options
from flip27_source.readers.files.input import FileMissingError
from flip27_source.readers.files.unchanged import changed_files
from flip27_source.readers.splits import SplitsReader
from flip27_source.testing import MicroBatchEngine
from tests.readers.spark_reading import arrow_schema, read_batches, split_of
from tests.s3_server import S3Bucket

SCHEMA = pa.schema(
    [
        field.remove_metadata()
        for field in SplitsReader.default_schema(Options.parse({}, SplitsReader.options))
    ]
)


def test_a_row_holds_the_file_its_range_and_its_partition_values(tmp_path: Path) -> None:
    folder = tmp_path / "year=2026" / "part=a%20b" / "empty=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir(parents=True)
    (folder / "a.pdf").write_bytes(b"abcdef")
    split = replace(split_of(folder / "a.pdf", 2, 5), etag="e")
    (batch,) = read_batches(SplitsReader(), [split], SCHEMA, {"basePath": str(tmp_path)})
    (row,) = batch.to_pylist()
    assert row.pop("modificationTime").timestamp() * 1_000_000 == split.modified_us
    assert row == {
        "path": str(folder / "a.pdf"),
        "start": 2,
        "length": 3,
        "fileLength": 6,
        "etag": "e",
        "partitionValues": [("year", "2026"), ("part", "a b"), ("empty", None)],
        "splitId": f"{folder}/a.pdf#2-5",
        "checkpointId": 0,
        "checkpoint": None,
    }


def test_a_row_is_enough_to_compute_the_id_of_its_split(tmp_path: Path) -> None:
    for name in ("a", "b@2", "c#0-1"):
        (tmp_path / name).write_bytes(b"abc")
    plain = [split_of(tmp_path / name) for name in ("a", "b@2", "c#0-1")]
    splits = [*plain, replace(plain[0], version="v1"), replace(plain[1], version="odd / version")]
    for split in splits:
        (batch,) = read_batches(SplitsReader(), [split], SCHEMA)
        (found,) = PlannedFiles.of(pa.Table.from_batches([batch])).files
        assert found.split_id == split.split_id


def test_files_that_are_gone_or_have_changed_are_refused(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).write_bytes(b"abc")
    splits = [split_of(tmp_path / name) for name in "abcd"]
    (tmp_path / "a").unlink()
    (tmp_path / "b").write_bytes(b"abcd")
    os.utime(tmp_path / "c", ns=(0, 1_000))
    found = {split.path[-1]: error for split, error in changed_files(splits, Options.parse({}, ()))}
    assert sorted(found) == ["a", "b", "c"]
    assert isinstance(found["a"], FileMissingError)
    assert "had 3 bytes when it was discovered and has 4 now" in found["b"].what
    assert "its modification time differs" in found["c"].what
    with pytest.raises(SplitReadError, match="/a no longer exists"):
        read_batches(SplitsReader(), splits, arrow_schema("path string"))


def test_other_columns_are_refused() -> None:
    with pytest.raises(SchemaError, match="does not have a column size of type int64"):
        read_batches(SplitsReader(), [], arrow_schema("size long"))


def test_an_object_is_checked_by_its_etag(s3_bucket: S3Bucket) -> None:
    from flip27_source.enumerators.files.entries import etag_of, modified_us
    from flip27_source.enumerators.files.split import FileSplit
    from flip27_source.readers.files.input import file_system, open_raw

    options = Options.parse(s3_bucket.options, ())
    path = f"s3://{s3_bucket.name}/a"
    fs, name = file_system(path, options)
    fs.pipe_file(name, b"abc")
    info = fs.info(name)
    split = FileSplit(path=path, length=3, modified_us=modified_us(info), etag=etag_of(info))
    assert list(changed_files([split], options)) == []
    first = replace(split, end=1)
    of_version = replace(first, version=etag_of(info).strip('"'), etag=None)
    open_raw(first, options).close()
    open_raw(of_version, options).close()
    fs.pipe_file(name, b"abd")
    ((_, error),) = changed_files([split], options)
    assert "its ETag differs" in error.what
    for part in (first, of_version):
        with pytest.raises(SplitReadError, match="its ETag differs"):
            open_raw(part, options)
    open_raw(replace(first, moved=True), options).close()
    open_raw(split, options).close()


@pytest.mark.parametrize(
    ("ranges", "rows"), [("false", [(0, 3_000_000)]), ("true", [(0, 1_500_000), (1_500_000, 1_500_000)])]
)
def test_ranges_are_used_only_on_request(tmp_path: Path, ranges: str, rows: list[tuple[int, int]]) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "a").write_bytes(bytes(3_000_000))
    options = {
        "path": str(landing), "enumerator": "files", "reader": "splits", "maxPartitionBytes": "1500000",
        "fileRanges": ranges,
    }  # fmt: skip
    engine = MicroBatchEngine(options, available_now=True)
    engine.process_all_available()
    starts, lengths = SCHEMA.names.index("start"), SCHEMA.names.index("length")
    assert sorted((row[starts], row[lengths]) for row in engine.rows) == rows
