"""Partition columns and ``_metadata`` are the same as in Spark for the same folders, base paths, schema."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.options import Option as OptionOf
from flip27_source.options import Options, boolean
from flip27_source.reader import SplitReader
from flip27_source.readers.binary import BinaryReader
from flip27_source.readers.columnar.parquet import ParquetReader
from flip27_source.readers.files.base_paths import BasePaths, parts_of_listed
from flip27_source.readers.files.file_columns import METADATA_TYPE, constants_of
from flip27_source.readers.json_lines.reader import JsonLinesReader
from flip27_source.readers.text import TextReader
from flip27_source.schemas.ddl import columns_text, parse_columns
from flip27_source.schemas.source_schema import schema_of
from flip27_source.source import Source
from flip27_source.source_options import CORE_OPTIONS
from flip27_source.testing import MicroBatchEngine
from tests.readers import formats
from tests.readers.formats import WRITERS
from tests.readers.spark_reading import arrow_schema, as_dataframe, read_batches, split_of

Read = type[SplitReader[FileSplit]]
METADATA = (
    "_metadata struct<file_path: string, file_name: string, file_size: long, file_block_start: long, "
    "file_block_length: long, file_modification_time: timestamp>"
)
KINDS = ("text", "csv", "json", "parquet", "orc", "binaryFile")
READERS: dict[str, Read] = formats.READERS | {"binaryFile": BinaryReader}
RECURSIVE = OptionOf(name="recursiveFileLookup", parse=boolean, default=False, doc="")


def batches_of(
    reader: Read, splits: list[FileSplit], root: Path, schema: str, options: Mapping[str, str] | None = None
) -> list[pa.RecordBatch]:
    """Read files that the enumerator has found below ``root``."""
    declared = (*CORE_OPTIONS, RECURSIVE, *reader.options)
    parsed = Options.parse({"path": str(root), **(options or {})}, declared)
    return read_batches(reader(), splits, arrow_schema(schema), parsed)


def ours(
    spark: SparkSession, reader: Read, root: Path, schema: str, options: Mapping[str, str] | None = None
) -> DataFrame:
    splits = [split_of(path) for path in sorted(root.rglob("*")) if path.is_file()]
    batches = batches_of(reader, splits, root, schema, options)
    wanted = arrow_schema(schema)
    return as_dataframe(spark, pa.Table.from_batches(batches, schema=wanted), schema)


def folder_of(spark: SparkSession, kind: str, root: Path) -> None:
    """Write partitions by two columns, each with two files of two rows."""
    for year in ("2023", "2024"):
        for letter in ("a", "%2Fb c"):
            folder = root / f"year={year}" / f"Letter={letter}"
            folder.mkdir(parents=True)
            for number in range(2):
                table = pa.table({"value": [f"{year}{number}", "x"]})
                WRITERS["text" if kind == "binaryFile" else kind](table, folder / f"{number}.{kind}")


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_partition_directories_become_columns_as_in_spark(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    folder_of(spark, kind, tmp_path)
    schema = "letter string, value string, year int"
    theirs = spark.read.schema(schema).format(kind).load(str(tmp_path)).select("letter", "value", "year")
    assert theirs.count() == 16
    assert_df_equality(ours(spark, READERS[kind], tmp_path, schema), theirs, ignore_row_order=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_of_only_partition_columns_gives_all_rows(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    folder_of(spark, kind, tmp_path)
    assert ours(spark, READERS[kind], tmp_path, "year long").groupBy("year").count().orderBy(
        "year"
    ).collect() == [(2023, 4 if kind == "binaryFile" else 8), (2024, 4 if kind == "binaryFile" else 8)]


@pytest.mark.parametrize("kind", KINDS)
def test_metadata_equals_that_of_spark(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    root = tmp_path / "a b%20#\u00e9\u2003\u00a0\u0085\u3000\u2028\u200b"
    root.mkdir()
    folder_of(spark, kind, root)
    for path in list(root.rglob("1.*")):
        path.rename(path.with_name(f"1 \u00e9\u2003\u00a0\u0085\u3000\u2028\u200b%#{path.suffix}"))
    column = "length long" if kind == "binaryFile" else "value string"
    schema = f"{METADATA}, {column}, year int"
    theirs = spark.read.format(kind)
    if kind != "binaryFile":
        theirs = theirs.schema("value string, year int")
    fields = [f"_metadata.{field.name}" for field in METADATA_TYPE]
    expected = theirs.load(str(root)).select(*fields, column.split(maxsplit=1)[0], "year")
    found = ours(spark, READERS[kind], root, schema, {"includeMetadata": "true"})
    found = found.select(*fields, column.split(maxsplit=1)[0], "year")
    assert expected.count() == (8 if kind == "binaryFile" else 16)
    assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)


VALUES = {
    "int": ("7", 7), "long": ("-5", -5), "short": ("3", 3), "double": ("1.5", 1.5), "boolean": ("TRUE", True),
    "string": ("a%3Ab%25", "a:b%"), "date": ("2024-02-29", dt.date(2024, 2, 29)), "binary": ("ab", b"ab"),
    "timestamp": ("2024-02-29 01%3A02%3A03", None), "decimal(5,2)": ("1.25", None), "byte": ("-1", -1),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_values_have_the_type_of_the_schema_as_in_spark(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    raw, expected = VALUES[kind]
    for value in (raw, "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"k={value}").mkdir()
        (tmp_path / f"k={value}" / "a.txt").write_text("x\n")
    schema = f"value string, k {kind}"
    found = ours(spark, TextReader, tmp_path, schema)
    assert_df_equality(found, spark.read.schema(schema).text(str(tmp_path)), ignore_row_order=True)
    values = [row.k for row in found.collect()]
    assert None in values
    assert expected in values


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ("abc", "int"),
        ("300", "byte"),
        ("2024-13-01", "date"),
        ("1.255", "decimal(5,2)"),
        ("", "string"),
        ("123456789012345678901234567890", "decimal(38,18)"),
        ("7", "decimal(38,38)"),
        ("0", "boolean"),
        ("1e99999999999", "decimal(5,2)"),
    ],
)
def test_an_unfit_partition_value_is_an_error_with_the_path(tmp_path: Path, raw: str, kind: str) -> None:
    (tmp_path / f"k={raw}").mkdir()
    (tmp_path / f"k={raw}" / "a.txt").write_text("x\n")
    with pytest.raises(SplitReadError, match=rf"k={raw}/a\.txt: the directory name contains '{raw}'"):
        batches_of(
            TextReader, [split_of(tmp_path / f"k={raw}" / "a.txt")], tmp_path, f"value string, k {kind}"
        )


def test_a_null_in_a_partition_column_that_is_not_null_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "k=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir()
    (folder / "a").write_text("x\n")
    with pytest.raises(SchemaError, match="the partition column k is null for this file"):
        batches_of(TextReader, [split_of(folder / "a")], tmp_path, "value string, k int not null")


def test_the_partition_value_takes_precedence_over_the_file_as_in_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "k=1").mkdir()
    pq.write_table(pa.table({"v": ["x"], "k": pa.array([7], pa.int32())}), tmp_path / "k=1" / "a")
    schema = "v string, k int"
    theirs = spark.read.schema(schema).parquet(str(tmp_path))
    assert_df_equality(ours(spark, ParquetReader, tmp_path, schema), theirs)


@pytest.mark.parametrize("mode", ["none", "addNewColumns"])
@pytest.mark.parametrize("header", ["a,K,b", "K,a,b", "a,b,K", "a,b"])
def test_a_partition_column_that_a_csv_file_has_too_does_not_shift_the_others(
    spark: SparkSession, tmp_path: Path, header: str, mode: str
) -> None:
    (tmp_path / "k=7").mkdir()
    values = {"a": "1", "K": "2", "b": "3"}
    line = ",".join(values[name] for name in header.split(","))
    (tmp_path / "k=7" / "0.csv").write_text(f"{header}\n{line}\n")
    options = {"header": "true", "inferSchema": "true", "schemaEvolutionMode": mode}
    theirs = spark.read.options(header=True, inferSchema=True).csv(str(tmp_path))
    source = Source.resolve({"path": str(tmp_path), "enumerator": "files", "reader": "csv", **options})
    schema = columns_text(schema_of(source))
    assert_df_equality(ours(spark, READERS["csv"], tmp_path, schema, options), theirs)
    assert theirs.select("a", "k", "b").first() == (1, 7, 3)
    for given in ("a int, b int, k int", "a int, k int, b int", "k int, a int, b int"):
        [batch] = batches_of(READERS["csv"], [split_of(tmp_path / "k=7" / "0.csv")], tmp_path, given, options)
        assert [batch[name].to_pylist() for name in "akb"] == [[1], [7], [3]]


def test_with_recursive_file_lookup_directories_are_not_columns_as_in_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder_of(spark, "json", tmp_path)
    schema = "value string, year int"
    found = ours(spark, JsonLinesReader, tmp_path, schema, {"recursiveFileLookup": "true"})
    theirs = spark.read.schema(schema).option("recursiveFileLookup", "true").json(str(tmp_path))
    assert_df_equality(found, theirs, ignore_row_order=True)


def test_only_directories_below_the_base_path_become_columns(spark: SparkSession, tmp_path: Path) -> None:
    folder_of(spark, "json", tmp_path)
    inner = tmp_path / "year=2024"
    schema = "value string, letter string, year int"
    theirs = spark.read.schema(schema).json(str(inner))
    assert_df_equality(
        ours(spark, JsonLinesReader, inner, schema),
        theirs.select("value", "letter", "year"),
        ignore_row_order=True,
    )
    with_base = spark.read.schema(schema).option("basePath", str(tmp_path)).json(str(inner))
    assert_df_equality(
        ours(spark, JsonLinesReader, inner, schema, {"basePath": str(tmp_path)}),
        with_base.select("value", "letter", "year"),
        ignore_row_order=True,
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [("{root}/*/x", None), ("{root}/k=*", None), ("{root}", 1), ("{root}/{{k=1/x,k=2}}", 1)],
)
def test_the_directory_that_a_glob_matches_is_the_base_path(
    tmp_path: Path, path: str, expected: int | None
) -> None:
    folder = tmp_path / "k=1" / "x" / "l=2"
    folder.mkdir(parents=True)
    (folder / "a").write_text("{}\n")
    root = Path(path.format(root=tmp_path))
    schema = "value string, k int, l int"
    [batch] = batches_of(JsonLinesReader, [split_of(folder / "a")], root, schema)
    assert batch["l"].to_pylist() == [2]
    assert batch["k"].to_pylist() == [expected]


def test_files_of_several_directories_share_a_batch(tmp_path: Path) -> None:
    for key in "ab":
        (tmp_path / f"k={key}").mkdir()
        for number in range(5):
            (tmp_path / f"k={key}" / str(number)).write_text("x\n")
    splits = [split_of(path) for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    [batch] = batches_of(TextReader, splits, tmp_path, "value string, k string")
    assert batch["k"].to_pylist() == ["a"] * 5 + ["b"] * 5


def test_remote_partition_directories_become_columns_too() -> None:
    import fsspec

    fsspec.filesystem("memory").pipe("/columns/k=1/a.txt", b"x\n")
    split = FileSplit(path="memory:///columns/k=1/a.txt", length=2, modified_us=0)
    options = {"includeMetadata": "true"}
    [batch] = batches_of(
        TextReader, [split], Path("unused"), f"value string, k int, {METADATA}",
        options | {"basePath": "memory://columns"},
    )  # fmt: skip
    assert batch["k"].to_pylist() == [1]
    assert batch["_metadata"][0].as_py()["file_name"] == "a.txt"


def test_metadata_has_the_range_of_the_file_that_a_row_is_from(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n3\n4\n")
    splits = [split_of(tmp_path / "a", 0, 4), split_of(tmp_path / "a", 4)]
    schema = "value string, _metadata struct<file_block_start: long, file_block_length: long>"
    batches = batches_of(TextReader, splits, tmp_path, schema, {"includeMetadata": "true"})
    found = [
        (value["file_block_start"], value["file_block_length"])
        for b in batches
        for value in b["_metadata"].to_pylist()
    ]
    assert found == [(0, 4), (0, 4), (4, 4), (4, 4)]


def test_a_time_outside_the_years_1_to_9999_is_null(tmp_path: Path) -> None:
    split = FileSplit(path="/a", length=1, modified_us=2**73)
    schema = "modificationTime timestamp, _metadata struct<file_modification_time: timestamp>"
    options = {"includeMetadata": "true"}
    [batch] = batches_of(BinaryReader, [split], tmp_path, schema, options)
    assert batch.to_pylist() == [{"modificationTime": None, "_metadata": {"file_modification_time": None}}]
    parsed = Options.parse(options, BinaryReader.options)
    constants = constants_of(arrow_schema(schema), parsed)(split)
    assert constants["_metadata", "file_modification_time"] is None


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("value string", "option includeMetadata is true, but the schema has no column _metadata"),
        ("value string, _metadata string", "the column _metadata has no field string of type string"),
        (
            "value string, _metadata struct<size: long>",
            "the column _metadata has no field size of type int64",
        ),
        ("value string, _metadata struct<file_size: int>", "has no field file_size of type int32"),
    ],
)
def test_a_schema_with_an_incompatible_metadata_column_is_refused(
    tmp_path: Path, schema: str, said: str
) -> None:
    with pytest.raises(SchemaError, match=said):
        batches_of(TextReader, [], tmp_path, schema, {"includeMetadata": "true"})


@pytest.mark.parametrize("reader", [TextReader, BinaryReader])
def test_a_default_schema_has_the_requested_metadata(reader: Read) -> None:
    options = Options.parse({"includeMetadata": "true"}, reader.options)
    schema = reader.default_schema(options)
    assert schema is not None
    assert schema.field("_metadata").equals(arrow_schema(METADATA).field(0))


def land(folder: Path, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.json").write_text(json.dumps({"id": number}) + "\n")


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    land(tmp_path / "env=prod" / "deep" / "orders" / "day=1", 1)
    land(tmp_path / "old" / "day=2", 2)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "paths"),
    [
        ("env=prod/deep/orders", ["old"]),
        ("old", ["env=prod/deep/orders"]),
        (None, ["env=prod/deep/orders", "old"]),
        ("old", ["env=*/*/orders"]),
        (None, ["env=prod/deep/orders"]),
    ],
)
def test_partition_columns_begin_below_the_path_that_contains_the_file(
    landing: Path, path: str | None, paths: list[str]
) -> None:
    options = {"enumerator": "files", "reader": "json", "stateLocation": str(landing / "state")}
    if path is not None:
        options["path"] = f"{landing}/{path}"
    options["paths"] = json.dumps([f"{landing}/{one}" for one in paths])
    schema = parse_columns("id long, day int, env string")
    engine = MicroBatchEngine(options, schema=schema)
    engine.process_all_available()
    assert sorted(engine.rows) == [(1, 1, None), (2, 2, None)][: len(paths) + (path is not None)]
    assert columns_text(schema_of(Source.resolve(options))) == "id bigint, day int"


@pytest.mark.parametrize(
    ("folder", "names", "depth"),
    [
        ("/a/b/k=1", ("/a", "/a/b"), 2),
        ("/a/k=1/b/l=1", ("/a", "/a/k=1/b"), 3),
        ("/a/k=1", ("/a", "/a/k=1"), 1),
        ("/a/k=1", ("/b", "/a/*/*.json", "/a/k=*"), 2),
        ("/a", ("/b", "/a/*.json"), 2),
        ("/else/where", ("/a", "/b/c"), 7),
        ("s3://in/a/k=1", ("in/a", "in/b/c"), 2),
    ],
)
def test_a_directory_in_several_paths_has_the_shortest_one(
    folder: str, names: Sequence[str], depth: int
) -> None:
    assert BasePaths(depth=7, names=tuple(names)).depth_of(parts_of_listed(folder)) == depth
