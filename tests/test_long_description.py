"""The description that a package index shows: the README, with links that work there."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text()
URL = "https://code.example/owner/flip27-source"


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_of_this_repository", REPOSITORY / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def targets(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", text)


def test_links_into_the_repository_are_absolute(setup: ModuleType) -> None:
    text = setup.long_description(README, URL)
    assert f"[the quickstart]({URL}/blob/main/docs/quickstart.md)" in text
    assert f"]({URL}/raw/main/docs/terminal.svg)" in text
    assert len(targets(text)) == len(targets(README))
    assert [target for target in targets(text) if not target.startswith("https://")] == []


def test_without_a_published_repository_no_link_leads_nowhere(setup: ModuleType) -> None:
    text = setup.long_description(README, None)
    assert [target for target in targets(text) if not target.startswith("https://")] == []
    assert "then follow the quickstart: it takes five minutes" in text
    assert "terminal.svg" not in text


def test_all_other_text_is_the_same_as_in_the_readme(setup: ModuleType) -> None:
    text = "A `list[int]` and [one](https://host/x), [two](#here): see [three](docs/a.md#b).\n"
    assert setup.long_description(text, URL) == text.replace(
        "(docs/a.md#b)", f"({URL}/blob/main/docs/a.md#b)"
    )


def test_the_urls_of_the_project_come_from_one_setting(setup: ModuleType) -> None:
    assert setup.repository_url("[metadata]\nname = a\nurl = " + URL) == URL
    assert setup.repository_url("[metadata]\nname = a") is None
    assert setup.project_urls(URL)["Changelog"] == f"{URL}/blob/main/CHANGELOG.md"
    assert setup.project_urls(None) == {}
