"""The demo's data: the files that arrive, and the comparison of all their rows with the delivered rows."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .folder import DemoFolder, committed_files

Row = tuple[Any, ...]
_CUSTOMERS = ("Ada", "Blaise", "Carl", "Émilie", "Grace", "Sofja", "李善兰", 'Bobby "Tables"')


def row(number: int) -> dict[str, object]:
    """The row with this id; the same at every call."""
    return {
        "id": number,
        "customer": _CUSTOMERS[number % len(_CUSTOMERS)],
        "amount": number * 7919 % 100_000 / 100,
        "at": f"2026-01-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
    }


def write_file(landing: Path, file: int, rows: int) -> None:
    """Write file number ``file`` under a hidden name, then rename it, so that it appears as a whole."""
    first = file * rows
    lines = [json.dumps(row(number), ensure_ascii=False) for number in range(first, first + rows)]
    hidden = landing / f".{file:06d}.json.writing"
    hidden.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    hidden.rename(landing / f"{file:06d}.json")


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
        return self.lost == 0 and self.duplicated == 0


def compare(folder: DemoFolder) -> Comparison:
    written = _rows_in(folder.landing)
    delivered = _rows_out(committed_files(folder.output))
    return Comparison(
        rows_in=written.total(),
        rows_out=delivered.total(),
        lost=(written - delivered).total(),
        duplicated=(delivered - written).total(),
    )


def delivered_rows(folder: DemoFolder) -> int:
    return sum(map(_count, committed_files(folder.output)))


@functools.cache
def _count(file: Path) -> int:
    return int(pq.read_metadata(file).num_rows)


def _rows_in(landing: Path) -> Counter[Row]:
    texts = (file.read_text(encoding="utf-8") for file in landing.glob("[0-9]*.json"))
    return Counter(tuple(json.loads(line).values()) for text in texts for line in text.splitlines())


def _rows_out(files: Iterable[Path]) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for file in files:
        table = pq.ParquetFile(file).read(columns=list(row(0)))
        # Spark writes INT96 by default, which Arrow reads as local nanoseconds.
        at = pc.strftime(table["at"].cast(pa.timestamp("ms", tz="UTC")), format="%Y-%m-%dT%H:%M:%SZ")
        columns = table.set_column(table.schema.get_field_index("at"), "at", at).columns
        rows.update(zip(*(column.to_pylist() for column in columns), strict=True))
    return rows
