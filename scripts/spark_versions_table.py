"""Writes the table of what Spark's versions differ in: docs/deployment.md, in short README.md; see --check.

The tests skip what a version lacks by the same list.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from scripts.made_page import with_part, write_or_check
from tests.spark_features import FEATURES, VERSIONS, Feature

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "deployment.md"
README = ROOT / "README.md"


def has(feature: Feature) -> list[str]:
    """Whether each version has it."""
    since = VERSIONS.index(feature.since)
    return ["yes" if number >= since else "no" for number in range(len(VERSIONS))]


def row(feature: Feature) -> list[str]:
    files = dict.fromkeys(f"`{test.partition('::')[0]}`" for test in feature.shown_by)
    return [feature.name, *has(feature), feature.before, ", ".join(files)]


def short_row(feature: Feature) -> list[str]:
    return [feature.name.replace("](", "](docs/"), *has(feature)]


def page(text: str, head: Sequence[str], row: Callable[[Feature], list[str]]) -> str:
    """The page with the table generated again: one row for each feature."""
    lines = [["", *head], ["---"] * (1 + len(head)), *map(row, FEATURES)]
    return with_part(text, "versions of Spark", "".join(f"| {' | '.join(line)} |\n" for line in lines))


if __name__ == "__main__":
    sys.exit(
        write_or_check(PAGE, lambda text: page(text, [*VERSIONS, "before", "tests"], row))
        | write_or_check(README, lambda text: page(text, VERSIONS, short_row))
    )
