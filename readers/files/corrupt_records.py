"""Where a schema has the column for malformed records (``columnNameOfCorruptRecord``)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from flip27_source.errors import SchemaError


def index_of_corrupt(schema: pa.Schema, name: str, *, records: str = "lines") -> int | None:
    """The index of the column; None if the schema has none.

    Args:
        name: the name of the column.
        records: what the reader's records are, for the error.

    Raises:
        SchemaError: the column is not a nullable string.
    """
    index = int(schema.get_field_index(name))
    if index < 0:
        return None
    field = schema.field(index)
    if not pt.is_string(field.type) or not field.nullable:
        raise SchemaError(
            f"the column {name} for malformed {records} has the type "
            f"{field.type}{'' if field.nullable else ' NOT NULL'}; it must be a nullable string",
            remedy=f"declare {name} as a nullable string, or set columnNameOfCorruptRecord to another column",
        )
    return index
