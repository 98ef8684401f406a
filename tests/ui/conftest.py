"""Fixtures for the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ui.queries import DiskQuery, hostile_query


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskQuery]:
    query = hostile_query(tmp_path_factory.mktemp("hostile"))
    yield query
    query.engine.stop()
