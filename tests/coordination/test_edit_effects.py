"""The effects of each edit on a state, tested on plain values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_source.coordination.actions import PendingAction
from flip27_source.coordination.checkpoints import (
    CheckpointMetadata,
    LedgerState,
    QuarantinedSplit,
    Snapshot,
    WaitingSplit,
)
from flip27_source.coordination.edit_effects import Edited, Editing
from flip27_source.coordination.packing import Plan
from flip27_source.coordination.split_rules import SplitRules
from flip27_source.discovery import DiscoveringState
from flip27_source.enumerator_mixins import HoldsSplits
from flip27_source.enumerators.files.cleaning import CleanFile, PartlyRead
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.position import FilesPosition
from flip27_source.enumerators.files.seen_files.hashes import path_hash
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import EditError
from flip27_source.options import Options
from flip27_source.segment import Segment
from tests.driver.test_action_runner import Archives
from tests.toy_sources import Item, Shelf, all_ids, coordinator_of, freeze, items


def editing(kind: Any = Shelf, *, reader_bounds_splits: bool = False) -> Editing[Item]:
    rules: SplitRules[Item] = SplitRules(enumerator_type=kind, reader_bounds_splits=reader_bounds_splits)
    return Editing(rules=rules, options=Options.parse({}, ()))


def standing(
    *, live: Sequence[Item] = (), waiting: Sequence[Item] = (), aside: Sequence[Item] = (), **more: Any
) -> Snapshot[Item]:
    """A state between two batches, after checkpoint 7."""
    ledger = LedgerState(
        live=tuple(live),
        waiting=tuple(WaitingSplit(split=split, subtask_id=None) for split in waiting),
        quarantined=tuple(
            QuarantinedSplit(split=split, checkpoint_id=3, attempts=1, error="burns") for split in aside
        ),
        finished=10,
    )
    metadata = CheckpointMetadata(checkpoint_id=7, timestamp_ms=0)
    return Snapshot(metadata=metadata, enumerator_state=[], ledger=ledger, plan=Plan(), **more)


def names(edited: Edited[Item]) -> dict[str, list[str]]:
    ledger = edited.snapshot.ledger
    return {
        "live": [split.split_id for split in ledger.live],
        "waiting": [item.split.split_id for item in ledger.waiting],
        "aside": [item.split.split_id for item in ledger.quarantined],
    }


def test_replayed_splits_are_queued_first_and_no_longer_count_as_finished() -> None:
    edited = editing().replay(standing(waiting=items("x")), items("a", "b"))
    assert names(edited)["waiting"] == ["a", "b", "x"]
    assert edited.snapshot.ledger.finished == 8


def test_waiting_and_quarantined_splits_are_not_replayed() -> None:
    edited = editing().replay(standing(waiting=items("a"), aside=items("b")), items("a", "b", "c"))
    assert edited.changed == ("c",)
    assert edited.left_alone == {"a": "is not read yet", "b": "is quarantined: use quarantine retry"}


def test_the_later_version_of_a_split_that_was_read_twice_is_replayed() -> None:
    old, new = Item(split_id="a", rows=1), Item(split_id="a", rows=2)
    edited = editing().replay(standing(), [old, new])
    assert [item.split for item in edited.snapshot.ledger.waiting] == [new]


def test_a_split_that_the_reader_bounds_is_replayed_from_the_earliest_position() -> None:
    early, late, now = (Item(split_id="a", rows=rows) for rows in (1, 2, 3))
    edited = editing(reader_bounds_splits=True).replay(standing(live=[now]), [early, late])
    assert edited.snapshot.ledger.live == (early,)
    assert edited.snapshot.ledger.finished == 10


def test_a_quarantined_split_is_retried_and_the_other_one_stays_quarantined() -> None:
    edited = editing().retry(standing(aside=items("a", "b")), ["a", "z"])
    assert names(edited) == {"live": [], "waiting": ["a"], "aside": ["b"]}
    assert edited.left_alone == {"z": "is not quarantined"}


def test_two_ranges_of_one_split_are_retried_one_after_the_other() -> None:
    edited = editing().retry(standing(aside=items("a", "a")), ["a"])
    assert names(edited) == {"live": [], "waiting": ["a"], "aside": ["a"]}
    again = editing().retry(edited.snapshot, ["a"])
    assert (again.changed, again.left_alone) == ((), {"a": "is not read yet"})


def test_a_skipped_split_and_its_assignment_to_a_subtask_are_removed() -> None:
    state = standing(live=items("a", "b"), waiting=items("c"))
    state = replace(state, ledger=replace(state.ledger, pins={"a": 1, "b": 0}))
    edited = editing().skip(state, ["c", "a", "z"])
    assert names(edited) == {"live": ["b"], "waiting": [], "aside": []}
    assert edited.snapshot.ledger.pins == {"b": 0}
    assert (edited.changed, list(edited.left_alone)) == (("c", "a"), ["z"])
    assert "Shelf is not a HoldsSplits" in edited.left_alone["z"]


def test_an_error_names_an_enumerator_that_cannot_forget_splits() -> None:
    with pytest.raises(EditError, match="Shelf cannot forget splits: it is not a ForgetsSplits"):
        editing().forget(standing(), ["a"])


def test_a_position_may_not_change_the_id_of_a_split() -> None:
    with pytest.raises(EditError, match="the id of a split cannot change"):
        editing().set_position(standing(live=items("a")), ["a"], lambda _: Item(split_id="b"))


def due(checkpoint_id: int) -> PendingAction:
    return PendingAction(action=f"archive {checkpoint_id}", due_checkpoint_id=checkpoint_id)


def test_a_rewind_keeps_the_actions_that_were_pending_at_the_older_checkpoint_and_the_current_id() -> None:
    present = standing(actions=(due(3), due(4), due(7)))
    metadata = CheckpointMetadata(checkpoint_id=3, timestamp_ms=5)
    older = replace(standing(live=items("a"), actions=(due(2), due(3))), metadata=metadata)
    edited = editing(Archives).rewind(present, older, (), 3)
    assert edited.snapshot.metadata.checkpoint_id == 7
    assert [item.due_checkpoint_id for item in edited.snapshot.actions] == [3, 2]
    assert (names(edited)["live"], edited.dropped_actions) == (["a"], 2)


def test_a_replay_drops_all_actions_if_the_enumerator_does_not_say_which_splits_they_affect() -> None:
    edited = editing(Archives).replay(standing(actions=(due(3), due(4))), items("a"))
    assert (edited.snapshot.actions, edited.dropped_actions) == ((), 2)


def test_a_replay_keeps_all_actions_if_no_split_is_read_again() -> None:
    edited = editing(Archives).replay(standing(waiting=items("a"), actions=(due(3),)), items("a"))
    assert edited.dropped_actions == 0


class Holds(HoldsSplits, Shelf):
    """A shelf that can list the splits in its state and remove some of them."""

    @classmethod
    def splits_in(cls, state: list[Item]) -> list[Item]:
        return state

    @classmethod
    def without_splits(cls, state: list[Item], split_ids: Collection[str]) -> list[Item]:
        return [item for item in state if item.split_id not in split_ids]


PLACES = ("live", "waiting", "aside", "held", "nowhere")
IDS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True)
EDITS = st.tuples(st.sampled_from(["skip", "replay", "retry", "drop"]), IDS)


def where(snapshot: Snapshot[Item]) -> list[str]:
    ledger = snapshot.ledger
    aside = [item.split for item in ledger.quarantined]
    waiting = [item.split for item in ledger.waiting]
    return [split.split_id for split in (*ledger.live, *waiting, *aside, *snapshot.enumerator_state)]


@given(
    places=st.lists(st.sampled_from(PLACES), min_size=5, max_size=5),
    asked=st.lists(EDITS, max_size=6),
    reader_bounds_splits=st.booleans(),
)
def test_after_any_edits_a_split_is_in_one_place_at_most_and_a_coordinator_can_continue(
    places: list[str], asked: list[tuple[str, list[str]]], reader_bounds_splits: bool
) -> None:
    at: dict[str, list[Item]] = {place: [] for place in PLACES}
    for name, place in zip("abcde", places, strict=True):
        at[place] += items(name)
    snapshot = replace(
        standing(live=at["live"], waiting=at["waiting"], aside=at["aside"]), enumerator_state=at["held"]
    )
    source = editing(Holds, reader_bounds_splits=reader_bounds_splits)
    for operation, ids in asked:
        edited = getattr(source, operation)(snapshot, items(*ids) if operation == "replay" else ids)
        assert sorted([*edited.changed, *edited.left_alone]) == sorted(ids)
        snapshot = edited.snapshot
        assert len(where(snapshot)) == len(set(where(snapshot)))
    to_be_read = replace(snapshot, ledger=replace(snapshot.ledger, quarantined=()))
    planned = freeze(coordinator_of(Holds, restored=to_be_read))
    assert ([] if planned is None else all_ids(planned.snapshot.plan)) == sorted(where(to_be_read))


FILES: Editing[Any] = Editing(
    rules=SplitRules(enumerator_type=FilesEnumerator), options=Options.parse({}, FilesEnumerator.options)
)


def known_file(*partly_read: PartlyRead, waiting: Sequence[FileSplit] = (), **more: Any) -> Snapshot[Any]:
    """A state that knows the file /a."""
    seen = (Segment.of("seen", path_hash("/a")),)
    position = FilesPosition(seen=seen, files=1, partly_read=partly_read)
    state: DiscoveringState[Any] = DiscoveringState(position=position, pages=())
    given: Any = waiting
    return replace(standing(waiting=given, **more), enumerator_state=state)


def part(start: int, end: int | None) -> FileSplit:
    return FileSplit(path="/a", length=24, modified_us=1, start=start, end=end)


@pytest.mark.parametrize("is_due", [False, True], ids=["partly read", "due to be cleaned"])
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_file_is_cleaned_only_after_its_replayed_ranges_were_read_again(
    is_due: bool, is_whole: bool
) -> None:
    """Otherwise the file would be gone while a range that cannot be read again is quarantined."""
    action = CleanFile(path="/a", length=24, modified_us=1, is_whole=is_whole)
    due_to_be_cleaned = PendingAction(action=action, due_checkpoint_id=7)
    read = PartlyRead(path="/a", modified_us=1, ranges=((0, 24),), length=24)
    state = known_file(actions=(due_to_be_cleaned,)) if is_due else known_file(read)
    edited = FILES.replay(state, [part(0, 5), part(10, 15)])
    assert edited.snapshot.enumerator_state.position.partly_read == (
        replace(read, ranges=((5, 10), (15, 24))),
    )
    assert edited.dropped_actions == int(is_due)


WHOLE = (0, None)


@pytest.mark.parametrize(
    ("waiting", "asked", "again"),
    [
        ([], [(0, 8), (8, 16), (16, None), WHOLE], [WHOLE]),
        ([], [(0, 8), (8, 16), (0, 12), (16, None), (12, None)], [(0, 12), (12, None)]),
        ([WHOLE], [(0, 8), (16, None)], []),
        ([(0, 8)], [WHOLE, (8, 16)], [(8, 16)]),
    ],
)
def test_a_replay_reads_no_byte_of_a_file_twice(waiting: Any, asked: Any, again: Any) -> None:
    before = [part(*bounds) for bounds in waiting]
    edited = FILES.replay(known_file(waiting=before), [part(*bounds) for bounds in asked])
    now = [item.split for item in edited.snapshot.ledger.waiting]
    assert now == [*(part(*bounds) for bounds in again), *before]
    assert all(why.startswith("overlaps /a") for why in edited.left_alone.values())
    assert len(edited.left_alone) == len(asked) - len(again)


def test_a_split_of_which_a_range_waits_to_be_read_again_is_not_moved() -> None:
    state = standing(live=items("a", "b"))
    state = replace(state, ledger=replace(state.ledger, ranges=items("a")))
    edited = editing().set_position(state, ["a", "b"], lambda split: replace(split, rows=5))
    assert edited.changed == ("b",)
    assert "a range of it waits to be read again" in edited.left_alone["a"]
    assert edited.snapshot.ledger.live == (Item(split_id="a"), Item(split_id="b", rows=5))


def test_a_split_that_is_at_the_position_already_is_left_alone() -> None:
    edited = editing().set_position(standing(live=items("a")), ["a"], lambda split: split)
    assert (edited.changed, edited.left_alone) == ((), {"a": "is at this position"})
