"""What all columnar formats have in common: names of columns, ranges, damage, and remote files."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.readers.files.input import CorruptFileError
from tests.fuzz.avro_files import write_avro
from tests.readers.formats import COLUMNAR, READERS, WRITERS, write_ipc
from tests.readers.spark_reading import (
    arrow_schema,
    assert_same_as_spark,
    ranges_of,
    read_batches,
    read_table,
    split_of,
)

ALL_TYPES = """
    cast(id as byte) as a_byte, cast(id as short) as a_short, cast(id as int) as an_int, id as a_long,
    cast(id as float) as a_float, id / 3 as a_double, cast(id as decimal(7, 2)) as a_small_decimal,
    cast(id / 7 as decimal(38, 18)) as a_decimal, id % 2 = 0 as a_boolean, concat('text ', id) as a_string,
    cast(concat('x', id) as binary) as a_binary, date_add(date'1999-12-30', cast(id as int)) as a_date,
    timestamp_micros(id * 123456789123) as a_timestamp,
    timestamp_ntz'1950-01-01 01:02:03.456789' as a_timestamp_ntz, cast(null as string) as always_null,
    if(id % 3 = 0, null, named_struct('x', id, 'y', array(named_struct('z', cast(id as int))))) as a_struct,
    if(id % 4 = 0, null, array(id, null)) as an_array, map(concat('k', id), array(id)) as a_map
"""

each_format = pytest.mark.parametrize("name", COLUMNAR)


def write(name: str, path: Path, **columns: Any) -> Path:
    WRITERS[name](pa.table(columns), path)
    return path


@each_format
def test_columns_are_matched_case_insensitively_and_missing_columns_are_null(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    path = write(name, tmp_path / "a", Beta=[1, 2], other=["x", "y"], ALPHA=["p", None])
    schema = "alpha string, missing struct<x: int>, beta long"
    assert read_table(READERS[name](), [path], schema).to_pylist() == [
        {"alpha": "p", "missing": None, "beta": 1},
        {"alpha": None, "missing": None, "beta": 2},
    ]
    assert read_table(READERS[name](), [path], "missing int").to_pylist() == [{"missing": None}] * 2
    if name in ("parquet", "orc"):
        assert_same_as_spark(spark, name, path, schema)
        assert_same_as_spark(spark, name, path, "missing int")


@pytest.mark.parametrize(
    ("name", "timestamps", "time_zone"),
    [
        ("orc", "", "UTC"),
        *product(["parquet"], ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"], ["UTC", "America/New_York"]),
    ],
)
def test_every_type_that_spark_writes_is_read_as_spark_reads_it(
    spark: SparkSession, tmp_path: Path, name: str, timestamps: str, time_zone: str
) -> None:
    spark.conf.set("spark.sql.session.timeZone", time_zone)
    spark.conf.set("spark.sql.parquet.outputTimestampType", timestamps or "INT96")
    spark.range(0, 100, 1, 1).createOrReplaceTempView("ids")
    spark.sql(f"select {ALL_TYPES} from ids").write.format(name).save(str(tmp_path / "out"))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    [path] = (tmp_path / "out").glob(f"*.{name}")
    assert_same_as_spark(spark, name, path)


@each_format
def test_names_that_differ_only_in_case_are_an_error(tmp_path: Path, name: str) -> None:
    path = write(name, tmp_path / "x", a=[1], A=[2])
    with pytest.raises(SchemaError, match=r"/x: column a occurs more than once: a, A"):
        read_table(READERS[name](), [path], "a long")


@each_format
def test_a_null_in_a_column_that_is_not_null_is_an_error(tmp_path: Path, name: str) -> None:
    path = write(name, tmp_path / "x", a=[1, None])
    for schema, said in (("a long", "it contains a null"), ("b long", "it is missing in the file")):
        with pytest.raises(SchemaError, match=rf"/x: column .: {said}, but .*NOT NULL"):
            read_table(READERS[name](), [path], f"{schema} not null")


@each_format
def test_a_null_in_a_field_that_is_not_null_is_an_error_but_its_struct_may_be_null(
    tmp_path: Path, name: str
) -> None:
    schema = pa.schema(
        [("s", pa.list_(pa.struct([pa.field("x", pa.int64(), nullable=False), ("y", pa.int64())])))]
    )
    kind = pa.list_(pa.struct([("x", pa.int64()), ("y", pa.int64())]))
    rows = [[{"x": 1, "y": None}, None], None, []]
    path = write(name, tmp_path / "x", s=pa.array(rows, kind))
    assert read_table(READERS[name](), [path], schema)["s"].to_pylist() == rows
    for wrong in ([{"x": None, "y": 2}], [None, {"x": None, "y": 2}]):
        write(name, path, s=pa.array([wrong], kind))
        with pytest.raises(SchemaError, match=r"/x: column s: .*field x: it contains a null, but .*NOT NULL"):
            read_table(READERS[name](), [path], schema)


@each_format
def test_a_column_that_does_not_fit_is_an_error_with_file_and_column(tmp_path: Path, name: str) -> None:
    path = write(name, tmp_path / "a", v=["x"])
    with pytest.raises(SchemaError, match=r"/a: column v: .*(cannot be converted to|does not fit) int64"):
        read_table(READERS[name](), [path], "v long")


def write_stripes(table: pa.Table, path: Path) -> None:
    with orc.ORCWriter(path, stripe_size=1 << 14, compression="uncompressed") as writer:
        for batch in table.to_batches(5_000):
            writer.write(pa.Table.from_batches([batch]))


PARTS: dict[str, tuple[str, int, Callable[[pa.Table, Path], object]]] = {
    "parquet": ("parquet", 1_000, lambda table, path: pq.write_table(table, path, row_group_size=100)),
    "orc": ("orc", 100_000, write_stripes),
    "arrow file": ("arrow", 1_000, lambda table, path: write_ipc(table, path, stream=False)),
    "arrow stream": ("arrow", 1_000, lambda table, path: write_ipc(table, path, stream=True)),
    **{
        f"avro {codec}": ("avro", 5_000, partial(write_avro, codec=codec, sync_interval=1000))
        for codec in ("null", "deflate", "bzip2", "xz")
    },
}  # fmt: skip
"""The format, a number of rows, and a writer of files with many parts."""


@pytest.mark.parametrize("kind", PARTS)
def test_ranges_give_every_row_once_wherever_they_are_cut(tmp_path: Path, kind: str) -> None:
    name, rows, write_parts = PARTS[kind]
    path = tmp_path / "a"
    write_parts(pa.table({"n": range(rows)}), path)
    length = path.stat().st_size
    steps = [length // 7, length // 3, length // 2, length - 1]
    for step in steps if name == "orc" else [97, 400, *steps]:
        splits = ranges_of(path, range(0, length, step))
        batches = read_batches(READERS[name](), splits, arrow_schema("n long"))
        assert [n for batch in batches for n in batch["n"].to_pylist()] == list(range(rows))
        missing = read_batches(READERS[name](), splits, arrow_schema("m long"))
        assert sum(batch.num_rows for batch in missing) == rows
    if kind != "arrow stream":
        second_half = read_batches(READERS[name](), [split_of(path, length // 2)], arrow_schema("n long"))
        assert 0 < sum(batch.num_rows for batch in second_half) < rows


@each_format
def test_no_range_of_a_file_in_another_format_counts_as_read(tmp_path: Path, name: str) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number:09}\n" for number in range(1000)))
    for split in ranges_of(lines, [2500, 5000]):
        with pytest.raises(CorruptFileError, match="/lines is truncated or damaged"):
            read_batches(READERS[name](), [split], arrow_schema("n long"))


@pytest.mark.parametrize("kind", PARTS)
def test_a_range_has_the_same_rows_whichever_columns_are_read_and_even_if_another_one_is_damaged(
    tmp_path: Path, kind: str
) -> None:
    name, rows, write_parts = PARTS[kind]
    path = tmp_path / "a"
    write_parts(pa.table({"n": range(rows)}), path)
    splits = ranges_of(path, range(0, path.stat().st_size, path.stat().st_size // 5))
    whole = [rows_of(name, split) for split in splits]
    assert [rows_of(name, split, "m long") for split in splits] == whole
    times = path.stat()
    path.write_bytes(bytes(8) + path.read_bytes()[8:])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    for split, expected in zip(splits, whole, strict=True):
        assert rows_of(name, split) in (None, expected)


def rows_of(name: str, split: FileSplit, schema: str = "n long") -> int | None:
    """The number of rows of a range, or None if it is damaged."""
    try:
        return sum(batch.num_rows for batch in read_batches(READERS[name](), [split], arrow_schema(schema)))
    except CorruptFileError:
        return None


@pytest.mark.parametrize("kept", [0, 1, 3, 7, 20, 40, 100, 700, -1, -4, -8, -16, -17, -30, -100, -300])
@pytest.mark.parametrize("kind", ["parquet", "orc", "arrow", "arrow stream", "avro"])
def test_a_truncated_file_is_an_error_that_names_the_file(tmp_path: Path, kind: str, kept: int) -> None:
    path = tmp_path / "cut"
    table = pa.table({"t": [f"text {number * 7919 % 1009}" for number in range(1000)]})
    if kind == "arrow stream":
        write_ipc(table, path, stream=True)
    else:
        WRITERS[kind](table, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:kept] if kept else bytes(500))
    position = r".*byte \d+" if kind == "avro" else ""
    with pytest.raises(CorruptFileError, match=f"/cut is truncated or damaged{position}"):
        read_table(READERS[kind.partition(" ")[0]](), [path], "t string")


@each_format
def test_remote_files_are_read_through_fsspec(tmp_path: Path, name: str) -> None:
    content = write(name, tmp_path / "a", n=[1, 2]).read_bytes()
    fsspec.filesystem("memory").pipe(f"/{name}/a", content)
    split = FileSplit(path=f"memory://{name}/a", length=len(content), modified_us=0)
    [batch] = read_batches(READERS[name](), [split], arrow_schema("n long"))
    assert batch.to_pydict() == {"n": [1, 2]}
    longer = FileSplit(path=split.path, length=len(content) + 1, modified_us=0)
    with pytest.raises(SplitReadError, match="when it was discovered"):
        read_batches(READERS[name](), [longer], arrow_schema("n long"))
