"""Parquet, ORC, Arrow and Avro: formats that store the names and types of their columns.

Each reader has one module; `named_columns` matches the columns of a file with those of the schema,
and `conversions` converts their values.
"""
