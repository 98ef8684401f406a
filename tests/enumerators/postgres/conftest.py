"""A separate server for these tests: some of them change its settings, others kill it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.enumerators.postgres.database import TestedDatabase, new_database
from tests.enumerators.postgres.faults import FaultyShop, faulty_shop
from tests.enumerators.postgres.versions import OLDER
from tests.postgres_server import NEWEST, PostgresServer, postgres_server

ON_BOTH = ("test_replica", "test_server_facts_visibility", "test_snapshot_and_log")
"""Files that `make test-slow` also runs on PostgreSQL 16; `make test-long` runs every file on it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        parameters = (
            item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        )
        if 16 in (parameters.get("server"), parameters.get("shop")) and item.path.stem not in ON_BOTH:
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="module", params=[NEWEST, OLDER])
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


@pytest.fixture(scope="module")
def older_server() -> Iterator[PostgresServer]:
    with postgres_server(16) as server:
        yield server


@pytest.fixture
def shop(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[FaultyShop]:
    """A shop on the newest PostgreSQL, or on the version that a test names in an indirect parameter."""
    is_older = getattr(request, "param", NEWEST) == 16
    with faulty_shop(request.getfixturevalue("older_server") if is_older else postgres) as shop:
        yield shop
