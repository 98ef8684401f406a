"""Removal of what a query that will not run again has stored: its lineage, its schemas, Spark's checkpoint.

A removal that was interrupted can be repeated: ``source.json``, by which a lineage is found, is deleted last.
Checkpoints are deleted first, so a query that is started in the meantime finds none and stops.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..errors import StaleDriverError, StateError, StateLocationError
from . import file_names
from .driver_condition import Condition, DriverWatch
from .driver_epochs import MISSED_RENEWALS, RENEWED_EVERY_MS, DriverEpoch
from .file_names import CheckpointName
from .linked_folders import LinkedFolderError
from .request_mailbox import Mailbox
from .spark_checkpoint import FOLDERS, files_of_checkpoint
from .store import Store, open_store


class LineageRemoval:
    """Removes the files of one lineage; other files in its folders stay, and so do those folders.

    Attributes:
        is_doubtful: whether another :meth:`check` may find that the driver is alive.
    """

    def __init__(self, store: Store, lineage: str) -> None:
        self._store = store
        self.lineage = file_names.checked_lineage_name(lineage)
        self._watch = DriverWatch()
        self.is_doubtful = False
        self._newest = 0
        self._epoch: DriverEpoch | None = None

    def check(self) -> None:
        """Refuse a lineage that is in use, or that is not wholly inside its location.

        Raises:
            StateLocationError: its query runs, or a savepoint that was requested is not finished.
            LinkedFolderError: a folder is a link.
        """
        for folder in file_names.FOLDERS:
            self._store.check_inside(f"{self.lineage}/{folder}/")
        found = self._watch.newest(self._store, self.lineage)
        self._newest = 0 if found is None else found.driver.epoch
        self.is_doubtful = found is not None and found.is_doubtful
        if found is not None and found.condition is Condition.RUNNING:
            raise StateLocationError(
                f"a query uses {self.lineage} in {self._store.location}: its driver is {found.driver.who}",
                remedy="stop the query first; a driver that was killed counts as running for 40 seconds",
            )
        waiting = Mailbox(self._store, self.lineage).waiting().savepoints
        if waiting:
            raise StateLocationError(
                f"a savepoint of {self.lineage} was requested and is not finished: {waiting[0].request_id}, "
                f"in {waiting[0].target}",
                remedy="create it now (flip27 savepoint create --copy) if it is needed, and withdraw the "
                f"request: flip27 savepoint withdraw {waiting[0].request_id}",
            )

    def take_over(self) -> None:
        """Take the lineage's next epoch: a driver that is suspended stops when it continues (R9).

        Raises:
            StateLocationError: a query was started since :meth:`check`.
        """
        self._epoch = DriverEpoch(self._store, self.lineage, time.time_ns() // 1_000_000)
        if self._epoch.epoch != self._newest + 1:
            raise StateLocationError(
                f"a query has begun to use {self.lineage} in {self._store.location}",
                remedy="stop the query first",
            )

    def give_back(self) -> None:
        if self._epoch is not None:
            self._epoch.give_back()

    def files(self) -> list[str]:
        """The files of the lineage except ``source.json``, in the order in which they are deleted."""
        return [name for folder in file_names.FOLDERS for name in self._files_in(folder)]

    def remove(self) -> None:
        """Delete all files except ``source.json``, after :meth:`take_over`.

        Raises:
            StaleDriverError: a query was started in the meantime.
        """
        self._remove_checkpoints()
        for folder in file_names.FOLDERS[1:]:
            self.check_ours()
            for name in self._files_in(folder):
                self._store.delete(name)
            self._store.remove_abandoned(f"{self.lineage}/{folder}", older_than_s=0)

    def _remove_checkpoints(self) -> None:
        """No driver continues once it finds none; one that has found its checkpoint in between keeps all."""
        self.check_ours()
        documents: dict[str, bytes] = {}
        for name in self._files_in(file_names.CHECKPOINTS):
            with suppress(StateError):  # a damaged one, which no driver can read either
                documents[name] = self._store.read(name)
            self._store.delete(name)
        try:
            self.check_ours()
        except StaleDriverError:
            for name, data in documents.items():
                self._store.create(name, data)
            raise
        self._store.remove_abandoned(f"{self.lineage}/{file_names.CHECKPOINTS}", older_than_s=0)

    def finish(self) -> None:
        """Delete ``source.json``, and the folder if it is empty."""
        self._store.delete(file_names.source_file(self.lineage))
        self._store.remove_abandoned(self.lineage, older_than_s=0)
        self._store.remove_empty(self.lineage)

    def check_ours(self) -> None:
        """Raise StaleDriverError if a query was started since :meth:`take_over`."""
        if self._epoch is None:
            raise AssertionError("take_over must be called before remove")
        self._epoch.check()

    def _files_in(self, folder: str) -> Iterator[str]:
        names = self._store.list(f"{self.lineage}/{folder}")
        if folder == file_names.CHECKPOINTS:
            names.sort(key=_age)
        return (f"{self.lineage}/{folder}/{name}" for name in names)


def check_all(removals: Sequence[LineageRemoval], wait: Callable[[float], object]) -> None:
    """Check lineages, and watch drivers that may be alive: the clocks of two hosts may differ by hours.

    Args:
        wait: waits for some seconds.

    Raises:
        Flip27Error: as for ``check``.
    """
    for left in reversed(range(MISSED_RENEWALS + 1)):
        for removal in removals:
            removal.check()
        if not left or not any(removal.is_doubtful for removal in removals):
            return
        wait(RENEWED_EVERY_MS / 1000)


def _age(file_name: str) -> int:
    """Orders the newest checkpoint first: without it, no query continues."""
    name = CheckpointName.parse(file_name)
    return 0 if name is None else -name.checkpoint_id


def remove_schemas(store: Store, folder: str, users: Callable[[], Sequence[str]]) -> None:
    """Delete the schemas that are recorded in a folder, next to the lineages.

    Args:
        users: the lineages that may use them now.

    Raises:
        StateLocationError: there are some.
    """
    if names := users():
        raise StateLocationError(
            f"{', '.join(names)} in {store.location} may use {folder} by now",
            remedy="run the command again: the schema stays",
        )
    for name in store.list(folder):
        store.delete(f"{folder}/{name}")
    store.remove_empty(folder)
    if not store.list(file_names.SCHEMAS):
        store.remove_empty(file_names.SCHEMAS)


def remove_spark_checkpoint(location: str, storage_options: Mapping[str, Any]) -> None:
    """Delete the files that Spark has written to a checkpoint location, and the location if it is then empty.

    An interrupted removal can be repeated: the newest batch of the offset log is deleted last.
    """
    store = open_store(location, storage_options)
    names = files_of_checkpoint(location, storage_options)
    for name in names:
        store.check_inside(name)
    for name in names:
        store.delete(name)
    for folder in FOLDERS:
        store.remove_empty(folder)
    remove_if_empty(location, storage_options)


def remove_if_empty(location: str, storage_options: Mapping[str, Any]) -> None:
    """Remove a location that contains nothing, where the file system has folders; a link to it stays."""
    parent, _, folder = location.rstrip("/").rpartition("/")
    is_bucket = parent.endswith("/")
    if parent and not is_bucket and not open_store(location, storage_options).list(""):
        with suppress(LinkedFolderError):
            open_store(parent, storage_options).remove_empty(folder)
