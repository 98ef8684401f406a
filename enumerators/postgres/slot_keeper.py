"""Uses a slot from time to time, because a server may invalidate idle slots.

PostgreSQL 18 does so with ``idle_replication_slot_timeout``. While chunks are read or a batch is written, the
query may not read its slot for hours.
"""

from __future__ import annotations

import logging
import threading
from functools import partial

from flip27_source.enumerators.postgres.connection import Connection, checked, connect
from flip27_source.enumerators.postgres.server import touch_slot
from flip27_source.errors import Flip27Error
from flip27_source.options import Options

_log = logging.getLogger(__name__)

_SETTING_VERSION = 18_00_00
_USES_PER_TIMEOUT = 3


class SlotKeeper:
    """Uses a slot, on a thread and over connections of its own, until it is closed."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, connection: Connection, slot: str) -> None:
        """Begin to use the slot, if the server needs that."""
        if self._thread is not None or connection.info.server_version < _SETTING_VERSION:
            return
        row = connection.execute(
            "SELECT setting::int FROM pg_settings WHERE name = 'idle_replication_slot_timeout'"
        ).fetchone()
        if row is not None and row[0] > 0:
            period_s = row[0] / _USES_PER_TIMEOUT
            self._thread = threading.Thread(
                target=self._run, args=(slot, period_s), name="flip27-slot-keeper", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def _run(self, slot: str, period_s: float) -> None:
        while not self._closed.wait(period_s):
            try:
                with connect(self._options, purpose="slot keeper") as connection:
                    checked(self._options, "using the slot", partial(touch_slot, connection, slot))
            except Flip27Error as error:
                _log.warning("slot %s could not be used to keep it: %s", slot, error)
