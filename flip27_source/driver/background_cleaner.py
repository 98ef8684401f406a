"""BackgroundCleaner: periodically cleans up a lineage in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import StateError
from ..log import LOG
from ..savepoints.claims import delete_subsumed
from ..snapshots.checkpoint_files import CheckpointStorage
from ..snapshots.clean_up import Cleaner
from ..snapshots.file_names import CheckpointName
from ..snapshots.offsets import Offset
from .environment import Environment

CLEAN_EVERY = 10
"""Checkpoints between two clean-ups."""


@dataclass(eq=False, repr=False)
class BackgroundCleaner:
    """Deletes files that no retained checkpoint can reach; one clean-up at a time, on a thread.

    Args:
        storage_options: options of the file system that holds a claimed savepoint.
        check: raises StaleDriverError if another driver has taken over; called before deletions.
    """

    _storage: CheckpointStorage
    _retained: int
    _storage_options: dict[str, Any]
    _environment: Environment
    _check: Callable[[], None]
    _cleaner: Cleaner | None = field(default=None, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _cleaned_at: int = field(default=0, init=False)

    def committed(self, offset: Offset) -> None:
        """Spark's commit log contains ``offset``: start a clean-up if one is due."""
        name, lineage, store = offset.name, offset.lineage, self._storage.store
        if store is None or name is None or lineage is None:
            return
        is_cleaning = self._thread is not None and self._thread.is_alive()
        if is_cleaning or name.checkpoint_id < self._cleaned_at + CLEAN_EVERY:
            return
        self._cleaned_at = name.checkpoint_id
        if self._cleaner is None or self._cleaner.lineage != lineage:
            self._cleaner = Cleaner(store, lineage, self._retained, self._storage.in_use, self._check)
        cleaner = self._cleaner
        self._thread = self._environment.run_in_background(lambda: self._clean_up(cleaner, name))

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _clean_up(self, cleaner: Cleaner, committed: CheckpointName) -> None:
        try:
            cleaner.clean(committed)
            delete_subsumed(
                cleaner.store,
                cleaner.lineage,
                committed,
                cleaner.retained,
                lambda parent: self._environment.open_store(parent, self._storage_options),
            )
        except StateError as error:
            # The guarantees do not depend on clean-up: the next one finds the files that are left over.
            LOG.warning("clean-up of the state location failed and is tried again later: %s", error)
