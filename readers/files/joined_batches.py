"""Joins small record batches into larger ones, because each batch costs Spark more than some rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

ENOUGH_ROWS = 8_192
ENOUGH_BYTES = 4 << 20


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order; adjacent small batches are joined."""
    small: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if _is_enough(batch.num_rows, batch.nbytes):
            yield from _one(small)
            yield batch
            small, rows, size = [], 0, 0
            continue
        small.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if _is_enough(rows, size):
            yield from _one(small)
            small, rows, size = [], 0, 0
    yield from _one(small)


def _is_enough(rows: int, size: int) -> bool:
    return rows >= ENOUGH_ROWS or size >= ENOUGH_BYTES


def _one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    return pa.Table.from_batches(batches).combine_chunks().to_batches() or batches[:1]
