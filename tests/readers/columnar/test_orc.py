"""The orc reader returns the same as ``spark.read.schema(...).orc``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.options import Options
from flip27_source.readers.columnar.orc import OrcReader
from tests.readers.spark_reading import (
    arrow_schema,
    as_dataframe,
    assert_same_as_spark,
    read_batches,
    read_table,
    split_of,
)
from tests.spark.jvm import jvm_of

MANY_DIGITS = Decimal("1234567890123456789012345678.0123456789")
CONVERTED: list[tuple[pa.Array, str]] = [
    (pa.array([1, None, -(2**31)], pa.int32()), "long"),
    (pa.array([1, None, -128], pa.int8()), "int"),
    (pa.array([1, None, 7], pa.int32()), "short"),
    (pa.array([1, None, 2**31 - 1], pa.int32()), "double"),
    (pa.array([1, None, 2**31 - 1], pa.int32()), "decimal(12, 2)"),
    (pa.array([1, None, -(2**53)], pa.int64()), "double"),
    (pa.array([1, None, -(2**24)], pa.int32()), "float"),
    (pa.array([1, None, -(2**31)], pa.int64()), "int"),
    (pa.array([1, None, 999], pa.int64()), "decimal(5, 2)"),
    (pa.array([1, None, -(2**63)], pa.int64()), "decimal(38, 18)"),
    (pa.array([1, None, -99], pa.int64()), "decimal(38, 30)"),
    (pa.array([1, None, -128], pa.int8()), "string"),
    (pa.array([2**63 - 1, None, -(2**63)], pa.int64()), "string"),
    (pa.array([1, None, 0], pa.int32()), "boolean"),
    *((pa.array([True, False, None]), kind) for kind in ("byte", "short", "int", "long", "float", "double")),
    *((pa.array([True, False, None]), kind) for kind in ("decimal(5, 2)", "decimal(1, 0)", "string")),
    (pa.array([[{"b": True}, None], None, []]), "array<struct<b: string>>"),
    (pa.array([[("k", True), ("l", None)], None, []], pa.map_(pa.string(), pa.bool_())), "map<string, int>"),
    (pa.array([b"abc", None, b"\x00\xff"], pa.binary()), "string"),
    (pa.array([1.5, None, 0.25], pa.float32()), "double"),
    (pa.array([-3.0, None, 127.0]), "byte"),
    (pa.array([-3.0, None, 2.0**62], pa.float32()), "long"),
    (pa.array([1.0, None, 0.0]), "boolean"),
    (pa.array([1.5, None, -(2.0**-20)]), "float"),
    (pa.array([0.1, None, 1e10]), "decimal(20, 4)"),
    (pa.array([0.1, None, 2.5e-7]), "decimal(38, 18)"),
    (pa.array([0.1, None, -2.5], pa.float32()), "decimal(38, 18)"),
    (pa.array([0.1, None, 1234567.891]), "string"),
    (pa.array([1e7, None, -1.5e-7]), "string"),
    (pa.array([-0.0, None, 1e300]), "string"),
    (pa.array([0.1, None, float("-inf")], pa.float32()), "string"),
    (pa.array([Decimal("1.23"), None, Decimal("-0.05")], pa.decimal128(5, 2)), "decimal(10, 4)"),
    (pa.array([Decimal("1.20"), None, Decimal("-999.90")], pa.decimal128(5, 2)), "decimal(4, 1)"),
    (pa.array([Decimal("127.00"), None, Decimal("-128.00")], pa.decimal128(5, 2)), "byte"),
    (pa.array([Decimal(2**63 - 1), None, Decimal(-7)], pa.decimal128(38, 10)), "long"),
    (pa.array([Decimal("1.00"), None, Decimal("0.00")], pa.decimal128(5, 2)), "boolean"),
    (pa.array([Decimal("0.05"), None, Decimal("-1.25")], pa.decimal128(10, 2)), "float"),
    (pa.array([Decimal("99999999.99"), None, Decimal("0.05")], pa.decimal128(10, 2)), "double"),
    (pa.array([Decimal(2**63), None, Decimal("0.1234567891")], pa.decimal128(38, 10)), "double"),
    (pa.array([Decimal("1.50"), None, Decimal("300.00")], pa.decimal128(10, 2)), "string"),
    (pa.array([Decimal("0.0000000001"), None, Decimal(0)], pa.decimal128(38, 10)), "string"),
    (pa.array([MANY_DIGITS, None, MANY_DIGITS.copy_negate()], pa.decimal128(38, 10)), "string"),
    (pa.array([MANY_DIGITS, None, Decimal("-0.0000")], pa.decimal128(38, 10)), "string"),
    (pa.array([MANY_DIGITS, None, MANY_DIGITS.copy_negate()], pa.decimal128(38, 10)), "decimal(38, 10)"),
    (pa.array([str(MANY_DIGITS), None, "1"]), "decimal(38, 10)"),
    (pa.array(["abc", None, ""]), "binary"),
    (pa.array(["127", None, "-01"]), "byte"),
    (pa.array(["+1", None, "9223372036854775807"]), "long"),
    (pa.array(["1", None, "0"]), "boolean"),
    (pa.array([" 1.5 ", None, "1e3"]), "float"),
    (pa.array(["0x1p3", None, "-Infinity"]), "double"),
    (pa.array([" 1.5 ", None, "1e3"]), "decimal(10, 2)"),
    (pa.array(["2024-02-29", None, "1500-01-01"]), "date"),
    (pa.array(["2024-02-29 12:30:00", None, "1969-12-31 23:59:59.123456789"]), "timestamp"),
    (pa.array([dt.date(2024, 2, 29), None, dt.date(1969, 12, 31)]), "timestamp"),
    (pa.array([dt.date(2024, 2, 29), None, dt.date(1600, 1, 1)]), "string"),
    (pa.array([dt.datetime(2024, 2, 29), None, dt.datetime(1950, 1, 1)], pa.timestamp("us")), "date"),
    (pa.array([dt.datetime(2024, 2, 29, 12, 30, 0, 120_000), None, dt.datetime(1950, 1, 1)]), "string"),
    (pa.array([dt.datetime(2024, 2, 29, 12, 30), None, dt.datetime(1950, 1, 1)]), "int"),
    (pa.array([dt.datetime(2024, 2, 29, 12, 30, 0, 123_456), None, dt.datetime(1950, 1, 1)]), "double"),
    (
        pa.array([dt.datetime(2024, 2, 29, 12, 30, 0, 123_400), None, dt.datetime(1950, 1, 1)]),
        "decimal(20, 4)",
    ),
    (pa.array([[1, None], None, []], pa.list_(pa.int32())), "array<long>"),
    (pa.array([["1"], None, []]), "array<int>"),
    (
        pa.array([{"A": 1, "b": 2}, None, {}], pa.struct([("A", pa.int32()), ("b", pa.int64())])),
        "struct<b: long, a: string>",
    ),
]


def test_types_are_converted_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    columns = {f"c{number}": stored for number, (stored, _) in enumerate(CONVERTED)}
    ddl = ", ".join(f"c{number} {wanted}" for number, (_, wanted) in enumerate(CONVERTED))
    orc.write_table(pa.table(columns), tmp_path / "a.orc")
    ours = as_dataframe(spark, read_table(OrcReader(), [tmp_path / "a.orc"], ddl), ddl).collect()
    theirs = spark.read.schema(ddl).orc(str(tmp_path / "a.orc")).collect()
    assert len(ours) == len(theirs) == 3
    for number, (stored, wanted) in enumerate(CONVERTED):
        found = [row[number] for row in ours]
        assert found == [row[number] for row in theirs], f"{stored.type} to {wanted}"
        assert sum(value is None for value in found) == stored.null_count


NOT_CONVERTED: list[tuple[pa.Array, str]] = [
    (pa.array([True]), "timestamp"),
    (pa.array([True]), "binary"),
    *((pa.array([5_000_000_000]), kind) for kind in ("int", "boolean", "float")),
    (pa.array([2], pa.int32()), "boolean"),
    (pa.array([2], pa.int64()), "timestamp"),
    (pa.array([2], pa.int64()), "timestamp_ntz"),
    (pa.array([2], pa.int64()), "date"),
    (pa.array([2**53 + 1], pa.int64()), "double"),
    (pa.array([1000], pa.int64()), "decimal(5, 2)"),
    (pa.array([10**9], pa.int64()), "decimal(38, 30)"),
    (pa.array([1.5]), "int"),
    (pa.array([2.0]), "boolean"),
    (pa.array([float("nan")]), "long"),
    (pa.array([float("nan")]), "string"),
    (pa.array([float("inf")]), "decimal(5, 2)"),
    (pa.array([0.1]), "float"),
    (pa.array([1e300]), "float"),
    (pa.array([1.555]), "decimal(5, 2)"),
    (pa.array([1000.0]), "decimal(5, 2)"),
    (pa.array([1.5]), "timestamp"),
    (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), "decimal(5, 1)"),
    (pa.array([Decimal(10**37)], pa.decimal128(38, 0)), "decimal(38, 10)"),
    (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), "int"),
    (pa.array([Decimal(300)], pa.decimal128(5, 2)), "byte"),
    (pa.array([Decimal("99999999.99")], pa.decimal128(10, 2)), "float"),
    (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), "timestamp"),
    *((pa.array(["x"]), kind) for kind in ("int", "double", "decimal(5, 2)", "boolean", "date", "timestamp")),
    (pa.array([" 1"]), "int"),
    (pa.array(["128"]), "byte"),
    (pa.array(["true"]), "boolean"),
    (pa.array(["1.555"]), "decimal(5, 2)"),
    (pa.array(["1000"]), "decimal(5, 2)"),
    (pa.array(["2024-02-30"]), "date"),
    (pa.array(["2024-2-9"]), "date"),
    (pa.array(["2024-02-30 12:30:00"]), "timestamp"),
    (pa.array(["2024-02-29T12:30:00"]), "timestamp"),
    (pa.array(["1800-01-01 00:00:00"]), "timestamp"),
    (pa.array(["1"]), "timestamp_ntz"),
    (pa.array([dt.date(2024, 2, 29)]), "int"),
    (pa.array([dt.datetime(2024, 2, 29, 1)], pa.timestamp("us")), "date"),
    (pa.array([dt.datetime(2024, 2, 29, 1, 0, 0, 500_000)], pa.timestamp("us")), "long"),
    (pa.array([dt.datetime(2024, 2, 29, 1)], pa.timestamp("us")), "boolean"),
    (pa.array([dt.datetime(2024, 2, 29, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")), "string"),
    (pa.array([b"1"], pa.binary()), "int"),
]


@pytest.mark.parametrize(
    ("stored", "wanted"), NOT_CONVERTED, ids=[f"{row[0].type} to {row[1]}" for row in NOT_CONVERTED]
)
def test_values_that_spark_rounds_nulls_or_misreads_are_an_error(
    tmp_path: Path, stored: pa.Array, wanted: str
) -> None:
    orc.write_table(pa.table({"v": stored}), tmp_path / "a.orc")
    with pytest.raises(SchemaError, match=r"a\.orc: column v: (the file contains|a value does not fit)"):
        read_table(OrcReader(), [tmp_path / "a.orc"], f"v {wanted}")


def test_columns_of_old_hive_are_matched_by_position(spark: SparkSession, tmp_path: Path) -> None:
    orc.write_table(pa.table({"_col0": [1, 2], "_col1": ["x", None]}), tmp_path / "a.orc")
    assert_same_as_spark(spark, "orc", tmp_path / "a.orc", "id long, name string")


def test_timestamps_without_a_zone_are_local_time(tmp_path: Path) -> None:
    noon = dt.datetime(2024, 7, 1, 12)
    table = pa.table({"t": pa.array([noon, None], pa.timestamp("us")), "s": [{"t": noon}, None]})
    orc.write_table(table, tmp_path / "a.orc")
    schema = "t timestamp"
    found = read_table(OrcReader(), [tmp_path / "a.orc"], schema, time_zone="Europe/Berlin")
    assert found["t"].to_pylist() == [dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC), None]
    options = {"timeZone": "UTC"}
    found = read_table(OrcReader(), [tmp_path / "a.orc"], schema, options, time_zone="Europe/Berlin")
    assert found["t"].to_pylist() == [noon.replace(tzinfo=dt.UTC), None]
    [row, _] = read_table(
        OrcReader(), [tmp_path / "a.orc"], "s struct<t: timestamp>", time_zone="Europe/Berlin"
    ).to_pylist()
    assert row == {"s": {"t": dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC)}}
    [row, _] = read_table(
        OrcReader(), [tmp_path / "a.orc"], "s struct<t: timestamp_ntz>", time_zone="Asia/Tokyo"
    ).to_pylist()
    assert row == {"s": {"t": noon}}


@contextmanager
def jvm_in(zone: str, spark: SparkSession) -> Iterator[None]:
    """The zone of the session's JVM, which decides the zone in ORC files."""
    zones = jvm_of(spark).java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(zone))
    try:
        yield
    finally:
        zones.setDefault(before)


def written_by_spark(spark: SparkSession, folder: Path, *instants: str) -> Path:
    rows = ", ".join(f"(timestamp'{instant}Z')" for instant in instants)
    spark.sql(f"select t, array(t) as a from values {rows} as v(t)").coalesce(1).write.orc(str(folder))
    [path] = folder.glob("*.orc")
    return path


ZONES = {
    "Europe/Berlin": (
        "2045-07-01 12:00:00", "2045-03-26 00:59:59", "2045-03-26 01:00:00", "2036-07-01 12:00:00",
        "2024-10-26 23:59:59", "2024-10-27 02:00:00", "1969-12-31 22:59:58.5", "1970-01-01 00:00:00.5",
        "1969-12-31 23:30:00.000500", "1969-12-31 23:30:00", "1960-06-01 00:00:00.5",
    ),
    "America/New_York": (
        "2045-07-01 12:00:00", "2045-03-12 06:59:59", "2045-03-12 07:00:00", "2024-11-03 04:59:59",
        "2024-11-03 07:00:00", "1970-01-01 05:00:00.5", "1960-06-01 00:00:00.5",
    ),
    # Its summer time is half an hour ahead.
    "Australia/Lord_Howe": (
        "2045-01-01 12:00:00", "2045-07-01 12:00:00", "2024-04-06 14:29:59", "2024-04-06 15:30:00",
        "2024-10-05 15:29:59", "2024-10-05 15:30:00", "1970-01-01 00:00:00.5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
def test_times_of_zones_with_daylight_saving_are_the_same_as_in_spark(
    spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    with jvm_in(zone, spark):
        path = written_by_spark(spark, tmp_path / "out", *ZONES[zone])
        assert_same_as_spark(spark, "orc", path, "t timestamp, a array<timestamp>", time_zone=zone)


@pytest.mark.parametrize(
    ("zone", "instant", "problem"),
    [
        ("Europe/Berlin", "2024-10-27 01:30:00", "2024-10-27 02:30:00, which Europe/Berlin has twice"),
        ("Europe/Berlin", "2045-10-29 00:30:00", "2045-10-29 02:30:00, which Europe/Berlin has twice"),
        ("Europe/Berlin", "1969-12-31 22:59:59.5", r"1970-01-01 00:00:00.50*, which is between the starts"),
        ("Europe/Berlin", "1969-12-31 23:30:00.001", r"1970-01-01 00:30:01.0010*, which is between the sta"),
        ("America/New_York", "1970-01-01 04:59:58.5", r"1969-12-31 23:59:57.50*, which is between the sta"),
        ("America/New_York", "2024-11-03 06:30:00", "2024-11-03 01:30:00, which America/New_York has twice"),
        ("Australia/Lord_Howe", "2024-04-06 15:15:00", "2024-04-07 01:45:00, which Australia/Lord_Howe has"),
    ],
)
@pytest.mark.parametrize("schema", ["t timestamp", "a array<timestamp>", "t decimal(20, 9)"])
def test_times_that_arrow_does_not_read_right_are_refused(
    spark: SparkSession, tmp_path: Path, zone: str, instant: str, problem: str, schema: str
) -> None:
    with jvm_in(zone, spark):
        path = written_by_spark(spark, tmp_path / "out", instant)
    with pytest.raises(SchemaError, match=rf"column [at]: it contains {problem}[^\n]*\n.*use native reads"):
        read_table(OrcReader(), [path], schema, time_zone=zone)


@pytest.mark.parametrize(
    ("zone", "offset_h"), [("GMT+1", 1), ("UTC+8", 8), ("Z", 0), ("-03:00", -3), ("PST", -7), ("CET", 2)]
)
def test_every_zone_that_spark_knows_is_accepted(tmp_path: Path, zone: str, offset_h: int) -> None:
    noon = dt.datetime(2024, 7, 1, 12)
    orc.write_table(pa.table({"t": [noon], "n": [noon]}), tmp_path / "a.orc")
    [row] = read_table(OrcReader(), [tmp_path / "a.orc"], "t timestamp, n long", time_zone=zone).to_pylist()
    instant = noon.replace(tzinfo=dt.UTC) - dt.timedelta(hours=offset_h)
    assert row == {"t": instant, "n": instant.timestamp()}


IN_BERLIN: list[tuple[pa.Array, str, object]] = [
    (pa.array([dt.date(2024, 7, 1)]), "timestamp", dt.datetime(2024, 6, 30, 22, tzinfo=dt.UTC)),
    (pa.array(["2024-07-01 12:30"]), "timestamp", dt.datetime(2024, 7, 1, 10, 30, tzinfo=dt.UTC)),
    (pa.array(["2024-03-31 02:30:00."]), "timestamp", dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC)),
    (pa.array([dt.datetime(2024, 7, 1)]), "long", 1719784800),
    (pa.array([dt.datetime(1970, 1, 1)]), "decimal(20, 4)", Decimal(-3600)),
    (pa.array([dt.datetime(2024, 7, 1)]), "date", dt.date(2024, 7, 1)),
    (pa.array([dt.datetime(2024, 7, 1, 12, 30)]), "string", "2024-07-01 12:30:00"),
    (pa.array([dt.datetime(2024, 7, 1, 10, 30, tzinfo=dt.UTC)]), "decimal(20, 4)", Decimal(1719829800)),
]


@pytest.mark.parametrize(("stored", "wanted", "expected"), IN_BERLIN)
def test_converted_local_times_are_in_the_time_zone_of_the_session(
    tmp_path: Path, stored: pa.Array, wanted: str, expected: object
) -> None:
    """Spark reads the same if the time zone of its JVM is Berlin."""
    orc.write_table(pa.table({"v": stored}), tmp_path / "a.orc")
    found = read_table(OrcReader(), [tmp_path / "a.orc"], f"v {wanted}", time_zone="Europe/Berlin")
    assert found["v"].to_pylist() == [expected]


@pytest.mark.parametrize("column", ["date'1500-01-01' as v", "array(date'1500-01-01') as v"])
def test_dates_of_the_old_calendar_are_refused_and_not_shifted(
    spark: SparkSession, tmp_path: Path, column: str
) -> None:
    spark.sql(f"select {column}").write.orc(str(tmp_path / "out"))
    [path] = (tmp_path / "out").glob("*.orc")
    with pytest.raises(SchemaError, match=r"column v: it contains dates before 1582"):
        read_table(OrcReader(), [path], spark.read.orc(str(path)).schema)


def test_an_empty_file_has_no_rows_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.orc").touch()
    assert read_table(OrcReader(), [tmp_path / "a.orc"], "n long").num_rows == 0
    assert spark.read.schema("n long").orc(str(tmp_path / "a.orc")).count() == 0


def test_a_timestamp_that_arrow_cannot_read_is_not_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    orc.write_table(pa.table({"t": pa.array([202_653_819_250_817_304], pa.timestamp("us", "UTC"))}), path)
    schema = pa.schema([("t", pa.timestamp("us", "UTC"))])
    with pytest.raises(SplitReadError, match="ORC timestamps before 1677 or after 2262"):
        read_batches(OrcReader(), [split_of(path)], schema, {"ignoreCorruptFiles": "true"})


def test_local_times_that_spark_has_written_within_other_types_are_local_times(
    spark: SparkSession, tmp_path: Path
) -> None:
    noon, later = "timestamp_ntz'1978-06-20 12:00:00.105439'", "timestamp'2024-07-01 12:00:00'"
    values = f"array({noon}) a, map('k', named_struct('t', {noon}, 'n', 7L)) m, {noon} p, array({later}) z"
    spark.sql(f"SELECT {values}").coalesce(1).write.orc(str(tmp_path / "out"))
    [path] = (tmp_path / "out").glob("*.orc")
    schema = spark.read.orc(str(path)).schema
    found = OrcReader.stored_schema(split_of(path), Options.parse({}, OrcReader.options))
    assert found == arrow_schema(schema)
    assert_same_as_spark(spark, "orc", path, schema)
