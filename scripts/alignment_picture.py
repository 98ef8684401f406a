"""Draws docs/alignment.svg: how far two topics are read, with and without maxEventTimeDrift."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flip27_source import (
    Boundedness,
    BoundedRange,
    Budget,
    FollowsEventTime,
    Options,
    SplitEnumerator,
    SplitSize,
)
from flip27_source.coordination.batch_limits import Limits
from flip27_source.coordination.checkpoints import CheckpointMetadata
from flip27_source.coordination.context import CoordinatorSettings
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.driver.background import BackgroundRunner
from flip27_source.readers.sequence import SequenceReader
from flip27_source.source_options import CORE_OPTIONS
from scripts.made_page import write_or_check
from scripts.svg import line, svg, text

PICTURE = Path(__file__).parents[1] / "docs" / "alignment.svg"
HOURS, ROWS_PER_BATCH, BATCHES = 8, 240, 23
ROWS_PER_MINUTE = {"orders": 10, "payments": 1}
DRIFT = "30 minutes"
MINUTE_US = 60_000_000

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 320, 60, 44, 30
STYLE = """\
text { font-family: Helvetica, Arial, sans-serif; font-size: 12px; fill: #1f2430; }
.axis { stroke: #b7bdc9; }
polyline { fill: none; stroke-width: 2; }
polyline.aligned { stroke: #3f51b5; }
polyline.free { stroke: #b5651d; stroke-dasharray: 6 4; }
text.aligned { fill: #3f51b5; }
text.free { fill: #b5651d; }"""


@dataclass(frozen=True, kw_only=True)
class Topic:
    """Rows ``next`` to ``end`` of a topic; ``end`` is None until a batch reads them."""

    split_id: str
    next: int = 0
    end: int | None = None

    @property
    def size(self) -> SplitSize:
        return SplitSize(files=0, rows=None if self.end is None else self.end - self.next)


class Topics(FollowsEventTime[Topic], SplitEnumerator[Topic]):
    """Two topics with the same hours of data, and different numbers of rows in them."""

    def __init__(self, context: Any, options: Options, state: bool | None = None) -> None:
        super().__init__(context, options, state)
        self._names = list(ROWS_PER_MINUTE)

    def start(self) -> None: ...

    def handle_split_request(self, subtask_id: int) -> None:
        if self._names:
            self.context.assign_split(Topic(split_id=self._names.pop()))

    def add_splits_back(self, splits: Sequence[Topic], subtask_id: int) -> None: ...

    def snapshot_state(self, checkpoint_id: int) -> bool:
        return True

    def bound_split(self, split: Topic, budget: Budget) -> BoundedRange[Topic] | None:
        per_minute = ROWS_PER_MINUTE[split.split_id]
        ends = [HOURS * 60 * per_minute]
        if budget.rows is not None:
            ends.append(split.next + budget.rows)
        if budget.latest_us is not None:
            ends.append(budget.latest_us * per_minute // MINUTE_US + 1)
        end = min(ends)
        if end <= split.next:
            return None
        return BoundedRange(read=replace(split, end=end), rest=replace(split, next=end))

    def event_time_at(self, split: Topic) -> int:
        return split.next * MINUTE_US // ROWS_PER_MINUTE[split.split_id]


def courses(options: dict[str, str]) -> dict[str, list[float]]:
    """The event time, in hours, that each topic has reached after each batch."""
    settings = CoordinatorSettings(
        boundedness=Boundedness.BOUNDED,
        parallelism=1,
        max_partition_bytes=None,
        reader_type=SequenceReader,
        options=Options.parse(options, CORE_OPTIONS),
    )
    coordinator: SourceCoordinator[Topic] = SourceCoordinator(Topics, settings, BackgroundRunner())
    coordinator.start()
    live: dict[str, Topic] = {}
    found: dict[str, list[float]] = {name: [0.0] for name in ROWS_PER_MINUTE}
    for number in range(1, BATCHES + 1):
        metadata = CheckpointMetadata(checkpoint_id=coordinator.last_checkpoint_id + 1, timestamp_ms=0)
        pending = coordinator.checkpoint(metadata, Limits(rows=ROWS_PER_BATCH))
        if pending is not None:
            coordinator.complete(number)
            live = {split.split_id: split for split in pending.snapshot.ledger.live}
        for name, course in found.items():
            course.append(live[name].next / ROWS_PER_MINUTE[name] / 60)
    return found


def x(batch: int) -> float:
    return LEFT + (WIDTH - LEFT - 20) * batch / BATCHES


def y(hours: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * hours / HOURS


def picture() -> str:
    """The whole SVG."""
    free, aligned = courses({}), courses({"maxEventTimeDrift": DRIFT})
    parts = [
        line("axis", LEFT, y(0), x(BATCHES), y(0)),
        *(text(LEFT - 40, y(at) + 4, f"{at} h") for at in range(0, HOURS + 1, 2)),
        *(text(x(at) - 4, HEIGHT - 24, str(at)) for at in range(0, BATCHES, 4)),
        text(x(BATCHES // 2) - 20, HEIGHT - 6, "batch"),
        *(_course("free", course) for course in free.values()),
        *(_course("aligned", course) for course in aligned.values()),
        text(x(5), y(HOURS) - 8, "payments, ten times as far: the join keeps its rows", "free"),
        text(x(11), y(1.6) + 4, "orders", "free"),
        text(x(6), y(4.2), f"both, with maxEventTimeDrift={DRIFT}", "aligned"),
    ]
    return svg(WIDTH, HEIGHT, "How far in event time two topics are read", STYLE, parts)


def _course(kind: str, hours: Sequence[float]) -> str:
    points = " ".join(f"{x(batch):.0f},{y(at):.0f}" for batch, at in enumerate(hours))
    return f'<polyline class="{kind}" points="{points}"/>'


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, lambda _: picture()))
