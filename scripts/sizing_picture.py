"""Draws docs/batch_size.svg: how long batches take on a simulated cluster; with --check, only compares."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from flip27_source.coordination.batch_limits import UNLIMITED, BatchBudget, Limits
from flip27_source.coordination.batch_sizing import BatchSizer
from flip27_source.enumerator import Backlog
from flip27_source.split import SplitSize
from scripts.made_page import write_or_check

PICTURE = Path(__file__).parents[1] / "docs" / "batch_size.svg"

TARGET_S = 30
OVERHEAD_S = 2.0
BATCHES, SLOWER_FROM = 24, 12
SECONDS_PER_FILE = 0.005, 0.015
FIXED_FILES = 2_000

WIDTH, HEIGHT = 720, 300
LEFT, BOTTOM, TOP = 60, 40, 20
LONGEST_S = 90
STYLE = """\
text { font-family: Helvetica, Arial, sans-serif; font-size: 12px; fill: #1f2430; }
.near { fill: #eef0fb; }
.axis { stroke: #b7bdc9; }
.change { stroke: #b7bdc9; stroke-dasharray: 4 4; }
polyline { fill: none; stroke-width: 2; }
.sized { stroke: #3f51b5; fill: #3f51b5; }
.fixed { stroke: #b5651d; fill: #b5651d; stroke-dasharray: 6 4; }
polyline.sized, polyline.fixed { fill: none; }
text.sized, text.fixed { stroke: none; }"""


def durations(sizer: BatchSizer | None) -> list[float]:
    """The seconds that batches take, with the limits of a sizer or with the fixed one."""
    found = []
    for batch in range(BATCHES):
        limits = Limits(files=FIXED_FILES) if sizer is None else sizer.tighten(UNLIMITED)
        files = limits.files or 0
        took_s = OVERHEAD_S + files * SECONDS_PER_FILE[batch >= SLOWER_FROM]
        if sizer is not None:
            budget = BatchBudget(limits)
            budget.take(SplitSize(files=files))
            sizer.planned(budget, Backlog(splits=10**9))
            sizer.completed(round(1000 * took_s), waited=False)
        found.append(took_s)
    return found


def x(batch: int) -> float:
    return LEFT + (WIDTH - LEFT - 20) * batch / (BATCHES - 1)


def y(seconds: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * seconds / LONGEST_S


def picture() -> str:
    """The whole SVG."""
    top, bottom = y(1.3 * TARGET_S), y(0.7 * TARGET_S)
    width, slower = x(BATCHES - 1) - LEFT, x(SLOWER_FROM)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            "<title>The duration of batches with a target and with a fixed limit</title>",
            f"<style>\n{STYLE}\n</style>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            f'<rect class="near" x="{LEFT}" y="{top:.1f}" width="{width:.1f}" height="{bottom - top:.1f}"/>',
            *_axes(),
            f'<line class="change" x1="{slower:.1f}" y1="{TOP}" x2="{slower:.1f}" y2="{y(0):.1f}"/>',
            _text(slower - 205, TOP + 10, "a file takes three times as long"),
            _line("fixed", durations(None)),
            _line("sized", durations(BatchSizer(1000 * TARGET_S, 1000 * TARGET_S))),
            _text(x(4), y(TARGET_S) - 8, f"targetBatchDuration={TARGET_S}s", "sized"),
            _text(x(4), y(12) - 8, f"maxFilesPerTrigger={FIXED_FILES}", "fixed"),
            "</svg>",
            "",
        ]
    )


def _axes() -> list[str]:
    lines = [f'<line class="axis" x1="{LEFT}" y1="{y(0):.1f}" x2="{x(BATCHES - 1):.1f}" y2="{y(0):.1f}"/>']
    seconds = [_text(LEFT - 36, y(at) + 4, f"{at} s") for at in range(0, LONGEST_S + 1, 30)]
    batches = [_text(x(at) - 4, HEIGHT - 20, str(at + 1)) for at in range(0, BATCHES, 4)]
    return [*lines, *seconds, *batches, _text(x(BATCHES // 2) - 20, HEIGHT - 4, "batch")]


def _line(kind: str, seconds: Sequence[float]) -> str:
    points = " ".join(f"{x(batch):.1f},{y(took):.1f}" for batch, took in enumerate(seconds))
    return f'<polyline class="{kind}" points="{points}"/>'


def _text(left: float, baseline: float, text: str, kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text{of_kind} x="{left:.1f}" y="{baseline:.1f}">{text}</text>'


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, lambda _: picture()))
