"""The parts of which the generated pictures consist."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape


def svg(width: int, height: int, title: str, style: str, parts: Iterable[str]) -> str:
    """A picture on white; ``style`` is its CSS, and ``parts`` are its elements."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{style}\n</style>",
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"/>'


def text(x: float, y: float, words: str, kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text{of_kind} x="{x:.0f}" y="{y:.0f}">{escape(words)}</text>'
