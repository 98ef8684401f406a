"""What the tests of metrics share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def five_files(tmp_path: Path) -> dict[str, str]:
    """The options of a query that reads five files, two in a batch, with its state in ``state``."""
    landing = tmp_path / "landing"
    landing.mkdir()
    for name in "abcde":
        (landing / name).write_text("1\n")
    return {
        "enumerator": "files",
        "reader": "text",
        "path": str(landing),
        "maxFilesPerTrigger": "2",
        "stateLocation": str(tmp_path / "state"),
    }
