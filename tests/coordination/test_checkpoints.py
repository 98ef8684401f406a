"""PendingCheckpoint: its states, what it waits for, what counts for it, and what an abort leaves behind."""

from __future__ import annotations

import itertools
import re
from typing import Any, Generic

import pytest

from flip27_source.coordination import waiting_queues
from flip27_source.coordination.checkpoint_states import (
    CHECKPOINT_TRANSITIONS,
    CheckpointCall,
    CheckpointState,
    transition,
)
from flip27_source.coordination.checkpoints import (
    CheckpointMetadata,
    LedgerState,
    PendingCheckpoint,
    Snapshot,
)
from flip27_source.coordination.context import CoordinatorSettings
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.gateway import GatewayState, SubtaskGateway
from flip27_source.coordination.packing import Assignment, Plan
from flip27_source.coordination.subtask_reports import AcknowledgeResult, ReportDemand, SubtaskReport
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import ProtocolError
from flip27_source.options import Options
from flip27_source.split import SplitT
from tests.coordination.test_coordinator import shelf_of
from tests.toy_sources import EchoReader, Item, Shelf, Works, coordinator_of, frozen, items, plan_ids

SUCCESS, DUPLICATE = AcknowledgeResult.SUCCESS, AcknowledgeResult.DUPLICATE
UNKNOWN, DISCARDED = AcknowledgeResult.UNKNOWN, AcknowledgeResult.DISCARDED


def pending(
    *subtasks: int, checkpoint_id: int = 5, reports: ReportDemand = ReportDemand.REQUIRED
) -> PendingCheckpoint[Item]:
    """A frozen checkpoint whose plan has one split for each of these subtasks."""
    assignments = tuple(Assignment(subtask_id=i, splits=(Item(split_id=f"s{i}"),)) for i in subtasks)
    return PendingCheckpoint(
        snapshot=Snapshot(
            metadata=CheckpointMetadata(checkpoint_id=checkpoint_id, timestamp_ms=0),
            enumerator_state=[],
            ledger=LedgerState(),
            plan=Plan(assignments=assignments, reports=reports),
        )
    )


def report(subtask_id: int, checkpoint_id: int = 5, **more: Any) -> SubtaskReport[Item]:
    return SubtaskReport(checkpoint_id=checkpoint_id, subtask_id=subtask_id, **more)


def test_a_checkpoint_waits_for_every_subtask_of_its_plan_and_keeps_each_report_S32() -> None:
    at = pending(0, 2)
    assert at.not_yet_acknowledged == {0, 2}
    result, at = at.acknowledged(report(2))
    assert (result, at.not_yet_acknowledged) == (SUCCESS, {0})
    result, at = at.acknowledged(report(0))
    assert (result, at.not_yet_acknowledged) == (SUCCESS, frozenset())
    assert at.reports == {0: report(0), 2: report(2)}


@pytest.mark.parametrize("reports", [ReportDemand.NONE, ReportDemand.WANTED])
def test_a_checkpoint_does_not_wait_for_reports_that_nothing_depends_on_S32(reports: ReportDemand) -> None:
    assert pending(0, 1, reports=reports).not_yet_acknowledged == frozenset()


def test_a_checkpoint_stops_waiting_for_a_subtask_whose_splits_are_read_again_S32() -> None:
    assert pending(0, 1).repeated(1).not_yet_acknowledged == {0}


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        (report(0), DUPLICATE),
        (report(7), UNKNOWN),
        (report(1, checkpoint_id=4), DISCARDED),
        (report(1, checkpoint_id=6), DISCARDED),
    ],
    ids=["a second report", "of another subtask", "of an older checkpoint", "of a newer checkpoint"],
)
def test_a_duplicate_or_foreign_acknowledgement_changes_nothing_S25_S33(
    late: SubtaskReport[Item], expected: AcknowledgeResult
) -> None:
    _, before = pending(0, 1).acknowledged(report(0))
    result, after = before.acknowledged(late)
    assert result is expected
    assert after is before


def reporting(parallelism: int = 2, enumerator: type[Shelf] = Shelf) -> SourceCoordinator[Item]:
    settings = CoordinatorSettings(
        boundedness=Boundedness.CONTINUOUS_UNBOUNDED,
        parallelism=parallelism,
        max_partition_bytes=None,
        reader_type=EchoReader,
        options=Options.parse({}, ()),
        reports=ReportDemand.REQUIRED,
    )
    made: SourceCoordinator[Item] = SourceCoordinator(enumerator, settings, Works())
    made.start()
    return made


def test_a_frozen_checkpoint_is_complete_only_after_its_subtasks_have_acknowledged_S1_S20() -> None:
    """Before that the enumerator is not notified; there is no timeout that would complete the checkpoint."""
    coordinator = reporting()
    shelf_of(coordinator).context.assign_splits({0: items("a"), 1: items("b")})
    made = frozen(coordinator)
    assert plan_ids(made.snapshot.plan) == {0: ["a"], 1: ["b"]}
    for acknowledged, missing in ((None, r"\[0, 1\]"), (1, r"\[0\]")):
        if acknowledged is not None:
            assert coordinator.acknowledge(report(acknowledged, checkpoint_id=1)) is SUCCESS
        with pytest.raises(ProtocolError, match=f"subtasks {missing} have not acknowledged it"):
            coordinator.complete(1)
        assert "complete 1" not in shelf_of(coordinator).calls
    coordinator.acknowledge(report(0, checkpoint_id=1))
    assert coordinator.complete(1)
    assert shelf_of(coordinator).calls[-1] == "complete 1"


def test_an_acknowledgement_opens_the_gateway_of_its_subtask_and_the_others_stay_closed_S5_S6_I4(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateways: list[SubtaskGateway[Any]] = []

    class Known(SubtaskGateway[SplitT], Generic[SplitT]):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            gateways.append(self)

    monkeypatch.setattr(waiting_queues, "SubtaskGateway", Known)
    coordinator = reporting(parallelism=3)
    context = shelf_of(coordinator).context
    context.assign_splits({0: items("a"), 1: items("b")})
    frozen(coordinator)
    context.assign_splits({0: items("late-0"), 1: items("late-1"), 2: items("late-2")})
    states = []
    for subtask_id in (1, 0):
        coordinator.acknowledge(report(subtask_id, checkpoint_id=1))
        states.append([gateway.state.value for gateway in gateways])
    assert states == [["closed", "open", "closed"], ["open", "open", "closed"]]
    coordinator.complete(1)
    assert {gateway.state for gateway in gateways} == {GatewayState.OPEN}
    assert plan_ids(frozen(coordinator).snapshot.plan) == {0: ["late-0"], 1: ["late-1"], 2: ["late-2"]}


def test_acknowledgements_without_a_pending_checkpoint_are_discarded_S25() -> None:
    coordinator = reporting()
    assert coordinator.acknowledge(report(0, checkpoint_id=1)) is DISCARDED
    shelf_of(coordinator).context.assign_split(Item(split_id="a"), 0)
    frozen(coordinator)
    coordinator.acknowledge(report(0, checkpoint_id=1))
    coordinator.complete(1)
    assert coordinator.acknowledge(report(0, checkpoint_id=1)) is DISCARDED
    assert shelf_of(coordinator).calls.count("complete 1") == 1


def test_the_plan_of_an_abandoned_checkpoint_is_made_again_from_the_previous_checkpoint_S34() -> None:
    """A pending checkpoint is a value: after it is abandoned there is nothing to dispose of."""
    coordinator = coordinator_of()
    shelf_of(coordinator).shelf.extend(items("a"))
    first = frozen(coordinator).snapshot
    coordinator.complete(1)
    shelf_of(coordinator).shelf.extend(items("b"))
    given_up = frozen(coordinator)
    shelf_of(coordinator).context.assign_split(Item(split_id="c"), 0)
    restored = coordinator_of(restored=first)
    shelf_of(restored).shelf.extend(items("b"))
    assert frozen(restored) == given_up
    assert restored.pending is not coordinator.pending


def test_state_is_given_before_start_and_start_precedes_every_other_call_S47() -> None:
    class Looks(Shelf):
        def start(self) -> None:
            super().start()
            self.calls.append(f"knows {[item.split_id for item in self.shelf]}")

    coordinator = coordinator_of(Looks)
    shelf_of(coordinator).context.assign_split(Item(split_id="a"), 0)
    made = frozen(coordinator).snapshot
    restored = coordinator_of(
        Looks,
        restored=Snapshot(
            metadata=made.metadata, enumerator_state=items("x", "y"), ledger=made.ledger, plan=made.plan
        ),
        parallelism=1,
    )
    assert shelf_of(restored).calls == ["start", "knows ['x', 'y']", "add_reader 0", "complete 1"]


def test_splits_assigned_before_the_first_batch_are_part_of_it_S3_S46() -> None:
    """Splits can be assigned to every subtask from the start: a batch has as many subtasks as it needs."""

    class Eager(Shelf):
        def start(self) -> None:
            self.context.assign_split(Item(split_id="from start"), 1)

        def add_reader(self, subtask_id: int) -> None:
            self.context.assign_split(Item(split_id=f"hello {subtask_id}"), subtask_id)

    assert plan_ids(frozen(coordinator_of(Eager)).snapshot.plan) == {
        0: ["hello 0"],
        1: ["from start", "hello 1"],
    }


ALLOWED = {(item.state, item.call): item for item in CHECKPOINT_TRANSITIONS}


def test_the_table_has_each_transition_once_with_its_rule() -> None:
    assert len(ALLOWED) == len(CHECKPOINT_TRANSITIONS)
    assert all(item.rule for item in CHECKPOINT_TRANSITIONS)
    assert {item.call for item in CHECKPOINT_TRANSITIONS} == set(CheckpointCall) - {
        CheckpointCall.TRIGGER_OTHER, CheckpointCall.COMPLETE_EARLY, CheckpointCall.COMPLETE_UNSEEN,
    }  # fmt: skip


@pytest.mark.parametrize("cell", list(itertools.product(CheckpointState, CheckpointCall)), ids=str)
def test_a_call_changes_the_state_as_the_table_says_or_raises_a_protocol_error(
    cell: tuple[CheckpointState, CheckpointCall],
) -> None:
    if cell in ALLOWED:
        assert transition(*cell, "checkpoint 7") is ALLOWED[cell].next_state
    else:
        with pytest.raises(ProtocolError, match=re.escape(f"checkpoint 7: {cell[1].value!r} is not allowed")):
            transition(*cell, "checkpoint 7")
