"""A DuckDB table polled by its growing id: no classes, only the options of the built-in sql source."""

from __future__ import annotations

from typing import Any

TABLE = {
    "enumerator": "sql",
    "driver": "duckdb",
    "table": "orders",
    "cursorColumns": "id",
    "appendOnly": "true",
}


def orders(spark: Any, file: str) -> Any:
    """The stream of a SparkSession."""
    return spark.readStream.format("flip27").options(**TABLE, uri=file).load()
