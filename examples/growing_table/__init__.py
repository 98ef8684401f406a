"""A DuckDB table polled by its growing id."""
