"""What Spark's versions lack, in one place: the rest of the package does not know which version runs.

Features are looked for, not version numbers, because vendors backport them.
"""

from __future__ import annotations

import inspect
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.pandas.types import to_arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

if TYPE_CHECKING or find_spec("pyspark.sql.streaming.datasource") is not None:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
else:  # before Spark 4.2 (SPARK-55304)

    class SupportsTriggerAvailableNow:
        """Spark reads one batch with Trigger.AvailableNow, and does not tell the source."""

    class ReadLimit:
        """Spark passes no limits."""

    ReadAllAvailable = ReadMaxBytes = ReadMaxFiles = ReadMaxRows = ReadLimit

__all__ = [
    "PUSHES_FILTERS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxFiles",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
]

PUSHES_FILTERS = hasattr(DataSourceReader, "pushFilters")
"""Whether a batch reader is offered the filters of a query: from Spark 4.1 on."""

_HAS_TIMEZONE = "timezone" in inspect.signature(to_arrow_schema).parameters


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema; timestamps are in UTC, as Spark exchanges them."""
    # Before Spark 4.1 the zone is always UTC.
    return to_arrow_schema(schema, timezone="UTC") if _HAS_TIMEZONE else to_arrow_schema(schema)
