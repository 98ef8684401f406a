"""Draws docs/batch.svg: the course of one batch, as a sequence diagram; with --check, only compares."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from scripts.made_page import write_or_check
from scripts.svg import line, svg, text

PICTURE = Path(__file__).parents[1] / "docs" / "batch.svg"

ACTORS = {
    "Spark": ("Spark", "driver, JVM"),
    "coordinator": ("coordinator", "driver, Python: your enumerator"),
    "state": ("state location", "any file system"),
    "tasks": ("tasks", "executors, Python: your reader"),
}
FIRST_X, BETWEEN = 110, 250
TOP, STEP, HEAD = 70, 40, 52
STYLE = """\
text { font-family: Helvetica, Arial, sans-serif; font-size: 13px; fill: #1f2430; text-anchor: middle; }
.name { font-size: 15px; font-weight: bold; }
.where { font-size: 11px; fill: #5b6475; }
.life { stroke: #b7bdc9; stroke-dasharray: 4 4; }
.call { stroke: #3f51b5; stroke-width: 1.5; marker-end: url(#tip); }
.answer { stroke: #3f51b5; stroke-width: 1.5; stroke-dasharray: 6 4; marker-end: url(#tip); }
.box { fill: #eef0fb; stroke: #3f51b5; }
.note { fill: #fff7e0; stroke: #e0b64a; }"""

ARROW_TIP = """\
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0 L8 4 L0 8 z" fill="#3f51b5"/></marker></defs>"""


@dataclass(frozen=True)
class Arrow:
    """A call, or the answer to one."""

    start: str
    end: str
    text: str
    answers: bool = False


@dataclass(frozen=True)
class Note:
    """A step that an actor takes without a call."""

    actor: str
    text: str


BATCH: tuple[Arrow | Note, ...] = (
    Arrow("Spark", "coordinator", "latestOffset(start = n-1)"),
    Arrow("coordinator", "state", "read the reports of n-1"),
    Note("coordinator", "takes them in, takes what was discovered, plans, freezes"),
    Arrow("coordinator", "state", "write document n"),
    Arrow("coordinator", "Spark", "offset n", answers=True),
    Note("Spark", "offset log: n will be run"),
    Arrow("Spark", "coordinator", "commit(n-1), partitions(n-1, n)"),
    Arrow("coordinator", "Spark", "the plan, out of document n", answers=True),
    Arrow("Spark", "tasks", "run"),
    Arrow("tasks", "state", "is there a report of mine?"),
    Note("tasks", "read the splits, cut at a Progress"),
    Arrow("tasks", "state", "create the report, if needed"),
    Arrow("tasks", "Spark", "rows", answers=True),
    Note("Spark", "sink, commit log: n is complete"),
)


def x(actor: str) -> int:
    """The middle of an actor's column."""
    return FIRST_X + BETWEEN * list(ACTORS).index(actor)


def picture() -> str:
    """The whole SVG."""
    width = 2 * FIRST_X + BETWEEN * (len(ACTORS) - 1)
    height = TOP + HEAD + STEP * len(BATCH)
    steps = [_drawn(step, TOP + HEAD + STEP * number) for number, step in enumerate(BATCH)]
    parts = [ARROW_TIP, *(_column(actor, height) for actor in ACTORS), *steps]
    return svg(width, height, "The course of one batch", STYLE, parts)


def _column(actor: str, height: int) -> str:
    name, where = ACTORS[actor]
    middle = x(actor)
    return "\n".join(
        [
            line("life", middle, TOP, middle, height - 10),
            f'<rect class="box" x="{middle - 95}" y="18" width="190" height="{HEAD}" rx="6"/>',
            text(middle, 40, name, "name"),
            text(middle, 58, where, "where"),
        ]
    )


def _drawn(step: Arrow | Note, y: int) -> str:
    if isinstance(step, Note):
        width = 7 * len(step.text) + 20
        left = max(6, x(step.actor) - width // 2)
        left = min(left, 2 * FIRST_X + BETWEEN * (len(ACTORS) - 1) - width - 6)
        return f'<rect class="note" x="{left}" y="{y - 19}" width="{width}" height="26" rx="4"/>\n' + text(
            left + width // 2, y - 1, step.text
        )
    kind = "answer" if step.answers else "call"
    middle = (x(step.start) + x(step.end)) // 2
    return f"{line(kind, x(step.start), y, x(step.end), y)}\n{text(middle, y - 6, step.text)}"


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, lambda _: picture()))
