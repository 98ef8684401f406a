"""Spark: thin adapters, and the only package of the product that imports pyspark.

Open `data_source` first, then `stream_reader`: they pass Spark's calls to `driver.holder` and
`executor.subtask`. Nothing is decided here.
"""
