"""Driver epochs: who drives a lineage. The highest epoch does; whoever finds a higher one stops (R9).

What a stale driver writes can harm nobody, because documents, segments and reports are named by
what they are. The epoch is there to tell it, and to keep it from cleaning up what others need.

A driver that looks for requests renews its record now and then: whoever wants something of it sees that
it lives (DriverWatch). Nothing that has to be right depends on that.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable

import msgspec

from ..errors import CorruptStateError, MissingStateError, StaleDriverError
from . import layout
from .store import Store

_log = logging.getLogger(__name__)

RENEWED_EVERY_MS = 10_000
_MISSED_RENEWALS = 3
_SLACK_MS = 10_000


class DriverRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who took over.

    Attributes:
        renewed_ms: when it last said that it lives; renewed_every_ms: how often it does, 0 for never,
            because it looks for no requests, or has ended.
    """

    host: str
    process: int
    started_ms: int
    renewed_ms: int = 0
    renewed_every_ms: int = 0


class DriverEpoch:
    """The epoch of one driver in one lineage, taken when this is made.

    Args:
        started_ms: now. is_renewed: whether :meth:`renew` will be called every ``RENEWED_EVERY_MS``.
    """

    def __init__(self, store: Store, lineage: str, started_ms: int, *, is_renewed: bool = False) -> None:
        self._store = store
        self.lineage = lineage
        self._record = DriverRecord(
            host=socket.gethostname(),
            process=os.getpid(),
            started_ms=started_ms,
            renewed_ms=started_ms if is_renewed else 0,
            renewed_every_ms=RENEWED_EVERY_MS if is_renewed else 0,
        )
        data = msgspec.json.encode(self._record, order="sorted")
        self.epoch = max(_epochs(store, lineage), default=0) + 1
        while not store.create(layout.driver_file(lineage, self.epoch), data):
            self.epoch += 1
        for old in _epochs(store, lineage):
            if old < self.epoch - 1:
                store.delete(layout.driver_file(lineage, old))

    def renew(self, now_ms: int) -> None:
        """Say that this driver lives, unless it drives no longer or its lineage is gone. On any thread."""
        self._record = msgspec.structs.replace(self._record, renewed_ms=now_ms)
        self._write_again()

    def end(self) -> None:
        """Say that this driver lives no longer, so that nobody waits for it, if it ever said that it lives.

        A failure is logged: whoever asks something of it then waits until it has missed its renewals.
        """
        if not self._record.renewed_every_ms:
            return
        self._record = msgspec.structs.replace(self._record, renewed_every_ms=0)
        try:
            self._write_again()
        except Exception as error:  # noqa: BLE001 - a query that stops for its state location stops twice otherwise
            _log.warning("the end of this driver was not noted: %s: %s", type(error).__name__, error)

    def check(self) -> None:
        """Raises StaleDriverError when another driver has taken over."""
        newest = max(_epochs(self._store, self.lineage), default=self.epoch)
        if newest > self.epoch:
            raise StaleDriverError(
                f"another driver{self._who(newest)} has taken over {self.lineage} in "
                f"{self._store.location}: it is in epoch {newest}, this one in {self.epoch}",
                remedy="stop one of the two queries: they run on the same checkpoint; to run a second one "
                "start it with its own checkpoint location",
            )

    def _write_again(self) -> None:
        if max(_epochs(self._store, self.lineage), default=0) == self.epoch:
            file = layout.driver_file(self.lineage, self.epoch)
            self._store.replace(file, msgspec.json.encode(self._record, order="sorted"))

    def _who(self, epoch: int) -> str:
        record = _record(self._store, self.lineage, epoch)
        return "" if record is None else f" (process {record.process} on {record.host})"


class DriverWatch:
    """Whether the driver of a lineage lives and looks for requests; for whoever wants something of it.

    The first look compares its clock with ours; from then on it lives as long as its record changes.

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
        self._seen: DriverRecord | None = None
        self._changed_s = 0.0

    def living(self) -> DriverRecord | None:
        """The driver that lives; None where none does, or none that looks for requests."""
        epoch = max(_epochs(self._store, self._lineage), default=0)
        record = _record(self._store, self._lineage, epoch)
        if record is None or not record.renewed_every_ms or _is_gone(record):
            return None
        now_s = self._steady_s()
        if self._seen is None:
            self._changed_s = now_s - max(0.0, self._wall_s() - record.renewed_ms / 1000)
        elif record != self._seen:
            self._changed_s = now_s
        self._seen = record
        patience_ms = _MISSED_RENEWALS * record.renewed_every_ms + _SLACK_MS
        return record if (now_s - self._changed_s) * 1000 <= patience_ms else None


def _epochs(store: Store, lineage: str) -> list[int]:
    found = store.list(f"{lineage}/{layout.DRIVERS}")
    return [epoch for name in found if (epoch := layout.parse_driver(name)) is not None]


def _record(store: Store, lineage: str, epoch: int) -> DriverRecord | None:
    try:
        return msgspec.json.decode(store.read(layout.driver_file(lineage, epoch)), type=DriverRecord)
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
