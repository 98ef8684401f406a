"""SchemaEvolution: handles columns of a file that the schema does not have, and values that do not fit.

It also has the options for schema inference and evolution.

The modes are those of Auto Loader. A task that finds new columns fails and reports them. Every row is
checked, and no row of the batch is delivered. What must not live here: formats.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyarrow import types

from flip27_source.errors import NewColumnsError, SchemaError
from flip27_source.options import Change, Option, Options, ReadingOption, integer, one_of, optional
from flip27_source.readers.schemas.merging import hinted
from flip27_source.schemas.ddl import columns_text, parse_columns, type_name
from flip27_source.schemas.new_columns import RECORDING_MODES, WIDENING_MODE, additions, evolved

SAMPLING_FILES: Option[int] = Option(
    name="samplingFiles",
    parse=integer(minimum=1),
    default=10,
    doc="If no schema is given: the number of files from which it is inferred, spread evenly over all paths "
    "in their order, including the first and the last.",
    changes=Change.IGNORED,
    change_note="once the schema is recorded",
)
SCHEMA_HINTS: Option[pa.Schema | None] = ReadingOption(
    name="schemaHints",
    parse=optional(parse_columns),
    doc="If no schema is given: known columns, such as id bigint, tags array<string>. They override the "
    "inferred types, and add columns that the files do not have.",
)
SCHEMA_EVOLUTION_MODE: Option[str | None] = ReadingOption(
    name="schemaEvolutionMode",
    parse=optional(one_of("none", "rescue", "failOnNewColumns", *RECORDING_MODES)),
    default_text="addNewColumns if the schema is inferred, none if it is given",
    doc="What to do if a file has columns that the schema does not have. addNewColumns: record the wider "
    "schema, then fail; a restarted query continues with it. addNewColumnsWithTypeWidening: the same, also "
    "for values that need a wider type, such as bigint instead of int; other values that do not fit go to "
    "rescuedDataColumn. failOnNewColumns: fail until the schema is changed. rescue: keep the columns in "
    "rescuedDataColumn. none: do not read them.",
)
RESCUED_DATA_COLUMN: Option[str | None] = ReadingOption(
    name="rescuedDataColumn",
    doc="Name of a string column for data that other columns cannot represent: a JSON object with "
    "_file_path and the fields of a row that are not in the schema or do not fit its types. Null if "
    "there are no such fields.",
)

INFERENCE_OPTIONS: tuple[Option[Any], ...] = (SAMPLING_FILES, SCHEMA_HINTS, SCHEMA_EVOLUTION_MODE)
"""The options of every reader that can infer a schema."""

DEFAULT_RESCUED = "_rescued_data"
"""The default name of the column for rescued data in the modes that need one."""

FILE_PATH = "_file_path"
"""The name of the field of rescued data that holds the file's path."""
_RESCUING_MODES = ("rescue", WIDENING_MODE)


def rescued_column(options: Options) -> str | None:
    """The name of the column of rescued data; None if there is no such column."""
    name = options[RESCUED_DATA_COLUMN]
    return name or (DEFAULT_RESCUED if options[SCHEMA_EVOLUTION_MODE] in _RESCUING_MODES else None)


def rescued_text(values: Mapping[str, Any], path: str) -> str:
    """The rescued data of a row: a JSON object of values of JSON (bytes in Base64) and the file's path."""
    left = {**{rescued_name(name): value for name, value in values.items()}, FILE_PATH: path}
    return json.dumps(left, default=rescued_value, ensure_ascii=False, allow_nan=False)


def rescued_name(name: str) -> str:
    """The name of a field in rescued data: one more underscore for those that look like the file's path."""
    return f"_{name}" if name.endswith(FILE_PATH) and not name.removesuffix(FILE_PATH).strip("_") else name


def by_name(members: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The values by name; those of equal names, of which parsers of JSON find only one, as an array."""
    found: dict[str, list[Any]] = {}
    for name, value in members:
        found.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def rescued_value(value: Any) -> str:
    """The text of a value that JSON does not have."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaEvolution:
    """The schema evolution of one reader.

    Attributes:
        schema: the columns that files are read to, without the column of rescued data.
        mode: none, rescue, failOnNewColumns, addNewColumns or addNewColumnsWithTypeWidening.
        rescued_at: the index of the column of rescued data in the whole schema; None if there is none.
        rescued_name: its name.
        elsewhere: known columns that are not filled from the content of files.
        hints: the types that stay as they are because the user has set them.
    """

    schema: pa.Schema
    mode: str
    rescued_at: int | None
    rescued_name: str | None = None
    elsewhere: tuple[str, ...] = ()
    hints: pa.Schema | None = None

    @classmethod
    def of(cls, schema: pa.Schema, options: Options, elsewhere: tuple[str, ...] = ()) -> SchemaEvolution:
        """The evolution for the columns that come from the content of files."""
        mode = options[SCHEMA_EVOLUTION_MODE] or "none"
        hints = options[SCHEMA_HINTS] if mode == WIDENING_MODE else None
        name = rescued_column(options)
        if name is None:
            return cls(schema=schema, mode=mode, rescued_at=None, elsewhere=elsewhere)
        at = schema.get_field_index(name)
        if at < 0 or not types.is_string(schema.field(at).type) or not schema.field(at).nullable:
            raise SchemaError(
                f"the column {name} is for rescued data, but the schema has no string column with this name",
                remedy=f"add {name} string to the schema, or name another column with rescuedDataColumn",
            )
        return cls(
            schema=schema.remove(at),
            mode=mode,
            rescued_at=at,
            rescued_name=name,
            elsewhere=(*elsewhere, name),
            hints=hints,
        )

    def without(self, names: Collection[str]) -> SchemaEvolution:
        """The evolution for a reader that fills these columns itself."""
        return replace(self, schema=pa.schema([field for field in self.schema if field.name not in names]))

    @property
    def looks_for_columns(self) -> bool:
        """True if a new column stops reading."""
        return self.mode in (*RECORDING_MODES, "failOnNewColumns")

    @property
    def widens(self) -> bool:
        """True if a value that needs a wider type stops reading, as a new column does."""
        return self.mode == WIDENING_MODE

    @property
    def is_exact(self) -> bool:
        """True if a value that a column of text formats would round or cut does not fit; Spark changes it."""
        return self.mode in _RESCUING_MODES

    @property
    def is_strict(self) -> bool:
        """True if fields outside the schema must be detected."""
        return self.looks_for_columns or self.rescued_at is not None

    def new_columns(self, *schemas: pa.Schema) -> pa.Schema:
        """The columns of ``schemas`` that the schema does not have, or has with a type that must be wider.

        Args:
            schemas: schemas of files or lines; the type of a new column is that of the first one that has it.
        """
        known = {name.lower() for name in self.elsewhere}
        grown = self.schema
        for schema in schemas:
            own = pa.schema([field for field in schema if field.name.lower() not in known])
            grown = evolved(grown, own, widens=self.widens)
        if self.hints is not None:
            grown = hinted(grown, self.hints)
        return additions(self.schema, grown, widens=self.widens)

    def check(self, place: str, *schemas: pa.Schema) -> None:
        """Refuse the ``new_columns`` of ``schemas`` at ``place``, if the mode requires it."""
        new = self.new_columns(*schemas) if self.looks_for_columns else ()
        if len(new):
            raise self.refusal(new, place)

    def refusal(self, new: pa.Schema, place: str) -> NewColumnsError:
        columns = columns_text(new)
        return NewColumnsError(
            f"{place}: {self._described(new)}",
            columns=columns,
            remedy="give a schema with these columns; no row of the batch was delivered",
        )

    def _described(self, new: pa.Schema) -> str:
        held = {field.name: field for field in self.schema} if self.widens else {}
        added = pa.schema([field for field in new if field.name not in held])
        wider = (
            f"{columns_text(pa.schema([field]))} instead of {type_name(held[field.name].type)}"
            for field in new
            if field.name in held
        )
        problems = [f"the schema does not have these columns: {columns_text(added)}"] if len(added) else []
        problems += [f"the schema needs a wider type: {one}" for one in wider]
        return "; ".join(problems)

    def with_rescued(self, arrays: list[pa.Array], rescued: pa.Array) -> list[pa.Array]:
        """The columns with the column of rescued data in its place."""
        if self.rescued_at is None:
            return arrays
        return [*arrays[: self.rescued_at], rescued, *arrays[self.rescued_at :]]
