"""Answers of commands, and the one place that prints them: rich tables on a terminal, or text, or JSON."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, TypeAlias

import msgspec
from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from flip27_source.errors import Flip27Error
from flip27_source.file_systems.paths import shown_path
from flip27_source.file_systems.secrets_in_texts import Hidden

_STYLES = {
    **dict.fromkeys(("ok", "complete", "readable"), "green"),
    **dict.fromkeys(("warning", "unfinished", "orphan", "returned", "ignored"), "yellow"),
    **dict.fromkeys(("failed", "damaged", "quarantined"), "bold red"),
}

_NOT_FOLDED = 20
"""Cells of up to this number of characters stay on one line: times, numbers, statuses."""
_PADDING = 3
_GAP = "  "
_PIPED_WIDTH = 119
"""The width of tables without a terminal; longer cells are continued on further lines."""
_NOTHING = "-"
"""The text of an unknown value; an empty cell would shift the next ones for programs that split at blanks."""


Hide: TypeAlias = "Callable[[str], str]"
"""Removes secrets from a text."""
Drawing: TypeAlias = "Callable[[Console, Hide], None]"
"""A function that draws on the console; it removes secrets itself, before it breaks lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table for people: column names, and cells of any type; None for unknown values."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a command.

    Attributes:
        data: the machine-readable form for ``--json``; its fields are documented and stable.
        shown: the form for people, on standard output.
        notes: lines for people, on standard error.
        exit_code: 0 if the command succeeded.
    """

    data: Any
    shown: Sequence[str | Table | Drawing]
    notes: Sequence[str] = field(default=())
    exit_code: int = 0


def say_meanwhile(text: str) -> None:
    """Print a line on standard error while a command waits; the line contains no secret."""
    print(text, file=sys.stderr, flush=True)


class Rendering:
    """Prints the results of commands.

    Args:
        out, notes: standard output and standard error.
        as_json: machine-readable form: one JSON value on standard output, and nothing else.
        hidden: removes secrets from all output.
    """

    def __init__(self, out: Console, notes: Console, *, as_json: bool, hidden: Hidden) -> None:
        self._out = out
        self._notes = notes
        self._as_json = as_json
        self._hidden = hidden

    def answer(self, answer: Answer) -> None:
        if self._as_json:
            self._json(answer.data)
            return
        for part in answer.shown:
            if isinstance(part, Table):
                self._table(part)
            elif isinstance(part, str):
                self._line(self._out, part)
            else:
                part(self._out, self._hidden.in_text)
        for note in answer.notes:
            self._line(self._notes, note)

    def error(self, error: Flip27Error) -> None:
        """Print an error: as text on standard error, or as ``{"error": ...}`` with ``--json``."""
        if self._as_json:
            self._json({"error": {"kind": type(error).__name__, "what": error.what, "remedy": error.remedy}})
        else:
            self._line(self._notes, str(error))

    def _json(self, data: Any) -> None:
        plain = self._hidden.in_data(msgspec.to_builtins(data))
        _print(self._out, msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())

    def _line(self, console: Console, text: str) -> None:
        _print(console, printable(self._hidden.in_text(text)))

    def _table(self, table: Table) -> None:
        rows = [[self._hidden.in_text(cell_text(value)) for value in row] for row in table.rows]
        if not self._out.is_terminal:
            lines = [[shown_path(cell) or _NOTHING for cell in line] for line in (table.columns, *rows)]
            widths = _fitting(lines, _PIPED_WIDTH)
            for line in lines:
                folded = [_folded(cell, width) for cell, width in zip(line, widths, strict=True)]
                for parts in zip_longest(*folded, fillvalue=""):
                    cells = zip(parts, widths, strict=True)
                    padded = (part + " " * (width - cell_len(part)) for part, width in cells)
                    _print(self._out, _GAP.join(padded).rstrip())
            return
        rows = [[printable(cell) for cell in row] for row in rows]
        self._out.print(_drawn(table, rows, self._out.width), highlight=False)


def cell_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dt.datetime):
        # In UTC, to the millisecond; options of commands read the text as the same time.
        precision = "milliseconds" if value.microsecond else "seconds"
        return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_STEPS = ((86_400, "d"), (3600, "h"), (60, "min"))
_SMALL = 10


def seconds(value: float | None) -> str:
    """A time span in one or two units: ``45 s``, ``3 min``, ``2 d 4 h``."""
    if value is None:
        return "-"
    for index, (size, unit) in enumerate(_STEPS):
        if value >= size:
            rest, below = int(value % size), _STEPS[index + 1 : index + 2]
            further = f" {rest // below[0][0]} {below[0][1]}" if below and rest >= below[0][0] else ""
            return f"{int(value // size)} {unit}{further}"
    return f"{value:.1f} s" if 0 < value < _SMALL else f"{value:.0f} s"


def ago(now: dt.datetime, then: dt.datetime | None) -> str:
    """When something was, in UTC, and how long ago."""
    return "-" if then is None else f"{then:%Y-%m-%d %H:%M:%S} UTC, {seconds_since(now, then)} ago"


def seconds_since(now: dt.datetime, then: dt.datetime) -> str:
    return seconds(max(0.0, (now - then).total_seconds()))


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _fitting(lines: Sequence[Sequence[str]], most: int) -> list[int]:
    """The widths of the columns of a table that is at most ``most`` wide, if no word is wider.

    A word, such as a path, stays whole, so that it can be copied and searched.
    """
    columns = list(zip(*lines, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    words = [max(cell_len(word) for cell in column for word in cell.split()) for column in columns]
    most -= len(_GAP) * (len(columns) - 1)
    while sum(widths) > most and widths != words:
        widest = max((width, index) for index, width in enumerate(widths) if width > words[index])[1]
        widths[widest] -= 1
    return widths


def _folded(cell: str, width: int) -> list[str]:
    if cell_len(cell) <= width:
        return [cell]
    return [line.plain.rstrip() for line in Text(cell).wrap(Console(width=width), width)]


def _drawn(table: Table, rows: Sequence[Sequence[str]], width: int) -> RenderableType:
    """A table, or a list of the cells of each row if the screen is too narrow for the table."""
    # Columns without values are omitted.
    known = [index for index in range(len(table.columns)) if not rows or any(row[index] for row in rows)]
    names = [name.replace("_", " ") for name in table.columns]
    longest = [max(map(len, (*names[i].split(), *(row[i] for row in rows)))) for i in range(len(names))]
    if sum(min(longest[index], _NOT_FOLDED) + _PADDING for index in known) > width:
        return Group(*(_listed(names, row) for row in rows))
    drawn = RichTable(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for index in known:
        is_number = rows and all(isinstance(row[index], int | float | None) for row in table.rows)
        drawn.add_column(
            names[index],
            justify="right" if is_number else "left",
            overflow="fold",
            min_width=min(longest[index], _NOT_FOLDED),
        )
    for row in rows:
        drawn.add_row(*(_styled(row[index]) for index in known))
    return drawn


def _listed(names: Sequence[str], row: Sequence[str]) -> RenderableType:
    """One row, with a line for each cell."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, cell in zip(names, row, strict=True):
        if cell:
            grid.add_row(name, _styled(cell))
    grid.add_row("")
    return grid


def _styled(cell: str) -> Text:
    return Text(cell, style=_STYLES.get(cell, ""))


def _print(console: Console, text: str) -> None:
    # Not printed by rich, which expands tabs.
    print(text, file=console.file)


def printable(text: str) -> str:
    """A text of several lines with escapes for characters that could control the terminal."""
    return "\n".join("\t".join(map(shown_path, line.split("\t"))) for line in text.split("\n"))
