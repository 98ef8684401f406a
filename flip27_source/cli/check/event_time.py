"""The finding on the watermark that a backlog of files needs, if it is read in event-time order."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

from flip27_source.coordination.checkpoints import Snapshot
from flip27_source.coordination.context import CoordinatorSettings
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.event_time_order import smallest_delay_ms
from flip27_source.coordination.subtask_reports import ReportDemand
from flip27_source.driver.background import BackgroundRunner
from flip27_source.enumerator import SplitEnumerator
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.options import DISCOVERY
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.event_time import event_time_of
from flip27_source.source import Source
from flip27_source.source_checks import Finding, ok, warning
from flip27_source.source_options import WATERMARK_DELAY

CHECK = "event time"


def backlog_in_order(source: Source) -> Finding:
    """List all files as a first start does, and find the smallest watermark delay that loses nothing."""
    splits = _splits(source)
    files = len({split.path for split in splits})
    times = [one for one in map(event_time_of, splits) if one is not None]
    if not times:
        return ok(CHECK, f"none of {files} files has rows with an event time")
    needed_s = smallest_delay_ms(splits, source.options) / 1000
    earliest = _text(min(one.earliest_us for one in times))
    latest = _text(max(one.latest_us for one in times))
    found = (
        f"a watermark delay of {needed_s:g} s loses nothing of {files} files, whose times are from "
        f"{earliest} to {latest}"
    )
    delay_s = source.options[WATERMARK_DELAY]
    if delay_s is None or delay_s >= needed_s:
        return ok(CHECK, found)
    return warning(
        CHECK,
        f"{found}; watermarkDelay is {delay_s:g} s",
        f"set withWatermark and watermarkDelay to at least {needed_s:g} s; with eventTimeBucket, with larger "
        "batches or with files of shorter times it is less",
    )


def _splits(source: Source) -> list[FileSplit]:
    listed = replace(source, options=source.options.with_values({DISCOVERY: "listing"}))
    enumerator = new_enumerator(listed)
    assert isinstance(enumerator, FilesEnumerator)
    try:
        return list(enumerator.discover(None).splits)
    finally:
        enumerator.close()


def new_enumerator(source: Source, state: Snapshot[Any] | None = None) -> SplitEnumerator[Any]:
    """The enumerator of a first start, or from a savepoint, with its coordinator; neither is started."""
    unbounded, no_reports = Boundedness.CONTINUOUS_UNBOUNDED, ReportDemand.NONE
    settings = CoordinatorSettings.of(source, unbounded, reports=no_reports, one_batch=False, cores=1)
    return SourceCoordinator(source.enumerator_type, settings, BackgroundRunner(), state).enumerator


def _text(time_us: int) -> str:
    try:
        time = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=time_us)
    except OverflowError:
        return f"{time_us} microseconds since 1970"
    return time.isoformat()
