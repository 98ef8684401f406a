"""Parses a column of lines into the columns of a schema, with the results of Spark's file readers.

``from_csv`` and ``from_json`` use the parsers of the file readers. This module adds what the readers do
around them: blank lines and comments, several rows in one line of JSON, bytes that are not UTF-8, modes.
"""

from __future__ import annotations

from collections import Counter

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from flip27_source.errors import OptionError, SchemaError
from flip27_source.schemas.column_comments import header_comment, header_in

from .line_options import LineOptions

LINES = "value"
_ROW, _MALFORMED, _ARRAY = "__flip27_row", "__flip27_malformed", "__flip27_array"
_BOM = "\ufeff"
_BROKEN = "{"
_IS_UTF8 = "__flip27_is_utf8"
_NO_CHARACTER = "\uffff"
"""A character that ``from_csv`` reads as the end of a line, wherever it is."""

_MOST_CHARACTERS = (1 << 31) - 1
_SHOWN = 200
_BLANKS = r"[ \t\r\n]"
_COMMENTED_BLANKS = rf"(?:{_BLANKS}|/\*(?s:.*?)\*/|//[^\r\n]*(?:[\r\n]|\z))"


def parsed_lines(stream: DataFrame, schema: StructType | str, options: LineOptions) -> DataFrame:
    """The parsed columns, then the other columns of ``stream``."""
    parsed = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(parsed, StructType):
        raise SchemaError(
            f"the schema is {schema!r}, which has no columns", remedy='give columns, such as "id long, ..."'
        )
    corrupt = options.corrupt_column or _setting(stream, "spark.sql.columnNameOfCorruptRecord")
    _check_schema(parsed, corrupt)
    _check_stream(stream, parsed, options)
    others = [_named(name) for name in stream.columns if name != LINES]
    parser = _Parser(parsed, corrupt, options)
    rows = (
        _csv_rows(stream, others, parser) if options.format == "csv" else _json_rows(stream, others, parser)
    )
    if options.mode == "DROPMALFORMED":
        rows = rows.where(fn.col(_ROW).isNotNull() & _row(_MALFORMED).isNull())
    return rows.select(*_columns(parsed, corrupt, options), *others)


class _Parser:
    """``from_csv`` or ``from_json``, with an internal column for malformed lines."""

    def __init__(self, parsed: StructType, corrupt: str, options: LineOptions) -> None:
        self.options = options
        fields = [field for field in parsed.fields if field.name != corrupt]
        self._schema = StructType([*fields, StructField(_MALFORMED, StringType())])
        mode = "FAILFAST" if options.mode == "FAILFAST" else "PERMISSIVE"
        self._spark_options = {**options.for_spark, "columnNameOfCorruptRecord": _MALFORMED, "mode": mode}

    def row(self, text: Column) -> Column:
        """The fields of a line; null if the text is null or, in JSON, blank."""
        if self.options.format == "csv":
            return fn.from_csv(text, self._schema.toDDL(), self._spark_options)
        return fn.from_json(text, self._schema, self._spark_options)

    def good(self, is_good: Column, text: Column, otherwise: Column | None = None) -> Column:
        """The text of a good line; ``otherwise``, or an error, for a line that the parser would misread."""
        line = _named(LINES)
        if self.options.mode == "FAILFAST":
            otherwise = fn.raise_error(
                fn.concat(
                    fn.lit(f"a line is malformed {self.options.format}, and mode is FAILFAST: "),
                    fn.substring(line, 1, _SHOWN),
                    fn.lit("\n  What to do: set mode to PERMISSIVE or DROPMALFORMED, or fix the file"),
                )
            )
        good = fn.when(line.isNull(), line).when(is_good, text)
        return good if otherwise is None else good.otherwise(otherwise)

    def rows_of_array(self, text: Column) -> Column:
        """The rows of a line of JSON that holds an array.

        ``from_json`` reports a malformed object but not a malformed array, so the array is put in an object.
        """
        rows = fn.from_json(text, ArrayType(self._schema), self._spark_options)
        permissive = {**self._spark_options, "mode": "PERMISSIVE"}
        holder = StructType(
            [StructField(_ARRAY, ArrayType(self._schema)), StructField(_MALFORMED, StringType())]
        )
        held = fn.from_json(fn.concat(fn.lit(f'{{"{_ARRAY}":'), text, fn.lit("\n}")), holder, permissive)
        has_null = fn.exists(rows, lambda row: row.isNull())
        result = fn.when(held[_MALFORMED].isNull() & ~has_null, rows)
        if self.options.mode != "FAILFAST":
            marked = fn.transform(rows, lambda row: row.withField(_MALFORMED, _named(LINES)))
            result = result.when(~has_null, marked)
        # Parsed as a single row, an array is malformed.
        return result.otherwise(fn.array(self.row(text)))


def _csv_rows(stream: DataFrame, others: list[Column], parser: _Parser) -> DataFrame:
    """The fields of each line in ``_ROW``, null if the line would be misread; the line in ``LINES``."""
    line = _named(LINES)
    lines = stream.select(*others, _decoded(parser.options.encoding).alias(LINES))
    # The comparison is fast for most lines. Blank lines have no character above a space, as Java trims them.
    is_line = (line >= "!") | line.rlike(r"[^\x00-\x20]")
    if parser.options.comment:
        is_line &= ~line.startswith(parser.options.comment)
    # from_csv takes a mark for the encoding in the first line of a task, unless an empty line precedes it.
    text = fn.when(line.startswith(_BOM), fn.concat(fn.lit(_NO_CHARACTER), line)).otherwise(line)
    row = parser.row(parser.good(~line.contains(_NO_CHARACTER), text))
    return lines.where(is_line).select(*others, line, _exploded(fn.array(row)))


def _json_rows(stream: DataFrame, others: list[Column], parser: _Parser) -> DataFrame:
    """As ``_csv_rows``; a line may have several rows or none."""
    line, is_utf8 = _named(LINES), fn.col(_IS_UTF8)
    # from_json replaces bytes that are not UTF-8; Spark's file reader calls the line malformed.
    lines = stream.select(*others, _line().alias(LINES), fn.is_valid_utf8(_line()).alias(_IS_UTF8))
    is_plain = line.startswith("{") & is_utf8
    is_marked = line.startswith(_BOM) & (line != _BOM)
    unmarked = fn.when(is_marked, fn.substring(line, 2, _MOST_CHARACTERS)).otherwise(line)
    text = parser.good(is_utf8, unmarked, otherwise=fn.lit(_BROKEN))
    rows = fn.array(parser.row(text))
    if parser.options.variant_column is None:
        blanks = _COMMENTED_BLANKS if parser.options.allows_comments else _BLANKS
        rows = fn.when(text.rlike(rf"\A{blanks}*+\["), parser.rows_of_array(text)).otherwise(rows)
    # Most lines are plain and take the fast path.
    rows = fn.when(is_plain, fn.array(parser.row(line))).otherwise(rows)
    # A blank line has no row.
    return lines.select(*others, line, _exploded(rows)).where(fn.col(_ROW).isNotNull())


def _exploded(rows: Column) -> Column:
    """One row per element. The explode also keeps Spark from parsing twice for a filter on parsed columns."""
    return fn.explode(rows).alias(_ROW)


def _decoded(encoding: str) -> Column:
    line = _line()
    if encoding == "UTF-8":
        return line
    latin = fn.decode(line.cast("binary"), "ISO-8859-1")
    return fn.regexp_replace(latin, r"[\x{80}-\x{ff}]", "\ufffd") if encoding == "US-ASCII" else latin


def _columns(parsed: StructType, corrupt: str, options: LineOptions) -> list[Column]:
    # from_csv returns the line with bytes that are not UTF-8 replaced; JSON keeps the bytes.
    malformed = (
        _row(_MALFORMED) if options.format == "csv" else fn.when(_row(_MALFORMED).isNotNull(), _named(LINES))
    )
    record = fn.coalesce(malformed, fn.when(fn.col(_ROW).isNull(), _named(LINES)))
    return [
        (record if field.name == corrupt else _row(field.name)).alias(
            field.name, metadata=field.metadata or None
        )
        for field in parsed.fields
    ]


def _line() -> Column:
    """The line, compared by bytes: the column may have a collation."""
    return _named(LINES).cast(StringType())


def _row(name: str) -> Column:
    return fn.col(_ROW).getField(name)


def _named(name: str) -> Column:
    return fn.col("`" + name.replace("`", "``") + "`")


def _check_schema(parsed: StructType, corrupt: str) -> None:
    for field in parsed.fields:
        if field.name == corrupt and not isinstance(field.dataType, StringType):
            raise SchemaError(
                f"the column {corrupt} of malformed lines has the type {field.dataType.simpleString()}",
                remedy="make it a string, or name another column with columnNameOfCorruptRecord",
            )
    if not any(field.name != corrupt for field in parsed.fields):
        raise SchemaError(
            "the schema has no column for the fields of a line",
            remedy='add the columns of the lines, as in "id long, name string"',
        )


def _check_stream(stream: DataFrame, parsed: StructType, options: LineOptions) -> None:
    lines = {field.name: field for field in stream.schema.fields}.get(LINES)
    if lines is None or not isinstance(lines.dataType, StringType):
        there = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in stream.schema.fields)
        raise SchemaError(
            f"parsed needs a column {LINES} of type string with one line per row; the DataFrame has: {there}",
            remedy='load it with .option("reader", "text"), or add the column with '
            'selectExpr("cast(... as string) as value", "*")',
        )
    is_exact = _setting(stream, "spark.sql.caseSensitive") == "true"
    others = [name for name in stream.columns if name != LINES]
    times = Counter(name if is_exact else name.lower() for name in (*parsed.names, *others))
    twice = [name for name in parsed.names if times[name if is_exact else name.lower()] > 1]
    if twice:
        raise SchemaError(
            f"the result would have two columns {twice[0]}: the schema of the lines has "
            f"{', '.join(parsed.names)}, and the stream has {', '.join(others) or 'no other columns'}",
            remedy="rename or drop the column of the stream before parsed, or rename it in the schema",
        )
    _check_header(lines, options)


def _setting(stream: DataFrame, name: str) -> str:
    value = stream.sparkSession.conf.get(name)
    assert value is not None  # both have a default
    return value


def _check_header(lines: StructField, options: LineOptions) -> None:
    """Check ``header`` against the stream: the comment of its column records the options of its load."""
    if options.header is None:
        return
    without_headers = header_in((lines.metadata or {}).get("comment", ""))
    if options.header and without_headers is None:
        raise SchemaError(
            f"header is true, but the stream has no record of header=true: {LINES} may contain headers",
            remedy='load the stream with .option("reader", "text").option("header", "true")'
            + (f'.option("comment", "{options.comment}")' if options.comment else "")
            + "; if the stream has a schema, declare its column as "
            f"{LINES} string COMMENT '{header_comment(options.comment)}'",
        )
    if options.header and without_headers != options.comment:
        raise SchemaError(
            f"the option comment is {options.comment!r} here and {without_headers!r} on the stream, so "
            "another line may be the header",
            remedy="set the same comment on both",
        )
    if not options.header and without_headers is not None:
        raise OptionError(
            "header is false, but the stream was loaded with header=true, which leaves first lines out",
            remedy="leave header out here or on the stream",
        )
