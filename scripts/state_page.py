"""Fills the tables of docs/state.md from the views and options of the code; with --check, only compares."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyarrow as pa

from flip27_source.state_tables.views import STATE_OPTIONS, VIEWS, View
from scripts.made_page import write_or_check

PAGE = Path(__file__).parents[1] / "docs" / "state.md"
SPARK_NAMES = {
    pa.int64(): "long",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.map_(pa.string(), pa.string()): "map<string,string>",
}


def page(text: str) -> str:
    """The page with its tables generated again."""
    parts = {f"view {view.name}": _columns(view) for view in VIEWS.values()} | {"options": _options()}
    for name, part in parts.items():
        marks = rf"(<!-- {name}: made by scripts.state_page -->\n).*?(<!-- end -->)"
        text, found = re.subn(marks, lambda m, part=part: m[1] + part + m[2], text, flags=re.DOTALL)  # type: ignore[misc]
        if found != 1:
            raise SystemExit(f"{PAGE.name} has no place for {name}")
    return text


def _columns(view: View) -> str:
    rows = [
        f"| `{column.name}` | {SPARK_NAMES[column.type]} | {'' if column.nullable else 'no'} | {column.doc} |"
        for column in view.columns
    ]
    return "\n".join([view.doc, "", "| column | type | null | |", "|---|---|---|---|", *rows, ""])


def _options() -> str:
    rows = [
        f"| `{option.name}` | {option.default_text or 'none'} | {option.doc} |" for option in STATE_OPTIONS
    ]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page))
