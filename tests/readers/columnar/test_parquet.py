"""The parquet reader returns the same as ``spark.read.schema(...).parquet``."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, IntegerType, MapType, StringType, StructField, StructType

from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.options import Options
from flip27_source.readers.columnar.parquet import ParquetReader
from flip27_source.readers.files.input import CorruptFileError
from tests.readers.spark_reading import arrow_schema, assert_same_as_spark, read_batches, read_table, split_of
from tests.spark_features import VERSION

MICROS = pa.timestamp("us")
NOON = dt.datetime(2024, 5, 6, 12, 30, 15, 123456)
OLD = dt.datetime(1931, 5, 6, 12, 30, 15, 123456)

WIDENED: list[tuple[str, pa.Array, str]] = [
    ("int to long", pa.array([1, None, -(2**31)], pa.int32()), "long"),
    ("byte to int", pa.array([1, None, -128], pa.int8()), "int"),
    ("short to long", pa.array([1, None, -(2**15)], pa.int16()), "long"),
    ("int to double", pa.array([1, None, 2**31 - 1], pa.int32()), "double"),
    ("int to decimal", pa.array([1, None, 2**31 - 1], pa.int32()), "decimal(12, 2)"),
    ("long to decimal", pa.array([1, None, 2**63 - 1], pa.int64()), "decimal(22, 2)"),
    ("int to short", pa.array([1, None, 7], pa.int32()), "short"),
    ("unsigned byte to short", pa.array([1, None, 255], pa.uint8()), "short"),
    ("unsigned int to long", pa.array([1, None, 2**32 - 1], pa.uint32()), "long"),
    ("unsigned long to decimal", pa.array([1, None, 2**64 - 1], pa.uint64()), "decimal(20, 0)"),
    ("float to double", pa.array([1.5, None, 0.1], pa.float32()), "double"),
    ("decimal to wider decimal", pa.array([Decimal("1.23"), None], pa.decimal128(5, 2)), "decimal(10, 4)"),
    ("byte to date", pa.array([1, None, -128], pa.int8()), "date"),
    ("int to date", pa.array([1, None, -100_000], pa.int32()), "date"),
    ("unsigned short to date", pa.array([1, None, 65535], pa.uint16()), "date"),
    ("date to int", pa.array([dt.date(2024, 2, 29), None, dt.date(1969, 1, 1)], pa.date32()), "int"),
    ("date to short", pa.array([dt.date(2024, 2, 29), None], pa.date32()), "short"),
    ("date to double", pa.array([dt.date(2024, 2, 29), None], pa.date32()), "double"),
    (
        "nested days",
        pa.array([[{"d": 3}], None], pa.list_(pa.struct([("d", pa.int8())]))),
        "array<struct<d: date>>",
    ),
    ("date to timestamp_ntz", pa.array([dt.date(2024, 2, 29), None], pa.date32()), "timestamp_ntz"),
    ("zone-less timestamp to timestamp", pa.array([NOON, OLD, None], MICROS), "timestamp"),
    ("milliseconds", pa.array([NOON.replace(microsecond=0), None], pa.timestamp("ms", "UTC")), "timestamp"),
    ("milliseconds without zone", pa.array([dt.datetime(1931, 5, 6)], pa.timestamp("ms")), "timestamp_ntz"),
    ("another zone", pa.array([NOON, None], pa.timestamp("us", "Asia/Tokyo")), "timestamp"),
    ("instant to wall clock", pa.array([NOON, OLD], pa.timestamp("us", "UTC")), "timestamp_ntz"),
    ("binary to string", pa.array([b"abc", None, b"a\xff"], pa.binary()), "string"),
    ("string to binary", pa.array(["abc", None], pa.string()), "binary"),
    ("large string", pa.array(["abc", None], pa.large_string()), "string"),
    ("string view", pa.array(["abc", None], pa.string_view()), "string"),
    ("fixed size binary", pa.array([b"abc", None], pa.binary(3)), "binary"),
    ("dictionary", pa.array(["a", "b", None, "a"]).dictionary_encode(), "string"),
    ("large list", pa.array([[1, None], None, []], pa.large_list(pa.int32())), "array<long>"),
    ("fixed size list", pa.array([[1, 2], [3, None]], pa.list_(pa.int32(), 2)), "array<int>"),
    (
        "nested numbers",
        pa.array(
            [{"A": 1, "b": [{"c": 2}]}, None, {"A": None, "b": None}],
            pa.struct([("A", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.int32())])))]),
        ),
        "struct<b: array<struct<missing: string, c: long>>, a: long>",
    ),
    (
        "map values",
        pa.array([[("k", 1), ("l", None)], None, []], pa.map_(pa.string(), pa.int32())),
        "map<string, long>",
    ),
]


@pytest.mark.parametrize(("stored", "wanted"), [row[1:] for row in WIDENED], ids=[row[0] for row in WIDENED])
def test_types_widen_as_in_spark(spark: SparkSession, tmp_path: Path, stored: pa.Array, wanted: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": stored}), path)
    assert_same_as_spark(spark, "parquet", path, f"v {wanted}")


REFUSED: list[tuple[pa.Array, str]] = [
    (pa.array([1], pa.int64()), "int"),
    (pa.array([1], pa.int64()), "double"),
    (pa.array([1], pa.int32()), "string"),
    (pa.array(["1"], pa.string()), "int"),
    (pa.array([1.5], pa.float64()), "float"),
    (pa.array([1.5], pa.float64()), "long"),
    (pa.array([Decimal("1.23")], pa.decimal128(5, 2)), "decimal(5, 1)"),
    (pa.array([Decimal("1.23")], pa.decimal128(5, 2)), "decimal(5, 3)"),
    (pa.array([Decimal("1.23")], pa.decimal128(5, 2)), "double"),
    (pa.array([2**31], pa.int64()), "decimal(10, 0)"),
    (pa.array([dt.time(1, 2, 3, 456)]), "timestamp_ntz"),
    (pa.array([dt.date(2024, 2, 29)], pa.date32()), "timestamp"),
    (pa.array([NOON], MICROS), "date"),
    (pa.array([1], pa.int64()), "date"),
    (pa.array([1], pa.uint32()), "date"),
    (pa.array([1], pa.int32()), "timestamp"),
    (pa.array([True]), "int"),
    (pa.array([[1]]), "long"),
    (pa.array([{"a": "x"}]), "struct<a: int>"),
]


@pytest.mark.parametrize(("stored", "wanted"), REFUSED, ids=[f"{row[0].type} to {row[1]}" for row in REFUSED])
def test_a_conversion_that_spark_does_not_support_is_an_error_with_file_and_column(
    spark: SparkSession, tmp_path: Path, stored: pa.Array, wanted: str
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": stored}), path)
    with pytest.raises(SchemaError, match=r"a\.parquet: column v: .*cannot be converted to"):
        read_table(ParquetReader(), [path], f"v {wanted}")
    with pytest.raises(Exception, match=r"PARQUET|Parquet"):
        spark.read.schema(f"v {wanted}").parquet(str(path)).collect()


def test_a_value_that_does_not_fit_a_narrow_type_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": pa.array([1, 300], pa.int32())}), tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match=r"a\.parquet: column v: a value does not fit int8"):
        read_table(ParquetReader(), [tmp_path / "a.parquet"], "v byte")


def test_an_unsigned_int_read_as_double_keeps_its_value_although_spark_reads_it_as_signed(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": pa.array([7, 2**32 - 1, None], pa.uint32())}), path)
    assert read_table(ParquetReader(), [path], "v double")["v"].to_pylist() == [7.0, 4294967295.0, None]
    spark_rows = spark.read.schema("v double").parquet(str(path)).collect()
    assert [row.v for row in spark_rows] == [7.0, -1.0, None]


def test_nanoseconds_are_rounded_down_to_microseconds(tmp_path: Path) -> None:
    stored = pa.array([1_700_000_000_123_456_789, -1, None], pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"v": stored, "w": stored.cast(pa.timestamp("ns"))}), tmp_path / "a.parquet")
    table = read_table(ParquetReader(), [tmp_path / "a.parquet"], "v timestamp, w timestamp_ntz")
    for name in ("v", "w"):
        assert table[name].cast(pa.int64()).to_pylist() == [1_700_000_000_123_456, -1, None]


def test_a_range_has_the_same_row_groups_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": list(range(5000))}), path, row_group_size=500)
    length = path.stat().st_size
    n_long = arrow_schema("n long")
    for size in (length // 2, length // 3, length // 5 + 100):
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(size))
        spark.conf.set("spark.sql.files.openCostInBytes", str(size))
        theirs = spark.read.parquet(str(path)).selectExpr("n", "spark_partition_id() as p").collect()
        splits = [split_of(path, start, start + size) for start in range(0, length, size)]
        ours = [read_batches(ParquetReader(), [split], n_long) for split in splits]
        partitions: dict[int, list[int]] = {}
        for n, p in theirs:
            partitions.setdefault(p, []).append(n)
        found = [[n for batch in part for n in batch["n"].to_pylist()] for part in ours if part]
        assert sorted(found) == sorted(partitions.values())
    spark.conf.unset("spark.sql.files.maxPartitionBytes")
    spark.conf.unset("spark.sql.files.openCostInBytes")


@pytest.mark.parametrize("empty_at", [0, 1, 2])
@pytest.mark.parametrize("dictionaries", [False, True])
def test_an_empty_row_group_at_any_position_has_no_rows(
    spark: SparkSession, tmp_path: Path, empty_at: int, dictionaries: bool
) -> None:
    path = tmp_path / "a.parquet"
    groups = [[1, 2], [3]]
    groups.insert(empty_at, [])
    with pq.ParquetWriter(path, pa.schema([("n", pa.int64())]), use_dictionary=dictionaries) as writer:
        for numbers in groups:
            writer.write_table(pa.table({"n": pa.array(numbers, pa.int64())}))
    assert pq.read_metadata(path).num_row_groups == 3
    assert_same_as_spark(spark, "parquet", path, "n long")
    middle = path.stat().st_size // 2
    halves = [split_of(path, 0, middle), split_of(path, middle)]
    batches = read_batches(ParquetReader(), halves, arrow_schema("n long"))
    assert [n for batch in batches for n in batch["n"].to_pylist()] == [1, 2, 3]


def nested_type(rng: random.Random, depth: int) -> DataType:
    kind = rng.choice("aaasmi") if depth < 4 else "i"
    if kind == "a":
        return ArrayType(nested_type(rng, depth + 1), rng.random() < 0.5)
    if kind == "m":
        return MapType(StringType(), nested_type(rng, depth + 1), rng.random() < 0.5)
    if kind == "s":
        names = rng.sample(["a", "array", "element", "bag", "list", "v_tuple"], rng.randint(1, 2))
        return StructType(
            [StructField(name, nested_type(rng, depth + 1), rng.random() < 0.5) for name in names]
        )
    return IntegerType()


def nested_value(rng: random.Random, kind: DataType, *, nullable: bool) -> Any:
    if nullable and rng.random() < 0.3:
        return None
    if isinstance(kind, ArrayType):
        count = rng.randint(0, 3)
        return [nested_value(rng, kind.elementType, nullable=kind.containsNull) for _ in range(count)]
    if isinstance(kind, MapType):
        value, has_nulls = kind.valueType, kind.valueContainsNull
        return {f"k{n}": nested_value(rng, value, nullable=has_nulls) for n in range(rng.randint(0, 3))}
    if isinstance(kind, StructType):
        return tuple(nested_value(rng, field.dataType, nullable=field.nullable) for field in kind)
    return rng.randint(-9, 9)


def list_of_lists(*contains_null: bool) -> DataType:
    kind: DataType = IntegerType()
    for has_nulls in reversed(contains_null):
        kind = ArrayType(kind, has_nulls)
    return kind


@pytest.mark.parametrize("legacy", [True, False])
def test_nested_lists_with_and_without_nulls_are_read_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path, legacy: bool
) -> None:
    rng = random.Random(7)
    yes_no = (False, True)
    kinds = [list_of_lists(*nulls) for depth in (2, 3) for nulls in product(yes_no, repeat=depth)]
    kinds += [nested_type(rng, 0) for _ in range(60)]
    schema = StructType(
        [StructField(f"c{number}", kind, rng.random() < 0.5) for number, kind in enumerate(kinds)]
    )
    rows = [nested_value(rng, schema, nullable=False) for _ in range(8)]
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", str(legacy).lower())
    try:
        spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(tmp_path / "out"))
    finally:
        spark.conf.unset("spark.sql.parquet.writeLegacyFormat")
    [path] = (tmp_path / "out").glob("*.parquet")
    assert_same_as_spark(spark, "parquet", path)
    found = spark.read.parquet(str(path))
    inferred = ParquetReader.schema_of_files([split_of(path)], Options.parse({}, ParquetReader.options))
    assert inferred is not None
    assert from_arrow_schema(inferred).simpleString() == found.schema.simpleString()


def with_marked_list(whole: bytes) -> bytes:
    """Change the footer of a file so that its struct ``s`` of two fields is marked as a list."""
    length = int.from_bytes(whole[-8:-4], "little")
    body, footer = whole[: -8 - length], whole[-8 - length : -8]
    plain = b"\x18\x01s\x15\x04\x00"
    assert footer.count(plain) == 1
    footer = footer.replace(plain, plain[:-1] + b"\x15\x06\x00")
    return body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def test_an_unreadable_schema_is_not_damage_that_a_policy_would_ignore(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"s": [{"a": 1, "b": 2}]}), path, store_schema=False)
    path.write_bytes(with_marked_list(path.read_bytes()))
    with pytest.raises(SplitReadError, match=r"a\.parquet: Arrow cannot read the schema") as caught:
        read_table(ParquetReader(), [path], "s struct<a: long>")
    assert caught.value.ignored_by is None


def test_wide_rows_are_read_in_smaller_batches(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"{n:0100000}" for n in range(1000)]}), path, use_dictionary=False)
    batches = read_batches(ParquetReader(), [split_of(path)], arrow_schema("text string"))
    assert sum(batch.num_rows for batch in batches) == 1000
    assert max(batch.nbytes for batch in batches) < 40 << 20


def test_dates_of_the_old_calendar_are_refused_and_not_shifted(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    dates = {
        "old": "date'1500-01-01'",
        "new": "date'2000-01-01'",
        "ancient": "date_add(date'0001-01-01', -9999)",
    }
    for name, date in dates.items():
        spark.sql(f"select {date} as d").write.parquet(str(tmp_path / name))
    spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")
    [new] = (tmp_path / "new").glob("*.parquet")
    expected: list[dict[str, Any]] = [{"d": dt.date(2000, 1, 1)}]
    assert read_table(ParquetReader(), [new], "d date").to_pylist() == expected
    for name in ("old", "ancient"):
        with pytest.raises(SchemaError, match=r"column d: it contains dates before 1900"):
            read_table(ParquetReader(), (tmp_path / name).glob("*.parquet"), "d date")


@pytest.mark.parametrize(
    "kind", ["array<date>", "struct<d: date>", "map<string, date>", "array<struct<d: array<date>>>"]
)
def test_dates_of_the_old_calendar_are_refused_on_every_level(tmp_path: Path, kind: str) -> None:
    old, key = dt.date(1500, 1, 1), "org.apache.spark.legacyDateTime"
    values: dict[str, Any] = {
        "array<date>": [old], "struct<d: date>": {"d": old}, "map<string, date>": [("k", old)],
        "array<struct<d: array<date>>>": [{"d": [None, old]}],
    }  # fmt: skip
    table = pa.table({"v": pa.array([values[kind]], arrow_schema(f"v {kind}").field(0).type)})
    pq.write_table(table.replace_schema_metadata({key: ""}), tmp_path / "old.parquet")
    with pytest.raises(SchemaError, match=r"column v: it contains dates before 1900"):
        read_table(ParquetReader(), [tmp_path / "old.parquet"], f"v {kind}")
    pq.write_table(table, tmp_path / "new.parquet")
    assert (
        read_table(ParquetReader(), [tmp_path / "new.parquet"], f"v {kind}").to_pylist() == table.to_pylist()
    )


NOT_FOUND = {
    "no row": (pa.list_(pa.int32()), [[1, 2, 3]], "Arrow returns 0 of the 1 rows of row group 0"),
    "half a row": (
        pa.map_(pa.string(), pa.struct([("x", pa.timestamp("ms")), ("y", pa.bool_())])),
        [[("b", {"x": 1032937477007, "y": True})]],
        "Arrow returns no row of row group 0: .* child array invalid",
    ),
    "no map in a struct": (
        pa.struct([("x", pa.map_(pa.string(), pa.string())), ("y", pa.int8())]),
        [{"x": [], "y": 93}],
        "Arrow returns no row of row group 0: Struct child array #0 has length smaller than expected",
    ),
    "a dictionary in arrow-rs's encoding": (
        pa.dictionary(pa.int32(), pa.string()),
        ["a"],
        "a.parquet cannot be read: OSError: Not yet implemented: .*DeltaByteArrayDecoder.*native reads",
    ),
}


@pytest.mark.parametrize("name", NOT_FOUND)
def test_rows_that_arrow_cannot_find_are_an_error_but_not_damage(tmp_path: Path, name: str) -> None:
    """Spark reads one row from each of these files."""
    kind, rows, message = NOT_FOUND[name]
    path = tmp_path / "a.parquet"
    pages: dict[str, Any] = {"data_page_size": 1}
    if name == "half a row":
        pages = {"data_page_size": 64, "data_page_version": "2.0"}
    elif pa.types.is_dictionary(kind):
        pages = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}
    pq.write_table(pa.table({"c": pa.array(rows, kind)}), path, **pages)
    assert pq.read_metadata(path).num_rows == 1
    with pytest.raises(SplitReadError, match=f"(?s){message}") as caught:
        read_batches(
            ParquetReader(),
            [split_of(path)],
            pa.schema([("c", kind.value_type if pa.types.is_dictionary(kind) else kind)]),
            {"ignoreCorruptFiles": "true"},
        )
    assert "damaged" not in str(caught.value)


@pytest.mark.parametrize("shredded", [False, True])
@pytest.mark.parametrize("column", ["v", "s.v"])
def test_a_variant_is_read_unless_it_is_shredded(
    spark: SparkSession, tmp_path: Path, shredded: bool, column: str
) -> None:
    option = "spark.sql.variant.writeShredding.enabled"
    spark.conf.set(option, str(shredded).lower())
    try:
        query = """select v, named_struct('v', v) as s from (select parse_json('{"a": 1, "b": "x"}') as v)"""
        spark.sql(query).coalesce(1).write.parquet(str(tmp_path / "out"))
    finally:
        spark.conf.unset(option)
    [path] = (tmp_path / "out").glob("*.parquet")
    schema = spark.read.parquet(str(path)).select(column.partition(".")[0]).schema
    is_shredded = "typed_value" in str(pq.ParquetFile(path).schema)
    assert is_shredded == (shredded and VERSION > (4, 0))  # 4.0 takes no notice of the setting
    if is_shredded:
        with pytest.raises(SchemaError, match=r"column \w: .*shredded variant.*\n.*use native reads"):
            read_table(ParquetReader(), [path], schema)
        with pytest.raises(SchemaError, match=r"column v: .*shredded variant"):
            read_table(ParquetReader(), [path], "v struct<value: binary, metadata: binary>")
    else:
        assert_same_as_spark(spark, "parquet", path, schema)


@pytest.mark.parametrize(
    "values",
    ["(2147483647), (-2147483648)", "(4294967295), (0)", "(0), (2147483648)"],
    ids=["int", "max", "uint"],
)
@pytest.mark.parametrize("given", [{}, {"ignoreCorruptFiles": "true"}], ids=["", "ignored"])
def test_differences_of_64_bits_in_a_column_of_32_are_an_error_and_no_damage(
    tmp_path: Path, values: str, given: dict[str, str]
) -> None:
    """DuckDB writes them with PARQUET_VERSION V2, and Spark reads them; Arrow cannot."""
    kind = "integer" if "-" in values else "uinteger"
    file = tmp_path / "a.parquet"
    rows = f"select v::{kind} as v from (values {values}) as t(v)"
    duckdb.sql(f"copy ({rows}) to '{file}' (format parquet, parquet_version v2)")
    with pytest.raises(SplitReadError, match="Arrow cannot decode differences of 64 bits") as caught:
        read_batches(ParquetReader(), [split_of(file)], arrow_schema("v bigint"), given)
    assert "native reads" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["long", "other"], ids=["of 64 bits", "beside one of 32 bits that is not read"]
)
def test_damaged_differences_that_arrow_could_decode_are_damage(tmp_path: Path, name: str) -> None:
    file = tmp_path / "a.parquet"
    how: dict[str, Any] = {"column_encoding": "DELTA_BINARY_PACKED", "compression": "none"}
    columns = {"long": pa.array(range(1000), pa.int64())}
    columns |= {"int": pa.array(range(1000), pa.int32())} if name == "other" else {}
    pq.write_table(pa.table(columns), file, use_dictionary=False, write_statistics=False, **how)
    data, start = file.read_bytes(), pq.read_metadata(file).row_group(0).column(0).data_page_offset + 30
    file.write_bytes(data[:start] + b"\xff" * 12 + data[start + 12 :])
    with pytest.raises(CorruptFileError, match="InitHeader EOF"):
        read_batches(ParquetReader(), [split_of(file)], arrow_schema("long bigint"))
