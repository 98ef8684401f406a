"""Before a dry run is submitted later on, it is asked whether its edit would still do the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_source import edits
from flip27_source.edits.rechecks import differences
from flip27_source.edits.state_copy import StateCopy
from flip27_source.errors import EditError
from flip27_source.snapshots.locations import find_lineages
from tests.edits.edited import Edited, add_files, fed, files
from tests.edits.partitions import Unreadable, partitions, read


def different(source: Edited, plan: edits.EditPlan) -> list[str]:
    (lineage,) = find_lineages(source.state, {})
    return differences(plan, StateCopy(lineage, {}))


def test_nothing_is_different_at_once(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef")
    source.batch()
    for plan in (source.plan("replay", glob="*"), source.plan("skip", glob="*")):
        assert different(source, plan) == []


def test_that_the_query_has_read_on_is_no_difference(tmp_path: Path) -> None:
    source = partitions(tmp_path)
    plan = source.plan("set-position", glob="*", position={"next": 3})
    source.batch()
    assert different(source, plan) == []
    edits.submit(plan)
    assert read(source) == {f"orders/{number}": [3, 12] for number in range(3)}


def test_files_that_came_later_are_not_part_of_a_replay(tmp_path: Path) -> None:
    source = files(tmp_path, "abcd")
    source.batches()
    plan = source.plan("replay", glob="*")
    add_files(tmp_path, "ef")
    source.batches()
    assert different(source, plan) == []
    edits.submit(plan)
    assert sorted(name for batch in source.batches() for name in batch) == ["a", "b", "c", "d"]


def test_a_rewind_also_undoes_later_batches(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef")
    source.batch()
    source.batch()
    plan = source.plan("rewind", to_checkpoint=1)
    source.batch()
    assert different(source, plan) == []


def test_an_edit_that_was_applied_meanwhile_and_that_a_rewind_would_take_back_is_a_difference(
    tmp_path: Path,
) -> None:
    source = files(tmp_path, "abcdef")
    source.batch()
    source.batch()
    plan = source.plan("rewind", to_checkpoint=1)
    source.ask("skip", splits=[str(tmp_path / "in" / "f")])
    source.batches()
    other, said = different(source, plan)
    assert other == "another edit was submitted: skip by tester: a test"
    assert said.startswith("new: the edit skip of 1 splits (")
    assert said.endswith("/in/f) is taken back")


def test_a_split_that_was_read_meanwhile_cannot_be_skipped(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef")
    source.batch()
    third, last = (str(tmp_path / "in" / name) for name in "cf")
    plan = source.plan("skip", splits=[third, last])
    source.batch()
    assert different(source, plan) == [f"there is no split that waits to be read: {third}"]


def test_an_edit_that_was_submitted_meanwhile_is_named(tmp_path: Path) -> None:
    source = partitions(tmp_path)
    plan = source.plan("set-position", splits=["orders/0"], position={"next": 3})
    source.ask("set-position", splits=["orders/1"], position={"next": 3})
    assert different(source, plan) == ["another edit was submitted: set-position by tester: a test"]


def test_an_edit_that_was_applied_meanwhile_is_named(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef")
    source.batch()
    source.ask("skip", splits=[str(tmp_path / "in" / "f")])  # known, although it is applied only later
    plan = source.plan("replay", splits=[str(tmp_path / "in" / "a")])
    source.batch()
    assert different(source, plan) == []
    source.ask("replay", splits=[str(tmp_path / "in" / "a")])
    source.batches()
    assert different(source, plan) == ["another edit was submitted: replay by tester: a test"]


def test_a_partition_that_was_read_past_the_new_position_is_not_skipped_to_it(tmp_path: Path) -> None:
    source = partitions(tmp_path)
    plan = source.plan("set-position", splits=["orders/1"], position={"next": 25})
    source.batch()
    assert different(source, plan) == []
    source.batch()
    (said,) = different(source, plan)
    assert said.startswith("orders/1: continues at ")
    assert "; rows skipped, now: continues at " in said
    assert said.endswith("; rows read again: 5")


@pytest.mark.parametrize("operation", ["quarantine drop", "quarantine retry"])
def test_what_was_quarantined_meanwhile_under_the_same_id_is_a_difference(
    operation: str, tmp_path: Path
) -> None:
    source = partitions(tmp_path, Unreadable, onSplitError="quarantine", taskReports="always")
    plan = source.plan(operation, splits=["orders/0"])
    assert len(plan.changes) == 1
    assert different(source, plan) == []
    source.batch()
    source.batch()
    assert different(source, plan) == ["orders/0: 2 more are quarantined under this id"]


def test_a_split_that_an_edit_has_dropped_meanwhile_is_named(tmp_path: Path) -> None:
    source = fed(tmp_path)
    source.batch()
    plan = source.plan("replay", splits=["a", "b"])
    source.ask("replay", splits=["a"])
    said = different(source, plan)
    assert said[1:] == ["a: is read again as it was, now: is left alone: is not read yet"]


def test_a_checkpoint_that_was_cleaned_up_meanwhile_is_a_difference(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef")
    source.batches()
    plan = source.plan("rewind", to_checkpoint=1)
    (document,) = Path(source.state).glob("*/checkpoints/1-*")
    document.unlink()  # as clean-up does it
    assert different(source, plan) != []


def test_that_a_file_was_deleted_meanwhile_is_a_difference(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef", **{"cleanSource": "delete", "cleanSource.retentionDuration": "1h"})
    source.batch()
    source.batch()
    plan = source.plan("replay", splits=[str(tmp_path / "in" / "a")])
    source.engine.now_ms += 2 * 3600 * 1000
    source.batches()
    assert different(source, plan) == [
        "1 side effects (archive, delete) on data that is read again have happened meanwhile"
    ]


OPERATIONS = ("skip", "replay", "forget", "rewind")
MEANWHILE: dict[str, Callable[[Edited, Path], object]] = {
    "a batch": lambda source, _: source.batch(),
    "a file": lambda _, folder: add_files(folder, "z"),
    "a file again": lambda _, folder: add_files(folder, "a"),
    **{
        f"{operation} of {letter}": lambda source, folder, operation=operation, letter=letter: source.ask(
            operation, splits=[str(folder / "in" / letter)]
        )
        for operation in ("skip", "replay", "forget")
        for letter in "ad"
    },
    "a rewind": lambda source, _: source.ask("rewind", to_checkpoint=1),
}


@given(
    before=st.integers(1, 3),
    operation=st.sampled_from(OPERATIONS),
    letters=st.sampled_from(["*", "*[ad]", "*[cf]", "*z"]),
    meanwhile=st.lists(st.sampled_from(sorted(MEANWHILE)), max_size=4),
)
def test_an_edit_without_differences_does_exactly_what_its_dry_run_has_shown(
    before: int, operation: str, letters: str, meanwhile: list[str]
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        source = files(folder, "abcdef")
        for _ in range(before):
            source.batch()
        chosen = {"to_checkpoint": 1} if operation == "rewind" else {"glob": letters}
        with suppress(EditError):
            plan = source.plan(operation, **chosen)
            for what in meanwhile:
                with suppress(EditError):
                    MEANWHILE[what](source, folder)
            if different(source, plan) == []:
                submitted = edits.submit(plan)
                source.batch()
                (applied,) = (edit for edit in source.history() if edit["request_id"] == submitted)
                shown = {item.split_id for item in plan.changes if not item.is_left_alone}
                assert applied["refused"] is None
                assert shown <= set(applied["split_ids"])
                assert operation == "rewind" or applied["left_alone"] == {}
                assert operation == "rewind" or shown == set(applied["split_ids"])
        source.engine.stop()
