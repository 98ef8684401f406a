"""Soaks of the protocol on real Spark: readers bound pages and exchange events, through failures.

The source itself keeps account of its events (tests/audited_source.py): its audit shows every event that is
lost, repeated or out of order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.class_archive import BRIEF_JVM, java_options
from tests.soak.life import DEADLINE_S, Life
from tests.soak.shapes import Count, Places, Talking

# Executors in separate JVMs start with the driver's settings.
SETTINGS = {"spark.executor.extraJavaOptions": f"{BRIEF_JVM} {java_options()}"}


class AuditedSoak:
    """A query that copies the audited source, in a folder."""

    def __init__(self, folder: Path, **options: str) -> None:
        self._folder = folder
        given = {"counters": "8", "rows": "300", "pageMs": "2", "maxRowsPerSplit": "100"} | options
        name = Talking.name
        self.shape = Talking(Places(root=folder / name, state=folder / "state" / name), given)

    @contextmanager
    def life(self, **settings: str) -> Iterator[Life]:
        """A Spark process that runs the query, with these settings after ``spark.``."""
        life = Life.start(
            root=self._folder,
            state=self._folder / "state",
            shapes=[self.shape.name],
            given=self.shape.given,
            settings=SETTINGS | {f"spark.{name}": value for name, value in settings.items()},
        )
        try:
            yield life
        finally:
            life.end()

    def finish(self, **settings: str) -> None:
        """Let the query read to its end."""
        with self.life(**settings) as life:
            assert life.finish(DEADLINE_S), life.ended

    def reported_attempts(self) -> Counter[int]:
        """How many of the valid reports were written by attempts of each number."""
        reports = self._folder.glob("state/**/reports/*.json")
        return Counter(json.loads(p.read_text())["report"]["metrics"]["attempt_number"] for p in reports)

    def assert_exact(self) -> None:
        """Assert that every row and every event arrived exactly once, and that there is one audit."""
        assert_exact(self.shape.count(0))


def assert_exact(count: Count) -> None:
    """Assert that nothing is lost, duplicated or otherwise wrong, and that there are rows."""
    assert (count.lost, count.duplicated, count.complaint) == (0, 0, "")
    assert count.rows > 0
