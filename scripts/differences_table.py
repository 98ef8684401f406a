"""Writes the table of the differences from Spark in docs/readers.md; with --check, only compares.

The fuzz tests of the readers use the same list and fail on any other difference.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.made_page import with_part, write_or_check
from tests.fuzz.differences import ALL, DIFFERENCES

PAGE = Path(__file__).parents[1] / "docs" / "readers.md"


def table() -> str:
    """One row for each difference."""
    rows = [
        f"| {'all' if one.readers == ALL else ', '.join(one.readers)} | {one.name} | {one.spark} | "
        f"{one.here} | {one.why} |"
        for one in DIFFERENCES
    ]
    return "\n".join(["| reader | | Spark | here | why |", "|---|---|---|---|---|", *rows, ""])


def page(text: str) -> str:
    """The page with the table generated again."""
    return with_part(text, "differences", table())


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page))
