"""Defects that the project once had or nearly had: each is put back to check that the simulator finds it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from flip27_source.coordination.checkpoints import CheckpointMetadata
from flip27_source.coordination.delayed_actions import DelayedActions
from flip27_source.driver.demanded_reports import DemandedReports
from flip27_source.driver.requests import Requests
from flip27_source.enumerators.files import cleaning as file_cleaning
from flip27_source.enumerators.files.listing import choice as listing
from flip27_source.enumerators.kafka.enumerator import KafkaEnumerator
from flip27_source.executor import retries
from flip27_source.file_systems import durable_files
from flip27_source.file_systems import paths as file_systems
from flip27_source.file_systems.durable_files import DurableFiles
from flip27_source.readers.files import input as file_input
from flip27_source.savepoints.requested_savepoints import RequestedSavepoints
from flip27_source.snapshots import store as stores
from flip27_source.snapshots.driver_epochs import DriverEpoch
from flip27_source.snapshots.late_reports import LateReports
from flip27_source.snapshots.offsets import Offset
from flip27_source.snapshots.report_files import ReportStorage
from flip27_source.snapshots.requests import WaitingRequests
from flip27_source.snapshots.store import Store
from flip27_source.values import stored_values
from flip27_source.values.stored_values import StoredValues

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One defect."""

    patch: Patch

    @property
    def name(self) -> str:
        return self.patch.__name__


MUTATIONS: list[Mutation] = []


def mutation(patch: Patch) -> Patch:
    """Add a defect."""
    MUTATIONS.append(Mutation(patch))
    return patch


@mutation
def a_short_write_is_taken_for_success(patch: pytest.MonkeyPatch) -> None:
    def write_once(self: DurableFiles, handle: int, data: bytes) -> None:
        self._disk.write(handle, memoryview(data))

    patch.setattr(DurableFiles, "_write_all", write_once)


@mutation
def a_content_named_file_that_is_there_is_trusted(patch: pytest.MonkeyPatch) -> None:
    def write_once(self: DurableFiles, handle: int, data: bytes) -> None:
        view = memoryview(data)
        written = self._disk.write(handle, view)
        if written < len(view) // 2:  # notices only if most is cut off
            raise OSError("cut off")

    patch.setattr(DurableFiles, "_write_all", write_once)
    patch.setattr(Store, "ensure", lambda self, name, data: self.create(name, data))


@mutation
def the_folder_is_not_synced_after_a_file_was_named(patch: pytest.MonkeyPatch) -> None:
    class NoFolderSync:
        def __init__(self, disk: Any) -> None:
            self._disk = disk

        def __getattr__(self, name: str) -> Any:
            return getattr(self._disk, name)

        def sync_folder(self, path: str) -> None:
            pass

    before = DurableFiles.__init__

    def init(self: DurableFiles, root: str, disk: Any = durable_files.OS_DISK) -> None:
        before(self, root, disk if disk is durable_files.OS_DISK else NoFolderSync(disk))

    patch.setattr(DurableFiles, "__init__", init)


@mutation
def a_file_is_named_before_its_bytes_are_synced(patch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def written(self: DurableFiles, folder: str, chunks: Any, name: str | None = None) -> Any:
        self._make_folder(folder)
        temporary = os.path.join(folder, name or f".tmp-{os.urandom(16).hex()}")
        handle = self._disk.open_new(temporary)
        for chunk in chunks:
            self._write_all(handle, chunk)
        self._disk.close(handle)
        yield temporary
        with contextlib.suppress(OSError):
            self._disk.remove(temporary)

    patch.setattr(DurableFiles, "_written", written)


@mutation
def a_report_that_is_found_is_relied_on_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReportStorage, "rely_on", ReportStorage.read)


@mutation
def two_colons_in_a_name_are_taken_for_a_chain_of_file_systems(patch: pytest.MonkeyPatch) -> None:
    def first_of_chain(path: str) -> str | None:
        local = file_systems.local_path(path)
        return None if local is None else local.partition("::")[0]

    for module in (file_input, listing, stores):
        patch.setattr(module, "disk_path", first_of_chain)


@mutation
def a_renewal_that_is_late_brings_a_driver_back_to_life(patch: pytest.MonkeyPatch) -> None:
    def end(self: DriverEpoch) -> None:
        if self._renewed is not None:
            self._forget(self._renewed)
            self._renewed = None

    def renew(self: DriverEpoch, now_ms: int) -> None:
        before = self._renewed
        if before is not None:
            self._say(now_ms)
            if before != self._renewed:
                self._forget(before)

    patch.setattr(DriverEpoch, "end", end)
    patch.setattr(DriverEpoch, "renew", renew)


@mutation
def values_are_stored_without_a_check_of_what_decodes(patch: pytest.MonkeyPatch) -> None:
    for check in ("check", "check_split"):
        patch.setattr(StoredValues, check, lambda *_: None)
    patch.setattr(stored_values, "unstorable", lambda *_: None)
    patch.setattr(stored_values, "difference", lambda *_: None)


@mutation
def a_request_that_cannot_be_read_stops_the_query(patch: pytest.MonkeyPatch) -> None:
    def poll(self: Requests) -> WaitingRequests | None:
        found = None if self._folder is None else self._folder.waiting()
        for error in {} if found is None else (found.damaged | found.unread).values():
            raise error
        return found

    patch.setattr(Requests, "poll", poll)


@mutation
def a_savepoint_that_cannot_be_written_stops_the_query(patch: pytest.MonkeyPatch) -> None:
    def completed(self: Requests, metadata: CheckpointMetadata, offset: Offset) -> None:
        target, lineage, name = metadata.target_directory, offset.lineage, offset.name
        if target is not None and lineage is not None and name is not None:
            self._savepoints.make(target, lineage, name, metadata.timestamp_ms)

    patch.setattr(RequestedSavepoints, "problem_with", lambda *_: None)
    patch.setattr(Requests, "savepoint_completed", completed)


@mutation
def names_are_taken_for_globs_where_files_are_moved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(file_cleaning, "can_rename", lambda *_: True)


@mutation
def losses_of_kafka_are_not_reported(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KafkaEnumerator, "_report", lambda *_: None)


@mutation
def rows_that_expired_after_they_were_reported_stop_the_query(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retries, "_further_losses", lambda *_: [])


@mutation
def losses_that_a_repeated_task_finds_are_not_recorded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LateReports, "add_losses", lambda *_: None)


@mutation
def late_reports_are_not_collected(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DemandedReports, "_late", lambda *_: [])


@mutation
def a_restart_forgets_the_actions_that_wait(patch: pytest.MonkeyPatch) -> None:
    before = DelayedActions.__init__

    def init(self: DelayedActions, delay_ms: int | None = None, stored: Any = None, _: Any = ()) -> None:
        before(self, delay_ms, stored)

    patch.setattr(DelayedActions, "__init__", init)


@mutation
def the_delay_of_actions_begins_at_no_time(patch: pytest.MonkeyPatch) -> None:
    before = DelayedActions.take_due

    def take_due(self: DelayedActions, now_ms: int) -> Any:
        for group in self._fresh:
            group.since_ms = 0
        return before(self, now_ms)

    patch.setattr(DelayedActions, "take_due", take_due)
