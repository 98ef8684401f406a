"""Flip27DataSource: the class that is registered with Spark.

Runs in planning processes and must stay cheap: no threads, no state of a query, and no I/O except to infer
a schema if the user gave none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from flip27_source.errors import SchemaError

if TYPE_CHECKING:
    from flip27_source.enumerator import SplitEnumerator
    from flip27_source.reader import SplitReader
    from flip27_source.source import Source


class Flip27DataSource(DataSource):
    """``format("flip27")``."""

    format_name: ClassVar[str] = "flip27"
    enumerator: ClassVar[type[SplitEnumerator[Any]] | None] = None
    reader_type: ClassVar[type[SplitReader[Any]] | None] = None

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)
        self._schema_is_given = True

    @classmethod
    def name(cls) -> str:
        return cls.format_name

    def schema(self) -> StructType:
        """The reader's default schema, or an inferred one; called only if the user gave none."""
        from pyspark.sql.pandas.types import from_arrow_schema

        from flip27_source.schemas.source_schema import schema_of

        schema = schema_of(self.source())
        self._schema_is_given = False
        return from_arrow_schema(schema, prefer_timestamp_ntz=True)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``: the source, bounded."""
        from .batch_reader import Flip27BatchReader

        self._check_evolution()
        return Flip27BatchReader(self, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from .stream_reader import Flip27StreamReader

        self._check_evolution()
        return Flip27StreamReader(self, schema)

    def _check_evolution(self) -> None:
        from flip27_source.schemas.new_columns import RECORDING_MODES

        mode = self.options.get("schemaevolutionmode", self.options.get("schemaEvolutionMode", ""))
        if self._schema_is_given and mode.lower() in map(str.lower, RECORDING_MODES):
            raise SchemaError(
                f"schemaEvolutionMode is {mode}, but a schema is given, which cannot grow",
                remedy="leave .schema(...) out and give known columns by schemaHints; or set "
                "schemaEvolutionMode to failOnNewColumns, rescue or none",
            )

    def source(self) -> Source:
        """The checked source; every process that needs the source resolves it."""
        from flip27_source.source import Source

        return Source.resolve(
            self.options,
            enumerator=self.enumerator,
            reader=self.reader_type,
            schema_is_given=self._schema_is_given,
        )
