"""What is seen of a run that ends before it drives its lineage."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import Flip27Error, IncompatibleStateError
from flip27_source.snapshots.driver_epochs import DriverEpoch
from flip27_source.snapshots.store import LocalStore
from flip27_source.source import Source
from tests.cli.command_line import flip27, two_batches
from tests.snapshots.spark_logs import FileQuery


def shown(query: FileQuery) -> dict[str, Any]:
    (frame,) = flip27("watch", query.checkpoint, "--json").data
    (source,) = (item["source"] for item in flip27("state", "show", query.checkpoint, "--json").data)
    assert (source["driver"], source["error"]) == (frame["condition"], frame["error"])
    return {name: frame[name] for name in ("condition", "driver", "error", "remedy")}


def started(query: FileQuery, at: dict[str, Any], **options: str) -> None:
    holder = CoordinatorHolder(Source.resolve({**query.given, **options}), Boundedness.CONTINUOUS_UNBOUNDED)
    try:
        holder.latest_offset(at, None)
    finally:
        holder.close()


def test_a_query_that_cannot_start_with_its_options_has_failed_and_says_why(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    stopped = shown(query)
    assert (stopped["condition"], stopped["error"]) == ("stopped", None)
    with pytest.raises(IncompatibleStateError):
        started(query, query.at, fileNameOnly="true")
    failed = shown(query)
    assert failed["condition"] == "failed"
    assert failed["error"].startswith("IncompatibleStateError: ")
    assert "restore the old settings" in failed["remedy"]
    started(query, query.at)
    assert shown(query)["condition"] == "stopped"
    assert list(query.checkpoint.glob("flip27/*/drivers/*.failed.json")) == []


def test_a_start_that_fails_beside_a_query_that_runs_says_nothing_of_it(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    (lineage,) = (file.name for file in query.checkpoint.glob("flip27/files-*"))
    store, later_ms = LocalStore(str(query.checkpoint / "flip27")), time.time_ns() // 1_000_000 + 30_000
    running = DriverEpoch(store, lineage, later_ms, at=str(query.at), is_renewed=True)
    with pytest.raises(IncompatibleStateError):
        started(query, query.at, fileNameOnly="true")
    assert shown(query)["condition"] == "running"
    running.end(later_ms + 1)
    assert (shown(query)["condition"], shown(query)["error"]) == ("stopped", None)


@pytest.mark.parametrize("skew_ms", [-3_600_000, 3_600_000])
def test_what_came_last_is_known_whatever_the_clocks_say(tmp_path: Path, skew_ms: int) -> None:
    query = two_batches(tmp_path)
    (lineage,) = (file.name for file in query.checkpoint.glob("flip27/files-*"))
    store, now_ms = LocalStore(str(query.checkpoint / "flip27")), round(time.time() * 1000) + skew_ms
    running = DriverEpoch(store, lineage, now_ms, at=str(query.at), is_renewed=True)
    with pytest.raises(IncompatibleStateError):
        started(query, query.at, fileNameOnly="true")
    running.end(now_ms + 1)
    assert (shown(query)["condition"], shown(query)["error"]) == ("stopped", None)
    with pytest.raises(IncompatibleStateError):
        started(query, query.at, fileNameOnly="true")
    assert shown(query)["condition"] == "failed"


def test_a_start_that_finds_no_state_leaves_none(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    state = query.checkpoint / "flip27"
    state.rename(tmp_path / "moved")
    with pytest.raises(Flip27Error):
        started(query, query.at)
    assert not list(state.glob("*/drivers"))
