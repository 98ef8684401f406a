"""Runs the demo and writes docs/terminal.svg: a picture of what its terminal shows.

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

from flip27_source.cli.demo.command import DemoSettings, run
from flip27_source.cli.demo.display import render
from flip27_source.cli.demo.folder import DemoFolder

PICTURE = Path(__file__).parents[1] / "docs" / "terminal.svg"
COLUMNS = 84


def picture(settings: DemoSettings) -> str:
    """The SVG of one run. Its paths are those that a user sees, below the current folder."""
    # Not a terminal, so that progress bars are recorded only once, in their final state.
    console = Console(record=True, file=io.StringIO(), width=COLUMNS, force_terminal=False)
    console.print("[bold]$ make demo", highlight=False)
    with tempfile.TemporaryDirectory(prefix="flip27-picture-") as parent:
        result = run(dataclasses.replace(settings, parent=Path(parent)), console)
        shown = DemoFolder(DemoSettings().parent / result.folder.root.name)
        render(console, str, result=dataclasses.replace(result, folder=shown))
    return without_fonts(console.export_svg(title="flip27", unique_id="demo"))


def without_fonts(svg: str) -> str:
    """The picture without the fonts that it would fetch; a browser then uses its own fixed-width font."""
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def main() -> int:
    """Run the demo and write the picture."""
    PICTURE.write_text(picture(DemoSettings()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
