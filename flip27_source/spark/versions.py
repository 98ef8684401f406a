"""What Spark's versions lack, in one place: the rest of the package does not know which version runs.

Features are looked for, not version numbers, because vendors backport them.
"""

from __future__ import annotations

import inspect
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from flip27_source.schemas.column_comments import comment_of, commented

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

PASSES_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether a stream reader is told the start and the limits of a batch, and that Trigger.AvailableNow is used:
from Spark 4.2 on (SPARK-55304)."""

if TYPE_CHECKING or PASSES_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
else:

    class SupportsTriggerAvailableNow:
        """Spark reads one batch with Trigger.AvailableNow, and does not tell the source."""

    class ReadLimit:
        """Spark passes no limits: a reader takes its default."""

    class ReadAllAvailable(ReadLimit): ...

    class ReadMaxRows(ReadLimit):
        def __init__(self, _: int) -> None: ...


__all__ = [
    "PASSES_LIMITS",
    "PUSHES_FILTERS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
    "spark_schema",
]

PUSHES_FILTERS = hasattr(DataSourceReader, "pushFilters")
"""Whether a batch reader is offered the filters of a query: from Spark 4.1 on."""

_HAS_TIMEZONE = "timezone" in inspect.signature(to_arrow_schema).parameters


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema; timestamps are in UTC, as Spark exchanges them."""
    # Spark before 4.2 knows no other zone.
    made = to_arrow_schema(schema, timezone="UTC") if _HAS_TIMEZONE else to_arrow_schema(schema)
    for place, column in enumerate(schema):
        comment = column.metadata.get("comment")
        if comment is not None and comment_of(made.field(place)) is None:
            made = made.set(place, commented(made.field(place), comment))
    return made


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema; timestamps without a zone are TIMESTAMP_NTZ."""
    made = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    for field, column in zip(schema, made, strict=True):
        comment = comment_of(field)
        if comment is not None:
            column.metadata["comment"] = comment
    return made
