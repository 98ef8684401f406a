"""Reads columnar files with Spark and with our readers, and compares every row."""

from __future__ import annotations

from pathlib import Path

from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tests.readers.formats import READERS
from tests.readers.spark_reading import as_dataframe, read_table

ALL_TYPES = """
    cast(id as byte) as a_byte, cast(id as short) as a_short, cast(id as int) as an_int, id as a_long,
    cast(id as float) as a_float, id / 3 as a_double, cast(id as decimal(7, 2)) as a_small_decimal,
    cast(id / 7 as decimal(38, 18)) as a_decimal, id % 2 = 0 as a_boolean, concat('text ', id) as a_string,
    cast(concat('x', id) as binary) as a_binary, date_add(date'1999-12-30', cast(id as int)) as a_date,
    timestamp_micros(id * 123456789123) as a_timestamp,
    timestamp_ntz'1950-01-01 01:02:03.456789' as a_timestamp_ntz, cast(null as string) as always_null,
    if(id % 3 = 0, null, named_struct('x', id, 'y', array(named_struct('z', cast(id as int))))) as a_struct,
    if(id % 4 = 0, null, array(id, null)) as an_array, map(concat('k', id), array(id)) as a_map
"""


def assert_same_as_spark(
    spark: SparkSession, name: str, path: Path, schema: StructType | str | None = None
) -> None:
    """Check that our rows are Spark's rows, and that there are any; by default in the schema of the file."""
    theirs = spark.read.format(name)
    schema = theirs.load(str(path)).schema if schema is None else schema
    rows = theirs.schema(schema).load(str(path))
    assert rows.count() > 0
    assert_df_equality(as_dataframe(spark, read_table(READERS[name](), [path], schema), schema), rows)
