"""``flip27 watch`` and the metrics show the same numbers of a query."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from flip27_source.cli.state.rows import Place
from flip27_source.cli.watch.view import Watcher
from flip27_source.metrics import QueryMetrics
from flip27_source.testing import MicroBatchEngine
from tests.metrics.events import FIRST

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def test_watch_shows_the_numbers_that_are_exported(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    for name in "abcde":
        (landing / name).write_text("1\n")
    options = {"enumerator": "files", "reader": "text", "path": str(landing), "maxFilesPerTrigger": "2"}
    engine = MicroBatchEngine(options | {"stateLocation": str(tmp_path / "state")})
    batch = engine.run_batch()
    assert batch is not None

    now = EPOCH + dt.timedelta(seconds=7)
    metrics = QueryMetrics(now=lambda: now)
    source = {"startOffset": None, "endOffset": batch.end, "latestOffset": engine.holder.report()}
    metrics.progressed(FIRST | {"timestamp": EPOCH.isoformat(), "sources": [source]})
    exported = {(sample.metric.name, *sample.labels[2:]): sample.value for sample in metrics.samples()}

    (frame,) = Watcher(place=Place(location=str(tmp_path / "state"))).frames(now)
    assert (frame.backlog, frame.finished, frame.lag_s) == (3, 2, 7.0)
    assert {
        ("flip27_checkpoint_id",): frame.checkpoint_id,
        ("flip27_backlog_splits",): frame.backlog,
        ("flip27_lag_seconds",): frame.lag_s,
        ("flip27_splits", "live"): frame.live,
        ("flip27_splits", "finished"): frame.finished,
        ("flip27_splits", "quarantined"): frame.quarantined,
    }.items() <= exported.items()
