"""Writes docs/ui/*.png: the pages of ``flip27 ui`` over a state that is the same at every run.

python -m scripts.ui_picture     takes seconds, and on first use the time to unpack Chromium

Look at the pictures before you commit them: ``tests/ui/test_pictures.py`` compares the pages with them.
"""

from __future__ import annotations

from tests.ui.chromium import browser
from tests.ui.pictures import FOLDER, taken


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with browser() as chromium:
        for name, picture in taken(chromium):
            picture.save(FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
