"""The code in the documentation runs, page by page, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["testing.md"]
"""Pages whose Python blocks make one program each, in the order of the page."""


def program(page: str) -> str:
    """The Python blocks of a page; lines keep their numbers."""
    lines, inside = [], False
    for line in (DOCS / page).read_text().split("\n"):
        fence = re.fullmatch(r"```(\w*)", line)
        lines.append(line if inside and not fence else "")
        if fence:
            inside = fence[1] == "python"
    return "\n".join(lines)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(program(page), str(DOCS / page), "exec"), names)  # noqa: S102 - our own page
    assert len(names) > 2, "there is no code on the page"


def test_the_test_on_the_testing_page_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(program("testing.md"))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
