"""Draws docs/event_time.svg: files on the axis of event time, and the delay between two batches."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.made_page import write_or_check
from scripts.svg import line, svg, text

PICTURE = Path(__file__).parents[1] / "docs" / "event_time.svg"
WIDTH, HEIGHT, LEFT, TOP, STEP, HOUR = 780, 330, 120, 40, 34, 56
FILES = (
    (0, 2, "batch 1"),
    (1, 3, "batch 1"),
    (1, 5, "batch 1"),
    (3, 5, "waits"),
    (4, 7, "waits"),
    (6, 9, "waits"),
)
"""The first and last hour of each file, in the order in which they are read."""
STYLE = """\
text { font-family: Helvetica, Arial, sans-serif; font-size: 13px; fill: #1f2430; }
.small { font-size: 11px; fill: #5b6475; text-anchor: middle; }
.axis { stroke: #b7bdc9; }
.read { fill: #3f51b5; }
.waits { fill: #eef0fb; stroke: #3f51b5; }
.edge { stroke: #c62828; stroke-width: 1.5; stroke-dasharray: 4 4; }
.delay { stroke: #c62828; stroke-width: 2; }"""


def picture() -> str:
    """The whole SVG."""
    taken = [file for file in FILES if file[2] != "waits"]
    latest = max(last for _, last, _ in taken)
    earliest = min(first for first, _, what in FILES if what == "waits")
    bottom = TOP + STEP * len(FILES)
    parts = [
        *(_file(number, file) for number, file in enumerate(FILES)),
        line("edge", x(latest), TOP - 12, x(latest), bottom + 30),
        line("edge", x(earliest), TOP + STEP * len(taken), x(earliest), bottom + 30),
        line("delay", x(earliest), bottom + 30, x(latest), bottom + 30),
        text(x(latest) + 8, bottom + 34, "the smallest delay after batch 1"),
        text(x(latest) + 8, TOP - 4, "the largest time handed out"),
        text(16, bottom + 34, "the smallest that waits"),
        line("axis", LEFT, bottom + 60, WIDTH - 20, bottom + 60),
        *(text(x(hour), bottom + 76, f"{hour}:00", "small") for hour in range(11)),
    ]
    return svg(WIDTH, HEIGHT, "The smallest watermark delay of a backlog", STYLE, parts)


def x(hour: int) -> int:
    return LEFT + HOUR * hour


def _file(number: int, file: tuple[int, int, str]) -> str:
    first, last, what = file
    y = TOP + STEP * number
    kind = "waits" if what == "waits" else "read"
    width = HOUR * (last - first)
    bar = f'<rect class="{kind}" x="{x(first)}" y="{y + 4}" width="{width}" height="20" rx="3"/>'
    return f"{bar}\n{text(16, y + 19, what)}"


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, lambda _: picture()))
