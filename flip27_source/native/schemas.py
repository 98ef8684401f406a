"""The schema of native reads if none is given: inferred by Spark, recorded in the state.

Every batch gets the same columns, and new columns are added according to ``schemaEvolutionMode``.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from flip27_source.errors import NewColumnsError
from flip27_source.schemas.ddl import columns_text
from flip27_source.schemas.new_columns import additions
from flip27_source.schemas.recorded_schemas import SchemaStorage


def recorded_columns(storage: SchemaStorage, mode: str, infer: Callable[[], StructType]) -> StructType:
    """The schema for a batch.

    Args:
        mode: none, addNewColumns or failOnNewColumns.
        infer: gives the schema that Spark infers from the files of the batch.

    Raises:
        NewColumnsError: there are new columns, and the mode is failOnNewColumns.
        SchemaError: the inferred schema cannot be recorded.
    """
    recorded = storage.newest()
    if recorded is None or mode != "none":
        inferred = to_arrow_schema(infer(), timezone="UTC")
        new = additions(inferred if recorded is None else recorded.schema, inferred)
        if len(new) and mode == "failOnNewColumns":
            columns = columns_text(new)
            raise NewColumnsError(
                f"the files of the batch have columns that the recorded schema does not have: {columns}",
                columns=columns,
                remedy="set schemaEvolutionMode of native_batches to addNewColumns or none, or give a "
                "schema; no row of the batch was delivered",
            )
        if recorded is None or len(new):
            recorded = storage.add(inferred)
    return from_arrow_schema(recorded.schema, prefer_timestamp_ntz=True)
