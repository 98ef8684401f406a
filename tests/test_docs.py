"""The documentation says what the code does."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text()


@pytest.mark.parametrize(
    "script",
    [
        "alignment_picture", "api_page", "batch_picture", "batch_size_picture", "cli_page",
        "differences_table", "event_time_picture", "hybrid_picture", "options_table", "protocol_page",
        "replay_picture", "spark_versions_table", "state_page",
    ],
)  # fmt: skip
def test_generated_pages_are_up_to_date(script: str) -> None:
    done = subprocess.run([sys.executable, "-m", f"scripts.{script}", "--check"], cwd=REPOSITORY, check=False)
    assert done.returncode == 0, f"run python -m scripts.{script}"


def test_every_make_target_is_in_the_readme_or_the_contributors_guide() -> None:
    targets = re.findall(r"^([a-z0-9-]+):.*## ", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    texts = README + (REPOSITORY / "CONTRIBUTING.md").read_text()
    assert [target for target in targets if f"make {target}" not in texts] == []


def test_links_of_the_documentation_have_existing_targets() -> None:
    pages = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]
    pages += [*(REPOSITORY / "docs").glob("*.md"), *(REPOSITORY / "deploy").rglob("*.md")]
    links = [
        (page, link) for page in pages for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    ]
    broken = [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()]
    assert broken == []


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "\nmake test\n" in README
    assert "\nmake test\n" in (REPOSITORY / ".ci" / "run").read_text()


def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    """The site is built without --quiet, with which mkdocs would overlook its own warnings."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=REPOSITORY,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    pages = [*site.glob("*.html"), *site.glob("notebooks/*.html")]
    fetched = r"<(?:script|link|img)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>|class=[\"']?mermaid"
    assert {page.name: found for page in pages if (found := re.findall(fetched, page.read_text()))} == {}
    without_script = [page.name for page in pages if "search_from_disk.js" not in page.read_text()]
    assert without_script == []
    assert 'data-md-component="search-query"' in (site / "index.html").read_text()
    sources = [*(REPOSITORY / "docs").glob("*.md"), *(REPOSITORY / "notebooks").glob("*.ipynb")]
    assert {f"{source.stem}.html" for source in sources} <= {page.name for page in pages}
    for page in site.glob("notebooks/*.html"):
        pictures = re.findall(r'<img[^>]* src="([^"]+\.png)"', page.read_text())
        assert pictures, page.name
        assert [name for name in pictures if not (page.parent / name).exists()] == []


@pytest.mark.skipif(shutil.which("node") is None, reason="the script of the site runs in node here")
@pytest.mark.parametrize(("protocol", "says_so"), [("file:", True), ("http:", False)])
def test_the_search_field_of_a_page_opened_from_disk_says_that_it_needs_a_server(
    protocol: str, says_so: bool
) -> None:
    script = (REPOSITORY / "docs" / "javascripts" / "search_from_disk.js").read_text()
    page = """
        const field = { placeholder: "Search", disabled: false };
        const document = {
          addEventListener: (name, listener) => name === "DOMContentLoaded" && listener(),
          querySelector: (wanted) => wanted === '[data-md-component="search-query"]' ? field : null,
        };
    """
    code = f"const location = {{ protocol: {json.dumps(protocol)} }};{page}{script}"
    done = subprocess.run(
        ["node", "--eval", f"{code}; console.log(JSON.stringify(field))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    field = json.loads(done.stdout)
    assert (field["disabled"], "http.server" in field["placeholder"]) == (says_so, says_so)
