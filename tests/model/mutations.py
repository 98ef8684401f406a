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

from flip27_source.coordination import coordinator as coordination
from flip27_source.coordination.actions import PendingActions
from flip27_source.coordination.batch_collector import Batch
from flip27_source.coordination.checkpoints import PendingCheckpoint
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.gateway import GatewayState, SubtaskGateway
from flip27_source.coordination.ledger import Ledger
from flip27_source.coordination.subtask_reports import SubtaskReport
from flip27_source.coordination.waiting_queues import WaitingQueues
from flip27_source.driver.cycle import Cycle
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.driver.requests import Requests
from flip27_source.executor.retries import SubtaskAttempt
from flip27_source.snapshots import file_names
from flip27_source.snapshots.checkpoint_files import CheckpointStorage
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.driver_epochs import DriverEpoch
from flip27_source.snapshots.report_files import ReportStorage
from tests.model.toys import Exchange
from tests.mutating import Patch, around


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
@around(SubtaskGateway, "take_events")
def events_stay_in_the_outbox_and_are_planned_again(_: Any, self: SubtaskGateway[Any]) -> list[Any]:
    return list(self.waiting_events())


@mutation("I1", "T", 1)
@around(SubtaskGateway, "waiting_events")
def events_sent_between_trigger_and_freeze_are_in_no_document(*_: Any) -> Any:
    return iter(())


@mutation("I1", "T r0 A0 C", 5)
@around(coordination, "notify_enumerator")
def reports_are_folded_twice(notify: Any, enumerator: Any, pending: Any, folded: Any, **more: Any) -> None:
    notify(enumerator, pending, folded, **more)
    for report in pending.reports_in_order:
        for event in report.events:
            enumerator.handle_source_event(report.subtask_id, event)


@mutation("I1", "e1 T r0 r1 A0 A1 C", 8)
def reports_are_folded_in_the_wrong_order(patch: pytest.MonkeyPatch) -> None:
    backwards = property(lambda self: tuple(r for _, r in sorted(self.reports.items(), reverse=True)))
    patch.setattr(PendingCheckpoint, "reports_in_order", backwards)


@mutation("I1", "e0 T", 3)
@around(SubtaskGateway, "take_events")
def events_are_planned_in_the_wrong_order(take: Any, self: SubtaskGateway[Any]) -> Any:
    return take(self)[::-1]


@mutation("I2", "T A0 C D", 5)
@around(CheckpointStorage, "restore")
def a_restore_forgets_waiting_events(restore: Any, *arguments: Any, **more: Any) -> Any:
    return _without(restore(*arguments, **more), events=())


@mutation("I2", "e1 T", 2)
@around(SubtaskGateway, "take_events")
def events_sent_before_the_freeze_are_forgotten(take: Any, self: SubtaskGateway[Any]) -> list[Any]:
    take(self)
    return []


@mutation("I3", "T e1", 2)
@around(SubtaskGateway, "try_close")
def gateways_do_not_close_at_the_freeze(*_: Any) -> bool:
    return True


@mutation("I3", "T e0 A0 C", 5)
@around(SubtaskGateway, "open_after")
def events_that_were_held_back_are_dropped_when_the_gateway_opens(
    open_after: Any, self: SubtaskGateway[Any], checkpoint_id: int
) -> None:
    available = self.take_events()
    open_after(self, checkpoint_id)
    self.take_events()
    for event in available:
        self.send_event(event)


@mutation("I11", "T e1 A0 C", 5)
@around(SubtaskGateway, "open_after")
def splits_that_were_held_back_are_dropped_when_the_gateway_opens(
    open_after: Any, self: SubtaskGateway[Any], checkpoint_id: int
) -> None:
    available = _taken(self)
    open_after(self, checkpoint_id)
    _taken(self)
    for split in available:
        self.send_split(split)


@mutation("I4", "T A0 C", 4)
@around(WaitingQueues, "open_after")
def one_acknowledgement_opens_all_gateways(
    open_after: Any, self: WaitingQueues[Any], checkpoint_id: int, subtask_id: int
) -> None:
    for number in self._gateways:
        open_after(self, checkpoint_id, number)


@mutation("I2 I5", "T A0 C X", 5)
def an_abort_forgets_what_waits(patch: pytest.MonkeyPatch) -> None:
    @around(Cycle, "reach")
    def forgets(reach: Any, self: Any, offset: Any) -> Any:
        self._storage.forgets = self.run is not None and offset != self.at
        return reach(self, offset)

    @around(CheckpointStorage, "restore")
    def restored(restore: Any, self: Any, *arguments: Any, **more: Any) -> Any:
        snapshot = restore(self, *arguments, **more)
        return _without(snapshot, events=()) if getattr(self, "forgets", False) else snapshot

    forgets(patch)
    restored(patch)


@mutation("I5 I9 I11", "T A0 C X", 5)
@around(Cycle, "reach")
def an_abort_keeps_the_same_instance(reach: Any, self: Cycle, offset: Any) -> Any:
    if self.run is not None and offset != self.at:
        coordinator = self.run.coordinator
        coordinator.pending = None
        coordinator.last_checkpoint_id = offset.checkpoint_id
        coordinator._ledger._planned_id = None
        for gateway in coordinator._queues._gateways.values():
            gateway.state = GatewayState.OPEN
            gateway._checkpoint_id = gateway._last_closed = offset.checkpoint_id
        self.at = offset
    return reach(self, offset)


@mutation("I2 I6", "e0 T", 2)
@around(Batch, "add_events")
def events_are_planned_for_another_subtask(add: Any, self: Any, subtask_id: int, events: Any) -> None:
    add(self, 1 - subtask_id, events)


@mutation("I6", "e0 T F0 A0", 4)
@around(SubtaskAttempt, "read")
def a_further_attempt_gets_no_events(
    read: Any, self: SubtaskAttempt, reader: Any, events: Any, **more: Any
) -> Any:
    return read(self, reader, events if self._context.attempt_number == 0 else (), **more)


@mutation("I6", "e0 T D", 3)
@around(CoordinatorHolder, "plan")
def a_replay_plans_again(plan: Any, self: Any, start: Any, end: Any) -> Any:
    return plan(self, start, end if self.cycle.run is not None else self.latest_offset(start, None))


@mutation("I7", "T A0 C", 4)
@around(SnapshotCodec, "encode")
def documents_do_not_know_their_parent(encode: Any, *arguments: Any, **more: Any) -> Any:
    return encode(*arguments, **{**more, "parent": None})


@mutation("I8", "T", 1)
@around(Cycle, "_write")
def complete_is_told_when_the_document_is_written(write: Any, self: Any, *arguments: Any) -> Any:
    offset = write(self, *arguments)
    self.run.coordinator.enumerator.notify_checkpoint_complete(offset.checkpoint_id)
    return offset


@mutation("I8", "T A0 C N", 4)
@around(coordination, "notify_enumerator")
def complete_is_told_twice(notify: Any, enumerator: Any, pending: Any, folded: Any, **more: Any) -> None:
    notify(enumerator, pending, folded, **more)
    enumerator.notify_checkpoint_complete(pending.checkpoint_id)


@mutation("I8", "T A0 C D", 5)
def pending_actions_are_in_no_document(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingActions, "pending", property(lambda _: ()))


@mutation("I8", "T e1 A0 C N", 5)
@around(PendingActions, "take_due")
def actions_are_performed_at_the_first_completion_whatever_they_wait_for(
    take: Any, self: PendingActions, checkpoint_id: int
) -> Any:
    return take(self, checkpoint_id + 1)


@mutation("I9", "T A0 C D", 5)
@around(SourceCoordinator, "start")
def a_restart_resets_subtasks(start: Any, self: SourceCoordinator[Any]) -> None:
    start(self)
    if self.last_checkpoint_id:
        self.enumerator.subtask_reset(0, self.last_checkpoint_id)


@mutation("I9", "T F0 A0 C N", 5)
@around(Exchange, "subtask_reset")
def failed_attempts_are_not_told(*_: Any) -> None:
    pass


@mutation("I10 I14", "T H", 2)
@around(Cycle, "whole_or_not_at_all")
def a_checkpoint_that_could_not_be_written_stays_pending(*_: Any) -> Any:
    return contextlib.nullcontext()


@mutation("I14", "Q", 1)
@around(Cycle, "whole_or_not_at_all")
def a_coordinator_continues_after_its_enumerator_failed(*_: Any) -> Any:
    return contextlib.nullcontext()


@mutation("I14", "G", 1)
@around(Cycle, "next")
def an_error_of_the_enumerator_is_swallowed(next_: Any, *arguments: Any) -> Any:
    try:
        return next_(*arguments)
    except Exception:  # noqa: BLE001 - this is the mutation
        return None


@mutation("I11", "T A0 A1 C", 5, kind="paged")
@around(Ledger, "moved")
def the_position_of_a_live_split_does_not_move(
    moved: Any, self: Ledger[Any], split_id: str, rest: Any
) -> None:
    moved(self, split_id, rest if rest is None else self._live[split_id])


@mutation("I11", "T A0 C", 4)
@around(Exchange, "add_splits_back")
def a_returned_split_is_forgotten(*_: Any) -> None:
    pass


@mutation("I11", "e1 T A0 A1 C D", 7)
@around(CheckpointStorage, "restore")
def a_restore_forgets_waiting_splits(restore: Any, *arguments: Any, **more: Any) -> Any:
    return _without(restore(*arguments, **more), waiting=())


@mutation("I11", "T D L A0 A1 C", 6, kind="paged")
def an_attempt_that_read_on_counts_all_the_same(patch: pytest.MonkeyPatch) -> None:
    # Otherwise the comparison of the rows, which follows that of the ranges, would find the attempt that
    # has read further: it has more rows.
    patch.setattr(SubtaskReport, "same_ranges", lambda *_: True)
    patch.setattr(SubtaskAttempt, "_follow", lambda *_: None)


@mutation("I13", "T F0 A0 L", 4, kind="paged")
@around(ReportStorage, "write")
def a_later_attempt_writes_over_the_report(_: Any, self: ReportStorage, place: Any, report: Any) -> Any:
    file = file_names.report_file(place.lineage, place.name, place.subtask_id)
    self._store.replace(file, self._encode(place, report))
    return report


@mutation("I13", "T A0 C", 3, begins="T r0 A0 X")
@around(file_names, "report_file")
def reports_are_named_by_the_id_of_their_checkpoint_alone(
    _: Any, _lineage: str, name: Any, subtask_id: int
) -> str:
    return f"reports/{name.checkpoint_id}.{subtask_id}.json"


@mutation("I13", "T D A0 C e1 Z", 6)
@around(DriverEpoch, "check")
def a_driver_that_was_replaced_is_not_stopped(*_: Any) -> None:
    pass


@mutation("edits", "S T K", 3, begins="T A0 A1 C")
@around(Requests, "was_withdrawn")
def the_request_of_an_edit_is_deleted_before_its_checkpoint_is_complete(
    was_withdrawn: Any, self: Requests
) -> Any:
    withdrawn = was_withdrawn(self)
    self._delete_recorded()
    return withdrawn


@mutation("edits", "T A0 A1 C", 4, begins="T A0 A1 C S T D")
@around(Requests, "restored_at")
def a_restart_does_not_know_which_edits_were_applied(
    restored_at: Any, self: Requests, offset: Any, _: Any
) -> None:
    restored_at(self, offset, None)


@mutation("edits", "S T K D", 3, begins="T A0 A1 C")
@around(Requests, "poll")
def a_restart_looks_for_no_requests(*_: Any) -> None:
    pass


def _without(snapshot: Any, **ledger: Any) -> Any:
    """A snapshot with other contents of its ledger."""
    return None if snapshot is None else replace(snapshot, ledger=replace(snapshot.ledger, **ledger))


def _taken(gateway: SubtaskGateway[Any]) -> list[Any]:
    """The splits that the next plan could take, which are taken."""
    return [gateway.take() for _ in iter(lambda: gateway.peek() is not None, False)]
