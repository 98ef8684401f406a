"""What the scripts that generate a page of docs/ have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path


def write_or_check(file: Path, made: Callable[[str], str]) -> int:
    """Replace the file's text ("" if there is no file) by what ``made`` returns for it; return an exit code.

    With ``--check`` on the command line nothing is written, and the exit code is 1 if the text would change.
    """
    found = file.read_text(encoding="utf-8") if file.exists() else ""
    wanted = made(found)
    if "--check" in sys.argv:
        return 0 if found == wanted else 1
    file.write_text(wanted, encoding="utf-8")
    return 0


def with_part(page: str, name: str, part: str) -> str:
    """The page with ``part`` between its comments ``name: begin`` and ``name: end``."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}{part}{end}{rest.partition(end)[2]}"
