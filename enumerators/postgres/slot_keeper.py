"""Uses a slot from time to time, because a server may invalidate idle slots.

PostgreSQL 18 does so with ``idle_replication_slot_timeout``, which may be set at any time. While chunks are
read or a batch is written, the query may not read its slot for hours.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import weakref
from functools import partial

from flip27_source.enumerators.postgres.connection import Connection, checked, connect, row_of
from flip27_source.enumerators.postgres.server import touch_slot
from flip27_source.errors import Flip27Error
from flip27_source.log import LOG
from flip27_source.options import Options

_SETTING_VERSION = 18_00_00
_IDLE_TIMEOUT = "SELECT max(setting::int) FROM pg_settings WHERE name = 'idle_replication_slot_timeout'"
_USES_PER_TIMEOUT = 3
_PAUSE_PER_USE = 3  # the server reads the log again from the oldest open transaction on

ASKED_EVERY_S = 60.0
"""The longest pause between two looks at the setting, which takes effect without a restart of the server.

Also the pause between two uses, if the setting demands none or a longer one.
"""


class SlotKeeper:
    """Uses a slot, on a thread and over connections of its own, until it is closed or no longer used."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        weakref.finalize(self, self._closed.set)

    def keep(self, connection: Connection, slot: str) -> None:
        """Begin to use the slot from time to time, if the server has the setting."""
        if self._thread is not None or connection.info.server_version < _SETTING_VERSION:
            return
        given = (self._closed, self._options, slot, _pause_s(connection))
        self._thread = threading.Thread(target=_run, args=given, name="flip27-slot-keeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()


def _run(closed: threading.Event, options: Options, slot: str, pause_s: float) -> None:
    used_at, took_s = time.monotonic(), 0.0
    while not closed.wait(min(pause_s, ASKED_EVERY_S)):
        try:
            with connect(options, purpose="slot keeper") as connection:
                pause_s = checked(options, "querying the setting", partial(_pause_s, connection))
                # A timeout that is set later applies to the time since the last use, too.
                if time.monotonic() - used_at >= min(pause_s, max(ASKED_EVERY_S, _PAUSE_PER_USE * took_s)):
                    began = time.monotonic()
                    checked(options, "using the slot", partial(touch_slot, connection, slot))
                    used_at = time.monotonic()
                    took_s = used_at - began
        except Flip27Error as error:
            level = logging.WARNING if math.isfinite(pause_s) else logging.DEBUG
            LOG.log(level, "slot %s could not be used to keep it: %s", slot, error)


def _pause_s(connection: Connection) -> float:
    """How long the slot may stay unused; infinite if the server invalidates no idle slots."""
    (timeout_s,) = row_of(connection, _IDLE_TIMEOUT)
    return timeout_s / _USES_PER_TIMEOUT if timeout_s else math.inf
