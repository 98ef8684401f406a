"""Writes docs/options.md from the option tables of the code; with --check, only compares."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from flip27_source.options import Option
from flip27_source.registry import ENUMERATOR_GROUP, READER_GROUP, find_enumerator, find_reader, known_names
from flip27_source.source_options import (
    ACTION_OPTIONS,
    CORE_OPTIONS,
    FOUND_SCHEMA_OPTIONS,
    READER_BOUNDED_OPTIONS,
)
from scripts.made_page import write_or_check

NEEDED_BY_ALL = (
    "enumerator", "reader", "path", "stateLocation", "uid", "maxFilesPerTrigger", "maxRowsPerTrigger",
    "availableNow", "onSplitError", "onDataLoss",
)  # fmt: skip
"""Options of every source that everybody should know; the page lists them first and shows them in bold."""

PAGE = Path(__file__).parents[1] / "docs" / "options.md"

INTRODUCTION = """\
# Options

Most queries need only [the ten to know](#the-ten-to-know), which are in bold in the tables, and the few that
say where the data is: `subscribe` of Kafka, `tables` of PostgreSQL, `cursorColumns` of SQL. The page of each
source begins with them.

This page is generated from the code (`python -m scripts.options_table`). Names are matched without regard to
case. Sizes are written as `1048576`, `64m`, `10g`; durations as `10 seconds`, `1h`, `500ms`. An option that
no part of the source knows is refused, with the nearest known name.

The column *changed at a restart* says what another value does when a query with a checkpoint is restarted:

- *refused: fixed at the first start*: the option is only looked at when the query has no checkpoint yet.
- *refused*: the state belongs to the value.
- *no effect after the first start*: the option is ignored once the query has a checkpoint.
- *from the next batch on*: a batch that was planned and not completed is repeated as it was planned.
- *the pending batch too*: that batch is read again with the new value, unless the column says something else.
  What tasks have reported about it before stays.

Everything that starts with `storage.` goes to the file system of `path` and `stateLocation` (fsspec), for
example `storage.key`, `storage.secret`, `storage.client_kwargs` (JSON). It is never stored or shown.
`enumerator.` and `reader.` are free for enumerators and readers of your own.
"""


def page() -> str:
    """The whole page."""
    sections = [_section(title, options) for title, options in tables()]
    return "\n".join([INTRODUCTION, _first_ones(), *sections])


def _first_ones() -> str:
    core = {option.name: option for option in CORE_OPTIONS}
    rows = [f"| **`{name}`** | {core[name].doc} |".replace("\n", " ") for name in NEEDED_BY_ALL]
    return "\n".join(["## The ten to know", "", "| option | meaning |", "|---|---|", *rows, ""])


def tables() -> Iterator[tuple[str, Iterable[Option[Any]]]]:
    """The titles and options of the page's sections."""
    yield "Every source", CORE_OPTIONS
    yield "Every source whose reader yields `Progress`", READER_BOUNDED_OPTIONS
    yield "Every source whose enumerator performs actions", ACTION_OPTIONS
    yield "Every source of your own that finds out its schema", FOUND_SCHEMA_OPTIONS
    for name in known_names(ENUMERATOR_GROUP):
        yield f"Enumerator `{name}`", find_enumerator(name).options
    for name in known_names(READER_GROUP):
        yield f"Reader `{name}`", find_reader(name).options


def _section(title: str, options: Iterable[Option[Any]]) -> str:
    rows = [_row(option) for option in options]
    if not rows:
        return f"## {title}\n\nNo options of its own.\n"
    table = "\n".join(["| option | default | changed at a restart | meaning |", "|---|---|---|---|", *rows])
    return f"## {title}\n\n{table}\n"


def _row(option: Option[Any]) -> str:
    default = option.default_text
    if default is None:
        default = "none" if option.default is None else f"`{_shown(option.default)}`"
    changed = "" if option.changes is None else option.changes.value
    changed += "" if option.change_note is None else f": {option.change_note}"
    name = f"**`{option.name}`**" if option.name in NEEDED_BY_ALL else f"`{option.name}`"
    return f"| {name} | {default} | {changed} | {option.doc} |".replace("\n", " ")


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, lambda _: page()))
