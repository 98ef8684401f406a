"""Finds the range of a table's key to which a row belongs: integers here, other types on the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres.split import KeyColumn, TableRules

if TYPE_CHECKING:
    from flip27_source.enumerators.postgres.connection import Connection

_INTEGERS = frozenset({"smallint", "integer", "bigint"})


def local_ranges(rules: TableRules, keys: Sequence[pa.Array]) -> npt.NDArray[np.int64] | None:
    """The number of each key's range, for a key of one integer; None for other keys."""
    if len(rules.key) != 1 or rules.key[0].type not in _INTEGERS:
        return None
    bounds = np.array([int(bound[0]) for bound in rules.bounds], dtype=np.int64)
    numbers = pc.cast(keys[0], pa.string()).cast(pa.int64()).to_numpy(zero_copy_only=False)
    found: npt.NDArray[np.int64] = np.searchsorted(bounds, numbers, side="right").astype(np.int64)
    return found


def ranges_on_server(
    connection: Connection, rules: TableRules, keys: Sequence[pa.Array]
) -> npt.NDArray[np.int64]:
    """The number of each key's range; the server compares the keys by the columns' types and collations."""
    columns = range(len(rules.key))
    row = ", ".join(f"k.c{i}" for i in columns)
    bound = ", ".join(f"b.c{i}" for i in columns)
    names = ", ".join(f"c{i}" for i in columns)
    sql = (
        f"SELECT (SELECT count(*) FROM {_texts(columns)} AS t({names}), LATERAL (SELECT "
        f"{_typed(rules.key)}) AS b"
        f"({names}) WHERE ({bound}) <= ({row})) FROM {_texts(columns)} WITH ORDINALITY AS t({names}, place), "
        f"LATERAL (SELECT {_typed(rules.key)}) AS k({names}) ORDER BY place"
    )
    bounds = [[bound[i] for bound in rules.bounds] for i in columns]
    texts = [pc.cast(column, pa.string()).to_pylist() for column in keys]
    rows = connection.execute(sql, [*bounds, *texts]).fetchall()
    return np.array([row[0] for row in rows], dtype=np.int64)


def _texts(columns: Sequence[int]) -> str:
    return f"unnest({', '.join('%s::text[]' for _ in columns)})"


def _typed(key: Sequence[KeyColumn]) -> str:
    return ", ".join(
        f"CAST(t.c{i} AS {column.type})" + (f" COLLATE {column.collation}" if column.collation else "")
        for i, column in enumerate(key)
    )
