"""The code in the documentation runs, page by page, as it stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).parents[1]
PAGES = ["docs/testing.md", "docs/write_an_enumerator.md", "docs/write_a_reader.md"]
"""Pages whose Python blocks make one program each, in the order of the page."""


def program(page: str) -> str:
    """The Python blocks of a page; lines keep their numbers."""
    lines, inside = [], False
    for line in (REPOSITORY / page).read_text().split("\n"):
        fence = re.fullmatch(r"```(\w*)", line)
        lines.append(line if inside and not fence else "")
        if fence:
            inside = fence[1] == "python"
    return "\n".join(lines)


def run_page(page: str, *, below: Path | None = None, **names: object) -> dict[str, Any]:
    """Run the program of a page; places that begin with / are moved ``below`` a directory.

    Returns:
        The names that the program leaves.
    """
    text = program(page)
    if below is not None:
        text = re.sub(r'"/(?=\w)', f'"{below}/', text)
    defined: dict[str, Any] = {"__name__": "page", **names}
    before = len(defined)
    code = compile(text, str(REPOSITORY / page), "exec", dont_inherit=True)
    exec(code, defined)  # noqa: S102 - our own page
    assert len(defined) > before + 1, "there is no code on the page"
    return defined


@pytest.fixture
def streaming(spark: SparkSession) -> Iterator[SparkSession]:
    """The session; streams that a page has started and left running are stopped."""
    yield spark
    for query in spark.streams.active:
        query.stop()


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_the_test_on_the_testing_page_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(program("docs/testing.md"))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_quickstart_runs_and_asserts_what_it_says(
    streaming: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page("docs/quickstart.md")
    assert sorted(names["amounts"]) == [1.0, 2.0, 3.2, 7.5, 9.9]


def test_the_stream_of_the_readme_delivers_its_rows(streaming: SparkSession, tmp_path: Path) -> None:
    landing = tmp_path / "landing" / "orders"
    landing.mkdir(parents=True)
    (landing / "1.json").write_text('{"id": 1, "amount": 9.5}\n{"id": 2, "amount": 3.0}\n')
    names = run_page("README.md", below=tmp_path, spark=streaming)
    (query,) = streaming.streams.active
    query.processAllAvailable()
    lake = streaming.read.parquet(str(tmp_path / "lake" / "orders"))
    assert sorted(row.id for row in lake.collect()) == [1, 2]
    assert names["days"].columns == ["id", "amount"]


@pytest.mark.parametrize("page", ["docs/index.md", "docs/sequence.md", "docs/files.md", "docs/http.md"])
def test_the_streams_of_a_page_are_accepted(page: str, streaming: SparkSession, tmp_path: Path) -> None:
    run_page(page, below=tmp_path, spark=streaming)
