"""Which files are passed to Spark, and under which names."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import ContractError, OptionError, SchemaError, SplitReadError
from flip27_source.native.csv_headers import CsvHeaders
from flip27_source.native.hadoop_paths import hadoop_path
from flip27_source.native.options import HADOOP_PREFIXES, NativeOptions, kind_of
from flip27_source.native.planned_files import PlannedFiles, by_partition_columns
from flip27_source.readers.files.base_paths import BasePaths
from flip27_source.schemas.column_comments import SourceOfSplits, source_in, splits_comment
from tests.readers.spark_reading import split_of

AZURE = "abfs://in@account.dfs.core.windows.net/"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/landing/a.json", "file:/landing/a.json"),
        ("/landing/a b%20#.json", "file:/landing/a b%20#.json"),
        ("/landing/a*?[1]{x}\\.json", "file:/landing/a\\*\\?\\[1\\]\\{x\\}\\\\.json"),
        ("/landing/a:b/c.json", "file:/landing/a:b/c.json"),
        ("s3://in/a:b.json", "s3a://in/a:b.json"),
        ("gcs://in/a.json", "gs://in/a.json"),
        (f"{AZURE}a.json", f"{AZURE}a.json"),
        ("hdfs://name:8020/a.json", "hdfs://name:8020/a.json"),
        ("/landing/_day=1", "file:/landing/_day=1"),
        ("/_hidden/.folder/a.json", "file:/_hidden/.folder/a.json"),
    ],
)
def test_a_path_is_spelled_as_hadoop_spells_it(path: str, expected: str) -> None:
    assert hadoop_path(path, {}) == expected


def test_the_longest_prefix_is_replaced() -> None:
    rewrites = {"az://": "x://", "az://in/": AZURE, "s3://": "s3://"}
    assert hadoop_path("az://in/a.json", rewrites) == f"{AZURE}a.json"
    assert hadoop_path("s3://in/a.json", rewrites) == "s3://in/a.json"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/landing/_a.json", "Spark leaves out files whose names begin with _ or ."),
        ("/landing/_metadata", "Spark leaves out files"),
        ("/landing/a._COPYING_", "Spark leaves out files"),
        ("/landing/a\x00ff.json", "its name is not valid UTF-8"),
        ("/landing/a:b.json", "names contain a colon"),
        ("s3://in/a//b.json", "Hadoop resolves empty parts"),
        ("s3://in/../b.json", "Hadoop resolves empty parts"),
        ("s3://in/a:b*.json", r"a path with a colon and one of \* \?"),
        ("https://host/a.json", "Hadoop has no file system for https://"),
        ("az://in/a.json", "Hadoop has no file system for az://"),
        ("abfs://in/a.json", "Hadoop has no file system for abfs://"),
    ],
)
def test_a_file_that_spark_would_skip_or_misread_is_refused(path: str, why: str) -> None:
    with pytest.raises(SplitReadError, match=why):
        hadoop_path(path, {})


@pytest.mark.parametrize(
    ("path", "depth", "group"),
    [
        ("/landing/year=2026/a.json", 1, ("/landing", ("year",))),
        ("/landing/raw/Year=2026/a.json", 1, ("/landing", ("Year",))),
        ("/landing/year=2026/month=1/a.json", 1, ("/landing", ("year", "month"))),
        ("/landing/year=2026/month=1/a.json", 2, ("/landing/year=2026", ("month",))),
        ("/landing/a=b.json", 1, (None, ())),
        ("/landing/year=2026/a.json", None, (None, ())),
        ("/year=2026/a.json", 0, ("/", ("year",))),
        ("s3://in/landing/year=2026/a.json", 2, ("s3://in/landing", ("year",))),
    ],
)
def test_files_are_grouped_by_the_directory_above_their_partition_columns_and_by_the_names_of_these(
    path: str, depth: int | None, group: tuple[str | None, tuple[str, ...]]
) -> None:
    file = FileSplit(path=path, length=1, modified_us=0)
    bases = None if depth is None else BasePaths(depth=depth)
    assert by_partition_columns([file], bases) == {group: [file]}


def test_with_several_paths_each_file_has_the_directory_of_its_path() -> None:
    bases = BasePaths(depth=3, names=("/very/deep/orders", "/old"))
    deep, old = (
        FileSplit(path=path, length=1, modified_us=0)
        for path in ("/very/deep/orders/day=1/a", "/old/day=2/b")
    )
    groups = {("/very/deep/orders", ("day",)): [deep], ("/old", ("day",)): [old]}
    assert by_partition_columns([deep, old], bases) == groups


def rows(**changed: Any) -> pa.Table:
    """Return the rows of two files, with some columns replaced."""
    columns: dict[str, Any] = {
        "path": ["/in/a", "/in/b"],
        "start": [0, 0],
        "length": [5, 7],
        "fileLength": [5, 7],
        "modificationTime": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC")),
        "etag": [None, "e"],
        "splitId": ["/in/a", "/in/b@v2"],
        "checkpoint": ["files-1/3-d"] * 2,
    }
    return pa.table(columns | changed)


def test_planned_files_are_built_from_the_rows() -> None:
    planned = PlannedFiles.of(rows())
    assert planned.checkpoint_name == "files-1/3-d"
    assert planned.files[1] == FileSplit(
        path="/in/b", length=7, modified_us=1767225600000000, version="v2", etag="e"
    )


def test_ranges_duplicate_files_and_unrelated_rows_are_refused() -> None:
    with pytest.raises(ContractError, match="a row is bytes 0 to 5 of /in/a, which has 6"):
        PlannedFiles.of(rows(fileLength=[6, 7]))
    with pytest.raises(ContractError, match=r"a file is in the batch twice(?s:.*)onSplitError=quarantine"):
        PlannedFiles.of(rows(path=["/in/a", "/in/a"]))
    with pytest.raises(SchemaError, match="the rows have no column etag"):
        PlannedFiles.of(rows().drop_columns(["etag"]))


def test_options_are_split_into_sparks_and_our_own() -> None:
    found = NativeOptions.parse(
        {
            "mergeSchema": True,
            "storage.key": "k",
            "HadoopPrefixes": {"s3://": "s3://"},
            "sep": ";",
            "escape": None,
        }
    )
    assert found.spark == {"mergeSchema": "true", "sep": ";"}
    assert found.own[HADOOP_PREFIXES] == {"s3://": "s3://"}
    assert found.own.with_prefix("storage.") == {"key": "k"}


@pytest.mark.parametrize(
    "key", ["pathGlobFilter", "ignoreMissingFiles", "basePath", "modifiedAfter", "path", "ignoreExtension"]
)
def test_options_that_choose_files_belong_to_the_stream(key: str) -> None:
    with pytest.raises(OptionError, match=f"option {key} cannot be an option of native_batches"):
        NativeOptions.parse({key: "x"})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("JSON", "json"),
        ("com.databricks.spark.csv", "csv"),
        ("org.apache.spark.sql.parquet", "parquet"),
        ("org.apache.spark.sql.execution.datasources.orc.OrcFileFormat", "orc"),
        ("binaryFile", "binaryfile"),
        ("com.acme.csv", "com.acme.csv"),
    ],
)
def test_a_format_has_one_name_however_it_is_given(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_csv_files_without_headers_are_grouped_by_the_number_of_their_fields(tmp_path: Path) -> None:
    for name, text in {"a": "1;2\n", "b": "3;4", "c": "5;6;7\n", "d": '\n"8;9";1\n', "e": ""}.items():
        (tmp_path / name).write_text(text)
    files = [split_of(path) for path in sorted(tmp_path.iterdir())]
    headers = CsvHeaders.of("CSV", NativeOptions.parse({"sep": ";"}))
    assert headers is not None
    groups = [[Path(file.path).name for file in group] for group in headers.groups(files)]
    assert groups == [["a", "b"], ["c"], ["d"], ["e"]]


def test_an_option_that_was_renamed_is_refused_with_its_new_name() -> None:
    with pytest.raises(OptionError, match="it is called hadoopPrefixes now"):
        NativeOptions.parse({"pathRewrites": {"s3://": "s3://"}})


def test_a_source_is_restored_from_its_comment() -> None:
    source = SourceOfSplits(
        base_depth=2,
        base_names=("/a", "/b"),
        on_error="quarantine",
        ignored_by=("a",),
        state_location="/s",
        uid="u",
    )
    assert source_in(splits_comment(source)) == source
    assert source_in(splits_comment(SourceOfSplits())) == SourceOfSplits()
    assert source_in("flip27 splits nonsense") is None
    assert source_in("a comment of a person") is None
