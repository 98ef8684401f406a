"""The options for schema inference and schema evolution."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flip27_source.options import Change, Option, ReadingOption, integer, one_of, optional, text
from flip27_source.schemas.ddl import parse_columns
from flip27_source.schemas.new_columns import RECORDING_MODES

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
    default=None,
    doc="If no schema is given: known columns, such as id bigint, tags array<string>. They override the "
    "inferred types, and add columns that the files do not have.",
)
SCHEMA_EVOLUTION_MODE: Option[str | None] = ReadingOption(
    name="schemaEvolutionMode",
    parse=optional(one_of("none", "rescue", "failOnNewColumns", *RECORDING_MODES)),
    default=None,
    default_text="addNewColumns if the schema is inferred, none if it is given",
    doc="What to do if a file has columns that the schema does not have. addNewColumns: record the wider "
    "schema, then fail; a restarted query continues with it. addNewColumnsWithTypeWidening: the same, also "
    "for values that need a wider type, such as bigint instead of int; other values that do not fit go to "
    "rescuedDataColumn. failOnNewColumns: fail until the schema is changed. rescue: keep the columns in "
    "rescuedDataColumn. none: do not read them.",
)
RESCUED_DATA_COLUMN: Option[str | None] = ReadingOption(
    name="rescuedDataColumn",
    parse=optional(text),
    default=None,
    doc="Name of a string column for data that other columns cannot represent: a JSON object with "
    "_file_path and the fields of a row that are not in the schema or do not fit its types. Null if "
    "there are no such fields.",
)

INFERENCE_OPTIONS: tuple[Option[Any], ...] = (SAMPLING_FILES, SCHEMA_HINTS, SCHEMA_EVOLUTION_MODE)
"""The options of every reader that can infer a schema."""
