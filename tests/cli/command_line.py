"""Commands run as a user runs them, and queries on disk to run them on."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flip27_source.cli.main import main
from tests.snapshots.spark_logs import FileQuery


@dataclass(frozen=True)
class Said:
    """The output of a command, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[list[str]]:
        """The cells of a table that was not printed on a terminal; "-" stands for an unknown value."""
        return cells_of(self.out)


def flip27(*words: str | Path) -> Said:
    """Run ``flip27`` with the given arguments."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    return Said(code, out.getvalue(), err.getvalue())


def cells_of(table: str) -> list[list[str]]:
    """The cells of a printed table; a cell that is continued on further lines is one cell."""
    rows: list[list[str]] = []
    starts: dict[int, int] = {}
    for line in table.splitlines():
        cells = {found.start(): found.group() for found in re.finditer(r"\S+( \S+)*", line)}
        if line.startswith(" "):
            for start, text in cells.items():
                rows[-1][starts[start]] += f" {text}"
        else:
            rows.append(list(cells.values()))
            starts = starts or {start: number for number, start in enumerate(cells)}
    return rows


def storage(options: Mapping[str, object]) -> list[str]:
    """The words that pass these storage options to a command."""
    return [word for name, value in options.items() for word in ("--storage", f"{name}={value}")]


def two_batches(root: Path) -> FileQuery:
    """Make a query: batch 0 (a.txt, b.txt) and batch 1 (c.txt) are committed."""
    query = FileQuery(root)
    query.land("a.txt", "b.txt")
    query.batch(now_ms=1_000)
    query.land("c.txt")
    query.batch(now_ms=3_000)
    return query


def three_batches(root: Path) -> FileQuery:
    """Make a query: batch 0 (a.txt, b.txt) and batch 1 (c.txt) are committed, batch 2 (d.txt) is not."""
    query = two_batches(root)
    query.land("d.txt")
    query.batch(now_ms=7_000, committed=False)
    return query
