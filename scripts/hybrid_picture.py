"""Draws docs/hybrid.svg: the batches of a chain on the axis of event time, and the overlap at the switch."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.made_page import write_or_check
from scripts.svg import line, svg, text

PICTURE = Path(__file__).parents[1] / "docs" / "hybrid.svg"
WIDTH, HEIGHT, LEFT, TOP, STEP, HOUR = 780, 300, 90, 52, 44, 66
SWITCH, START = 5, 4
BATCHES = (
    ("file", ((0, 1), (1, 2), (2, 3))),
    ("file", ((3, 4), (4, SWITCH))),
    ("topic", ((START, 7),)),
    ("topic", ((7, 10),)),
)
"""What each batch reads, by the event times of its rows."""
STYLE = """\
text { font-family: Helvetica, Arial, sans-serif; font-size: 13px; fill: #1f2430; }
.small { font-size: 11px; fill: #5b6475; }
.axis { stroke: #b7bdc9; }
.file { fill: #3f51b5; }
.topic { fill: #ef8e19; }
.overlap { fill: #fbe3e3; }
.edge { stroke: #c62828; stroke-width: 1.5; stroke-dasharray: 4 4; }
.delay { stroke: #c62828; stroke-width: 2; }"""


def picture() -> str:
    """The whole SVG."""
    bottom = TOP + STEP * len(BATCHES)
    overlap = f'<rect class="overlap" x="{x(START)}" y="{TOP}" width="{HOUR}" height="{bottom - TOP}"/>'
    parts = [
        overlap,
        *(_batch(number, *batch) for number, batch in enumerate(BATCHES)),
        line("edge", x(SWITCH), TOP - 14, x(SWITCH), bottom + 20),
        line("edge", x(START), TOP + STEP, x(START), bottom + 20),
        line("delay", x(START), bottom + 20, x(SWITCH), bottom + 20),
        text(x(SWITCH) + 8, TOP - 6, "the switch: the largest time in the files"),
        text(x(SWITCH) + 8, bottom + 24, "switchOverlap: read from both"),
        text(x(SWITCH) + 8, TOP + 19, "files, in the order of their times", "small"),
        text(LEFT, TOP + 2 * STEP + 17, "its checkpoint has the switch,", "small"),
        text(LEFT, TOP + 2 * STEP + 31, "and the first offsets of the topic", "small"),
        line("axis", LEFT, bottom + 48, WIDTH - 24, bottom + 48),
        text(LEFT, bottom + 64, "event time", "small"),
    ]
    return svg(WIDTH, HEIGHT, "A chain of files and a topic, and its switch", STYLE, parts)


def x(hour: int) -> int:
    return LEFT + HOUR * hour


def _batch(number: int, kind: str, spans: tuple[tuple[int, int], ...]) -> str:
    y = TOP + STEP * number
    bars = [
        f'<rect class="{kind}" x="{x(first) + 1}" y="{y + 8}" width="{HOUR * (last - first) - 2}" '
        'height="24" rx="3"/>'
        for first, last in spans
    ]
    return "\n".join([*bars, text(16, y + 25, f"batch {number + 1}")])


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, lambda _: picture()))
