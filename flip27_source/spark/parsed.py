"""``flip27_source.parsed``: lines of text, parsed by Spark's own parsers of CSV and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def parsed(stream: DataFrame, format_name: str, schema: StructType | str, /, **options: Any) -> DataFrame:
    """The rows of CSV or JSON lines, as Spark's own file reader of that format parses them.

    ``stream`` holds one line per row in its column ``value``, as returned by ``format("flip27")`` with
    ``reader=text``. ``from_csv`` and ``from_json`` parse the lines in the JVM. The columns of the schema come
    first, then the other columns of the stream. It works for streams, including stateful ones, and batches::

        lines = spark.readStream.format("flip27").option("reader", "text").option("header", True).load(path)
        orders = flip27_source.parsed(lines, "csv", "id long, at timestamp", header=True, sep=";")

    Args:
        stream: a DataFrame with a column ``value`` of type string.
        format_name: csv or json.
        schema: the columns of the lines, as DDL or as a StructType. A string column with the name in
            ``columnNameOfCorruptRecord`` (``_corrupt_record``) receives malformed lines.
        **options: the options of Spark's file reader. ``header=True`` checks that the stream was loaded with
            ``header=true``, which leaves headers out.

    Raises:
        OptionError: an option is unknown, or cannot work line by line.
        SchemaError: the stream has no column of lines, lines may contain headers, or a column would appear
            twice.
    """
    from .line_options import line_options
    from .line_parsing import parsed_lines

    return parsed_lines(stream, schema, line_options(format_name, options))
