"""Fixtures: a shop in every database, and one in SQLite where the database does not matter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.enumerators.sql.shops import KINDS, Shop, enter_shop, sqlite_shop


@pytest.fixture(params=KINDS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """An empty table of orders; the test runs with each kind of database."""
    with ExitStack() as stack:
        yield enter_shop(request.param, stack, tmp_path, lambda: request.getfixturevalue("postgres"))


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Shop]:
    """An empty table of orders in SQLite."""
    with sqlite_shop(tmp_path) as shop:
        yield shop
