"""From a column of lines to the columns of a schema, with the results of Spark's file readers.

``from_csv`` and ``from_json`` run the parsers that the file readers run. What the readers do around them is
done here: blank lines and comments, several rows in one line of JSON, bytes that are not UTF-8, modes.
"""

from __future__ import annotations

from collections import Counter

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from flip27_source.errors import OptionError, SchemaError
from flip27_source.header_comment import header_comment, header_in

from .line_options import LineOptions

LINES = "value"
_TEXT, _ROW, _MALFORMED = "__flip27_text", "__flip27_row", "__flip27_malformed"
_ARRAY = "__flip27_array"
_BOM = "\ufeff"
_NO_CHARACTER = "\uffff"
"""What ``from_csv`` takes for the end of a line, wherever it is."""

_MOST_CHARACTERS = (1 << 31) - 1
_SHOWN = 200
_BLANKS = r"[ \t\r\n]"
_COMMENTED_BLANKS = rf"(?:{_BLANKS}|/\*(?s:.*?)\*/|//[^\r\n]*(?:[\r\n]|\z))"


def parsed_lines(stream: DataFrame, schema: StructType | str, options: LineOptions) -> DataFrame:
    """The parsed columns, then the other columns of ``stream``."""
    wanted = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(wanted, StructType):
        raise SchemaError(
            f"the schema is {schema!r}, which has no columns", remedy='give it as "id long, ..."'
        )
    corrupt = options.corrupt_column or _setting(stream, "spark.sql.columnNameOfCorruptRecord")
    _check_schema(wanted, corrupt)
    _check_stream(stream, wanted, options)
    others = [_named(name) for name in stream.columns if name != LINES]
    parse = _csv_rows if options.format == "csv" else _json_rows
    rows = parse(stream, others, _Parser(wanted, corrupt, options))
    if options.mode == "DROPMALFORMED":
        rows = rows.where(fn.col(_MALFORMED).isNull())
    return rows.select(*_columns(wanted, corrupt), *others)


class _Parser:
    """``from_csv`` or ``from_json``, with a column of our own for malformed lines."""

    def __init__(self, wanted: StructType, corrupt: str, options: LineOptions) -> None:
        self.options = options
        fields = [field for field in wanted.fields if field.name != corrupt]
        self._schema = StructType([*fields, StructField(_MALFORMED, StringType())])
        mode = "FAILFAST" if options.mode == "FAILFAST" else "PERMISSIVE"
        self._spark_options = {**options.for_spark, "columnNameOfCorruptRecord": _MALFORMED, "mode": mode}

    def row(self, text: Column) -> Column:
        """The fields of a line; null where the text is null or, in JSON, holds nothing."""
        if self.options.format == "csv":
            return fn.from_csv(text, self._schema.toDDL(), self._spark_options)
        return fn.from_json(text, self._schema, self._spark_options)

    def good(self, is_good: Column, text: Column, line: Column) -> Column:
        """The text of a good line; null, or an error, for one that the parser would misread."""
        if self.options.mode != "FAILFAST":
            return fn.when(is_good, text)
        message = fn.concat(
            fn.lit(f"a line is malformed {self.options.format}, and mode is FAILFAST: "),
            fn.substring(line, 1, _SHOWN),
            fn.lit("\n  What to do: set mode to PERMISSIVE or DROPMALFORMED, or mend the file"),
        )
        return fn.when(is_good, text).otherwise(fn.raise_error(message))

    def rows_of_array(self, text: Column, line: Column) -> Column:
        """The rows of a line of JSON that holds an array.

        ``from_json`` does not tell whether an array is malformed; of an object that holds it, it does.
        """
        rows = fn.from_json(text, ArrayType(self._schema), self._spark_options)
        permissive = {**self._spark_options, "mode": "PERMISSIVE"}
        holder = StructType(
            [StructField(_ARRAY, ArrayType(self._schema)), StructField(_MALFORMED, StringType())]
        )
        held = fn.from_json(fn.concat(fn.lit(f'{{"{_ARRAY}":'), text, fn.lit("\n}")), holder, permissive)
        has_null = fn.exists(rows, lambda row: row.isNull())
        found = fn.when(held[_MALFORMED].isNull() & ~has_null, rows)
        if self.options.mode != "FAILFAST":
            found = found.when(~has_null, fn.transform(rows, lambda row: row.withField(_MALFORMED, line)))
        # As a single row an array is malformed.
        return found.otherwise(fn.array(self.row(text)))


def _csv_rows(stream: DataFrame, others: list[Column], parser: _Parser) -> DataFrame:
    options = parser.options
    text = fn.col(_TEXT)
    # A comparison tells most lines from blank ones, which hold nothing above a space, as Java trims them.
    is_line = (text >= "!") | text.rlike(r"[^\x00-\x20]")
    if options.comment:
        is_line &= ~text.startswith(options.comment)
    lines = stream.select(*others, _decoded(options.encoding).alias(_TEXT)).where(is_line)
    row = parser.row(parser.good(~text.contains(_NO_CHARACTER), text, text))
    rows = lines.select(*others, text, _exploded(fn.array(row)))
    malformed = fn.coalesce(_row(_MALFORMED), fn.when(fn.col(_ROW).isNull(), text))
    return rows.withColumn(_MALFORMED, malformed)


def _json_rows(stream: DataFrame, others: list[Column], parser: _Parser) -> DataFrame:
    options = parser.options
    line, text = _line(), fn.col(_TEXT)
    is_marked = line.startswith(_BOM) & (line != _BOM)
    unmarked = fn.when(is_marked, fn.substring(line, 2, _MOST_CHARACTERS)).otherwise(line)
    # from_json replaces bytes that are not UTF-8; to Spark's file reader their line is malformed.
    good = parser.good(fn.is_valid_utf8(line), unmarked, line)
    lines = stream.select(*others, line.alias(LINES), good.alias(_TEXT))
    line = _named(LINES)
    rows = fn.array(parser.row(text))
    if options.variant_column is None:
        blanks = _COMMENTED_BLANKS if options.allows_comments else _BLANKS
        is_array = ~text.startswith("{") & text.rlike(rf"\A{blanks}*+\[")
        rows = fn.when(is_array, parser.rows_of_array(text, line)).otherwise(rows)
    found = lines.select(*others, line, text, _exploded(rows))
    # A line that holds nothing is no row.
    found = found.where(fn.col(_ROW).isNotNull() | (text.isNull() & line.isNotNull()))
    is_malformed = _row(_MALFORMED).isNotNull() | fn.col(_ROW).isNull()
    return found.withColumn(_MALFORMED, fn.when(is_malformed, line))


def _exploded(rows: Column) -> Column:
    """A row for each; also keeps Spark from parsing once more for a condition on what was parsed."""
    return fn.explode(rows).alias(_ROW)


def _decoded(encoding: str) -> Column:
    line = _line()
    if encoding == "UTF-8":
        return line
    latin = fn.decode(line.cast("binary"), "ISO-8859-1")
    return fn.regexp_replace(latin, r"[\x{80}-\x{ff}]", "\ufffd") if encoding == "US-ASCII" else latin


def _columns(wanted: StructType, corrupt: str) -> list[Column]:
    columns = []
    for field in wanted.fields:
        column = fn.col(_MALFORMED) if field.name == corrupt else _row(field.name)
        columns.append(
            column.alias(field.name, metadata=field.metadata) if field.metadata else column.alias(field.name)
        )
    return columns


def _line() -> Column:
    """A line as bytes are compared: the column may have a collation."""
    return _named(LINES).cast(StringType())


def _row(name: str) -> Column:
    return fn.col(_ROW).getField(name)


def _named(name: str) -> Column:
    return fn.col("`" + name.replace("`", "``") + "`")


def _check_schema(wanted: StructType, corrupt: str) -> None:
    for field in wanted.fields:
        if field.name == corrupt and not isinstance(field.dataType, StringType):
            raise SchemaError(
                f"the column {corrupt} of malformed lines has the type {field.dataType.simpleString()}",
                remedy="make it a string, or name another column with columnNameOfCorruptRecord",
            )
    if not any(field.name != corrupt for field in wanted.fields):
        raise SchemaError(
            "the schema has no column that a line could fill",
            remedy='give the columns of the lines, as in "id long, name string"',
        )


def _check_stream(stream: DataFrame, wanted: StructType, options: LineOptions) -> None:
    fields = {field.name: field for field in stream.schema.fields}
    lines = fields.get(LINES)
    if lines is None or not isinstance(lines.dataType, StringType):
        there = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in stream.schema.fields)
        raise SchemaError(
            f"parsed needs a column {LINES} of type string, one line in each row; the DataFrame has: {there}",
            remedy='load it with .option("reader", "text"), or make the column with '
            'selectExpr("cast(... as string) as value", "*")',
        )
    is_exact = _setting(stream, "spark.sql.caseSensitive") == "true"
    others = [name for name in stream.columns if name != LINES]
    times = Counter(name if is_exact else name.lower() for name in (*wanted.names, *others))
    twice = [name for name in wanted.names if times[name if is_exact else name.lower()] > 1]
    if twice:
        raise SchemaError(
            f"the column {twice[0]} would be there twice: the schema of the lines has "
            f"{', '.join(wanted.names)}, and the stream has {', '.join(others) or 'no other columns'}",
            remedy="rename or drop the column of the stream before parsed, or rename the one of the schema",
        )
    _check_header(lines, options)


def _setting(stream: DataFrame, name: str) -> str:
    value = stream.sparkSession.conf.get(name)
    assert value is not None  # both have a default
    return value


def _check_header(lines: StructField, options: LineOptions) -> None:
    """The DataFrame does not tell with which options it was loaded; the comment of its column does."""
    if options.header is None:
        return
    told = (lines.metadata or {}).get("comment", "")
    without_headers = header_in(told)
    if options.header and without_headers is None:
        raise SchemaError(
            f"header is true, and nothing says that {LINES} comes without the headers of the files",
            remedy='load the stream with .option("reader", "text").option("header", "true")'
            + (f'.option("comment", "{options.comment}")' if options.comment else "")
            + "; where it is given a schema, write its column as "
            f"{LINES} string COMMENT '{header_comment(options.comment)}'",
        )
    if options.header and without_headers != options.comment:
        raise SchemaError(
            f"the option comment is {options.comment!r} here and {without_headers!r} on the stream, so that "
            "another line may be the header",
            remedy="set the same comment on both",
        )
    if not options.header and without_headers is not None:
        raise OptionError(
            "header is false, and the stream was loaded with header=true: its first lines are left out",
            remedy="leave header out here, or on the stream",
        )
