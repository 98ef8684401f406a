"""flip27: FLIP-27 sources for Spark Structured Streaming."""
