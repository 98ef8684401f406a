"""Driver epochs: who drives a lineage. The highest epoch does; whoever finds a higher one stops (R9).

What a stale driver writes can harm nobody, because documents, segments and reports are named by
what they are. The epoch is there to tell it, and to keep it from cleaning up what others need.
"""

from __future__ import annotations

import os
import socket

import msgspec

from ..errors import CorruptStateError, MissingStateError, StaleDriverError
from . import layout
from .store import Store


class DriverRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who took over, for people."""

    host: str
    process: int
    started_ms: int


class DriverEpoch:
    """The epoch of one driver in one lineage, taken when this is made."""

    def __init__(self, store: Store, lineage: str, started_ms: int) -> None:
        self._store = store
        self.lineage = lineage
        record = DriverRecord(host=socket.gethostname(), process=os.getpid(), started_ms=started_ms)
        data = msgspec.json.encode(record, order="sorted")
        self.epoch = max(self._epochs(), default=0) + 1
        while not store.create(layout.driver_file(lineage, self.epoch), data):
            self.epoch += 1
        for old in self._epochs():
            if old < self.epoch - 1:
                store.delete(layout.driver_file(lineage, old))

    def check(self) -> None:
        """Raises StaleDriverError when another driver has taken over."""
        newest = max(self._epochs(), default=self.epoch)
        if newest > self.epoch:
            raise StaleDriverError(
                f"another driver{self._who(newest)} has taken over {self.lineage} in "
                f"{self._store.location}: it is in epoch {newest}, this one in {self.epoch}",
                remedy="stop one of the two queries: they run on the same checkpoint; to run a second one "
                "start it with its own checkpoint location",
            )

    def _epochs(self) -> list[int]:
        found = self._store.list(f"{self.lineage}/{layout.DRIVERS}")
        return [epoch for name in found if (epoch := layout.parse_driver(name)) is not None]

    def _who(self, epoch: int) -> str:
        try:
            data = self._store.read(layout.driver_file(self.lineage, epoch))
            record = msgspec.json.decode(data, type=DriverRecord)
        except (MissingStateError, CorruptStateError, msgspec.MsgspecError):
            return ""
        return f" (process {record.process} on {record.host})"
