"""The status of a split is what the newest state says, whatever older batches did with the split."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from flip27_source import edits
from flip27_source.edits.selection import planned
from flip27_source.edits.state_copy import StateCopy
from flip27_source.snapshots.locations import find_lineages
from flip27_source.state_tables.predicates import EVERYTHING
from flip27_source.state_tables.split_rows import file_rows, quarantine_rows, split_rows
from tests.driver.test_reports import SERVER
from tests.edits.edited import IDS, Edited, add_files, files
from tests.edits.test_application import paged


def statuses(source: Edited, *, counts: bool = True) -> dict[str, str]:
    """The status of each split, by the last part of its id, once it is compared with everything else.

    Args:
        counts: whether the ledger counts as finished what the view shows so: a split that is forgotten is
            counted twice once it is read again, and one that is skipped is not counted again.
    """
    (lineage,) = find_lineages(source.state, {})
    copy = StateCopy(lineage, {})
    rows = list(split_rows(copy.history, EVERYTHING))
    shown = {row["split_id"]: row["status"] for row in rows}
    assert len(rows) == len(shown)

    def are(*wanted: str) -> set[str]:
        return {split_id for split_id, status in shown.items() if status in wanted}

    ledger = copy.standing.ledger
    waiting = {item.split.split_id for item in ledger.waiting} - copy.unreported
    held = {split.split_id for split in copy.unassigned()} & shown.keys()
    quarantined = {item.split.split_id for item in ledger.quarantined}
    assert are("quarantined") == quarantined
    assert {row["split_id"] for row in quarantine_rows(copy.history, EVERYTHING)} == quarantined
    assert are("live") == {split.split_id for split in ledger.live}
    assert are("waiting") == waiting | held
    if counts:
        assert len(are("finished", "planned")) == ledger.finished
    candidates = planned(copy, EVERYTHING, without=frozenset())
    in_edits = newest((item.split_id, item.now) for item in candidates)
    in_files = newest((row["split_id"], row["status"]) for row in file_rows(copy.history, EVERYTHING))
    if ledger.live:
        return shown  # each batch has a status of its own
    assert {name: shown[name] for name in in_edits.keys() - waiting - held} == {
        name: status for name, status in in_edits.items() if name not in waiting | held
    }
    assert {name: shown[name] for name in in_files.keys() - held} == {
        name: status for name, status in in_files.items() if name not in held
    }
    return {Path(split_id).name: status for split_id, status in shown.items()}


def newest(statuses: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The last status of each split, if possible one of a batch that no rewind has undone."""
    found: dict[str, str] = {}
    for split_id, status in statuses:
        if status != "undone" or split_id not in found:
            found[split_id] = status
    return found


def poisoned(folder: Path, names: str, bad: Collection[str] = "c", **options: str) -> Edited:
    """A query on files of JSON of which some cannot be read; it reads two in a batch."""
    add_files(folder, "")
    for name in names:
        land(folder, name, "{" if name in bad else f'{{"id": "{name}"}}')
    format_ = {"path": str(folder / "in"), "enumerator": "files", "reader": "json", "mode": "FAILFAST"}
    limits = {"maxFilesPerTrigger": "2", "maxSplitAttempts": "1"}
    return Edited(folder, {**format_, **limits, **options}, schema=IDS)


def land(folder: Path, name: str, text: str) -> None:
    (folder / "in" / name).write_text(text)
    os.utime(folder / "in" / name, (1_000_000 + ord(name),) * 2)


def test_a_dropped_split_is_not_shown_as_quarantined_and_can_be_forgotten(tmp_path: Path) -> None:
    source = poisoned(tmp_path, "abcdef", onSplitError="quarantine")
    source.batches()
    assert statuses(source)["c"] == "quarantined"
    source.ask("quarantine drop", glob="*")
    assert source.batches() == [[]]
    assert statuses(source)["c"] == "dropped"
    with pytest.raises(Exception, match="no split that a retained batch has read"):
        source.plan("replay", glob="*/c")
    land(tmp_path, "c", '{"id": "repaired"}')
    assert [change.now for change in source.plan("forget", glob="*/c").changes] == ["dropped"]
    source.ask("forget", glob="*/c")
    source.batches()
    assert statuses(source)["c"] == "planned"
    land(tmp_path, "g", '{"id": "g"}')
    source.batches()
    assert statuses(source)["c"] == "finished"


def test_a_split_that_is_tried_again_has_the_status_of_the_retry(tmp_path: Path) -> None:
    source = poisoned(tmp_path, "abcdef", onSplitError="quarantine")
    source.batches()
    source.ask("quarantine retry", glob="*")
    source.batch()
    assert statuses(source)["c"] == "quarantined"
    land(tmp_path, "g", '{"id": "g"}')
    source.batches()
    assert statuses(source)["c"] == "quarantined"
    source.ask("quarantine retry", glob="*")
    source.engine.restart(options={"mode": "PERMISSIVE"})
    source.batches()
    assert statuses(source)["c"] == "planned"
    land(tmp_path, "h", '{"id": "h"}')
    source.batches()
    assert set(statuses(source).values()) == {"finished", "planned"}
    plan = source.plan("rewind", to_checkpoint=3)
    assert {change.split_id[-1]: change.then for change in plan.changes}["c"] == "is quarantined again"
    assert "the edit quarantine retry of 1 splits" in "".join(plan.notes)
    edits.submit(plan)
    source.batch()
    assert statuses(source)["c"] == "quarantined"


def test_splits_that_a_rewind_has_undone_are_not_finished_until_they_are_read_again(tmp_path: Path) -> None:
    source = poisoned(tmp_path, "ab", onSplitError="quarantine")
    source.batch()
    for name in "cdef":
        land(tmp_path, name, "{" if name == "c" else f'{{"id": "{name}"}}')
    source.batches()
    assert statuses(source)["f"] == "planned"
    (tmp_path / "in" / "d").unlink()
    source.ask("rewind", to_checkpoint=1)
    found = []
    while source.batch() is not None:
        found.append([status for _, status in sorted(statuses(source).items())])
    assert found == [
        ["finished", "finished", "quarantined", "undone", "planned", "waiting"],
        ["finished", "finished", "quarantined", "undone", "finished", "planned"],
    ]
    (target,) = (tmp_path / "state").glob("*/checkpoints/1-*")
    document = target.read_bytes()
    target.unlink()  # as clean-up does it
    assert statuses(source, counts=False)["d"] == "undone"
    target.write_bytes(document)
    source.ask("rewind", to_checkpoint=2)
    source.batch()
    assert statuses(source)["d"] == "finished"


@pytest.mark.parametrize("operation", ["replay", "forget"])
def test_an_ignored_split_that_was_read_since_has_one_row(operation: str, tmp_path: Path) -> None:
    source = poisoned(tmp_path, "abc", onSplitError="ignore")
    source.batches()
    assert statuses(source)["c"] == "ignored"
    if operation == "forget":
        land(tmp_path, "c", '{"id": "repaired"}')
    source.ask(operation, glob="*/c")
    source.engine.restart(options={"mode": "PERMISSIVE"})
    source.batches()
    assert statuses(source)["c"] == "planned"
    land(tmp_path, "d", '{"id": "d"}')
    source.batches()
    assert statuses(source)["c"] == "finished"


def test_a_skipped_split_is_as_its_last_batch_left_it_and_a_replayed_one_is_planned(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef")
    source.batch()
    source.ask("replay", glob="*/[ab]")
    source.ask("skip", glob="*/[bd]")
    source.batch()
    shown = statuses(source, counts=False)
    assert (shown["a"], shown["b"], "d" in shown) == ("planned", "finished", False)


def test_a_batch_whose_missing_reports_were_no_error_has_returned_its_splits(tmp_path: Path) -> None:
    source = files(tmp_path, "ab", onSplitError="quarantine", onMissingReport="repeat")
    source.engine.trigger()
    for task in source.engine.partitions():
        rows = source.engine.attempt(task)
        next(rows)
        rows.close()
    source.engine.finish([])
    assert set(statuses(source).values()) == {"planned"}
    add_files(tmp_path, "c")
    source.batches()
    (lineage,) = find_lineages(source.state, {})
    history = StateCopy(lineage, {}).history
    of_first = [row["status"] for row in file_rows(history, EVERYTHING) if row["checkpoint_id"] == 1]
    assert of_first == ["returned", "returned"]
    assert set(statuses(source).values()) <= {"planned", "finished"}


def test_a_live_split_is_live_after_it_was_moved_or_rewound(tmp_path: Path) -> None:
    SERVER.clear()
    SERVER["orders"] = list("abcd")
    source = paged(tmp_path)
    source.batch()
    SERVER["orders"] += ["e"]
    source.batch()
    for edit in ({"operation": "rewind", "to_checkpoint": 1}, {"operation": "replay", "glob": "*"}):
        source.ask(**edit)
        source.batch()
        assert statuses(source, counts=False) == {"orders": "live"}


def test_the_status_is_that_of_the_newest_state_if_only_an_older_checkpoint_is_wanted(tmp_path: Path) -> None:
    source = poisoned(tmp_path, "abcd", onSplitError="quarantine")
    source.batches()
    source.ask("replay", glob="*/a")
    source.batch()
    (lineage,) = find_lineages(source.state, {})
    rows = split_rows(StateCopy(lineage, {}).history, EVERYTHING.narrowed("checkpoint_id", "=", [1]))
    assert {Path(row["split_id"]).name: row["status"] for row in rows} == {"a": "planned", "b": "finished"}
