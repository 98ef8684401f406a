"""A batch read without Spark: what ``spark.read`` plans and reads."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from flip27_source.testing import SourceUnderTest
from flip27_source.testing.spark_query import BatchRead


def planned_read(options: Mapping[str, str], schema: pa.Schema | None = None) -> BatchRead:
    """Return a batch read whose tasks have been planned."""
    given = SourceUnderTest(options=dict(options), schema=schema)
    return BatchRead(given.resolve(), given.arrow_schema()).plan()
