"""Driver epochs: who drives a lineage. The highest epoch does; whoever finds a higher one stops (R9).

What a stale driver writes can harm nobody, because documents, segments and reports are named by
what they are. The epoch is there to tell it, and to keep it from cleaning up what others need.

A driver that looks for requests says now and then that it lives, to whoever wants something of it
(DriverWatch). Nothing that has to be right depends on that.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from ..errors import CorruptStateError, MissingStateError, StaleDriverError, StateError
from ..values.stored_json import decode_json
from . import file_names
from .store import Store

_log = logging.getLogger("flip27_source")

RENEWED_EVERY_MS = 10_000
_MISSED_RENEWALS = 3
_SLACK_MS = 10_000


class DriverRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who took over."""

    host: str
    process: int
    started_ms: int


class DriverEpoch:
    """The epoch of one driver in one lineage, taken when this is made.

    Args:
        started_ms: now. is_renewed: whether :meth:`renew` will be called every ``RENEWED_EVERY_MS``.
    """

    def __init__(self, store: Store, lineage: str, started_ms: int, *, is_renewed: bool = False) -> None:
        self._store = store
        self.lineage = lineage
        record = DriverRecord(host=socket.gethostname(), process=os.getpid(), started_ms=started_ms)
        data = msgspec.json.encode(record, order="sorted")
        taken = _listed(store, lineage)
        self.epoch = taken.newest + 1
        while not store.create(file_names.driver_file(lineage, self.epoch), data):
            self.epoch += 1
        self._is_renewed = is_renewed
        self._changing = threading.Lock()
        # Names under which this driver has said that it lives, or is about to; none once it has ended.
        self._said: set[str] = set()
        if is_renewed:
            try:
                self._say(started_ms)
            except StateError as error:  # nothing that has to be right depends on it: it is said again later
                _log.warning("this driver could not say that it lives: %s", error)
        for old in taken.epochs:
            if old < self.epoch - 1:
                self._forget(file_names.driver_file(lineage, old))
        for epoch, said_ms in taken.renewals:
            self._forget(file_names.renewal_file(lineage, epoch, said_ms))

    def renew(self, now_ms: int) -> None:
        """Say that this driver lives, unless it has ended, drives no longer or its lineage is gone.

        On any thread, and on several at once. There is always a file that says so: the last one goes when
        the next one is there.
        """
        if self._is_renewed and _listed(self._store, self.lineage).newest == self.epoch:
            self._say(now_ms)

    def end(self) -> None:
        """Say that this driver lives no longer, so that nobody waits for it, if it ever said that it lives.

        Where that fails, whoever asks something of it waits until it has missed its renewals.
        """
        with self._changing:
            self._is_renewed = False
            said, self._said = self._said, set()
        for name in said:
            self._forget(name)

    def _forget(self, name: str) -> None:
        """Delete a file that harms nobody where it stays."""
        try:
            self._store.delete(name)
        except Exception as error:  # noqa: BLE001 - a query that stops for its state location stops twice otherwise
            _log.warning("%s stays: %s: %s", name, type(error).__name__, error)

    def _say(self, now_ms: int) -> None:
        name = file_names.renewal_file(self.lineage, self.epoch, now_ms)
        with self._changing:
            if not self._is_renewed:
                return
            older = self._said - {name}
            self._said.add(name)
        self._store.create(name, b"")
        with self._changing:
            is_wanted = name in self._said
            self._said -= older
        # The driver has ended meanwhile, or another renewal has overtaken this one and deleted it too early.
        for gone in older if is_wanted else {name}:
            self._forget(gone)

    def check(self) -> None:
        """Raises StaleDriverError when another driver has taken over."""
        newest = _listed(self._store, self.lineage).newest
        if newest > self.epoch:
            raise StaleDriverError(
                f"another driver{self._who(newest)} has taken over {self.lineage} in "
                f"{self._store.location}: it is in epoch {newest}, this one in {self.epoch}",
                remedy="stop one of the two queries: they run on the same checkpoint; to run a second one "
                "start it with its own checkpoint location",
            )

    def _who(self, epoch: int) -> str:
        record = _record(self._store, self.lineage, epoch)
        return "" if record is None else f" (process {record.process} on {record.host})"


class DriverWatch:
    """Whether the driver of a lineage lives and looks for requests; for whoever wants something of it.

    The first look compares its clock with ours; from then on it lives as long as what it says changes.

    Args:
        wall_s, steady_s: the time, and a clock that only goes forward, in seconds.
    """

    def __init__(
        self,
        store: Store,
        lineage: str,
        *,
        wall_s: Callable[[], float] = time.time,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._lineage = lineage
        self._wall_s = wall_s
        self._steady_s = steady_s
        self._seen_ms: int | None = None
        self._changed_s = 0.0

    def living(self) -> DriverRecord | None:
        """The driver that lives; None where none does, or none that looks for requests."""
        listed = _listed(self._store, self._lineage)
        said_ms = max((ms for epoch, ms in listed.renewals if epoch == listed.newest), default=None)
        if said_ms is None:
            return None
        record = _record(self._store, self._lineage, listed.newest)
        if record is None or _is_gone(record):
            return None
        now_s = self._steady_s()
        if self._seen_ms is None:
            self._changed_s = now_s - max(0.0, self._wall_s() - said_ms / 1000)
        elif said_ms != self._seen_ms:
            self._changed_s = now_s
        self._seen_ms = said_ms
        patience_ms = _MISSED_RENEWALS * RENEWED_EVERY_MS + _SLACK_MS
        return record if (now_s - self._changed_s) * 1000 <= patience_ms else None


class _Listed(NamedTuple):
    """What the files of the drivers of a lineage are named; the epochs, and what each said at which time."""

    epochs: list[int]
    renewals: list[tuple[int, int]]

    @property
    def newest(self) -> int:
        """The highest epoch; 0 where there is none."""
        return max(self.epochs, default=0)


def _listed(store: Store, lineage: str) -> _Listed:
    names = store.list(f"{lineage}/{file_names.DRIVERS}")
    return _Listed(
        [epoch for name in names if (epoch := file_names.parse_driver(name)) is not None],
        [renewal for name in names if (renewal := file_names.parse_renewal(name)) is not None],
    )


def _record(store: Store, lineage: str, epoch: int) -> DriverRecord | None:
    try:
        return decode_json(store.read(file_names.driver_file(lineage, epoch)), DriverRecord)
    except (MissingStateError, CorruptStateError, msgspec.MsgspecError):
        return None


def _is_gone(record: DriverRecord) -> bool:
    """Whether it ran on this host, and its process is there no longer."""
    if record.host != socket.gethostname() or os.name != "posix":
        return False
    try:
        os.kill(record.process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # it is somebody else's
    return False
