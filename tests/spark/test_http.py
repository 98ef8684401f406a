"""The http source in a real session: Spark's workers read pages, and every record arrives once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.http_api import ChangesPageSize, Cuts, Fails, HangsUp, HttpApi, http_api
from tests.readers.http_api.reading import KINDS, records

from .streams import ENDING, Folders, run_to_end, running, to_lake, wait_for

SECRET = "s3cr3t-of-the-api"


@pytest.fixture
def api() -> Iterator[HttpApi]:
    with http_api() as running:
        running.records = records(*range(30))
        yield running


def stream(spark: SparkSession, folders: Folders, api: HttpApi, kind: str, **options: Any) -> DataFrame:
    """Return a stream of two endpoints that have the same records."""
    chosen = {
        "enumerator": "http",
        "stateLocation": str(folders.state),
        "endpoints": f"{kind}/orders, {kind}/customers",
        "maxBackoff": "10ms",
        "pollInterval": "10ms",
        "maxRowsPerSplit": 8,
        **KINDS[kind],
        **options,
    }
    return spark.readStream.format("flip27").options(**chosen).schema("id long, at string").load(api.url)


def lake_ids(spark: SparkSession, folders: Folders) -> list[int]:
    return sorted(row.id for row in spark.read.schema("id long").parquet(str(folders.lake)).collect())


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["page", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("cursor", "since"))]
)
def test_two_endpoints_are_read_exactly_once_over_several_runs_with_a_misbehaving_server(
    spark: SparkSession, folders: Folders, api: HttpApi, kind: str
) -> None:
    api.misbehaves(None, Fails(503, retry_after="0"), None, HangsUp(), Cuts(), None, ChangesPageSize(5))
    run_to_end(to_lake(stream(spark, folders, api, kind, **ENDING), folders))
    assert lake_ids(spark, folders) == sorted([*range(30)] * 2)
    api.records += records(*range(30, 37))
    run_to_end(to_lake(stream(spark, folders, api, kind, **ENDING), folders))
    assert lake_ids(spark, folders) == sorted([*range(37)] * 2)


def test_a_running_query_polls_for_new_records_and_stores_no_credential(
    spark: SparkSession, folders: Folders, api: HttpApi
) -> None:
    api.token = f"Bearer {SECRET}"
    frame = stream(spark, folders, api, "cursor", authToken=SECRET)
    with running(to_lake(frame, folders, processingTime="50 milliseconds")) as query:
        wait_for(lambda: len(lake_ids(spark, folders)) == 60, query)
        api.records += records(30)
        wait_for(lambda: len(lake_ids(spark, folders)) == 62, query)
    stored = [path.read_bytes() for path in folders.checkpoint.rglob("*") if path.is_file()]
    assert len(stored) > 5
    assert not any(SECRET.encode() in data for data in stored)
