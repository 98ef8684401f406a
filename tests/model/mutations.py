"""Ways to break the protocol on purpose: the invariant that a mutation breaks has to detect it.

A mutation changes the real code while a test runs. It is looked for in the orders of ``moves`` up to
``length``, which are played after the moves in ``begins``; the first step that breaks any invariant has to
break exactly those in ``breaks``. There is no mutation for I12 (see ``invariants``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from flip27_source.coordination.actions import PendingActions
from flip27_source.coordination.batch import Batch
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.gateway import SubtaskGateway
from flip27_source.coordination.ledger import Ledger
from flip27_source.coordination.report_delivery import ReportDelivery
from flip27_source.coordination.subtask_reports import SubtaskReport
from flip27_source.coordination.waiting_queues import WaitingQueues
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.driver.requests import Requests
from flip27_source.executor.retries import SubtaskAttempt
from flip27_source.snapshots import file_names
from flip27_source.snapshots.checkpoint_files import CheckpointStorage
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.driver_epochs import DriverEpoch
from flip27_source.snapshots.report_files import ReportStorage

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One way to break the protocol."""

    patch: Patch
    breaks: frozenset[str]
    moves: str
    length: int
    kind: str = "whole"
    begins: str = ""

    @property
    def name(self) -> str:
        return self.patch.__name__


MUTATIONS: list[Mutation] = []


def mutation(breaks: str, moves: str, length: int, **more: Any) -> Callable[[Patch], Patch]:
    """Add a mutation that breaks these invariants, in orders of these moves up to that length."""

    def add(patch: Patch) -> Patch:
        named = frozenset(breaks.split())
        MUTATIONS.append(Mutation(patch=patch, breaks=named, moves=moves, length=length, **more))
        return patch

    return add


@mutation("I1", "T e0 A0 A1 C", 5)
def events_stay_in_the_outbox_and_are_planned_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubtaskGateway, "take_events", lambda self: list(self._events._items))


@mutation("I1", "T", 1)
def events_sent_between_trigger_and_freeze_are_in_no_document(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubtaskGateway, "waiting_events", lambda _: iter(()))


@mutation("I1", "T r0 A0 C", 5)
def reports_are_folded_twice(patch: pytest.MonkeyPatch) -> None:
    notify = ReportDelivery.notify

    def twice(self: ReportDelivery[Any], **more: Any) -> None:
        notify(self, **more)
        for report in self.reports:
            for event in report.events:
                self._enumerator.handle_source_event(report.subtask_id, event)

    patch.setattr(ReportDelivery, "notify", twice)


@mutation("I1", "e1 T r0 r1 A0 A1 C", 8)
def reports_are_folded_in_the_wrong_order(patch: pytest.MonkeyPatch) -> None:
    backwards = property(
        lambda self: tuple(r for _, r in sorted(self._pending.reports.items(), reverse=True))
    )
    patch.setattr(ReportDelivery, "reports", backwards)


@mutation("I1", "e0 T", 3)
def events_are_planned_in_the_wrong_order(patch: pytest.MonkeyPatch) -> None:
    take = SubtaskGateway.take_events
    patch.setattr(SubtaskGateway, "take_events", lambda self: take(self)[::-1])


@mutation("I2", "T A0 C D", 5)
def a_restore_forgets_waiting_events(patch: pytest.MonkeyPatch) -> None:
    _edit_restored(patch, lambda snapshot: replace(snapshot, ledger=replace(snapshot.ledger, events=())))


@mutation("I2", "e1 T", 2)
def events_sent_before_the_freeze_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    take = SubtaskGateway.take_events

    def forget(self: SubtaskGateway[Any]) -> list[Any]:
        take(self)
        return []

    patch.setattr(SubtaskGateway, "take_events", forget)


@mutation("I3", "T e1", 2)
def gateways_do_not_close_at_the_freeze(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubtaskGateway, "try_close", lambda *_: True)


@mutation("I3", "T e0 A0 C", 5)
def events_that_were_held_back_are_dropped_when_the_gateway_opens(patch: pytest.MonkeyPatch) -> None:
    open_after = SubtaskGateway.open_after

    def drops(self: SubtaskGateway[Any], checkpoint_id: int) -> None:
        self._events._held.clear()
        open_after(self, checkpoint_id)

    patch.setattr(SubtaskGateway, "open_after", drops)


@mutation("I11", "T e1 A0 C", 5)
def splits_that_were_held_back_are_dropped_when_the_gateway_opens(patch: pytest.MonkeyPatch) -> None:
    open_after = SubtaskGateway.open_after

    def drops(self: SubtaskGateway[Any], checkpoint_id: int) -> None:
        self._splits._held.clear()
        open_after(self, checkpoint_id)

    patch.setattr(SubtaskGateway, "open_after", drops)


@mutation("I4", "T A0 C", 4)
def one_acknowledgement_opens_all_gateways(patch: pytest.MonkeyPatch) -> None:
    open_after = WaitingQueues.open_after

    def opens(self: WaitingQueues[Any], checkpoint_id: int, subtask_id: int) -> None:
        for number in self._gateways:
            open_after(self, checkpoint_id, number)

    patch.setattr(WaitingQueues, "open_after", opens)


@mutation("I2 I5", "T A0 C X", 5)
def an_abort_forgets_what_waits(patch: pytest.MonkeyPatch) -> None:
    start_over, restore = CoordinatorHolder._start_over, CheckpointStorage.restore

    def forgets(self: Any) -> None:
        start_over(self)
        self._storage.forgets = True

    def restored(self: Any, *arguments: Any, **more: Any) -> Any:
        snapshot = restore(self, *arguments, **more)
        if snapshot is None or not getattr(self, "forgets", False):
            return snapshot
        return replace(snapshot, ledger=replace(snapshot.ledger, events=()))

    patch.setattr(CoordinatorHolder, "_start_over", forgets)
    patch.setattr(CheckpointStorage, "restore", restored)


@mutation("I5 I9 I11", "T A0 C X", 5)
def an_abort_keeps_the_same_instance(patch: pytest.MonkeyPatch) -> None:
    standing = CoordinatorHolder._coordinator_at

    def continued(self: Any, offset: Any) -> Any:
        if self._coordinator is not None and offset != self._at:
            self._coordinator._pending = None
            self._coordinator._last_id = offset.checkpoint_id
            self._coordinator._ledger._planned_id = None
            for gateway in self._coordinator._queues._gateways.values():
                gateway.open()
                gateway._checkpoint_id = gateway._last_closed = offset.checkpoint_id
            self._at = offset
        return standing(self, offset)

    patch.setattr(CoordinatorHolder, "_coordinator_at", continued)


@mutation("I2 I6", "e0 T", 2)
def events_are_planned_for_another_subtask(patch: pytest.MonkeyPatch) -> None:
    add = Batch.add_events
    patch.setattr(Batch, "add_events", lambda self, subtask_id, events: add(self, 1 - subtask_id, events))


@mutation("I6", "e0 T F0 A0", 4)
def a_further_attempt_gets_no_events(patch: pytest.MonkeyPatch) -> None:
    read = SubtaskAttempt.read

    def without(self: SubtaskAttempt, reader: Any, splits: Any, events: Any, **more: Any) -> Any:
        return read(self, reader, splits, events if self._context.attempt_number == 0 else (), **more)

    patch.setattr(SubtaskAttempt, "read", without)


@mutation("I6", "e0 T D", 3)
def a_replay_plans_again(patch: pytest.MonkeyPatch) -> None:
    plan = CoordinatorHolder.plan

    def replanned(self: Any, start: Any, end: Any) -> Any:
        return plan(self, start, end if self._coordinator is not None else self.latest_offset(start, None))

    patch.setattr(CoordinatorHolder, "plan", replanned)


@mutation("I7", "T A0 C", 4)
def documents_do_not_know_their_parent(patch: pytest.MonkeyPatch) -> None:
    encode = SnapshotCodec.encode

    def orphan(self: SnapshotCodec, snapshot: Any, **more: Any) -> Any:
        return encode(self, snapshot, **{**more, "parent": None})

    patch.setattr(SnapshotCodec, "encode", orphan)


@mutation("I8", "T", 1)
def complete_is_told_when_the_document_is_written(patch: pytest.MonkeyPatch) -> None:
    written = CoordinatorHolder._written

    def tells(self: Any, *arguments: Any, **more: Any) -> Any:
        offset = written(self, *arguments, **more)
        self._coordinator.enumerator.notify_checkpoint_complete(offset.checkpoint_id)
        return offset

    patch.setattr(CoordinatorHolder, "_written", tells)


@mutation("I8", "T A0 C N", 4)
def complete_is_told_twice(patch: pytest.MonkeyPatch) -> None:
    notify = ReportDelivery.notify

    def twice(self: ReportDelivery[Any], **more: Any) -> None:
        notify(self, **more)
        self._enumerator.notify_checkpoint_complete(self._pending.checkpoint_id)

    patch.setattr(ReportDelivery, "notify", twice)


@mutation("I8", "T A0 C D", 5)
def pending_actions_are_in_no_document(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingActions, "pending", property(lambda _: ()))


@mutation("I8", "T e1 A0 C N", 5)
def actions_are_performed_at_the_first_completion_whatever_they_wait_for(patch: pytest.MonkeyPatch) -> None:
    take = PendingActions.take_due
    patch.setattr(PendingActions, "take_due", lambda self, checkpoint_id: take(self, checkpoint_id + 1))


@mutation("I9", "T A0 C D", 5)
def a_restart_resets_subtasks(patch: pytest.MonkeyPatch) -> None:
    start = SourceCoordinator.start

    def resets(self: SourceCoordinator[Any]) -> None:
        start(self)
        if self.last_checkpoint_id:
            self.enumerator.subtask_reset(0, self.last_checkpoint_id)

    patch.setattr(SourceCoordinator, "start", resets)


@mutation("I9", "T F0 A0 C N", 5)
def failed_attempts_are_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tests.model.toys.Exchange.subtask_reset", lambda *_: None)


@mutation("I10 I14", "T H", 2)
def a_checkpoint_that_could_not_be_written_stays_pending(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CoordinatorHolder, "_whole_or_not_at_all", lambda _: contextlib.nullcontext())


@mutation("I14", "Q", 1)
def a_coordinator_continues_after_its_enumerator_failed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CoordinatorHolder, "_whole_or_not_at_all", lambda _: contextlib.nullcontext())


@mutation("I14", "G", 1)
def an_error_of_the_enumerator_is_swallowed(patch: pytest.MonkeyPatch) -> None:
    next_after = CoordinatorHolder._next_after

    def swallows(self: Any, *arguments: Any, **more: Any) -> Any:
        try:
            return next_after(self, *arguments, **more)
        except Exception:  # noqa: BLE001 - this is the mutation
            return None

    patch.setattr(CoordinatorHolder, "_next_after", swallows)


@mutation("I11", "T A0 A1 C", 5, kind="paged")
def the_position_of_a_live_split_does_not_move(patch: pytest.MonkeyPatch) -> None:
    moved = Ledger.moved

    def stays(self: Ledger[Any], split_id: str, rest: Any) -> None:
        moved(self, split_id, rest if rest is None else self._live[split_id])

    patch.setattr(Ledger, "moved", stays)


@mutation("I11", "T A0 C", 4)
def a_returned_split_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tests.model.toys.Exchange.add_splits_back", lambda *_: None)


@mutation("I11", "e1 T A0 A1 C D", 7)
def a_restore_forgets_waiting_splits(patch: pytest.MonkeyPatch) -> None:
    _edit_restored(patch, lambda snapshot: replace(snapshot, ledger=replace(snapshot.ledger, waiting=())))


@mutation("I11", "T D L A0 A1 C", 6, kind="paged")
def an_attempt_that_read_on_counts_all_the_same(patch: pytest.MonkeyPatch) -> None:
    # Otherwise the comparison of the rows, which follows that of the ranges, would find the attempt that
    # has read further: it has more rows.
    patch.setattr(SubtaskReport, "same_ranges", lambda *_: True)
    patch.setattr(SubtaskAttempt, "_follow", lambda *_: None)


@mutation("I13", "T F0 A0 L", 4, kind="paged")
def a_later_attempt_writes_over_the_report(patch: pytest.MonkeyPatch) -> None:
    def replaces(self: ReportStorage, place: Any, report: Any) -> Any:
        file = file_names.report_file(place.lineage, place.name, place.subtask_id)
        self._store.replace(file, self._encode(place, report))
        return report

    patch.setattr(ReportStorage, "write", replaces)


@mutation("I13", "T A0 C", 3, begins="T r0 A0 X")
def reports_are_named_by_the_id_of_their_checkpoint_alone(patch: pytest.MonkeyPatch) -> None:
    def by_id(lineage: str, name: Any, subtask_id: int) -> str:
        return f"reports/{name.checkpoint_id}.{subtask_id}.json"

    patch.setattr(file_names, "report_file", by_id)


@mutation("I13", "T D A0 C e1 Z", 6)
def a_driver_that_was_replaced_is_not_stopped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DriverEpoch, "check", lambda _: None)


@mutation("edits", "S T K", 3, begins="T A0 A1 C")
def the_request_of_an_edit_is_deleted_before_its_checkpoint_is_complete(patch: pytest.MonkeyPatch) -> None:
    written = Requests.written

    def deletes(self: Requests, offset: Any) -> None:
        written(self, offset)
        self.edits_completed()

    patch.setattr(Requests, "written", deletes)


@mutation("edits", "T A0 A1 C", 4, begins="T A0 A1 C S T D")
def a_restart_does_not_know_which_edits_were_applied(patch: pytest.MonkeyPatch) -> None:
    restored_at = Requests.restored_at
    patch.setattr(Requests, "restored_at", lambda self, offset, _: restored_at(self, offset, None))


@mutation("edits", "S T K D", 3, begins="T A0 A1 C")
def a_restart_looks_for_no_requests(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Requests, "poll", lambda _: None)


def _edit_restored(patch: pytest.MonkeyPatch, edit: Callable[[Any], Any]) -> None:
    restore = CheckpointStorage.restore

    def edited(self: CheckpointStorage, *arguments: Any, **more: Any) -> Any:
        snapshot = restore(self, *arguments, **more)
        return None if snapshot is None else edit(snapshot)

    patch.setattr(CheckpointStorage, "restore", edited)
