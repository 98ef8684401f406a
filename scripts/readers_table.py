"""Writes the table of options in docs/readers.md from the readers; with --check, only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from flip27_source.readers.files.spark_options import status
from flip27_source.registry import find_reader
from scripts.made_page import with_part, write_or_check

PAGE = Path(__file__).parents[1] / "docs" / "readers.md"
READERS = ("json", "csv", "text", "parquet", "orc", "avro", "arrow", "binary")

_SHOWN = {"supported": "yes", "without effect": "no effect", "default only": "default only"}


def table() -> str:
    """One row for each option of a file reader, one column for each reader."""
    found: dict[str, dict[str, str]] = {}
    for reader in READERS:
        for option in find_reader(reader).options:
            found.setdefault(option.name, {})[reader] = _SHOWN[status(option)]
    rows = [
        f"| `{name}` | " + " | ".join(where.get(reader, "") for reader in READERS) + " |"
        for name, where in sorted(found.items(), key=lambda item: item[0].lower())
    ]
    head = ["| option | " + " | ".join(READERS) + " |", "|---" * (len(READERS) + 1) + "|"]
    return "\n".join([*head, *rows, ""])


def page(text: str) -> str:
    """The page with the table generated again."""
    return with_part(text, "options", table())


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page))
