"""Schemas that are found out, and that grow, in real sessions."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from .streams import Folders, run_to_end


def stream(spark: SparkSession, folders: Folders, **options: Any) -> DataFrame:
    """Return a stream of the landing folder for which no schema is given."""
    reader = spark.readStream.format("flip27").options(
        enumerator="files", reader="json", stateLocation=str(folders.checkpoint / "flip27"), **options
    )
    return reader.load(str(folders.landing))


def run(frame: DataFrame, folders: Folders) -> None:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folders.checkpoint))
    run_to_end(writer.option("path", str(folders.lake)).trigger(availableNow=True).start())


def test_an_inferred_schema_grows_by_a_new_column_that_fails_the_query_once(
    spark: SparkSession, folders: Folders
) -> None:
    folders.land("a.json", ['{"id": 1}'])
    frame = stream(spark, folders, schemaHints="at timestamp")
    assert frame.schema.simpleString() == "struct<id:bigint,at:timestamp>"
    run(frame, folders)
    folders.land("b.json", ['{"id": 2, "at": "2026-01-01T00:00:00Z"}', '{"id": 3, "name": "x"}'])
    with pytest.raises(StreamingQueryException, match="version 2 of its schema has the new columns"):
        run(stream(spark, folders, schemaHints="at timestamp"), folders)
    grown = stream(spark, folders, schemaHints="at timestamp")
    assert grown.schema.simpleString() == "struct<id:bigint,name:string,at:timestamp>"
    run(grown, folders)
    rows = spark.read.schema(grown.schema).parquet(str(folders.lake)).orderBy("id").collect()
    assert [(row.id, row.name, row.at is not None) for row in rows] == [
        (1, None, False),
        (2, None, True),
        (3, "x", False),
    ]


def test_a_given_schema_does_not_grow(spark: SparkSession, folders: Folders) -> None:
    folders.land("a.json", ['{"id": 1}'])
    options = {"enumerator": "files", "reader": "json", "schemaEvolutionMode": "addNewColumns"}
    frame = spark.read.format("flip27").options(**options).schema("id int").load(str(folders.landing))
    with pytest.raises(Exception, match="a schema is given, which cannot grow"):
        frame.collect()
