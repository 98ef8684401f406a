"""Lets Spark find format("flip27") by itself: it imports every top-level module named pyspark_*.

If one of them fails to import, Spark registers no format at all, so this module imports only what it needs.
"""

from flip27_source.spark.data_source import Flip27DataSource as DefaultSource

__all__ = ["DefaultSource"]
