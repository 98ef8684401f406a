"""SchemaEvolution: handles columns of a file that the schema does not have, and values that do not fit.

The modes are those of Auto Loader. A task that finds new columns fails and reports them. Every row is
checked, and no row of the batch is delivered. What must not live here: formats.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import types

from flip27_source.errors import NewColumnsError, SchemaError
from flip27_source.options import Options
from flip27_source.readers.schemas.options import RESCUED_DATA_COLUMN, SCHEMA_EVOLUTION_MODE
from flip27_source.schemas.ddl import columns_text
from flip27_source.schemas.new_columns import additions

DEFAULT_RESCUED = "_rescued_data"
"""The default name of the column for rescued data in mode rescue."""

FILE_PATH = "_file_path"
"""The name of the field of rescued data that holds the file's path."""


def rescued_column(options: Options) -> str | None:
    """The name of the column of rescued data; None if there is no such column."""
    name = options[RESCUED_DATA_COLUMN]
    return name or (DEFAULT_RESCUED if options[SCHEMA_EVOLUTION_MODE] == "rescue" else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaEvolution:
    """The schema evolution of one reader.

    Attributes:
        schema: the columns that files are read to, without the column of rescued data.
        mode: none, rescue, failOnNewColumns or addNewColumns.
        rescued_at: the index of the column of rescued data in the whole schema; None if there is none.
        elsewhere: known columns that are not filled from the content of files.
    """

    schema: pa.Schema
    mode: str
    rescued_at: int | None
    elsewhere: tuple[str, ...] = ()

    @classmethod
    def of(cls, schema: pa.Schema, options: Options, elsewhere: tuple[str, ...] = ()) -> SchemaEvolution:
        """The evolution for the columns that come from the content of files.

        Raises:
            SchemaError: rescued data is wanted, but the schema has no column for it.
        """
        mode = options[SCHEMA_EVOLUTION_MODE] or "none"
        name = rescued_column(options)
        if name is None:
            return cls(schema=schema, mode=mode, rescued_at=None, elsewhere=elsewhere)
        at = schema.get_field_index(name)
        if at < 0 or not types.is_string(schema.field(at).type) or not schema.field(at).nullable:
            raise SchemaError(
                f"the column {name} is for rescued data, but the schema has no string column with this name",
                remedy=f"add {name} string to the schema, or name another column with rescuedDataColumn",
            )
        return cls(schema=schema.remove(at), mode=mode, rescued_at=at, elsewhere=(*elsewhere, name))

    def without(self, names: Collection[str]) -> SchemaEvolution:
        """The evolution for a reader that fills these columns itself."""
        return replace(self, schema=pa.schema([field for field in self.schema if field.name not in names]))

    @property
    def looks_for_columns(self) -> bool:
        """True if a new column stops reading."""
        return self.mode in ("addNewColumns", "failOnNewColumns")

    @property
    def is_strict(self) -> bool:
        """True if fields outside the schema must be detected."""
        return self.looks_for_columns or self.rescued_at is not None

    def new_columns(self, found: pa.Schema) -> pa.Schema:
        """The columns of ``found`` that the schema does not have."""
        known = {name.lower() for name in self.elsewhere}
        own = pa.schema([field for field in found if field.name.lower() not in known])
        return additions(self.schema, own)

    def check(self, found: pa.Schema, place: str) -> None:
        """Refuse columns of ``found`` at ``place`` that the schema does not have, if the mode requires it.

        Raises:
            NewColumnsError: there are such columns.
        """
        new = self.new_columns(found) if self.looks_for_columns else ()
        if len(new):
            raise self.refusal(new, place)

    def refusal(self, new: pa.Schema, place: str) -> NewColumnsError:
        """The error for new columns."""
        columns = columns_text(new)
        return NewColumnsError(
            f"{place}: the schema does not have these columns: {columns}",
            columns=columns,
            remedy="give a schema with these columns, or move the file out of the source's path; no row of "
            "the batch was delivered",
        )

    def with_rescued(self, arrays: list[pa.Array], rescued: pa.Array | None) -> list[pa.Array]:
        """The columns with the column of rescued data in its place; None means no rescued data."""
        if self.rescued_at is None:
            return arrays
        if rescued is None:
            rescued = pa.nulls(len(arrays[0]) if arrays else 0, pa.string())
        return [*arrays[: self.rescued_at], rescued, *arrays[self.rescued_at :]]
