"""Spark: thin adapters, and the only package of the product that imports pyspark.

Open `data_source` first, then `stream_reader`: Spark's calls, passed on to `driver.holder` and
`executor.subtask`. Nothing is decided here.
"""
