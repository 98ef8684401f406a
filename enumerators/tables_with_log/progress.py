"""Tables and their log for people: what the stored state of such a source tells. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flip27_source.snapshot_then_log.tables import TableProgress, TablesState
from flip27_source.source_progress import Cell, ProgressTable


def tables_told(tables: TablesState[Any, Any]) -> Iterator[ProgressTable]:
    """How much of each table's rows is read: what the newest batch reads is still planned."""
    known = [(str(table), None, None, None, None, "only changes are left") for table in tables.known]
    begun = list(map(_row, tables.tables))
    rows: list[Sequence[Cell]] = [*begun, *known]
    said = f"{len(known):,} of {len(rows):,} need no more of their rows"
    if tables.tables:
        chunks, read, planned = (sum(int(row[place]) for row in begun) for place in (1, 2, 3))
        said += (
            f"; of {chunks:,} chunks of the others {read:,} are known to be read, and {planned:,} are planned"
        )
    yield ProgressTable(
        title="tables",
        said=said,
        columns=("table", "chunks", "read", "planned", "rows scanned", "status"),
        rows=rows,
    )


def _row(progress: TableProgress[Any, Any]) -> tuple[str, int, int, int, int, str]:
    """A table's name, its chunks, those that are read and those that are assigned, and the rows read.

    Rows are those of the chunks when they were cut; the last chunk of a table is not counted.
    """
    read = [number for number in range(len(progress.snapshots)) if not progress.is_missing(number)]
    status = "its rows are read" if progress.is_cut else "its rows are read, and not all chunks are cut yet"
    counted = sum(progress.rows[number] or 0 for number in read)
    return progress.label, len(progress.snapshots), len(read), len(progress.assigned), counted, status


def log_told(place: str, slot: str | None, numbers: Mapping[str, Any]) -> ProgressTable:
    """Where the log is read, and what the server kept of it at the driver's last poll."""
    behind, behind_s, kept = (numbers.get(name) for name in ("logLagBytes", "logLagSeconds", "slotKeptBytes"))
    parts = [f"read up to {place}"]
    if isinstance(behind, int):
        parts.append(f"{behind:,} bytes behind at the driver's last poll")
    if slot is not None:
        parts.append(f"slot {slot}" + (f" keeps {kept:,} bytes of WAL" if isinstance(kept, int) else ""))
    rows: list[tuple[str, Cell]] = [
        ("position", place), ("bytes behind", behind), ("seconds behind", behind_s), ("slot", slot),
        ("WAL that the slot keeps, bytes", kept),
    ]  # fmt: skip
    return ProgressTable(
        title="log",
        said="; ".join(parts),
        columns=("log", "at the driver's last poll"),
        rows=[row for row in rows if row[1] is not None],
    )
