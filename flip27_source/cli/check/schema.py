"""Check of the schema: the reader reads the beginning of the first file with it, as in a task."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SchemaError
from flip27_source.executor.split_read import conformed
from flip27_source.reader import SourceReaderContext
from flip27_source.source import Source

from .findings import Finding, ok, skipped, warning

_TYPES = {
    **dict.fromkeys(("boolean",), pa.bool_()),
    **dict.fromkeys(("byte", "tinyint"), pa.int8()),
    **dict.fromkeys(("short", "smallint"), pa.int16()),
    **dict.fromkeys(("int", "integer"), pa.int32()),
    **dict.fromkeys(("long", "bigint"), pa.int64()),
    **dict.fromkeys(("float", "real"), pa.float32()),
    "double": pa.float64(),
    **dict.fromkeys(("decimal", "dec", "numeric"), pa.decimal128(10, 0)),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_COLUMN = re.compile(
    r"\s*(?:`([^`]+)`|(\w+))\s+(?:(\w+)|(?:decimal|dec|numeric)\((\d+),\s*(\d+)\))(\s+not\s+null)?\s*(?:,|$)",
    re.IGNORECASE,
)


def arrow_schema(ddl: str) -> pa.Schema | None:
    """The Arrow schema of a DDL text with simple types; None if only Spark can parse the text.

    Other types (arrays, maps, structs) need Spark's own parser, which runs in the JVM.
    """
    fields, at = [], 0
    while at < len(ddl):
        match = _COLUMN.match(ddl, at)
        kind = None if match is None else _type_of(match)
        if match is None or kind is None:
            return None
        fields.append(pa.field(match[1] or match[2], kind, nullable=match[6] is None))
        at = match.end()
    return pa.schema(fields) if fields else None


def schema_fits(source: Source, schema: pa.Schema, split: FileSplit) -> Finding:
    """Read the beginning of a file with a schema.

    Raises:
        SchemaError, SplitReadError: the file cannot be read with the schema.
    """
    reader = source.reader_type()
    context = SourceReaderContext(options=source.options, schema=schema)
    reader.open(context)
    try:
        first = next(iter(conformed(reader.read, split, [split], context)), None)
    finally:
        reader.close()
    if first is None:
        return warning("schema", f"{split.path} has no rows to test the schema", "use a file with rows")
    said = f"{len(schema)} columns; the first rows of {split.path} match the schema"
    empty = _empty_columns(first)
    if empty:
        return warning(
            "schema",
            f"{said}, but these columns contain only null: {', '.join(empty)}",
            "check the names and types of these columns: a column is null if the file does not have it, or "
            "has another type",
        )
    return ok("schema", said)


def wanted_schema(source: Source, ddl: str | None) -> pa.Schema | Finding:
    """The schema to test, or a finding that says why there is none."""
    if ddl is None:
        found = source.reader_type.default_schema(source.options)
        if found is None:
            return skipped("schema", "not given", "give it with --schema, as for .schema(...)")
        return found
    found = arrow_schema(ddl)
    if found is None:
        return skipped("schema", "only Spark can parse it", "add --spark to use Spark's parser")
    return found


def _type_of(match: re.Match[str]) -> pa.DataType | None:
    if match[4] is None:
        return _TYPES.get(match[3].lower())
    try:
        return pa.decimal128(int(match[4]), int(match[5]))
    except pa.ArrowInvalid as error:
        raise SchemaError(f"the schema has an invalid decimal: {error}") from error


def _empty_columns(item: Any) -> list[str]:
    if not isinstance(item, pa.RecordBatch) or item.num_rows == 0:
        return []
    return [
        field.name
        for field, column in zip(item.schema, item.columns, strict=True)
        if column.null_count == item.num_rows
    ]
