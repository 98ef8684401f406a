"""The folders of a query."""

from __future__ import annotations

from pathlib import Path

import pytest

from flip27_source.spark.versions import PUSHES_FILTERS

from .streams import Folders

# These tests import Spark's classes of filters.
collect_ignore = [] if PUSHES_FILTERS else ["test_pushed_filters.py"]


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)
