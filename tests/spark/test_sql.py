"""The sql source in a real session: a PostgreSQL table as a stream."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tests.enumerators.sql.shops import ORDERS, Shop, postgres_shop
from tests.postgres_server import PostgresServer

from .streams import ENDING, Folders, forget_commit, run_to_end, to_lake


def stream(spark: SparkSession, folders: Folders, shop: Shop) -> DataFrame:
    options = {**shop.options, "stateLocation": str(folders.state), "partitionRows": "2", **ENDING}
    return spark.readStream.format("flip27").options(**options).load()


def lake(spark: SparkSession, folders: Folders) -> list[tuple[int, float]]:
    return sorted((row.id, row.amount) for row in spark.read.parquet(str(folders.lake)).collect())


def test_rows_of_a_table_arrive_once_over_several_runs_with_the_columns_of_the_table(
    spark: SparkSession, folders: Folders, postgres: PostgresServer
) -> None:
    with postgres_shop(postgres) as shop:
        shop.insert(ORDERS[:4])
        orders = stream(spark, folders, shop)
        assert orders.dtypes == [("id", "bigint"), ("amount", "double"), ("updated_at", "timestamp_ntz")]
        run_to_end(to_lake(orders, folders))
        shop.insert(ORDERS[4:])
        run_to_end(to_lake(stream(spark, folders, shop), folders))
        assert lake(spark, folders) == [row[:2] for row in ORDERS]
        forget_commit(folders, 1)
        shop.add_one()
        run_to_end(to_lake(stream(spark, folders, shop), folders))
    assert lake(spark, folders) == [*(row[:2] for row in ORDERS), (100, 1.5)]
