"""Soaks of the protocol on real Spark: readers bound pages and exchange events, through failures.

The source itself keeps account of its events (tests/audited_source.py): its audit shows every event that is
lost, repeated or out of order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts.class_archive import BRIEF_JVM, java_options
from tests.soak.kill import Soak

QUICK = {"pageMs": "0", "maxRowsPerSplit": "600"}


def audited_soak(
    folder: Path, *, settings: dict[str, Any], quick: dict[str, str] | None = None, **options: str
) -> Soak:
    """Return a soak in ``folder/query``; ``quick`` are the options of its last life."""
    root = folder / "query"
    root.mkdir()
    all_options = {"counters": "8", "rows": "300", "pageMs": "2", "maxRowsPerSplit": "100"} | options
    # Executors in separate JVMs start with the driver's settings.
    all_settings = {"spark.executor.extraJavaOptions": f"{BRIEF_JVM} {java_options()}"} | settings
    return Soak(
        root=root, options=all_options, settings=all_settings, quick=QUICK if quick is None else quick
    )


def assert_exact(soak: Soak) -> None:
    """Assert that every row and every event arrived exactly once, and that there is one audit."""
    outcome = soak.outcome(0)
    assert outcome.is_exact, outcome
    assert outcome.audit.count("notes=") == 1
