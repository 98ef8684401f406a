"""``flip27_source.parsed``: lines of text, parsed by Spark's own parsers of CSV and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def parsed(stream: DataFrame, format_name: str, schema: StructType | str, /, **options: Any) -> DataFrame:
    """The rows of CSV or JSON lines, as Spark's own file reader of that format parses them.

    ``stream`` holds one line per row in its column ``value``, as ``format("flip27")`` with ``reader=text``
    gives them. ``from_csv`` and ``from_json`` parse them in the JVM. The columns of the schema come first,
    the other columns of the stream behind them. It works for streams, stateful ones too, and for batches::

        lines = spark.readStream.format("flip27").option("reader", "text").option("header", True).load(path)
        orders = flip27_source.parsed(lines, "csv", "id long, at timestamp", header=True, sep=";")

    Args:
        stream: a DataFrame with a column ``value`` of type string.
        format_name: csv or json.
        schema: the columns of the lines, as DDL or as a StructType. A string column called as
            ``columnNameOfCorruptRecord`` says (``_corrupt_record``) gets malformed lines.
        **options: the options of Spark's file reader, by their names there. ``header=True`` checks that the
            stream was loaded with ``header=true``, which is what leaves headers out.

    Raises:
        OptionError: an option is unknown, or cannot work line by line; says what to do.
        SchemaError: the stream has no column of lines, a header is in doubt, or a column would be there
            twice.
    """
    from .line_options import line_options
    from .line_parsing import parsed_lines

    return parsed_lines(stream, schema, line_options(format_name, options))
