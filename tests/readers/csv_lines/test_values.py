"""Texts have the same values as in Spark's CSV reader, or are malformed as there."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from flip27_source.errors import SchemaError
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from flip27_source.readers.scalars.texts import converter
from tests.readers.spark_reading import Compared, arrow_schema, read_batches

INTEGERS = [
    *[
        "1",
        "-1",
        "+5",
        "-0",
        "007",
        " 1",
        "1 ",
        "1\t",
        "0x1F",
        "1.0",
        "1e3",
        "abc",
        "127",
        "128",
        "-128",
        "-129",
    ],
    *["32767", "32768", "-32768", "-32769", "2147483647", "2147483648", "-2147483648", "-2147483649", "--1"],
    *["9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "+", "-"],
    *[
        "",
        "1_000",
        "\uff11\uff12",
        "\u0663",
        "1L",
        "null",
        "NaN",
        "9" * 23,
        "+-1",
        "-" + "0" * 30 + "5",
        "''",
    ],
    *['"12"', '"1,2"', '" 12"', '""', "\u00b2", "\u00a01"],
]
FLOATS = [
    *INTEGERS,
    *[
        "1.5",
        "-1.5",
        "+1.5",
        ".5",
        "5.",
        "-.5",
        ".",
        "1e5",
        "1E5",
        "1e+5",
        "1e-5",
        "1e400",
        "-1e400",
        "1e-400",
    ],
    *[
        "4.9e-324",
        "1.0f",
        "1.0F",
        "1d",
        "1D",
        "nan",
        "NAN",
        "-NaN",
        "+NaN",
        "inf",
        "Inf",
        "INF",
        "-Inf",
        "+Inf",
    ],
    *[
        "-inf",
        "Infinity",
        "-Infinity",
        "+Infinity",
        "infinity",
        " NaN",
        " Inf",
        "0x1p3",
        "0x1.8p1",
        "-0x.8p0f",
    ],
    *[
        "0x1.8",
        "1e",
        "e5",
        "1.5 ",
        "1,5",
        "1__0",
        "16777217",
        "16777217.0000001",
        "0.1",
        "3.4028235e38",
        "3.5e38",
    ],
    *["1.17549435E-38f", "1e39d", "12345678901234567890", "-0.0", "0.30000000000000004", "0x1p99999"],
    *["1.1754943508222875E-38", "-0x1p99999", "1.5f\u00a0", "2.2250738585072012e-308"],
]
DECIMALS = [
    *FLOATS,
    *["1.005", "1.015", "-1.005", "0.005", "999.995", "9999.99", "99999.99", "100000", "1e2", "1E+2", "1e-3"],
    *["1.2.3", '"1,234.5"', '"1,2,3"', '"12345.678"', "0.00", "-0.001", "1e30", "1e-30", "1e999999999"],
    *["1e-9999", "0e9999", "0e3000000000", "1e-3000000000", "1e99999999999", "00001.50"],
    *["123456789012345678901234567890", "9" * 38, "9" * 39, ".99999", ".999995"],
]
BOOLEANS = [
    *["true", "false", "TRUE", "False", "tRuE", "t", "f", "yes", "1", "0", " true", "true ", "", "truefalse"],
    *['"true"', '""', "\uff34\uff32\uff35\uff25"],
]
STRINGS = [
    *[
        "a",
        " a ",
        "",
        '""',
        '" "',
        "é",
        "😀",
        "null",
        "NULL",
        "\u2028x",
        "\u3000",
        "NA",
        '"NA"',
        "\x0b",
        "\x1f",
    ],
    "a\x00b",
]
DATES = [
    *["2024-02-29", "2023-02-29", "2024-2-9", "2024-02", "2024", "2024-02-29 12:30:00", "2024-02-29T12:30"],
    *["0001-01-01", "1500-01-01", "9999-12-31", "10000-01-01", "-0001-01-01", "+2024-01-01", " 2024-01-01"],
    *["2024-01-01 ", "2024/01/01", "20240101", "01-01-2024", "today", "now", "epoch", "2024-01-01T", "12345"],
    *[
        "2024-01-01x",
        "2024-13-01",
        "2024-00-01",
        "1582-10-10",
        "",
        "2024-01-01 12",
        "123",
        "2024-1",
        "2024-02-30",
    ],
    *["2024-01-01Z", "2024-01-01 00:00:00+02:00", "GMT2024-01-01", "2024-01-01GMT", "2024-02-29 nonsense"],
]
# Times without a date are left out, because they mean today, and both sides would read the clock.
TIMESTAMPS = [
    *DATES,
    *["2024-01-01 00:00:00", "2024-01-01T00:00:00", "2024-01-01 00:00:00.1", "2024-01-01 00:00:00.123456"],
    *[
        "2024-01-01 00:00:00.123456789",
        "2024-01-01T00:00:00Z",
        "2024-01-01T00:00:00.5Z",
        "2024-01-01 00:00:00 Z",
    ],
    *["2024-01-01 00:00:00+02:00", "2024-01-01 00:00:00+0200", "2024-01-01 00:00:00+02", "1700000000"],
    *["2024-01-01 00:00:00 Europe/Berlin", "2024-01-01 00:00:00 PST", "2024-01-01 00:00:00UTC"],
    *["2024-01-01 00:00:00 GMT+1", "2024-01-01 00:00:00GMT+01:00", "2024-01-01 1:2:3", "2024-01-01 24:00:00"],
    *["2024-01-01 23:59:60", "2024-01-01 12:30:00.", "2024-03-31 02:30:00", "2024-10-27 02:30:00"],
    *["1893-04-01 00:00:00", "1800-01-01 00:00:00", "2050-07-01 00:00:00", "2024-01-01 00:00:00.000Z[UTC]"],
    *["2024-01-01T00:00Z", "2024-01-01T00Z", " 2024-01-01 00:00:00 ", "2024-01-01 00:00:00-18:00"],
    *["2024-01-01 00:00:00+18:01", "2024-01-01 00:00:00.12345678901234567890"],
]

TABLE = {
    "byte": INTEGERS,
    "short": INTEGERS,
    "int": INTEGERS,
    "long": INTEGERS,
    "float": FLOATS,
    "double": FLOATS,
    "decimal(7,2)": DECIMALS,
    "decimal(5,5)": DECIMALS,
    "decimal(10,0)": DECIMALS,
    "decimal(38,18)": DECIMALS,
    "decimal(38,38)": DECIMALS,
    "decimal(38,0)": DECIMALS,
    "boolean": BOOLEANS,
    "string": STRINGS,
    "binary": STRINGS,
    "date": DATES,
    "timestamp_ntz": TIMESTAMPS,
}


def content_of(texts: list[str]) -> bytes:
    return "".join(f"{text},end\n" for text in texts).encode()


def schema_of(kind: str) -> str:
    return f"v {kind}, e string, _corrupt_record string"


@pytest.mark.parametrize("kind", TABLE)
def test_every_spelling_is_read_as_spark_reads_it(csv: Compared, kind: str) -> None:
    csv.same_as_spark(content_of(TABLE[kind]), schema_of(kind))


PLAIN = {
    "byte": ["1", "-1", "007", "99", "-128", "127"],
    "int": ["1", "-1", "007", "", "2147483647"],
    "long": ["1", "-1", "", "9223372036854775807"],
    "float": ["1.5", "1e5", "0.1", "16777217", "-0.0", ""],
    "double": ["1.5", "1e5", "0.1", "4.9e-324", "1e400", "-1e400", "1e-400", "-0.0", "", "123456.789"],
    "decimal(7,2)": ["1.5", "-2.25", "3", "0.01", "", "99999.99"],
    "boolean": ["true", "FALSE", "", "True"],
    "date": ["2024-02-29", "", "1500-01-01"],
    "timestamp": ["2024-01-01 00:00:00", "2024-07-01T12:34:56.789", ""],
    "timestamp_ntz": ["2024-01-01 00:00:00", "2024-07-01T12:34:56.789", ""],
}


@pytest.mark.parametrize("kind", PLAIN)
def test_columns_of_plain_values_that_are_cast_as_a_whole_give_the_values_of_spark(
    csv: Compared, kind: str
) -> None:
    rows = csv.same_as_spark(content_of(PLAIN[kind]), schema_of(kind))
    assert rows["_corrupt_record"].null_count == rows.num_rows


NUMBERS = [
    *[pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()],
    *[pa.decimal128(7, 2), pa.decimal128(5, 5), pa.decimal128(10, 0), pa.decimal128(38, 18)],
]


@pytest.mark.parametrize("kind", NUMBERS, ids=str)
def test_texts_like_numbers_are_read_the_same_with_and_without_a_word_in_the_column(
    kind: pa.DataType,
) -> None:
    # With a word in the column, each text is parsed by itself, as in the tests against Spark.
    chance = random.Random(str(kind))
    convert = converter(pa.field("v", kind), "UTC")
    texts = {"".join(chance.choices("-./0129", k=chance.randrange(1, 7))) for _ in range(3000)}
    good = 0
    for text in sorted(texts):
        [alone] = convert(pa.array([text]))
        beside, _ = convert(pa.array([text, "x"]))
        assert str(alone) == str(beside), text
        good += alone.is_valid
    assert good > 30


@pytest.mark.parametrize("time_zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("options", [{}, {"timeZone": "Asia/Tokyo"}], ids=str)
def test_timestamps_without_a_zone_are_in_the_time_zone_of_the_option_or_session(
    csv: Compared, time_zone: str, options: dict[str, str]
) -> None:
    for texts in (TIMESTAMPS, PLAIN["timestamp"]):
        csv.same_as_spark(content_of(texts), schema_of("timestamp"), options, time_zone)


@pytest.mark.parametrize(
    "options",
    [{"nullValue": "NA"}, {"nullValue": "NA", "emptyValue": "E"}, {"emptyValue": "E"}, {"nullValue": "0"}],
    ids=str,
)
@pytest.mark.parametrize("kind", ["string", "int", "double"])
def test_the_options_set_the_null_and_empty_values(csv: Compared, options: dict[str, str], kind: str) -> None:
    texts = ["1", "", '""', "NA", '"NA"', "0", "x", "E"]
    csv.same_as_spark(content_of(texts), schema_of(kind), options)
    csv.same_as_spark(content_of(["1", ""]), schema_of(kind), options)


@pytest.mark.parametrize("kind", ["array<int>", "struct<a: int>", "map<string, int>"])
@pytest.mark.usefixtures("spark")
def test_types_that_a_csv_cannot_hold_are_refused(kind: str) -> None:
    with pytest.raises(SchemaError, match="column v: a CSV file cannot contain"):
        read_batches(CsvLinesReader(), [], arrow_schema(f"v {kind}"))


def test_a_number_too_large_for_its_decimal_is_malformed(csv: Compared) -> None:
    texts = ["123456789012345678901234567890", "1", "-99999999999999999999.5", "0.1"]
    rows = csv.same_as_spark(content_of(texts), schema_of("decimal(38,18)"))
    assert rows["_corrupt_record"].to_pylist() == [f"{texts[0]},end", None, None, None]


def test_a_number_too_large_for_a_decimal_without_whole_digits_is_malformed(csv: Compared) -> None:
    texts = ["706999999", "0.5", ".25", "1"]
    csv.same_as_spark(content_of(texts), schema_of("decimal(38,38)"))


@pytest.mark.parametrize("neighbours", [[], ["1"], ["true"], ["x"], ["1", "false", ""]], ids=str)
def test_zero_and_one_are_not_booleans_whatever_the_other_values_are(neighbours: list[str]) -> None:
    values = converter(pa.field("v", pa.bool_()), "UTC")(pa.array(["0", "1", *neighbours]))
    assert values[:2].to_pylist() == [None, None]


@pytest.mark.parametrize("kind", [pa.decimal128(38, 18), pa.decimal128(38, 38), pa.decimal128(5, 2)], ids=str)
@pytest.mark.parametrize("exponent", ["e10000", "E-10000", "e-646456994", "e+99999999999", "e2147483648"])
def test_a_decimal_with_an_exponent_of_more_than_four_digits_is_malformed(
    kind: pa.DataType, exponent: str
) -> None:
    values = converter(pa.field("v", kind), "UTC")(pa.array([f"0{exponent}", f"1{exponent}", "0e-9999"]))
    assert values.to_pylist() == [None, None, 0]


@pytest.mark.parametrize("kind", ["decimal(9,0)", "decimal(5,2)", "decimal(38,18)", "decimal(38,37)"])
def test_a_number_with_more_digits_than_any_decimal_is_rounded(csv: Compared, kind: str) -> None:
    texts = [f"{sign}{whole}.{'316989393092496535264159604956020129809'[:digits]}"
             for sign in ("", "-") for whole in ("9", "0", "") for digits in range(30, 40)]  # fmt: skip
    for of_file in (texts, texts[:1], texts[-1:]):
        csv.same_as_spark(content_of(of_file), schema_of(kind))
