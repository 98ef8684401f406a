"""BatchColumns: the columns of batches if no schema is given: the recorded ones, and new ones by the mode."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import StructType

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import NewColumnsError
from flip27_source.options import Options
from flip27_source.readers.files.input import CorruptFileError
from flip27_source.schemas.ddl import columns_text
from flip27_source.schemas.new_columns import additions, evolved
from flip27_source.schemas.recorded_schemas import SchemaStorage
from flip27_source.spark.versions import spark_schema

from .null_columns import without_null_columns
from .spark_reads import SparkReads, both

_NOTHING = pa.schema([])


class BatchColumns:
    def __init__(self, reads: SparkReads, storage: SchemaStorage, mode: str, options: Options) -> None:
        """``mode``: none, addNewColumns or failOnNewColumns; ``options``: with ``storage.*``."""
        self._reads = reads
        self._storage = storage
        self._mode = mode
        self._options = options
        self._tried = self._readable = _NOTHING

    def recorded(self, files: Sequence[FileSplit]) -> StructType | None:
        """The columns of a batch, which are recorded; None if no file has told of columns so far.

        Raises:
            NewColumnsError: there are new columns, and the mode is failOnNewColumns.
            SchemaError: the inferred schema cannot be recorded.
        """
        newest = self._storage.newest()
        if newest is None or self._mode != "none":
            inferred = self._inferred(files, _NOTHING if newest is None else newest.schema)
            if newest is None and self._reads.partition_columns(files).issuperset(inferred.names):
                return None  # files without columns do not determine those of later files
            new = additions(inferred if newest is None else newest.schema, inferred)
            if len(new) and self._mode == "failOnNewColumns":
                columns = columns_text(new)
                raise NewColumnsError(
                    f"the files of the batch have columns that the recorded schema does not have: {columns}",
                    columns=columns,
                    remedy="set schemaEvolutionMode of native_batches to addNewColumns or none, or give a "
                    "schema; no row of the batch was delivered",
                )
            if newest is None or len(new):
                newest = self._storage.add(inferred)
        return spark_schema(newest.schema)

    def tried(self, files: Sequence[FileSplit]) -> StructType | None:
        """The columns for some files of a batch that has failed, which do not determine what is recorded."""
        newest = self._storage.newest()
        if newest is not None and self._mode == "none":
            return spark_schema(newest.schema)
        base = _NOTHING if newest is None else newest.schema
        found = self._inferred(files, evolved(base, self._readable))
        self._tried = both(self._readable, found, is_exact=False)  # as what is inferred from all of them
        columns = evolved(base, self._tried)
        return spark_schema(columns) if len(columns) else None

    def keep_tried(self) -> None:
        """The files that were tried last can be read: names of others must be spelled as theirs."""
        self._readable = self._tried

    def _inferred(self, files: Sequence[FileSplit], known: pa.Schema) -> pa.Schema:
        """The schema of the files, whose names must be spelled as in ``known``."""
        found = self._reads.inferred(files)
        names = self._reads.differing_case(known, found, self._reads.partition_columns(files))
        if names is not None:
            others = f" or one of {len(files) - 1} other files" if len(files) > 1 else ""
            raise CorruptFileError(
                f"{files[0].path}{others} has the field {names[1]}, and there is the field {names[0]}: Spark "
                "would find one of them, and the values of the other would be null",
                remedy="write the names in one way; or give native_batches a schema, whose names are exact",
            )
        found = evolved(_NOTHING, found)
        new = additions(known, found)
        is_parquet = self._reads.kind == "parquet"
        return without_null_columns(found, new, files, self._options) if is_parquet else found
