"""Lets Spark find format("flip27_state") by itself, as pyspark_flip27 does for format("flip27").

Spark takes only one format from each top-level module named pyspark_*.
"""

from flip27_source.spark.state_source import StateDataSource as DefaultSource

__all__ = ["DefaultSource"]
