"""Defects that the project once had or nearly had: each is put back to check that the simulator finds it."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import fsspec
import msgspec
import pytest

from flip27_source.coordination import coordinator as coordination
from flip27_source.coordination import split_rules
from flip27_source.coordination.batch_limits import UNLIMITED
from flip27_source.coordination.batch_sizing import BatchSizer, BatchTimes
from flip27_source.coordination.checkpoints import CheckpointMetadata
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.delayed_actions import DelayedActions
from flip27_source.coordination.event_time_order import EventTimeOrder
from flip27_source.coordination.subtask_reports import ReportDemand
from flip27_source.discovery import DiscoveringEnumerator
from flip27_source.driver import reports
from flip27_source.driver.reports import SubtaskReports, report_demand
from flip27_source.driver.requests import Requests
from flip27_source.driver.restored_state import StateRestorer
from flip27_source.enumerator_mixins import NamedPosition
from flip27_source.enumerators.files import archive as file_archive
from flip27_source.enumerators.files import event_times
from flip27_source.enumerators.files.archive import RemoteFile
from flip27_source.enumerators.files.cleaning import FinishedRanges
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.listing import choice as listing
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.enumerators.kafka.assigner import Assigner
from flip27_source.enumerators.kafka.cluster import Cluster
from flip27_source.enumerators.kafka.enumerator import KafkaEnumerator
from flip27_source.enumerators.kafka.losses import LossReports
from flip27_source.enumerators.kafka.options import MIN_OFFSETS_PER_TRIGGER
from flip27_source.enumerators.kafka.poller import ClusterPoller
from flip27_source.enumerators.kafka.split import EARLIEST, LATEST, fields_at
from flip27_source.enumerators.kafka.time_ladder import TimeLadder
from flip27_source.errors import AccessError, DiscoveryError
from flip27_source.executor import retries, split_read
from flip27_source.file_systems import durable_files
from flip27_source.file_systems import paths as file_systems
from flip27_source.file_systems.durable_files import DurableFiles
from flip27_source.readers.files import input as file_input
from flip27_source.readers.kafka import reader as kafka_reader
from flip27_source.readers.kafka.fetches import Fetches
from flip27_source.readers.kafka.reader import KafkaReader
from flip27_source.savepoints.requested_savepoints import RequestedSavepoints
from flip27_source.snapshots import file_names
from flip27_source.snapshots import store as stores
from flip27_source.snapshots.driver_epochs import DriverEpoch
from flip27_source.snapshots.late_reports import LateReports
from flip27_source.snapshots.offsets import Offset
from flip27_source.snapshots.report_files import ReportStorage
from flip27_source.snapshots.request_mailbox import WaitingRequests
from flip27_source.snapshots.store import Store
from flip27_source.snapshots.stored_lineage import Line, StoredLineage
from flip27_source.values import stored_values
from flip27_source.values.stored_values import StoredValues
from tests.mutating import Patch, around

MUTATIONS: list[Patch] = []
LIVES: dict[Patch, str] = {}
"""The lives that show a defect, where only one kind does."""


def mutation(patch: Patch) -> Patch:
    """Add a defect."""
    MUTATIONS.append(patch)
    return patch


def mutation_of_topics(patch: Patch) -> Patch:
    """Add a defect of the kafka source."""
    LIVES[patch] = "topics"
    return mutation(patch)


def mutation_of_files(patch: Patch) -> Patch:
    """Add a defect of the files source."""
    LIVES[patch] = "files"
    return mutation(patch)


@mutation_of_files
@around(BatchTimes, "limits")
def batches_that_size_themselves_may_hold_nothing(limits: Any, self: Any, target_ms: int) -> Any:
    found = limits(self, target_ms)
    return found if found.files is None else msgspec.structs.replace(found, files=found.files // 2)


@mutation_of_files
@around(BatchSizer, "of")
def a_restart_forgets_how_long_batches_took(of: Any, options: Any, _: BatchTimes | None) -> Any:
    return of(options, None)


@mutation_of_files
@around(BatchSizer, "tighten")
def a_batch_does_not_keep_to_the_limits_that_were_decided(tighten: Any, self: Any, limits: Any) -> Any:
    tighten(self, limits)
    return limits or UNLIMITED


@mutation_of_files
@around(FilesEnumerator, "_has_times")
def files_that_wait_keep_the_event_times_of_another_pattern(*_: Any) -> bool:
    return True


@mutation_of_files
@around(FilesEnumerator, "_sort_waiting")
def files_that_are_found_while_others_get_their_event_times_are_lost(
    sort: Any, self: FilesEnumerator, *change: Any
) -> None:
    if change:
        self._pages = deque(list(self._pages)[:1])
    sort(self, *change)


@mutation_of_files
@around(DiscoveringEnumerator, "handle_split_request")
def files_that_are_found_later_wait_for_those_that_were_found_before(
    request: Any, self: DiscoveringEnumerator[Any], subtask_id: int
) -> None:
    is_in_order, self._by_event_time = self._by_event_time, False
    request(self, subtask_id)
    self._by_event_time = is_in_order


@mutation_of_files
@around(event_times, "bucket_ranges")
def the_last_bucket_drops_rows_after_the_times_of_its_file(bucket_ranges: Any, *times: Any) -> Any:
    *buckets, last = bucket_ranges(*times) or [None]
    if last is None:
        return []
    bucket, part = last
    closed = msgspec.structs.replace(bucket, end_us=part.latest_us + 1)
    return [*buckets, (closed, part)]


@mutation_of_files
@around(FinishedRanges, "completes")
def a_file_counts_as_read_when_one_of_its_buckets_was(completes: Any, self: Any, split: FileSplit) -> bool:
    return bool(split.bucket) or bool(completes(self, split))


@mutation_of_files
@around(EventTimeOrder, "of")
def a_restart_forgets_the_largest_event_time(of: Any, options: Any, _: Any) -> Any:
    return of(options, None)


@mutation
@around(DurableFiles, "_write_all")
def a_short_write_is_taken_for_success(_: Any, self: DurableFiles, handle: int, data: bytes) -> None:
    self._disk.write(handle, memoryview(data))


@mutation
def a_content_named_file_that_is_there_is_trusted(patch: pytest.MonkeyPatch) -> None:
    def write_once(self: DurableFiles, handle: int, data: bytes) -> None:
        view = memoryview(data)
        written = self._disk.write(handle, view)
        if written < len(view) // 2:  # notices only if most is cut off
            raise OSError("cut off")

    patch.setattr(DurableFiles, "_write_all", write_once)
    patch.setattr(Store, "ensure", lambda self, name, data: self.create(name, data))


class _NoFolderSync:
    def __init__(self, disk: Any) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def sync_folder(self, path: str) -> None:
        pass


@mutation
@around(DurableFiles, "__init__")
def the_folder_is_not_synced_after_a_file_was_named(
    init: Any, self: DurableFiles, root: str, disk: Any = durable_files.OS_DISK
) -> None:
    init(self, root, disk if disk is durable_files.OS_DISK else _NoFolderSync(disk))


@mutation
@around(DurableFiles, "_written")
@contextlib.contextmanager
def a_file_is_named_before_its_bytes_are_synced(
    _: Any, self: DurableFiles, folder: str, chunks: Any, name: str | None = None
) -> Any:
    self._make_folder(folder)
    temporary = os.path.join(folder, name or f".tmp-{os.urandom(16).hex()}")
    handle = self._disk.open_new(temporary)
    for chunk in chunks:
        self._write_all(handle, chunk)
    self._disk.close(handle)
    yield temporary
    with contextlib.suppress(OSError):
        self._disk.remove(temporary)


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
@around(DriverEpoch, "_say")
def a_renewal_that_is_late_brings_a_driver_back_to_life(_: Any, self: DriverEpoch, now_ms: int) -> None:
    name = file_names.renewal_file(self.lineage, self.epoch, now_ms)
    older, self._said = self._said - {name}, {name}
    self._store.create(name, b"")
    for gone in older:
        self._forget(gone)


@mutation
def values_are_stored_without_a_check_of_what_decodes(patch: pytest.MonkeyPatch) -> None:
    for check in ("check", "check_split"):
        patch.setattr(StoredValues, check, lambda *_: None)
    patch.setattr(stored_values, "unstorable", lambda *_: None)
    patch.setattr(stored_values, "difference", lambda *_: None)


@mutation
@around(Requests, "poll")
def a_request_that_cannot_be_read_stops_the_query(_: Any, self: Requests) -> WaitingRequests | None:
    waiting = None if self._folder is None else self._folder.waiting()
    for error in {} if waiting is None else (waiting.damaged | waiting.unread).values():
        raise error
    return waiting


@mutation
def a_savepoint_that_cannot_be_written_stops_the_query(patch: pytest.MonkeyPatch) -> None:
    def finish(self: Requests, metadata: CheckpointMetadata, offset: Offset) -> None:
        target, lineage, name = metadata.target_directory, offset.lineage, offset.name
        if target is not None and lineage is not None and name is not None:
            self._savepoints.make(target, lineage, name, metadata.timestamp_ms)

    patch.setattr(RequestedSavepoints, "problem_with", lambda *_: None)
    patch.setattr(Requests, "_finish_savepoint", finish)


@mutation
@around(file_archive, "can_rename")
def names_are_taken_for_globs_where_files_are_moved(*_: Any) -> bool:
    return True


@mutation_of_files
@around(RemoteFile, "_copy")
def a_file_of_another_process_in_the_archive_is_overwritten(_: Any, self: RemoteFile, target: str) -> None:
    self._fs.cp_file(self._path, target)


@mutation_of_files
@around(RemoteFile, "_copy")
def a_copy_in_the_archive_is_not_compared_with_its_original(copy: Any, self: Any, target: str) -> None:
    copy(self, target)
    self._is_in = lambda *_: True


@mutation_of_topics
@around(LossReports, "report")
def losses_of_kafka_are_not_reported(*_: Any, **_more: Any) -> None:
    pass


@mutation
@around(retries, "_further_losses")
def rows_that_expired_after_they_were_reported_stop_the_query(*_: Any) -> list[Any]:
    return []


@mutation
@around(LateReports, "add_losses")
def losses_that_a_repeated_task_finds_are_not_recorded(*_: Any) -> None:
    pass


@mutation
@around(SubtaskReports, "_late")
def late_reports_are_not_collected(*_: Any) -> list[Any]:
    return []


@mutation
@around(DelayedActions, "__init__")
def a_restart_forgets_the_actions_that_wait(
    init: Any, self: DelayedActions, delay_ms: int | None = None, stored: Any = None, restored: Any = ()
) -> None:
    init(self, delay_ms, stored)


@mutation
@around(DelayedActions, "take_due")
def the_delay_of_actions_begins_at_no_time(take_due: Any, self: DelayedActions, now_ms: int) -> Any:
    for group in self._fresh:
        group.since_ms = 0
    return take_due(self, now_ms)


@mutation
def state_is_read_through_a_cache_of_listings(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(file_systems, "_without_listings", lambda name, given: fsspec.filesystem(name, **given))
    patch.setattr(stores, "read_remote_file", lambda fs, path, _: bytes(fs.cat_file(path)))
    patch.setattr(Store, "read_surely", lambda self, *arguments: self.read(*arguments))


@mutation
def files_that_are_out_of_reach_are_quarantined(patch: pytest.MonkeyPatch) -> None:
    others = tuple(kind for kind in split_rules._NOT_THE_SPLIT if kind is not AccessError)
    patch.setattr(split_rules, "_NOT_THE_SPLIT", others)


@mutation
def reports_count_by_the_options_of_the_present_run(patch: pytest.MonkeyPatch) -> None:
    @around(SubtaskReports, "__init__")
    def knows(init: Any, self: Any, source: Any, *more: Any) -> None:
        init(self, source, *more)
        self.demand = report_demand(source)

    @around(SubtaskReports, "collect")
    def collects(collect: Any, self: Any, *more: Any) -> None:
        if self.demand is not ReportDemand.NONE:
            collect(self, *more)

    knows(patch)
    collects(patch)


@mutation
@around(coordination, "notify_enumerator")
def senders_of_events_have_the_numbers_of_an_earlier_run(notify: Any, *more: Any, **named: Any) -> None:
    notify(*more, **{**named, "settings": replace(named["settings"], parallelism=1000)})


@mutation
@around(reports, "with_late")
def late_losses_of_splits_with_a_result_are_dropped(with_late: Any, report: Any, late: Any, ids: Any) -> Any:
    return with_late(report, late, ids - {item.split_id for item in report.results})


@mutation
@around(split_read._Pages, "exhausted")
def a_split_has_caught_up_after_an_error(exhausted: Any, self: Any, *, after_error: bool = False) -> Any:
    result = exhausted(self, after_error=after_error)
    return replace(result, caught_up=True)


@mutation
@around(StoredLineage, "_head")
def the_newest_checkpoint_is_the_one_with_the_highest_id(_: Any, _self: Any, names: Any) -> Line:
    return Line(names=(max(names),)) if names else Line()


@mutation
@around(SourceCoordinator, "checkpoint")
def splits_rest_by_the_wall_clock(
    checkpoint: Any, self: Any, metadata: Any, limits: Any, _: int, **more: Any
) -> Any:
    return checkpoint(self, metadata, limits, metadata.timestamp_ms, **more)


@mutation
@around(Requests, "_finish_savepoint")
def a_savepoint_that_was_deleted_comes_back(
    finish: Any, self: Requests, metadata: CheckpointMetadata, offset: Offset
) -> None:
    finish(self, metadata, offset)
    if metadata.target_directory is not None and offset.lineage is not None and offset.name is not None:
        self._savepoints.make(metadata.target_directory, offset.lineage, offset.name, metadata.timestamp_ms)


@mutation
@around(StateRestorer, "_check_not_rolled_back")
def an_older_copy_of_the_checkpoint_location_is_used(_: Any, *_more: Any) -> None:
    pass


@mutation_of_topics
@around(KafkaReader, "_recreated")
def ids_of_topics_are_not_compared_after_the_last_record(
    recreated: Any, self: Any, ranges: Any, timeout_s: float, *read: Any
) -> dict[str, str]:
    return {} if read else recreated(self, ranges, timeout_s)


@mutation_of_topics
@around(kafka_reader, "other_topics")
def a_topic_that_is_not_described_after_the_last_record_is_the_same(
    other_topics: Any, *more: Any, **named: Any
) -> dict[str, str]:
    return other_topics(*more, **{**named, "read": ()})


@mutation_of_topics
@around(ClusterPoller, "_all_offsets")
def a_batch_read_ends_anywhere_if_a_partition_has_no_leader(
    _: Any, self: Any, bounds: Any, present: Any, ends: Any, *, is_start: bool = False
) -> Any:
    return self._offsets(self._given(bounds, present), ends, is_start=is_start)


@mutation_of_topics
@around(TimeLadder, "end_at")
def a_batch_of_kafka_ends_behind_its_horizon(
    end_at: Any, self: Any, key: Any, start: int, end: int, latest_ms: int | None
) -> Any:
    return end_at(self, key, start, end, None if latest_ms is None else latest_ms + 2 * self.step_ms)


@mutation_of_topics
@around(kafka_reader, "client_properties")
def damaged_bytes_of_kafka_are_delivered(properties: Any, options: Any) -> Any:
    made = properties(options)
    return replace(made, values={**made.values, "check.crcs": "false"})


@mutation_of_topics
@around(kafka_reader, "bytes_of")
def headers_that_nobody_selects_are_decoded(bytes_of: Any, messages: Any, **_: Any) -> int:
    return int(bytes_of(messages, with_headers=True))


@mutation_of_topics
@around(kafka_reader, "bytes_of")
def keys_and_headers_do_not_count(_: Any, messages: Any, **_more: Any) -> int:
    return sum(map(len, messages))


@mutation_of_topics
@around(Fetches, "_out_of_range")
def a_partition_without_a_leader_is_never_assigned_again(out_of_range: Any, self: Any, item: Any) -> None:
    out_of_range(self, item)
    item.has_failed = False


@mutation_of_topics
@around(ClusterPoller, "_described")
def a_pattern_whose_topics_are_all_deleted_ends_the_query(described: Any, self: Any, request: Any) -> Any:
    topics = described(self, request)
    if not topics:
        raise DiscoveryError("the cluster has no partition", remedy="check the names")
    return topics


@mutation_of_topics
@around(Assigner, "after_loss")
def a_partition_that_lost_its_last_records_is_read_again(
    after_loss: Any, self: Any, split: Any, loss: Any
) -> Any:
    return after_loss(self, split, replace(loss, begins=0) if loss.is_at_end else loss)


@mutation_of_topics
def a_repeated_batch_must_have_the_records_that_were_compacted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KafkaReader, "repeatable", True)


@mutation_of_topics
@around(Cluster, "high_watermarks")
def an_open_transaction_that_is_no_longer_read_is_lost(_: Any, self: Cluster, partitions: Any) -> Any:
    return self.offsets(dict.fromkeys(partitions, LATEST))


@mutation_of_topics
@around(ClusterPoller, "_checked")
def a_batch_read_must_not_start_after_the_end(
    checked: Any, self: Any, key: Any, offset: int, end: int, top: int, **_: Any
) -> int:
    return int(checked(self, key, offset, end, top, is_start=False))


@mutation_of_topics
@around(Assigner, "forget_skipped")
def a_topic_that_was_skipped_is_ignored_for_ever(_: Any, self: Assigner, live: Any) -> list[str]:
    return []


@mutation_of_topics
@around(Assigner, "forget_skipped")
def a_skipped_topic_that_the_brokers_did_not_know_for_a_while_is_new(
    forget_skipped: Any, self: Any, live: Any
) -> Any:
    forgotten = forget_skipped(self, live)
    for topic in (self._topics or {}).values():
        topic.lost = {number: split for number, split in topic.lost.items() if split is not None}
    return forgotten


@mutation_of_topics
@around(Assigner, "located")
def an_edit_to_a_word_hides_that_a_topic_is_gone(located: Any, self: Any, split: Any) -> Any:
    return self._at_offset(split) if split.next < 0 else located(self, split)


@mutation_of_topics
@around(Assigner, "successor")
def an_edit_to_a_word_hides_that_a_topic_was_recreated(successor: Any, self: Any, split: Any) -> Any:
    return None if split.next < 0 else successor(self, split)


@mutation_of_topics
@around(Assigner, "_describe")
def a_topic_without_an_id_has_that_of_the_topic_before(
    describe: Any, self: Any, topics: Any, present: Any, *more: Any
) -> None:
    ids = {
        name: topic.topic_id or (name in topics and topics[name].topic_id) for name, topic in present.items()
    }
    describe(
        self,
        topics,
        {name: replace(topic, topic_id=ids[name] or None) for name, topic in present.items()},
        *more,
    )


@mutation_of_topics
@around(KafkaEnumerator, "readable")
def the_offset_of_a_word_is_not_stored_while_batches_wait(readable: Any, self: Any, live: Any) -> Any:
    found = readable(self, live)
    is_waiting = self.options_given[MIN_OFFSETS_PER_TRIGGER] and all(split.next < 0 for split in found)
    return () if is_waiting else found


@mutation_of_topics
@around(ClusterPoller, "_offsets")
def new_partitions_without_leaders_stop_the_query(
    offsets: Any, self: Any, positions: Any, ends: Any, **more: Any
) -> Any:
    self._connected.offsets(dict.fromkeys(positions, EARLIEST))
    return offsets(self, positions, ends, **more)


@mutation_of_topics
def an_edit_to_an_offset_takes_the_id_of_the_topic_away(patch: pytest.MonkeyPatch) -> None:
    def without_id(position: NamedPosition) -> dict[str, Any]:
        return {**fields_at(position), "topic_id": None}

    patch.setattr(KafkaEnumerator, "fields_at", staticmethod(without_id))


@mutation_of_topics
@around(Fetches, "_too_late")
def the_cause_of_missing_records_is_hidden(too_late: Any, self: Any, item: Any) -> Any:
    self._causes.clear()
    return too_late(self, item)


@mutation_of_topics
@around(Fetches, "_group")
def the_time_in_which_rows_are_taken_counts_as_silence_of_the_brokers(
    group: Any, self: Any, ranges: Any
) -> Iterator[Any]:
    for run in group(self, ranges):
        before = self._deadline
        yield run
        self._deadline = before
