"""The documentation says what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text()


def test_the_options_page_is_made_from_the_code() -> None:
    script = [sys.executable, "scripts/options_table.py", "--check"]
    done = subprocess.run(script, cwd=REPOSITORY, check=False)
    assert done.returncode == 0, "run python scripts/options_table.py"


def test_the_protocol_page_is_made_from_the_code_and_every_scenario_is_shown_or_excused() -> None:
    script = [sys.executable, "scripts/protocol_page.py", "--check"]
    done = subprocess.run(script, cwd=REPOSITORY, check=False)
    assert done.returncode == 0, "run python scripts/protocol_page.py"


def test_every_make_target_is_in_the_readme_or_the_contributors_guide() -> None:
    targets = re.findall(r"^([a-z0-9-]+):.*## ", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    texts = README + (REPOSITORY / "CONTRIBUTING.md").read_text()
    assert [target for target in targets if f"make {target}" not in texts] == []


def test_links_of_the_documentation_lead_somewhere() -> None:
    pages = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").glob("*.md")]
    links = [
        (page, link) for page in pages for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    ]
    broken = [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()]
    assert broken == []


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "\nmake test\n" in README
    assert "\nmake test\n" in (REPOSITORY / ".ci" / "run").read_text()
