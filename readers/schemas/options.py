"""The options by which a schema is inferred, and by which it may change."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flip27_source.options import Option, integer, one_of, optional, text
from flip27_source.schemas.ddl import parse_columns

SAMPLING_FILES: Option[int] = Option(
    name="samplingFiles",
    parse=integer(minimum=1),
    default=10,
    doc="Where no schema is given: into how many files to look for it, spread evenly over all paths in "
    "their order, first and last included.",
)
SCHEMA_HINTS: Option[pa.Schema | None] = Option(
    name="schemaHints",
    parse=optional(parse_columns),
    default=None,
    doc="Where no schema is given: columns that are known, as in id bigint, tags array<string>. They go "
    "before what is found in the files, and are added where nothing is.",
)
SCHEMA_EVOLUTION_MODE: Option[str | None] = Option(
    name="schemaEvolutionMode",
    parse=optional(one_of("none", "rescue", "failOnNewColumns", "addNewColumns")),
    default=None,
    default_text="addNewColumns where the schema is inferred, none where it is given",
    doc="What to do when a file has columns that the schema does not have. addNewColumns: record the wider "
    "schema, then fail; the query goes on with it when it is restarted. failOnNewColumns: fail until the "
    "schema is changed. rescue: keep them in rescuedDataColumn. none: do not read them.",
)
RESCUED_DATA_COLUMN: Option[str | None] = Option(
    name="rescuedDataColumn",
    parse=optional(text),
    default=None,
    doc="Name of a string column for what the other columns cannot hold: a JSON object of the fields of a "
    "row that are not in the schema or do not fit its types, and of _file_path. Null where nothing is left "
    "over.",
)

INFERENCE_OPTIONS: tuple[Option[Any], ...] = (SAMPLING_FILES, SCHEMA_HINTS, SCHEMA_EVOLUTION_MODE)
"""Of every reader that can find out a schema."""
