"""Parquet, ORC, Arrow and Avro: formats that store the names and types of their columns.

`reader` is the base class of the readers, which have one module each. `named_columns` matches the columns of
a file with those of the schema, and `conversions` converts their values.
"""
