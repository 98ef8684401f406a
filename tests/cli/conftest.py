"""Fixtures for the tests of the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.driver.test_reports import SERVER


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    SERVER.clear()
    yield
    SERVER.clear()
