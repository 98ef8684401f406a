"""Whether the newest driver of a lineage is alive: what its record says, and whether its renewals change."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from .driver_epochs import (
    MISSED_RENEWALS,
    RENEWED_EVERY_MS,
    Driver,
    DriverRecord,
    ListedDrivers,
    is_gone,
    listed_drivers,
    read_failed_start,
    read_record,
)
from .store import Store

_PATIENCE_MS = MISSED_RENEWALS * RENEWED_EVERY_MS + 10_000
"""How long a driver counts as alive after a renewal."""


class Condition(StrEnum):
    """What is known of the newest driver of a lineage."""

    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"
    """It has ended without a word: its process was killed, or its host cannot be reached."""
    UNKNOWN = "unknown"
    """It does not say whether it is alive (``requestInterval=0``), or is of a version before 0.3, or its
    clock is so far ahead that its renewal says nothing until it changes."""


class DriverCondition(NamedTuple):
    """The newest driver of a lineage.

    Attributes:
        since_ms: running: since when; stopped or failed: when; lost: when it was last heard of.
        said_ms: when it has last said that it is alive, or has ended.
        is_doubtful: whether further looks may tell otherwise, because only clocks say that it is lost, or its
            clock is far ahead.
    """

    driver: Driver
    condition: Condition
    since_ms: int | None
    said_ms: int | None
    is_doubtful: bool = False


class _Heard(NamedTuple):
    """The last change of a renewal.

    Attributes:
        seen_s: when it was seen. since_s: when the driver has made it, or a little later.
        is_ahead: whether the driver's clock is so far ahead that this may be long ago.
    """

    epoch: int
    said_ms: int | None
    seen_s: float
    since_s: float
    is_ahead: bool


class DriverWatch:
    """Looks at drivers, again and again, so that its clock need not agree with theirs.

    Only the first look at a lineage compares clocks. Afterwards a driver is silent from the change of its
    renewal on; between two looks that are far apart, its own clock tells when that was.

    Args:
        wall_s: returns the time in seconds. steady_s: returns a monotonic time in seconds.
    """

    def __init__(
        self, *, wall_s: Callable[[], float] = time.time, steady_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall_s = wall_s
        self._steady_s = steady_s
        self._heard: dict[tuple[str, str], _Heard] = {}

    def newest(self, store: Store, lineage: str) -> DriverCondition | None:
        """The newest driver of a lineage; None if no driver is known."""
        listed, now_s = listed_drivers(store, lineage), self._steady_s()
        heard = self._hear((store.location, lineage), listed, now_s)
        if not listed.epochs:
            return None
        found = _condition(store, lineage, listed.newest, heard, now_s)
        return _with_failed_start(store, lineage, found) if listed.newest in listed.failed_starts else found

    def living(self, store: Store, lineage: str) -> Driver | None:
        """The newest driver if it may be alive and takes requests; None if not."""
        found = self.newest(store, lineage)
        if found is None or found.condition not in (Condition.RUNNING, Condition.UNKNOWN):
            return None
        return found.driver if found.said_ms is not None else None

    def _hear(self, key: tuple[str, str], listed: ListedDrivers, now_s: float) -> _Heard:
        before, said_ms = self._heard.get(key), listed.last_said_ms
        if before is not None and before[:2] == (listed.newest, said_ms):
            return before
        since_s, is_ahead = now_s, False
        if before is None and said_ms is not None:
            age_s = self._wall_s() - said_ms / 1000
            since_s, is_ahead = now_s - max(0.0, age_s), age_s * 1000 < -_PATIENCE_MS
        elif before is not None and before.epoch == listed.newest:
            later_ms = (said_ms or 0) - (before.said_ms or 0)
            # A clock that was set back tells nothing.
            since_s = min(now_s, before.seen_s + later_ms / 1000) if later_ms > 0 else now_s
        heard = self._heard[key] = _Heard(listed.newest, said_ms, now_s, since_s, is_ahead)
        return heard


def _condition(store: Store, lineage: str, epoch: int, heard: _Heard, now_s: float) -> DriverCondition:
    driver, said_ms = Driver(epoch, read_record(store, lineage, epoch)), heard.said_ms
    record = driver.record
    if record is not None and record.ended_ms is not None:
        ended = Condition.STOPPED if record.error is None else Condition.FAILED
        return DriverCondition(driver, ended, record.ended_ms, record.ended_ms)
    if said_ms is None:
        return DriverCondition(driver, Condition.UNKNOWN, None, None)
    has_gone = is_gone(store, lineage, driver, said_ms)
    if has_gone or round((now_s - heard.since_s) * 1000) > _PATIENCE_MS:
        return DriverCondition(driver, Condition.LOST, said_ms, said_ms, is_doubtful=not has_gone)
    if heard.is_ahead:
        return DriverCondition(driver, Condition.UNKNOWN, None, said_ms, is_doubtful=True)
    since_ms = None if record is None else record.started_ms
    return DriverCondition(driver, Condition.RUNNING, since_ms, said_ms)


def _with_failed_start(store: Store, lineage: str, found: DriverCondition) -> DriverCondition:
    """With the error of a run that was to follow a driver, and has ended before it drove."""
    if found.condition is Condition.RUNNING:
        return found
    start = read_failed_start(store, lineage, found.driver.epoch)
    if start is None or start.ended_ms is None or start.after_ms != found.said_ms:
        return found  # the driver was alive then, and went on
    record: DriverRecord = start
    if found.driver.record is not None:
        record = msgspec.structs.replace(
            found.driver.record,
            host=start.host,
            process=start.process,
            started_ms=start.started_ms,
            ended_ms=start.ended_ms,
            error=start.error,
            remedy=start.remedy,
        )
    driver = found.driver._replace(record=record)
    if found.condition is Condition.UNKNOWN:
        return found._replace(driver=driver)
    return DriverCondition(driver, Condition.FAILED, start.ended_ms, start.ended_ms, found.is_doubtful)
