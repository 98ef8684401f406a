"""The runtime: carries out what the coordinator decides, on the driver and on executors.

Knows coordination and snapshots; knows nothing of pyspark, so that it also runs without Spark.
"""
