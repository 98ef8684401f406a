"""The sql reader: the rows of a range of cursors, read on executors.

What lives here: the reader. The driver has decided where each range ends, and nothing newer is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerators.sql.failures import DatabaseFailure
from flip27_source.enumerators.sql.options import APPEND_ONLY, check_sql_options
from flip27_source.enumerators.sql.split import SqlSplit
from flip27_source.enumerators.sql.sqlalchemy_rows import SqlAlchemyDatabase
from flip27_source.enumerators.sql.table import CursorTable, connected
from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.options import Option, Options
from flip27_source.reader import SplitReader
from flip27_source.readers.sql.column_types import array_of, converted, selected
from flip27_source.readers.sql.schema import schema_of
from flip27_source.schemas.inference import FindsSchema


class SqlReader(FindsSchema, SplitReader[SqlSplit]):
    """Reads ranges of a table or query: Arrow batches of ADBC, or rows of SQLAlchemy."""

    options: ClassVar[tuple[Option[Any], ...]] = (APPEND_ONLY,)
    repeatable: ClassVar[bool] = False

    _table: CursorTable | None = None

    @classmethod
    def find_schema(cls, options: Options) -> pa.Schema:
        check_sql_options(options)
        try:
            with closing(connected(options)) as database:
                return schema_of(database, options)
        except DatabaseFailure as failure:
            raise SchemaError(
                f"the columns cannot be looked up: {failure.what}", remedy=failure.remedy
            ) from None

    def read(self, split: SqlSplit) -> Iterator[pa.RecordBatch]:
        try:
            table = self._opened()
            rows = 0
            for batch in self._batches(table, split):
                rows += batch.num_rows
                yield batch
        except DatabaseFailure as failure:
            raise SplitReadError(
                f"the rows {_named(split)} cannot be read: {failure.what}", remedy=failure.remedy
            ) from None
        if self.context.options[APPEND_ONLY] and rows != split.rows:
            raise SplitReadError(
                f"the range of {table.name} {_named(split)} has {rows} rows; it had {split.rows} when it was "
                "found, and option appendOnly is set",
                remedy="if rows change or are deleted, or several rows share a cursor, remove appendOnly; "
                "if rows were committed late, set a longer lag",
            )

    def close(self) -> None:
        if self._table is not None:
            self._table.close()

    def _opened(self) -> CursorTable:
        """The table, with one connection for all ranges of the task."""
        if self._table is None:
            options = self.context.options
            self._table = CursorTable(options)
            known = {name.lower() for name in self.context.schema.names}
            if any(name.lower() not in known for name in self._table.fields.names):
                present = schema_of(self._table.database, options)
                self.context.check_new_columns(present, where=self._table.name)
        return self._table

    def _batches(self, table: CursorTable, split: SqlSplit) -> Iterator[pa.RecordBatch]:
        schema, database = self.context.schema, table.database
        sources = [self._source(table, field.name) for field in schema]
        if isinstance(database, SqlAlchemyDatabase):
            # Only columns that are wanted as text are selected as text.
            sources = [
                source if pa.types.is_string(field.type) else source.with_type(field.type)
                for source, field in zip(sources, schema, strict=True)
            ]
        select = [
            selected(source, field.type, database.dialect)
            for source, field in zip(sources, schema, strict=True)
        ]
        sql = table.queries.rows(split.after, split.upto, select)
        if isinstance(database, SqlAlchemyDatabase):
            blocks = (list(zip(*block, strict=True)) for block in database.blocks(sql))
        else:
            blocks = (batch.columns for batch in database.batches(sql, first_rows=split.rows + 1))
        for columns in blocks:
            arrays = [self._array(table, *pair) for pair in zip(schema, columns, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=schema.names)

    def _source(self, table: CursorTable, name: str) -> pa.Field:
        """The table's column for a column of the DataFrame."""
        fields = table.fields
        if name in fields.names:
            return fields.field(fields.names.index(name))
        same = [number for number, other in enumerate(fields.names) if other.lower() == name.lower()]
        if len(same) != 1:
            raise SplitReadError(
                f"{table.name} has no column {name!r}; it has {', '.join(fields.names)}",
                remedy="if the column was dropped or renamed, give a schema without it with .schema(...), or "
                "select it with option query",
            )
        return fields.field(same[0])

    def _array(self, table: CursorTable, field: pa.Field, values: pa.Array | Sequence[Any]) -> pa.Array:
        try:
            column = values if isinstance(values, pa.Array) else array_of(list(values), field.type)
            return converted(column, field.type, self.context.time_zone)
        except (ValueError, TypeError, pa.ArrowException) as error:
            raise SplitReadError(
                f"column {field.name} of {table.name} has a value that does not fit the type {field.type}: "
                f"{str(error)[:200]}",
                remedy="give the column a type that fits in .schema(...), such as string",
            ) from None


def _named(split: SqlSplit) -> str:
    start = "from the start" if split.after is None else f"after {split.after}"
    return f"{start} up to {split.upto}"
