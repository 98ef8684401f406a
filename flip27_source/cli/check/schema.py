"""Check of the schema: the reader reads the beginning of the first file with it, as in a task."""

from __future__ import annotations

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.executor.split_read import conformed
from flip27_source.reader import SourceReaderContext
from flip27_source.schemas.ddl import parse_columns
from flip27_source.source import Source
from flip27_source.source_checks import Finding, ok, skipped, warning


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
    empty = []
    if isinstance(first, pa.RecordBatch) and first.num_rows:
        columns = zip(first.schema, first.columns, strict=True)
        empty = [field.name for field, column in columns if column.null_count == first.num_rows]
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
        own = source.reader_type.default_schema(source.options)
        return own or skipped("schema", "not given", "give it with --schema, as for .schema(...)")
    try:
        return parse_columns(ddl)
    except ValueError as error:
        return skipped("schema", f"only Spark can parse it: {error}", "add --spark to use Spark's parser")
