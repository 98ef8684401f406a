"""The source on the page about the pattern keeps the laws of sources."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.pages.running import blocks_of


def test_the_source_on_the_page_keeps_the_laws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("source_of_the_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks_of("docs/snapshot_then_log.md"):
        exec(compile(block.text, str(block), "exec"), module.__dict__)  # noqa: S102 - this is the page
