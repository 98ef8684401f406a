"""Draws docs/replay.svg: which event times a replay has handed out when; with --check, only compares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from flip27_source.coordination.horizon import Reach
from flip27_source.coordination.replay import Replay
from scripts.made_page import write_or_check
from scripts.svg import line, svg, text

PICTURE = Path(__file__).parents[1] / "docs" / "replay.svg"

HOUR_MS, HOUR_US = 3_600_000, 3_600_000_000
SPEED = 6
FIRST_H, GAP_H, LAST_H = -24.0, (-15.0, -9.0), 8.0
"""Event times in hours; the query is started at hour 0."""
RUNS_H = (0.0, 3.0), (4.0, LAST_H)
"""From when to when the query runs."""
STEPS_PER_H = 60

WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM, TOP = 760, 400, 70, 30, 50, 20
STYLE = """\
text { font-family: Helvetica, Arial, sans-serif; font-size: 12px; fill: #1f2430; }
.small { font-size: 11px; fill: #5b6475; text-anchor: end; }
.axis { stroke: #b7bdc9; }
.down { fill: #f3f4f7; }
.gap { fill: #fbf1e6; }
.present { stroke: #b5651d; stroke-width: 1.5; stroke-dasharray: 6 4; }
polyline { fill: none; stroke: #3f51b5; stroke-width: 2.5; stroke-linejoin: round; }"""


def records_h() -> list[float]:
    """The event times of all records: one every six minutes, except in the gap."""
    count = round((LAST_H - FIRST_H) * 10)
    times = (FIRST_H + number / 10 for number in range(count + 1))
    return [time for time in times if not GAP_H[0] < time < GAP_H[1]]


def handed_out() -> Iterator[list[tuple[float, float]]]:
    """For each run: the time of the clock, and the largest event time that was handed out."""
    times, place = records_h(), 0
    for start_h, end_h in RUNS_H:
        replay = Replay(SPEED, (round(start_h * HOUR_MS), round(start_h * HOUR_US)))
        points = []
        for step in range(round((end_h - start_h) * STEPS_PER_H) + 1):
            now_h = start_h + step / STEPS_PER_H
            waits = Reach(waits_us=round(times[place] * HOUR_US) if place < len(times) else None)
            horizon = replay.horizon(waits, round(now_h * HOUR_MS))
            latest_h = now_h if horizon is None else horizon.latest_us / HOUR_US
            while place < len(times) and times[place] <= min(latest_h, now_h) + 1e-9:
                place += 1
            points.append((now_h, times[max(0, place - 1)]))
        yield points


def x(now_h: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * now_h / LAST_H


def y(event_h: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (event_h - FIRST_H) / (LAST_H - FIRST_H)


def box(kind: str, left: float, top: float, right: float, bottom: float) -> str:
    size = f'width="{right - left:.0f}" height="{bottom - top:.0f}"'
    return f'<rect class="{kind}" x="{left:.0f}" y="{top:.0f}" {size}/>'


def picture() -> str:
    """The whole SVG."""
    runs = list(handed_out())
    (_, stopped_h), (started_h, _) = RUNS_H
    lines = (" ".join(f"{x(now):.1f},{y(event):.1f}" for now, event in points) for points in runs)
    caught_up_h = next(now for now, event in runs[-1] if event > now - 0.2)
    parts = [
        box("gap", x(0), y(GAP_H[1]), x(LAST_H), y(GAP_H[0])),
        box("down", x(stopped_h), y(LAST_H), x(started_h), y(FIRST_H)),
        line("axis", x(0), y(FIRST_H), x(LAST_H), y(FIRST_H)),
        line("axis", x(0), y(LAST_H), x(0), y(FIRST_H)),
        line("present", x(0), y(0), x(LAST_H), y(LAST_H)),
        *(f'<polyline points="{points}"/>' for points in lines),
        *(text(x(hour) + 4, y(FIRST_H) + 18, str(hour), "small") for hour in range(int(LAST_H) + 1)),
        *(text(x(0) - 8, y(hour) + 4, f"{hour:+d}" if hour else "0", "small") for hour in range(-24, 9, 4)),
        text(x(0), HEIGHT - 10, "hours since the first start of the query"),
        text(x(0) + 8, y(LAST_H) + 12, "event time, in hours from that start"),
        text(x(0) + 8, y(0) - 10, "the present"),
        text(x(LAST_H) - 150, y(GAP_H[0]) - 8, "a gap in the data"),
        text(x(stopped_h) + 4, y(FIRST_H) - 8, "stopped"),
        text(x(caught_up_h) + 8, y(caught_up_h) + 26, "caught up: live"),
    ]
    return svg(WIDTH, HEIGHT, f"A replay of {SPEED} times the speed", STYLE, parts)


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, lambda _: picture()))
