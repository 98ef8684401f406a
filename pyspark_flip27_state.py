"""Lets Spark find format("flip27_state") by itself: see pyspark_flip27, of which this is the twin.

Spark takes one format from each top-level module named pyspark_*.
"""

from flip27_source.spark.state_source import StateDataSource as DefaultSource

__all__ = ["DefaultSource"]
