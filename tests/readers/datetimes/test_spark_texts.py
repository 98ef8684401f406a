"""Texts are read as the dates and timestamps that Spark's JSON and CSV readers return for them."""

from __future__ import annotations

import csv
import json
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from flip27_source.errors import OptionError
from flip27_source.readers.datetimes.formats import (
    date_days,
    java_zone,
    parse_dates,
    parse_timestamps,
    timestamp_us,
)

DATES = [
    "2020-01-01", "2020-1-2", "2020", "2020-05", "+2020-01-01", "-2020-01-01", "0000-01-01", "0001-01-01",
    "12020-01-01", "1234567-01-01", "12345678-01-01", "5881580-07-11", "5881580-07-12", "2020-01-01T",
    "2020-01-01 ", " 2020-01-01", "2020-01-01Tanything", "2020-01-01x", "2020-02-29", "2019-02-29",
    "1900-02-29",
    "2020-02-30", "2020-13-01", "2020-00-01", "2020-01-00", "20200101", "2020GMT", "GMT2020-01-01", "", " ",
    "now", "epoch", "18262", "-141428", "-141427", "-719164", "-1000000", "-2000000000", "2147483648", "+5",
    "\u0663", "1582-10-04", "1582-10-10", "1500-02-29", "\t2020-01-01\n", "2020-001-01", "02020-01-01",
    "020-01-01",
]  # fmt: skip
TIMES = [
    "2020-01-01T1", "2020-01-01T12", "2020-01-01T12:3", "2020-01-01T12:34", "2020-01-01T12:34:5",
    "2020-01-01T12:34:56", "2020-01-01 12:34:56", "2020-01-01T12:34:56.", "2020-01-01T12:34:56.1",
    "2020-01-01T12:34:56.123456789", "2020-01-01T12:34:56.5.5", "2020-01-01T24:00:00", "2020-01-01T23:59:60",
    "2020-01-01  00:00:00", "2020-01-1T1:1:1", "2020-01-01\x0012:00:00", "2020-01-01t12:34:56",
    "294247-01-10 04:00:54.775807", "294247-01-10 23:00:54.775808", "294248-01-01", "-290308-12-21 19:59:05",
    "999999-01-01", "9999-12-31T23:59:59.999999", "12345-07-01 00:00:00", "2500-07-01 00:00:00",
    "2038-07-01 00:00:00", "2020-03-29 01:59:59", "2020-03-29 02:00:00", "2020-03-29 02:30:00",
    "2020-03-29 03:00:00", "2020-10-25 02:30:00", "2020-03-08 02:30:00", "2020-11-01 01:30:00",
    "1893-04-01 00:03:00", "1800-01-01 00:00:00",
]  # fmt: skip
ZONED = [
    "2020-01-01T12:34:56" + zone
    for zone in [
        "Z", "z", " Z", "+01:00", "+1:00", "+1:0", "+01", "+1", "+0100", "+010203", "+01:02:03",
        "+18:00", "+18:01",
        "-18:00", "-17:59", "+99:00", "+00:60", "-00:00", " +01:00", " + 01:00", ".5Europe/Berlin",
        " Europe/Berlin", " PST", " EST", " CET", " UTC", "UTC+3", " GMT+3", "GMT", "GMT+01:00", "GMT0",
        "UT", "Zulu",
        " europe/berlin", " Foo/Bar", "Etc/GMT+5", "EST5EDT", "Factory", "ROC", "posixrules", "Z0",
        "UTC+", "\u00e9",
    ]
] + ["2020-01-01T12:34Z", "2020-01-01T12Z", "2020-01-01Z", "2020-01-01T12:34+01:00"]  # fmt: skip
TEXTS = DATES + TIMES + ZONED
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "+05:30", "PST", "GMT+3"]


def write(folder: Path, file_format: str) -> str:
    path = folder / f"texts.{file_format}"
    with path.open("w", newline="") as file:
        if file_format == "json":
            file.writelines(json.dumps({"k": number, "v": text}) + "\n" for number, text in enumerate(TEXTS))
        else:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerows(enumerate(TEXTS))
    return str(path)


def spark_values(spark: SparkSession, path: str, kind: str) -> list[object]:
    reader = spark.read.schema(f"k int, v {kind}").option("multiLine", path.endswith("csv"))
    table = (reader.json(path) if path.endswith("json") else reader.csv(path)).toArrow().sort_by("k")
    stored = pa.int32() if kind == "date" else pa.int64()
    return [value.as_py() for value in table["v"].cast(stored)]


def differences(ours: pa.Array, spark_said: list[object]) -> list[tuple[str, object, object]]:
    stored = pa.int32() if ours.type == pa.date32() else pa.int64()
    values = ours.cast(stored).to_pylist()
    return [row for row in zip(TEXTS, values, spark_said, strict=True) if row[1] != row[2]]


@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_dates_are_read_as_in_spark(spark: SparkSession, tmp_path: Path, file_format: str) -> None:
    said = spark_values(spark, write(tmp_path, file_format), "date")
    ours = parse_dates(pa.array(TEXTS), from_day_numbers=file_format == "json")
    assert differences(ours, said) == []


@pytest.mark.parametrize("file_format", ["json", "csv"])
@pytest.mark.parametrize("zone", [*ZONES, None])
def test_timestamps_with_and_without_a_zone_are_read_as_in_spark(
    spark: SparkSession, tmp_path: Path, file_format: str, zone: str | None
) -> None:
    if zone is not None:
        spark.conf.set("spark.sql.session.timeZone", zone)
    said = spark_values(spark, write(tmp_path, file_format), "timestamp" if zone else "timestamp_ntz")
    ours = parse_timestamps(pa.array(TEXTS), zone)
    assert differences(ours, said) == []
    assert ours.type == pa.timestamp("us", "UTC" if zone else None)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+05:30", None])
def test_a_column_of_equal_texts_gives_the_value_of_the_text_alone(zone: str | None) -> None:
    """Arrow's parser parses whole columns, so each text must also be read correctly alone."""
    tz = None if zone is None else java_zone(zone)
    for text in TEXTS:
        times = parse_timestamps(pa.array([text, text]), zone)
        assert times.cast(pa.int64()).to_pylist() == [timestamp_us(text, tz)] * 2, text
        dates = parse_dates(pa.array([text]))
        assert dates.cast(pa.int32()).to_pylist() == [date_days(text)], text


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1)).map(str),
            st.datetimes(min_value=datetime(1900, 1, 1)).map(datetime.isoformat),
            st.from_regex(
                r"(19|20)\d\d-[01]\d-[0-3]\d([T ][0-2]\d:[0-5]\d(:[0-5]\d(\.\d{1,7})?)?(Z|[+-]\d\d:?\d\d)?)?",
                fullmatch=True,
            ),
        )
    ),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "-03:00", None]),
)
def test_a_column_of_many_spellings_gives_the_same_values_as_each_text_alone(
    texts: list[str | None], zone: str | None
) -> None:
    tz = None if zone is None else java_zone(zone)
    times = parse_timestamps(pa.array(texts, pa.string()), zone)
    alone = [None if text is None else timestamp_us(text, tz) for text in texts]
    assert times.cast(pa.int64()).to_pylist() == alone


def test_a_time_without_a_date_gets_the_current_date() -> None:
    before = datetime.now(UTC).date()
    times = parse_timestamps(pa.array(["12:34:56", "T1:2", " T1:2"]), "UTC")
    after = datetime.now(UTC).date()
    first, second, third = times.to_pylist()
    assert first.date() in {before, after}
    assert (first.hour, first.minute, first.second) == (12, 34, 56)
    assert (second.hour, second.minute) == (1, 2)
    assert third is None


def test_nulls_stay_null() -> None:
    assert parse_dates(pa.array([None, "2020-01-01", "x"])).to_pylist() == [None, date(2020, 1, 1), None]
    assert len(parse_timestamps(pa.array([], pa.string()), "Europe/Berlin")) == 0


def test_an_unknown_zone_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match="'Mars/Olympus' is unknown"):
        java_zone("Mars/Olympus")
