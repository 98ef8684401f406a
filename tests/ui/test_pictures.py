"""The pictures of the page in docs/ui show the page as it is."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageFilter

from tests.ui.chromium import browser
from tests.ui.pictures import FOLDER, VIEWS, Picture, differences, taken

_MOST_BYTES = 400_000
AGAIN = "if the change is meant, run `python -m scripts.ui_picture` and look at the pictures"


def test_the_pictures_show_the_pages_as_they_are(tmp_path: Path) -> None:
    """One test, so that one browser serves all pictures in ``make test``."""
    wrong: dict[str, list[str]] = {}
    with browser() as chromium:
        for name, now in taken(chromium):
            kept = Picture.kept(name)
            changed = difflib.unified_diff(
                kept.words.splitlines(), now.words.splitlines(), "kept", "now", n=0, lineterm=""
            )
            now.save(tmp_path / f"{name}.png")
            if problems := [*changed, *filter(None, [differences(kept.image, now.image)])]:
                wrong[name] = problems
    assert wrong == {}, f"see {tmp_path}; {AGAIN}"


def test_the_pictures_are_small_and_there_are_no_others() -> None:
    files = list(FOLDER.iterdir())
    assert {file.name for file in files} == {f"{name}.png" for name in VIEWS}
    assert sum(file.stat().st_size for file in files) < _MOST_BYTES


def with_box(image: Image.Image) -> Image.Image:
    image.paste((168, 23, 23), (300, 200, 320, 220))
    return image


@pytest.mark.parametrize(
    ("change", "is_seen"),
    [
        (lambda image: image.filter(ImageFilter.GaussianBlur(0.7)), False),  # letters are drawn otherwise
        (lambda image: ImageChops.offset(image, 1, 0), False),
        (lambda image: ImageChops.offset(image, 0, 12), True),
        (lambda image: image.crop((0, 0, image.width, image.height - 40)), True),
        (with_box, True),
        (lambda image: image.point(lambda value: value - 30 if value > 200 else value), True),
    ],
    ids=["blurred", "moved by a pixel", "moved by a line", "cut", "with a box", "with another background"],
)
def test_what_is_drawn_elsewhere_or_in_another_color_is_seen(change: Any, is_seen: bool) -> None:
    kept = Picture.kept("overview").image
    assert bool(differences(kept, change(kept.copy()))) is is_seen
