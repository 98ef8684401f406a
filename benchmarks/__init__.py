"""Benchmarks: flip27 side by side with Spark's own file source. Run with ``make bench``."""
