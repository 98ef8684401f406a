"""What differs between versions of Spark looks the same to the rest of the package."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampNTZType, TimestampType

from flip27_source.errors import OptionError
from flip27_source.schemas.column_comments import comment_of, commented
from flip27_source.spark.data_source import Flip27DataSource
from flip27_source.spark.versions import arrow_schema, spark_schema
from tests.spark_features import FEATURES, VERSIONS
from tests.test_suites import functions_in

from .streams import Folders

TESTS = Path(__file__).parents[1]


def test_a_comment_of_a_column_travels_between_arrow_and_spark_in_both_directions() -> None:
    described = commented(pa.field("path", pa.string()), "flip27 splits {}")
    in_spark = spark_schema(pa.schema([described, pa.field("at", pa.timestamp("us"))]))
    assert in_spark["path"].metadata == {"comment": "flip27 splits {}"}
    assert in_spark["at"] == StructField("at", TimestampNTZType())
    in_arrow = arrow_schema(in_spark)
    assert [comment_of(field) for field in in_arrow] == ["flip27 splits {}", None]


def test_times_are_exchanged_in_utc() -> None:
    zoned = pa.schema([pa.field("at", pa.timestamp("us", "UTC"))])
    assert arrow_schema(StructType().add("at", TimestampType())).equals(zoned)
    assert spark_schema(zoned) == StructType().add("at", TimestampType())


@pytest.fixture
def _as_coordinator() -> Iterator[None]:
    """The process of a coordinator ends by an exception at SIGTERM; that of the tests does not."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_as_coordinator")
def test_a_reader_that_is_not_told_the_start_continues_after_the_batches_of_the_log(tmp_path: Path) -> None:
    """Spark before 4.2 calls latestOffset without arguments, and at a restart first plans (last, last)."""
    folders = Folders(tmp_path)
    folders.landing.mkdir()
    options = {"enumerator": "files", "reader": "text", "path": str(folders.landing), "availableNow": "true"}
    source = Flip27DataSource({**options, "stateLocation": str(folders.state)})
    reader = source.streamReader(StructType().add("value", StringType()))

    def restart() -> None:
        nonlocal reader
        reader.stop()
        reader = source.streamReader(StructType().add("value", StringType()))

    def rows(start: Any, end: Any) -> list[str]:
        batches = [batch for planned in reader.partitions(start, end) for batch in reader.read(planned)]
        return sorted(value for batch in batches for value in batch["value"].to_pylist())

    folders.land("a.txt", ["a"])
    none = reader.initialOffset()
    first = reader.latestOffset()
    assert rows(none, first) == ["a"]
    assert reader.latestOffset() == first

    folders.land("b.txt", ["b"])
    restart()
    assert rows(first, first) == []
    second = reader.latestOffset()
    assert rows(first, second) == ["b"]

    # The log has the second batch, which was not committed: it is planned again, and the third one follows.
    folders.land("c.txt", ["c"])
    restart()
    assert rows(second, second) == []
    assert rows(first, second) == ["b"]
    third = reader.latestOffset()
    assert rows(second, third) == ["c"]

    # The third batch has not reached the log: it is planned anew from the second one.
    folders.land("d.txt", ["d"])
    restart()
    assert rows(second, second) == []
    assert rows(second, reader.latestOffset()) == ["c", "d"]
    reader.stop()


def test_this_version_has_what_the_table_in_the_docs_says() -> None:
    here = VERSIONS.index(pyspark.__version__.rpartition(".")[0])
    has = {feature.name: feature.present for feature in FEATURES}
    assert has == {feature.name: here >= VERSIONS.index(feature.since) for feature in FEATURES}


def test_the_tests_that_the_table_names_exist() -> None:
    named = [test.partition("::") for feature in FEATURES for test in feature.shown_by]
    missing = [
        f"{file}::{test}"
        for file, _, test in named
        if not (TESTS / file).exists() or (test and test not in functions_in(f"tests/{file}"))
    ]
    assert not missing


@pytest.mark.usefixtures("_as_coordinator")
def test_a_mistake_in_an_option_comes_without_the_calls_that_found_it() -> None:
    source = Flip27DataSource({"enumerator": "sequence"})
    reader = source.streamReader(StructType().add("id", LongType()))
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(OptionError, match="the numbers never end") as caught:
        reader.latestOffset(reader.initialOffset(), None)
    assert len(traceback.extract_tb(caught.tb)) <= 3
    assert caught.value.__cause__ is None
