"""The demo's proof: compares every written row with every delivered row. Without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .folder import DemoFolder

Row = tuple[Any, ...]
_COLUMNS = ("id", "customer", "amount", "at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of written and delivered rows.

    Attributes:
        lost: rows that were written and not delivered; an altered row counts as lost and duplicated.
        duplicated: rows that were delivered more often than they were written.
    """

    rows_in: int
    rows_out: int
    lost: int
    duplicated: int

    @property
    def exactly_once(self) -> bool:
        """Whether every row was delivered once, unaltered."""
        return self.lost == 0 and self.duplicated == 0


def compare(folder: DemoFolder) -> Comparison:
    """Read all written and all committed rows, and compare whole rows."""
    written = rows_in(folder.landing)
    delivered = rows_out(folder.sink.committed())
    return Comparison(
        rows_in=written.total(),
        rows_out=delivered.total(),
        lost=(written - delivered).total(),
        duplicated=(delivered - written).total(),
    )


def rows_in(landing: Path) -> Counter[Row]:
    """The rows of the landing folder."""
    rows: Counter[Row] = Counter()
    for file in landing.glob("[0-9]*.json"):
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                value = json.loads(line)
                value["at"] = datetime.fromisoformat(value["at"])
                rows[tuple(value[column] for column in _COLUMNS)] += 1
    return rows


def rows_out(files: Iterable[Path]) -> Counter[Row]:
    """The rows of these Parquet files."""
    rows: Counter[Row] = Counter()
    for file in files:
        table = pq.ParquetFile(file).read(columns=list(_COLUMNS))
        # Spark writes INT96 by default, which Arrow reads as local nanoseconds.
        at = table.schema.get_field_index("at")
        table = table.set_column(at, "at", table.column("at").cast(pa.timestamp("us", tz="UTC")))
        rows.update(zip(*(table.column(column).to_pylist() for column in _COLUMNS), strict=True))
    return rows


class DeliveredRows:
    """Counts the committed rows while the query runs; each file's footer is read once."""

    def __init__(self, folder: DemoFolder) -> None:
        self._folder = folder
        self._counted = 0
        self._rows = 0

    def count(self) -> int:
        """The rows of all files committed so far."""
        files = self._folder.sink.committed()
        for file in files[self._counted :]:
            self._rows += pq.read_metadata(file).num_rows
        self._counted = len(files)
        return self._rows
