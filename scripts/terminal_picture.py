"""Runs the demo and writes docs/terminal.svg: what its terminal shows, as a picture.

python -m scripts.terminal_picture     takes about a minute
"""

from __future__ import annotations

import dataclasses
import io
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from flip27_source.cli.demo.display import render
from flip27_source.cli.demo.folder import DemoFolder
from flip27_source.cli.demo.program import DemoSettings, run

PICTURE = Path(__file__).parents[1] / "docs" / "terminal.svg"
COLUMNS = 84


def picture(settings: DemoSettings) -> str:
    """The SVG of one run; the places it shows are those of a user, below the current folder."""
    # Not a terminal: progress bars are then recorded once, as they stand at the end.
    console = Console(record=True, file=io.StringIO(), width=COLUMNS, force_terminal=False)
    console.print("[bold]$ make demo", highlight=False)
    with tempfile.TemporaryDirectory(prefix="flip27-picture-") as parent:
        result = run(dataclasses.replace(settings, parent=Path(parent)), console)
        shown = DemoFolder(DemoSettings().parent / result.folder.root.name)
        render(console, dataclasses.replace(result, folder=shown))
    return without_fonts(console.export_svg(title="flip27", unique_id="demo"))


def without_fonts(svg: str) -> str:
    """The picture without the fonts that it would fetch; the reader's own fixed-width one is used."""
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def main() -> int:
    """Run the demo and write the picture."""
    PICTURE.write_text(picture(DemoSettings()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
