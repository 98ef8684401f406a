"""Parquet, ORC, Arrow and Avro: formats that know their columns by name and type.

One module for each reader; `named_columns` matches columns of a file with those of the schema.
"""
