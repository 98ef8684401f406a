"""QueryFailures: writes why queries end into the states of their sources, which Spark does not tell.

A listener feeds it. Knows nothing of Spark except its checkpoints.
"""

from __future__ import annotations

import atexit
import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import StateLocationError
from ..log import LOG
from ..snapshots.locations import Lineage, find_lineages, normal_location
from ..snapshots.spark_checkpoint import query_id_of
from ..snapshots.store import Store, open_store
from ..snapshots.task_failures import keep_error, only_logged

_MOST_WAITING = 10
"""Threads of a checkpoint location that wait for a store that does not answer while queries fail often."""
_PATIENCE_S = 5.0
"""How long the end of the program waits for such threads."""
_OF_A_TAKEOVER = re.compile(r"\b(?:StaleDriverError: |CONCURRENT_STREAM_LOG_UPDATE\b)")
"""Errors of flip27 and of Spark with which a run ends because another one has its checkpoint."""


class QueryFailures:
    """Why queries have ended, for the states of their sources.

    Nothing waits for a store, and nothing is raised: whatever cannot be written is in the log.

    Args:
        checkpoint_locations: of the queries. state_locations: those that are not below them.
        storage: options of their file systems.

    Raises:
        StateLocationError: a location is empty, or cannot be a location.
    """

    def __init__(
        self, checkpoint_locations: Sequence[str], state_locations: Sequence[str], storage: Mapping[str, Any]
    ) -> None:
        self._checkpoints = [normal_location(location) for location in checkpoint_locations]
        self._states = [normal_location(location) for location in state_locations]
        self._storage = dict(storage)
        self._runs: dict[str, str] = {}
        self._threads: list[threading.Thread] = []
        if self._checkpoints:
            atexit.register(self.wait)

    def started(self, query_id: str, run_id: str) -> None:
        """A run of a query has started."""
        if self._checkpoints:
            self._runs[query_id] = run_id

    def terminated(self, query_id: str, run_id: str, exception: str) -> None:
        """A run of a query has ended with an exception, of which this is Spark's text."""
        if _OF_A_TAKEOVER.search(exception):
            return  # the newest batch is that of the other run
        for location in self._checkpoints:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            given = (location, query_id, run_id, exception)
            thread = threading.Thread(target=self._keep, args=given, daemon=True)
            try:
                if len(self._threads) < _MOST_WAITING * len(self._checkpoints):
                    thread.start()
                    self._threads.append(thread)
            except RuntimeError as error:  # the process may not have more threads
                LOG.warning("the state does not have why query %s has failed: %s", query_id, error)

    def wait(self) -> None:
        """Wait a while until everything is written."""
        until_s = time.monotonic() + _PATIENCE_S
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))

    def _keep(self, location: str, query_id: str, run_id: str, exception: str) -> None:
        with only_logged(f"query {query_id}", self._storage, logging.WARNING):
            checkpoint = open_store(location, self._storage)
            if query_id_of(checkpoint) != query_id:
                return
            for lineage in find_lineages(
                location, self._storage, state_locations=self._states, even_missing=True
            ):
                with only_logged(f"query {query_id}", self._storage, logging.WARNING):
                    self._keep_in(lineage, checkpoint, query_id, run_id, exception)

    def _keep_in(
        self, lineage: Lineage, checkpoint: Store, query_id: str, run_id: str, exception: str
    ) -> None:
        batches = lineage.batches or ()
        if lineage.held or not batches or batches[-1].committed:
            return
        store = lineage.store(self._storage)
        if store is None:
            raise StateLocationError(
                f"{lineage.name} is not below {checkpoint.location}",
                remedy="add its place to state_locations of listener_for",
            )
        keep_error(
            store,
            lineage.folder,
            batches[-1].name,
            error=exception,
            secrets=self._storage,
            # Of a later run, the newest driver is another one.
            unless=lambda: self._runs.get(query_id, run_id) != run_id,
        )
