"""A DuckDB table polled by a growing key."""
