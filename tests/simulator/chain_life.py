"""Chains of sources in a simulation: numbers, then files, then numbers; or an archive and then a log.

Each row must be delivered once.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from typing import Any, ClassVar

from flip27_source import hybrid
from flip27_source.coordination.checkpoints import Snapshot
from flip27_source.enumerators.hybrid.enumerator import HybridEnumerator
from flip27_source.testing.under_test import SourceUnderTest
from tests.timed_lines import TIMED

from .history import History
from .landing import Landing, SimulatedLanding, register_file_system
from .lives import Life
from .ordering import FIRST_DAY, check_told_delay
from .sources import LINE

_READER = "tests.toy_sources:NumbersAsLines"


class ChainLife(Life):
    """Two to four sources; files of a chain are all there when it starts."""

    keeps_data = True
    OPTIONS: ClassVar = {
        "maxFilesPerTrigger": (None, "1", "2"), "maxRowsPerTrigger": (None, "2"),
        "taskReports": (None, "always"), "onSplitError": (None, "quarantine"), "maxSplitAttempts": ("1", "2"),
        "parallelism": (None, "1", "3"), "switchOverlap": (None, "1h"),
    }  # fmt: skip

    def begin(self) -> None:
        draw, of = self.random, self.of
        # Part of the state, and so of its files' names.
        self._now_us = HybridEnumerator.now_us
        HybridEnumerator.now_us = staticmethod(lambda: of.now_ms * 1000)  # type: ignore[method-assign]
        register_file_system()
        self.landings: list[Landing] = []
        self.expected: Counter[str] = Counter()
        self.trouble_bucket()
        # It draws from a generator of its own: seeds without times are the same with and without it.
        self._dates = random.Random(f"chain order {of.outcome.seed}")
        self._is_dated = self._dates.random() < 0.5
        self.history = History(of.outcome.seed)
        if self.history.is_used:
            self._begin_history()
            return
        at, parts = 0, []
        for number in range(draw.randint(2, 4)):
            if draw.random() < 0.4:
                parts.append(self._files(number))
                continue
            count = draw.choice((0, 1, 5, 9))
            numbers = {"start": "{switch}" if parts and parts[-1][0] == "sequence" else at, "end": at + count}
            numbers |= {"numSplits": draw.randint(1, 2), "rowsPerSplit": draw.choice((1, 3))}
            self.expected.update(str(number) for number in range(at, at + count))
            parts.append(("sequence", {**numbers, "reader": _READER}))
            at += count
        self.options = hybrid(*parts, requestInterval="1s") | self.drawn(self.OPTIONS)
        if self._is_dated and any(name == "files" for name, _ in parts):
            self.options |= {"watermarkDelay": self._dates.choice(("0s", "3 days"))}

    def _begin_history(self) -> None:
        contents, files, log = self.history.begin()
        landing = self._landing(0)
        for number, (name, content) in enumerate(contents.items()):
            landing.put(name, content, 1_600_000_000 + number)
        chain = hybrid(("files", {"path": landing.path, **files}), log, requestInterval="1s")
        self.options = chain | self.drawn(self.OPTIONS)

    def _landing(self, number: int) -> Landing:
        landing = SimulatedLanding(self.of.outcome.seed, f"part-{number}", lambda: self.of.outcome.steps)
        landing.trouble = self.random.choice((0.0, 0.02, 0.1))
        self.landings.append(landing)
        return landing

    def _files(self, number: int) -> tuple[str, dict[str, Any]]:
        landing = self._landing(number)
        for file in range(self.random.randint(0, 4)):
            rows = [f"{number}-{file}-{line}" for line in range(self.random.choice((0, 1, 3)))]
            landing.put(
                self._dated(f"{file}"), "".join(f"{row}\n" for row in rows).encode(), 1_600_000_000 + file
            )
            self.expected.update(rows)
        files = {"path": landing.path, "reader": "text", "discoveryRetries": 3}
        if self._is_dated:
            pattern = self._dates.choice(("/%Y-%m-%d_", "/%Y-%m-"))
            files |= {"eventTimeOrder": True, "eventTimePattern": pattern}
        return "files", files

    def _dated(self, name: str) -> str:
        if not self._is_dated:
            return name
        return f"{FIRST_DAY + dt.timedelta(days=self._dates.randrange(90))}_{name}"

    def check_document(self, before: Snapshot[Any] | None, snapshot: Snapshot[Any]) -> None:
        if self.history.is_used:
            return  # what is left to the log waits, and is not read
        kind: Any = self.given().resolve().enumerator_type
        check_told_delay(before, snapshot, kind.splits_in(snapshot.enumerator_state))

    def given(self) -> SourceUnderTest:
        return SourceUnderTest(options=self.options, schema=TIMED if self.history.is_used else LINE)

    def end(self) -> None:
        HybridEnumerator.now_us = staticmethod(self._now_us)  # type: ignore[method-assign]
        self.history.end()

    def calm(self) -> None:
        for landing in self.landings:
            landing.trouble = 0.0

    def check(self) -> None:
        self.of.run_to_the_end()
        self.of.retry_quarantined()
        self.of.run_to_the_end()
        used = self.history.is_used
        self.of.check_rows(self.history.expected(self.of.query.lines) if used else self.expected)
