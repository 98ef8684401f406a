"""The folders of a query."""

from __future__ import annotations

from pathlib import Path

import pytest

from .streams import Folders


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)
