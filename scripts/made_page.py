"""What the scripts that make a page of docs/ have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path


def write_or_check(file: Path, made: Callable[[str], str]) -> int:
    """Write what ``made`` makes of the file's text ("" where there is none); an exit code.

    With ``--check`` on the command line nothing is written: 0 when the file is as it should be, else 1.
    """
    found = file.read_text(encoding="utf-8") if file.exists() else ""
    wanted = made(found)
    if "--check" in sys.argv:
        return 0 if found == wanted else 1
    file.write_text(wanted, encoding="utf-8")
    return 0
