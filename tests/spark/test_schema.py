"""Schemas that are found out, and that grow, in real sessions."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from .streams import Folders, file_stream, run_files, run_to_end, to_lake


def test_an_inferred_schema_grows_by_a_new_column_that_fails_the_query_once(
    spark: SparkSession, folders: Folders
) -> None:
    folders.land("a.json", ['{"id": 1}'])
    options = {"reader": "json", "schemaHints": "at timestamp"}
    frame = file_stream(spark, folders, **options)
    assert frame.schema.simpleString() == "struct<id:bigint,at:timestamp>"
    run_to_end(to_lake(frame, folders))
    folders.land("b.json", ['{"id": 2, "at": "2026-01-01T00:00:00Z"}', '{"id": 3, "name": "x"}'])
    with pytest.raises(StreamingQueryException, match="version 2 of its schema has the new columns"):
        run_files(spark, folders, **options)
    grown = file_stream(spark, folders, **options)
    assert grown.schema.simpleString() == "struct<id:bigint,name:string,at:timestamp>"
    run_to_end(to_lake(grown, folders))
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
