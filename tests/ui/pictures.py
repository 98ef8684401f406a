"""Pictures of the page over a literal state, in docs/ui: what they show, and how two of them are compared.

How letters are drawn depends on the release of Chromium, a little. So what must be equal are the texts of a
page, with the color and the weight of each; and within a tolerance its height, and the mean colors
of blocks of 16 by 16 pixels.
"""

from __future__ import annotations

import datetime as dt
import io
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, PngImagePlugin

from flip27_source.cli.state.rows import Place
from flip27_source.cli.ui.pages import Pages
from flip27_source.cli.ui.sources import Sources
from tests.ui.literal_queries import NOW, literal_queries
from tests.ui.served import as_it_is, served

FOLDER = Path(__file__).parents[2] / "docs" / "ui"
_WORDS = "Words"
"""The text chunk of a kept picture with what must be equal."""
_COLORS = 128
_BLOCK = 16
_TOLERANCE = 24
"""Of 255, for the mean of a block."""
_RAGGED = 8
"""Pixels by which the heights of two pictures may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a picture shows.

    Attributes:
        uid, path: a source, and its page; None for that of all sources.
        height: how much of the page; None for the whole.
    """

    uid: str | None = None
    path: str = ""
    width: int = 1000
    height: int | None = None
    scheme: str = "light"


VIEWS = {
    "overview": View(height=740),
    "overview-dark": View(height=740, scheme="dark"),
    "phone": View(width=390, height=844),
    "batches": View(uid="clicks", path="batches"),
    "batch": View(uid="trips", path="batch"),
    "progress": View(uid="trips", path="progress"),
    "splits": View(uid="orders", path="splits?name=order-04"),
    "quarantine": View(uid="orders", path="quarantine"),
    "checkpoints": View(uid="orders", path="checkpoints"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One page. Attributes: words: its texts with their colors, a line each."""

    image: Image.Image
    words: str

    def save(self, file: Path) -> None:
        about = PngImagePlugin.PngInfo()
        about.add_text(_WORDS, self.words, zip=True)
        self.image.quantize(_COLORS, dither=Image.Dither.NONE).save(file, optimize=True, pnginfo=about)

    @classmethod
    def kept(cls, name: str) -> Picture:
        image = Image.open(FOLDER / f"{name}.png")
        return cls(image=image.convert("RGB"), words=image.info[_WORDS])


def taken(chromium: Any) -> Iterator[tuple[str, Picture]]:
    """The pictures, by name."""
    with tempfile.TemporaryDirectory() as folder, literal_queries(Path(folder)) as (places, everywhere):
        sources = Sources([Place(location=str(at)) for at in places])
        with served(_Pages(sources, as_it_is, 1000.0, everywhere), now=_now) as site:
            for name, view in VIEWS.items():
                size = {"width": view.width, "height": view.height or 600}
                context = chromium.new_context(viewport=size, color_scheme=view.scheme)
                page = context.new_page()
                page.goto(site.url)
                if view.uid is not None:
                    page.goto(_url(page, view))
                shot = page.screenshot(full_page=view.height is None, animations="disabled", caret="hide")
                image = Image.open(io.BytesIO(shot)).convert("RGB")
                yield name, Picture(image=image, words=page.evaluate(_WORDS_OF_PAGE))
                context.close()


class _Pages(Pages):
    """Pages whose texts are the same everywhere."""

    def __init__(self, *given: Any) -> None:
        *given, self._everywhere = given
        super().__init__(*given)

    def render(self, template: str, **context: Any) -> str:
        return self._everywhere(super().render(template, **context))


def _now() -> dt.datetime:
    return NOW


def _url(page: Any, view: View) -> str:
    link = page.get_by_role("link", name=f"{view.uid}-").first
    root = link.evaluate("link => link.href").removesuffix("/batches")
    if view.path != "batch":
        return f"{root}/{view.path}"
    page.goto(f"{root}/batches")
    return str(page.locator("td a[href*='/batch?']").first.evaluate("link => link.href"))


_WORDS_OF_PAGE = """() => {
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.replace(/\\s+/g, " ").trim();
    const element = walker.currentNode.parentElement;
    const style = getComputedStyle(element);
    if (text && element.checkVisibility())
      found.push([element.tagName.toLowerCase(), style.color, style.fontWeight, text].join(" "));
  }
  return found.join("\\n");
}"""


def differences(kept: Image.Image, shot: Image.Image) -> str:
    """How the pixels of two pictures differ; empty if they do not, within the tolerance."""
    if kept.width != shot.width or abs(kept.height - shot.height) > _RAGGED:
        return f"it is {shot.width} by {shot.height} pixels, and was {kept.width} by {kept.height}"
    height = min(kept.height, shot.height)
    apart = np.abs(_blocks(kept, height) - _blocks(shot, height)).max(axis=2)
    y, x = np.unravel_index(apart.argmax(), apart.shape)
    if apart.max() <= _TOLERANCE:
        return ""
    return (
        f"{int((apart > _TOLERANCE).sum())} of {apart.size} blocks differ, most (by {apart.max():.0f}) "
        f"that at x={x * _BLOCK}, y={y * _BLOCK}"
    )


def _blocks(image: Image.Image, height: int) -> Any:
    """The mean colors of the blocks."""
    rows, columns = height // _BLOCK, image.width // _BLOCK
    pixels = np.asarray(image, dtype=float)[: rows * _BLOCK, : columns * _BLOCK]
    return pixels.reshape(rows, _BLOCK, columns, _BLOCK, 3).mean(axis=(1, 3))
