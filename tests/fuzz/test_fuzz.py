"""The fuzz tests find nothing in some random cases, and find a mismatch that was planted."""

from __future__ import annotations

import datetime as dt
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from .avro_files import avro_bytes
from .case import Case, LineFile
from .kept_values import CORRUPT, RESCUED, changed_or_lost
from .run import FORMATS, Fuzz, case_of
from .spark_side import quiet

CASES = {
    "csv": 12, "json": 12, "text": 6, "parquet": 8, "orc": 8, "avro": 10, "arrow": 10, "parsed-csv": 6,
    "parsed-json": 6, "http": 4, "native": 4,
}  # fmt: skip
FILES = 3
"""The number of files of each case; ``make fuzz`` takes more."""


@pytest.fixture
def stories() -> list[str]:
    return []


@pytest.fixture
def fuzz(_session: SparkSession, stories: list[str]) -> Iterator[Fuzz]:
    with quiet(_session):
        yield Fuzz(_session, tell=stories.append)


@pytest.mark.parametrize("name", FORMATS)
def test_random_files_are_read_as_spark_reads_them_however_they_are_cut_and_joined(
    fuzz: Fuzz, stories: list[str], name: str
) -> None:
    cases = (case_of(name, 2026, number) for number in range(CASES[name]))
    tally = fuzz.run_cases(replace(case, files=case.files[:FILES]) for case in cases)
    assert not tally.unknown, "\n\n".join(stories)
    assert tally.cases == CASES[name]
    assert tally.cells > 5 * CASES[name]
    assert tally.again > tally.cells or name in ("http", "native"), "their files are not cut"


@pytest.mark.usefixtures("_session")
@pytest.mark.parametrize("name", FORMATS)
def test_a_seed_and_a_number_determine_a_case(name: str) -> None:
    for number in range(8):
        case, again = case_of(name, 5, number), case_of(name, 5, number)
        assert (case.columns, case.options, case.cuts) == (again.columns, again.options, again.cuts)
        assert contents(case) == contents(again)
    assert contents(case_of(name, 5, 0)) != contents(case_of(name, 6, 0))


def contents(case: Case) -> dict[str, bytes]:
    return {file.path: file.content() for file in case.files}


def with_a_wrong_nine(case: Case, schema: pa.Schema) -> Mapping[str, pa.Table]:
    """The rows of a reader that reads a line ``9`` as ``8``."""
    texts = {path: re.findall(r"(?m)^([^,\n]+)", data.decode()) for path, data in contents(case).items()}
    numbers = {path: [int(one) if one.isdigit() else None for one in found] for path, found in texts.items()}
    return {
        path: pa.table(
            [pa.array([8 if number == 9 else number for number in found], pa.int64())], schema=schema
        )
        for path, found in numbers.items()
    }


def test_a_difference_is_reported_with_the_smallest_input_that_shows_it(
    fuzz: Fuzz, stories: list[str]
) -> None:
    files = tuple(
        LineFile(path=f"f{number}.csv", pieces=(b"1,a\n", b"%d,b\n" % (number + 7), b"3,c\n"))
        for number in range(4)
    )
    case = Case(
        format="csv", name="a case", files=files, columns=(("c0", "bigint"),), options={"mode": "PERMISSIVE"},
        cuts=(0.5,), truth=with_a_wrong_nine,
    )  # fmt: skip
    assert fuzz.run_cases([case]).unknown == {"value bigint": 1}
    [story] = stories
    assert "a case" in story
    assert "file f2.csv\n  b'9'\n" in story
    assert "f1.csv" not in story
    assert "'mode'" not in story
    assert "Spark: 8\n    here:  9" in story


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2.5", pa.scalar(Decimal(3))), ("0.4", pa.scalar(Decimal(0))), ("200", pa.scalar(-56, pa.int8())),
        ("9007199254740993", pa.scalar(2.0**53)), ("16777217", pa.scalar(2.0**24, pa.float32())),
        ("1e999", pa.scalar(float("inf"))), ("2026-01-01 10:00:00", pa.scalar(dt.date(2026, 1, 1))),
        ("5", pa.scalar(None, pa.int32())), (None, pa.scalar(5)),
    ],
)  # fmt: skip
def test_a_value_that_was_changed_or_lost_is_found_unless_it_was_rescued(
    text: str | None, value: pa.Scalar
) -> None:
    def tables(rescued: str | None) -> tuple[pa.Table, pa.Table]:
        own = {CORRUPT: pa.array([None], pa.string()), RESCUED: pa.array([rescued], pa.string())}
        texts = {"c": pa.array([text], pa.string()), "d": pa.array(["0.10"])}
        typed = {"c": pa.array([value.as_py()], value.type), "d": pa.array([0.1])}
        return pa.table(texts | own), pa.table(typed | own)

    assert [found[:3] for found in changed_or_lost(*tables(None))] == [("c", 0, text)]
    assert list(changed_or_lost(*tables('{"c": "x"}'))) == []


def test_another_number_of_rows_is_found_unless_it_is_that_of_a_malformed_array() -> None:
    def table(*corrupt: str | None) -> pa.Table:
        nulls = pa.nulls(len(corrupt), pa.string())
        return pa.table({CORRUPT: pa.array(corrupt, pa.string()), RESCUED: nulls, "c": nulls})

    assert list(changed_or_lost(table(None, None), table(None))) == [("", -1, "2", 1)]
    assert list(changed_or_lost(table("{", None), table(None))) == [("", -1, "2", 1)]
    assert list(changed_or_lost(table('[{"c": ', '[{"c": '), table('[{"c": '))) == []


def test_values_of_partition_columns_are_not_expected_to_be_rescued(fuzz: Fuzz) -> None:
    file = LineFile(path="p=36819700000000000000001/f.csv", pieces=(b"1\n",))
    columns = (("c0", "int"), ("p", "double"))
    case = Case(format="csv", name="a case", files=(file,), columns=columns)
    assert fuzz.run_cases([case]).unknown == {}


def test_a_reader_that_obeys_ignored_logical_types_of_avro_would_fail() -> None:
    columns = {"i": [1, None], "s": ["x", "y"], "l": [[b"z"], None], "r": [{"n": 2}, {"n": None}]}
    content = avro_bytes(pa.table(columns), ignored_logical_types=True)
    with pytest.raises(KeyError, match="precision"):
        list(fastavro.reader(io.BytesIO(content)))
    rows = pa.table(columns).to_pylist()
    assert list(fastavro.reader(io.BytesIO(avro_bytes(pa.table(columns))))) == rows


def test_a_wrong_number_of_rows_is_a_mismatch_and_a_refused_option_is_not(fuzz: Fuzz) -> None:
    def broken(case: Case, schema: pa.Schema) -> Mapping[str, pa.Table]:
        return {file.path: schema.empty_table() for file in case.files}

    case = Case(
        format="csv", name="a case", files=(LineFile(path="f0.csv", pieces=(b"1\n",)),),
        columns=(("c0", "int"),), truth=broken,
    )  # fmt: skip
    assert fuzz.run_cases([case]).unknown == {"rows": 1}
    assert fuzz.run_cases([replace(case, truth=None)]).unknown == {}
    refused = replace(case, options={"lineSep": ";"})
    assert fuzz.run_cases([refused]).refused.total() == 1
