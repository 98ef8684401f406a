"""The example growing_table: every row is read once, in batches that keep the limits.

The laws of the source are checked in tests/enumerators/sql.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from examples.growing_table.source import TABLE
from flip27_source.testing import MicroBatchEngine, SourceUnderTest

SCHEMA = pa.schema({"id": pa.int64(), "amount": pa.float64()})


class Shop:
    """A table of orders in a file. An open connection makes opening thousands of others faster."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)
        self._ids = itertools.count(5)
        with duckdb.connect(self.file) as database:
            database.execute("CREATE TABLE orders (amount DOUBLE, id BIGINT)")
        self._held = duckdb.connect(self.file, read_only=True)

    def add(self, *orders: tuple[int, float]) -> None:
        self._held.close()
        with duckdb.connect(self.file) as database:
            database.executemany("INSERT INTO orders (id, amount) VALUES (?, ?)", orders)
        self._held = duckdb.connect(self.file, read_only=True)

    def add_one(self) -> None:
        self.add((next(self._ids), 1.5))

    def close(self) -> None:
        self._held.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with closing(Shop(tmp_path / "shop.duckdb")) as shop:
        yield shop


@pytest.fixture
def source(shop: Shop) -> SourceUnderTest:
    return SourceUnderTest(options={**TABLE, "uri": shop.file}, schema=SCHEMA)


Engine = Callable[..., MicroBatchEngine]


def rows_of_each_batch(engine: MicroBatchEngine) -> list[list[tuple[Any, ...]]]:
    return [sorted(batch.rows) for batch in engine.process_all_available() if batch.rows]


def test_the_limit_on_rows_cuts_the_table_by_its_keys_S78(
    source: SourceUnderTest, shop: Shop, flip27_engine: Engine
) -> None:
    shop.add((-3, 7.5), (-2, 2.0), (-1, 9.9), (0, 1.0), (1, 3.2))
    engine = flip27_engine(source.with_options(maxRowsPerTrigger="2"))
    assert rows_of_each_batch(engine) == [[(-3, 7.5), (-2, 2.0)], [(-1, 9.9), (0, 1.0)], [(1, 3.2)]]


def test_an_empty_table_gives_rows_as_soon_as_it_has_some(
    source: SourceUnderTest, shop: Shop, flip27_engine: Engine
) -> None:
    engine = flip27_engine(source)
    assert rows_of_each_batch(engine) == []
    shop.add((7, 2.0), (8, 9.9))
    engine.now_ms += 2000
    assert rows_of_each_batch(engine) == [[(7, 2.0), (8, 9.9)]]
    engine.restart()
    shop.add((9, 1.0))
    assert rows_of_each_batch(engine) == [[(9, 1.0)]]
