"""The finding on the watermark that a backlog of files needs, if it is read in event-time order."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from flip27_source.coordination.checkpoints import Snapshot
from flip27_source.coordination.context import CoordinatorSettings
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.event_time_order import smallest_delay_ms
from flip27_source.coordination.subtask_reports import ReportDemand
from flip27_source.driver.background import BackgroundRunner
from flip27_source.enumerator import SourceEnd, SplitEnumerator
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.options import DISCOVERY
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.enumerators.hybrid.enumerator import HybridEnumerator
from flip27_source.enumerators.hybrid.options import SWITCH_OVERLAP
from flip27_source.enumerators.hybrid.parts import Part
from flip27_source.enumerators.hybrid.switch import Switch, read_before, until
from flip27_source.event_time import event_time_of, moment_of, place_of
from flip27_source.options import Options
from flip27_source.source import Source
from flip27_source.source_checks import Finding, finding_of, ok, warning
from flip27_source.source_options import EVENT_TIME_ORDER, WATERMARK_DELAY

CHECK = "event time"


def backlog_in_order(source: Source) -> Finding:
    """List all files as a first start does, and find the smallest watermark delay that loses nothing."""
    with _listing(source) as enumerator:
        splits = list(enumerator.discover(None).splits)
    return _needed(CHECK, splits, source.options)


def chain_in_order(source: Source) -> Iterator[Finding]:
    """The same for each source of files in a chain that does not start at a ``{switch}``, and for the switch
    after it; nothing for other sources."""
    kind, options = source.enumerator_type, source.options
    parts = kind.parts if issubclass(kind, HybridEnumerator) else ()
    for number, part in enumerate(parts, 1):
        own = part.source(options)
        if not issubclass(part.enumerator_type, FilesEnumerator) or part.uses_switch(options):
            continue
        if own.options[EVENT_TIME_ORDER]:
            following = parts[number] if number < len(parts) and parts[number].uses_switch(options) else None
            check = f"{part.title}: {CHECK}"
            look = functools.partial(_part_in_order, check, own, part, following, options)
            yield finding_of(check, look)


def _part_in_order(
    check: str, source: Source, part: Part, following: Part | None, options: Options
) -> Finding:
    with _listing(source) as enumerator:
        splits = sorted(enumerator.discover(None).splits, key=place_of)
        until_us = None
        if following is not None and part.reads_until_next(options):
            begins = following.enumerator_type.beginning(following.source(options).options)
            until_us = until(begins, options[SWITCH_OVERLAP])
        read = read_before(splits, until_us)
        times = [one for one in map(event_time_of, read) if one is not None]
        if following is None or not times:
            return _needed(check, read, options)
        last = max(times, key=lambda one: one.latest_us)
        position = enumerator.switch_position(SourceEnd(began=last.latest, last=last, live=()))
    if until_us is not None and len(read) < len(splits):
        position = moment_of(until_us)
    switch = None if position is None else Switch.at(position, options[SWITCH_OVERLAP])
    return _needed(check, read, options, None if switch is None else switch.time_us)


def _needed(check: str, splits: Sequence[FileSplit], options: Options, next_us: int | None = None) -> Finding:
    files = len({split.path for split in splits})
    times = [one for one in map(event_time_of, splits) if one is not None]
    if not times:
        return ok(check, f"none of {files} files has rows with an event time")
    needed_s = smallest_delay_ms(splits, options, next_us) / 1000
    earliest = _text(min(one.earliest_us for one in times))
    latest = _text(max(one.latest_us for one in times))
    found = (
        f"a watermark delay of {needed_s:g} s loses nothing of {files} files, whose times are from "
        f"{earliest} to {latest}"
    )
    if next_us is not None:
        found += f", and of the next source, which starts at {_text(next_us)}"
    delay_s = options[WATERMARK_DELAY]
    if delay_s is None or delay_s >= needed_s:
        return ok(check, found)
    less = "" if next_us is None else "a smaller switchOverlap, "
    return warning(
        check,
        f"{found}; watermarkDelay is {delay_s:g} s",
        f"set withWatermark and watermarkDelay to at least {needed_s:g} s; with {less}eventTimeBucket, "
        "larger batches or files of shorter times it is less",
    )


@contextmanager
def _listing(source: Source) -> Iterator[FilesEnumerator]:
    listed = replace(source, options=source.options.with_values({DISCOVERY: "listing"}))
    enumerator = new_enumerator(listed)
    assert isinstance(enumerator, FilesEnumerator)
    try:
        yield enumerator
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
