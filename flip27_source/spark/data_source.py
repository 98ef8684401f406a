"""Flip27DataSource: the class that is registered with Spark.

Runs in planning processes and must stay cheap: no threads, and no I/O except to check the source before it
starts, and to infer a schema if the user gave none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from flip27_source.errors import SchemaError
from flip27_source.pandas_on_demand import import_pandas_on_demand

from .arrival import ChecksArrival
from .short_errors import shortly

if TYPE_CHECKING:
    from flip27_source.enumerator import SplitEnumerator
    from flip27_source.reader import SplitReader
    from flip27_source.source import Source


class Flip27DataSource(ChecksArrival, DataSource):
    """``format("flip27")``."""

    format_name: ClassVar[str] = "flip27"
    enumerator: ClassVar[type[SplitEnumerator[Any]] | None] = None
    reader_type: ClassVar[type[SplitReader[Any]] | None] = None

    def __init__(self, options: Mapping[str, str]) -> None:
        """Check the source. Spark does this once, in ``load()``, or at the start if a schema is given.

        Other processes get a pickled copy.
        """
        self.options = dict(options)
        self._schema_is_given = True
        self._reader_by_names = shortly(self._chosen_reader)
        shortly(self._check)

    @classmethod
    def name(cls) -> str:
        return cls.format_name

    def schema(self) -> StructType:
        """The reader's default schema, or an inferred one; called only if the user gave none."""
        from flip27_source.schemas.source_schema import schema_of

        from .versions import spark_schema

        import_pandas_on_demand()
        schema = shortly(lambda: schema_of(self.source()))
        self._schema_is_given = False
        return spark_schema(schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``: the source, bounded."""
        from .batch_reader import Flip27BatchReader

        self._check_given(schema)
        return Flip27BatchReader(self, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from .stream_reader import Flip27StreamReader

        self._check_given(schema)
        return Flip27StreamReader(self, schema)

    def _check_given(self, schema: StructType) -> None:
        from flip27_source.source_checks import ChecksGivenSchema

        from .versions import arrow_schema

        self._check_evolution()
        source = self.source()
        if self._schema_is_given and issubclass(source.enumerator_type, ChecksGivenSchema):
            source.enumerator_type.check_given_schema(arrow_schema(schema), source.options)

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
            reader_by_names=self._reader_by_names,
            schema_is_given=self._schema_is_given,
        )

    def _chosen_reader(self) -> str | None:
        if self.reader_type is not None or "reader" in map(str.lower, self.options):
            return None
        # Imported late, with the state of a source: most users name the reader.
        from flip27_source.schemas.source_reader import reader_by_names

        return reader_by_names(self.options, self.enumerator)

    def _check(self) -> None:
        from flip27_source.source_checks import ChecksBeforeStart

        source = self.source()
        for kind in (source.enumerator_type, source.reader_type):
            if issubclass(kind, ChecksBeforeStart):
                kind.check_before_start(source.options)
