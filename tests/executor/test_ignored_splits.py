"""Splits that options leave out: counted and listed, decided once, with all of their rows or none."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flip27_source.coordination.ledger import IGNORED_LISTED
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.errors import AccessError, AttemptError, DataLossError, SplitReadError
from flip27_source.events import Progress
from flip27_source.reader import SplitReader, YieldsProgress
from flip27_source.readers.text import TextReader
from flip27_source.source import Source
from flip27_source.testing.spark_query import BatchRead
from tests.driver.batches import SCHEMA, Batches, InlineBatches
from tests.state_tables.test_views import rows as rows_of_view
from tests.toy_sources import Item, Shelf


def files_at(folder: Path, **options: str) -> Batches:
    """A bounded query that reads the files of a folder line by line."""
    given = {"path": str(folder), "parallelism": "1", "stateLocation": "memory://unused", **options}
    return Batches(FilesEnumerator, TextReader, given, boundedness=Boundedness.BOUNDED)


def lines(batches: Batches, *, attempt: int = 0) -> list[str]:
    """The lines that one attempt of the only task reads."""
    (task,) = batches.tasks()
    return [line for column in batches.attempt(task, attempt) for line in column.to_pylist()]


def whole_batch(batches: Batches) -> list[str]:
    assert batches.trigger()
    found = lines(batches)
    batches.commit()
    return found


def land(folder: Path, **lines: str) -> None:
    for name, line in lines.items():
        (folder / f"{name}.txt").write_text(line + "\n")


def cut_off(path: Path, lines: int = 1000) -> Path:
    whole = gzip.compress("".join(f"line {number}\n" for number in range(lines)).encode())
    path.write_bytes(whole[: len(whole) * 3 // 4])
    return path


def test_a_missing_file_is_left_out_counted_and_listed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    land(tmp_path, a="1", b="2", c="3")
    batches = files_at(tmp_path, ignoreMissingFiles="true")
    batches.trigger()
    (tmp_path / "b.txt").unlink()
    assert lines(batches) == ["1", "3"]
    batches.commit()
    land(tmp_path, d="4")
    batches.restart()
    with caplog.at_level(logging.WARNING, "flip27_source"):
        assert whole_batch(batches) == ["4"]
    told = f"split {tmp_path}/b.txt could not be read and was skipped: FileMissingError: {tmp_path}/b.txt"
    assert f"checkpoint 1: {told} no longer exists" in caplog.text
    ledger = batches.snapshot().ledger
    assert (ledger.ignored_count, [item.split.path for item in ledger.ignored]) == (1, [f"{tmp_path}/b.txt"])
    assert (ledger.finished, ledger.quarantined) == (3, ())
    assert batches.logged["summary"]["ignoredSplits"] == 1
    assert (batches.holder.report() or {})["ignoredSplits"] == 1


@pytest.mark.parametrize("given", ["onDataLoss=report", "onSplitError=quarantine", "ignoreMissingFiles=true"])
@pytest.mark.parametrize("path", ["in", "in/*.txt"])
def test_files_whose_folder_is_gone_are_read_once_it_is_back(tmp_path: Path, path: str, given: str) -> None:
    (tmp_path / "in").mkdir()
    land(tmp_path / "in", a="1", b="2")
    batches = files_at(tmp_path / path, **dict([given.split("=")]))
    batches.trigger()
    (tmp_path / "in").rename(tmp_path / "unmounted")
    with pytest.raises(AccessError, match=rf"its folder {tmp_path}/in is not there"):
        lines(batches)
    (tmp_path / "unmounted").rename(tmp_path / "in")
    assert lines(batches) == ["1", "2"]


def test_files_that_were_left_out_are_in_the_views_of_splits_and_files(tmp_path: Path) -> None:
    land(tmp_path, a="1", b="2")
    batches = files_at(tmp_path, ignoreMissingFiles="true")
    batches.trigger()
    (tmp_path / "b.txt").unlink()
    lines(batches)
    batches.commit()
    for view in ("splits", "files"):
        found = {row["split_id"]: row["status"] for row in rows_of_view(view, batches)}
        assert found == {f"{tmp_path}/a.txt": "planned", f"{tmp_path}/b.txt": "ignored"}
    land(tmp_path, c="3")
    batches.restart()
    whole_batch(batches)
    (row,) = [row for row in rows_of_view("splits", batches) if row["status"] == "ignored"]
    assert (row["split_id"], row["attempts"]) == (f"{tmp_path}/b.txt", 3)
    assert "no longer exists" in row["error"]
    assert [row["ignored"] for row in rows_of_view("checkpoints", batches)] == [0, 1]


def test_a_file_that_was_left_out_stays_left_out_although_it_exists_again_R5(tmp_path: Path) -> None:
    land(tmp_path, a="1", b="2")
    batches = files_at(tmp_path, ignoreMissingFiles="true")
    batches.trigger()
    (tmp_path / "b.txt").unlink()
    assert lines(batches) == ["1"]
    land(tmp_path, b="2")
    assert lines(batches, attempt=1) == ["1"]
    batches.restart()
    assert lines(batches) == ["1"]


def test_a_file_that_was_lost_before_its_rows_were_delivered_is_not_deleted(tmp_path: Path) -> None:
    (landing := tmp_path / "landing").mkdir()
    land(landing, a="1", b="2")
    options = {"path": str(landing), "parallelism": "1", "onDataLoss": "report", "cleanSource": "delete"}
    batches = InlineBatches(FilesEnumerator, TextReader, options, boundedness=Boundedness.BOUNDED)
    batches.trigger()
    assert lines(batches) == ["1", "2"]
    (landing / "b.txt").rename(tmp_path / "b.txt")
    batches.restart()
    assert lines(batches) == ["1"]
    batches.commit()
    (tmp_path / "b.txt").rename(landing / "b.txt")
    assert not batches.trigger()
    assert [path.name for path in landing.iterdir()] == ["b.txt"]


@pytest.mark.parametrize(
    "options", [{"ignoreMissingFiles": "true"}, {"onSplitError": "ignore"}, {"onSplitError": "quarantine"}]
)
def test_a_file_that_was_read_once_is_required_when_the_batch_is_repeated_R5(
    tmp_path: Path, options: dict[str, str]
) -> None:
    land(tmp_path, a="1", b="2")
    batches = files_at(tmp_path, **options)
    batches.trigger()
    assert lines(batches) == ["1", "2"]
    (tmp_path / "b.txt").unlink()
    batches.restart()
    said = r"b.txt no longer exists \(the attempt that reported first has read it\)(?s:.*)onDataLoss=report"
    with pytest.raises(DataLossError, match=said):
        lines(batches)
    land(tmp_path, b="2")
    assert lines(batches) == ["1", "2"]


def test_a_file_that_was_read_once_is_required_although_it_is_damaged_now_R5(tmp_path: Path) -> None:
    (tmp_path / "b.gz").write_bytes(whole := gzip.compress(b"1\n2\n"))
    batches = files_at(tmp_path, onSplitError="quarantine")
    batches.trigger()
    assert lines(batches) == ["1", "2"]
    (tmp_path / "b.gz").write_bytes(bytes(len(whole)))
    batches.restart()
    with pytest.raises(AttemptError, match=r"has read split '.*b.gz', and this attempt cannot read it: "):
        lines(batches)


@pytest.mark.parametrize(
    ("options", "in_the_state"),
    [
        ({"onSplitError": "quarantine"}, ("quarantined", "quarantined")),
        ({"onSplitError": "quarantine", "ignoreMissingFiles": "true"}, ("quarantined", "ignored")),
        ({"onSplitError": "quarantine", "ignoreCorruptFiles": "true"}, ("ignored", "quarantined")),
        ({"onSplitError": "ignore"}, ("ignored", "ignored")),
        ({"ignoreCorruptFiles": "true", "ignoreMissingFiles": "true"}, ("ignored", "ignored")),
    ],
    ids=str,
)
def test_the_option_for_one_error_takes_precedence_over_the_option_for_all_errors(
    tmp_path: Path, options: dict[str, str], in_the_state: tuple[str, str]
) -> None:
    cut_off(tmp_path / "damaged.gz")
    land(tmp_path, gone="1", good="2")
    batches = files_at(tmp_path, **options)
    batches.trigger()
    (tmp_path / "gone.txt").unlink()
    assert lines(batches) == ["2"]
    status = {Path(row["path"]).stem: row["status"] for row in rows_of_view("files", batches)}
    assert (status["damaged"], status["gone"]) == in_the_state


def test_a_large_damaged_file_fails_its_task_once_and_is_then_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is too large to be held back: some of its rows are delivered before the damage is found."""
    monkeypatch.setattr("flip27_source.executor.quarantine.BUFFERED_BYTES", 1)
    cut_off(tmp_path / "damaged.gz", 3_000_000)
    land(tmp_path, good="2")
    batches = files_at(tmp_path, ignoreCorruptFiles="true")
    batches.trigger()
    with pytest.raises(SplitReadError, match="truncated or damaged"):
        lines(batches)
    assert lines(batches, attempt=1) == ["2"]


def test_only_the_latest_left_out_splits_are_kept_by_name_but_all_are_counted(tmp_path: Path) -> None:
    many = {f"{number:03}": str(number) for number in range(IGNORED_LISTED + 5)}
    land(tmp_path, **many)
    batches = files_at(tmp_path, onSplitError="ignore", maxSplitAttempts="1")
    batches.trigger()
    for path in tmp_path.iterdir():
        path.unlink()
    assert lines(batches) == []
    batches.commit()
    land(tmp_path, later="1")
    batches.restart()
    whole_batch(batches)
    ledger = batches.snapshot().ledger
    assert ledger.ignored_count == len(many)
    assert len(ledger.ignored) == IGNORED_LISTED
    assert batches.snapshot().ledger.finished == 1


class BrokenFeed(YieldsProgress, SplitReader[Item]):
    """Reads pages of one row; the pages of b cannot be read."""

    def read(self, split: Item) -> Iterator[Any]:
        if split.split_id == "b":
            raise OSError("no such feed")
        yield (split.split_id,)
        yield Progress(None)


def test_a_split_that_the_reader_bounds_is_left_out_for_good_too() -> None:
    batches = Batches(Shelf, BrokenFeed, {"onSplitError": "ignore", "maxSplitAttempts": "2"})
    batches.shelve("a", "b", "c")
    assert sorted(batches.batch() or []) == ["a", "c"]
    batches.restart()
    batches.shelve("d")
    assert batches.batch() == ["d"]
    ledger = batches.snapshot().ledger
    assert [(item.split.split_id, item.attempts) for item in ledger.ignored] == [("b", 2)]
    assert [split.split_id for split in ledger.live] == ["d"]


@pytest.mark.parametrize("held_back_bytes", [1, 64 << 20])
def test_a_batch_read_leaves_files_out_too_with_all_of_their_rows(
    tmp_path: Path, held_back_bytes: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("flip27_source.executor.quarantine.BUFFERED_BYTES", held_back_bytes)
    cut_off(tmp_path / "damaged.gz", 3_000_000)
    land(tmp_path, good="2")
    options = {"path": str(tmp_path), "ignoreCorruptFiles": "true"}
    source = Source.resolve(options, enumerator=FilesEnumerator, reader=TextReader)
    assert BatchRead(source, SCHEMA).plan().rows() == [("2",)]
    assert "damaged.gz cannot be read and is ignored" in caplog.text
