"""StateDataSource: ``spark.read.format("flip27_state")``, the stored state of sources as tables.

Thin: ``state_tables.views`` declares the views, ``snapshots.locations`` resolves paths.
Reads while queries run, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from flip27_source.errors import SchemaError
from flip27_source.options import Options

from .arrival import ChecksArrival
from .versions import PUSHES_FILTERS, arrow_schema, spark_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from flip27_source.snapshots.locations import Lineage
    from flip27_source.state_tables.predicates import Predicate
    from flip27_source.state_tables.views import View

_ROWS_PER_BATCH = 10_000


class StateDataSource(ChecksArrival, DataSource):
    """``format("flip27_state")``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)

    @classmethod
    def name(cls) -> str:
        return "flip27_state"

    def schema(self) -> StructType:
        return spark_schema(self.asked()["view"].schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return StateReader(self, schema)

    def asked(self) -> Options:
        """The checked options; every process that needs them parses them."""
        from flip27_source.state_tables.views import PATH, STATE_OPTIONS

        options = Options.parse(self.options, STATE_OPTIONS)
        options.require(PATH, why="it locates the state")
        return options


class LineagePartition(InputPartition):
    """One lineage, as sent by Spark."""

    def __init__(self, lineage: Lineage) -> None:
        self.lineage = lineage


class StateReader(DataSourceReader):
    """One partition for each lineage; the rows of one view."""

    def __init__(self, data_source: StateDataSource, schema: StructType) -> None:
        self._data_source = data_source
        self._schema = arrow_schema(schema)
        self.wanted: Predicate | None = None
        _check_columns(self._schema, data_source.asked()["view"])
        if PUSHES_FILTERS:
            from .pushed_filters import PushedPredicate

            self.pushFilters = PushedPredicate(self)  # type: ignore[method-assign, assignment]

    def partitions(self) -> Sequence[InputPartition]:
        from flip27_source.snapshots.locations import find_lineages

        asked = self._data_source.asked()
        storage, place = asked.with_prefix("storage."), asked["stateLocation"]
        lineages = find_lineages(
            asked["path"], storage, only=asked["lineage"], state_locations=[] if place is None else [place]
        )
        return [LineagePartition(lineage) for lineage in lineages]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one lineage; called on executors."""
        import pyarrow as pa

        from flip27_source.state_tables.history import History
        from flip27_source.state_tables.predicates import EVERYTHING

        if not isinstance(partition, LineagePartition):
            return
        asked = self._data_source.asked()
        history = History(partition.lineage.store(asked.with_prefix("storage.")), partition.lineage)
        rows = asked["view"].rows(history, self.wanted or EVERYTHING)
        while chunk := list(islice(rows, _ROWS_PER_BATCH)):
            yield pa.RecordBatch.from_pylist(chunk, schema=self._schema)


def _check_columns(schema: pa.Schema, view: View) -> None:
    """A user's schema may omit and reorder columns, but not change them."""
    known = {field.name: field.type for field in view.schema}
    wrong = [field.name for field in schema if known.get(field.name) != field.type]
    if wrong:
        raise SchemaError(
            f"view {view.name} has no such columns: " + ", ".join(wrong),
            remedy="leave .schema(...) out; the columns are " + ", ".join(known),
        )
