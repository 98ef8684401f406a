"""A separate server for these tests: some of them change its settings, others kill it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.enumerators.postgres.database import TestedDatabase, new_database
from tests.enumerators.postgres.faults import FaultyShop, faulty_shop
from tests.postgres_server import WHEELS, PostgresServer, postgres_server

OLDER = pytest.param(
    16,
    marks=[
        pytest.mark.slow,
        pytest.mark.skipif(
            importlib.util.find_spec(WHEELS[16]) is None, reason="PostgreSQL 16 has no wheel for this Python"
        ),
    ],
)

ON_BOTH = ("test_replica", "test_server_facts_visibility", "test_snapshot_and_log")
"""Files that `make test-slow` also runs on PostgreSQL 16; `make test-long` runs every file on it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        parameters = (
            item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        )
        if parameters.get("server") == 16 and item.path.stem not in ON_BOTH:
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="module", params=[18, OLDER])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    # Large transactions are written to disk while they are decoded.
    with postgres_server(request.param, logical_decoding_work_mem="64kB") as server:
        yield server


@pytest.fixture
def database(server: PostgresServer) -> Iterator[TestedDatabase]:
    """An empty database with a publication ``p`` of all tables and, created after it, a slot."""
    with new_database(server, "CREATE PUBLICATION p FOR ALL TABLES") as database:
        database.make_slot("slot_" + database.name)
        yield database


@pytest.fixture
def shop(postgres: PostgresServer) -> Iterator[FaultyShop]:
    with faulty_shop(postgres) as shop:
        yield shop
