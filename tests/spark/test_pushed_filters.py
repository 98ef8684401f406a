"""Filters with which batch reads leave out files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    IsNull,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import StructType

from flip27_source.spark.pushed_filters import PushedFilters, may_have_rows

from .streams import filters_pushed

DAY = dt.date(2026, 1, 2)
CONSTANTS = {("day",): DAY, ("n",): 3, ("name",): "ä", ("none",): None, ("price",): Decimal("1.50")}


@pytest.mark.parametrize(
    ("wanted", "may_have"),
    [
        (EqualTo(("day",), DAY), True), (EqualTo(("day",), dt.date(2026, 1, 3)), False),
        (Not(EqualTo(("day",), DAY)), False), (GreaterThan(("n",), 2), True),
        (GreaterThan(("n",), 3), False), (LessThanOrEqual(("n",), 3), True), (In(("n",), (1, 3)), True),
        (In(("n",), (1, 2)), False), (In(("n",), (1, None)), False), (Not(In(("n",), (1, None))), False),
        (Not(In(("n",), (1, 2))), True), (EqualTo(("none",), 3), False),
        (Not(EqualTo(("none",), 3)), False), (EqualNullSafe(("none",), None), True),
        (EqualNullSafe(("n",), None), False), (Not(EqualNullSafe(("n",), None)), True),
        (IsNull(("none",)), True), (IsNull(("n",)), False), (IsNotNull(("none",)), False),
        (IsNotNull(("n",)), True), (StringStartsWith(("name",), "a"), False),
        (StringEndsWith(("name",), "ä"), True), (StringContains(("name",), "b"), False),
        (EqualTo(("price",), Decimal("1.5")), True), (EqualTo(("in_the_file",), 1), True),
        (Not(EqualTo(("in_the_file",), 1)), True), (EqualTo(("n",), "3"), True),
    ],
    ids=repr,
)  # fmt: skip
def test_a_split_is_left_out_only_if_none_of_its_rows_can_match(wanted: Filter, may_have: bool) -> None:
    assert may_have_rows([wanted], CONSTANTS) is may_have


def test_spark_evaluates_every_filter_again() -> None:
    pushed = PushedFilters(StructType().add("n", "long"))
    wanted = [EqualTo(("n",), 1), IsNull(("n",))]
    assert list(pushed(list(wanted))) == wanted


def test_only_files_that_the_filters_allow_are_read(spark: SparkSession, tmp_path: Path) -> None:
    for day, text in (("2026-01-01", '{"id":1}'), ("2026-01-02", '{"id":2}')):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}/rows.json").write_text(text)
    unreadable = tmp_path / "day=2026-01-03/rows.json.gz"
    unreadable.parent.mkdir()
    unreadable.write_bytes(b"this is not gzip, and more than any row")
    frame = (
        spark.read.format("flip27")
        .options(enumerator="files", reader="json", includeMetadata="true")
        .schema("id long, day date, _metadata struct<file_name: string, file_size: long>")
        .load(str(tmp_path))
    )
    with filters_pushed(spark):
        assert [row.id for row in frame.where("day = date'2026-01-02'").collect()] == [2]
        assert sorted(row.id for row in frame.where("_metadata.file_size < 20").collect()) == [1, 2]
        assert [row.id for row in frame.where("day < '2026-01-03' and id > 1").collect()] == [2]
        with pytest.raises(PySparkException, match="2026-01-03"):
            frame.where("id > 1").collect()
