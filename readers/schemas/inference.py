"""InfersFileSchema: infers the schema of files.

Formats return the columns in a file. This module adds partition columns, ``schemaHints``, and columns that
options add.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SchemaError
from flip27_source.options import Options
from flip27_source.readers.files.file_columns import with_metadata, with_partitions
from flip27_source.readers.files.reader import suggesting
from flip27_source.readers.schemas.evolution import SAMPLING_FILES, SCHEMA_HINTS, rescued_column
from flip27_source.readers.schemas.merging import hinted, spark_type
from flip27_source.schemas.inference import InfersSchema, SplitSample
from flip27_source.schemas.new_columns import NoCommonTypeError


class InfersFileSchema(InfersSchema[FileSplit]):
    """Optional power of a reader of files."""

    @classmethod
    @abstractmethod
    def schema_of_files(cls, splits: Sequence[FileSplit], options: Options) -> pa.Schema | None:
        """The columns in the content of some files, with Spark's types; None if there are no columns."""

    @classmethod
    def sample_size(cls, options: Options) -> int:
        return options[SAMPLING_FILES]

    @classmethod
    def infer_schema(cls, sample: SplitSample[FileSplit], options: Options) -> pa.Schema | None:
        """The columns of the files and of their directories."""
        with suggesting(cls, sample.splits):
            schema = cls.schema_of_files(sample.splits, options) if sample.splits else None
        return None if schema is None else with_partitions(schema, sample.folders, options)

    @classmethod
    def complete_schema(cls, inferred: pa.Schema | None, options: Options) -> pa.Schema | None:
        """The schema with schemaHints, the column of rescued data and ``_metadata``."""
        hints = options[SCHEMA_HINTS]
        if inferred is None and hints is None:
            return None
        schema = hinted(inferred or pa.schema([]), hints or pa.schema([]))
        rescued = rescued_column(options)
        if rescued is not None and rescued.lower() not in map(str.lower, schema.names):
            schema = schema.append(pa.field(rescued, pa.string()))
        return with_metadata(schema, options)


def of_spark(path: str, stored: pa.Schema) -> pa.Schema:
    """The schema of a file with Spark's types; the null type stays."""
    fields = []
    for field in stored:
        try:
            fields.append(pa.field(field.name, spark_type(field.type)))
        except NoCommonTypeError as error:
            raise SchemaError(
                f"{path}: column {field.name}: {error}", remedy="give a schema without this column"
            ) from None
    return pa.schema(fields)
