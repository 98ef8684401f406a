"""RecordedColumns: the schema of native reads if none is given; inferred by Spark, recorded in the state.

Every batch gets the same columns, and new columns are added according to ``schemaEvolutionMode``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from flip27_source.errors import NewColumnsError, SchemaError
from flip27_source.schemas.ddl import columns_text, type_name
from flip27_source.schemas.new_columns import additions, evolved
from flip27_source.schemas.recorded_schemas import RecordedSchema, SchemaStorage

_log = logging.getLogger("flip27_source")


class RecordedColumns:
    """The recorded schema of one source."""

    def __init__(self, storage: SchemaStorage, mode: str) -> None:
        self._storage = storage
        self._mode = mode

    def schema_for(self, infer: Callable[[], StructType]) -> StructType:
        """The schema for a batch.

        Args:
            infer: gives the schema that Spark infers from the files of the batch.

        Raises:
            NewColumnsError: there are new columns, and the mode is failOnNewColumns.
            SchemaError: the inferred schema cannot be recorded.
        """
        recorded = self._storage.newest()
        if recorded is not None and self._mode == "none":
            return _sparks(recorded)
        found = _recordable(infer())
        while True:
            if recorded is not None:
                new = additions(recorded.schema, found)
                if not len(new):
                    return _sparks(recorded)
                self._check(new)
                found = evolved(recorded.schema, found)
            recorded = self._storage.record(found, after=recorded)
            _log.info("native reads: version %d of the schema was recorded: %s",
                      recorded.version, columns_text(recorded.schema))  # fmt: skip

    def _check(self, new: pa.Schema) -> None:
        if self._mode == "failOnNewColumns":
            columns = columns_text(new)
            raise NewColumnsError(
                f"the files of the batch have columns that the recorded schema does not have: {columns}",
                columns=columns,
                remedy="set schemaEvolutionMode of native_batches to addNewColumns or none, or give a "
                "schema; no row of the batch was delivered",
            )


def _recordable(found: StructType) -> pa.Schema:
    schema = to_arrow_schema(found, timezone="UTC")
    for field in schema:
        try:
            type_name(field.type)
        except ValueError as error:
            raise SchemaError(
                f"the inferred column {field.name} cannot be recorded: {error}",
                remedy="give a schema: native_batches(..., schema=...)",
            ) from None
    return schema


def _sparks(recorded: RecordedSchema) -> StructType:
    return from_arrow_schema(recorded.schema, prefer_timestamp_ntz=True)
