"""The program that the recipes run: a query that writes the lines of new files to a folder of Parquet files.

It publishes its metrics for Prometheus, and runs until it is stopped.
"""

from __future__ import annotations

import argparse

from prometheus_client import start_http_server
from pyspark.sql import SparkSession

from flip27_source.metrics import QueryMetrics, export_to_prometheus, listener_for


def main() -> None:
    """Run the query."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--landing", required=True, help="the folder of the files: a path or a URL")
    parser.add_argument("--checkpoint", required=True, help="checkpointLocation, in Spark's notation")
    parser.add_argument("--state", required=True, help="stateLocation: a path or a URL")
    parser.add_argument("--lake", required=True, help="where the rows are written, in Spark's notation")
    parser.add_argument("--metrics-address", default="", help="of this host; all of its addresses if empty")
    parser.add_argument("--metrics-port", type=int, default=9108)
    arguments = parser.parse_args()

    spark = SparkSession.builder.appName("orders").getOrCreate()
    metrics = QueryMetrics()
    spark.streams.addListener(listener_for(metrics))
    export_to_prometheus(metrics)
    start_http_server(arguments.metrics_port, arguments.metrics_address)
    orders = (
        spark.readStream.format("flip27")
        .option("enumerator", "files")
        .option("reader", "json")
        .option("stateLocation", arguments.state)
        .option("taskReports", "always")
        .schema("id long, amount double")
        .load(arguments.landing)
    )
    query = (
        orders.writeStream.queryName("orders")
        .format("parquet")
        .option("checkpointLocation", arguments.checkpoint)
        .option("path", arguments.lake)
        .trigger(processingTime="2 seconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
