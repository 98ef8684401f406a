"""Dates and timestamps are read by patterns as Spark's readers read them."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from flip27_source.errors import OptionError
from flip27_source.options import Options
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from flip27_source.readers.datetimes.columns import local_times
from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.datetimes.patterns import datetime_pattern
from flip27_source.readers.json_lines.reader import JsonLinesReader
from flip27_source.time_zones import java_zone
from tests.readers.schemas.test_inference import by_spark, found_out
from tests.readers.spark_reading import Compared, assert_same_as_spark

FAST = [
    "yyyy-MM-dd", "dd/MM/yyyy", "d/M/yyyy", "M/d/yy", "yyyyMMdd", "yyMMdd", "MMddyyyy", "dd-MMM-yyyy",
    "yyyy-MM", "yyyy", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "M/d/yyyy H:mm",
    "yyyy-MM-dd HH:mm:ss.SSSSSS", "yyyy-MM-dd HH:mm:ss.S", "yyyy-MM-dd hh:mm:ss a", "yyyyMMddHHmmss",
    "dd/MMM/yyyy:HH:mm:ss Z", "yyyy-MM-dd'T'HH:mm:ssX", "yyyy-MM-dd'T'HH:mm:ssXX",
    "yyyy-MM-dd'T'HH:mm:ssxxx", "yyyy[-MM[-dd]]", "yyyy-MM-dd[ HH:mm]", "yyyy-MM-ddXXX", "yyyy.SSSSSSSSS",
    "yyyy''MM", "yyyy'year'MM", "yyyy-MM-dd'T'HH:mm'Z'", "yyyy-MM-dd HH:mm:ss[.SSS",
]  # fmt: skip
SLOW = [
    "d MMMM yyyy", "y", "yyy", "yyyyy-MM-dd", "MM/dd", "hh:mm a", "HH:mm", "yyyyMMddHHmmssSSS",
    "yyyyMMddHHmmssS", "yyyy-MM-dd'T'HH:mm:ssx", "yyyy-MM-dd'T'HH:mm:ssZZZZZ",
    "yyyy-MM-dd'T'HH:mm:ss.SSSXXXXX", "yyyyDDD", "yyyy-DD", "yyyy D", "MM-DDD yyyy", "yyyy-MM-dd kk:mm",
    "yyyy-MM-dd KK:mm a", "yyyy-MM-dd a", "HH hh a", "HH:mm a", "yyyy[MM]", "[yyyy-]MM-dd", "HHmmssSSS",
    "MM dd yyyy yyyy", "sS", "MyyyyS", "[dd-MM-yyyy][yyyy/MM/dd]",
]  # fmt: skip
WRITTEN = [
    "2024-02-29", "2023-02-29", "29/02/2024", "1/2/2024", "13/13/2024", "20240229", "2024022", "240229",
    "02292024", "29-Feb-2024", "29-FEB-2024", "29-feb-24", "5 May 2024", "5 mAY 2024", "5 September 2024",
    "2024-02", "2024", "24", "999", "12024", "+12024", "-2024", "+2024", "-0", "0000", "02024-02-29",
    "+12024-02-29", "-2024-02-29", "0000-01-01", "02/29", "02/28", "2024-02-30", "2024-00-01", "12/31/99",
    "2024-02-29 12:34:56", "2024-02-29T12:34:56", "2024-02-29t12:34:56", "2024-02-29T12:34:56.1",
    "2024-02-29T12:34:56.123", "2024-02-29T12:34:56.1234", "2024-02-29T12:34:56.123Z",
    "2024-02-29T12:34:56Z", "2024-02-29T12:34:56z", "2024-02-29T12:34:56+01:00",
    "2024-02-29T12:34:56.1+01:00", "2024-02-29T12:34:56+0100", "2024-02-29T12:34:56+01",
    "2024-02-29T12:34:56+1", "2024-02-29T12:34:56-17:59", "2024-02-29T12:34:56+18:00",
    "2024-02-29T12:34:56+18:01", "2024-02-29T12:34:56+24:00", "2024-02-29T12:34:56+60:00",
    "2024-02-29T12:34:56+01:60", "2024-02-29T12:34:56+01:00:30", "2024-02-29T12:34:56-00:00",
    "2024-02-29T12:34:56+0000", "2024-02-29T12:34:56+00", "2024-02-29T12:34:56+010",
    "2024-02-29 12:34:56.1", "2024-02-29 12:34:56.123456", "2024-02-29 12:34:56.1234567",
    "2024-02-29 12:34:56.",
    "2024-02-29 24:00:00", "2024-02-29 23:59:60", "2024-02-29 12:60:00", "2024-02-29 1:2:3",
    "2024-02-29 12:02:03 am", "2024-02-29 12:02:03 Pm", "2024-02-29 13:02:03 PM", "2024-02-29 00:02:03 PM",
    "12:30 PM", "00:30 AM", "13:05", "24:00", "29/Feb/2024:12:34:56 +0100", "29/feb/2024:12:34:56 -0830",
    "20240229123456", "20240229123456123", "202402291234561", "2024060", "2024366", "2023366", "2024-60",
    "2024 366", "2024 0", "02-060 2024", "03-060 2024", "2024-02-29 24:30", "2024-02-29 11:30 PM",
    "2024-02-29 12:30 PM", "2024-02-29 PM", "12 12 PM", "13 01 PM", "13 01 AM", "13:00 AM", "202402",
    "02-29", "2024-02-29 12:30", "2024.5", "2024.123456789", "2024'02", "2024YEAR02", "2024-2-29",
    "123456789", "02 29 2024 2024", "02 29 2024 2023", " 2024-02-29", "2024-02-29 ", "x", "\u0662024",
    "2024-03-31 02:30:00", "2024-10-27T02:30:00", "2040-07-01 00:00:00", "0001-01-01 00:00:00",
    "9999-12-31 23:59:59", "+294247-01-10 04:00:54", "+999999999-01-01", "+1999999999-01-01",
    "2024-02-29+18:30", "2024-02-29Z", "561", "1202415", "2024/02/29", "29-02-20242024/02/29",
    "2024-02-29T12:34Z", "2024-02-29GMT", "2024-02-29 12:34:56 GMT", "18262", "29-Sept-2024",
    "3/4/2024 5:06", "13/4/2024 5:06", "3/4/2024 25:06", "03/004/2024 5:06",
]  # fmt: skip
ZONE = "Europe/Berlin"
KINDS = {"date": "dateFormat", "timestamp": "timestampFormat", "timestamp_ntz": "timestampNTZFormat"}


def damaged_too(texts: list[str]) -> list[str]:
    """The texts, and damaged copies of some: one character is added, removed or replaced.

    Damaged texts that begin with a time are left out, because they would mean today.
    """
    chance = random.Random(27)
    found = dict.fromkeys(texts)
    for text in texts[::2]:
        at = chance.randrange(len(text) + 1)
        one = text[:at] + chance.choice(["", *"0123456789-+:. TZ/x"]) + text[at + chance.randrange(2) :]
        if one and ":" not in one[:3] and not one.startswith("T"):
            found[one] = None
    return list(found)


TEXTS = damaged_too(WRITTEN)


def read_by_us(formats: DateTimeFormats, kind: str, texts: list[str]) -> list[int | None]:
    array = pa.array(texts, pa.string())
    if kind == "date":
        return formats.dates(array).cast(pa.int32()).to_pylist()
    return formats.timestamps(array, ZONE if kind == "timestamp" else None).cast(pa.int64()).to_pylist()


def read_alone(formats: DateTimeFormats, kind: str, texts: list[str]) -> list[int | None]:
    if kind == "date":
        return list(map(formats.date_days, texts))
    zone = java_zone(ZONE) if kind == "timestamp" else None
    return [formats.timestamp_us(text, zone) for text in texts]


class Case:
    """A pattern, or none, for a type of column, with or without ``enableDateTimeParsingFallback``."""

    def __init__(self, pattern: str | None, kind: str, fallback: str | None, file_format: str) -> None:
        self.name = (pattern, kind, fallback, file_format)
        self.kind, self.format = kind, file_format
        self.options = {"sep": "\x01", "quote": ""} if file_format == "csv" else {}
        self.options |= {} if pattern is None else {KINDS[kind]: pattern}
        self.options |= {} if fallback is None else {"enableDateTimeParsingFallback": fallback}

    def column(self) -> Column:
        if self.format == "csv":
            return sf.from_csv("text", f"v {self.kind}", self.options).getField("v")
        line = sf.to_json(sf.struct(sf.col("text").alias("v")))
        return sf.from_json(line, f"v {self.kind}", self.options).getField("v")

    def formats(self) -> DateTimeFormats:
        reader = CsvLinesReader if self.format == "csv" else JsonLinesReader
        options = Options.parse(self.options, reader.options)
        return DateTimeFormats.of(options, day_numbers=self.format == "json")


CASES = [
    *[Case(pattern, "timestamp", None, "csv") for pattern in FAST + SLOW],
    *[Case(pattern, "date", None, "csv") for pattern in (FAST + SLOW)[::3]],
    *[Case(pattern, "timestamp_ntz", None, "csv") for pattern in (FAST + SLOW)[1::3]],
    *[
        Case(pattern, kind, fallback, "json")
        for pattern in ("dd/MM/yyyy", None)
        for kind in KINDS
        for fallback in ("true", "false")
    ],
]


def test_texts_are_parsed_by_patterns_as_in_spark(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    frame = spark.createDataFrame(pa.table({"text": TEXTS})).coalesce(1)
    theirs = frame.select(*[case.column().alias(str(n)) for n, case in enumerate(CASES)]).toArrow()
    for case, column in zip(CASES, theirs.columns, strict=True):
        stored = column.cast(pa.int32() if case.kind == "date" else pa.int64()).to_pylist()
        ours = read_by_us(case.formats(), case.kind, TEXTS)
        alone = read_alone(case.formats(), case.kind, TEXTS)
        rows = zip(TEXTS, ours, alone, stored, strict=True)
        assert [row for row in rows if row[1:] != (row[3],) * 3] == [], case.name


@pytest.mark.parametrize("pattern", FAST)
def test_common_patterns_are_parsed_by_column(pattern: str) -> None:
    formats = DateTimeFormats(timestamp=datetime_pattern(pattern))
    good = [text for text in WRITTEN if read_alone(formats, "timestamp", [text]) != [None]]
    assert local_times(pa.array(good, pa.string()), datetime_pattern(pattern)).is_read.any()
    assert read_by_us(formats, "timestamp", TEXTS) == read_alone(formats, "timestamp", TEXTS)


@given(
    st.sampled_from(FAST),
    st.lists(st.one_of(st.none(), st.sampled_from(TEXTS), st.text("0129-/:. TZ", max_size=20)), max_size=9),
    st.integers(0, 2),
)
def test_a_column_gives_the_same_values_as_each_of_its_texts_alone(
    pattern: str, texts: list[str | None], start: int
) -> None:
    formats = DateTimeFormats(timestamp=datetime_pattern(pattern))
    times = formats.timestamps(pa.array(texts, pa.string())[start:], ZONE)
    alone = [None if text is None else formats.timestamp_us(text, java_zone(ZONE)) for text in texts[start:]]
    assert times.cast(pa.int64()).to_pylist() == alone


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("dd.MM.YYYY", "YYYY is not supported in a pattern; supported letters: y M L d"),
        ("EEE, dd MMM yyyy", "EEE is not supported"),
        ("yyyy-MM-dd HH:mm:ss VV", "VV is not supported"),
        ("ddd", "ddd is not supported"),
        ("yyyy-MM-dd'T", "a quote is not closed"),
        ("yyyy]", "a closing bracket has no opening bracket"),
        ("yyyy{MM}", "{ is reserved"),
        ("", "a pattern such as dd/MM/yyyy is expected"),
    ],
)
def test_a_pattern_that_is_not_supported_is_refused_by_name(pattern: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options.parse({"dateFormat": pattern}, CsvLinesReader.options)
    assert f"option dateFormat has the value {pattern!r}: {said}" in str(caught.value)


FORMATS = {
    "dateFormat": "dd/MM/yyyy", "timestampFormat": "dd.MM.yyyy HH:mm[:ss]", "timeZone": "Asia/Tokyo",
    "timestampNTZFormat": "yyyyMMdd HH",
}  # fmt: skip
SCHEMA = "d date, t timestamp, n timestamp_ntz, _corrupt_record string"


def test_csvs_are_parsed_by_patterns_as_in_spark(csv: Compared) -> None:
    lines = [
        "29/02/2024,29.02.2024 12:30,20240229 12", "2024-02-29,29.02.2024 12:30:15,2024-02-29",
        ",,", "30/02/2024,2024-02-29 12:30:00,", "01/01/2024,01.01.2024 24:00,20240101 23",
    ]  # fmt: skip
    content = "".join(f"{line}\n" for line in lines).encode()
    csv.same_as_spark(content, SCHEMA, FORMATS)


def test_jsons_are_parsed_by_patterns_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        '{"d":"29/02/2024","t":"29.02.2024 12:30","n":"20240229 12"}',
        '{"d":"2024-02-29","t":1709209800,"n":""}', '{"d":null}', '{"d":"18262","t":"","n":"20240229"}',
    ]  # fmt: skip
    path = tmp_path / "a.json"
    for repeated in (1, 3000):  # few lines, and enough lines to learn their layout
        path.write_text("".join(f"{line}\n" for line in (lines[:1] * repeated + lines)))
        assert_same_as_spark(spark, "json", path, SCHEMA, FORMATS)


@pytest.mark.parametrize(
    "options",
    [
        {"dateFormat": "dd/MM/yyyy"},
        {"timestampFormat": "dd/MM/yyyy HH:mm"},
        {"dateFormat": "yyyy-MM", "preferDate": "false"},
        {"dateFormat": "yyyy-M-d", "enableDateTimeParsingFallback": "true"},
    ],
    ids=str,
)
def test_types_are_inferred_by_patterns_as_in_spark(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    rows = [
        "29/02/2024,2024-02-29,29/02/2024 12:30,2024-2-9,29/02/2024",
        "01/02/2024,2024-03-01,01/02/2024 00:00,2024-02-09 10:00:00,01/02/2024 10:00",
    ]
    (tmp_path / "a.csv").write_text("".join(f"{row}\n" for row in rows))
    given = {"inferSchema": "true", **options}
    assert found_out(tmp_path, "csv", given) == by_spark(spark.read.options(**given).csv(str(tmp_path)))


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_the_first_and_last_moments_of_a_pattern_equal_those_of_spark(csv: Compared, kind: str) -> None:
    texts = ["-290308-12-21T19:59:05.224192", "-290308-12-21T19:59:05.999999",
             "-290308-12-21T19:59:06.000000",
             "294247-01-10T04:00:54.775807", "294247-01-10T04:00:54.775808"]  # fmt: skip
    pattern = "y-MM-dd'T'HH:mm:ss.SSSSSS"
    csv.same_as_spark(
        "".join(f"{text}\n" for text in texts).encode(),
        f"v {kind}, _corrupt_record string", {"timestampFormat": pattern, "timestampNTZFormat": pattern},
    )  # fmt: skip
