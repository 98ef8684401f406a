"""Fixtures for the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.edits.edited import Edited, files
from tests.ui.chromium import browser
from tests.ui.queries import DiskQuery, hostile_query
from tests.ui.window import Window


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskQuery]:
    query = hostile_query(tmp_path_factory.mktemp("hostile"))
    yield query
    query.engine.stop()


@pytest.fixture
def spoiled(tmp_path: Path) -> Iterator[DiskQuery]:
    """A query of its own whose hostile files are quarantined."""
    query = hostile_query(tmp_path)
    yield query
    query.engine.stop()


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Edited]:
    """A query over files that has read a and b, and c to f wait."""
    found = files(tmp_path, "abcdef")
    found.batch()
    yield found
    found.engine.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture
def window(chromium: Any) -> Iterator[Window]:
    context = chromium.new_context()
    made = Window(context.new_page())
    yield made
    context.close()
    assert made.wrong == []
