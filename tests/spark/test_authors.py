"""Authors' sources: named by their import path, and made of classes from a notebook."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import flip27_source
from flip27_source import DiscoveringEnumerator, Discovery, Options, SplitReader
from flip27_source.spark.registration import drop_type_caches

from .streams import ENDING, Folders, lake_lines, run_files, run_to_end, to_lake

HERE = "tests.spark.authors"
ORDERS = {"enumerator": f"{HERE}:OrdersEnumerator", "reader": f"{HERE}:OrdersReader"}


def test_a_source_of_two_methods_continues_after_a_restart(spark: SparkSession, folders: Folders) -> None:
    for last in (3, 3, 5):
        frame = spark.readStream.format("flip27").options(**ORDERS, **ENDING, upTo=last).load()
        run_to_end(to_lake(frame.selectExpr("name as value"), folders))
    assert lake_lines(spark, folders) == [f"order-{n}" for n in range(1, 6)]


def test_columns_in_another_order_arrive_by_name(spark: SparkSession) -> None:
    """Spark before 4.2 takes the columns of a batch by their places, and would swap these two."""
    reader = spark.read.format("flip27").options(**ORDERS | {"reader": f"{HERE}:SwappedReader"}, upTo=1)
    assert [row.asDict() for row in reader.load().collect()] == [{"left": "left 1", "right": "right 1"}]


def test_classes_without_an_importable_name_are_registered_as_a_format(
    spark: SparkSession, folders: Folders
) -> None:
    @dataclass(frozen=True)
    class Letter:
        split_id: str

    class Letters(DiscoveringEnumerator[Letter]):
        def discover(self, position: int | None) -> Discovery[Letter, int]:
            return Discovery([Letter(c) for c in "abc"][position or 0 :], 3)

    class LettersReader(SplitReader[Letter]):
        @classmethod
        def default_schema(cls, options: Options) -> pa.Schema:
            return pa.schema([("value", pa.string())])

        def read(self, split: Letter) -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"value": [split.split_id]})

    flip27_source.register(spark, "letters", enumerator=Letters, reader=LettersReader)
    for _ in range(2):
        run_to_end(to_lake(spark.readStream.format("letters").options(**ENDING).load(), folders))
    assert lake_lines(spark, folders) == ["a", "b", "c"]


BESIDE_THE_SCRIPT = """
from dataclasses import dataclass
import pyarrow as pa
from flip27_source import DiscoveringEnumerator, Discovery, SplitReader

@dataclass(frozen=True)
class Letter:
    split_id: str

class Letters(DiscoveringEnumerator[Letter]):
    def discover(self, position: int | None) -> Discovery[Letter, int]:
        return Discovery([Letter(c) for c in "abc"][position or 0 :], 3)

class LettersReader(SplitReader[Letter]):
    @classmethod
    def default_schema(cls, options):
        return pa.schema([("value", pa.string())])

    def read(self, split):
        yield (split.split_id,)
"""


def test_a_module_that_only_the_driver_has_can_be_sent_along(
    spark: SparkSession, folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_the_script.py").write_text(BESIDE_THE_SCRIPT)
    monkeypatch.syspath_prepend(str(tmp_path))
    beside: Any = importlib.import_module("beside_the_script")
    classes = {"enumerator": beside.Letters, "reader": beside.LettersReader}
    flip27_source.register(spark, "by_name", **classes)
    with pytest.raises(PySparkException, match="No module named 'beside_the_script'"):
        spark.read.format("by_name").load().collect()
    flip27_source.register(spark, "sent_along", **classes, by_value=True)
    for _ in range(2):
        run_to_end(to_lake(spark.readStream.format("sent_along").options(**ENDING).load(), folders))
    assert lake_lines(spark, folders) == ["a", "b", "c"]


def test_a_failed_batch_is_read_completely_after_the_cause_is_gone(
    spark: SparkSession, folders: Folders, tmp_path: Path
) -> None:
    folders.land("a.txt", ["1", "2"])
    (tmp_path / "poison").touch()
    with pytest.raises(PySparkException, match="the poison is still there") as caught:
        run_files(spark, folders, reader=f"{HERE}:FailingOnce")
    assert f"{folders.landing}/a.txt" in str(caught.value)
    (tmp_path / "poison").unlink()
    folders.land("b.txt", ["3"])
    run_files(spark, folders, reader=f"{HERE}:FailingOnce")
    assert lake_lines(spark, folders) == ["1", "2", "3"]


@dataclass(frozen=True)
class Place:
    name: str


def test_a_split_whose_values_were_stored_before_can_still_be_pickled_by_value_and_stored_again() -> None:
    @dataclass(frozen=True)
    class Letter:
        split_id: str
        place: Place

    stored = msgspec.json.encode(Letter("a", Place("here")))
    assert msgspec.json.decode(stored, type=Letter) == Letter("a", Place("here"))
    with pytest.raises(TypeError, match="cannot pickle"):
        cloudpickle.dumps(Letter)
    drop_type_caches()
    travelled = cloudpickle.loads(cloudpickle.dumps(Letter))
    assert travelled("a", Place("here")).split_id == "a"
    assert msgspec.json.decode(stored, type=Letter) == Letter("a", Place("here"))
